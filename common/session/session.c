/* SPDX-License-Identifier: BSD-3-Clause */
/* The state machine of session.h: one function for each row of its table, in its order. */
#include "session/session.h"

#include <stdio.h>
#include <stdlib.h>

/* ---- what several rows do -------------------------------------------------- */

static bool has_shape(const fab_ses_t *ses, unsigned shape)
{
    return 0 != (ses->dom->ops->shape & shape);
}

/* As `other` of a HELLO to the peer names this session; the peer inverts the highest bit. */
static uint64_t name_of(const fab_ses_t *ses)
{
    return ses->asked | (ses->is_mine ? 0 : FAB_SES_YOU_ASKED);
}

static void forget_failure(fab_ses_t *ses)
{
    free(ses->failure);
    ses->failure = NULL;
}

/* No session: nothing of the last one is left. */
static void reset(fab_ses_t *ses)
{
    forget_failure(ses);
    ses->state = FAB_SES_KNOWN;
    ses->sent = ses->taken = ses->window = ses->consumed = ses->told = ses->peer_window = 0;
    ses->bye = ses->peer_bye = FAB_SES_BYE_NONE;
    ses->num_ticks = 0;
    ses->is_out = ses->is_mine = ses->is_used = ses->is_broken = false;
    ses->asked = 0;
}

/* Release what there is, without a word. */
static void give_up(fab_ses_t *ses, bool lingers)
{
    if (FAB_SES_ASKING == ses->state) {
        ses->dom->ops->cancel(ses);
    } else if (FAB_SES_KNOWN != ses->state && FAB_SES_GONE != ses->state) {
        ses->dom->ops->close(ses, lingers);
    }
    reset(ses);
}

static void unpark(fab_ses_t *ses)
{
    if (NULL != ses->parked) {
        ses->dom->ops->free_via(ses->parked);
        ses->parked = NULL;
    }
}

/* Of two HELLOs the later counts: they come by different vias. */
static void park(fab_ses_t *ses, void *via)
{
    const fab_ses_ops_t *ops = ses->dom->ops;

    if (NULL != ses->parked && ops->hello(ses->parked)->serial > ops->hello(via)->serial) {
        ops->free_via(via);
        return;
    }
    unpark(ses);
    ses->parked = via;
}

/*
 * The session is gone with its endpoint when this returns.  A parked HELLO is for the record that
 * follows: answered by this one, it would be closed before its sender can send.
 */
static void finish(fab_ses_t *ses)
{
    if (NULL != ses->parked) {
        ses->dom->ops->again(ses->parked);
        ses->parked = NULL;
    }
    ses->state = FAB_SES_GONE;
    ses->dom->ops->gone(ses);
}

static void fail(fab_ses_t *ses, int rc, const char *why)
{
    ses->is_failed = true;
    ses->window = 0;
    fab_peer_fail(ses->peer, rc, why);
}

static void say_bye(fab_ses_t *ses, fab_ses_bye_t bye)
{
    ses->window = 0;
    ses->bye = (uint8_t) bye;
    ses->state = FAB_SES_CLOSING;
    ses->dom->ops->bye(ses, bye);
}

static void up(fab_ses_t *ses)
{
    ses->state = FAB_SES_UP;
    ses->is_owed = false;
    if (ses->is_broken) {
        return;
    }
    ses->window = ses->peer_window;
    ses->dom->ops->up(ses, ses->is_mine);
    if (ses->is_closed) {
        say_bye(ses, FAB_SES_BYE_CLOSE);
    }
}

void fab_ses_refuse(fab_ses_domain_t *dom, void *via, fab_ses_reason_t reason)
{
    const fab_ses_msg_t msg = {
        .kind = FAB_SES_REFUSE, .reason = (uint8_t) reason, .serial = dom->ops->hello(via)->serial};

    dom->ops->refuse(dom, via, &msg);
}

static void cannot(fab_ses_t *ses, int rc, const char *why);

