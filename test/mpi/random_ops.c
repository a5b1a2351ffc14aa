/* SPDX-License-Identifier: BSD-3-Clause */
#include "random.h"

/*
 * Single operations of the random test: sends in all modes, receives, probes, and the calls that
 * complete several at once. Each leaves in its rnd_op_t what the oracle needs to know.
 */

/* ---- operations --------------------------------------------------------- */

static void rnd_doing(rnd_lane_t *lane, const char *what)
{
    atomic_store_explicit(&lane->doing, what, memory_order_relaxed);
}

rnd_op_t *rnd_op_new(rnd_lane_t *lane, rnd_kind_t kind, int slot, int src, int tag,
                     const char *what)
{
    rnd_op_t *op = tm_calloc(1, sizeof(*op));

    op->kind = kind;
    op->slot = slot;
    op->src = src;
    op->tag = tag;
    op->req = MPI_REQUEST_NULL;
    op->held = MPI_MESSAGE_NULL;
    op->posted = rnd_step(lane, what);
    tm_status_reset(&op->st);
    lane->op = rnd_grow(lane->op, lane->nops, &lane->cap_ops, sizeof(lane->op[0]));
    lane->op[lane->nops++] = op;
    return op;
}

MPI_Request *rnd_op_req(rnd_op_t *op)
{
    return NULL != op->def ? &op->def->req : &op->req;
}

/* Has a request that is to be completed. */
bool rnd_op_is_open(const rnd_op_t *op)
{
    return op->is_started && !op->is_done;
}

bool rnd_op_was_cancelled(const rnd_op_t *op)
{
    int flag = -1;

    TM_MPI(MPI_Test_cancelled(&op->st, &flag));
    return 0 != flag;
}

/* Its persistent request is at rest again; what it received is kept. */
static void op_leave_def(rnd_op_t *op)
{
    rnd_def_t *def = op->def;

    def->active = NULL;
    if (OP_SEND == op->kind) {
        tm_expect_layout(&def->l, op->msg->n, op->msg->key, GAP, "persistent send buffer");
        return;
    }
    op->l = tm_layout_alloc(def->l.type, def->l.count);
    memcpy(op->l.mem, def->l.mem, (size_t) (op->l.hi - op->l.lo));
    tm_expect_guard(def->l.mem);
    if (MPI_REQUEST_NULL == def->req) { /* Open MPI frees those that end with an error */
        tm_layout_free(&def->l);
    }
}

static void op_complete(rnd_lane_t *lane, rnd_op_t *op, const MPI_Status *st, int rc)
{
    op->st = *st;
    op->rc = rc;
    op->is_done = true;
    op->by = atomic_load_explicit(&lane->doing, memory_order_relaxed);
    op->done = rnd_step(lane, op->by);
    if (NULL != op->def) {
        op_leave_def(op);
    } else if (MPI_REQUEST_NULL != op->req) {
        TM_MPI(MPI_Request_free(&op->req)); /* Open MPI leaves requests that end with an error */
    }
    if (OP_SEND == op->kind) {
        RND_CHECK(lane, MPI_SUCCESS == rc, "send %d to %d: error class %d", op->msg->index,
                  op->msg->dst, tm_class(rc));
    } else if (!op->is_reserved && !rnd_op_was_cancelled(op)) {
        lane->slot[op->slot].num_received++;
    }
}

/* A call that completes one operation leaves MPI_ERROR alone. */
static void op_complete_single(rnd_lane_t *lane, rnd_op_t *op, const MPI_Status *st, int rc,
                               const char *what)
{
    RND_CHECK(lane, MPI_SUCCESS != rc || TM_NO_ERROR == st->MPI_ERROR, "%s set MPI_ERROR to %d",
              what, st->MPI_ERROR);
    op_complete(lane, op, st, rc);
}

/* ---- completion of several ---------------------------------------------- */

typedef struct rnd_set {
    int n;
    bool may_fail;
    rnd_op_t **op;
    MPI_Request *req;
    MPI_Status *st;
    int *index;
} rnd_set_t;

bool rnd_want_all(const rnd_op_t *op)
{
    return rnd_op_is_open(op);
}

