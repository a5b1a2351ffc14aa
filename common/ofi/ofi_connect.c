/* SPDX-License-Identifier: BSD-3-Clause */
/*
 *      IDLE ──first send──> ASKING ──WELCOME──> UP
 *        └──────┬──────────────┘                ^
 *               └──HELLO of the peer──> ANSWERED ──READY, or its first message
 *
 * The first HELLO is answered by CHALLENGE, which changes nothing; the second has its nonce.
 *
 * If both ask at once, the process with the smaller name goes on and ignores the other's HELLO; the
 * other answers.  Who asks is up before who answers may send, so that a process whose attempt
 * failed knows that the peer has sent nothing, and both can go on with another provider
 * (fab_move.c).
 *
 * HELLO is the first message to the peer, so its answer proves the way there and back.
 */
#include "ofi/ofi.h"

#include <stdlib.h>
#include <string.h>
#include <rdma/fi_errno.h>

#include "fabric/fab_clock.h"
#include "fabric/fab_params.h"
#include "sock/sha256.h"

enum { FAB_OFI_SHARES = 16 }; /* of the receive buffers, for the peers of a large job */

_Static_assert((int) FAB_OFI_PROOF == (int) FAB_SHA256_LEN, "a proof is an HMAC");

/* ---- the table ----------------------------------------------------------- */

static bool slots_grow(fab_ofi_domain_t *dom)
{
    uint32_t max = dom->max_slots > 0 ? 2 * dom->max_slots : 64;
    fab_ofi_slot_t *slots = realloc(dom->slots, max * sizeof(*slots));

    if (NULL == slots) {
        return false;
    }
    dom->slots = slots;
    dom->max_slots = max;
    return true;
}

/* Give the endpoint a slot and a cookie. False: no memory, or no number left. */
static bool slot_take(fab_ofi_ep_t *ep)
{
    fab_ofi_domain_t *dom = ep->dom;
    uint32_t index = dom->free_slot - 1;

    if (0 != dom->free_slot) {
        dom->free_slot = dom->slots[index].next_free;
    } else {
        if (dom->num_slots >= FAB_OFI_NO_INDEX - 1 ||
            (dom->num_slots == dom->max_slots && !slots_grow(dom))) {
            return false;
        }
        index = dom->num_slots++;
    }
    ep->index = index;
    ep->cookie = dom->next_cookie++;
    dom->slots[index] = (fab_ofi_slot_t){.ep = ep, .cookie = ep->cookie};
    dom->num_sessions++;
    return true;
}

static void slot_give_back(fab_ofi_ep_t *ep)
{
    fab_ofi_domain_t *dom = ep->dom;

    dom->slots[ep->index] = (fab_ofi_slot_t){.next_free = dom->free_slot};
    dom->free_slot = ep->index + 1;
    dom->num_sessions--;
}

/* ---- the session --------------------------------------------------------- */

/*
 * Messages of one peer, within the limits: all that have a session share the receive buffers.  As
 * many more are expected as the job has processes, up to FAB_OFI_SHARES.
 */
static uint16_t grant(const fab_ofi_domain_t *dom)
{
    const uint64_t bytes = (uint64_t) dom->recv.size * dom->recv.num;
    const uint32_t expected = fab_ofi_min(dom->fab->config.num_procs, FAB_OFI_SHARES);
    const uint32_t peers = dom->num_sessions < expected ? expected : dom->num_sessions + 1;
    const uint64_t share = bytes / dom->recv.min_free / peers;

    if (share >= fab_limits.ofi_window) {
        return (uint16_t) fab_limits.ofi_window;
    }
    fab_counters.small_windows++;
    return share > FAB_OFI_WINDOW_MIN ? (uint16_t) share : FAB_OFI_WINDOW_MIN;
}

static void stop_waiting(fab_ofi_ep_t *ep)
{
    if (ep->is_asked) {
        ep->is_asked = false;
        TAILQ_REMOVE(&ep->dom->asked, ep, asked_link);
    }
}

