/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The conformance test with all processes communicating by libfabric: if CONFORM_OFI is
 * defined, main() over this provider.  Skipped where libfabric has it not.
 */
#ifndef CONFORM_OFI_H
#define CONFORM_OFI_H

#include "conform.h"

/* What libfabric itself leaves. */
FAB_EXPORT const char *__lsan_default_suppressions(void);

const char *__lsan_default_suppressions(void)
{
    return "leak:libfabric.so";
}

#ifdef CONFORM_OFI
int main(int argc, char **argv)
{
    fab_params.ofi_provider = (char *) (uintptr_t) CONFORM_OFI;
    return conform_main(argc, argv, "ofi");
}
#endif

#endif /* CONFORM_OFI_H */
