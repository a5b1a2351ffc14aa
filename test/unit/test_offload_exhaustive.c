/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The offload engine's code in every order of events: all interleavings of posting, cancelling,
 * messages, polling, commands executed and data coming in, for a few receives and messages, each
 * state visited once.
 *
 * A state is what can still make a difference: counters are taken relative to the device's, what is
 * done is left out.  From every state in which nothing is under way, everything is brought to its
 * end and looked at.
 *
 * TM_TEST_ONLY names one configuration, TM_TEST_DEPTH adds so many receives and messages (1:
 * minutes), TM_TEST_BLACK_BOX leaves out the checks of the engine's own invariants.
 *
 * TEST: sources=common/offload/offload.c,common/match/match.c,test/unit/offload_dev.c,test/unit/offload_world.c timeout=300 variants=plain quick=no depends=common/fabric/fab.h,common/fabric/fab_tm.h,common/match,common/offload,test/unit/offload_dev.c,test/unit/offload_dev.h,test/unit/offload_world.c,test/unit/offload_world.h,test/unit/match_ref.h cflags="-DFAB_MATCH_SHORT_LEN=8 -DWORLD_RECVS=5 -DWORLD_MSGS=6"
 */
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "offload_world.h"

#define ANY               FAB_MATCH_ANY
#define SELF              WORLD_SELF
#define ARRAY_LEN(a)      (sizeof(a) / sizeof((a)[0]))
#define OWNER(p, type, m) ((type *) ((char *) (p) -offsetof(type, m)))
#define MAX_DEPTH         200

typedef struct pattern {
    int32_t source;
    int32_t tag;
    fab_offload_reason_t reason;
} pattern_t;

/* One exploration. */
typedef struct setup {
    const char *name;
    world_config_t world;
    unsigned nrecv;
    unsigned nmsg;
    unsigned nsource; /* behind the device */
    unsigned ntags;   /* of messages: 0, 1, ... */
    const pattern_t *pattern;
    unsigned npattern;
    unsigned ncancel;
    unsigned nself;   /* messages by the other path at most */
    unsigned nrefuse; /* ADDs refused at most */
    bool has_split;
    bool has_failure;
} setup_t;

typedef enum action_kind {
    ACT_POST,
    ACT_CANCEL,
    ACT_MESSAGE,
    ACT_SELF,
    ACT_POLL,
    ACT_EXECUTE,
    ACT_FINISH,
    ACT_REFUSE,
    ACT_FAIL,
    ACT_KINDS
} action_kind_t;

static const char *const action_name[] = {"post",    "cancel", "message", "by other path", "poll",
                                          "execute", "finish", "refuse",  "fail"};

typedef struct action {
    action_kind_t kind;
    unsigned a; /* pattern, receive, source, slot, or number of completions */
    unsigned b; /* tag, or reason */
    bool is_split;
} action_t;

typedef struct explore {
    world_t w;
    unsigned nposted;
    unsigned nsent;
    unsigned ncancelled;
    unsigned nself;
    unsigned nrefused;
    const setup_t *setup;
    /* States seen, by hash: 2^64 is far more than there are. */
    uint64_t *seen;
    size_t mask;
    size_t nseen;
    action_t trace[MAX_DEPTH];
    unsigned depth;
} explore_t;

/* ---- states ------------------------------------------------------------- */

typedef struct bytes {
    uint8_t at[1024];
    size_t len;
} bytes_t;

static void put(bytes_t *b, uint64_t value)
{
    b->at[b->len++] = (uint8_t) value;
}

static unsigned recv_id(const world_t *w, const fab_offload_recv_t *recv)
{
    return NULL != recv ? (unsigned) (recv - w->recv) : 99;
}

static void put_recv(bytes_t *b, const world_t *w, unsigned i)
{
    const ref_recv_t *r = &w->rrecv[i];
    const fab_offload_recv_t *recv = &w->recv[i];
    const bool has_del = FAB_OFFLOAD_CANCELLING == recv->state ||
                         FAB_OFFLOAD_UNLISTING == recv->state;

    put(b, r->state);
    if (REF_FREE == r->state) {
        return;
    }
    put(b, (uint64_t) r->source);
    put(b, (uint64_t) r->tag);
    put(b, r->reason);
    put(b, r->is_cancelled | r->is_skipped << 1);
    put(b, (uint64_t) (r->is_skipped ? r->allowed : 0));
    put(b, (uint64_t) (REF_MATCHED == r->state ? r->msg : 0));
    put(b, recv->state);
    put(b, recv->state > FAB_OFFLOAD_QUEUED ? recv->tm.handle : 0);
    put(b, has_del ? recv->has_matched | recv->has_data << 1 | recv->is_del_queued << 2 : 0);
    put(b, FAB_OFFLOAD_QUEUED == recv->state || (has_del && recv->is_del_queued)
               ? recv->at - w->engine.ring_head
           : has_del ? w->engine.posted - recv->at
                     : 0);
}