/* HELLO goes out, again maybe: its answer has ofi_timeout from now on. */
static void wait_for_answer(fab_ofi_ep_t *ep)
{
    stop_waiting(ep);
    ep->state = FAB_OFI_ASKING;
    ep->asked_at = ep->dom->ticks;
    ep->is_asked = true;
    TAILQ_INSERT_TAIL(&ep->dom->asked, ep, asked_link);
}

/* NULL, or why not. */
static const char *make_reachable(fab_ofi_ep_t *ep)
{
    fab_ofi_domain_t *dom = ep->dom;
    int rc = FI_ADDR_NOTAVAIL != ep->to ? 1
                                        : fi_av_insert(dom->av, ep->addr.name, 1, &ep->to, 0, NULL);

    if (1 != rc) {
        ep->to = FI_ADDR_NOTAVAIL;
        return fab_sentence(dom->fab, "%s does not take its address: %s.", dom->name,
                            rc < 0 ? fi_strerror(-rc) : "no reason given");
    }
    return NULL;
}

/* NULL, or why there is none. */
static const char *session_begin(fab_ofi_ep_t *ep)
{
    fab_ofi_domain_t *dom = ep->dom;
    const char *why = dom->is_dead ? fab_sentence(dom->fab, "%s has failed here.", dom->name)
                                   : make_reachable(ep);

    if (NULL != why) {
        return why;
    }
    if (!slot_take(ep)) {
        return "There is no memory for another peer.";
    }
    ep->sent = ep->taken = ep->consumed = ep->advertised = 0;
    ep->next_seq = ep->next_recv = 0;
    ep->granted = grant(dom);
    ep->peer_index = FAB_OFI_NO_INDEX;
    ep->peer_cookie = 0;
    ep->is_leaving = false;
    if (1 == dom->num_sessions) {
        fab_idle_changed(dom->fab);
    }
    return NULL;
}

void fab_ofi_session_end(fab_ofi_ep_t *ep)
{
    if (FAB_OFI_IDLE == ep->state) {
        return;
    }
    stop_waiting(ep);
    fab_ofi_unschedule_credits(ep);
    fab_ofi_early_drop(ep);
    slot_give_back(ep);
    ep->state = FAB_OFI_IDLE;
    ep->is_probing = false;
    if (0 == ep->dom->num_sessions) {
        fab_idle_changed(ep->dom->fab);
    }
}

void fab_ofi_connect_done(fab_ofi_ep_t *ep)
{
    stop_waiting(ep);
    ep->state = FAB_OFI_UP;
    ep->was_up = true;
    ep->has_heard = true;
    free(ep->spare);
    ep->spare = NULL;
    if (ep->is_closing) {
        (void) fab_ofi_send_own(ep, FAB_OFI_ID_CLOSE, 0, NULL, 0);
    }
}

/* Time passes while this process polls: it may have computed, or been stopped. */
void fab_ofi_connect_late(fab_ofi_domain_t *dom)
{
    const uint64_t ticks = (uint64_t) fab_params.ofi_timeout * 1000000 / FAB_OFI_TICK_US;
    fab_ofi_ep_t *ep = TAILQ_FIRST(&dom->asked);

    while (NULL != ep && dom->ticks - ep->asked_at > ticks) {
        fab_ofi_session_end(ep);
        fab_ofi_ep_defer_failure(ep, OPAL_ERR_UNREACH,
                                 "It did not answer over %s within %u s (pml_tm_ofi_timeout).",
                                 dom->name, fab_params.ofi_timeout);
        ep = TAILQ_FIRST(&dom->asked);
    }
}

/* ---- asking -------------------------------------------------------------- */

/* Of a message with zeros in the place of the proof. */
static void prove(const fab_ofi_addr_t *receiver, const void *msg, size_t len,
                  uint8_t proof[FAB_OFI_PROOF])
{
    fab_hmac(receiver->key, sizeof(receiver->key), msg, len, proof);
}

