/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A session: all that two processes agree on to exchange messages by a provider, from the wish to
 * send to the last word.  session_wire.h has what they say.
 *
 *             to be sent              WELCOME                path works
 *     KNOWN ──────────────> ASKING ─────────────> TRYING ─────────────> UP ──BYE sent──> CLOSING
 *       │  └──HELLO────────────┴──HELLO (crossed)──> ASKED ──first word──^ ^───STAY────────┘ │
 *       └──closed: nothing to end──> GONE <──LEAVE, or closed──┴── KNOWN <──BYE of the peer──┘
 *
 * The session knows no sockets and no queues: a provider tells it what came (fab_ses_on_...), and
 * does what it says (fab_ses_ops_t).  tcp, whose connection is the session's path, skips TRYING and
 * ASKED (FAB_SES_FIFO): what follows WELCOME cannot come before it.
 *
 * The table.  Everything that can happen in each state; the first line of a HELLO's row that fits
 * counts.
 *
 *   event               KNOWN    ASKING      TRYING    ASKED     UP          CLOSING      GONE
 *   to be sent          ask      wait        wait      wait      send        wait         fail
 *   HELLO, void         dropped in every state: its number is not above void, or its way is shut
 *   HELLO, it failed    refused in every state; until a broken path is drained: parked
 *   HELLO               answer   (1)         answer    answer    (2)         (3)          answer
 *   WELCOME to serial   -        up, try (4) -         -         -           -            -
 *   WELCOME, another    refused (GAVE_UP) in every state
 *   REFUSE to serial    -        cannot      cannot    over (5)  as broken   as broken    -
 *   via broke           -        cannot      cannot    over      -           -            -
 *   path works          -        -           up        -         -           -            -
 *   path broke (6)      -        cannot      cannot    (7)       (8)         (9)          -
 *   first word          wrong    wrong       wrong     up        -           -            -
 *   BYE pause           wrong    wrong       wrong     up, (10)  (10)        over         -
 *   BYE close           wrong    wrong       wrong     up, over  over        over         -
 *   BYE leave           wrong    wrong       wrong     up, gone  gone        gone         -
 *   BYE refuse          wrong    wrong       wrong     fail      fail        gone (14)    -
 *   STAY                wrong    wrong       wrong     wrong     wrong       up (11)      -
 *   user closes         gone     (12)        closed    closed    BYE close   closed       gone
 *   pause wanted        -        -           -         -         BYE pause   -            -
 *   process leaves      -        cancel      refuse    refuse    BYE leave   wait         -
 *   drop (13)           gone     cancel      refuse    refuse    BYE refuse  gone         -
 *
 *    1  own HELLO not sent, or own name larger: answer; else park it: the peer answers ours
 *    2  unused: answer, the peer has given it up; used: refuse, fail
 *    3  park it; if it does not name this session as ended, the peer has given that up, and its BYE
 *       does not come: after FAB_SES_BYE_TICKS as row "path broke"
 *    4  but if a parked HELLO is later than what WELCOME makes void: answer that one
 *    5  to the own WELCOME
 *    6  as soon as all that came by it is taken (is_drained): it may be a BYE
 *    7  with a via: over; else cannot, and the peer waits: ask it by the next way (is_owed)
 *    8  unused: cannot (FIFO: over, the peer needed it no more); used: fail
 *    9  closed: over; else fail
 *   10  nothing waits here: BYE pause, over; else STAY
 *   11  only if the own word was pause
 *   12  HELLO sent: closed; else cancel, gone
 *   13  the fabric takes the peer from the provider: it has failed, or moves
 *   14  but fail if the own word was pause
 *
 * answer  give up what there is; the peer's HELLOs up to this one are void; WELCOME; ASKED.
 * over    the path is closed when all is written.  Closed: gone; else a parked HELLO is answered;
 *         else KNOWN.  FIFO: not before the path has ended in both directions (path ended).
 * cannot  give up what there is.  Closed, and no word owed: gone; else a parked
 *         HELLO is answered, if its via is open, or refused without one, since a way that fails in
 *         one direction is not worth the other; else fab_peer_cannot_connect(), or
 *         fab_peer_owes(), since the peer waits (fab_ses_ask_owed() by the next provider).
 * gone    the record goes; a parked HELLO is handed over again, to the record that follows.
 * closed  noted: BYE close as soon as the session is up; then gone.
 * wrong   the provider fails the peer: it violates the protocol.
 *
 * Crossing.  Both have sent HELLO.  The one with the larger name never waits: it answers the
 * other's HELLO and gives up its own.  So there is no cycle of waiting, one session, and both agree
 * on it: the answering side may send only after it has heard of the other that this is up, and the
 * other leaves it only with a word: a later HELLO, REFUSE, or its end of the via closed.
 *
 * Moving.  A process asks by a later provider only if it has not used the session (is_used: a
 * message of a user went or came); one that is asked so moves only if it has not either
 * (fab_ses_asked_by_later).  So nothing is under way, nothing is lost, doubled or overtaken.
 *
 * The window.  Messages, or bytes, are counted from 0 on in 32 bits.  Those that are sent and not
 * taken by the peer (CREDIT) are at most as many as it has granted.  The window is 0 whenever
 * nothing may be sent, so one comparison is all that comes before a message.
 *
 * The file's functions are called under the fabric's lock.  A function of the table may release the
 * session (ops->gone); its caller uses it no more.
 */
