/* SPDX-License-Identifier: BSD-3-Clause */
#include "random.h"

/*
 * The calls of an epoch: reserved receives, the program (sends in their planned order, receives,
 * probes, tests and cancels in between, by random numbers of the rank's own), and the drain, which
 * receives whatever is left and cancels the receives that nothing is left for.
 *
 * Why no rank waits for ever, whatever the timing:
 *  - a program does not wait for others but in the calls named here, so that all ranks come to
 *    their drain, where all messages are received;
 *  - reserved messages have their receives before they are sent;
 *  - other blocking sends (STYLE_SENDS) go to ranks that come later in the epoch's order: the last
 *    rank comes to its drain without, which frees the one before, and so on;
 *  - blocking receives and probes (STYLE_RECVS) want messages of ranks that come earlier, and there
 *    are more of those that fit than receives that could have taken them: the first rank comes to
 *    its drain without, and so on;
 *  - sends are cancelled in STYLE_FREE only, where nobody waits for a certain message, and a
 *  message
 *    that a probe saw is the prober's (MPI_Improbe). Before the drain all are told which ones were;
 *    what a probe took is received before, so that a send that it matched completes;
 *  - collective calls and Sendrecv (STYLE_FREE) come in the same order on all ranks, which are not
 *    kept from them.
 */

#include <sched.h>

/* ---- receives of the program -------------------------------------------- */

/* A communicator, one where messages come more likely, and a pattern that may be in vain. */
static bool draw_pattern(rnd_lane_t *lane, int *s, int *src, int *tag)
{
    const rnd_slot_t *slot;
    int peer = rnd_below(&lane->mine, tm_size);

    *s = rnd_below(&lane->mine, NSLOTS);
    slot = &lane->slot[*s];
    if (MPI_COMM_NULL == slot->comm || (0 == slot->num_expected && rnd_chance(&lane->mine, 90))) {
        return false;
    }
    *src = MPI_ANY_SOURCE;
    if (rnd_chance(&lane->mine, 60)) {
        *src = rnd_is_linked(slot, tm_rank, peer) ? peer : MPI_ANY_SOURCE;
    }
    *tag = rnd_plain_tag(lane, slot, rnd_below(&lane->mine, slot->ntags));
    if (!slot->is_common && rnd_chance(&lane->mine, 35)) {
        *tag = MPI_ANY_TAG;
    } else if (rnd_chance(&lane->mine, 3)) {
        *tag = rnd_plain_tag(lane, slot, LANE_TAGS - 2); /* nobody sends that */
    }
    return true;
}

/*
 * A message will surely come for this pattern from a rank that comes earlier in the epoch's order.
 */
static bool is_sure(const rnd_lane_t *lane, int s, int src, int tag)
{
    int n = 0;

    for (int i = 0; i < lane->nin; i++) {
        const rnd_msg_t *m = &lane->in[i];

        n += !m->is_reserved && lane->order[m->src] < lane->order[tm_rank] &&
             rnd_fits(s, src, tag, m);
    }
    for (int i = 0; i < lane->nops && n > 0; i++) {
        const rnd_op_t *op = lane->op[i];

        n -= OP_RECV == op->kind && !op->is_reserved && op->slot == s &&
             (op->src == src || MPI_ANY_SOURCE == op->src || MPI_ANY_SOURCE == src) &&
             (op->tag == tag || MPI_ANY_TAG == op->tag || MPI_ANY_TAG == tag);
    }
    return n > 0;
}

static void recv_next(rnd_lane_t *lane)
{
    int s, src, tag, kind = rnd_below(&lane->mine, 100);
    bool is_blocking;

    if (!draw_pattern(lane, &s, &src, &tag)) {
        return;
    }
    is_blocking = STYLE_RECVS == lane->style && rnd_chance(&lane->mine, 50) &&
                  is_sure(lane, s, src, tag);
    lane->nblocking += is_blocking;
    if (is_blocking && kind < 40) {
        rnd_recv_block(lane, rnd_op_new(lane, OP_RECV, s, src, tag, "MPI_Recv"),
                       rnd_longest(lane, s, src, tag));
    } else if (is_blocking || kind < 15) {
        rnd_probe(lane, s, src, tag, is_blocking);
    } else {
        rnd_op_t *op = rnd_op_new(lane, OP_RECV, s, src, tag, "MPI_Irecv or MPI_Start");

        if (kind > 35 || !rnd_recv_persistent(lane, op)) {
            rnd_recv_post(lane, op);
        }
    }
}