static void send_hello(fab_ofi_ep_t *ep, uint64_t nonce)
{
    const fab_ofi_domain_t *dom = ep->dom;
    fab_ofi_hello_t hello = {.magic = FAB_OFI_MAGIC,
                             .version = FAB_OFI_VERSION,
                             .name = dom->fab->config.name,
                             .target = ep->peer->name,
                             .index = ep->index,
                             .cookie = ep->cookie,
                             .window = ep->granted,
                             .nonce = nonce,
                             .addr = dom->addr};

    prove(&ep->addr, &hello, sizeof(hello), hello.proof);
    (void) fab_ofi_send_own(ep, FAB_OFI_ID_HELLO, 0, &hello, sizeof(hello));
}

void fab_ofi_connect(fab_ofi_ep_t *ep)
{
    const char *why;

    if (FAB_OFI_IDLE != ep->state || NULL != ep->failure || ep->has_left) {
        return;
    }
    why = session_begin(ep);
    if (NULL != why) {
        fab_ofi_ep_defer_failure(ep, OPAL_ERR_UNREACH, "%s", why);
        return;
    }
    wait_for_answer(ep);
    send_hello(ep, 0);
}

/* ---- answering ----------------------------------------------------------- */

/* Whoever sent this HELLO is to send it again with a nonce. */
static void challenge(fab_ofi_ep_t *ep, const fab_ofi_hello_t *hello)
{
    fab_ofi_domain_t *dom = ep->dom;
    fab_ofi_challenge_t msg = {.magic = FAB_OFI_MAGIC,
                               .version = FAB_OFI_VERSION,
                               .name = dom->fab->config.name,
                               .index = hello->index,
                               .cookie = hello->cookie};
    const char *why = make_reachable(ep);

    if (NULL != why) {
        fab_ofi_ep_defer_failure(ep, OPAL_ERR_UNREACH, "%s", why);
        return;
    }
    while (0 == ep->nonce) {
        ep->nonce = dom->next_nonce++;
    }
    msg.nonce = ep->nonce;
    prove(&ep->addr, &msg, sizeof(msg), msg.proof);
    (void) fab_ofi_send_own(ep, FAB_OFI_ID_CHALLENGE, 0, &msg, sizeof(msg));
}

static void answer(fab_ofi_ep_t *ep, const fab_ofi_hello_t *hello)
{
    fab_ofi_domain_t *dom = ep->dom;
    fab_ofi_welcome_t welcome = {.name = dom->fab->config.name, .hello_cookie = hello->cookie};
    const char *why = FAB_OFI_IDLE == ep->state ? session_begin(ep) : NULL;

    if (NULL != why) {
        fab_ofi_ep_defer_failure(ep, OPAL_ERR_UNREACH, "%s", why);
        return;
    }
    ep->has_left = false;
    ep->peer_index = hello->index;
    ep->peer_cookie = hello->cookie;
    ep->window = (uint16_t) hello->window;
    welcome.index = ep->index;
    welcome.cookie = ep->cookie;
    welcome.window = ep->granted;
    prove(&ep->addr, &welcome, sizeof(welcome), welcome.proof);
    /* without limit: the peer may have taken the session, and sent what it takes for delivered */
    stop_waiting(ep);
    ep->state = FAB_OFI_ANSWERED;
    (void) fab_ofi_send_own(ep, FAB_OFI_ID_WELCOME, 0, &welcome, sizeof(welcome));
}

/*
 * Say that the sender of this HELLO is not accepted: by an endpoint that is nobody's, and goes when
 * that is sent.
 */
