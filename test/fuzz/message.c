/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * libFuzzer: messages that come over verbs (verbs_wire.h): headers as matching hardware reads them
 * (TMH), requests of a rendezvous (RVH), and what a device answers. Whatever they are, nothing is
 * read outside of them, and the peer lives on, leaves or fails for a reason.
 *
 * Input: messages, one after the other: a byte (1: on the queue pair where only the peer's device
 * may answer), a byte with the length, so many bytes.
 */
#include "fuzz.h"

#include "fabric/fab_core.h"
#include "verbs/verbs.h"

enum { ANSWER = 1, SENT = 5, MAX_POLLS = 1000 };

static fab_t *fab;
static fab_verbs_domain_t *dom;
static unsigned char address[FAB_ADDRESS_MAX];
static size_t address_len;
static uint64_t num_peers;

static void take(void *ctx, fab_peer_t *peer, fab_hdr_t hdr, const void *data, size_t len)
{
    (void) ctx, (void) peer, (void) hdr;
    fuzz_read(data, len);
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    (void) argc, (void) argv;
    fab_params.providers = "verbs";
    fab = fuzz_open_fabric(0);
    for (int i = 0; i < FAB_NUM_PROVIDERS; i++) {
        if (FAB_WIRE_VERBS == fab_providers[i]->id) {
            dom = (fab_verbs_domain_t *) fab_core(fab)->slots[i].dom;
        }
    }
    if (NULL == dom || NULL == dom->tm) {
        fuzz_fail("there is no device that matches tags");
    }
    for (uint8_t id = 0; id < FAB_AM_MAX; id++) {
        fab_set_handler(fab, id, take, NULL);
    }
    address_len = fab_address(fab, address, sizeof(address));
    return 0;
}

/* A new peer with a connection, which leads back to itself. */
static fab_peer_t *open_peer(void)
{
    uint64_t name = (UINT64_C(9) << 32) + num_peers++;
    fab_verbs_frame_t frame = {.reads = 1, .addr = dom->addr};
    fab_peer_t *peer = NULL;
    fab_verbs_conn_t *conn;
    fab_verbs_ep_t *ep;
    const char *why = "";

    memcpy(address + offsetof(fab_wire_head_t, name), &name, sizeof(name));
    if (OPAL_SUCCESS != fab_peer_open(fab, FAB_USER_PML, name, address, address_len, &peer, &why)) {
        fuzz_fail(why);
    }
    ep = peer->ep;
    ep->conn = conn = fab_verbs_conn_open(ep, &why);
    if (NULL == conn) {
        fuzz_fail(why);
    }
    frame.qpn = conn->qp->qp_num;
    frame.psn = conn->psn;
    frame.tm_qpn = conn->tm_qp->qp_num;
    frame.tm_psn = conn->tm_psn;
    why = fab_verbs_conn_connect(conn, &frame);
    if (NULL != why) {
        fuzz_fail(why);
    }
    ep->path = FAB_VERBS_OPEN;
    ep->ses.state = FAB_SES_UP;
    ep->ses.is_used = true;
    ep->ses.sent = SENT; /* so many may be credited */
    ep->ses.window = 8;
    return peer;
}

/* Its bytes lie in memory of that length: what is read beyond it shows. */
static void receive(fab_verbs_conn_t *conn, bool is_answer, const uint8_t *bytes, size_t len)
{
    fab_verbs_buf_t buf = {.data = malloc(len), .is_posted = true};
    struct ibv_wc wc = {
        .wr_id = (uintptr_t) &buf,
        .status = IBV_WC_SUCCESS,
        .byte_len = (uint32_t) len,
        .qp_num = is_answer ? conn->qp->qp_num : conn->tm_qp->qp_num,
    };

    memcpy(buf.data, bytes, len);
    fab_verbs_on_recv(dom, &wc);
    if (&buf != dom->to_post) {
        fuzz_fail("the buffer was not collected");
    }
    dom->to_post = buf.next;
    free(buf.data);
}

static bool is_open(const fab_peer_t *peer)
{
    const fab_verbs_ep_t *ep = FAB_PEER_UP == peer->state ? peer->ep : NULL;

    return NULL != ep && NULL != ep->conn;
}

/*
 * Close the peer; nobody waits for its connection's end. Its record stays if it sent what the
 * fabric keeps for a user to come (FAB_AM_BTL).
 */
static void end_peer(fab_peer_t *peer)
{
    uint64_t name = peer->name;

    while (!TAILQ_EMPTY(&dom->conns)) {
        fab_verbs_conn_t *conn = TAILQ_FIRST(&dom->conns);
        if (NULL != conn->ep) {
            fab_verbs_connect_cancel(conn->ep);
            conn->ep->ses.state = FAB_SES_KNOWN; /* it awaits no last word */
        } else {
            LIST_REMOVE(conn, lingering_link);
        }
        fab_verbs_conn_destroy(conn, OPAL_ERR_UNREACH);
    }
    fab_peer_close(peer, FAB_USER_PML);
    peer = fab_peer_find(fab, name);
    for (int i = 0; NULL != peer && NULL != peer->ep; i++) {
        if (i > MAX_POLLS) {
            fuzz_fail("something of the peer is left");
        }
        fab_progress(fab);
        peer = fab_peer_find(fab, name);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size)
{
    fab_peer_t *peer = open_peer();

    for (size_t at = 0; at + 2 < size && is_open(peer);) {
        size_t left = size - at - 2;
        size_t len = input[at + 1] < left ? input[at + 1] : left;
        const fab_verbs_ep_t *ep = peer->ep;
        receive(ep->conn, 0 != (input[at] & ANSWER), input + at + 2, len);
        at += 2 + len;
    }
    end_peer(peer);
    return 0;
}
