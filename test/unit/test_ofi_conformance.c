/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The conformance test of the fabric over libfabric, its simplest provider for TCP.
 *
 * TEST: sources=@fabric,@ofi,test/unit/conform.c,test/unit/conform_messages.c,test/unit/conform_peers.c,test/unit/conform_rma.c,test/unit/conform_users.c variants=asan cflags=-DFAB_HAVE_OFI=1 ldflags=-lfabric needs=libfabric-1.15 timeout=600 quick=no
 */
#define CONFORM_OFI "net,tcp"
#include "conform_ofi.h"
