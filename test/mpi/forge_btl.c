/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Helper of btl_faults.sh, for pml ob1 and btl fabric: rank 1 uses the fabric beside btl_fabric and
 * sends rank 0 a message that makes no sense to it. The job ends.
 *
 * args: one of the kinds below
 */
#include "btl_fabric/btl_fabric_wire.h"
#include "fabric/fab.h"
#include "fabric/fab_abi.h"

#include "tm_test.h"

enum { ADDRESS = 4096, KEY = 12345, ADD_OP = 1 };

typedef struct forgery {
    const char *kind;
    fab_hdr_t hdr;
    const void *data;
    size_t len;
} forgery_t;

#define CLAIM ((uint64_t) KEY << 32)

static const btl_fabric_put_t put = {.claim = CLAIM | BTL_FABRIC_ORDERED};
static const btl_fabric_put_t no_offer = {.claim = CLAIM | 1};
static const btl_fabric_get_t get = {.claim = CLAIM | BTL_FABRIC_ORDERED, .len = 8};
static const btl_fabric_atomic_t add = {.key = KEY, .op = ADD_OP, .len = 8};
static const btl_fabric_atomic_t no_op = {.key = KEY, .op = 0x7777, .len = 8};
static const btl_fabric_atomic_t no_len = {.key = KEY, .op = ADD_OP, .len = 3};

#define HDR(am, hdr_tag, ctx)                                                                      \
    {                                                                                              \
        .id = BTL_FABRIC_AM_##am, .tag = (hdr_tag), .app_ctx = (ctx)                               \
    }

static const forgery_t forgeries[] = {
    {"send_tag", HDR(SEND, 0, 255), &put, sizeof(put)},
    {"send_args", HDR(SEND, 1, 65), &put, sizeof(put)},
    {"part_empty", HDR(PART, 100, 65), NULL, 0},
    {"part_later", HDR(PART, (uint64_t) 8 << 32 | 100, 65), &put, sizeof(put)},
    {"part_long", HDR(PART, UINT32_MAX, 65), &put, sizeof(put)},
    {"part_whole", HDR(PART, sizeof(put), 65), &put, sizeof(put)},
    {"part_tag", HDR(PART, 100, 255), &put, sizeof(put)},
    {"put_short", HDR(PUT, ADDRESS, 1), &put, 4},
    {"put_key", HDR(PUT, ADDRESS, 1), &put, sizeof(put)},
    {"put_offer", HDR(PUT, ADDRESS, 1), &no_offer, sizeof(no_offer)},
    {"get_short", HDR(GET, ADDRESS, 1), &get, 8},
    {"get_key", HDR(GET, ADDRESS, 1), &get, sizeof(get)},
    {"atomic_short", HDR(ATOMIC, ADDRESS, 1), &add, 8},
    {"atomic_key", HDR(ATOMIC, ADDRESS, 1), &add, sizeof(add)},
    {"atomic_op", HDR(ATOMIC, ADDRESS, 1), &no_op, sizeof(no_op)},
    {"atomic_len", HDR(ATOMIC, ADDRESS, 1), &no_len, sizeof(no_len)},
    {"atomic_aligned", HDR(ATOMIC, ADDRESS + 1, 1), &add, sizeof(add)},
    {"data", HDR(DATA, 0, 77), &put, sizeof(put)},
    {"done", HDR(DONE, 0, 77), NULL, 0},
    {"count", HDR(COUNT, 0, 1), NULL, 0},
};

enum { NUM_FORGERIES = sizeof(forgeries) / sizeof(forgeries[0]) };

/* In the place of pml_tm. */
static fab_t *open_fabric(void)
{
    fab_config_t config = {.user = FAB_USER_PML};
    fab_t *fab = NULL;
    const char *why = "";

    if (OPAL_SUCCESS != fab_open(&config, &fab, &why)) {
        TM_FATAL("the fabric cannot be opened: %s", why);
    }
    return fab;
}

static void forge(const char *kind)
{
    fab_t *fab = open_fabric();
    fab_peer_t *peer = fab_peer_find(fab, fab->config.name & ~(uint64_t) UINT32_MAX);
    int rc = -1;

    for (int i = 0; i < NUM_FORGERIES; i++) {
        if (0 == strcmp(forgeries[i].kind, kind)) {
            fab_lock(fab);
            rc = fab_send(peer, forgeries[i].hdr, forgeries[i].data, forgeries[i].len);
            fab_unlock(fab);
        }
    }
    TM_CHECK(OPAL_SUCCESS == rc, "%s is not sent: %d", kind, rc);
}

int main(int argc, char **argv)
{
    char byte = 0;

    if (argc < 2) { /* a list of them */
        for (int i = 0; i < NUM_FORGERIES; i++) {
            puts(forgeries[i].kind);
        }
        return 0;
    }
    tm_init(&argc, &argv, "forge_btl");
    TM_MPI(MPI_Barrier(MPI_COMM_WORLD));
    if (1 == tm_rank) {
        forge(argv[1]);
    }
    /* what nobody sends */
    MPI_Recv(&byte, 1, MPI_BYTE, 1 - tm_rank, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    TM_ERROR("rank %d has received what was not sent", tm_rank);
    return tm_finish();
}
