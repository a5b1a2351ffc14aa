/* SPDX-License-Identifier: BSD-3-Clause */
#include "random.h"

/*
 * What an epoch's receives and probes must have got.
 *
 * MPI's order (3.1, 3.5) leaves open only which source a receive with MPI_ANY_SOURCE gets, and
 * whether a receive was cancelled in time. With those taken from what happened, the rest is
 * certain: going through receives and successful probes in the order of their calls, each has the
 * first message of its source, in that communicator, that it fits and that no earlier receive has.
 * (Had an earlier receive that fits been waiting, the message would have gone there; had an earlier
 * message been left, the receive would have got that.) Each byte and each status follows. At the
 * end no message is left over.
 *
 * A message whose send was cancelled in time is none: no receive and no matched probe had it.  A
 * cancelled receive has nothing, and no message that fits it may have gone past it: to a later
 * receive that was complete, or to a probe that saw it, before the cancel.
 */

/* The first message of that source that is left; NULL: there is none. */
static rnd_msg_t *oracle_first(rnd_lane_t *lane, int slot, int src, int tag)
{
    for (int i = 0; i < lane->nin; i++) {
        if (!lane->in[i].is_taken && rnd_fits(slot, src, tag, &lane->in[i])) {
            return &lane->in[i];
        }
    }
    return NULL;
}

static bool layout_is(const tm_layout_t *l, size_t bytes, uint64_t key, int rest)
{
    size_t n = (size_t) (l->hi - l->lo);
    unsigned char *want = tm_calloc(1, n);
    bool is_equal;

    memset(want, rest, n);
    tm_layout_fill(l, want, bytes, key);
    is_equal = 0 == memcmp(want, l->mem, n);
    free(want);
    return is_equal;
}

/* Which message is it then? */
static void oracle_identify(rnd_lane_t *lane, const rnd_op_t *op, const rnd_msg_t *expected)
{
    for (int i = 0; i < lane->nin; i++) {
        const rnd_msg_t *m = &lane->in[i];

        if (m != expected && m->n >= 4 &&
            layout_is(&op->l, m->n < op->room ? m->n : op->room, m->key, UNTOUCHED)) {
            TM_ERROR("... it is message %d of %d, tag %d, slot %d; expected was message %d",
                     m->index, m->src, m->tag, m->slot, expected->index);
            return;
        }
    }
}

static void oracle_data(rnd_lane_t *lane, const rnd_op_t *op, int i, const rnd_msg_t *m)
{
    char what[200];

    snprintf(
        what, sizeof(what),
        "lane %d epoch %ld style %d op %d (slot %d source %d tag %d) message %d of %d, mode %d",
        lane->id, lane->epoch, lane->style, i, op->slot, op->src, op->tag, m->index, m->src,
        m->mode);
    if (!tm_expect_layout(&op->l, m->n < op->room ? m->n : op->room, m->key, UNTOUCHED, what)) {
        oracle_identify(lane, op, m);
    }
}

/* MPI_Testany of Open MPI returns MPI_SUCCESS where a persistent request has an error. */
static bool is_error_lost(const rnd_op_t *op)
{
    return NULL != op->def && 0 == strcmp(op->by, "MPI_Testany");
}

/* Source, tag and length; a truncated one says so. */
static void oracle_status(rnd_lane_t *lane, const rnd_op_t *op, int i, const rnd_msg_t *m)
{
    int src = lane->slot[op->slot].local[m->src];

    if (m->n > op->room) {
        lane->ntruncated++;
        RND_CHECK(lane, MPI_ERR_TRUNCATE == tm_class(op->rc) || is_error_lost(op),
                  "op %d, %s%s: error class %d, %zu bytes in a room of %zu", i, op->by,
                  NULL != op->def ? " (persistent)" : "", tm_class(op->rc), m->n, op->room);
        RND_CHECK(lane, op->st.MPI_SOURCE == src && op->st.MPI_TAG == m->tag,
                  "op %d, truncated: source %d tag %d, expected %d %d", i, op->st.MPI_SOURCE,
                  op->st.MPI_TAG, src, m->tag);
        return;
    }
    RND_CHECK(lane, MPI_SUCCESS == op->rc, "op %d, %s: error class %d", i, op->by,
              tm_class(op->rc));
    if (!tm_expect_status(&op->st, src, m->tag, m->n)) {
        RND_CHECK(lane, false,
                  "that was op %d: slot %d source %d tag %d, message %d of %d, mode %d", i,
                  op->slot, op->src, op->tag, m->index, m->src, m->mode);
    }
}

static void oracle_probe(rnd_lane_t *lane, const rnd_op_t *op, int i, const rnd_msg_t *m)
{
    int src = lane->slot[op->slot].local[m->src];

    RND_CHECK(lane, op->st.MPI_SOURCE == src && op->st.MPI_TAG == m->tag && op->probed == m->n,
              "op %d, probe (slot %d source %d tag %d): source %d tag %d bytes %zu, expected %d %d "
              "%zu (message %d)",
              i, op->slot, op->src, op->tag, op->st.MPI_SOURCE, op->st.MPI_TAG, op->probed, src,
              m->tag, m->n, m->index);
}

/* Sources are as in MPI_COMM_WORLD; a receive that was freed has no status. */
static int oracle_source(rnd_lane_t *lane, const rnd_op_t *op)
{
    const rnd_slot_t *slot = &lane->slot[op->slot];
    int src = op->st.MPI_SOURCE;

    if (op->is_freed) {
        return op->src;
    }
    return src >= 0 && src < slot->nlocal ? slot->world[src] : -1;
}

