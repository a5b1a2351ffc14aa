/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The conformance test of the fabric over libfabric, its simplest provider for TCP.  A short run
 * (test/run --short) has half of the tests, by turns.
 *
 * TEST: sources=@fabric,@ofi,test/unit/conform.c,test/unit/conform_messages.c,test/unit/conform_peers.c,test/unit/conform_rma.c,test/unit/conform_users.c variants=asan cflags=-DFAB_HAVE_OFI=1 ldflags=-lfabric needs=libfabric-1.15 timeout=600 quick=no
 */
#include "conform_ofi.h"

/* Half of the tests, by the time they take: those with an e in their names, or the others. */
#define HALF "test_*e*"

int main(int argc, char **argv)
{
    char *with[] = {argv[0], (char *) (uintptr_t) HALF, NULL};
    const int turn = argc > 1 ? -1 : conform_turn(2);

    fab_params.ofi_provider = (char *) (uintptr_t) "net,tcp";
    if (0 == turn) {
        return conform_main(2, with, "ofi");
    }
    cmocka_set_skip_filter(1 == turn ? HALF : NULL);
    return conform_main(argc, argv, "ofi");
}
