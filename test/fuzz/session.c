/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * libFuzzer: messages that come by libfabric (ofi_wire.h), and entries of its completion queue.
 * Whatever they are, nothing is read outside of them, and the peer lives on, leaves or fails for a
 * reason. The target is the peer, and libfabric: what this process sends to it goes nowhere, but it
 * learns from that what an honest peer would say next.
 *
 * Input: a byte (1: the peer asks for the session, otherwise this process), then steps: a byte
 * (fuzz_step_t and flags), a byte with a length, so many bytes. The bytes are added (xor) to those
 * of the message as an honest peer would send it, or to those of a frame behind its header; the
 * proof is made after that.
 */
#include "fuzz.h"

#include <rdma/fi_errno.h>

#include "fabric/fab_core.h"
#include "ofi/ofi.h"
#include "sock/sha256.h"

typedef enum fuzz_step {
    MESSAGE = 0, /* of the session */
    RAW = 1,     /* the bytes alone */
    HELLO = 2,
    CHALLENGE = 3,
    WELCOME = 4,
    SEND = 5,      /* this process sends something */
    LOST = 6,      /* an error of nobody */
    UNSENT = 7,    /* a message was not delivered */
    NO_BUFFER = 8, /* an error of a receive buffer */
    CLOSE = 9,     /* this process closes the peer */
    KNOCK = 10,
    TIME = 11, /* passes */
    STEPS = 12,
} fuzz_step_t;

enum {
    /* flags of a step */
    PROVED_BEFORE = 0x10, /* the proof is that of the honest message */
    RELEASED = 0x20,      /* the entry releases the buffer, too */
    UNALIGNED = 0x40,
    EARLY = 0x80, /* its number is that after the next */

    AM_DATA = 9,
    INDEX = 5, /* of the session at the peer */
    SERIAL = 77,
    WINDOW = 8,
    UNDER_WAY = 4, /* messages that this process may send until it polls */
    MAX_POLLS = 1000,
};

static fab_t *fab;
static fab_ofi_domain_t *dom;
static unsigned char address[FAB_ADDRESS_MAX];
static size_t address_len;
static uint64_t name; /* of the peer */
static uint64_t num_peers;

/* What this process has told the peer. */
static struct {
    uint32_t index;
    uint64_t serial; /* of KNOCK, HELLO or WELCOME */
    uint64_t nonce;
    uint16_t seq; /* of the next message to it */
} told;

/* ---- libfabric ----------------------------------------------------------- */

static struct fi_ops_msg msg_ops;
static struct fi_ops_cq cq_ops;
static void *sent[UNDER_WAY]; /* contexts */
static size_t num_sent;
static struct fi_cq_tagged_entry next; /* op_context NULL: there is none */
static struct fi_cq_err_entry error;   /* err 0: there is none */

static void hear(const void *msg, size_t len)
{
    const unsigned char *payload = (const unsigned char *) msg + sizeof(fab_ofi_hdr_t);
    fab_ofi_hdr_t hdr;
    fab_ofi_frame_t frame;

    fuzz_read(msg, len);
    memcpy(&hdr, msg, sizeof(hdr));
    const uint8_t id = fab_ofi_hdr_id(&hdr);
    if (id < FAB_OFI_ID_KNOCK || id > FAB_OFI_ID_WELCOME) {
        return;
    }
    memcpy(&frame, payload, sizeof(frame));
    if (FAB_OFI_ID_CHALLENGE == id) {
        told.nonce = frame.nonce;
        return;
    }
    told.index = frame.index;
    told.serial = FAB_OFI_ID_WELCOME == id ? frame.msg.other : frame.msg.serial;
    told.seq = 0;
}

static ssize_t fuzz_sendmsg(struct fid_ep *ep, const struct fi_msg *msg, uint64_t flags)
{
    (void) ep, (void) flags;
    if (UNDER_WAY == num_sent) {
        return -FI_EAGAIN;
    }
    hear(msg->msg_iov->iov_base, msg->msg_iov->iov_len);
    sent[num_sent++] = msg->context;
    return 0;
}

