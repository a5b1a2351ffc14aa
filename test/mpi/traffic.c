/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Random traffic against an oracle. All ranks derive the same rounds of messages from the seed: sizes around the
 * thresholds, all send modes, derived datatypes, several communicators; receives with and without wildcards, posted before,
 * between and after the sends, blocking, persistent, probed, truncated, and some that are cancelled.
 *
 * What a receive gets follows from MPI's order once its source is known: among the messages of that source in that
 * communicator, the first that it matches and that no receive posted earlier has.  Every status, every byte, and the bytes
 * between and beside the data are checked.
 *
 * args: [seconds] [seed, 0: the default] [largest size] [round: this one only, again and again]
 */
/* TEST: np=1,2,4 args="3" timeout=90 quick=yes */
/* TEST: np=8 args="3" timeout=120 */
/* TEST: np=2,4 args="4 2" env="OMPI_MCA_pml_tm_eager_limit=0" timeout=90 */
/* TEST: np=2,4 args="4 3" env="OMPI_MCA_pml_tm_shm_single_copy=none" timeout=90 */
/* TEST: np=2,4 args="4 4" env="OMPI_MCA_pml_tm_shm_ring_size=4096" timeout=90 */
/* TEST: np=2,4 args="4 5" env="OMPI_MCA_pml_tm_unexpected_max=65536" timeout=90 */
/* TEST: np=4 args="4 6 3000000" timeout=120 */
#include "tm_test.h"
#include "tm_types.h"

enum { WORLD, DUP, PARITY, REVERSED, NCOMMS };
/* POSTED: receives, then sends; READY: a barrier between; MIXED: both as it comes; LATE: sends, then receives. */
enum { POSTED, READY, MIXED, LATE, NSTYLES };
enum { ISEND, ISSEND, BSEND, IBSEND, INIT, SINIT, BINIT, SEND, SSEND, RSEND, IRSEND, RINIT, NMODES };
enum { EXACT, ANY_TAG, ANY_SOURCE, ANY_BOTH, NLEVELS };
typedef int (*send_fn_t)(const void *, int, MPI_Datatype, int, int, MPI_Comm);
typedef int (*isend_fn_t)(const void *, int, MPI_Datatype, int, int, MPI_Comm, MPI_Request *);

static const send_fn_t send_fn[NMODES] = {
    [BSEND] = MPI_Bsend,
    [SEND] = MPI_Send,
    [SSEND] = MPI_Ssend,
    [RSEND] = MPI_Rsend,
};
static const isend_fn_t isend_fn[NMODES] = {
    [ISEND] = MPI_Isend,      [ISSEND] = MPI_Issend,    [IBSEND] = MPI_Ibsend, [INIT] = MPI_Send_init,
    [SINIT] = MPI_Ssend_init, [BINIT] = MPI_Bsend_init, [IRSEND] = MPI_Irsend, [RINIT] = MPI_Rsend_init,
};

enum { DECOY_TAG = 999999, MAX_RANKS = 16, MAX_MSGS = 150 * MAX_RANKS, NRANDOM = 6, MAX_TYPES = TM_NTYPES + NRANDOM };

typedef struct msg {
    int src, dst, comm, tag, mode;
    const tm_type_t *type;
    size_t count, n;
    uint64_t key;
    bool taken; /* by a receive, in the oracle */
} msg_t;

typedef struct snd {
    const msg_t *m;
    tm_layout_t l;
} snd_t;

typedef struct rcv {
    int comm, src, tag; /* src: rank in MPI_COMM_WORLD, or MPI_ANY_SOURCE */
    bool is_decoy;
    tm_layout_t l;
    size_t room;
    int slot; /* its request; -1: it was received in place */
    MPI_Status st;
    int rc;
} rcv_t;