static void answer(fab_ses_t *ses, void *via)
{
    const fab_ses_msg_t hello = *ses->dom->ops->hello(via);
    const char *why;

    if (ses->parked == via) {
        ses->parked = NULL;
    }
    give_up(ses, false);
    unpark(ses);
    ses->void_ = hello.serial;
    ses->asked = hello.serial;
    ses->peer_window = hello.window;
    ses->serial = ++ses->dom->serial;
    const fab_ses_msg_t welcome = {.kind = FAB_SES_WELCOME,
                                   .window = ses->dom->window,
                                   .serial = hello.serial,
                                   .other = ses->serial};
    why = ses->dom->ops->answer(ses, via, &welcome);
    if (NULL != why) {
        fab_ses_refuse(ses->dom, via, FAB_SES_REASON_RESOURCES);
        cannot(ses, OPAL_ERR_OUT_OF_RESOURCE, why);
        return;
    }
    ses->state = FAB_SES_ASKED;
    if (has_shape(ses, FAB_SES_FIFO)) {
        up(ses);
    }
}

/* Answer the parked HELLO, if its sender still waits.  False: there is none. */
static bool answer_parked(fab_ses_t *ses)
{
    void *via = ses->parked;

    if (NULL == via || !ses->dom->ops->is_open(via)) {
        unpark(ses);
        return false;
    }
    answer(ses, via);
    return true;
}

/* The session is over, in order or because the peer gave it up. */
static void over(fab_ses_t *ses)
{
    const uint8_t peer_bye = ses->peer_bye;
    const bool is_owed = ses->is_owed;

    if (FAB_SES_BYE_NONE != ses->bye && FAB_SES_BYE_NONE != peer_bye) {
        ses->ended = name_of(ses);
    }
    give_up(ses, true);
    if (ses->is_closed && !is_owed) {
        finish(ses);
    } else if (answer_parked(ses)) {
        return;
    } else if (is_owed) {
        fab_ses_want(ses); /* what was answered was not what the peer waits for */
    } else if (FAB_SES_BYE_LEAVE == peer_bye || FAB_SES_BYE_REFUSE == peer_bye) {
        ses->state = FAB_SES_GONE;
    }
}

void fab_ses_go_on(const fab_ses_t *ses, int rc, const char *why)
{
    if (ses->is_owed) {
        fab_peer_owes(ses->peer, rc, why);
    } else {
        fab_peer_cannot_connect(ses->peer, rc, why);
    }
}

/* There will be no session by this provider, unless the peer's parked HELLO makes one. */
static void cannot(fab_ses_t *ses, int rc, const char *why)
{
    const bool has_via = has_shape(ses, FAB_SES_VIA);
    const bool is_owed = ses->is_owed || (FAB_SES_ASKED == ses->state && !has_via);

    give_up(ses, false);
    if (ses->is_closed && !is_owed) {
        finish(ses);
        return;
    }
    if (has_via && answer_parked(ses)) {
        return;
    }
    if (NULL != ses->parked) {
        fab_ses_refuse(ses->dom, ses->parked, FAB_SES_REASON_WAY);
        ses->parked = NULL;
    }
    ses->is_owed = is_owed;
    ses->is_failed = true;
    if (NULL != ses->dom->ops->cannot) {
        ses->dom->ops->cannot(ses, rc, why);
    } else {
        fab_ses_go_on(ses, rc, why);
    }
}

/* ---- wishes ---------------------------------------------------------------- */

void fab_ses_init(fab_ses_t *ses, fab_ses_domain_t *dom, fab_peer_t *peer)
{
    *ses = (fab_ses_t){.dom = dom, .peer = peer, .state = FAB_SES_KNOWN};
}

void fab_ses_fini(fab_ses_t *ses)
{
    forget_failure(ses);
    unpark(ses);
}

void fab_ses_want(fab_ses_t *ses)
{
    const char *why;

    if (ses->is_failed) {
        return;
    }
    if (FAB_SES_GONE == ses->state || FAB_SES_BYE_LEAVE == ses->peer_bye) {
        fail(ses, OPAL_ERR_UNREACH,
             "It takes no more messages: it has left, or refused this process.");
        return;
    }
    if (FAB_SES_KNOWN == ses->state) {
        ses->state = FAB_SES_ASKING;
        why = ses->dom->ops->ask(ses);
        if (NULL != why) {
            cannot(ses, OPAL_ERR_OUT_OF_RESOURCE, why);
        }
    }
}

void fab_ses_ask_owed(fab_ses_t *ses)
{
    ses->is_owed = true;
    ses->is_closed = FAB_PEER_CLOSED == ses->peer->state;
    fab_ses_want(ses);
}

