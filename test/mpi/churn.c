/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Random traffic without rounds or waiting, every byte checked: each rank does at any moment
 * whatever its random numbers say, while all others do the same (random.c, in contrast, plans
 * the receives, too). In each epoch all ranks know from the seed what each sends to each: number of
 * messages, tags, sizes. How they are sent (standard, synchronous, buffered, persistent; which
 * datatype) and received (exactly or by wildcards, posted early or after a probe or matched probe,
 * with which datatype, with cancels in between) is each rank's own random choice.
 *
 * Which message a receive must get: of the receives that got messages of one source and tag, the
 * k-th one posted holds the k-th sent.
 *
 * args: [seconds] [seed, 0: by the clock] [largest size]
 */
/* TEST: np=1,2 args="3 1 300000" timeout=60 */
/* TEST: np=4 args="4 2 300000" timeout=60 */
/* TEST: np=8 args="6 3 100000" timeout=60 */
/* TEST: np=4 args="3 6 300000" env="OMPI_MCA_pml_tm_shm_single_copy=none" timeout=60 */
/* TEST: np=4 args="3 9 300000" env="OMPI_MCA_pml_tm_unexpected_max=65536" timeout=60 */
#include "tm_test.h"
#include "tm_types.h"

enum {
    MAX_PENDING = 24, /* receives posted at once */
    MAX_SENDS = 40,   /* sends under way at once */
    EPOCH_BYTES = 24000000,
    EXTRA_TYPES = 6,
    TYPES = TM_NTYPES + EXTRA_TYPES,
};

typedef struct msg {
    int tag;
    size_t size;
    int nth; /* among those of its source, destination and tag */
} msg_t;

/* What one rank sends to another in an epoch. */
typedef struct plan {
    msg_t *msg;
    int n;
    int next; /* to be sent */
} plan_t;

typedef struct send {
    MPI_Request req;
    tm_layout_t data;
    size_t size;
    uint64_t key;
    bool is_persistent;
} send_t;

typedef struct receive {
    MPI_Request req;
    tm_layout_t data;
    long order;   /* when it was posted or matched by a probe; later ones match later messages */
    int src, tag; /* of the pattern, then of the message */
    size_t got;
} receive_t;

static MPI_Comm comm;
static size_t max_size;
static uint64_t run_seed;
static int epoch;
static tm_type_t *types[TYPES];
static tm_rng_t rng;

static plan_t *to, *from;
static send_t sends[MAX_SENDS];
static receive_t pending[MAX_PENDING];
static receive_t *done; /* of this epoch */
static int nsends, npending, ndone, unsent, expected;
static long next_order;
static size_t longest; /* message of the epoch */
static size_t bsend_left;
static long total_messages, total_cancelled, total_probed;

static uint64_t key_of(int src, int dst, int tag, int nth)
{
    return tm_key(src, dst, tag, ((long) epoch << 24) + nth);
}

/* ---- plan ---- ------------------------------------------------------------------------------- */

static plan_t make_plan(int src, int dst)
{
    tm_rng_t r = tm_rng(run_seed + (uint64_t) epoch, ((uint64_t) src << 32) + (uint64_t) dst);
    tm_rng_t common = tm_rng(run_seed + (uint64_t) epoch, 99);
    size_t limit = (max_size >> tm_below(&common, 14)) + tm_below(&common, 50);
    int ntags = 1 + (int) tm_below(&common, 2) * (int) tm_below(&common, 30);
    plan_t p = {.n = (int) tm_below(&r, 1 + 400 / (unsigned) tm_size)};
    size_t bytes = 0;

    p.msg = tm_calloc((size_t) p.n, sizeof(*p.msg));
    for (int i = 0; i < p.n; i++) {
        msg_t *m = &p.msg[i];

        m->tag = (int) tm_below(&r, (uint64_t) ntags) * 1000;
        m->size = tm_rand_size(&r, limit < max_size ? limit : max_size);
        if (bytes + m->size > EPOCH_BYTES / (unsigned) tm_size) {
            m->size %= 100;
        }
        bytes += m->size;
        for (int k = 0; k < i; k++) {
            m->nth += p.msg[k].tag == m->tag;
        }
    }
    return p;
}

/* A type and count for exactly size bytes, if exact, or for at least as many. */
static tm_layout_t random_layout(size_t size, bool exact)
{
    const tm_type_t *t = types[0 == tm_below(&rng, 3) ? tm_below(&rng, TYPES) : 0];
    size_t count;

    if (0 == t->size || (exact && 0 != size % t->size) ||
        (size > 100000 && size / t->npieces < 16)) {
        t = types[0];
    }
    count = (size + t->size - 1) / t->size;
    return tm_layout_alloc(t, count);
}