static MPI_Comm comms[NCOMMS], ctl;
static int to_local[NCOMMS][MAX_RANKS], to_world[NCOMMS][MAX_RANKS];
static const size_t edges[] = {0, 1, 40, 41, 256, 16383, 16384, 16385, 65536, 300000};
static tm_type_t *types[MAX_TYPES];
static int ntypes, tag_ub;
static size_t max_size;

/* The round. */
static int cur, style, nmsgs, nin, nsnd, nrcv, nreq;
static bool has_truncation;
static tm_rng_t mine; /* random numbers of this rank's own */
static msg_t msg[MAX_MSGS], *in[MAX_MSGS];
static snd_t snd[MAX_MSGS];
static rcv_t rcv[2 * MAX_MSGS];
static MPI_Request req[3 * MAX_MSGS];
static MPI_Status sts[3 * MAX_MSGS];
static int rcs[3 * MAX_MSGS];

static bool chance(tm_rng_t *rng, unsigned percent)
{
    return tm_below(rng, 100) < percent;
}

static void shuffle(void *base, int n, size_t size)
{
    unsigned char *p = base, tmp[sizeof(rcv_t)];

    for (int i = n - 1; i > 0; i--) {
        size_t j = tm_below(&mine, (uint64_t) i + 1);

        memcpy(tmp, p + (size_t) i * size, size);
        memcpy(p + (size_t) i * size, p + j * size, size);
        memcpy(p + j * size, tmp, size);
    }
}

/* ---- communicators ---- */

static void map_comm(int c)
{
    MPI_Group world, group;
    int n, all[MAX_RANKS];

    TM_MPI(MPI_Comm_set_errhandler(comms[c], MPI_ERRORS_RETURN));
    TM_MPI(MPI_Comm_group(MPI_COMM_WORLD, &world));
    TM_MPI(MPI_Comm_group(comms[c], &group));
    TM_MPI(MPI_Group_size(group, &n));
    for (int i = 0; i < tm_size; i++) {
        all[i] = i;
    }
    TM_MPI(MPI_Group_translate_ranks(world, tm_size, all, group, to_local[c]));
    TM_MPI(MPI_Group_translate_ranks(group, n, all, world, to_world[c]));
    TM_MPI(MPI_Group_free(&world));
    TM_MPI(MPI_Group_free(&group));
}

static void make_comm(int c)
{
    if (c == WORLD) {
        comms[c] = MPI_COMM_WORLD;
    } else if (c == DUP) {
        TM_MPI(MPI_Comm_dup(MPI_COMM_WORLD, &comms[c]));
    } else {
        TM_MPI(MPI_Comm_split(MPI_COMM_WORLD, c == PARITY ? tm_rank % 2 : 0, -tm_rank, &comms[c]));
    }
    map_comm(c);
}

static void make_types(void)
{
    tm_type_collection(types);
    ntypes = TM_NTYPES;
    for (int i = 0; i < NRANDOM; i++) {
        tm_rng_t rng = tm_rng(77, (uint64_t) i);
        tm_type_t *t = tm_type_random(&rng, 1 + i % 3, "random");

        if (t->size > 0 && labs(tm_type_extent(t)) >= t->true_ub - t->true_lb) {
            types[ntypes++] = t;
        } else {
            tm_type_free(t);
        }
    }
    for (int i = 0; i < ntypes; i++) {
        if (types[i]->size == 0) {
            tm_type_free(types[i]);
            types[i--] = types[--ntypes];
        }
    }
}

/* ---- schedule ---- */

static size_t draw_size(tm_rng_t *rng, int profile)
{
    size_t n = edges[tm_below(rng, sizeof(edges) / sizeof(edges[0]))];

    if (profile == 0) {
        n = chance(rng, 50) ? edges[tm_below(rng, 5)] : tm_below(rng, 300);
    } else if (profile == 2) {
        n = tm_rand_size(rng, max_size);
    }
    return n <= max_size ? n : max_size;
}