static void put_msgs(bytes_t *b, const world_t *w, const fab_match_list_t *list)
{
    for (const fab_match_list_t *at = list->next; at != list; at = at->next) {
        put(b, (uint64_t) (OWNER(at, fab_match_msg_t, order) - w->msg));
    }
    put(b, 99);
}

static void put_cmd(bytes_t *b, const world_t *w, const fab_tm_cmd_t *cmd)
{
    put(b, cmd->op);
    put(b, cmd->is_signaled);
    put(b, FAB_TM_NOP == cmd->op ? 0 : (uint64_t) (w->dev.hw - cmd->count));
    put(b, FAB_TM_DEL == cmd->op ? cmd->handle : 0);
    put(b, FAB_TM_ADD == cmd->op || (FAB_TM_DEL == cmd->op && cmd->is_signaled)
               ? recv_id(w, fab_offload_recv_of(cmd->recv))
               : 99);
}

static void put_engine(bytes_t *b, const world_t *w)
{
    const fab_offload_t *e = &w->engine;

    put(b, (uint64_t) (w->dev.hw - e->handled));
    put(b, e->handled - e->reported);
    put(b, e->handled - e->acked);
    put(b, e->is_tracking);
    put(b, e->is_tracking ? e->posted - e->tracked : 0);
    put(b, e->is_tracking ? e->handled - e->tracked_count : 0);
    put(b, e->is_refused | e->is_failed << 1);
    put(b, e->config.max_tags);
    put(b, e->posted - e->completed);
    put(b, e->run);
    put(b, e->signaled);
    put(b, e->ring_tail - e->ring_head);
    for (uint32_t i = e->ring_head; i != e->ring_tail; i++) {
        put_cmd(b, w, &e->ring[i & e->ring_mask]);
    }
}

static void put_scope(bytes_t *b, const world_t *w)
{
    const fab_offload_scope_t *scope = &w->scope[0];

    put_msgs(b, w, &w->dom[0].unexp_user);
    put_msgs(b, w, &w->dom[0].unexp_internal);
    put_msgs(b, w, &scope->parked);
    for (const fab_match_list_t *at = scope->waiting.next; at != &scope->waiting; at = at->next) {
        put(b, recv_id(w, OWNER(at, fab_offload_recv_t, link)));
    }
    put(b, 99);
    put(b, scope->ready.next != &scope->ready);
    put(b, scope->unpark.next != &scope->unpark);
    put(b, recv_id(w, scope->unlisting));
    put(b, scope->removing);
}

static void put_slot(bytes_t *b, const world_t *w, const hw_slot_t *slot)
{
    unsigned rank = 0;

    put(b, slot->expect);
    put(b, 0 != slot->expect ? recv_id(w, slot->recv) : 99);
    put(b, slot->owes_data);
    put(b, slot->owes_data ? slot->msg : 0);
    put(b, slot->is_listed);
    if (slot->is_listed) {
        for (unsigned i = 0; i < w->dev.slots; i++) {
            rank += w->dev.slot[i].is_listed && w->dev.slot[i].age < slot->age;
        }
        put(b, rank);
        put(b, slot->is_enabled);
        put(b, recv_id(w, slot->hw_recv));
        put(b, slot->tag);
        put(b, slot->tag >> 32);
        put(b, slot->mask);
        put(b, slot->mask >> 32);
    }
}

