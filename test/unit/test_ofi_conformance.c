/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The conformance test of the fabric over libfabric, its simplest provider for TCP.  libfabric is
 * not built with the thread sanitizer: what its own threads and locks do is not seen, and threads
 * that libraries of its providers leave do not count.
 *
 * TEST: sources=@fabric,@ofi,test/unit/conform.c,test/unit/conform_messages.c,test/unit/conform_peers.c,test/unit/conform_rma.c,test/unit/conform_users.c variants=asan,tsan cflags=-DFAB_HAVE_OFI=1 ldflags=-lfabric needs=libfabric-1.15 timeout=600 quick=no env=TSAN_OPTIONS=halt_on_error=1:report_thread_leaks=0
 */
#define CONFORM_OFI "net,tcp"
#include "conform_ofi.h"
