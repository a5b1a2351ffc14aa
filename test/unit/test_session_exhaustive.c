/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The code of common/session in every order of events: two processes which have messages for each
 * other, with one or two providers of each shape, that ask, answer, pause, close, leave, fail and
 * move at any step; attempts fail, paths and vias break, and what was under way on them is lost or
 * still arrives.  Each state is visited once.
 *
 * What is checked: messages come once and in order; without a break all of them come and no peer
 * fails; with one, each side that waits is told; nothing waits for ever, and no run is without end.
 *
 * The provider is made of the vias and paths below; the fabric, which drops peers and moves them,
 * of a few lines.  A state is what can still make a difference: serial numbers count by their
 * order.
 *
 * TM_TEST_ONLY names one configuration, TM_TEST_DEPTH runs the larger ones (1: minutes).
 *
 * TEST: sources=common/session/session.c timeout=300 variants=plain quick=no depends=common/session,common/fabric/fab.h,common/fabric/fab_provider.h cflags="-Dmalloc=explore_malloc -Dfree=explore_free"
 */
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <cmocka.h>

#include "session/session.h"

enum { SIDES = 2, WAYS = 2, VIAS = 10, PATHS = 8, BAND = 8, NOTES = 12, MAX_DEPTH = 600 };

enum { SHAPE_NONE, SHAPE_VIA, SHAPE_FIFO };

/* One exploration: how often each thing may happen. */
typedef struct setup {
    const char *name;
    int shape[WAYS];
    int ways;
    int msgs; /* of each side */
    int fails;
    int breaks;
    int pauses;
    int closes;
    int leaves;
    int drops; /* peers that fail for a reason of their user's */
    bool is_deep;
} setup_t;

/* ---- the world ------------------------------------------------------------ */

/* What a HELLO comes by: a connection of its own, or, without one, the message. */
typedef struct via {
    bool is_used;
    uint8_t way;
    uint8_t asker;
    bool has_hello; /* on its way */
    bool has_reply;
    bool is_shut[SIDES];   /* by this side */
    bool has_heard[SIDES]; /* this side knows that the other shut it */
    fab_ses_msg_t hello;
    fab_ses_msg_t reply;
} via_t;

/* Between two queue pairs, two slots of libfabric; or a TCP connection. */
typedef struct path {
    bool is_used;
    uint8_t way;
    uint8_t asker;
    bool is_open[SIDES];
    bool was_open[SIDES];
    bool is_shut[SIDES];   /* FIFO: nothing follows of this side */
    bool has_heard[SIDES]; /* of the end, or the break */
    bool is_broken;        /* nothing more goes by it */
    bool is_failing[SIDES];
    uint8_t num[SIDES]; /* messages that this side has sent, on their way */
    uint8_t kind[SIDES][BAND];
    uint8_t arg[SIDES][BAND];
    uint64_t serial;
} path_t;

enum { DATA, CREDIT, BYE };

/* Without a via: WELCOME and REFUSE, on their way from this side. */
typedef struct note {
    bool is_used;
    uint8_t from;
    uint8_t way;
    fab_ses_msg_t msg;
} note_t;

typedef struct side {
    fab_peer_t peer;
    fab_ses_domain_t dom[WAYS];
    fab_ses_t ses;
    bool has_record;
    bool is_gone;   /* the record was released in this step */
    bool is_moving; /* to the next way */
    bool is_owed;   /* the other waits for HELLO by that */
    bool is_drop_due;
    bool is_failed;
    bool has_left;
    bool has_closed;
    uint8_t way;
    uint8_t todo;
    uint8_t sent;
    uint8_t got;
    via_t *own;      /* of the own HELLO */
    via_t *answered; /* of the peer's */
    path_t *path;
    char note[sizeof(fab_ses_failure_t)];
    bool has_note;
} side_t;

typedef struct world {
    side_t side[SIDES];
    via_t vias[VIAS];
    path_t paths[PATHS];
    note_t notes[NOTES];
    int fails, breaks, pauses, closes, leaves, drops;
    bool has_given_up; /* a side its attempt, for good: the other may answer it, and lose data */
    bool has_broken;   /* failures are in order from now on */
} world_t;

static world_t w;
static const setup_t *setup;
static char trail[MAX_DEPTH][64];
static int depth;
static fab_ses_ops_t ops[3];

static void wrong(const char *text)
{
    for (int i = 0; i <= depth && i < MAX_DEPTH; i++) {
        fprintf(stderr, "    %s\n", trail[i]);
    }
    for (int i = 0; i < SIDES; i++) {
        const side_t *side = &w.side[i];
        fprintf(stderr, "side %d: way %u state %u sent %u got %u todo %u%s%s%s%s%s\n", i, side->way,
                side->ses.state, side->sent, side->got, side->todo,
                side->has_record ? "" : " no record", side->is_failed ? " failed" : "",
                side->ses.is_closed ? " closed" : "", side->ses.is_used ? " used" : "",
                side->ses.is_broken ? " broken" : "");
    }
    fail_msg("%s: %s", setup->name, text);
}

static int index_of(const fab_ses_t *ses)
{
    return ses == &w.side[0].ses ? 0 : 1;
}

static side_t *side_of(fab_ses_t *ses)
{
    return &w.side[index_of(ses)];
}

static bool is_shape(const fab_ses_t *ses, int shape)
{
    return setup->shape[w.side[index_of(ses)].way] == shape;
}

/* One note of a failure for each side, which belongs to the state. */
void *explore_malloc(size_t size)
{
    side_t *side = !w.side[0].has_note ? &w.side[0] : &w.side[1];

    if (side->has_note || size > sizeof(side->note)) {
        wrong("no memory for a note");
    }
    side->has_note = true;
    return side->note;
}

void explore_free(void *note)
{
    for (int i = 0; i < SIDES; i++) {
        if (note == w.side[i].note) {
            w.side[i].has_note = false;
        }
    }
}

/* ---- vias ----------------------------------------------------------------- */

static via_t *via_new(int asker, int way)
{
    for (int i = 0; i < VIAS; i++) {
        if (!w.vias[i].is_used) {
            w.vias[i] = (via_t){.is_used = true, .way = (uint8_t) way, .asker = (uint8_t) asker};
            return &w.vias[i];
        }
    }
    wrong("too many vias");
    return NULL;
}

/* It goes when no side can see it any more. */
static void via_tidy(via_t *via)
{
    if (via->is_shut[0] && via->is_shut[1] && !via->has_hello) {
        *via = (via_t){.is_used = false};
    }
}

static void via_shut(via_t *via, int me)
{
    if (SHAPE_NONE == setup->shape[via->way]) {
        if (via == w.side[via->asker].own) {
            w.side[via->asker].own = NULL;
        }
        *via = (via_t){.is_used = false};
        return;
    }
    via->is_shut[me] = true;
    via->has_reply = via->has_reply && me != via->asker;
    via_tidy(via);
}

/* ---- paths ---------------------------------------------------------------- */

static path_t *path_find(int way, int asker, uint64_t serial)
{
    for (int i = 0; i < PATHS; i++) {
        path_t *path = &w.paths[i];
        if (path->is_used && way == path->way && asker == path->asker && serial == path->serial) {
            return path;
        }
    }
    return NULL;
}