static void put_dev(bytes_t *b, const world_t *w)
{
    const hw_t *dev = &w->dev;

    put(b, dev->bufs);
    put(b, w->held_bufs);
    put(b, (uint64_t) (dev->hw - dev->sw_rep));
    put(b, dev->posted - dev->tail);
    put(b, dev->refusals);
    for (unsigned i = 0; i < dev->slots; i++) {
        put_slot(b, w, &dev->slot[i]);
    }
    put(b, dev->ncmd);
    for (unsigned i = 0; i < dev->ncmd; i++) {
        put_cmd(b, w, &dev->cmd[i].cmd);
        put(b, dev->cmd[i].cmd.handle);
        put(b, dev->cmd[i].tag);
        put(b, dev->cmd[i].tag >> 32);
        put(b, dev->cmd[i].mask);
        put(b, dev->cmd[i].mask >> 32);
    }
    put(b, dev->ncq);
    for (unsigned i = 0; i < dev->ncq; i++) {
        const hw_completion_t *c = &dev->cq[i];

        put(b, c->kind | c->has_data << 2 | c->is_success << 3);
        put(b, c->handle);
        put(b, c->msg);
        put(b, HW_OP == c->kind ? dev->posted - c->op : 0);
        put(b, HW_OP == c->kind && c->handle < HW_SLOTS
                   ? recv_id(w, (fab_offload_recv_t *) (uintptr_t) c->wr_id)
                   : 0);
    }
}

static uint64_t state_hash(const explore_t *x)
{
    uint64_t hash = 0xcbf29ce484222325ull;
    bytes_t b;

    b.len = 0;
    put(&b, x->nposted);
    put(&b, x->nsent);
    put(&b, x->ncancelled);
    put(&b, x->nself);
    put(&b, x->nrefused);
    for (unsigned i = 0; i < x->nposted; i++) {
        put_recv(&b, &x->w, i);
    }
    for (unsigned i = 0; i < x->nsent; i++) {
        const ref_msg_t *m = &x->w.rmsg[i];

        put(&b, m->state);
        put(&b, REF_WAITING == m->state ? (uint64_t) (m->source << 4 | (m->tag & 15)) : 0);
    }
    put_engine(&b, &x->w);
    put_scope(&b, &x->w);
    put_dev(&b, &x->w);
    memset(b.at + b.len, 0, 8);
    for (size_t i = 0; i < b.len; i += 8) {
        uint64_t word;

        memcpy(&word, b.at + i, 8);
        hash = (hash ^ word) * 0x9e3779b97f4a7c15ull;
        hash ^= hash >> 29;
    }
    return 0 != hash ? hash : 1;
}

static void seen_init(explore_t *x, size_t size)
{
    x->seen = calloc(size, sizeof(*x->seen));
    assert_non_null(x->seen);
    x->mask = size - 1;
    x->nseen = 0;
}

/* True: it was not there. */
static bool seen_insert(explore_t *x, uint64_t hash)
{
    size_t at = hash & x->mask;

    while (0 != x->seen[at]) {
        if (x->seen[at] == hash) {
            return false;
        }
        at = (at + 1) & x->mask;
    }
    x->seen[at] = hash;
    x->nseen++;
    return true;
}

static void seen_grow(explore_t *x)
{
    uint64_t *old = x->seen;
    const size_t size = x->mask + 1;

    seen_init(x, 4 * size);
    for (size_t i = 0; i < size; i++) {
        if (0 != old[i]) {
            seen_insert(x, old[i]);
        }
    }
    free(old);
}

static bool is_new(explore_t *x)
{
    if (x->nseen > x->mask / 2) {
        seen_grow(x);
    }
    return seen_insert(x, state_hash(x));
}

/* ---- actions ------------------------------------------------------------ */

static void explore_fail(const explore_t *x)
{
    for (unsigned i = 0; i < x->depth; i++) {
        const action_t *a = &x->trace[i];

        if (ACT_POST == a->kind) {
            const pattern_t *p = &x->setup->pattern[a->a];

            print_error("  post %d %d, reason %d\n", p->source, p->tag, (int) p->reason);
        } else {
            print_error("  %s %u %u%s\n", action_name[a->kind], a->a, a->b,
                        a->is_split ? " split" : "");
        }
    }
    fail_msg("%s: %s", x->setup->name, x->w.error);
}

static bool do_message(explore_t *x, const action_t *a)
{
    const bool is_done = world_message(&x->w, x->nsent, 0, (int32_t) a->a, (int32_t) a->b,
                                       a->is_split);

    x->nsent += is_done;
    return is_done;
}