bool rnd_want_recvs(const rnd_op_t *op)
{
    return rnd_op_is_open(op) && OP_RECV == op->kind;
}

bool rnd_want_sends(const rnd_op_t *op)
{
    return rnd_op_is_open(op) && OP_SEND == op->kind;
}

bool rnd_want_reserved(const rnd_op_t *op)
{
    return rnd_op_is_open(op) && op->is_reserved;
}

/*
 * At most max of those wanted, in any order, and only one that may end with an error: when several
 * do so at once, MPI_Testany and others of Open MPI 4.1 and 5.0 free them all, and what became of
 * those not reported yet cannot be learned.
 */
static rnd_set_t set_take(rnd_lane_t *lane, rnd_want_fn_t want, int max)
{
    size_t cap = (size_t) (lane->nops - lane->first_open) + 1;
    rnd_set_t set = {.op = tm_calloc(cap, sizeof(*set.op)),
                     .req = tm_calloc(cap, sizeof(*set.req)),
                     .st = tm_calloc(cap, sizeof(*set.st)),
                     .index = tm_calloc(cap, sizeof(*set.index))};
    int n = 0;

    while (lane->first_open < lane->nops && lane->op[lane->first_open]->is_done) {
        lane->first_open++;
    }
    for (int i = lane->first_open; i < lane->nops; i++) {
        if (want(lane->op[i])) {
            int j = rnd_below(&lane->mine, n + 1);

            set.op[n++] = set.op[j];
            set.op[j] = lane->op[i];
        }
    }
    for (int i = 0; i < n && set.n < max; i++) {
        if (!set.may_fail || !set.op[i]->may_fail) {
            set.may_fail |= set.op[i]->may_fail;
            set.op[set.n++] = set.op[i];
        }
    }
    for (int i = 0; i < set.n; i++) {
        set.req[i] = *rnd_op_req(set.op[i]);
        tm_status_reset(&set.st[i]);
    }
    return set;
}

static void set_drop(rnd_set_t *set)
{
    free(set->op);
    free(set->req);
    free(set->st);
    free(set->index);
}

/* Number i of the set is complete. */
static void set_done(rnd_lane_t *lane, rnd_set_t *set, int i, const MPI_Status *st, int rc)
{
    *rnd_op_req(set->op[i]) = set->req[i];
    op_complete_single(lane, set->op[i], st, rc, "a single completion");
}

/*
 * What the call returns does not report all errors: MPI_Testall of Open MPI returns MPI_SUCCESS
 * where a persistent request has one.
 */
static void set_done_multiple(rnd_lane_t *lane, rnd_set_t *set, int i, const MPI_Status *st, int rc)
{
    *rnd_op_req(set->op[i]) = set->req[i];
    op_complete(lane, set->op[i], st, TM_NO_ERROR == st->MPI_ERROR ? rc : st->MPI_ERROR);
}

/* Looks first now and then; what it then says must hold. */
static void set_one(rnd_lane_t *lane, rnd_set_t *set, bool is_wait)
{
    MPI_Status seen;
    int flag = 1, was_complete = 0, rc;

    if (rnd_chance(&lane->mine, 20)) {
        TM_MPI(MPI_Request_get_status(set->req[0], &was_complete, &seen));
    }
    rc = is_wait ? MPI_Wait(&set->req[0], &set->st[0]) : MPI_Test(&set->req[0], &flag, &set->st[0]);
    RND_CHECK(lane, flag || !was_complete, "MPI_Test denies what MPI_Request_get_status said");
    if (flag) {
        RND_CHECK(lane,
                  !was_complete || OP_SEND == set->op[0]->kind ||
                      seen.MPI_SOURCE == set->st[0].MPI_SOURCE,
                  "source %d in MPI_Request_get_status, %d later", seen.MPI_SOURCE,
                  set->st[0].MPI_SOURCE);
        set_done(lane, set, 0, &set->st[0], rc);
    }
}

static void set_any(rnd_lane_t *lane, rnd_set_t *set, bool is_wait)
{
    int i = MPI_UNDEFINED, flag = 1, rc;

    rc = is_wait ? MPI_Waitany(set->n, set->req, &i, &set->st[0])
                 : MPI_Testany(set->n, set->req, &i, &flag, &set->st[0]);
    if (flag && RND_CHECK(lane, i >= 0 && i < set->n, "request %d of %d is complete", i, set->n)) {
        set_done(lane, set, i, &set->st[0], rc);
    }
}