bool fab_ses_close(fab_ses_t *ses)
{
    ses->is_closed = true;
    if (ses->is_owed) {
        return false; /* the peer waits for HELLO: the session that this makes ends in order */
    }
    if (FAB_SES_UP == ses->state && !ses->is_broken) {
        say_bye(ses, FAB_SES_BYE_CLOSE);
    } else if (FAB_SES_ASKING == ses->state && !ses->is_out) {
        give_up(ses, false);
    } /* else, with HELLO sent, the peer may have agreed, and be sending */
    return FAB_SES_KNOWN == ses->state || FAB_SES_GONE == ses->state;
}

bool fab_ses_pause(fab_ses_t *ses)
{
    if (FAB_SES_UP != ses->state || ses->is_broken || !ses->dom->ops->is_idle(ses)) {
        return false;
    }
    say_bye(ses, FAB_SES_BYE_PAUSE);
    return true;
}

bool fab_ses_leave(fab_ses_t *ses)
{
    if (FAB_SES_UP == ses->state && !ses->is_broken) {
        say_bye(ses, FAB_SES_BYE_LEAVE);
    }
    return FAB_SES_CLOSING == ses->state && !ses->is_broken;
}

/* Without a via, a peer that waits for this process's word needs one. */
static void refuse_peer(fab_ses_t *ses)
{
    const fab_ses_msg_t msg = {
        .kind = FAB_SES_REFUSE, .reason = FAB_SES_REASON_PEER, .serial = ses->asked};

    if (FAB_SES_ASKED == ses->state && !has_shape(ses, FAB_SES_VIA)) {
        ses->dom->ops->refuse_peer(ses, &msg);
    }
}

void fab_ses_drop(fab_ses_t *ses)
{
    /* a PAUSE may be declined: then the peer goes on to send */
    const bool is_heard = FAB_SES_UP == ses->state ||
                          (FAB_SES_CLOSING == ses->state && FAB_SES_BYE_PAUSE == ses->bye);

    if (is_heard && !ses->is_broken) {
        say_bye(ses, FAB_SES_BYE_REFUSE);
    }
    refuse_peer(ses);
    give_up(ses, true);
    if (NULL != ses->parked) {
        fab_ses_refuse(ses->dom, ses->parked, FAB_SES_REASON_PEER);
        ses->parked = NULL;
    }
    ses->state = FAB_SES_GONE;
}

/* ---- HELLO ------------------------------------------------------------------ */

void fab_ses_stamp(fab_ses_t *ses, fab_ses_msg_t *hello)
{
    ses->serial = ++ses->dom->serial;
    ses->is_out = true;
    *hello = (fab_ses_msg_t){.kind = FAB_SES_HELLO,
                             .window = ses->dom->window,
                             .serial = ses->serial,
                             .other = ses->ended};
}

/* The peer asks again while this side takes the session for up. */
static void asked_while_up(fab_ses_t *ses, void *via)
{
    if (!ses->is_used) {
        answer(ses, via);
        return;
    }
    fab_ses_refuse(ses->dom, via, FAB_SES_REASON_PEER);
    fail(ses, OPAL_ERR_COMM_FAILURE, "It gave up the session and asked for another one.");
}

/* BYE of the peer is on its way, unless the peer has given the session up. */
static void asked_while_closing(fab_ses_t *ses, void *via)
{
    const uint64_t peers_name = name_of(ses) ^ FAB_SES_YOU_ASKED;

    if (!has_shape(ses, FAB_SES_FIFO) && ses->dom->ops->hello(via)->other != peers_name) {
        ses->num_ticks = 1;
    }
    park(ses, via);
}

void fab_ses_on_hello(fab_ses_t *ses, void *via)
{
    const uint64_t serial = ses->dom->ops->hello(via)->serial;

    if (serial <= ses->void_ || !ses->dom->ops->is_open(via)) {
        ses->dom->ops->free_via(via);
    } else if (ses->is_failed) {
        fab_ses_refuse(ses->dom, via, FAB_SES_REASON_PEER);
    } else if (NULL != ses->failure) {
        park(ses, via); /* the last word may be among what came before the path broke */
    } else if (FAB_SES_UP == ses->state) {
        asked_while_up(ses, via);
    } else if (FAB_SES_CLOSING == ses->state) {
        asked_while_closing(ses, via);
    } else if (FAB_SES_ASKING == ses->state && ses->is_out && ses->dom->name < ses->peer->name) {
        park(ses, via);
    } else {
        answer(ses, via);
    }
}