static void refuse(fab_ofi_domain_t *dom, const fab_ofi_hello_t *hello)
{
    fab_ofi_ep_t *ep = calloc(1, sizeof(*ep));

    fab_counters.refused++;
    if (NULL == ep) {
        return; /* it will find out by its time limit */
    }
    ep->dom = dom;
    ep->addr = hello->addr;
    ep->to = FI_ADDR_NOTAVAIL;
    ep->deadline = fab_now_us() + UINT64_C(1000000) * fab_params.ofi_timeout;
    TAILQ_INIT(&ep->ops);
    TAILQ_INIT(&ep->posted);
    LIST_INIT(&ep->exposed);
    LIST_INSERT_HEAD(&dom->lingering, ep, link);
    if (1 == fi_av_insert(dom->av, ep->addr.name, 1, &ep->to, 0, NULL)) {
        ep->peer_index = hello->index;
        ep->peer_cookie = hello->cookie;
        (void) fab_ofi_send_own(ep, FAB_OFI_ID_REFUSE, 0, NULL, 0);
    }
}

/* Is this for this process, from one that got its address from the job? */
static bool hello_is_sound(const fab_ofi_domain_t *dom, const fab_ofi_hello_t *hello)
{
    fab_ofi_hello_t plain = *hello;
    uint8_t proof[FAB_OFI_PROOF];

    memset(plain.proof, 0, sizeof(plain.proof));
    prove(&dom->addr, &plain, sizeof(plain), proof);
    return FAB_OFI_MAGIC == hello->magic && FAB_OFI_VERSION == hello->version &&
           dom->fab->config.name == hello->target && hello->target != hello->name &&
           fab_bytes_are_equal(proof, hello->proof, sizeof(proof)) &&
           hello->index < FAB_OFI_NO_INDEX && hello->window >= 1 &&
           hello->window <= FAB_OFI_WINDOW_MAX && hello->addr.name_len == dom->addr.name_len &&
           hello->addr.addr_format == dom->addr.addr_format && fab_ofi_is_name(&hello->addr);
}

/* The endpoint of the process that sent HELLO. NULL: refuse it. */
static fab_ofi_ep_t *asker(fab_ofi_domain_t *dom, const fab_ofi_hello_t *hello)
{
    fab_peer_t *peer = fab_peer_from_wire(dom->fab, dom->provider, hello->name, &hello->addr,
                                          sizeof(hello->addr));
    fab_ofi_ep_t *ep;

    if (NULL == peer || FAB_PEER_FAILED == peer->state || NULL == peer->ep ||
        dom->provider != fab_peer_provider(peer) || fab_peer_is_moving(peer)) {
        return NULL;
    }
    ep = fab_ofi_ep_of(peer);
    return NULL != ep && NULL == ep->failure &&
                   0 == memcmp(&ep->addr, &hello->addr, sizeof(ep->addr))
               ? ep
               : NULL;
}

/*
 * Is it that of the session that the peer has already answered in?  Both have asked, and its HELLO
 * is reported after its WELCOME, which has the same index and cookie.
 */
static bool is_of_session(const fab_ofi_ep_t *ep, const fab_ofi_hello_t *hello)
{
    return FAB_OFI_IDLE != ep->state && hello->index == ep->peer_index &&
           hello->cookie == ep->peer_cookie;
}

static void handle_hello(fab_ofi_ep_t *ep, const fab_ofi_hello_t *hello)
{
    if (is_of_session(ep, hello)) {
        fab_counters.crossed++;
        return;
    }
    if (FAB_OFI_ASKING == ep->state) {
        fab_counters.crossed += 0 == hello->nonce;
        if (hello->name > ep->dom->fab->config.name) {
            return; /* it will answer this process's HELLO */
        }
    }
    if (0 == hello->nonce || hello->nonce != ep->nonce) {
        challenge(ep, hello);
        return;
    }
    ep->nonce = 0;
    if (FAB_OFI_IDLE != ep->state && FAB_OFI_ASKING != ep->state) {
        refuse(ep->dom, hello);
        fab_ofi_ep_defer_failure(ep, OPAL_ERR_COMM_FAILURE,
                                 "It gave up the session and requested another one.");
        return;
    }
    answer(ep, hello);
}