static void set_some(rnd_lane_t *lane, rnd_set_t *set, bool is_wait)
{
    int n = -1, rc;

    rc = (is_wait ? MPI_Waitsome : MPI_Testsome)(set->n, set->req, &n, set->index, set->st);
    if (!RND_CHECK(lane, n >= is_wait && n <= set->n, "%d of %d requests are complete", n,
                   set->n)) {
        return;
    }
    for (int i = 0; i < n; i++) {
        set_done_multiple(lane, set, set->index[i], &set->st[i], rc);
    }
}

static void set_all(rnd_lane_t *lane, rnd_set_t *set, bool is_wait)
{
    int flag = 1, rc;

    rc = is_wait ? MPI_Waitall(set->n, set->req, set->st)
                 : MPI_Testall(set->n, set->req, &flag, set->st);
    for (int i = 0; i < set->n && flag; i++) {
        set_done_multiple(lane, set, i, &set->st[i], rc);
    }
}

/* One call for some of those wanted. False: there are none. */
bool rnd_complete(rnd_lane_t *lane, rnd_want_fn_t want, int max, rnd_how_t how)
{
    static void (*const fn[])(rnd_lane_t *, rnd_set_t *, bool) = {set_one, set_any, set_some,
                                                                  set_all};
    static const char *const name[] = {"MPI_Test", "MPI_Testany", "MPI_Testsome", "MPI_Testall",
                                       "MPI_Wait", "MPI_Waitany", "MPI_Waitsome", "MPI_Waitall"};
    rnd_set_t set = set_take(lane, want, max);
    int n = set.n;

    if (WAITALL == how && set.may_fail) {
        /*
         * with an error MPI_Waitall ends early, and with threads may not end at all in Open MPI 4.1
         */
        how = WAITSOME;
    }
    if (n > 0) {
        rnd_doing(lane, name[how]);
        fn[how % 4](lane, &set, how >= WAIT);
    }
    set_drop(&set);
    return n > 0;
}

rnd_how_t rnd_test_how(rnd_lane_t *lane)
{
    return (rnd_how_t) rnd_below(&lane->mine, WAIT);
}

rnd_how_t rnd_wait_how(rnd_lane_t *lane)
{
    return (rnd_how_t) (WAIT + rnd_below(&lane->mine, NHOWS - WAIT));
}

void rnd_complete_op(rnd_lane_t *lane, rnd_op_t *op, bool is_wait)
{
    MPI_Status st;
    int flag = 1, rc;

    tm_status_reset(&st);
    rnd_doing(lane, is_wait ? "MPI_Wait for one" : "MPI_Test of one");
    rc = is_wait ? MPI_Wait(rnd_op_req(op), &st) : MPI_Test(rnd_op_req(op), &flag, &st);
    if (flag) {
        op_complete_single(lane, op, &st, rc, "MPI_Wait or MPI_Test");
    }
}

/* ---- sends -------------------------------------------------------------- */

typedef int (*send_fn_t)(const void *, int, MPI_Datatype, int, int, MPI_Comm);
typedef int (*isend_fn_t)(const void *, int, MPI_Datatype, int, int, MPI_Comm, MPI_Request *);

static void send_fill(const tm_layout_t *l, const rnd_msg_t *m)
{
    tm_layout_write(l, m->n, m->key, GAP);
}

/* By the persistent request. False: it is in use. */
static bool send_persistent(rnd_lane_t *lane, rnd_op_t *op)
{
    static const isend_fn_t fn[] = {MPI_Send_init, MPI_Ssend_init, MPI_Rsend_init, MPI_Bsend_init};
    const rnd_msg_t *m = op->msg;
    rnd_def_t *def = &lane->sdef[m->def];
    const rnd_slot_t *slot = &lane->slot[m->slot];

    if (NULL != def->active) {
        rnd_complete_op(lane, def->active, false);
    }
    if (NULL != def->active) {
        return false;
    }
    if (MPI_REQUEST_NULL == def->req) {
        def->l = tm_layout_alloc(m->type, m->count);
        TM_MPI(fn[m->mode - MODE_INIT](tm_layout_buf(&def->l), tm_int(m->count), m->type->mpi,
                                       slot->local[m->dst], m->tag, slot->comm, &def->req));
    }
    send_fill(&def->l, m);
    op->def = def;
    def->active = op;
    TM_MPI(MPI_Start(&def->req));
    op->is_started = true;
    return true;
}