/* ---- reserved receives -------------------------------------------------- */

/* How the receives of a reserved tag name their sources. */
static int reserved_kind(const rnd_lane_t *lane, const rnd_msg_t *m)
{
    tm_rng_t rng = rnd_rng(lane, 5000 + m->slot * 100 + m->tag % LANE_TAGS + m->dst * 10000);

    return rnd_below(&rng, 3);
}

static bool is_source_named(const rnd_lane_t *lane, const rnd_msg_t *m)
{
    int kind = reserved_kind(lane, m);

    return 0 == kind || (2 == kind && 0 == m->index % 2);
}

static void reserve_one(rnd_lane_t *lane, const rnd_msg_t *m, bool is_named)
{
    rnd_op_t *op = rnd_op_new(lane, OP_RECV, m->slot, is_named ? m->src : MPI_ANY_SOURCE, m->tag,
                              "reserved receive");

    op->is_reserved = true;
    /*
     * with kind 0 the receive gets this very message, so that one can see without a request when it
     * is there
     */
    op->is_freed = 0 == reserved_kind(lane, m) && m->n > 0 && rnd_chance(&lane->mine, 5) &&
                   !lane->slot[m->slot].is_inter;
    op->msg = op->is_freed ? m : NULL;
    rnd_recv_post(lane, op);
}

static void post_reserved(rnd_lane_t *lane)
{
    for (int pass = 0; pass < 2; pass++) {
        for (int i = 0; i < lane->nin; i++) {
            if (lane->in[i].is_reserved && is_source_named(lane, &lane->in[i]) == (0 == pass)) {
                reserve_one(lane, &lane->in[i], 0 == pass);
            }
        }
    }
    if (lane->has_reserved) {
        rnd_step(lane, "MPI_Barrier after the reserved receives");
        TM_MPI(MPI_Barrier(lane->ctl));
    }
}

/*
 * Several persistent receives at once, in communicators of their own each: MPI_Startall has no
 * order.
 */
static void start_together(rnd_lane_t *lane)
{
    MPI_Request req[MAX_DEFS];
    rnd_op_t *op[MAX_DEFS];
    int n = 0;

    for (int d = 0; d < MAX_DEFS; d++) {
        rnd_def_t *def = &lane->rdef[d];
        bool is_alone = MPI_REQUEST_NULL != def->req && NULL == def->active;

        for (int i = 0; i < n; i++) {
            is_alone = is_alone && op[i]->slot != def->slot;
        }
        if (is_alone) {
            op[n] = rnd_op_new(lane, OP_RECV, def->slot, def->src, def->tag, "MPI_Startall");
            rnd_def_use(def, op[n]);
            req[n++] = def->req;
        }
    }
    if (n > 0) {
        TM_MPI(MPI_Startall(n, req));
    }
    for (int i = 0; i < n; i++) {
        op[i]->def->req = req[i];
        op[i]->is_started = true;
    }
}

/* ---- cancel ------------------------------------------------------------- */

static void cancel_op(rnd_lane_t *lane, rnd_op_t *op)
{
    op->cancelled = rnd_step(lane, "MPI_Cancel");
    TM_MPI(MPI_Cancel(rnd_op_req(op)));
    lane->ncancelled++;
}

/* One of the last receives; it may have a message already, and then gets it. */
static void cancel_one(rnd_lane_t *lane)
{
    for (int i = lane->nops - 1; i >= lane->first_open; i--) {
        rnd_op_t *op = lane->op[i];

        if (rnd_want_recvs(op) && !op->is_reserved && 0 == op->cancelled &&
            MPI_MESSAGE_NULL == op->held && rnd_chance(&lane->mine, 30)) {
            cancel_op(lane, op);
            if (rnd_chance(&lane->mine, 50)) {
                rnd_complete_op(lane, op, true);
            }
            return;
        }
    }
}