static int draw_mode(tm_rng_t *rng)
{
    static const int count[NSTYLES] = {[POSTED] = RSEND, [READY] = NMODES, [MIXED] = SEND, [LATE] = SEND};
    int mode = (int) tm_below(rng, (uint64_t) count[style]);

    return chance(rng, 40) ? (style == POSTED || style == READY ? SEND : ISEND) : mode;
}

/* The messages of the round, in the order in which each rank sends its own. The same on all ranks. */
static void draw_messages(void)
{
    tm_rng_t rng = tm_rng((uint64_t) cur, 1);
    int profile = (int) tm_below(&rng, 3), ntags = 1 + (int) tm_below(&rng, 4);
    int first_tag = chance(&rng, 20) ? tag_ub - ntags : (int) tm_below(&rng, 3);

    style = (int) tm_below(&rng, NSTYLES);
    nmsgs = 1 + (int) tm_below(&rng, (uint64_t) ((profile == 0 ? 150 : 20) * tm_size));
    nin = 0;
    for (int i = 0; i < nmsgs; i++) {
        msg_t *m = &msg[i];

        m->src = (int) tm_below(&rng, (uint64_t) tm_size);
        m->dst = (int) tm_below(&rng, (uint64_t) tm_size);
        m->comm = (int) tm_below(&rng, NCOMMS);
        if (m->comm == PARITY && (m->src + m->dst) % 2 != 0) {
            m->comm = WORLD;
        }
        m->tag = first_tag + (int) tm_below(&rng, (uint64_t) ntags);
        m->mode = draw_mode(&rng);
        m->type = types[chance(&rng, 60) ? 0 : tm_below(&rng, (uint64_t) ntypes)];
        m->count = draw_size(&rng, profile) / m->type->size;
        m->n = m->count * m->type->size;
        m->key = tm_key(m->src, m->dst, m->tag, ((long) cur * MAX_MSGS + i) * NCOMMS + m->comm);
        m->taken = false;
        if (m->dst == tm_rank) {
            in[nin++] = m;
        }
    }
}

/* The oracle: the message that a receive gets from a source; to be asked in the order in which the receives were posted. */
static msg_t *take(int comm, int src, int tag)
{
    for (int i = 0; i < nin; i++) {
        if (!in[i]->taken && in[i]->comm == comm && in[i]->src == src && (tag == MPI_ANY_TAG || in[i]->tag == tag)) {
            in[i]->taken = true;
            return in[i];
        }
    }
    return NULL;
}

static void untake_all(void)
{
    for (int i = 0; i < nin; i++) {
        in[i]->taken = false;
    }
}

/* Room for whatever it may get, or for too little of what it gets. */
static void draw_room(rcv_t *r, const msg_t *m)
{
    const tm_type_t *type = types[chance(&mine, 60) ? 0 : tm_below(&mine, (uint64_t) ntypes)];
    size_t n = 0, count;

    for (int i = 0; i < nin && m == NULL; i++) {
        if (in[i]->comm == r->comm && (r->tag == MPI_ANY_TAG || r->tag == in[i]->tag) && in[i]->n > n) {
            n = in[i]->n;
        }
    }
    n = m != NULL ? m->n : n;
    count = (n + type->size - 1) / type->size + (chance(&mine, 20) ? tm_below(&mine, 3) : 0);
    /* pml/ob1 of 4.1.4 writes behind the buffer when a rendezvous message is truncated */
    if (m != NULL && n > 1 && r->tag != MPI_ANY_TAG && chance(&mine, 3) && tm_is_strict()) {
        count = tm_below(&mine, n) / type->size;
        has_truncation = true;
    }
    r->l = tm_layout_alloc(type, count);
    r->room = count * type->size;
    memset(r->l.mem, 0xee, (size_t) (r->l.hi - r->l.lo));
}

/*
 * Receives for one communicator at out[]; their number. No choice that the matching has leaves one without a message: those
 * with more wildcards are posted behind those with less, and there are as many of each kind as messages are left for it.
 */