static void oracle_got(rnd_lane_t *lane, rnd_op_t *op, int i)
{
    int src = oracle_source(lane, op);
    rnd_msg_t *m = src >= 0 ? oracle_first(lane, op->slot, src, op->tag) : NULL;

    if (!RND_CHECK(
            lane, NULL != m && (MPI_ANY_SOURCE == op->src || op->src == src),
            "op %d (slot %d source %d tag %d): source %d, tag %d: there is no such message for it",
            i, op->slot, op->src, op->tag, op->st.MPI_SOURCE, op->st.MPI_TAG)) {
        return;
    }
    if (OP_PROBE == op->kind) {
        oracle_probe(lane, op, i, m);
        op->msg = m;
        return;
    }
    RND_CHECK(lane, 0 == op->probed || op->probed == m->n,
              "op %d: matched probe says %zu bytes, expected %zu", i, op->probed, m->n);
    m->is_taken = true;
    op->msg = m;
    if (!op->is_freed) {
        oracle_status(lane, op, i, m);
    }
    oracle_data(lane, op, i, m);
}

/* No message that fits went past a receive before it was cancelled. */
static void oracle_cancelled(rnd_lane_t *lane, const rnd_op_t *op, int i)
{
    RND_CHECK(lane, MPI_SUCCESS == op->rc, "op %d, cancelled: error class %d", i, tm_class(op->rc));
    tm_expect_layout(&op->l, 0, 0, UNTOUCHED, "buffer of a cancelled receive");
    for (int k = i + 1; k < lane->nops; k++) {
        const rnd_op_t *late = lane->op[k];
        bool is_past = OP_PROBE == late->kind ||
                       (OP_RECV == late->kind && late->is_done && !rnd_op_was_cancelled(late));

        RND_CHECK(lane,
                  !is_past || NULL == late->msg || late->is_freed || late->done >= op->cancelled ||
                      !rnd_fits(op->slot, op->src, op->tag, late->msg),
                  "op %d (slot %d source %d tag %d) was cancelled, but op %d had got a message for "
                  "it before",
                  i, op->slot, op->src, op->tag, k);
    }
}

static bool is_cancelled(const rnd_op_t *op)
{
    return OP_RECV == op->kind && !op->is_freed && rnd_op_was_cancelled(op);
}

static void oracle(rnd_lane_t *lane)
{
    for (int i = 0; i < lane->nops; i++) {
        rnd_op_t *op = lane->op[i];

        if (OP_SEND == op->kind) {
            continue;
        }
        if (!is_cancelled(op)) {
            oracle_got(lane, op, i);
        } else {
            RND_CHECK(lane, 0 != op->cancelled, "op %d: cancelled, but MPI_Cancel was not called",
                      i);
        }
    }
    for (int i = 0; i < lane->nops; i++) {
        if (is_cancelled(lane->op[i])) {
            oracle_cancelled(lane, lane->op[i], i);
        }
    }
    for (int i = 0; i < lane->nin; i++) {
        RND_CHECK(lane, lane->in[i].is_taken,
                  "message %d of %d (slot %d tag %d, %zu bytes) was never received",
                  lane->in[i].index, lane->in[i].src, lane->in[i].slot, lane->in[i].tag,
                  lane->in[i].n);
    }
}

/* ---- beside the receives ------------------------------------------------ */

/* Receives whose request was freed: their data comes all the same. */
static void await_freed(rnd_lane_t *lane)
{
    double end = tm_now() + 10;
    int flag;

    rnd_step(lane, "waits for data of a freed receive");
    for (int i = 0; i < lane->nops; i++) {
        rnd_op_t *op = lane->op[i];

        while (OP_RECV == op->kind && op->is_freed &&
               !layout_is(&op->l, op->msg->n, op->msg->key, UNTOUCHED) && tm_now() < end) {
            TM_MPI(MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, lane->ctl, &flag, MPI_STATUS_IGNORE));
        }
    }
}

/* All ranks have received all messages. */
static void check_nothing_left(rnd_lane_t *lane)
{
    for (int s = 0; s < NSLOTS; s++) {
        const rnd_slot_t *slot = &lane->slot[s];
        MPI_Status st;
        int flag = 0;

        for (int i = 0; MPI_COMM_NULL != slot->comm && i < slot->ntags && !flag; i++) {
            TM_MPI(MPI_Iprobe(MPI_ANY_SOURCE,
                              slot->is_common ? rnd_plain_tag(lane, slot, i) : MPI_ANY_TAG,
                              slot->comm, &flag, &st));
        }
        RND_CHECK(lane, !flag, "slot %d: a message of %d, tag %d, is left over", s, st.MPI_SOURCE,
                  st.MPI_TAG);
    }
}

static void check_sends(rnd_lane_t *lane)
{
    for (int i = 0; i < lane->nops; i++) {
        const rnd_op_t *op = lane->op[i];

        if (OP_SEND == op->kind && NULL == op->def) {
            tm_expect_layout(&op->l, op->msg->n, op->msg->key, GAP, "send buffer");
        }
    }
}

static void ops_free(rnd_lane_t *lane)
{
    for (int i = 0; i < lane->nops; i++) {
        if (NULL != lane->op[i]->l.mem) {
            tm_layout_free(&lane->op[i]->l);
        }
        free(lane->op[i]);
    }
    lane->nops = 0;
}

/* All that is to be checked of an epoch. Messages of the next one must not come before its end. */
void rnd_check_epoch(rnd_lane_t *lane)
{
    await_freed(lane);
    rnd_step(lane, "MPI_Barrier at the end of an epoch");
    TM_MPI(MPI_Barrier(lane->ctl));
    rnd_step(lane, "checks");
    check_nothing_left(lane);
    oracle(lane);
    check_sends(lane);
    ops_free(lane);
}