static path_t *path_open(int me, int asker, uint64_t serial)
{
    int way = w.side[me].way;
    path_t *path = path_find(way, asker, serial);

    for (int i = 0; NULL == path && i < PATHS; i++) {
        if (!w.paths[i].is_used) {
            path = &w.paths[i];
            *path = (path_t){
                .is_used = true, .way = (uint8_t) way, .asker = (uint8_t) asker, .serial = serial};
            path->was_open[1 - me] = me == asker; /* who was asked has closed it by now, ... */
            path->is_broken = me == asker && w.has_broken; /* ... perhaps because it was broken */
        }
    }
    if (NULL == path) {
        wrong("too many paths");
        return NULL;
    }
    path->is_open[me] = path->was_open[me] = true;
    w.side[me].path = path;
    return path;
}

static void path_tidy(path_t *path)
{
    if (!path->is_open[0] && !path->is_open[1] && 0 == path->num[0] && 0 == path->num[1]) {
        *path = (path_t){.is_used = false};
    }
}

static void path_close(int me)
{
    path_t *path = w.side[me].path;

    if (NULL == path) {
        return;
    }
    w.side[me].path = NULL;
    path->is_open[me] = false;
    if (SHAPE_VIA == setup->shape[path->way] && path->num[1 - me] > 0) {
        path->is_failing[1 - me] = path->is_open[1 - me]; /* the adapter says so */
    }
    path->num[1 - me] = 0; /* on their way to one that is not there any more */
    path_tidy(path);
}

static void path_send(int me, int kind, int arg)
{
    path_t *path = w.side[me].path;

    if (NULL == path) {
        wrong("a message without a path");
        return;
    }
    if (path->is_shut[me] && SHAPE_FIFO == setup->shape[path->way]) {
        wrong("a message behind the last one");
    }
    if (BYE == kind && FAB_SES_BYE_STAY != arg) {
        path->is_shut[me] = true;
    }
    if (path->is_broken) {
        w.has_broken = w.has_broken || DATA == kind; /* it is lost */
        return;
    }
    if (!path->is_open[1 - me] && path->was_open[1 - me]) {
        if (SHAPE_VIA == setup->shape[path->way]) {
            path->is_failing[me] = true; /* the adapter says so */
        }
        w.has_broken = w.has_broken || w.breaks < setup->breaks; /* what is sent is lost */
        return;
    }
    if (BAND == path->num[me]) {
        wrong("too many messages");
    }
    path->kind[me][path->num[me]] = (uint8_t) kind;
    path->arg[me][path->num[me]++] = (uint8_t) arg;
}

static path_t *path_of(const via_t *via)
{
    return path_find(via->way, via->asker, via->hello.serial);
}

/* FIFO: no message of a user is concerned if it breaks, so nothing fails. */
static bool is_unused(const path_t *path)
{
    bool is_used = false;

    if (NULL != path && SHAPE_FIFO != setup->shape[path->way]) {
        return false;
    }
    for (int i = 0; i < SIDES; i++) {
        is_used = is_used || (NULL != path && path == w.side[i].path && w.side[i].ses.is_used);
        for (int j = 0; NULL != path && j < path->num[i]; j++) {
            is_used = is_used || DATA == path->kind[i][j]; /* of a side that has closed it */
        }
    }
    return !is_used;
}

/* FIFO: the asking side has shut the connection before it took it for a path. */
static void path_unwanted(const via_t *via)
{
    path_t *path = path_of(via);

    if (SHAPE_FIFO == setup->shape[via->way] && NULL != path) {
        path->was_open[via->asker] = true;
        w.has_broken = w.has_broken || (w.has_given_up && path->num[1 - via->asker] > 0);
    }
}

/* ---- what the session has its provider do ----------------------------------- */

static const char *ops_ask(fab_ses_t *ses)
{
    (void) ses;
    return NULL;
}

static void ops_cancel(fab_ses_t *ses)
{
    side_t *side = side_of(ses);

    if (NULL != side->own && !is_shape(ses, SHAPE_NONE)) {
        path_unwanted(side->own);
        via_shut(side->own, index_of(ses));
    }
    side->own = NULL;
}

static const char *ops_answer(fab_ses_t *ses, void *from, const fab_ses_msg_t *welcome)
{
    int me = index_of(ses);
    via_t *via = from;

    (void) path_open(me, 1 - me, via->hello.serial);
    if (SHAPE_NONE == setup->shape[via->way]) {
        via_shut(via, me);
        for (int i = 0; i < NOTES; i++) {
            if (!w.notes[i].is_used) {
                w.notes[i] = (note_t){
                    .is_used = true, .from = (uint8_t) me, .way = w.side[me].way, .msg = *welcome};
                return NULL;
            }
        }
        wrong("too many notes");
    }
    via->has_reply = !via->is_shut[1 - me];
    via->reply = *welcome;
    w.side[me].answered = via;
    if (via->is_shut[1 - me]) {
        path_unwanted(via);
    }
    return NULL;
}

static const char *ops_accept(fab_ses_t *ses, const fab_ses_msg_t *welcome)
{
    (void) path_open(index_of(ses), index_of(ses), welcome->serial);
    return NULL;
}

static void note_send(int me, int way, const fab_ses_msg_t *msg)
{
    for (int i = 0; i < NOTES; i++) {
        if (!w.notes[i].is_used) {
            w.notes[i] = (note_t){
                .is_used = true, .from = (uint8_t) me, .way = (uint8_t) way, .msg = *msg};
            return;
        }
    }
    wrong("too many notes");
}

static void ops_refuse(fab_ses_domain_t *dom, void *from, const fab_ses_msg_t *refuse)
{
    via_t *via = from;
    int me = 1 - via->asker;

    (void) dom;
    if (SHAPE_NONE == setup->shape[via->way]) {
        note_send(me, via->way, refuse);
    } else {
        via->has_reply = !via->is_shut[1 - me];
        via->reply = *refuse;
    }
    via_shut(via, me);
}

static void ops_refuse_peer(fab_ses_t *ses, const fab_ses_msg_t *refuse)
{
    if (is_shape(ses, SHAPE_NONE)) {
        note_send(index_of(ses), w.side[index_of(ses)].way, refuse);
    } else {
        wrong("REFUSE without a via");
    }
}

static const fab_ses_msg_t *ops_hello(const void *via)
{
    return &((const via_t *) via)->hello;
}

static bool ops_is_open(const void *from)
{
    const via_t *via = from;

    return !via->has_heard[1 - via->asker];
}

static void ops_free_via(void *from)
{
    via_t *via = from;

    via_shut(via, 1 - via->asker);
}

static void ops_again(void *from)
{
    via_t *via = from;

    via->has_hello = true;
}

static void ops_up(fab_ses_t *ses, bool has_asked)
{
    side_t *side = side_of(ses);

    if (has_asked && !is_shape(ses, SHAPE_FIFO)) {
        path_send(index_of(ses), CREDIT, 0);
    } else if (NULL != side->answered && !is_shape(ses, SHAPE_FIFO)) {
        via_shut(side->answered, index_of(ses)); /* it has served */
        side->answered = NULL;
    }
    if (is_shape(ses, SHAPE_FIFO)) {
        side->own = NULL; /* it is the path */
        side->answered = NULL;
    }
}

static bool ops_is_idle(const fab_ses_t *ses)
{
    return 0 == w.side[index_of(ses)].todo;
}

static void ops_bye(fab_ses_t *ses, fab_ses_bye_t bye)
{
    if ((FAB_SES_BYE_PAUSE == bye && !ops_is_idle(ses)) ||
        (FAB_SES_BYE_STAY == bye && ops_is_idle(ses))) {
        wrong("a pause while messages wait, or none while none do");
    }
    path_send(index_of(ses), BYE, bye);
}