/* ---- sends ---- ------------------------------------------------------------------------------ */

static void finish_send(int i)
{
    if (sends[i].is_persistent) {
        TM_MPI(MPI_Request_free(&sends[i].req));
    }
    tm_expect_layout(&sends[i].data, sends[i].size, sends[i].key, 0x11, "send buffer");
    tm_layout_free(&sends[i].data);
    sends[i] = sends[--nsends];
}

static void test_sends(void)
{
    for (int i = nsends - 1; i >= 0; i--) {
        int flag;

        TM_MPI(MPI_Test(&sends[i].req, &flag, MPI_STATUS_IGNORE));
        if (flag) {
            finish_send(i);
        }
    }
}

static void start_send(void)
{
    int dst = (int) tm_below(&rng, (uint64_t) tm_size);
    send_t *s = &sends[nsends];
    const msg_t *m;
    MPI_Datatype type;
    void *buf;
    int count;

    while (to[dst].next == to[dst].n) {
        dst = (dst + 1) % tm_size;
    }
    m = &to[dst].msg[to[dst].next++];
    unsent--;
    *s = (send_t){.size = m->size,
                  .key = key_of(tm_rank, dst, m->tag, m->nth),
                  .data = random_layout(m->size, true)};
    tm_layout_write(&s->data, m->size, s->key, 0x11);
    type = s->data.type->mpi;
    count = tm_int(s->data.count);
    buf = tm_layout_buf(&s->data);
    switch (tm_below(&rng, 8)) {
    case 0:
        TM_MPI(MPI_Issend(buf, count, type, dst, m->tag, comm, &s->req));
        break;
    case 1:
        if (bsend_left > m->size + MPI_BSEND_OVERHEAD + 64) {
            bsend_left -= m->size + MPI_BSEND_OVERHEAD + 64;
            TM_MPI(MPI_Ibsend(buf, count, type, dst, m->tag, comm, &s->req));
            break;
        }
        /* fall through */
    case 2:
        TM_MPI((0 == tm_below(&rng, 2) ? MPI_Send_init : MPI_Ssend_init)(buf, count, type, dst,
                                                                         m->tag, comm, &s->req));
        TM_MPI(MPI_Start(&s->req));
        s->is_persistent = true;
        break;
    default:
        TM_MPI(MPI_Isend(buf, count, type, dst, m->tag, comm, &s->req));
        break;
    }
    nsends++;
}

/* ---- receives ---- --------------------------------------------------------------------------- */

/* Keep what came until the end of the epoch, when it is certain which message it must be. */
static void keep(receive_t *r, const MPI_Status *st)
{
    MPI_Count bytes;
    bool fits = (MPI_ANY_SOURCE == r->src || r->src == st->MPI_SOURCE) &&
                (MPI_ANY_TAG == r->tag || r->tag == st->MPI_TAG);

    TM_CHECK(fits, "a receive of source %d tag %d got %d %d", r->src, r->tag, st->MPI_SOURCE,
             st->MPI_TAG);
    TM_CHECK(TM_NO_ERROR == st->MPI_ERROR, "MPI_ERROR was set to %d", st->MPI_ERROR);
    if (!TM_CHECK(ndone < expected, "more messages than the %d that were sent", expected)) {
        MPI_Abort(MPI_COMM_WORLD, 3);
    }
    TM_MPI(MPI_Get_elements_x(st, MPI_BYTE, &bytes));
    r->src = st->MPI_SOURCE;
    r->tag = st->MPI_TAG;
    r->got = (size_t) bytes;
    done[ndone++] = *r;
}

static receive_t new_receive(size_t size)
{
    receive_t r = {.data = random_layout(size, false), .order = next_order++};

    tm_layout_write(&r.data, 0, 0, 0xee);
    return r;
}

/* A pattern that some message of the epoch matches. */
static void random_pattern(int *src, int *tag)
{
    int s = (int) tm_below(&rng, (uint64_t) tm_size);

    while (0 == from[s].n) {
        s = (s + 1) % tm_size;
    }
    *src = 0 == tm_below(&rng, 3) ? MPI_ANY_SOURCE : s;
    *tag = 0 == tm_below(&rng, 3) ? MPI_ANY_TAG
                                  : from[s].msg[tm_below(&rng, (uint64_t) from[s].n)].tag;
}

static void post(bool wild)
{
    receive_t *r = &pending[npending++];
    int src = MPI_ANY_SOURCE, tag = MPI_ANY_TAG;

    *r = new_receive(longest);
    if (!wild) {
        random_pattern(&src, &tag);
    }
    r->src = src;
    r->tag = tag;
    TM_MPI(MPI_Irecv(tm_layout_buf(&r->data), tm_int(r->data.count), r->data.type->mpi, src, tag,
                     comm, &r->req));
}