static bool is_cancellable(const rnd_op_t *op)
{
    return OP_SEND == op->kind && op->msg->may_cancel;
}

/* One of the sends of which the plan says so; its message may have a receive already. */
static void cancel_send(rnd_lane_t *lane)
{
    for (int i = lane->nops - 1; i >= lane->first_open; i--) {
        rnd_op_t *op = lane->op[i];

        if (is_cancellable(op) && rnd_op_is_open(op) && 0 == op->cancelled &&
            rnd_chance(&lane->mine, 50)) {
            cancel_op(lane, op);
            return;
        }
    }
}

/* Cancel more of them, and wait for all that were: with or without success. */
static void finish_cancelled_sends(rnd_lane_t *lane)
{
    rnd_recv_all_held(lane, 100);
    for (int i = lane->first_open; i < lane->nops; i++) {
        rnd_op_t *op = lane->op[i];

        if (!is_cancellable(op) || !rnd_op_is_open(op)) {
            continue;
        }
        if (0 == op->cancelled && rnd_chance(&lane->mine, 60)) {
            cancel_op(lane, op);
        }
        if (0 != op->cancelled) {
            rnd_complete_op(lane, op, true);
        }
    }
}

/* The message, of that sender, will not come. */
static void forget_message(rnd_lane_t *lane, int src, int index)
{
    for (int i = 0; i < lane->nin; i++) {
        rnd_msg_t *m = &lane->in[i];

        if (src == m->src && index == m->index &&
            RND_CHECK(lane, m->may_cancel, "never cancelled")) {
            m->is_taken = true;
            lane->slot[m->slot].num_expected--;
        }
    }
}

/* Tell the receivers which messages were cancelled. */
static void settle_cancels(rnd_lane_t *lane)
{
    int nout[MAX_RANKS] = {0}, nin[MAX_RANKS], out_at[MAX_RANKS] = {0}, in_at[MAX_RANKS] = {0};
    int *out = tm_calloc((size_t) lane->nops + 1, sizeof(*out)), *in, n = 0;

    finish_cancelled_sends(lane);
    for (int dst = 0; dst < tm_size; dst++) {
        out_at[dst] = n;
        for (int i = 0; i < lane->nops; i++) {
            const rnd_op_t *op = lane->op[i];

            if (is_cancellable(op) && dst == op->msg->dst && op->is_done &&
                rnd_op_was_cancelled(op)) {
                RND_CHECK(lane, 0 != op->cancelled, "cancelled, but MPI_Cancel was not called");
                out[n++] = op->msg->index;
            }
        }
        nout[dst] = n - out_at[dst];
    }
    rnd_step(lane, "MPI_Alltoallv of cancelled sends");
    TM_MPI(MPI_Alltoall(nout, 1, MPI_INT, nin, 1, MPI_INT, lane->ctl));
    n = 0;
    for (int src = 0; src < tm_size; src++) {
        in_at[src] = n;
        n += nin[src];
    }
    in = tm_calloc((size_t) n + 1, sizeof(*in));
    TM_MPI(MPI_Alltoallv(out, nout, out_at, MPI_INT, in, nin, in_at, MPI_INT, lane->ctl));
    for (int src = 0; src < tm_size; src++) {
        for (int i = 0; i < nin[src]; i++) {
            forget_message(lane, src, in[in_at[src] + i]);
        }
    }
    lane->nunsent += out_at[tm_size - 1] + nout[tm_size - 1];
    free(in);
    free(out);
}

/* What is left when all messages are received must be cancelled. */
static void cancel_rest(rnd_lane_t *lane)
{
    for (int i = lane->first_open; i < lane->nops; i++) {
        rnd_op_t *op = lane->op[i];

        if (!rnd_want_recvs(op)) {
            continue;
        }
        if (0 == op->cancelled) {
            cancel_op(lane, op);
        }
        rnd_complete_op(lane, op, true);
        RND_CHECK(lane, rnd_op_was_cancelled(op),
                  "receive (slot %d source %d tag %d) got more than all messages", op->slot,
                  op->src, op->tag);
    }
}

/* ---- Sendrecv, and what synchronous means ------------------------------- */