static void ops_credit(fab_ses_t *ses)
{
    fab_ses_told(ses);
}

static void ops_close(fab_ses_t *ses, bool lingers)
{
    side_t *side = side_of(ses);
    int me = index_of(ses);

    if (lingers && is_shape(ses, SHAPE_FIFO) && FAB_SES_BYE_NONE != ses->peer_bye &&
        !side->path->has_heard[me] && !side->is_drop_due) {
        wrong("a stream is closed before its end");
    }
    ops_cancel(ses);
    if (NULL != side->answered) {
        via_shut(side->answered, me);
        side->answered = NULL;
    }
    path_close(me);
}

static void ops_gone(fab_ses_t *ses)
{
    side_t *side = side_of(ses);

    memset(ses, 0xa5, sizeof(*ses)); /* its memory is not the session's any more */
    side->is_gone = true;
}

static bool ops_is_drained(const fab_ses_t *ses)
{
    const path_t *path = w.side[index_of(ses)].path;

    return NULL == path || 0 == path->num[1 - index_of(ses)];
}

static const fab_ses_ops_t plain_ops = {
    .ask = ops_ask,
    .cancel = ops_cancel,
    .answer = ops_answer,
    .accept = ops_accept,
    .refuse = ops_refuse,
    .refuse_peer = ops_refuse_peer,
    .hello = ops_hello,
    .is_open = ops_is_open,
    .free_via = ops_free_via,
    .again = ops_again,
    .up = ops_up,
    .bye = ops_bye,
    .credit = ops_credit,
    .close = ops_close,
    .gone = ops_gone,
    .is_idle = ops_is_idle,
    .is_drained = ops_is_drained,
};

/* ---- the fabric ----------------------------------------------------------- */

static const char path_broke[] = "path";

static side_t *side_of_peer(const fab_peer_t *peer)
{
    return peer == &w.side[0].peer ? &w.side[0] : &w.side[1];
}

/* A path fails when all that came by it is taken: there may be a last word. */
static void check_taken(const side_t *side, const char *why)
{
    if (0 == strcmp(why, path_broke) && !ops_is_drained(&side->ses)) {
        wrong("the path fails before all is taken");
    }
}

void fab_peer_fail(fab_peer_t *peer, int rc, const char *why)
{
    side_t *side = side_of_peer(peer);

    (void) rc;
    check_taken(side, why);
    if (!w.has_broken) {
        wrong(why);
    }
    if (FAB_PEER_UP == peer->state) {
        peer->state = FAB_PEER_FAILED;
        side->is_failed = true;
        side->todo = 0;
    }
    side->is_drop_due = true;
}

void fab_peer_cannot_connect(fab_peer_t *peer, int rc, const char *why)
{
    side_t *side = side_of_peer(peer);

    check_taken(side, why);
    if (FAB_PEER_CLOSED == peer->state && !side->is_owed) {
        wrong("a closed peer is to move, and the other does not wait");
    }
    if (side->way + 1 < setup->ways && FAB_PEER_FAILED != peer->state) {
        side->is_moving = side->is_drop_due = true;
    } else {
        fab_peer_fail(peer, rc, why);
    }
}

/* A closed peer moves, too; one that cannot fails, and that ends the wait. */
void fab_peer_owes(fab_peer_t *peer, int rc, const char *why)
{
    side_of_peer(peer)->is_owed = true;
    fab_peer_cannot_connect(peer, rc, why);
}

bool fab_peer_is_moving(const fab_peer_t *peer)
{
    return side_of_peer(peer)->is_moving;
}

void fab_peer_has_left(fab_peer_t *peer)
{
    if (side_of_peer(peer)->is_gone) {
        wrong("its record is gone");
    }
}

static void record_new(side_t *side, int way)
{
    int me = side == &w.side[0] ? 0 : 1;

    side->has_record = true;
    side->way = (uint8_t) way;
    side->is_moving = side->is_drop_due = side->is_owed = false;
    side->peer = (fab_peer_t){.name = 1 - (uint64_t) me + 1, .state = FAB_PEER_UP};
    fab_ses_init(&side->ses, &side->dom[way], &side->peer);
}

static void record_go(side_t *side)
{
    memset(&side->ses, 0, sizeof(side->ses));
    side->has_record = side->is_gone = side->is_drop_due = side->is_moving = side->is_owed = false;
    side->way = 0;
}

/* As fab_progress() does: outside of the provider. */
static void fabric_drop(side_t *side)
{
    const bool was_moving = side->is_moving, is_owed = side->is_owed;
    const uint8_t state = side->peer.state;

    fab_ses_drop(&side->ses);
    side->is_drop_due = side->is_owed = false;
    if (was_moving) {
        record_new(side, side->way + 1);
        side->peer.state = state;
        if (is_owed) {
            fab_ses_ask_owed(&side->ses);
        }
    } else if (FAB_PEER_CLOSED == side->peer.state) {
        record_go(side);
    }
}

/* ---- one step ---------------------------------------------------------------- */

/* The step to be taken: all that can be done are counted. */
static int step_wanted;
static int step_count;
static int step_forced; /* of those, what must happen some time */

static bool is_step(bool is_forced)
{
    step_forced += is_forced;
    return step_count++ == step_wanted;
}

#define SAY(...) snprintf(trail[depth], sizeof(trail[depth]), __VA_ARGS__)

static bool is_alive(const side_t *side)
{
    return side->has_record && !side->is_drop_due;
}

/* HELLO leaves. */
static void hello_out(int me)
{
    side_t *side = &w.side[me];
    via_t *via = via_new(me, side->way);

    via->has_hello = true;
    fab_ses_stamp(&side->ses, &via->hello);
    side->own = via;
}

/* What a provider does before the table: whose HELLO is it?  False: look again later. */
static bool is_hello_taken(int me, const via_t *via)
{
    side_t *side = &w.side[me];

    if (!side->has_record || side->is_failed) {
        return true;
    }
    if (side->is_drop_due) {
        return false;
    }
    if (via->way > side->way) {
        return NULL == side->ses.failure &&
               (FAB_SES_CLOSING != side->ses.state || 0 == side->ses.num_ticks);
    }
    return true;
}

static void hello_refuse(int me, via_t *via, unsigned reason)
{
    const fab_ses_msg_t msg = {
        .kind = FAB_SES_REFUSE, .reason = (uint8_t) reason, .serial = via->hello.serial};

    ops_refuse(&w.side[me].dom[via->way], via, &msg);
}

static void hello_in(int me, via_t *via)
{
    side_t *side = &w.side[me];

    if (side->is_failed) {
        via->has_hello = false;
        hello_refuse(me, via, FAB_SES_REASON_PEER);
        return;
    }
    if (!side->has_record) {
        record_new(side, via->way);
    }
    if (via->way > side->way) {
        switch (fab_ses_asked_by_later(&side->ses)) {
        case FAB_MOVES:
            if (FAB_PEER_CLOSED == side->peer.state) {
                fab_ses_drop(&side->ses); /* the record goes; the next is new */
                record_go(side);
            } else {
                side->is_moving = side->is_drop_due = true;
            }
            return;
        case FAB_MOVES_LATER:
            return;
        default:
            via->has_hello = false;
            hello_refuse(me, via, FAB_SES_REASON_PEER);
            return;
        }
    }
    via->has_hello = false;
    if (via->way < side->way) {
        hello_refuse(me, via, FAB_SES_REASON_WAY);
        return;
    }
    fab_ses_on_hello(&side->ses, via);
}