static void send_now(rnd_lane_t *lane, rnd_op_t *op, rnd_mode_t mode)
{
    static const send_fn_t fn[] = {MPI_Send, MPI_Ssend, MPI_Rsend, MPI_Bsend};
    static const isend_fn_t ifn[] = {MPI_Isend, MPI_Issend, MPI_Irsend, MPI_Ibsend};
    const rnd_msg_t *m = op->msg;
    const rnd_slot_t *slot = &lane->slot[m->slot];
    void *buf;

    op->l = tm_layout_alloc(m->type, m->count);
    send_fill(&op->l, m);
    buf = tm_layout_buf(&op->l);
    if (mode < MODE_ISEND) {
        lane->nblocking++;
        TM_MPI(
            fn[mode](buf, tm_int(m->count), m->type->mpi, slot->local[m->dst], m->tag, slot->comm));
        op->is_done = true;
        return;
    }
    TM_MPI(ifn[mode - MODE_ISEND](buf, tm_int(m->count), m->type->mpi, slot->local[m->dst], m->tag,
                                  slot->comm, &op->req));
    op->is_started = true;
    if (m->is_freed) {
        TM_MPI(MPI_Request_free(&op->req));
        op->is_freed = op->is_done = true;
    }
}

void rnd_send_next(rnd_lane_t *lane, const rnd_msg_t *m)
{
    static const char *const name[NMODES] = {"MPI_Send",
                                             "MPI_Ssend",
                                             "MPI_Rsend",
                                             "MPI_Bsend",
                                             "MPI_Isend",
                                             "MPI_Issend",
                                             "MPI_Irsend",
                                             "MPI_Ibsend",
                                             "MPI_Start of MPI_Send_init",
                                             "MPI_Start of MPI_Ssend_init",
                                             "MPI_Start of MPI_Rsend_init",
                                             "MPI_Start of MPI_Bsend_init"};
    rnd_op_t *op = rnd_op_new(lane, OP_SEND, m->slot, m->src, m->tag, name[m->mode]);

    op->msg = m;
    op->is_reserved = m->is_reserved;
    lane->nmessages++;
    if (m->mode < MODE_INIT) {
        send_now(lane, op, m->mode);
    } else if (!send_persistent(lane, op)) {
        send_now(lane, op, m->mode - MODE_INIT + MODE_ISEND);
    }
}

/* ---- receives ----------------------------------------------------------- */

static int local_rank(const rnd_slot_t *slot, int world)
{
    return MPI_ANY_SOURCE == world ? MPI_ANY_SOURCE : slot->local[world];
}

/* The longest message that may come. */
size_t rnd_longest(const rnd_lane_t *lane, int slot, int src, int tag)
{
    size_t n = 0;

    for (int i = 0; i < lane->nin; i++) {
        if (lane->in[i].n > n && rnd_fits(slot, src, tag, &lane->in[i])) {
            n = lane->in[i].n;
        }
    }
    return n;
}

/*
 * Room for n bytes, or for too few now and then. pml/ob1 of 4.1.4 writes behind the buffer when a
 * rendezvous message is truncated.
 */
static void recv_room(rnd_lane_t *lane, tm_layout_t *l, size_t *room, size_t n, bool may_truncate,
                      bool *may_fail)
{
    const tm_type_t *type;
    size_t count;

    do {
        type = rnd_type[rnd_chance(&lane->mine, 55) ? 0
                                                    : tm_below(&lane->mine, (uint64_t) rnd_ntypes)];
    } while (0 == type->size);
    count = (n + type->size - 1) / type->size +
            (rnd_chance(&lane->mine, 20) ? tm_below(&lane->mine, 3) : 0);
    if (may_truncate && n > 0 && rnd_chance(&lane->mine, 4) && tm_is_strict()) {
        count = tm_below(&lane->mine, n) / type->size;
    }
    *l = tm_layout_alloc(type, count);
    *room = count * type->size;
    *may_fail = *room < n;
    tm_layout_write(l, 0, 0, UNTOUCHED);
}

