/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * libFuzzer: the messages of btl fabric (btl_fabric_wire.h), from a peer that has a get and an
 * atomic operation of this process under way, and the key of memory here. Whatever they are,
 * nothing is read or written outside of that memory and of what the operations wait for, and each
 * operation ends once.
 *
 * Input: messages, one after the other: a byte (the id, and the bits below), two bytes of app_ctx,
 * two of tag, one with the length of the payload, so many bytes.
 */
#include "btl_fabric/btl_fabric_entry.h"
#include "btl_fabric/btl_fabric_mem.h"
#include "btl_fabric/btl_fabric_op.h"
#include "btl_fabric/btl_fabric_up.h"
#include "fuzz_tcp.h"

enum {
    IDS = 8,        /* first byte: id modulo this, and ... */
    HERE = 8,       /* tag is the memory's address and the first of its bytes, which has a sign */
    KEY = 16,       /* the payload begins with the memory's key */
    GET_ID = 32,    /* app_ctx is the id of the get */
    ATOMIC_ID = 64, /* app_ctx is the id of the atomic operation */
    HEAD = 6,       /* bytes of the input before a payload */
    LEN = 64,       /* of the memory, bytes */
    GET_LEN = 24,
    MAX_POLLS = 100000,
};

static fab_tcp_domain_t *dom;
static int num_ended;

static void (*const handlers[IDS])(void *ctx, fab_peer_t *peer, fab_hdr_t hdr, const void *data,
                                   size_t len) = {
    mca_btl_fabric_on_send, mca_btl_fabric_on_part,  mca_btl_fabric_on_put,
    mca_btl_fabric_on_get,  mca_btl_fabric_on_data,  mca_btl_fabric_on_atomic,
    mca_btl_fabric_on_done, mca_btl_fabric_on_count,
};

static void on_failed(void *ctx, fab_peer_t *peer, int rc, const char *why)
{
    fuzz_on_failed(ctx, peer, rc, why);
    mca_btl_fabric_peer_failed(ctx, peer, rc, why);
}

/* As the component does, but for what needs Open MPI. Nobody registers for messages here. */
static void open_btl(void)
{
    fab_config_t config = {
        .user = FAB_USER_BTL,
        .name = fuzz_name(0),
        .num_local = 1,
        .num_procs = 1,
        .peer_failed = on_failed,
    };
    const char *why = "";

    fab_params.providers = "tcp";
    if (OPAL_SUCCESS != fab_open(&config, &mca_btl_fabric.fab, &why)) {
        fuzz_fail(why);
    }
    mca_btl_fabric_module_init(NULL);
    if (OPAL_SUCCESS != mca_btl_fabric_ops_init()) {
        fuzz_fail("no memory");
    }
    fab_idmap_init(&mca_btl_fabric.mems);
    fab_start(mca_btl_fabric.fab, FAB_USER_BTL);
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    (void) argc, (void) argv;
    open_btl();
    dom = fuzz_tcp_domain(mca_btl_fabric.fab);
    return 0;
}

static void ended(struct mca_btl_base_module_t *btl, struct mca_btl_base_endpoint_t *ep,
                  void *local, struct mca_btl_base_registration_handle_t *handle, void *context,
                  void *data, int status)
{
    (void) btl, (void) ep, (void) local, (void) handle, (void) context, (void) data, (void) status;
    num_ended++;
}

/* The id of the operation of this kind; 0: it has ended. */
static uint32_t id_of(uint8_t am)
{
    const mca_btl_fabric_op_t *op;

    for (uint32_t i = 0; NULL != (op = fab_idmap_next(&mca_btl_fabric.ids, &i));) {
        if (am == op->call.am) {
            return op->id;
        }
    }
    return 0;
}