static void answer_in(int me, int way, const fab_ses_msg_t *msg)
{
    side_t *side = &w.side[me];

    if (side->has_record && !side->is_failed && way == side->way) {
        fab_ses_on_answer(&side->ses, msg);
    } else if (FAB_SES_WELCOME == msg->kind && SHAPE_NONE == setup->shape[way]) {
        const fab_ses_msg_t refuse = {
            .kind = FAB_SES_REFUSE, .reason = FAB_SES_REASON_GAVE_UP, .serial = msg->other};
        note_send(me, way, &refuse);
    }
}

static void message_in(int me, int kind, int arg)
{
    side_t *side = &w.side[me];
    fab_ses_t *ses = &side->ses;

    if (BYE == kind) {
        if (!fab_ses_on_bye(ses, (unsigned) arg)) {
            wrong("BYE against the protocol");
        }
        if (FAB_SES_BYE_STAY == arg && FAB_SES_BYE_NONE != ses->bye && !ses->is_closed) {
            wrong("the session stays, and the last word is said");
        }
        return;
    }
    fab_ses_first(ses);
    if (DATA == kind) {
        /* what was sent to a peer that had closed this one is lost with a path that breaks */
        if (arg != side->got && !(w.has_broken && side->has_closed && arg > side->got)) {
            wrong("lost, doubled or overtaken");
        }
        side->got = (uint8_t) (arg + 1);
        ses->is_used = true;
        fab_ses_take(ses, 1);
    }
}

/* The first message on its way to this side. */
static void take_first(int me, path_t *path)
{
    int from = 1 - me;
    int kind = path->kind[from][0], arg = path->arg[from][0];

    path->num[from]--;
    for (int i = 0; i < path->num[from]; i++) {
        path->kind[from][i] = path->kind[from][i + 1];
        path->arg[from][i] = path->arg[from][i + 1];
    }
    if (path == w.side[me].path && !w.side[me].is_failed) {
        message_in(me, kind, arg);
    }
    if (path->is_used) {
        path_tidy(path);
    }
}

/* The other end of this side's path: FIFO: the stream has ended. */
static bool has_ended(int me, const path_t *path)
{
    return SHAPE_FIFO == setup->shape[path->way] && 0 == path->num[1 - me] &&
           (path->is_shut[1 - me] || (path->was_open[1 - me] && !path->is_open[1 - me])) &&
           !path->has_heard[me];
}

static void via_ended(int me, via_t *via)
{
    side_t *side = &w.side[me];

    via->has_heard[me] = true;
    if (via == side->own) {
        fab_ses_via_broke(&side->ses, "via");
        if (via == side->own && via->is_used) {
            ops_cancel(&side->ses);
        }
    } else if (side->has_record && via == side->ses.parked) {
        fab_ses_parked_broke(&side->ses);
    } else if (via == side->answered) {
        fab_ses_via_broke(&side->ses, "via");
        if (via == side->answered) {
            side->answered = NULL;
            via_shut(via, me);
        }
    } else {
        via_shut(via, me);
    }
}

static bool step_user(int me)
{
    side_t *side = &w.side[me];
    fab_ses_t *ses = &side->ses;

    if (!is_alive(side)) {
        if (!side->has_record && side->todo > 0 && is_step(true)) {
            SAY("%d opens again", me);
            record_new(side, 0);
            return true;
        }
        return false;
    }
    if (side->todo > 0 && !ses->is_closed && !ses->is_failed &&
        (FAB_SES_KNOWN == ses->state || FAB_SES_GONE == ses->state) && is_step(true)) {
        SAY("%d wants to send", me);
        fab_ses_want(ses);
        return true;
    }
    if (side->todo > 0 && fab_ses_may_send(ses) && !ses->is_closed && is_step(true)) {
        SAY("%d sends %u", me, side->sent);
        if (ses->is_broken || FAB_SES_BYE_NONE != ses->bye) {
            wrong("a message on a broken path, or behind the last word");
        }
        ses->sent++;
        ses->is_used = true;
        path_send(me, DATA, side->sent++);
        side->todo--;
        return true;
    }
    if (w.pauses > 0 && FAB_SES_UP == ses->state && 0 == side->todo &&
        SHAPE_FIFO != setup->shape[side->way] && is_step(false)) {
        SAY("%d pauses", me);
        w.pauses--;
        (void) fab_ses_pause(ses);
        return true;
    }
    if (w.closes > 0 && !ses->is_closed && (0 == side->todo || FAB_SES_ASKING == ses->state) &&
        is_step(false)) {
        SAY("%d closes", me);
        w.closes--;
        side->todo = 0; /* its user waits no longer for them to be sent */
        side->peer.state = FAB_PEER_CLOSED;
        side->has_closed = true;
        if (fab_ses_close(ses)) {
            ops_gone(ses);
        }
        return true;
    }
    if (w.leaves > 0 && 0 == side->todo && FAB_SES_UP == ses->state && is_step(false)) {
        SAY("%d leaves", me);
        w.leaves--;
        side->has_left = w.has_broken = true;
        (void) fab_ses_leave(ses);
        return true;
    }
    /* who owes a HELLO and fails cannot say so: the peer must find out by time (is_owed) */
    if (w.drops > 0 && FAB_PEER_UP == side->peer.state && !ses->is_owed && is_step(false)) {
        SAY("%d fails the other", me);
        w.drops--;
        w.has_broken = true;
        fab_peer_fail(&side->peer, OPAL_ERR_BAD_PARAM, "its user");
        return true;
    }
    return false;
}

/* The first attempt of a way that is not the last may fail without a fault of anybody's. */
static bool may_fail(const side_t *side)
{
    return w.fails > 0 && side->way + 1 < setup->ways;
}

static bool is_own_note(int me, const note_t *note)
{
    return note->is_used && note->from == me && FAB_SES_WELCOME == note->msg.kind &&
           note->msg.other == w.side[me].ses.serial && note->way == w.side[me].way;
}

static void note_lose(int me)
{
    for (int i = 0; i < NOTES; i++) {
        if (is_own_note(me, &w.notes[i])) {
            w.notes[i] = (note_t){.is_used = false};
        }
    }
}

static bool has_own_note(int me)
{
    for (int i = 0; i < NOTES; i++) {
        if (is_own_note(me, &w.notes[i])) {
            return true;
        }
    }
    return false;
}

/* The via of the own HELLO is lost: sock connects again, and sends another HELLO. */
static void via_again(int me)
{
    via_t *via = w.side[me].own;

    path_unwanted(via);
    via_shut(via, me);
    hello_out(me);
}

/* Is a HELLO parked by which the session can be made although the own attempt fails? */
static bool is_peer_asking(const side_t *side)
{
    const via_t *parked = side->ses.parked;

    return NULL != parked && !parked->is_shut[parked->asker];
}