void fab_ofi_on_hello(fab_ofi_domain_t *dom, const void *data, size_t len)
{
    fab_ofi_hello_t hello;
    fab_ofi_ep_t *ep;

    if (sizeof(hello) != len) {
        fab_counters.ofi_strays++;
        return;
    }
    memcpy(&hello, data, sizeof(hello));
    if (!hello_is_sound(dom, &hello)) {
        fab_counters.ofi_strays++;
        return;
    }
    ep = asker(dom, &hello);
    if (NULL == ep) {
        refuse(dom, &hello);
    } else {
        handle_hello(ep, &hello);
    }
}

/* ---- answers ------------------------------------------------------------- */

static bool challenge_is_sound(const fab_ofi_ep_t *ep, const fab_ofi_challenge_t *msg)
{
    fab_ofi_challenge_t plain = *msg;
    uint8_t proof[FAB_OFI_PROOF];

    memset(plain.proof, 0, sizeof(plain.proof));
    prove(&ep->dom->addr, &plain, sizeof(plain), proof);
    return FAB_OFI_MAGIC == msg->magic && FAB_OFI_VERSION == msg->version &&
           ep->peer->name == msg->name && fab_bytes_are_equal(proof, msg->proof, sizeof(proof));
}

void fab_ofi_on_challenge(fab_ofi_domain_t *dom, const void *data, size_t len)
{
    fab_ofi_challenge_t msg = {.index = FAB_OFI_NO_INDEX};
    fab_ofi_ep_t *ep;

    if (sizeof(msg) == len) {
        memcpy(&msg, data, sizeof(msg));
    }
    ep = fab_ofi_session(dom, msg.index, msg.cookie);
    if (NULL == ep || FAB_OFI_ASKING != ep->state || !challenge_is_sound(ep, &msg)) {
        fab_counters.ofi_strays++;
        return;
    }
    wait_for_answer(ep);
    send_hello(ep, msg.nonce);
}

static bool welcome_is_sound(const fab_ofi_ep_t *ep, const fab_ofi_welcome_t *welcome)
{
    fab_ofi_welcome_t plain = *welcome;
    uint8_t proof[FAB_OFI_PROOF];

    memset(plain.proof, 0, sizeof(plain.proof));
    prove(&ep->dom->addr, &plain, sizeof(plain), proof);
    return ep->peer->name == welcome->name && ep->cookie == welcome->hello_cookie &&
           fab_bytes_are_equal(proof, welcome->proof, sizeof(proof)) &&
           welcome->index < FAB_OFI_NO_INDEX && welcome->window >= 1 &&
           welcome->window <= FAB_OFI_WINDOW_MAX;
}

static void refused(fab_ofi_ep_t *ep)
{
    fab_ofi_session_end(ep);
    fab_ofi_ep_defer_failure(ep, OPAL_ERR_UNREACH,
                             "It refused the session: this process has failed for it, or it "
                             "reaches this process in another way.");
}

void fab_ofi_on_answer(fab_ofi_ep_t *ep, const fab_ofi_hdr_t *hdr, const void *data, size_t len)
{
    fab_ofi_welcome_t welcome;

    if (FAB_OFI_ASKING == ep->state && FAB_OFI_ID_REFUSE == fab_ofi_hdr_id(hdr)) {
        refused(ep);
        return;
    }
    if (FAB_OFI_ASKING != ep->state || sizeof(welcome) != len) {
        fab_counters.ofi_strays++;
        return;
    }
    memcpy(&welcome, data, sizeof(welcome));
    if (!welcome_is_sound(ep, &welcome)) {
        fab_counters.ofi_strays++;
        return;
    }
    ep->peer_index = welcome.index;
    ep->peer_cookie = welcome.cookie;
    ep->window = (uint16_t) welcome.window;
    (void) fab_ofi_send_own(ep, FAB_OFI_ID_READY, 0, NULL, 0);
    fab_ofi_connect_done(ep);
}
