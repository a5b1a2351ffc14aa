/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * libFuzzer: the address of another process, which lives, with some bytes changed, or made of the
 * input alone. Whatever it is, opening a peer with it ends in an orderly answer, and sending to
 * that peer, too.
 *
 * Input: 0, then any number of a position (two bytes) and the byte that stands there instead; or
 * anything else, then an address.
 */
#include "fuzz.h"

enum { AM_DATA = 9 };

static fab_t *fab;
static fuzz_other_t *other;

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    (void) argc, (void) argv;
    fab_params.shm_max_peers = 4096; /* refused rings come back at a tick only */
    other = fuzz_fork_other();
    fab = fuzz_open_fabric(0);
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
    for (size_t i = 1; i + 2 < size; i += 3) {
        address[(input[i] | (size_t) input[i + 1] << 8) % len] = input[i + 2];
    }
    return len;
}

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size)
{
    unsigned char address[FAB_ADDRESS_MAX];
    fab_peer_t *peer = NULL;
    const char *why = NULL;
    fab_wire_head_t head = {.name = fuzz_name(1)};

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