static const char refused[] = "It refused this process.";

/* ---- answers ----------------------------------------------------------------- */

static void on_welcome(fab_ses_t *ses, const fab_ses_msg_t *welcome)
{
    const char *why;

    if (NULL != ses->parked && ses->dom->ops->hello(ses->parked)->serial > welcome->other) {
        answer(ses, ses->parked); /* the peer has given up what it answered, and asks again */
        return;
    }
    unpark(ses);
    if (welcome->other > ses->void_) {
        ses->void_ = welcome->other;
    }
    ses->is_mine = true;
    ses->asked = ses->serial;
    ses->peer_window = welcome->window;
    ses->state = FAB_SES_TRYING;
    why = ses->dom->ops->accept(ses, welcome);
    if (NULL != why) {
        cannot(ses, OPAL_ERR_OUT_OF_RESOURCE, why);
    } else if (!has_shape(ses, FAB_SES_VIA) || has_shape(ses, FAB_SES_FIFO)) {
        up(ses);
    }
}

static void on_refuse(fab_ses_t *ses, const fab_ses_msg_t *msg)
{
    if (msg->serial == ses->serial &&
        (FAB_SES_ASKING == ses->state || FAB_SES_TRYING == ses->state)) {
        cannot(ses, OPAL_ERR_UNREACH,
               "It refused the connection: this process has failed for it, or it reaches this "
               "process in another way.");
    } else if (msg->serial == ses->serial && FAB_SES_ASKED == ses->state) {
        over(ses);
    } else if (msg->serial == ses->asked && ses->is_mine) {
        fab_ses_path_broke(ses, OPAL_ERR_COMM_FAILURE, refused);
    }
}

void fab_ses_on_answer(fab_ses_t *ses, const fab_ses_msg_t *msg)
{
    if (FAB_SES_REFUSE == msg->kind) {
        on_refuse(ses, msg);
    } else if (FAB_SES_ASKING == ses->state && ses->is_out && msg->serial == ses->serial) {
        on_welcome(ses, msg);
    } else if (!has_shape(ses, FAB_SES_VIA)) {
        const fab_ses_msg_t refusal = {
            .kind = FAB_SES_REFUSE, .reason = FAB_SES_REASON_GAVE_UP, .serial = msg->other};
        ses->dom->ops->refuse_peer(ses, &refusal);
    }
}

void fab_ses_via_broke(fab_ses_t *ses, const char *why)
{
    if (FAB_SES_ASKING == ses->state || FAB_SES_TRYING == ses->state) {
        cannot(ses, OPAL_ERR_UNREACH, why);
    } else if (FAB_SES_ASKED == ses->state && !ses->is_broken) {
        over(ses);
    }
}

void fab_ses_parked_broke(fab_ses_t *ses)
{
    unpark(ses);
}

/* ---- the path ----------------------------------------------------------------- */

void fab_ses_path_works(fab_ses_t *ses)
{
    if (FAB_SES_TRYING == ses->state) {
        up(ses);
    }
}

void fab_ses_first(fab_ses_t *ses)
{
    if (FAB_SES_ASKED == ses->state) {
        up(ses);
    }
}

/* All that came by the broken path was taken. */
static void broke(fab_ses_t *ses, int rc, const char *why)
{
    if (FAB_SES_ASKED == ses->state && has_shape(ses, FAB_SES_VIA)) {
        over(ses);
    } else if (FAB_SES_CLOSING == ses->state && ses->is_closed) {
        over(ses);
    } else if (FAB_SES_UP == ses->state && !ses->is_used && has_shape(ses, FAB_SES_FIFO)) {
        over(ses);
    } else if (FAB_SES_CLOSING == ses->state || ses->is_used) {
        fail(ses, rc, why);
    } else {
        cannot(ses, rc, why);
    }
}

void fab_ses_drained(fab_ses_t *ses)
{
    fab_ses_failure_t *failure = ses->failure;

    if (NULL != failure && ses->dom->ops->is_drained(ses)) {
        ses->failure = NULL;
        broke(ses, failure->rc, failure->why);
        free(failure);
    }
}

