/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Helper of no_memory.sh, loaded with LD_PRELOAD: of the calls of malloc, calloc and realloc that
 * come from pml_tm's two libraries in the rank TM_FAIL_RANK, the one of number TM_FAIL_CALL (from
 * 1) fails, and with TM_FAIL_ALL=1 all after it. Their number is written to the file TM_FAIL_COUNT
 * at the end. A program can turn on and off by fail_malloc_from_now() that all fail, in this rank.
 * With TM_FAIL_IN only those count that come from this function, which must be exported, with
 * TM_FAIL_LIBRARY those from the library of this name instead of the two.
 */
#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

extern void *__libc_malloc(size_t size);
extern void *__libc_calloc(size_t n, size_t size);
extern void *__libc_realloc(void *old, size_t size);

static atomic_long calls;
static long fail_at, fails_all;
static bool is_on;
static atomic_bool fails_now;

void fail_malloc_from_now(bool is_failing);

void fail_malloc_from_now(bool is_failing)
{
    atomic_store(&fails_now, is_failing);
}

static const char *function, *library;

/* Is this the file of the library, or one of the two? */
static bool is_library(const char *file)
{
    if (NULL != library) {
        return NULL != strstr(file, library);
    }
    return NULL != strstr(file, "mca_pml_tm") || NULL != strstr(file, "libmca_common_tm");
}

/* Is this address in such a library, and in the function that is asked for? */
static bool is_ours(const void *address)
{
    Dl_info info;

    return 0 != dladdr(address, &info) && NULL != info.dli_fname && is_library(info.dli_fname) &&
           (NULL == function || (NULL != info.dli_sname && 0 == strcmp(info.dli_sname, function)));
}

static bool fails(const void *caller)
{
    long call;

    if (!is_on || !is_ours(caller)) {
        return false;
    }
    call = atomic_fetch_add(&calls, 1) + 1;
    if (call != fail_at && !(fails_all && call > fail_at) && !atomic_load(&fails_now)) {
        return false;
    }
    errno = ENOMEM;
    return true;
}

void *malloc(size_t size)
{
    return fails(__builtin_return_address(0)) ? NULL : __libc_malloc(size);
}

void *calloc(size_t n, size_t size)
{
    return fails(__builtin_return_address(0)) ? NULL : __libc_calloc(n, size);
}

void *realloc(void *old, size_t size)
{
    return fails(__builtin_return_address(0)) ? NULL : __libc_realloc(old, size);
}

__attribute__((constructor)) static void begin(void)
{
    const char *call = getenv("TM_FAIL_CALL"), *rank = getenv("TM_FAIL_RANK");
    const char *me = getenv("OMPI_COMM_WORLD_RANK"), *all = getenv("TM_FAIL_ALL");

    is_on = NULL != call && NULL != rank && NULL != me && 0 == strcmp(rank, me);
    fail_at = NULL != call ? atol(call) : 0;
    function = getenv("TM_FAIL_IN");
    library = getenv("TM_FAIL_LIBRARY");
    fails_all = NULL != all && '1' == *all;
}

__attribute__((destructor)) static void end(void)
{
    const char *name = getenv("TM_FAIL_COUNT");
    FILE *file = is_on && NULL != name ? fopen(name, "w") : NULL;

    if (NULL != file) {
        fprintf(file, "%ld\n", atomic_load(&calls));
        fclose(file);
    }
}