static ssize_t fuzz_inject(struct fid_ep *ep, const void *buf, size_t len, fi_addr_t to)
{
    (void) ep, (void) to;
    hear(buf, len);
    return 0;
}

static ssize_t fuzz_cq_read(struct fid_cq *cq, void *buf, size_t count)
{
    struct fi_cq_tagged_entry *entries = buf;
    size_t num = 0;

    (void) cq;
    if (0 != error.err) {
        return -FI_EAVAIL;
    }
    if (NULL != next.op_context) {
        entries[num++] = next;
        next.op_context = NULL;
    }
    while (num_sent > 0 && num < count) {
        entries[num++] = (struct fi_cq_tagged_entry){.op_context = sent[--num_sent],
                                                     .flags = FI_SEND};
    }
    return num > 0 ? (ssize_t) num : -FI_EAGAIN;
}

static ssize_t fuzz_cq_readerr(struct fid_cq *cq, struct fi_cq_err_entry *buf, uint64_t flags)
{
    (void) cq, (void) flags;
    *buf = error;
    error.err = 0;
    return 1;
}

/* From now on it is the target. */
static void take_libfabric(void)
{
    msg_ops = *dom->rdm->msg;
    msg_ops.sendmsg = fuzz_sendmsg;
    msg_ops.inject = fuzz_inject;
    dom->rdm->msg = &msg_ops;
    cq_ops = *dom->cq->ops;
    cq_ops.read = fuzz_cq_read;
    cq_ops.readerr = fuzz_cq_readerr;
    dom->cq->ops = &cq_ops;
}

/* ---- this process -------------------------------------------------------- */

static void take(void *ctx, fab_peer_t *peer, fab_hdr_t hdr, const void *data, size_t len)
{
    (void) ctx, (void) peer, (void) hdr;
    if (0 != (uintptr_t) data % FAB_OFI_ALIGN) {
        fuzz_fail("a payload is not aligned");
    }
    fuzz_read(data, len);
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    (void) argc, (void) argv;
    fab_params.providers = "ofi";
    fab_params.ofi_provider = "net,tcp";
    fab_limits.ofi_buffers = 2;
    fab = fuzz_open_fabric(0);
    for (int i = 0; i < FAB_NUM_PROVIDERS; i++) {
        if (FAB_WIRE_OFI == fab_providers[i]->id) {
            dom = (fab_ofi_domain_t *) fab_core(fab)->slots[i].dom;
        }
    }
    if (NULL == dom) {
        fuzz_fail("libfabric has neither net nor tcp here");
    }
    for (uint8_t id = 0; id < FAB_AM_MAX; id++) {
        fab_set_handler(fab, id, take, NULL);
    }
    address_len = fab_address(fab, address, sizeof(address));
    take_libfabric();
    return 0;
}

/* Its address leads back to this process, and has its key. */
static fab_peer_t *open_peer(void)
{
    fab_peer_t *peer = NULL;
    const char *why = "";

    memcpy(address + offsetof(fab_wire_head_t, name), &name, sizeof(name));
    if (OPAL_SUCCESS != fab_peer_open(fab, FAB_USER_PML, name, address, address_len, &peer, &why)) {
        fuzz_fail(why);
    }
    return peer;
}

static void send_something(void)
{
    fab_peer_t *peer = fab_peer_find(fab, name);

    if (NULL != peer && FAB_PEER_UP == peer->state) {
        (void) fab_send(peer, fab_hdr(AM_DATA, 0, 0), "1234567", 7);
    }
}

static void close_peer(void)
{
    fab_peer_t *peer = fab_peer_find(fab, name);

    if (NULL != peer) {
        fab_peer_close(peer, FAB_USER_PML);
    }
}

/* ---- the peer ------------------------------------------------------------ */