/* Never a request that lacks a message: is_reserved. */
void rnd_recv_post(rnd_lane_t *lane, rnd_op_t *op)
{
    const rnd_slot_t *slot = &lane->slot[op->slot];

    recv_room(lane, &op->l, &op->room, rnd_longest(lane, op->slot, op->src, op->tag), !op->is_freed,
              &op->may_fail);
    TM_MPI(MPI_Irecv(tm_layout_buf(&op->l), tm_int(op->l.count), op->l.type->mpi,
                     local_rank(slot, op->src), op->tag, slot->comm, &op->req));
    op->is_started = true;
    if (op->is_freed) {
        TM_MPI(MPI_Request_free(&op->req));
        op->is_done = true;
    }
}

/* A persistent request for what op wants; not started. */
static void def_open(rnd_lane_t *lane, rnd_def_t *def, const rnd_op_t *op)
{
    const rnd_slot_t *slot = &lane->slot[op->slot];

    def->slot = op->slot;
    def->src = op->src;
    def->tag = op->tag;
    recv_room(lane, &def->l, &def->room, rnd_longest(lane, op->slot, op->src, op->tag), true,
              &def->may_fail);
    TM_MPI(MPI_Recv_init(tm_layout_buf(&def->l), tm_int(def->l.count), def->l.type->mpi,
                         local_rank(slot, op->src), op->tag, slot->comm, &def->req));
}

void rnd_def_use(rnd_def_t *def, rnd_op_t *op)
{
    tm_layout_write(&def->l, 0, 0, UNTOUCHED);
    op->slot = def->slot;
    op->src = def->src;
    op->tag = def->tag;
    op->room = def->room;
    op->may_fail = def->may_fail;
    op->def = def;
    def->active = op;
}

/* By a persistent request, whose pattern it then gets. False: it is in use. */
bool rnd_recv_persistent(rnd_lane_t *lane, rnd_op_t *op)
{
    rnd_def_t *def = &lane->rdef[rnd_below(&lane->mine, MAX_DEFS)];

    if (NULL != def->active) {
        return false;
    }
    if (MPI_REQUEST_NULL == def->req) {
        def_open(lane, def, op);
    }
    rnd_def_use(def, op);
    TM_MPI(MPI_Start(&def->req));
    op->is_started = true;
    return true;
}

/* Blocking; room for at most n bytes may be wanted. */
void rnd_recv_block(rnd_lane_t *lane, rnd_op_t *op, size_t n)
{
    const rnd_slot_t *slot = &lane->slot[op->slot];
    MPI_Status st;
    int rc;

    recv_room(lane, &op->l, &op->room, n, true, &op->may_fail);
    tm_status_reset(&st);
    rc = MPI_Recv(tm_layout_buf(&op->l), tm_int(op->l.count), op->l.type->mpi,
                  local_rank(slot, op->src), op->tag, slot->comm, &st);
    op_complete_single(lane, op, &st, rc, "MPI_Recv");
}

/* The message that a matched probe took. */
static void recv_held(rnd_lane_t *lane, rnd_op_t *op)
{
    void *buf;
    MPI_Status st;
    int rc;

    recv_room(lane, &op->l, &op->room, op->probed, true, &op->may_fail);
    buf = tm_layout_buf(&op->l);
    if (rnd_chance(&lane->mine, 50)) {
        rnd_step(lane, "MPI_Imrecv");
        TM_MPI(MPI_Imrecv(buf, tm_int(op->l.count), op->l.type->mpi, &op->held, &op->req));
        op->is_started = true;
    } else {
        rnd_step(lane, "MPI_Mrecv");
        tm_status_reset(&st);
        rc = MPI_Mrecv(buf, tm_int(op->l.count), op->l.type->mpi, &op->held, &st);
        op_complete_single(lane, op, &st, rc, "MPI_Mrecv");
    }
    RND_CHECK(lane, MPI_MESSAGE_NULL == op->held, "a message handle outlived its receive");
}