/* False: it does nothing here. */
static bool do_action(explore_t *x, const action_t *a)
{
    const pattern_t *p = &x->setup->pattern[a->a];

    switch (a->kind) {
    case ACT_POST:
        world_post(&x->w, x->nposted++, 0, p->source, p->tag, p->reason);
        return true;
    case ACT_CANCEL:
        x->ncancelled++;
        world_cancel(&x->w, a->a);
        return true;
    case ACT_MESSAGE:
        return do_message(x, a);
    case ACT_SELF:
        x->nself++;
        world_other_path(&x->w, x->nsent++, 0, (int32_t) a->b);
        return true;
    case ACT_POLL:
        world_poll(&x->w, a->a);
        return true;
    case ACT_EXECUTE:
        world_execute(&x->w);
        return true;
    case ACT_FINISH:
        world_finish(&x->w, a->a);
        return true;
    case ACT_REFUSE:
        x->nrefused++;
        x->w.dev.refusals = 1;
        return true;
    case ACT_FAIL:
        world_fail(&x->w);
        return true;
    case ACT_KINDS:
        break;
    }
    return false;
}

static void explore(explore_t *x);

/* Take an action, go on from there if nobody was there, come back. */
static void try_action(explore_t *x, const explore_t *from, action_t action)
{
    x->trace[x->depth++] = action;
    assert_true(x->depth < MAX_DEPTH);
    if (do_action(x, &action)) {
        if (NULL != x->w.error) {
            explore_fail(x);
        }
        if (is_new(x)) {
            explore(x);
        }
    }
    x->w = from->w;
    x->nposted = from->nposted;
    x->nsent = from->nsent;
    x->ncancelled = from->ncancelled;
    x->nself = from->nself;
    x->nrefused = from->nrefused;
    x->depth--;
}

static void try_program(explore_t *x, const explore_t *from)
{
    const setup_t *s = x->setup;

    for (unsigned i = 0; x->nposted < s->nrecv && i < s->npattern; i++) {
        try_action(x, from, (action_t){.kind = ACT_POST, .a = i});
    }
    for (unsigned i = 0; x->ncancelled < s->ncancel && i < x->nposted; i++) {
        if (REF_FREE != x->w.rrecv[i].state && !x->w.rrecv[i].is_cancelled) {
            try_action(x, from, (action_t){.kind = ACT_CANCEL, .a = i});
        }
    }
    for (unsigned t = 0; x->nsent < s->nmsg && x->nself < s->nself && t < s->ntags; t++) {
        try_action(x, from, (action_t){.kind = ACT_SELF, .b = t});
    }
    try_action(x, from, (action_t){.kind = ACT_POLL, .a = 1});
    if (x->w.dev.ncq > 1) {
        try_action(x, from, (action_t){.kind = ACT_POLL, .a = HW_QUEUE});
    }
}

static void try_device(explore_t *x, const explore_t *from)
{
    const setup_t *s = x->setup;

    for (unsigned i = 0; x->nsent < s->nmsg && i < s->nsource * s->ntags; i++) {
        try_action(x, from, (action_t){.kind = ACT_MESSAGE, .a = i / s->ntags, .b = i % s->ntags});
        if (s->has_split) {
            try_action(
                x, from,
                (action_t){
                    .kind = ACT_MESSAGE, .a = i / s->ntags, .b = i % s->ntags, .is_split = true});
        }
    }
    if (x->w.dev.ncmd > 0) {
        try_action(x, from, (action_t){.kind = ACT_EXECUTE});
    }
    for (unsigned i = 0; i < x->w.dev.slots; i++) {
        if (x->w.dev.slot[i].owes_data) {
            try_action(x, from, (action_t){.kind = ACT_FINISH, .a = i});
        }
    }
    if (x->nrefused < s->nrefuse && 0 == x->w.dev.refusals) {
        try_action(x, from, (action_t){.kind = ACT_REFUSE});
    }
    if (s->has_failure) {
        try_action(x, from, (action_t){.kind = ACT_FAIL});
    }
}

/* Bring everything to its end, look at it, come back. */
static void try_end(explore_t *x, const explore_t *from)
{
    world_settle(&x->w);
    if (NULL != x->w.error) {
        explore_fail(x);
    }
    x->w = from->w;
}

static void explore(explore_t *x)
{
    explore_t *from = malloc(sizeof(*from)); /* not on the stack: there are many of these */

    assert_non_null(from);
    *from = *x;
    if (0 == x->w.dev.ncq && 0 == x->w.dev.ncmd) {
        try_end(x, from);
    }
    try_program(x, from);
    if (!x->w.engine.is_failed) {
        try_device(x, from);
    }
    free(from);
}