/* A message of the peer's, in memory of its length: what is read beyond it shows. */
static void receive(const unsigned char *msg, size_t len, int flags)
{
    const size_t shift = 0 != (flags & UNALIGNED);
    fab_ofi_rbuf_t buf = {.ctx.kind = FAB_OFI_RECV, .data = malloc(len + shift), .is_posted = true};

    memcpy(buf.data + shift, msg, len);
    next = (struct fi_cq_tagged_entry){
        .op_context = &buf,
        .flags = FI_RECV | FI_MSG | (0 != (flags & RELEASED) ? FI_MULTI_RECV : 0),
        .len = len,
        .buf = buf.data + shift,
    };
    for (int i = 0; i < MAX_POLLS && NULL != next.op_context; i++) {
        fab_progress(fab);
    }
    if (NULL != next.op_context) {
        fuzz_fail("the queue is not read");
    }
    dom->recv.num_idle -= !buf.is_posted; /* it is not one of the domain's */
    free(buf.data);
}

static void change(unsigned char *msg, size_t size, const uint8_t *bytes, size_t len)
{
    for (size_t i = 0; i < len && i < size; i++) {
        msg[i] ^= bytes[i];
    }
}

/* Its next message of the session: as long as there are bytes that change it, but a header. */
static void say(const uint8_t *bytes, size_t len, int flags)
{
    const fab_ofi_hdr_t honest = {.id_index = fab_ofi_id_index(AM_DATA, 0, told.index),
                                  .cookie = (uint32_t) told.serial,
                                  .seq = (uint16_t) (told.seq + (0 != (flags & EARLY)))};
    unsigned char msg[sizeof(fab_ofi_hdr_t) + UINT8_MAX] = {0};
    fab_ofi_hdr_t hdr;

    memcpy(msg, &honest, sizeof(honest));
    change(msg, sizeof(msg), bytes, len);
    memcpy(&hdr, msg, sizeof(hdr));
    told.seq += hdr.seq == told.seq;
    receive(msg, len > sizeof(honest) ? len : sizeof(honest), flags);
}

/* A frame, with its proof. */
static void say_frame(uint8_t id, fab_ses_msg_t plain, uint32_t index, uint64_t nonce,
                      const uint8_t *bytes, size_t len, int flags)
{
    const fab_ofi_hdr_t hdr = {.id_index = fab_ofi_id_index(id, 0, FAB_OFI_NO_INDEX)};
    fab_ofi_frame_t frame = {.magic = FAB_OFI_MAGIC,
                             .version = FAB_OFI_VERSION,
                             .name = name,
                             .target = fuzz_name(0),
                             .msg = plain,
                             .nonce = nonce,
                             .index = index,
                             .addr = dom->addr};
    unsigned char msg[sizeof(hdr) + sizeof(frame)];
    const bool is_before = 0 != (flags & PROVED_BEFORE);

    if (!is_before) {
        change((unsigned char *) &frame, sizeof(frame), bytes, len);
        memset(frame.proof, 0, sizeof(frame.proof));
    }
    fab_hmac(dom->addr.key, sizeof(dom->addr.key), &frame, sizeof(frame), frame.proof);
    if (is_before) {
        change((unsigned char *) &frame, sizeof(frame), bytes, len);
    }
    memcpy(msg, &hdr, sizeof(hdr));
    memcpy(msg + sizeof(hdr), &frame, sizeof(frame));
    receive(msg, sizeof(msg), flags);
}

static void say_ask(uint8_t id, const uint8_t *bytes, size_t len, int flags)
{
    const fab_ses_msg_t msg = {.kind = FAB_SES_HELLO, .window = WINDOW, .serial = SERIAL};

    say_frame(id, msg, INDEX, FAB_OFI_ID_HELLO == id ? told.nonce : 0, bytes, len, flags);
}

static void say_challenge(const uint8_t *bytes, size_t len, int flags)
{
    const fab_ses_msg_t msg = {.kind = FAB_SES_HELLO, .window = WINDOW, .serial = told.serial};

    say_frame(FAB_OFI_ID_CHALLENGE, msg, told.index, 1, bytes, len, flags);
}