static int draw_comm_receives(int comm, rcv_t *out)
{
    unsigned percent[] = {(unsigned) tm_below(&mine, 3) * 50, (unsigned) tm_below(&mine, 3) * 50,
                          (unsigned) tm_below(&mine, 3) * 50, 100};
    int n = 0;

    for (int level = EXACT; level < NLEVELS; level++) {
        int first = n;

        for (int i = 0; i < nin; i++) {
            if (in[i]->comm == comm && !in[i]->taken && chance(&mine, percent[level])) {
                out[n++] = (rcv_t){.comm = comm,
                                   .src = level >= ANY_SOURCE ? MPI_ANY_SOURCE : in[i]->src,
                                   .tag = level == ANY_TAG || level == ANY_BOTH ? MPI_ANY_TAG : in[i]->tag};
                in[i]->taken = level == ANY_SOURCE; /* in the number, which is all that counts from here on */
            }
        }
        shuffle(out + first, n - first, sizeof(*out));
        for (int i = first; i < n; i++) {
            draw_room(&out[i], level <= ANY_TAG ? take(comm, out[i].src, out[i].tag) : NULL);
        }
    }
    return n;
}

/* All receives of the round in the order of their posting. */
static void draw_receives(void)
{
    rcv_t *part[NCOMMS];
    int n[NCOMMS], at[NCOMMS] = {0}, left = 0;

    has_truncation = false;
    for (int c = 0; c < NCOMMS; c++) {
        part[c] = tm_calloc((size_t) nin, sizeof(rcv_t));
        n[c] = draw_comm_receives(c, part[c]);
        left += n[c];
    }
    TM_CHECK(left == nin, "the test itself: %d receives for %d messages", left, nin);
    untake_all();
    for (nrcv = 0; left > 0;) {
        int c = (int) tm_below(&mine, NCOMMS);

        if (style != LATE && chance(&mine, 5)) {
            rcv[nrcv] =
                (rcv_t){.comm = c, .src = chance(&mine, 50) ? tm_rank : MPI_ANY_SOURCE, .tag = DECOY_TAG, .is_decoy = true};
            draw_room(&rcv[nrcv++], NULL);
        }
        if (at[c] < n[c]) {
            rcv[nrcv++] = part[c][at[c]++];
            left--;
        }
    }
    for (int c = 0; c < NCOMMS; c++) {
        free(part[c]);
    }
}

/* ---- traffic ---- */

static int local(int comm, int world)
{
    return world == MPI_ANY_SOURCE ? MPI_ANY_SOURCE : to_local[comm][world];
}

static void start_send(snd_t *s)
{
    const msg_t *m = s->m;
    int dst = local(m->comm, m->dst), n = tm_int(m->count), tag = m->tag;
    MPI_Datatype type = m->type->mpi;
    MPI_Comm comm = comms[m->comm];
    const void *buf;

    s->l = tm_layout_alloc(m->type, m->count);
    memset(s->l.mem, 0x11, (size_t) (s->l.hi - s->l.lo));
    tm_layout_fill(&s->l, s->l.mem, m->n, m->key);
    buf = tm_layout_buf(&s->l);
    if (send_fn[m->mode] != NULL) {
        TM_MPI(send_fn[m->mode](buf, n, type, dst, tag, comm));
        return;
    }
    TM_MPI(isend_fn[m->mode](buf, n, type, dst, tag, comm, &req[nreq]));
    if (m->mode == INIT || m->mode == SINIT || m->mode == BINIT || m->mode == RINIT) {
        TM_MPI(MPI_Start(&req[nreq]));
    }
    nreq++;
}

static void post(rcv_t *r)
{
    void *buf = tm_layout_buf(&r->l);
    int n = tm_int(r->l.count), src = local(r->comm, r->src);
    MPI_Datatype type = r->l.type->mpi;

    r->slot = nreq++;
    if (chance(&mine, 20)) {
        TM_MPI(MPI_Recv_init(buf, n, type, src, r->tag, comms[r->comm], &req[r->slot]));
        TM_MPI(MPI_Start(&req[r->slot]));
    } else {
        TM_MPI(MPI_Irecv(buf, n, type, src, r->tag, comms[r->comm], &req[r->slot]));
    }
}