static void explore_setup(const setup_t *given)
{
    static explore_t x;
    static setup_t longer;
    const setup_t *setup = &longer;
    const char *only = getenv("TM_TEST_ONLY");
    const char *more = getenv("TM_TEST_DEPTH");

    longer = *given;
    longer.nrecv += NULL != more ? (unsigned) atoi(more) : 0;
    longer.nmsg += NULL != more ? (unsigned) atoi(more) : 0;
    longer.world.is_black_box = NULL != getenv("TM_TEST_BLACK_BOX");

    if (NULL != only && 0 != strcmp(only, setup->name)) {
        return;
    }
    memset(&x, 0, sizeof(x));
    x.setup = setup;
    world_init(&x.w, &setup->world);
    seen_init(&x, 1u << 16);
    explore(&x);
    print_message("%-24s %10zu states\n", setup->name, x.nseen);
    free(x.seen);
}

/* ---- the explorations --------------------------------------------------- */

#define LISTABLE FAB_OFFLOAD_LISTABLE
#define PLAIN    FAB_OFFLOAD_SHORT
#define OTHER    FAB_OFFLOAD_OTHER_PATH

#define PATTERNS(array) .pattern = array, .npattern = ARRAY_LEN(array)

/* One tag, two sources: everything overlaps through MPI_ANY_SOURCE. */
static const pattern_t by_source[] = {{0, 0, LISTABLE}, {ANY, 0, LISTABLE}};
static const pattern_t by_source_plain[] = {{0, 0, LISTABLE}, {ANY, 0, LISTABLE}, {0, 0, PLAIN}};
static const pattern_t by_tag[] = {
    {0, 0, LISTABLE}, {0, 1, LISTABLE}, {0, ANY, LISTABLE}, {0, 0, PLAIN}};
static const pattern_t one_key[] = {{0, 0, LISTABLE}};
static const pattern_t one_key_plain[] = {{0, 0, LISTABLE}, {0, 0, PLAIN}};
static const pattern_t with_self[] = {{0, 0, LISTABLE}, {ANY, 0, LISTABLE}, {SELF, 0, OTHER}};
static const pattern_t two_keys[] = {{0, 0, LISTABLE}, {0, 1, LISTABLE}};

#define WORLD(nslots, nops, every)                                                                 \
    {                                                                                              \
        .slots = (nslots), .max_tags = (nslots), .max_ops = (nops), .bufs = 2 * (every),           \
        .report_every = (every), .first_count = 65534                                              \
    }

/*
 * Name; the device (slots, commands, how often it is told); receives, messages, sources, and tags;
 * receives that there may be; and what happens besides.
 */
static const setup_t setups[] = {
    {"two sources", WORLD(2, 16, 2), 4, 4, 2, 1, PATTERNS(by_source)},
    {"plain", WORLD(2, 16, 2), 4, 4, 1, 1, PATTERNS(by_source_plain)},
    {"two tags", WORLD(2, 16, 2), 3, 3, 1, 2, PATTERNS(by_tag)},
    {"cancel", WORLD(2, 16, 2), 4, 4, 1, 1, PATTERNS(one_key), .ncancel = 2},
    {"cancel two sources", WORLD(2, 16, 2), 3, 3, 2, 1, PATTERNS(by_source), .ncancel = 1},
    {"other path", WORLD(2, 16, 2), 4, 4, 1, 1, PATTERNS(with_self), .nself = 2},
    {"other path cancel", WORLD(2, 16, 2), 3, 3, 1, 1, PATTERNS(by_source), .ncancel = 1,
     .nself = 2},
    {"split", WORLD(2, 16, 2), 3, 3, 1, 1, PATTERNS(by_source), .ncancel = 1, .nself = 1,
     .has_split = true},
    {"one slot", WORLD(1, 16, 2), 4, 3, 1, 2, PATTERNS(two_keys), .ncancel = 1},
    {"few commands", WORLD(2, 4, 2), 5, 4, 1, 1, PATTERNS(one_key_plain), .ncancel = 2},
    {"few commands other path", WORLD(2, 4, 2), 3, 3, 1, 1, PATTERNS(by_source), .ncancel = 1,
     .nself = 2},
    {"refused", WORLD(2, 16, 2), 4, 4, 1, 1, PATTERNS(one_key_plain), .ncancel = 1, .nrefuse = 2},
    {"counter", WORLD(2, 16, 1), 2, 5, 1, 2, PATTERNS(one_key), .ncancel = 1},
    {"failure", WORLD(2, 16, 2), 3, 3, 1, 1, PATTERNS(one_key), .ncancel = 1, .nself = 1,
     .has_split = true, .has_failure = true},
};

static void test_all(void **state)
{
    (void) state;
    for (size_t i = 0; i < ARRAY_LEN(setups); i++) {
        explore_setup(&setups[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