static void say_welcome(const uint8_t *bytes, size_t len, int flags)
{
    const fab_ses_msg_t msg = {
        .kind = FAB_SES_WELCOME, .window = WINDOW, .serial = told.serial, .other = SERIAL};

    say_frame(FAB_OFI_ID_WELCOME, msg, INDEX, 0, bytes, len, flags);
}

/* ---- errors -------------------------------------------------------------- */

static void report(void *context, uint64_t flags)
{
    error = (struct fi_cq_err_entry){.op_context = context, .flags = flags, .err = FI_EIO};
    for (int i = 0; i < MAX_POLLS && 0 != error.err; i++) {
        fab_progress(fab);
    }
}

static void report_unsent(void)
{
    if (num_sent > 0) {
        report(sent[--num_sent], FI_SEND);
    }
}

static void report_no_buffer(int flags)
{
    fab_ofi_rbuf_t buf = {.ctx.kind = FAB_OFI_RECV, .is_posted = true};

    report(&buf, FI_RECV | (0 != (flags & RELEASED) ? FI_MULTI_RECV : 0));
    dom->recv.num_idle -= !buf.is_posted;
}

/* ---- an input ------------------------------------------------------------ */

static void step(uint8_t what, const uint8_t *bytes, size_t len)
{
    const int flags = what & 0xf0;

    switch (what % 16 % STEPS) {
    case MESSAGE:
        say(bytes, len, flags);
        break;
    case RAW:
        receive(bytes, len, flags);
        break;
    case HELLO:
        say_ask(FAB_OFI_ID_HELLO, bytes, len, flags);
        break;
    case KNOCK:
        say_ask(FAB_OFI_ID_KNOCK, bytes, len, flags);
        break;
    case TIME:
        fab_ofi_alive_tick(dom);
        break;
    case CHALLENGE:
        say_challenge(bytes, len, flags);
        break;
    case WELCOME:
        say_welcome(bytes, len, flags);
        break;
    case SEND:
        send_something();
        break;
    case LOST:
        report(NULL, FI_SEND);
        break;
    case UNSENT:
        report_unsent();
        break;
    case NO_BUFFER:
        report_no_buffer(flags);
        break;
    default:
        close_peer();
        break;
    }
}

/* Its record stays if it sent what the fabric keeps for a user to come. */
static void end_peer(void)
{
    fab_peer_t *peer = fab_peer_find(fab, name);

    if (NULL != peer && FAB_PEER_CLOSED != peer->state) {
        peer = open_peer(); /* the user's, if it was nobody's */
    }
    if (NULL != peer && NULL != peer->ep) {
        fab_peer_fail(peer, OPAL_ERR_UNREACH, "The input is at its end.");
    }
    close_peer();
    peer = fab_peer_find(fab, name);
    for (int i = 0; NULL != peer && NULL != peer->ep; i++) {
        if (i > MAX_POLLS) {
            fuzz_fail("something of the peer is left");
        }
        fab_progress(fab);
        peer = fab_peer_find(fab, name);
    }
    for (int i = 0; dom->send_pool.used > 0 && i < MAX_POLLS; i++) {
        fab_progress(fab);
    }
    if (0 != dom->num_early || 0 != dom->sessions.used || dom->send_pool.used > 0) {
        fuzz_fail("something of the session is left");
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size)
{
    if (0 == size) {
        return 0;
    }
    name = (UINT64_C(9) << 32) + num_peers++;
    told = (__typeof__(told)){.seq = 0};
    if (1 != input[0]) {
        (void) open_peer();
        send_something();
    }
    for (size_t at = 1; at + 1 < size;) {
        size_t left = size - at - 2;
        size_t len = input[at + 1] < left ? input[at + 1] : left;
        step(input[at], input + at + 2, len);
        at += 2 + len;
    }
    end_peer();
    return 0;
}