void fab_ses_path_broke(fab_ses_t *ses, int rc, const char *why)
{
    if (FAB_SES_ASKING == ses->state || FAB_SES_TRYING == ses->state) {
        cannot(ses, rc, why);
        return;
    }
    if (FAB_SES_KNOWN == ses->state || FAB_SES_GONE == ses->state || ses->is_broken) {
        return;
    }
    ses->is_broken = true;
    ses->window = 0;
    if (ses->dom->ops->is_drained(ses)) {
        broke(ses, rc, why);
        return;
    }
    ses->failure = malloc(sizeof(*ses->failure));
    if (NULL == ses->failure) {
        broke(ses, rc, "It failed; there was no memory to keep the reason.");
        return;
    }
    ses->failure->rc = rc;
    snprintf(ses->failure->why, sizeof(ses->failure->why), "%s", why);
}

/* ---- the end ------------------------------------------------------------------ */

void fab_ses_path_ended(fab_ses_t *ses)
{
    if (FAB_SES_CLOSING == ses->state && FAB_SES_BYE_NONE != ses->peer_bye) {
        over(ses);
    }
}

/* The peer's last word came; this process has said its own. */
static void both_said(fab_ses_t *ses)
{
    const bool has_left = FAB_SES_BYE_LEAVE == ses->peer_bye && !ses->is_closed;
    fab_peer_t *peer = ses->peer;

    if (has_shape(ses, FAB_SES_FIFO)) {
        forget_failure(ses); /* over when the path has ended */
    } else {
        over(ses);
    }
    if (has_left) {
        fab_peer_has_left(peer);
    }
}

/* The peer ends the session, which is up here. */
static void bye_while_up(fab_ses_t *ses, fab_ses_bye_t bye)
{
    if (FAB_SES_BYE_PAUSE == bye && !ses->dom->ops->is_idle(ses)) {
        ses->peer_bye = FAB_SES_BYE_NONE;
        ses->dom->ops->bye(ses, FAB_SES_BYE_STAY);
    } else if (FAB_SES_BYE_REFUSE == bye) {
        fail(ses, OPAL_ERR_UNREACH, refused);
    } else {
        say_bye(ses, FAB_SES_BYE_PAUSE == bye ? FAB_SES_BYE_PAUSE : FAB_SES_BYE_CLOSE);
        both_said(ses);
    }
}

/* This process's PAUSE was declined. */
static bool stay(fab_ses_t *ses)
{
    if (FAB_SES_CLOSING != ses->state || FAB_SES_BYE_PAUSE != ses->bye) {
        return false;
    }
    ses->bye = FAB_SES_BYE_NONE;
    up(ses);
    return true;
}

bool fab_ses_on_bye(fab_ses_t *ses, unsigned bye)
{
    fab_ses_first(ses);
    if (FAB_SES_BYE_STAY == bye) {
        return stay(ses);
    }
    if ((FAB_SES_UP != ses->state && FAB_SES_CLOSING != ses->state) ||
        FAB_SES_BYE_NONE != ses->peer_bye || FAB_SES_BYE_NONE == bye || bye >= FAB_SES_BYES) {
        return false;
    }
    ses->peer_bye = (uint8_t) bye;
    if (FAB_SES_UP == ses->state) {
        bye_while_up(ses, (fab_ses_bye_t) bye);
    } else if (FAB_SES_BYE_REFUSE == bye && FAB_SES_BYE_PAUSE == ses->bye) {
        fail(ses, OPAL_ERR_UNREACH, refused);
    } else {
        both_said(ses);
    }
    return true;
}

/* ---- time, and a later provider ------------------------------------------------ */

static const char given_up[] = "It gave up the session, and its last word did not come.";

void fab_ses_tick(fab_ses_t *ses)
{
    if (0 != ses->num_ticks && ++ses->num_ticks > FAB_SES_BYE_TICKS) {
        ses->num_ticks = 0;
        fab_ses_path_broke(ses, OPAL_ERR_COMM_FAILURE, given_up);
    }
}

fab_moves_t fab_ses_asked_by_later(fab_ses_t *ses)
{
    if (NULL != ses->failure) {
        return FAB_MOVES_LATER;
    }
    if (FAB_SES_CLOSING == ses->state) {
        if (0 == ses->num_ticks) {
            ses->num_ticks = 1; /* the peer does not say what has ended by another provider */
        }
        return FAB_MOVES_LATER;
    }
    if (ses->is_used && !ses->is_failed) {
        fail(ses, OPAL_ERR_COMM_FAILURE, "It gave up the session and asked by another provider.");
    }
    return ses->is_used || ses->is_failed ? FAB_STAYS : FAB_MOVES;
}