static bool step_attempt(int me)
{
    side_t *side = &w.side[me];
    fab_ses_t *ses = &side->ses;
    const bool has_via = SHAPE_NONE != setup->shape[side->way];

    if (!is_alive(side)) {
        return false;
    }
    if (FAB_SES_ASKING == ses->state && !ses->is_out && is_step(true)) {
        SAY("%d: HELLO leaves by way %u", me, side->way);
        hello_out(me);
        return true;
    }
    if (FAB_SES_ASKING == ses->state && may_fail(side) && is_step(false)) {
        SAY("%d: its attempt fails", me);
        w.fails--;
        if (NULL != side->own && !has_via && side->own->is_used && side->own->has_hello) {
            *side->own = (via_t){.is_used = false};
        }
        fab_ses_path_broke(ses, OPAL_ERR_UNREACH, "attempt");
        return true;
    }
    if (FAB_SES_ASKING == ses->state && may_fail(side) && !has_via && NULL != side->own &&
        is_step(false)) {
        SAY("%d: HELLO is reported as lost, and arrives", me);
        w.fails--;
        fab_ses_path_broke(ses, OPAL_ERR_UNREACH, "attempt");
        return true;
    }
    /* not of one that owes a HELLO, as in step_user() */
    if (FAB_SES_ASKING == ses->state && has_via && side->way + 1 == setup->ways && w.breaks > 0 &&
        !ses->is_owed && is_step(false)) {
        SAY("%d: its attempt fails for good", me);
        w.breaks--;
        w.has_given_up = true;
        w.has_broken = w.has_broken || !is_peer_asking(side) ||
                       (NULL != side->own && !is_unused(path_of(side->own)));
        fab_ses_via_broke(ses, "attempt");
        ops_cancel(ses); /* whatever the session does, there is no attempt any more */
        return true;
    }
    if (FAB_SES_ASKING == ses->state && has_via && NULL != side->own && ses->is_out) {
        const bool is_fifo = SHAPE_FIFO == setup->shape[side->way];
        if (w.fails > 0 && side->own->has_hello && is_step(false)) {
            SAY("%d: its via breaks with HELLO, and it tries again", me);
            w.fails--;
            side->own->has_hello = false;
            via_again(me);
            return true;
        }
        if ((is_fifo ? w.breaks : w.fails) > 0 && is_step(false)) {
            SAY("%d: its via breaks behind HELLO, and it tries again", me);
            w.fails -= !is_fifo;
            w.breaks -= is_fifo;
            w.has_broken = w.has_broken || (is_fifo && !is_unused(path_of(side->own)));
            via_again(me);
            return true;
        }
    }
    if (FAB_SES_ASKED == ses->state && !has_via && may_fail(side) && has_own_note(me) &&
        is_step(false)) {
        SAY("%d: WELCOME is lost", me);
        w.fails--;
        note_lose(me);
        fab_ses_path_broke(ses, OPAL_ERR_UNREACH, "welcome");
        return true;
    }
    if (FAB_SES_TRYING == ses->state) {
        const path_t *path = side->path;
        if (path->is_open[1 - me] && !path->is_broken) {
            if (is_step(true)) {
                SAY("%d: the path works", me);
                fab_ses_path_works(ses);
                return true;
            }
        } else if (is_step(true)) {
            SAY("%d: nobody is at the path", me);
            fab_ses_path_broke(ses, OPAL_ERR_UNREACH, "nobody");
            return true;
        }
        if (may_fail(side) && is_step(false)) {
            SAY("%d: there is no path", me);
            w.fails--;
            fab_ses_path_broke(ses, OPAL_ERR_UNREACH, "no path");
            return true;
        }
    }
    return false;
}

/* Nothing of the session is on its way to this side. */
static bool is_silent(int me)
{
    const path_t *path = w.side[me].path;

    return NULL == path || 0 == path->num[1 - me];
}

static bool step_path(int me)
{
    side_t *side = &w.side[me];
    fab_ses_t *ses = &side->ses;
    path_t *path = side->path;

    if (!is_alive(side) || NULL == path) {
        return false;
    }
    if (path->num[1 - me] > 0 && is_step(true)) {
        SAY("%d takes %s %u", me, (const char *[]){"data", "CREDIT", "BYE"}[path->kind[1 - me][0]],
            path->arg[1 - me][0]);
        take_first(me, path);
        return true;
    }
    if (((path->is_broken && !path->has_heard[me]) || path->is_failing[me]) && is_step(true)) {
        SAY("%d: its path is broken", me);
        path->has_heard[me] = true;
        path->is_failing[me] = false;
        if (SHAPE_FIFO == setup->shape[side->way] && FAB_SES_BYE_NONE != ses->peer_bye) {
            fab_ses_path_ended(ses);
        } else {
            fab_ses_path_broke(ses, OPAL_ERR_UNREACH, path_broke);
        }
        return true;
    }
    if (NULL != ses->failure && ops_is_drained(ses) && is_step(true)) {
        SAY("%d has taken all", me);
        fab_ses_drained(ses);
        return true;
    }
    if (SHAPE_FIFO == setup->shape[side->way] && ses->is_broken && NULL == ses->failure &&
        FAB_SES_BYE_NONE != ses->peer_bye && is_step(true)) {
        SAY("%d has taken all, and the last word", me);
        fab_ses_path_ended(ses);
        return true;
    }
    if (has_ended(me, path) && !path->is_broken && is_step(true)) {
        SAY("%d: end of the stream", me);
        path->has_heard[me] = true;
        if (FAB_SES_BYE_NONE != ses->peer_bye) {
            fab_ses_path_ended(ses);
        } else {
            fab_ses_path_broke(ses, OPAL_ERR_PROC_ABORTED, "end of the stream");
        }
        return true;
    }
    if (0 != ses->num_ticks && is_silent(me) && is_step(true)) {
        SAY("%d: time passes", me);
        w.has_broken = true;
        ses->num_ticks = FAB_SES_BYE_TICKS;
        fab_ses_tick(ses);
        return true;
    }
    return false;
}

static bool step_via(via_t *via)
{
    const int me = 1 - via->asker; /* who is asked */
    const bool has_via = SHAPE_NONE != setup->shape[via->way];

    if (via->has_hello && is_hello_taken(me, via)) {
        if (is_step(true)) {
            /* a session of another provider does not know what has ended by this one */
            const bool may_start = setup->ways > 1 || 0 != w.side[me].ses.num_ticks;
            SAY("%d gets HELLO by way %u", me, via->way);
            hello_in(me, via);
            if (!may_start && 0 != w.side[me].ses.num_ticks && !is_silent(me) && !w.has_broken) {
                wrong("a clock runs for a last word that is under way");
            }
            return true;
        }
        if (has_via && via->is_shut[via->asker] && !via->has_heard[me] && is_step(false)) {
            SAY("%d gets HELLO by way %u, which is shut", me, via->way);
            via->has_heard[me] = true;
            hello_in(me, via);
            return true;
        }
    }
    if (via->has_reply && !via->is_shut[via->asker] && w.side[via->asker].own == via &&
        !w.side[via->asker].is_drop_due && is_step(true)) {
        SAY("%d gets %s", via->asker, FAB_SES_REFUSE == via->reply.kind ? "REFUSE" : "WELCOME");
        via->has_reply = false;
        answer_in(via->asker, via->way, &via->reply);
        return true;
    }
    for (int i = 0; i < SIDES && has_via; i++) {
        const bool has_more = i == via->asker ? via->has_reply : via->has_hello;
        const bool is_path = SHAPE_FIFO == setup->shape[via->way] && via != w.side[i].own &&
                             via != w.side[i].ses.parked;
        if (via->is_used && via->is_shut[1 - i] && !via->is_shut[i] && !via->has_heard[i] &&
            !has_more && !w.side[i].is_drop_due && !is_path && is_step(true)) {
            SAY("%d: a via is shut", i);
            via_ended(i, via);
            return true;
        }
    }
    return false;
}