static size_t exchange_size(const rnd_lane_t *lane, int round, int src, bool is_replace)
{
    tm_rng_t rng = rnd_rng(lane, 60 + round);
    size_t n = 0;

    for (int i = 0; i <= (is_replace ? 0 : src); i++) {
        n = rnd_plan_size(lane, &rng);
    }
    return n;
}

/* A synchronous send is not complete while nobody may have posted a receive for it. */
static void exchange_synchronous(rnd_lane_t *lane, int round, int dst, int src)
{
    size_t nout = exchange_size(lane, round, tm_rank, false),
           nin = exchange_size(lane, round, src, false);
    unsigned char *out = tm_alloc(nout), *in = tm_alloc(nin);
    int tag = 100 + round, flag = 0;
    bool is_persistent = rnd_chance(&lane->mine, 30);
    MPI_Request req;
    MPI_Status st;

    rnd_step(lane, "MPI_Issend and MPI_Barrier");
    tm_fill(out, nout, tm_key(tm_rank, dst, tag, lane->epoch));
    TM_MPI((is_persistent ? MPI_Ssend_init : MPI_Issend)(out, tm_int(nout), MPI_BYTE, dst, tag,
                                                         lane->ctl, &req));
    if (is_persistent) {
        TM_MPI(MPI_Start(&req));
    }
    for (int i = 0; i < 20; i++) {
        TM_MPI(MPI_Request_get_status(req, &flag, &st));
        RND_CHECK(lane, !flag,
                  "a synchronous send of %zu bytes is complete before there is a receive", nout);
    }
    TM_MPI(MPI_Barrier(lane->ctl));
    rnd_step(lane, "MPI_Recv from MPI_Issend");
    tm_status_reset(&st);
    TM_MPI(MPI_Recv(in, tm_int(nin), MPI_BYTE, MPI_ANY_SOURCE, tag, lane->ctl, &st));
    tm_expect_message(&st, in, src, tag, nin, tm_key(src, tm_rank, tag, lane->epoch), "MPI_Issend");
    TM_MPI(MPI_Wait(&req, MPI_STATUS_IGNORE));
    if (is_persistent) {
        TM_MPI(MPI_Request_free(&req));
    }
    tm_free(in);
    tm_free(out);
}

static void exchange_sendrecv(rnd_lane_t *lane, int round, int dst, int src, bool is_replace)
{
    size_t nout = exchange_size(lane, round, tm_rank, is_replace),
           nin = exchange_size(lane, round, src, is_replace);
    unsigned char *out = tm_alloc(nout), *in = tm_alloc(nin);
    int tag = 100 + round, from = rnd_chance(&lane->mine, 50) ? MPI_ANY_SOURCE : src;
    MPI_Status st;

    rnd_step(lane, is_replace ? "MPI_Sendrecv_replace" : "MPI_Sendrecv");
    tm_fill(is_replace ? in : out, nout, tm_key(tm_rank, dst, tag, lane->epoch));
    tm_status_reset(&st);
    if (is_replace) {
        TM_MPI(
            MPI_Sendrecv_replace(in, tm_int(nin), MPI_BYTE, dst, tag, from, tag, lane->ctl, &st));
    } else {
        TM_MPI(MPI_Sendrecv(out, tm_int(nout), MPI_BYTE, dst, tag, in, tm_int(nin), MPI_BYTE, from,
                            tag, lane->ctl, &st));
    }
    tm_expect_status(&st, src, tag, nin);
    tm_expect_data(in, nin, tm_key(src, tm_rank, tag, lane->epoch),
                   is_replace ? "MPI_Sendrecv_replace" : "MPI_Sendrecv");
    tm_free(in);
    tm_free(out);
}

/* A shift around the ring. */
static void exchange(rnd_lane_t *lane, int round)
{
    tm_rng_t rng = rnd_rng(lane, 50 + round);
    int shift = rnd_below(&rng, tm_size), dst = (tm_rank + shift) % tm_size,
        src = (tm_rank + tm_size - shift) % tm_size;

    if (rnd_chance(&rng, 40)) {
        exchange_synchronous(lane, round, dst, src);
    } else {
        exchange_sendrecv(lane, round, dst, src, rnd_chance(&rng, 40));
    }
}

/* ---- the program -------------------------------------------------------- */