#ifndef FAB_SESSION_H
#define FAB_SESSION_H

#include "fabric/fab_export.h"
#include "fabric/fab_provider.h"
#include "session/session_wire.h"

typedef struct fab_ses fab_ses_t;
typedef struct fab_ses_domain fab_ses_domain_t;
typedef struct fab_ses_failure fab_ses_failure_t;

/* Has it values that a process of this kind sends? */
static inline bool fab_ses_msg_is_sound(const fab_ses_msg_t *msg)
{
    const bool has_window = FAB_SES_HELLO == msg->kind || FAB_SES_WELCOME == msg->kind;

    return msg->kind >= FAB_SES_HELLO && msg->kind <= FAB_SES_REFUSE && msg->serial > 0 &&
           msg->serial < FAB_SES_YOU_ASKED &&
           (!has_window || (msg->window > 0 && msg->window <= INT32_MAX));
}

typedef enum fab_ses_state {
    FAB_SES_KNOWN,   /* there is none */
    FAB_SES_ASKING,  /* HELLO is sent, or will be (is_out) */
    FAB_SES_TRYING,  /* WELCOME came, the path is being tried */
    FAB_SES_ASKED,   /* WELCOME is sent: the peer sends first */
    FAB_SES_UP,      /* messages go both ways */
    FAB_SES_CLOSING, /* BYE is sent */
    FAB_SES_GONE,    /* the peer takes no more */
} fab_ses_state_t;

enum {
    FAB_SES_VIA = 1,        /* HELLO comes by a channel of its own, which says when it breaks */
    FAB_SES_FIFO = 2,       /* ... and becomes the path; only for the last way to a peer */
    FAB_SES_BYE_TICKS = 16, /* calls of fab_ses_tick() in which a BYE that is under way comes */
};

/*
 * What a session has its provider do.  None of these calls the session, but by what it hears later.
 * `via` is what a HELLO came by, and holds that HELLO.
 */
typedef struct fab_ses_ops {
    unsigned shape; /* FAB_SES_VIA, FAB_SES_FIFO */

    /*
     * Ask the peer: call fab_ses_stamp() each time right before HELLO leaves.  Returns NULL, or why
     * that cannot be.
     */
    const char *(*ask)(fab_ses_t *ses);
    /* Give that up; the via of own HELLOs is closed. */
    void (*cancel)(fab_ses_t *ses);
    /* Open a path to the sender of this HELLO, and say WELCOME.  Takes via.  NULL, or why not. */
    const char *(*answer)(fab_ses_t *ses, void *via, const fab_ses_msg_t *welcome);
    /* WELCOME came: open the path, and try it unless FIFO.  NULL, or why not. */
    const char *(*accept)(fab_ses_t *ses, const fab_ses_msg_t *welcome);
    /* Send REFUSE to the sender of this HELLO.  Takes via. */
    void (*refuse)(fab_ses_domain_t *dom, void *via, const fab_ses_msg_t *refuse);
    /*
     * The same to the peer, whose WELCOME, or earlier HELLO, is meant.  NULL with FAB_SES_VIA: who
     * waits hears that the via is closed.
     */
    void (*refuse_peer)(fab_ses_t *ses, const fab_ses_msg_t *refuse);

    const fab_ses_msg_t *(*hello)(const void *via);
    bool (*is_open)(const void *via);
    void (*free_via)(void *via);
    /* Hand this HELLO over again in the next poll: its record is gone, another one takes it. */
    void (*again)(void *via);

    /*
     * The session is up: the queue may run.  The side that asked sends its first word.  The other
     * closes the via, not before: until then its end says that the asking side gave up.
     */
    void (*up)(fab_ses_t *ses, bool has_asked);
    /* Send BYE behind all that was sent: there is always memory for it. */
    void (*bye)(fab_ses_t *ses, fab_ses_bye_t bye);
    /* Send CREDIT with ses->consumed, and call fab_ses_told(); now, or when there is room. */
    void (*credit)(fab_ses_t *ses);
    /* Close the path, and the via.  lingers: what was sent before is still delivered. */
    void (*close)(fab_ses_t *ses, bool lingers);
    /* The peer was closed by its user, and all is over: free the endpoint, fab_peer_left(). */
    void (*gone)(fab_ses_t *ses);
    /*
     * There will be no session by the present way: fab_ses_go_on(), perhaps later, or begin again
     * by another way of the provider.  NULL: fab_ses_go_on() at once.
     */
    void (*cannot)(fab_ses_t *ses, int rc, const char *why);

    /* Is nothing queued or under way, so that a pause costs nothing? */
    bool (*is_idle)(const fab_ses_t *ses);
    /* Has all that came by the broken path been taken? */
    bool (*is_drained)(const fab_ses_t *ses);
} fab_ses_ops_t;