/* One message of the input, at most size bytes. Returns the bytes that it takes. */
static size_t receive(fab_peer_t *peer, const struct mca_btl_base_registration_handle_t *mem,
                      const uint8_t *input, size_t size)
{
    uint8_t kind = input[0];
    size_t len = input[HEAD - 1] < size - HEAD ? input[HEAD - 1] : size - HEAD;
    uint8_t *payload = malloc(len); /* of its length to the byte: what is read beyond it shows */
    uint64_t tag = 0 != (kind & HERE) ? mem->base + (uint64_t) (int8_t) input[3]
                                      : input[3] | (uint64_t) input[4] << 32;
    fab_hdr_t hdr = fab_hdr((uint8_t) (BTL_FABRIC_AM_SEND + (kind % HERE) % IDS), tag,
                            input[1] | (uint32_t) input[2] << 8);

    hdr.app_ctx = 0 != (kind & GET_ID) ? id_of(BTL_FABRIC_AM_GET) : hdr.app_ctx;
    hdr.app_ctx = 0 != (kind & ATOMIC_ID) ? id_of(BTL_FABRIC_AM_ATOMIC) : hdr.app_ctx;
    memcpy(payload, input + HEAD, len);
    if (0 != (kind & KEY) && len >= sizeof(mem->key)) {
        memcpy(payload, &mem->key, sizeof(mem->key));
    }
    handlers[(kind % HERE) % IDS](NULL, peer, hdr, payload, len);
    free(payload);
    return HEAD + len;
}

/* The peer fails, and with it what is under way; nothing of it is left. */
static void end_peer(fab_peer_t *peer, int fd)
{
    mca_btl_fabric_ep_t *ep = peer->user[FAB_USER_BTL];

    close(fd);
    fab_peer_fail(peer, OPAL_ERR_UNREACH, "The input is at its end.");
    for (int i = 0; mca_btl_fabric.outstanding > 0 || NULL == ep->why || ep->num_counted > 0; i++) {
        if (i > MAX_POLLS) {
            fuzz_fail("an operation does not end");
        }
        fab_tcp_expect(dom);
        (void) mca_btl_fabric_progress();
    }
    mca_btl_fabric_ups_fini();
    if (NULL != ep->part) {
        mca_btl_fabric_msg_free(ep->part);
    }
    mca_btl_fabric.eps = NULL;
    free(ep);
    fab_peer_close(peer, FAB_USER_BTL);
    fab_progress(mca_btl_fabric.fab);
}

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size)
{
    const bool is_narrow = 0 != size % 2; /* the atomic operation, of 4 bytes */
    uint8_t *memory = malloc(LEN), *local = malloc(GET_LEN), *old = malloc(is_narrow ? 4 : 8);
    struct mca_btl_base_registration_handle_t *mem = mca_btl_fabric_register_mem(
        NULL, NULL, memory, LEN,
        MCA_BTL_REG_FLAG_REMOTE_READ | MCA_BTL_REG_FLAG_REMOTE_WRITE |
            MCA_BTL_REG_FLAG_REMOTE_ATOMIC);
    int fd;
    fab_peer_t *peer = fuzz_tcp_peer(mca_btl_fabric.fab, FAB_USER_BTL, &fd);
    mca_btl_fabric_ep_t *ep = mca_btl_fabric_ep_of(peer);

    num_ended = 0;
    if (OPAL_SUCCESS != mca_btl_fabric_get(NULL, ep, local, mem->base, NULL, mem, GET_LEN, 0, 0,
                                           ended, NULL, NULL) ||
        OPAL_SUCCESS != mca_btl_fabric_atomic_fop(
                            NULL, ep, old, mem->base, NULL, mem, MCA_BTL_ATOMIC_ADD, 1,
                            is_narrow ? MCA_BTL_ATOMIC_FLAG_32BIT : 0, 0, ended, NULL, NULL)) {
        fuzz_fail("an operation cannot be started");
    }
    for (size_t at = 0; at + HEAD < size && FAB_PEER_UP == peer->state;) {
        at += receive(peer, mem, input + at, size - at);
        (void) mca_btl_fabric_progress();
    }
    end_peer(peer, fd);
    if (2 != num_ended) {
        fuzz_fail("an operation did not end once");
    }
    (void) mca_btl_fabric_deregister_mem(NULL, mem);
    free(memory);
    free(local);
    free(old);
    return 0;
}