static bool step_break(path_t *path)
{
    if (!path->is_used || path->is_broken || 0 == w.breaks ||
        !(path->is_open[0] || path->is_open[1])) {
        return false;
    }
    for (int lost = 0; lost < 2; lost++) {
        if ((0 == lost || path->num[0] + path->num[1] > 0) && is_step(false)) {
            SAY("a path of %d breaks%s", path->asker, lost ? ", all on it is lost" : "");
            w.breaks--;
            w.has_broken = w.has_broken || !is_unused(path);
            path->is_broken = true;
            if (lost) {
                path->num[0] = path->num[1] = 0;
            }
            return true;
        }
    }
    return false;
}

/* Without a via: WELCOME and REFUSE arrive in any order. */
static bool step_note(note_t *note)
{
    const note_t it = *note;

    if (!it.is_used || w.side[1 - it.from].is_drop_due || !is_step(true)) {
        return false;
    }
    SAY("%d gets %s", 1 - it.from, FAB_SES_REFUSE == it.msg.kind ? "REFUSE" : "WELCOME");
    *note = (note_t){.is_used = false};
    answer_in(1 - it.from, it.way, &it.msg);
    return true;
}

static bool any_step(void)
{
    for (int i = 0; i < SIDES; i++) {
        if (w.side[i].has_record && w.side[i].is_drop_due && is_step(true)) {
            SAY("%d: the fabric drops", i);
            fabric_drop(&w.side[i]);
            return true;
        }
        if (step_user(i) || step_attempt(i) || step_path(i)) {
            return true;
        }
    }
    for (int i = 0; i < VIAS; i++) {
        if (w.vias[i].is_used && step_via(&w.vias[i])) {
            return true;
        }
    }
    for (int i = 0; i < NOTES; i++) {
        if (step_note(&w.notes[i])) {
            return true;
        }
    }
    for (int i = 0; i < PATHS; i++) {
        if (step_break(&w.paths[i])) {
            return true;
        }
    }
    return false;
}

/* The n-th of all steps that can be taken now.  False: there are not so many. */
static bool step(int n)
{
    step_wanted = n;
    step_count = step_forced = 0;
    if (!any_step()) {
        return false;
    }
    for (int i = 0; i < SIDES; i++) {
        if (w.side[i].is_gone) {
            record_go(&w.side[i]);
        }
    }
    return true;
}

/* ---- states ------------------------------------------------------------------ */

enum { SERIALS = 128, BYTES = 2048 };

/* Numbers of one process for one way that the state names: their order is what counts. */
static uint64_t serials[SIDES][WAYS][SERIALS];
static int num_serials[SIDES][WAYS];
static bool is_counting;
static unsigned char bytes[BYTES];
static size_t num_bytes;

static void put(unsigned value)
{
    bytes[num_bytes++ % BYTES] = (unsigned char) value;
}

static void put_serial(int owner, int way, uint64_t value)
{
    int at = 0;

    if (is_counting) {
        serials[owner][way][num_serials[owner][way]++ % SERIALS] = value;
        return;
    }
    if (0 != value) {
        at = 1;
        for (int i = 0; i < num_serials[owner][way]; i++) {
            at += serials[owner][way][i] < value;
        }
    }
    put((unsigned) at);
}

/* `other` of a HELLO of this side. */
static void put_ended(int me, int way, uint64_t value)
{
    const bool is_others = 0 != (value & FAB_SES_YOU_ASKED);

    put(is_others);
    put_serial(is_others ? 1 - me : me, way, value & ~FAB_SES_YOU_ASKED);
}

static void put_via(const via_t *via)
{
    const int way = via->way, me = via->asker;

    put(via->way * 2u + via->asker);
    put(via->has_hello | via->has_reply << 1 | via->is_shut[0] << 2 | via->is_shut[1] << 3 |
        via->has_heard[0] << 4 | via->has_heard[1] << 5);
    put_serial(me, way, via->hello.serial);
    put_ended(me, way, via->hello.other);
    if (via->has_reply) {
        put(via->reply.kind);
        put_serial(me, way, via->reply.serial);
        put_serial(1 - me, way, via->reply.other);
    }
}

static void put_path(const path_t *path)
{
    put(path->way * 2u + path->asker);
    put_serial(path->asker, path->way, path->serial);
    put(path->is_broken);
    for (int i = 0; i < SIDES; i++) {
        put(path->is_open[i] | path->was_open[i] << 1 | path->is_shut[i] << 2 |
            path->has_heard[i] << 3 | path->is_failing[i] << 4 | path->num[i] << 5);
        for (int j = 0; j < path->num[i]; j++) {
            put(path->kind[i][j] * 16u + path->arg[i][j]);
        }
    }
}

static void put_note(const note_t *note)
{
    put(note->way * 2u + note->from);
    put(note->msg.kind);
    put_serial(1 - note->from, note->way, note->msg.serial);
    put_serial(note->from, note->way, note->msg.other);
}

static void put_ref_via(const via_t *via)
{
    put(NULL != via);
    if (NULL != via && via->is_used) {
        put_serial(via->asker, via->way, via->hello.serial);
    }
}

static void put_side(int me)
{
    const side_t *side = &w.side[me];
    const fab_ses_t *ses = &side->ses;
    const int way = side->way;

    put(side->has_record | side->is_moving << 1 | side->is_drop_due << 2 | side->is_failed << 3 |
        side->has_left << 4 | side->peer.state << 5);
    put(side->way * 2u + side->has_closed);
    put(side->todo * 2u + side->is_owed);
    put(side->sent);
    put(side->got);
    if (!side->has_record) {
        return;
    }
    put(ses->state);
    put(ses->is_out | ses->is_mine << 1 | ses->is_used << 2 | ses->is_broken << 3 |
        ses->is_owed << 4 | ses->is_closed << 5 | ses->is_failed << 6 | (0 != ses->window) << 7);
    put(ses->bye * 16u + ses->peer_bye);
    put(ses->num_ticks);
    put(NULL != ses->failure);
    put_serial(me, way, ses->serial);
    put_serial(ses->is_mine ? me : 1 - me, way, ses->asked);
    put_ended(me, way, ses->ended);
    put_serial(1 - me, way, ses->void_);
    put_ref_via(ses->parked);
    put_ref_via(side->own);
    put_ref_via(side->answered);
    put(NULL != side->path);
}

static uint64_t hash_of(const unsigned char *from, size_t len)
{
    uint64_t hash = 0xcbf29ce484222325ull;

    for (size_t i = 0; i < len; i++) {
        hash = (hash ^ from[i]) * 0x9e3779b97f4a7c15ull;
        hash ^= hash >> 29;
    }
    return hash;
}

/* Of things whose places do not count. */
static uint64_t hash_mixed(uint64_t sum)
{
    size_t len = num_bytes;

    num_bytes = 0;
    return sum + hash_of(bytes, len) * 3;
}