/* A provider in this process. */
struct fab_ses_domain {
    const fab_ses_ops_t *ops;
    uint64_t name;   /* of this process */
    uint64_t serial; /* of its last HELLO or WELCOME */
    uint32_t window; /* that it grants to each peer */
};

/* A path that broke, until all that came by it is taken. */
struct fab_ses_failure {
    int rc;
    char why[256];
};

struct fab_ses {
    fab_ses_domain_t *dom;
    fab_peer_t *peer;

    /* the window: messages or bytes, as the provider counts them */
    uint32_t sent;
    uint32_t taken;  /* of those, by the peer */
    uint32_t window; /* not taken, at most; 0: nothing may be sent now */
    uint32_t consumed;
    uint32_t told; /* of those, by CREDIT */
    uint32_t peer_window;

    uint8_t state;      /* fab_ses_state_t */
    uint8_t bye;        /* fab_ses_bye_t: own last word */
    uint8_t peer_bye;   /* the peer's; FIFO: until the path has ended */
    uint8_t num_ticks;  /* since a HELLO said that the peer's BYE does not come; 0: none did */
    bool is_out;        /* ASKING: HELLO was sent */
    bool is_mine;       /* this process has asked for it */
    bool is_used;       /* a message of a user went or came */
    bool is_broken;     /* the path: nothing goes by it */
    bool is_owed;       /* the peer waits for a HELLO by the next provider */
    bool is_closed;     /* the user has closed the peer */
    bool is_failed;     /* the fabric was told: only drop follows */
    bool is_credit_due; /* CREDIT did not find room */

    uint64_t serial;            /* of this process's latest HELLO or WELCOME to the peer */
    uint64_t asked;             /* the session's: of the HELLO that it was made by */
    uint64_t ended;             /* as `other` of HELLO */
    uint64_t void_;             /* the peer's HELLOs up to this one are void */
    void *parked;               /* the via of a HELLO that waits; NULL: none */
    fab_ses_failure_t *failure; /* NULL: the path is whole */
};

/* ---- for the provider: wishes --------------------------------------------- */

FAB_EXPORT void fab_ses_init(fab_ses_t *ses, fab_ses_domain_t *dom, fab_peer_t *peer);

/* Something is to be sent, and window is 0, or used up. */
FAB_EXPORT void fab_ses_want(fab_ses_t *ses);

/* The peer has moved here, and waits for HELLO (is_owed), though the user may have closed it. */
FAB_EXPORT void fab_ses_ask_owed(fab_ses_t *ses);

/* What the fabric does after ops->cannot: the peer goes to the next provider, or fails. */
FAB_EXPORT void fab_ses_go_on(const fab_ses_t *ses, int rc, const char *why);

/*
 * The user has closed the peer.  True: there is nothing to end, the caller frees the endpoint; else
 * ops->gone says when all is over.
 */
FAB_EXPORT bool fab_ses_close(fab_ses_t *ses);

/* Give an idle session up, until it is needed again.  False: it is not up, or not idle. */
FAB_EXPORT bool fab_ses_pause(fab_ses_t *ses);