static void test_pending(int i)
{
    MPI_Status st;
    int flag;

    tm_status_reset(&st);
    TM_MPI(MPI_Test(&pending[i].req, &flag, &st));
    if (flag) {
        keep(&pending[i], &st);
        pending[i] = pending[--npending];
    }
}

/* True if it was cancelled and had not got a message. */
static bool cancel(int i)
{
    MPI_Status st;
    bool cancelled;

    TM_MPI(MPI_Cancel(&pending[i].req));
    cancelled = tm_wait_cancelled(&pending[i].req, &st);
    if (cancelled) {
        tm_expect_layout(&pending[i].data, 0, 0, 0xee, "buffer of a cancelled receive");
        tm_layout_free(&pending[i].data);
        total_cancelled++;
    } else {
        keep(&pending[i], &st);
    }
    pending[i] = pending[--npending];
    return cancelled;
}

/* Receive by probe and receive, or by matched probe. */
static void probe(void)
{
    int src, tag, flag;
    MPI_Message msg;
    MPI_Status st, probed;
    MPI_Count bytes;
    receive_t r;
    bool matched = 0 == tm_below(&rng, 2);

    random_pattern(&src, &tag);
    tm_status_reset(&probed);
    if (matched) {
        TM_MPI(MPI_Improbe(src, tag, comm, &flag, &msg, &probed));
    } else {
        TM_MPI(MPI_Iprobe(src, tag, comm, &flag, &probed));
    }
    if (!flag) {
        return;
    }
    total_probed++;
    TM_MPI(MPI_Get_elements_x(&probed, MPI_BYTE, &bytes));
    r = new_receive((size_t) bytes);
    r.src = src;
    r.tag = tag;
    tm_status_reset(&st);
    if (!matched) {
        /* It is the first of its source and tag, and no posted receive can take it away. */
        TM_MPI(MPI_Recv(tm_layout_buf(&r.data), tm_int(r.data.count), r.data.type->mpi,
                        probed.MPI_SOURCE, probed.MPI_TAG, comm, &st));
    } else if (0 == tm_below(&rng, 2) || MAX_PENDING == npending) {
        TM_MPI(
            MPI_Mrecv(tm_layout_buf(&r.data), tm_int(r.data.count), r.data.type->mpi, &msg, &st));
    } else {
        TM_MPI(MPI_Imrecv(tm_layout_buf(&r.data), tm_int(r.data.count), r.data.type->mpi, &msg,
                          &r.req));
        pending[npending++] = r;
        return;
    }
    TM_CHECK(st.MPI_SOURCE == probed.MPI_SOURCE && st.MPI_TAG == probed.MPI_TAG,
             "the probe found %d %d, the receive got %d %d", probed.MPI_SOURCE, probed.MPI_TAG,
             st.MPI_SOURCE, st.MPI_TAG);
    tm_expect_single(&st, st.MPI_SOURCE, st.MPI_TAG, (size_t) bytes);
    keep(&r, &st);
}

/* ---- end of epoch ---- ----------------------------------------------------------------------- */

static int by_order(const void *a, const void *b)
{
    const receive_t *x = a, *y = b;

    return x->order < y->order ? -1 : x->order > y->order;
}

static void check_all(void)
{
    int *taken = tm_calloc((size_t) tm_size * 32, sizeof(int));

    qsort(done, (size_t) ndone, sizeof(*done), by_order);
    for (int i = 0; i < ndone; i++) {
        receive_t *r = &done[i];
        const msg_t *m = NULL;

        if (TM_CHECK(r->src >= 0 && r->src < tm_size && r->tag >= 0 && r->tag < 32000,
                     "received source %d tag %d", r->src, r->tag)) {
            int nth = taken[r->src * 32 + r->tag / 1000]++;

            for (int k = 0; k < from[r->src].n; k++) {
                if (from[r->src].msg[k].tag == r->tag && from[r->src].msg[k].nth == nth) {
                    m = &from[r->src].msg[k];
                }
            }
            if (TM_CHECK(NULL != m, "epoch %d: message %d of source %d tag %d was never sent",
                         epoch, nth, r->src, r->tag)) {
                TM_CHECK(r->got == m->size,
                         "epoch %d: message %d of source %d tag %d has %zu bytes, expected %zu",
                         epoch, nth, r->src, r->tag, r->got, m->size);
                tm_expect_layout(&r->data, m->size, key_of(r->src, tm_rank, m->tag, m->nth), 0xee,
                                 "churn");
            }
        }
        tm_layout_free(&r->data);
    }
    free(taken);
}