/* Some that are held; all if percent is 100. True if any are left. */
bool rnd_recv_all_held(rnd_lane_t *lane, unsigned percent)
{
    bool are_left = false;

    for (int i = lane->first_open; i < lane->nops; i++) {
        if (MPI_MESSAGE_NULL != lane->op[i]->held) {
            if (rnd_chance(&lane->mine, percent)) {
                recv_held(lane, lane->op[i]);
            } else {
                are_left = true;
            }
        }
    }
    return are_left;
}

/* ---- probes ------------------------------------------------------------- */

static size_t probed_size(const MPI_Status *st)
{
    MPI_Count n = 0;

    TM_MPI(MPI_Get_elements_x(st, MPI_BYTE, &n));
    return (size_t) n;
}

static int world_rank(rnd_lane_t *lane, int s, int local)
{
    const rnd_slot_t *slot = &lane->slot[s];

    return RND_CHECK(lane, local >= 0 && local < slot->nlocal, "source %d in a group of %d", local,
                     slot->nlocal)
               ? slot->world[local]
               : tm_rank;
}

/* Takes the message. False: there is none. */
static bool probe_matched(rnd_lane_t *lane, int s, int src, int tag, bool is_blocking)
{
    const rnd_slot_t *slot = &lane->slot[s];
    MPI_Message message = MPI_MESSAGE_NULL;
    MPI_Status st;
    int flag = 1;
    rnd_op_t *op;

    tm_status_reset(&st);
    rnd_doing(lane, is_blocking ? "MPI_Mprobe" : "MPI_Improbe");
    if (is_blocking) {
        TM_MPI(MPI_Mprobe(local_rank(slot, src), tag, slot->comm, &message, &st));
    } else {
        TM_MPI(MPI_Improbe(local_rank(slot, src), tag, slot->comm, &flag, &message, &st));
    }
    if (!flag) {
        return false;
    }
    op = rnd_op_new(lane, OP_RECV, s, src, tag, "matched probe");
    op->held = message;
    op->probed = probed_size(&st);
    op->st = st;
    lane->nprobed++;
    if (rnd_chance(&lane->mine, 70)) {
        recv_held(lane, op);
    }
    return true;
}

/* Then receives it, by what the probe said or by the same pattern. False: there is none. */
static bool probe_plain(rnd_lane_t *lane, int s, int src, int tag, bool is_blocking)
{
    const rnd_slot_t *slot = &lane->slot[s];
    MPI_Status st;
    int flag = 1;
    rnd_op_t *op;

    tm_status_reset(&st);
    rnd_doing(lane, is_blocking ? "MPI_Probe" : "MPI_Iprobe");
    if (is_blocking) {
        TM_MPI(MPI_Probe(local_rank(slot, src), tag, slot->comm, &st));
    } else {
        TM_MPI(MPI_Iprobe(local_rank(slot, src), tag, slot->comm, &flag, &st));
    }
    if (!flag) {
        return false;
    }
    op = rnd_op_new(lane, OP_PROBE, s, src, tag, "probe");
    op->st = st;
    op->is_done = true;
    op->done = op->posted;
    op->probed = probed_size(&st);
    lane->nprobed++;
    if (rnd_chance(&lane->mine, 70)) {
        size_t n = op->probed;

        src = world_rank(lane, s, st.MPI_SOURCE);
        op = rnd_op_new(lane, OP_RECV, s, src, st.MPI_TAG, "MPI_Recv of a probed message");
        rnd_recv_block(lane, op, n);
    } else {
        rnd_recv_block(lane, rnd_op_new(lane, OP_RECV, s, src, tag, "MPI_Recv after a probe"),
                       rnd_longest(lane, s, src, tag));
    }
    return true;
}

bool rnd_probe(rnd_lane_t *lane, int s, int src, int tag, bool is_blocking)
{
    return lane->has_cancels || rnd_chance(&lane->mine, 50)
               ? probe_matched(lane, s, src, tag, is_blocking)
               : probe_plain(lane, s, src, tag, is_blocking);
}
