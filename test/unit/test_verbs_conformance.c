/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The conformance test of the fabric with all processes talking by verbs. Skipped where there is no
 * RDMA device.
 *
 * TEST: sources=@fabric,@verbs variants=asan,tsan cflags=-DFAB_HAVE_VERBS=1 ldflags=-libverbs device=tmdev timeout=600 quick=no
 */
#define WORLD_PROVIDERS "verbs"

#include "test_fab_conformance.c"
