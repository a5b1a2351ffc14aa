/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * libFuzzer: the address of another process, which lives, with some bytes changed, or made of the
 * input alone. Whatever it is, opening a peer with it ends in an orderly answer, and sending to that
 * peer, too.
 *
 * Input: 0, then pairs of a position and a byte that stands there instead; or anything else, then an
 * address.
 */
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

enum { AM_DATA = 9 };

typedef struct other {
    unsigned char address[FAB_ADDRESS_MAX];
    _Atomic size_t len;
} other_t;

static fab_t *fab;
static other_t *other;

static uint64_t name_of(uint32_t rank)
{
    return UINT64_C(7) << 32 | rank;
}

static void ignore_failure(void *ctx, fab_peer_t *peer, int rc, const char *why)
{
    (void) ctx, (void) peer, (void) rc, (void) why;
}

static fab_t *open_fabric(uint32_t rank)
{
    fab_config_t config = {
        .name = name_of(rank),
        .num_local = 2,
        .local_rank = rank,
        .num_procs = 2,
        .peer_failed = ignore_failure,
    };
    const char *why = "";
    fab_t *opened = NULL;

    if (OPAL_SUCCESS != fab_open(&config, &opened, &why)) {
        fprintf(stderr, "fab_open: %s\n", why);
        abort();
    }
    fab_start(opened, FAB_USER_PML);
    return opened;
}

/* The other process: takes what comes, until this one ends. */
static void live(void)
{
    fab_t *mine;

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    mine = open_fabric(1);
    other->len = fab_address(mine, other->address, sizeof(other->address));
    for (;;) {
        fab_progress(mine);
        usleep(200);
    }
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    (void) argc, (void) argv;
    fab_params_reset();
    fab_params.shm_max_peers = 4096; /* refused rings come back at a tick only */
    other = mmap(NULL, sizeof(*other), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (0 == fork()) {
        live();
    }
    while (0 == other->len) {
        sched_yield();
    }
    fab = open_fabric(0);
    return 0;
}

/* The address that the input asks for; its length. */
static size_t make_address(const uint8_t *input, size_t size, unsigned char *address)
{
    size_t len = other->len;

    if (0 != input[0]) {
        len = size - 1 < FAB_ADDRESS_MAX ? size - 1 : FAB_ADDRESS_MAX;
        memcpy(address, input + 1, len);
        return len;
    }
    memcpy(address, other->address, len);
    for (size_t i = 1; i + 1 < size; i += 2) {
        address[input[i] % len] = input[i + 1];
    }
    return len;
}

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size)
{
    unsigned char address[FAB_ADDRESS_MAX];
    fab_peer_t *peer = NULL;
    const char *why = NULL;
    fab_wire_head_t head = {.name = name_of(1)};

    if (0 == size) {
        return 0;
    }
    size_t len = make_address(input, size, address);
    if (len >= sizeof(head)) {
        memcpy(&head, address, sizeof(head));
    }
    int rc = fab_peer_open(fab, FAB_USER_PML, head.name, address, len, &peer, &why);
    if (OPAL_SUCCESS != rc) {
        if (NULL != peer || NULL == why || strlen(why) < 10) {
            abort();
        }
        return 0;
    }
    fab_send(peer, fab_hdr(AM_DATA, 0, 0), NULL, 0);
    fab_progress(fab);
    fab_peer_close(peer, FAB_USER_PML);
    fab_progress(fab);
    return 0;
}