/* The process leaves the job.  True: there is a word of the peer to wait for. */
FAB_EXPORT bool fab_ses_leave(fab_ses_t *ses);

/* Release what it holds: the endpoint goes. */
FAB_EXPORT void fab_ses_fini(fab_ses_t *ses);

/* The fabric takes the peer away.  All is released but the session itself. */
FAB_EXPORT void fab_ses_drop(fab_ses_t *ses);

/* ---- what came -------------------------------------------------------------- */

/* HELLO is about to leave: fill it in. */
FAB_EXPORT void fab_ses_stamp(fab_ses_t *ses, fab_ses_msg_t *hello);

/* HELLO came, proved, of the peer's address.  Takes via. */
FAB_EXPORT void fab_ses_on_hello(fab_ses_t *ses, void *via);

/* HELLO came that leads to no session: say so.  Takes via. */
FAB_EXPORT void fab_ses_refuse(fab_ses_domain_t *dom, void *via, fab_ses_reason_t reason);

/* WELCOME or REFUSE came: to the own HELLO, or to the own WELCOME. */
FAB_EXPORT void fab_ses_on_answer(fab_ses_t *ses, const fab_ses_msg_t *msg);

/* The via of the own HELLO, or of the answered or parked one, was lost. */
FAB_EXPORT void fab_ses_via_broke(fab_ses_t *ses, const char *why);
FAB_EXPORT void fab_ses_parked_broke(fab_ses_t *ses);

/* A message of each side has passed. */
FAB_EXPORT void fab_ses_path_works(fab_ses_t *ses);

/*
 * Nothing goes by it any more; rc as fab_peer_fail().  What came before it is taken first: if that
 * is a BYE, nothing has failed.
 */
FAB_EXPORT void fab_ses_path_broke(fab_ses_t *ses, int rc, const char *why);

/* FIFO: both directions have ended, after a BYE each. */
void fab_ses_path_ended(fab_ses_t *ses);

/* BYE came.  False: it is against the protocol. */
FAB_EXPORT bool fab_ses_on_bye(fab_ses_t *ses, unsigned bye);

/* CREDIT came: the peer has taken so many since the session began.  False: never so many sent. */
static inline bool fab_ses_on_credit(fab_ses_t *ses, uint32_t taken)
{
    if (taken - ses->taken > ses->sent - ses->taken) {
        return false;
    }
    ses->taken = taken;
    return true;
}

/* The same, of a count of which only the low 16 bits travel. */
static inline bool fab_ses_on_credit16(fab_ses_t *ses, uint16_t taken)
{
    return fab_ses_on_credit(ses, ses->taken + (uint16_t) (taken - (uint16_t) ses->taken));
}

/* The peer takes so much now, 1 at least: it has granted more, or some was given back. */
static inline void fab_ses_resize(fab_ses_t *ses, uint32_t window)
{
    ses->peer_window = window;
    ses->window = 0 != ses->window ? window : 0;
}

/* Time has passed in which this process has polled: a fraction of a second. */
FAB_EXPORT void fab_ses_tick(fab_ses_t *ses);

/* The provider has polled an empty queue: a broken path may be drained now. */
FAB_EXPORT void fab_ses_drained(fab_ses_t *ses);

/* ---- a later provider is asked by ------------------------------------------- */

/*
 * HELLO came by a later provider than the session's: the peer has let go of that one.  It moves if
 * nothing was used; it stays, and has failed, if messages may be on their way; and while the
 * session ends, or a broken path is not drained, the answer comes later.
 */
FAB_EXPORT fab_moves_t fab_ses_asked_by_later(fab_ses_t *ses);

/* ---- the fast path ---------------------------------------------------------- */

static inline bool fab_ses_may_send(const fab_ses_t *ses)
{
    return ses->sent - ses->taken < ses->window;
}

/* The peer's first message of a session, or any of its messages. */
FAB_EXPORT void fab_ses_first(fab_ses_t *ses);

/* So much was taken of what the peer sent. */
static inline void fab_ses_take(fab_ses_t *ses, uint32_t num)
{
    ses->consumed += num;
    if (__builtin_expect(ses->consumed - ses->told >= ses->dom->window / 4, 0)) {
        ses->dom->ops->credit(ses);
    }
}

/* CREDIT, with consumed, is on its way. */
static inline void fab_ses_told(fab_ses_t *ses)
{
    ses->told = ses->consumed;
}

#endif /* FAB_SESSION_H */
