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

/* Which of so many parts a short run (test/run --short) has, by turns of the commit; -1: all. */
static inline int conform_turn(int parts)
{
    const char *is_short = getenv("TM_TEST_SHORT"), *choice = getenv("TM_TEST_CHOICE");

    return NULL != is_short && 0 == strcmp(is_short, "yes") && NULL != choice
               ? atoi(choice) / 100 % parts
               : -1;
}

#ifdef CONFORM_OFI
int main(int argc, char **argv)
{
    fab_params.ofi_provider = (char *) (uintptr_t) CONFORM_OFI;
    return conform_main(argc, argv, "ofi");
}
#endif

#endif /* CONFORM_OFI_H */