static void run_epoch(void)
{
    rng = tm_rng(run_seed ^ UINT64_C(0x5555), ((uint64_t) epoch << 20) + (uint64_t) tm_rank);
    to = tm_calloc((size_t) tm_size, sizeof(*to));
    from = tm_calloc((size_t) tm_size, sizeof(*from));
    unsent = expected = ndone = 0;
    longest = 0;
    for (int i = 0; i < tm_size; i++) {
        to[i] = make_plan(tm_rank, i);
        from[i] = make_plan(i, tm_rank);
        unsent += to[i].n;
        expected += from[i].n;
        for (int k = 0; k < from[i].n; k++) {
            longest = from[i].msg[k].size > longest ? from[i].msg[k].size : longest;
        }
    }
    done = tm_calloc((size_t) expected, sizeof(*done));
    const size_t bsend_size = bsend_left = 2 * max_size + 100000;
    void *bsend_buf = tm_buffer_attach(bsend_size);
    int eagerness = 1 + (int) tm_below(&rng, 8), laziness = (int) tm_below(&rng, 4);
    while (unsent > 0 || nsends > 0 || ndone < expected) {
        for (int k = (int) tm_below(&rng, (uint64_t) eagerness + 1);
             k > 0 && unsent > 0 && nsends < MAX_SENDS; k--) {
            start_send();
        }
        test_sends();
        for (int i = npending - 1; i >= 0; i--) {
            if (0 == laziness || 0 == tm_below(&rng, (uint64_t) laziness + 1)) {
                test_pending(i);
            }
        }
        if (ndone == expected) {
            continue;
        }
        if (MAX_PENDING == npending || npending > expected - ndone + 4) {
            if (0 == tm_below(&rng, 8)) {
                /* or these might be ones that nothing matches */
                cancel((int) tm_below(&rng, (uint64_t) npending));
            }
            continue;
        }
        switch (tm_below(&rng, 8)) {
        case 0:
        case 1:
            probe();
            break;
        case 2:
            if (npending > 0 && 0 == tm_below(&rng, 4)) {
                cancel((int) tm_below(&rng, (uint64_t) npending));
            }
            break;
        case 3:
            post(true);
            break;
        default:
            post(false);
            break;
        }
    }
    while (npending > 0) {
        TM_CHECK(cancel(npending - 1),
                 "epoch %d: a receive got a message after all had been received", epoch);
    }
    total_messages += ndone;
    check_all();
    tm_buffer_detach(bsend_buf, bsend_size);
    for (int i = 0; i < tm_size; i++) {
        free(to[i].msg);
        free(from[i].msg);
    }
    free(to);
    free(from);
    free(done);
}

int main(int argc, char **argv)
{
    double seconds, end;
    int more = 1;
    long sums[3];
    unsigned long long seed;

    tm_init(&argc, &argv, "churn");
    seconds = (double) tm_arg(argc, argv, 1, 4);
    seed = (unsigned long long) tm_arg(argc, argv, 2, 1);
    max_size = (size_t) tm_arg(argc, argv, 3, 300000);
    if (0 == seed) {
        seed = (unsigned long long) time(NULL);
    }
    TM_MPI(MPI_Bcast(&seed, 1, MPI_UNSIGNED_LONG_LONG, 0, MPI_COMM_WORLD));
    tm_seed = run_seed = seed;
    TM_MPI(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
    tm_type_collection(types);
    for (int i = 0; i < EXTRA_TYPES; i++) {
        tm_rng_t r = tm_rng(seed, (uint64_t) i);
        char name[32];

        snprintf(name, sizeof(name), "random %d", i);
        types[TM_NTYPES + i] = tm_type_random(&r, 3, name);
    }
    end = tm_now() + seconds;
    for (; more; epoch++) {
        run_epoch();
        int mine = tm_now() < end && 0 == atomic_load(&tm_errors);
        /* Also the barrier that separates the epochs. */
        TM_MPI(MPI_Allreduce(&mine, &more, 1, MPI_INT, MPI_MIN, comm));
    }
    TM_MPI(MPI_Reduce((long[]){total_messages, total_cancelled, total_probed}, sums, 3, MPI_LONG,
                      MPI_SUM, 0, comm));
    if (0 == tm_rank) {
        printf("churn: seed %llu: %d epochs, %ld messages, %ld receives cancelled, %ld messages "
               "found by probes\n",
               seed, epoch, sums[0], sums[1], sums[2]);
    }
    tm_types_free(types, TYPES);
    TM_MPI(MPI_Comm_free(&comm));
    return tm_finish();
}