/* What a probe said of a message and what its receive says. */
static void compare(const MPI_Status *probed, const rcv_t *r)
{
    MPI_Count n;

    TM_MPI(MPI_Get_elements_x(probed, MPI_BYTE, &n));
    if (r->rc == MPI_SUCCESS) {
        tm_expect_status(&r->st, probed->MPI_SOURCE, probed->MPI_TAG, (size_t) n);
    }
}

/* Look for the message, then receive it. Imrecv leaves a request. */
static void probe_receive(rcv_t *r, int kind)
{
    void *buf = tm_layout_buf(&r->l);
    int n = tm_int(r->l.count), src = local(r->comm, r->src), flag = kind < 2;
    MPI_Datatype type = r->l.type->mpi;
    MPI_Comm comm = comms[r->comm];
    MPI_Message m = MPI_MESSAGE_NULL;
    MPI_Status st;

    tm_status_reset(&st);
    if (kind == 0) {
        TM_MPI(MPI_Probe(src, r->tag, comm, &st));
    } else if (kind == 1) {
        TM_MPI(MPI_Mprobe(src, r->tag, comm, &m, &st));
    }
    while (!flag) {
        if (kind == 2) {
            TM_MPI(MPI_Iprobe(src, r->tag, comm, &flag, &st));
        } else {
            TM_MPI(MPI_Improbe(src, r->tag, comm, &flag, &m, &st));
        }
    }
    if (kind % 2 == 0) {
        r->rc = MPI_Recv(buf, n, type, st.MPI_SOURCE, st.MPI_TAG, comm, &r->st);
        compare(&st, r);
    } else if (chance(&mine, 50)) {
        r->rc = MPI_Mrecv(buf, n, type, &m, &r->st);
        compare(&st, r);
    } else {
        r->slot = nreq++;
        TM_MPI(MPI_Imrecv(buf, n, type, &m, &req[r->slot]));
    }
}

static void receive(rcv_t *r)
{
    int kind = (int) tm_below(&mine, 6);

    r->slot = -1;
    tm_status_reset(&r->st);
    if (kind == 5) {
        post(r);
    } else if (kind == 4) {
        r->rc = MPI_Recv(tm_layout_buf(&r->l), tm_int(r->l.count), r->l.type->mpi, local(r->comm, r->src), r->tag,
                         comms[r->comm], &r->st);
    } else {
        probe_receive(r, kind);
    }
}

/* Now and then let some time pass; what nobody sent does not come. */
static void pause_sometimes(void)
{
    int flag;

    if (chance(&mine, 2)) {
        tm_spin_us((long) tm_below(&mine, 200));
        TM_MPI(MPI_Iprobe(MPI_ANY_SOURCE, DECOY_TAG, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE));
        TM_CHECK(!flag, "MPI_Iprobe found a message that nobody sent");
    }
}

/* Sends and receives in the order that the style says. Blocking calls never wait for what another rank may not do yet. */
static void start_all(void)
{
    int s = 0, r = 0;

    while (style == MIXED && s < nsnd && r < nrcv) {
        if (chance(&mine, 50)) {
            start_send(&snd[s++]);
        } else {
            post(&rcv[r++]);
        }
        pause_sometimes();
    }
    for (; style != LATE && r < nrcv; r++) {
        post(&rcv[r]);
        pause_sometimes();
    }
    if (style == READY) {
        TM_MPI(MPI_Barrier(ctl));
    }
    for (; s < nsnd; s++) {
        start_send(&snd[s]);
        pause_sometimes();
    }
    for (; r < nrcv; r++) {
        receive(&rcv[r]);
        pause_sometimes();
    }
}