/* The order of equal things in the tables makes no difference, so their hashes are added. */
static uint64_t walk(void)
{
    uint64_t sum = 0;

    num_bytes = 0;
    for (int i = 0; i < VIAS; i++) {
        if (w.vias[i].is_used) {
            put(1);
            put_via(&w.vias[i]);
            sum = hash_mixed(sum);
        }
    }
    for (int i = 0; i < PATHS; i++) {
        if (w.paths[i].is_used) {
            put(2);
            put_path(&w.paths[i]);
            sum = hash_mixed(sum);
        }
    }
    for (int i = 0; i < NOTES; i++) {
        if (w.notes[i].is_used) {
            put(3);
            put_note(&w.notes[i]);
            sum = hash_mixed(sum);
        }
    }
    for (int i = 0; i < SIDES; i++) {
        put_side(i);
    }
    put((unsigned) w.fails);
    put((unsigned) w.breaks);
    put((unsigned) w.pauses);
    put((unsigned) w.closes);
    put((unsigned) w.leaves);
    put((unsigned) w.drops);
    put(w.has_broken | w.has_given_up << 1);
    for (int i = 0; i < 8; i++) {
        put((unsigned) (sum >> 8 * i));
    }
    return hash_of(bytes, num_bytes);
}

static int order(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *) a, y = *(const uint64_t *) b;

    return x < y ? -1 : x > y;
}

static uint64_t state_hash(void)
{
    uint64_t hash;

    memset(num_serials, 0, sizeof(num_serials));
    is_counting = true;
    (void) walk();
    is_counting = false;
    for (int i = 0; i < SIDES; i++) {
        for (int j = 0; j < WAYS; j++) {
            uint64_t *all = serials[i][j];
            int num = num_serials[i][j], left = 0;
            if (num > SERIALS) {
                wrong("too many serials");
            }
            qsort(all, (size_t) num, sizeof(*all), order);
            for (int k = 0; k < num; k++) {
                if (0 != all[k] && (0 == left || all[k] != all[left - 1])) {
                    all[left++] = all[k];
                }
            }
            num_serials[i][j] = left;
        }
    }
    hash = walk();
    return hash < 2 ? 2 : hash;
}

/* ---- states seen --------------------------------------------------------------- */

static uint64_t *seen;
static unsigned char *is_under_way; /* on the way to the present state */
static size_t seen_mask;
static size_t num_seen;

static void *pages(size_t size)
{
    void *at = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    assert_true(MAP_FAILED != at);
    return at;
}

static size_t seen_at(uint64_t hash)
{
    size_t at = hash & seen_mask;

    while (0 != seen[at] && hash != seen[at]) {
        at = (at + 1) & seen_mask;
    }
    return at;
}

static void seen_init(size_t size)
{
    seen = pages(size * sizeof(*seen));
    is_under_way = pages(size);
    seen_mask = size - 1;
}

static void seen_fini(void)
{
    munmap(seen, (seen_mask + 1) * sizeof(*seen));
    munmap(is_under_way, seen_mask + 1);
}

static void seen_grow(void)
{
    uint64_t *old = seen;
    unsigned char *old_way = is_under_way;
    size_t size = seen_mask + 1;

    seen_init(4 * size);
    for (size_t i = 0; i < size; i++) {
        if (0 != old[i]) {
            size_t at = seen_at(old[i]);
            seen[at] = old[i];
            is_under_way[at] = old_way[i];
        }
    }
    munmap(old, size * sizeof(*old));
    munmap(old_way, size);
}

/* ---- ends ------------------------------------------------------------------------ */

/* Nothing more must happen: does a side still wait, or do they disagree? */
static void check_end(void)
{
    bool is_excused = w.has_broken, is_told = false;

    for (int i = 0; i < SIDES; i++) {
        const side_t *side = &w.side[i];
        is_told = is_told || side->is_failed || side->has_closed || side->has_left;
    }
    for (int i = 0; i < SIDES; i++) {
        const side_t *side = &w.side[i], *other = &w.side[1 - i];
        const fab_ses_t *ses = &side->ses;
        if (side->todo > 0 || (!is_excused && other->sent != side->got)) {
            wrong("messages were not sent, or did not come");
        }
        if (other->sent != side->got && !is_told) {
            wrong("messages were lost, and no side was told");
        }
        if (!side->has_record || side->is_failed) {
            continue;
        }
        if (FAB_SES_UP != ses->state && FAB_SES_KNOWN != ses->state && FAB_SES_GONE != ses->state) {
            wrong("a side waits for ever");
        }
        if (FAB_SES_KNOWN != ses->state && other->is_failed && !side->has_left &&
            !other->has_left) {
            wrong("a side does not hear that it has failed for the other");
        }
        if (FAB_PEER_CLOSED == side->peer.state) {
            wrong("a closed peer is kept for ever");
        }
        if (NULL != ses->parked) {
            wrong("a HELLO is parked for ever");
        }
        if (FAB_SES_UP == ses->state && !is_excused &&
            (!other->has_record || FAB_SES_UP != other->ses.state || other->path != side->path)) {
            wrong("one side takes the session for up, the other does not");
        }
    }
}

/* ---- exploring ---------------------------------------------------------------------- */

static void explore(void)
{
    const world_t here = w;
    int forced = 0;
    uint64_t hash = state_hash();

    is_under_way[seen_at(hash)] = 1;
    for (int n = 0;; n++) {
        if (!step(n)) {
            forced = step_forced;
            break;
        }
        uint64_t next = state_hash();
        size_t at = seen_at(next);
        if (0 == seen[at]) {
            seen[at] = next;
            if (++num_seen > seen_mask / 2) {
                seen_grow();
            }
            if (++depth == MAX_DEPTH) {
                wrong("a run has no end");
            }
            explore();
            depth--;
        } else if (0 != is_under_way[at]) {
            wrong("a run comes back to where it was");
        }
        w = here;
    }
    w = here;
    is_under_way[seen_at(hash)] = 0;
    if (0 == forced) {
        SAY("end");
        check_end();
    }
}

static void run(const setup_t *it)
{
    setup = it;
    depth = 0;
    num_seen = 0;
    memset(&w, 0, sizeof(w));
    w.fails = it->fails;
    w.breaks = it->breaks;
    w.pauses = it->pauses;
    w.closes = it->closes;
    w.leaves = it->leaves;
    w.drops = it->drops;
    for (int i = 0; i < 3; i++) {
        ops[i] = plain_ops;
    }
    ops[SHAPE_VIA].shape = FAB_SES_VIA;
    ops[SHAPE_FIFO].shape = FAB_SES_VIA | FAB_SES_FIFO;
    for (int i = 0; i < SIDES; i++) {
        for (int j = 0; j < WAYS; j++) {
            w.side[i].dom[j] = (fab_ses_domain_t){
                .ops = &ops[it->shape[j]], .name = 1 + (uint64_t) i, .window = 64};
        }
        w.side[i].todo = (uint8_t) it->msgs;
        record_new(&w.side[i], 0);
    }
    seen_init(1u << 14);
    explore();
    printf("%-40s %9zu states\n", it->name, num_seen);
    seen_fini();
}

/*
 * The name has the shapes of the providers, and the numbers behind the ways: messages, failed
 * attempts, breaks, pauses, closes, leaves, failures of a user.  The smallest come first, so that
 * most errors are found soon.
 */