static void between(rnd_lane_t *lane)
{
    int x = rnd_below(&lane->mine, 100);

    if (x < 15) {
        rnd_complete(lane, rnd_want_all, 1 + rnd_below(&lane->mine, 20), rnd_test_how(lane));
    } else if (x < 19) {
        cancel_one(lane);
    } else if (x < 23) {
        rnd_recv_all_held(lane, 50);
    } else if (x < 24) {
        tm_spin_us(rnd_below(&lane->mine, 200));
    } else if (x < 25 && rnd_chance(&lane->mine, 10)) {
        usleep((unsigned) rnd_below(&lane->mine, 2000));
    } else if (x < 26) {
        start_together(lane);
    } else if (x < 40 && lane->has_cancels) {
        cancel_send(lane);
    }
}

/* How many receives the program posts. */
static int draw_receives(rnd_lane_t *lane)
{
    static const int percent[] = {0, 50, 100, 100, 150};
    int n = 0;

    for (int s = 0; s < NSLOTS; s++) {
        n += lane->slot[s].num_expected;
    }
    return n * percent[rnd_below(&lane->mine, 5)] / 100 + rnd_below(&lane->mine, 5);
}

/*
 * The epoch's new communicator: begun when it is time, ended when it is wanted. True: that is what
 * was to be done now.
 */
static bool make_comm(rnd_lane_t *lane, const rnd_msg_t *next, bool is_time, bool is_over)
{
    int s = lane->comm_made;
    bool is_wanted = is_over || (NULL != next && next->slot == s);

    if (s < 0) {
        return false;
    }
    if (!lane->is_comm_begun) {
        if (is_time || is_wanted) {
            rnd_comm_begin(lane, s);
            lane->is_comm_begun = true;
        }
        return lane->is_comm_begun;
    }
    if (MPI_REQUEST_NULL != lane->slot[s].req && (is_wanted || rnd_chance(&lane->mine, 3))) {
        rnd_comm_end(lane, s);
        return true;
    }
    return false;
}

/*
 * Where in the order of its sends a rank meets the others: often right before it wants the new
 * communicator.
 */
static int draw_meeting(rnd_lane_t *lane)
{
    int i = 0;

    if (lane->comm_made < 0 || rnd_chance(&lane->mine, 20)) {
        return rnd_below(&lane->mine, lane->nout + 1);
    }
    while (i < lane->nout && lane->out[i].slot != lane->comm_made) {
        i++;
    }
    return i;
}

static void program(rnd_lane_t *lane)
{
    int sent = 0, nrecvs = draw_receives(lane), nexchanges = lane->nexchanges,
        meet = draw_meeting(lane);
    unsigned bias = 10 + 20 * (unsigned) rnd_below(&lane->mine, 5);
    bool is_over = false, is_made = false;

    lane->is_comm_begun = lane->comm_made < 0;
    while (!is_over || is_made || nexchanges > 0) {
        const rnd_msg_t *next = sent < lane->nout ? &lane->out[sent] : NULL;

        is_over = NULL == next && 0 == nrecvs;
        is_made = make_comm(lane, next, sent >= meet, is_over);
        if (is_made) {
            continue;
        }
        if (nexchanges > 0 && lane->is_comm_begun && (is_over || sent >= meet)) {
            exchange(lane, nexchanges--);
        } else if (NULL != next && (0 == nrecvs || rnd_chance(&lane->mine, bias))) {
            rnd_send_next(lane, next);
            sent++;
        } else if (nrecvs > 0) {
            recv_next(lane);
            nrecvs--;
        }
        between(lane);
    }
}

/* ---- the drain ---------------------------------------------------------- */

static void drain_slot(rnd_lane_t *lane, int s)
{
    const rnd_slot_t *slot = &lane->slot[s];

    if (!slot->is_common) {
        rnd_probe(lane, s, MPI_ANY_SOURCE, MPI_ANY_TAG, false);
        return;
    }
    for (int i = 0; i < slot->ntags; i++) {
        rnd_probe(lane, s, MPI_ANY_SOURCE, rnd_plain_tag(lane, slot, i), false);
    }
}