static void cancel_decoys(void)
{
    for (int i = 0; i < nrcv; i++) {
        if (rcv[i].is_decoy) {
            TM_MPI(MPI_Cancel(&req[rcv[i].slot]));
        }
    }
}

/* ---- completion ---- */

static void complete_each(bool is_test)
{
    int order[3 * MAX_MSGS], flag;

    for (int i = 0; i < nreq; i++) {
        order[i] = i;
    }
    shuffle(order, nreq, sizeof(order[0]));
    for (int k = 0; k < nreq; k++) {
        int i = order[k];

        tm_status_reset(&sts[i]);
        if (is_test) {
            do {
                rcs[i] = MPI_Test(&req[i], &flag, &sts[i]);
            } while (rcs[i] == MPI_SUCCESS && !flag);
        } else {
            rcs[i] = MPI_Wait(&req[i], &sts[i]);
        }
        TM_CHECK(rcs[i] != MPI_SUCCESS || sts[i].MPI_ERROR == TM_NO_ERROR, "MPI_Wait or MPI_Test set MPI_ERROR");
    }
}

static void complete_some(bool is_any)
{
    static MPI_Status some[3 * MAX_MSGS];
    static int index[3 * MAX_MSGS];
    int done = 0;

    while (done < nreq) {
        int n = 1;

        if (is_any) {
            TM_MPI(MPI_Waitany(nreq, req, &index[0], &some[0]));
        } else {
            TM_MPI(MPI_Waitsome(nreq, req, &n, index, some));
        }
        if (!TM_CHECK(n > 0 && index[0] != MPI_UNDEFINED, "no request left after %d of %d", done, nreq)) {
            return;
        }
        for (int i = 0; i < n; i++) {
            sts[index[i]] = some[i];
        }
        done += n;
    }
}

static void complete_all(void)
{
    int how = (int) tm_below(&mine, has_truncation ? 2 : 5);

    memset(rcs, 0, sizeof(rcs)); /* MPI_SUCCESS */
    if (how < 2) {
        complete_each(how == 0);
    } else if (how == 2) {
        TM_MPI(MPI_Waitall(nreq, req, sts));
    } else {
        complete_some(how == 3);
    }
    for (int i = 0; i < nrcv; i++) {
        if (rcv[i].slot >= 0) {
            rcv[i].st = sts[rcv[i].slot];
            rcv[i].rc = rcs[rcv[i].slot];
        }
    }
    for (int i = 0; i < nreq; i++) {
        if (req[i] != MPI_REQUEST_NULL) { /* persistent, or with an error */
            TM_MPI(MPI_Request_free(&req[i]));
        }
    }
}

/* ---- check ---- */

static void check_receive(rcv_t *r, int i)
{
    int src = r->st.MPI_SOURCE, n, flag = -1;
    msg_t *m;

    if (r->is_decoy) {
        TM_MPI(MPI_Test_cancelled(&r->st, &flag));
        TM_CHECK(flag == 1, "round %d: receive %d, for which there was no message, was not cancelled", cur, i);
        tm_expect_layout(&r->l, 0, 0, 0xee, "cancelled");
        return;
    }
    TM_MPI(MPI_Comm_size(comms[r->comm], &n));
    if (!TM_CHECK(src >= 0 && src < n, "round %d: receive %d has source %d", cur, i, src)) {
        return;
    }
    m = take(r->comm, to_world[r->comm][src], r->tag);
    if (!TM_CHECK(m != NULL && (r->src == MPI_ANY_SOURCE || r->src == m->src),
                  "round %d style %d: receive %d (comm %d source %d tag %d) got a message from %d that it cannot have", cur,
                  style, i, r->comm, r->src, r->tag, src)) {
        return;
    }
    if (m->n > r->room) {
        TM_CHECK(tm_class(r->rc) == MPI_ERR_TRUNCATE, "round %d: receive %d: error class %d, expected MPI_ERR_TRUNCATE",
                 cur, i, tm_class(r->rc));
        TM_CHECK(r->st.MPI_TAG == m->tag, "round %d: truncated: tag %d, expected %d", cur, r->st.MPI_TAG, m->tag);
    } else {
        TM_CHECK(r->rc == MPI_SUCCESS, "round %d: receive %d: error class %d", cur, i, tm_class(r->rc));
        tm_expect_status(&r->st, src, m->tag, m->n);
    }
    if (!tm_expect_layout(&r->l, m->n < r->room ? m->n : r->room, m->key, 0xee, "received")) {
        TM_ERROR("round %d style %d: receive %d, comm %d source %d tag %d, message of mode %d type %s", cur, style, i,
                 r->comm, m->src, m->tag, m->mode, m->type->name);
    }
}

