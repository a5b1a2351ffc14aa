/* SPDX-License-Identifier: BSD-3-Clause */
/* What the fuzz targets share. */
#ifndef FUZZ_H
#define FUZZ_H

#include "fabric/fab.h"
#include "fabric/fab_abi.h"
#include "fabric/fab_params.h"
#include "fabric/fab_wire.h"

#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

/* Parameters have their defaults before main(), since nothing registers them here. */
__attribute__((constructor)) static void fuzz_reset_params(void)
{
    fab_params_reset();
}

static inline void fuzz_fail(const char *why)
{
    fprintf(stderr, "%s\n", why);
    abort();
}

/* Read every byte, for the address sanitizer. */
static inline void fuzz_read(const void *data, size_t len)
{
    static volatile unsigned char sum;

    for (size_t i = 0; i < len; i++) {
        sum ^= ((const unsigned char *) data)[i];
    }
}

static inline uint64_t fuzz_name(uint32_t rank)
{
    return UINT64_C(7) << 32 | rank;
}

static inline void fuzz_on_failed(void *ctx, fab_peer_t *peer, int rc, const char *why)
{
    (void) ctx, (void) peer, (void) rc;
    if (NULL == why || strlen(why) < 10) {
        fuzz_fail("a peer failed without a reason");
    }
}

static inline fab_t *fuzz_open_fabric(uint32_t rank)
{
    fab_config_t config = {
        .name = fuzz_name(rank),
        .num_local = 2,
        .local_rank = rank,
        .num_procs = 2,
        .peer_failed = fuzz_on_failed,
    };
    const char *why = "";
    fab_t *opened = NULL;

    if (OPAL_SUCCESS != fab_open(&config, &opened, &why)) {
        fuzz_fail(why);
    }
    fab_start(opened, FAB_USER_PML);
    return opened;
}

/* The address of a process, in shared memory. */
typedef struct fuzz_other {
    unsigned char address[FAB_ADDRESS_MAX];
    _Atomic size_t len;
} fuzz_other_t;

/* Another process: it takes what comes, until this one ends. */
static inline fuzz_other_t *fuzz_fork_other(void)
{
    fuzz_other_t *other = mmap(NULL, sizeof(*other), PROT_READ | PROT_WRITE,
                               MAP_SHARED | MAP_ANONYMOUS, -1, 0);

    if (0 == fork()) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        fab_t *mine = fuzz_open_fabric(1);
        other->len = fab_address(mine, other->address, sizeof(other->address));
        for (;;) {
            fab_progress(mine);
            usleep(200);
        }
    }
    while (0 == other->len) {
        sched_yield();
    }
    return other;
}

#endif /* FUZZ_H */