/* One look at each communicator that lacks messages. True if any does. */
static bool drain_all(rnd_lane_t *lane)
{
    bool is_lacking = false;

    for (int s = 0; s < NSLOTS; s++) {
        rnd_slot_t *slot = &lane->slot[s];

        if (slot->num_received < slot->num_expected) {
            is_lacking = true;
            drain_slot(lane, s);
        } else if (!RND_CHECK(lane, slot->num_received == slot->num_expected,
                              "slot %d: %d messages received, %d were sent", s, slot->num_received,
                              slot->num_expected)) {
            slot->num_expected = slot->num_received;
        }
    }
    return is_lacking;
}

static bool is_reserved_open(rnd_lane_t *lane)
{
    for (int i = lane->first_open; i < lane->nops; i++) {
        if (rnd_want_reserved(lane->op[i]) && OP_RECV == lane->op[i]->kind) {
            return true;
        }
    }
    return false;
}

static void drain(rnd_lane_t *lane)
{
    bool is_more = true;

    while (is_more) {
        long steps = atomic_load(&lane->steps);

        is_more = drain_all(lane);
        is_more = rnd_recv_all_held(lane, 60) || is_more;
        is_more = is_reserved_open(lane) || is_more;
        rnd_complete(lane, rnd_want_recvs, 1 << 30, rnd_test_how(lane));
        if (steps == atomic_load(&lane->steps)) {
            sched_yield();
        }
    }
}

/* ---- a whole epoch ------------------------------------------------------ */

static void defs_close(rnd_def_t *def)
{
    for (int i = 0; i < MAX_DEFS; i++) {
        if (MPI_REQUEST_NULL != def[i].req) {
            TM_MPI(MPI_Request_free(&def[i].req));
            tm_layout_free(&def[i].l);
        }
        def[i] = (rnd_def_t){.req = MPI_REQUEST_NULL};
    }
}

/* A buffer for all of an epoch's buffered sends. */
static void *buffer_attach(const rnd_lane_t *lane)
{
    size_t size = MPI_BSEND_OVERHEAD;
    void *buf;

    for (int i = 0; i < lane->nout; i++) {
        if (MODE_BSEND == lane->out[i].mode || MODE_IBSEND == lane->out[i].mode ||
            MODE_BINIT == lane->out[i].mode) {
            size += lane->out[i].n + MPI_BSEND_OVERHEAD + 64;
        }
    }
    buf = tm_calloc(1, size);
    TM_MPI(MPI_Buffer_attach(buf, tm_int(size)));
    return buf;
}

void rnd_buffer_detach(void)
{
    void *buf;
    int size;

    TM_MPI(MPI_Buffer_detach(&buf, &size));
    free(buf);
}

/*
 * Free the communicator of which the plan says so, with its requests open or not.  An
 * intercommunicator without: some have one reference too many inside Open MPI
 * (OMPI_COMM_EXTRA_RETAIN), and freeing such a one then drops the references of its requests, too.
 * Nor are its requests freed by MPI_Request_free(), after which nobody would know when they are
 * done.
 */
static void release_planned(rnd_lane_t *lane, bool has_requests)
{
    if (lane->comm_freed >= 0 && has_requests != lane->slot[lane->comm_freed].is_inter) {
        rnd_comm_release(&lane->slot[lane->comm_freed]);
    }
}

void rnd_run_epoch(rnd_lane_t *lane)
{
    lane->first_open = 0;
    if (1 == lane->nlanes) {
        buffer_attach(lane);
    }
    post_reserved(lane);
    program(lane);
    if (lane->has_cancels) {
        settle_cancels(lane);
    }
    while (STYLE_SENDS != lane->style && lane->has_reserved && rnd_chance(&lane->mine, 50) &&
           rnd_complete(lane, rnd_want_reserved, 1 << 30, rnd_wait_how(lane))) {
    }
    drain(lane);
    cancel_rest(lane);
    release_planned(lane, true);
    while (rnd_complete(lane, rnd_want_sends, 1 << 30, rnd_wait_how(lane))) {
    }
    if (1 == lane->nlanes) {
        rnd_step(lane, "MPI_Buffer_detach");
        rnd_buffer_detach();
    }
    defs_close(lane->sdef);
    defs_close(lane->rdef);
    release_planned(lane, false);
}