static void check_all(void)
{
    for (int i = 0; i < nrcv; i++) {
        check_receive(&rcv[i], i);
        tm_layout_free(&rcv[i].l);
    }
    for (int i = 0; i < nsnd; i++) {
        tm_expect_layout(&snd[i].l, snd[i].m->n, snd[i].m->key, 0x11, "send buffer");
        tm_layout_free(&snd[i].l);
    }
}

static void one_round(int number)
{
    size_t bsend_size = 64;
    void *bsend_buf, *detached;
    int size;

    cur = number;
    mine = tm_rng((uint64_t) number, 1000 + (uint64_t) tm_rank);
    nreq = nsnd = 0;
    draw_messages();
    draw_receives();
    for (int i = 0; i < nmsgs; i++) {
        if (msg[i].src == tm_rank) {
            snd[nsnd++].m = &msg[i];
            bsend_size += msg[i].n + MPI_BSEND_OVERHEAD;
        }
    }
    bsend_buf = tm_calloc(1, bsend_size);
    TM_MPI(MPI_Buffer_attach(bsend_buf, tm_int(bsend_size)));
    start_all();
    cancel_decoys();
    complete_all();
    TM_MPI(MPI_Buffer_detach(&detached, &size));
    free(bsend_buf);
    check_all();
    if (number % 8 == 7) {
        TM_MPI(MPI_Comm_free(&comms[DUP]));
        make_comm(DUP);
    }
}

int main(int argc, char **argv)
{
    double end;
    int only, is_over = 0, number = 0, flag, *ub;

    tm_init(&argc, &argv, "traffic");
    if (tm_size > MAX_RANKS) {
        return tm_skip("too many ranks");
    }
    end = tm_now() + (double) tm_arg(argc, argv, 1, 3);
    tm_seed = tm_arg(argc, argv, 2, 0) != 0 ? (uint64_t) tm_arg(argc, argv, 2, 0) : tm_seed;
    max_size = (size_t) tm_arg(argc, argv, 3, 300000);
    only = (int) tm_arg(argc, argv, 4, -1);
    TM_MPI(MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, &ub, &flag));
    tag_ub = *ub;
    for (int c = 0; c < NCOMMS; c++) {
        make_comm(c);
    }
    TM_MPI(MPI_Comm_dup(MPI_COMM_WORLD, &ctl));
    make_types();
    for (; !is_over; number++) {
        one_round(only >= 0 ? only : number);
        /* also keeps the next round's messages out of this one */
        is_over = tm_now() > end || tm_errors > 0;
        TM_MPI(MPI_Allreduce(MPI_IN_PLACE, &is_over, 1, MPI_INT, MPI_MAX, ctl));
    }
    if (tm_rank == 0) {
        printf("traffic: %d rounds\n", number);
    }
    for (int i = 0; i < ntypes; i++) {
        tm_type_free(types[i]);
    }
    for (int c = DUP; c < NCOMMS; c++) {
        TM_MPI(MPI_Comm_free(&comms[c]));
    }
    TM_MPI(MPI_Comm_free(&ctl));
    return tm_finish();
}