static const setup_t setups[] = {
    {"none 1000010", {SHAPE_NONE, SHAPE_NONE}, 1, 1, 0, 0, 0, 0, 1, 0, false},
    {"via 1000010", {SHAPE_VIA, SHAPE_VIA}, 1, 1, 0, 0, 0, 0, 1, 0, false},
    {"none 1000110", {SHAPE_NONE, SHAPE_NONE}, 1, 1, 0, 0, 0, 1, 1, 0, false},
    {"none 1001001", {SHAPE_NONE, SHAPE_NONE}, 1, 1, 0, 0, 1, 0, 0, 1, false},
    {"none+fifo 1000011", {SHAPE_NONE, SHAPE_FIFO}, 2, 1, 0, 0, 0, 0, 1, 1, false},
    {"via+fifo 1000011", {SHAPE_VIA, SHAPE_FIFO}, 2, 1, 0, 0, 0, 0, 1, 1, false},
    {"none 2001100", {SHAPE_NONE, SHAPE_NONE}, 1, 2, 0, 0, 1, 1, 0, 0, false},
    {"none+fifo 1200000", {SHAPE_NONE, SHAPE_FIFO}, 2, 1, 2, 0, 0, 0, 0, 0, false},
    {"via 2001100", {SHAPE_VIA, SHAPE_VIA}, 1, 2, 0, 0, 1, 1, 0, 0, false},
    {"none+fifo 2010000", {SHAPE_NONE, SHAPE_FIFO}, 2, 2, 0, 1, 0, 0, 0, 0, false},
    {"none 1002200", {SHAPE_NONE, SHAPE_NONE}, 1, 1, 0, 0, 2, 2, 0, 0, false},
    {"via+fifo 1100001", {SHAPE_VIA, SHAPE_FIFO}, 2, 1, 1, 0, 0, 0, 0, 1, false},
    {"via+none 1100100", {SHAPE_VIA, SHAPE_NONE}, 2, 1, 1, 0, 0, 1, 0, 0, false},
    {"fifo 1000111", {SHAPE_FIFO, SHAPE_FIFO}, 1, 1, 0, 0, 0, 1, 1, 1, false},
    {"via+via 1100100", {SHAPE_VIA, SHAPE_VIA}, 2, 1, 1, 0, 0, 1, 0, 0, false},
    {"none+fifo 1100001", {SHAPE_NONE, SHAPE_FIFO}, 2, 1, 1, 0, 0, 0, 0, 1, false},
    {"via+none 1010100", {SHAPE_VIA, SHAPE_NONE}, 2, 1, 0, 1, 0, 1, 0, 0, false},
    {"via+fifo 1010100", {SHAPE_VIA, SHAPE_FIFO}, 2, 1, 0, 1, 0, 1, 0, 0, false},
    {"via+via 1010100", {SHAPE_VIA, SHAPE_VIA}, 2, 1, 0, 1, 0, 1, 0, 0, false},
    {"fifo 2100200", {SHAPE_FIFO, SHAPE_FIFO}, 1, 2, 1, 0, 0, 2, 0, 0, false},
    {"none+none 1010100", {SHAPE_NONE, SHAPE_NONE}, 2, 1, 0, 1, 0, 1, 0, 0, false},
    {"none+none 1100100", {SHAPE_NONE, SHAPE_NONE}, 2, 1, 1, 0, 0, 1, 0, 0, false},
    {"none+fifo 1010100", {SHAPE_NONE, SHAPE_FIFO}, 2, 1, 0, 1, 0, 1, 0, 0, false},
    {"none+via 1010100", {SHAPE_NONE, SHAPE_VIA}, 2, 1, 0, 1, 0, 1, 0, 0, false},
    {"none 1010101", {SHAPE_NONE, SHAPE_NONE}, 1, 1, 0, 1, 0, 1, 0, 1, false},
    {"none 1011100", {SHAPE_NONE, SHAPE_NONE}, 1, 1, 0, 1, 1, 1, 0, 0, false},
    {"none+fifo 1020000", {SHAPE_NONE, SHAPE_FIFO}, 2, 1, 0, 2, 0, 0, 0, 0, false},
    {"none+via 1100100", {SHAPE_NONE, SHAPE_VIA}, 2, 1, 1, 0, 0, 1, 0, 0, false},
    {"fifo 2010100", {SHAPE_FIFO, SHAPE_FIFO}, 1, 2, 0, 1, 0, 1, 0, 0, false},
    {"via 1011100", {SHAPE_VIA, SHAPE_VIA}, 1, 1, 0, 1, 1, 1, 0, 0, false},
    {"none+fifo 1110000", {SHAPE_NONE, SHAPE_FIFO}, 2, 1, 1, 1, 0, 0, 0, 0, false},
    {"via+fifo 1111000", {SHAPE_VIA, SHAPE_FIFO}, 2, 1, 1, 1, 1, 0, 0, 0, false},
    {"none+fifo 1111000", {SHAPE_NONE, SHAPE_FIFO}, 2, 1, 1, 1, 1, 0, 0, 0, false},
    {"via 1102200", {SHAPE_VIA, SHAPE_VIA}, 1, 1, 1, 0, 2, 2, 0, 0, false},
    {"none+fifo 1201100", {SHAPE_NONE, SHAPE_FIFO}, 2, 1, 2, 0, 1, 1, 0, 0, false},
    {"via+fifo 1201100", {SHAPE_VIA, SHAPE_FIFO}, 2, 1, 2, 0, 1, 1, 0, 0, false},
    {"none+fifo 1100200", {SHAPE_NONE, SHAPE_FIFO}, 2, 1, 1, 0, 0, 2, 0, 0, false},
    {"none+fifo 1110100", {SHAPE_NONE, SHAPE_FIFO}, 2, 1, 1, 1, 0, 1, 0, 0, true},
    {"none+fifo 1101101", {SHAPE_NONE, SHAPE_FIFO}, 2, 1, 1, 0, 1, 1, 0, 1, true},
    {"none+fifo 1201200", {SHAPE_NONE, SHAPE_FIFO}, 2, 1, 2, 0, 1, 2, 0, 0, true},
    {"none+via 1201200", {SHAPE_NONE, SHAPE_VIA}, 2, 1, 2, 0, 1, 2, 0, 0, true},
    {"via+fifo 1110100", {SHAPE_VIA, SHAPE_FIFO}, 2, 1, 1, 1, 0, 1, 0, 0, true},
    {"via+fifo 1101101", {SHAPE_VIA, SHAPE_FIFO}, 2, 1, 1, 0, 1, 1, 0, 1, true},
    {"via+fifo 1201200", {SHAPE_VIA, SHAPE_FIFO}, 2, 1, 2, 0, 1, 2, 0, 0, true},
    {"via+via 1201100", {SHAPE_VIA, SHAPE_VIA}, 2, 1, 2, 0, 1, 1, 0, 0, true},
    {"via 1110101", {SHAPE_VIA, SHAPE_VIA}, 1, 1, 1, 1, 0, 1, 0, 1, true},
    {"fifo 1110111", {SHAPE_FIFO, SHAPE_FIFO}, 1, 1, 1, 1, 0, 1, 1, 1, true},
    {"fifo 1120101", {SHAPE_FIFO, SHAPE_FIFO}, 1, 1, 1, 2, 0, 1, 0, 1, true},
    {"via 1111111", {SHAPE_VIA, SHAPE_VIA}, 1, 1, 1, 1, 1, 1, 1, 1, true},
};

static void test_all(void **state)
{
    const char *only = getenv("TM_TEST_ONLY");
    const char *deep = getenv("TM_TEST_DEPTH");

    (void) state;
    for (size_t i = 0; i < sizeof(setups) / sizeof(setups[0]); i++) {
        if (NULL != only ? 0 == strcmp(only, setups[i].name) : !setups[i].is_deep || NULL != deep) {
            run(&setups[i]);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_all)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
