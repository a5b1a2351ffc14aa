/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The conformance test of the fabric with all processes communicating by verbs. Skipped where there
 * is no RDMA device.
 *
 * TEST: sources=@fabric,@verbs,test/unit/conform.c,test/unit/conform_messages.c,test/unit/conform_peers.c,test/unit/conform_rma.c,test/unit/conform_users.c variants=asan,tsan cflags=-DFAB_HAVE_VERBS=1 ldflags=-libverbs device=tmdev timeout=600 quick=no
 */
#include "conform.h"

int main(int argc, char **argv)
{
    return conform_main(argc, argv, "verbs");
}
