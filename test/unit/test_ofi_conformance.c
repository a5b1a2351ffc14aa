/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The conformance test of the fabric with all processes communicating by libfabric, over the
 * provider that TM_TEST_OFI names.  Skipped where libfabric has it not.
 *
 * TEST: sources=@fabric,@ofi,test/unit/conform.c,test/unit/conform_messages.c,test/unit/conform_peers.c,test/unit/conform_rma.c,test/unit/conform_users.c variants=asan cflags=-DFAB_HAVE_OFI=1 ldflags=-lfabric needs=rdma/fabric.h timeout=600 quick=no
 */
#include "conform.h"

/* What libfabric itself leaves. */
FAB_EXPORT const char *__lsan_default_suppressions(void);

const char *__lsan_default_suppressions(void)
{
    return "leak:libfabric.so";
}

int main(int argc, char **argv)
{
    char *provider = getenv("TM_TEST_OFI");

    fab_params.ofi_provider = NULL != provider ? provider : (char *) (uintptr_t) "net,tcp";
    return conform_main(argc, argv, "ofi");
}
