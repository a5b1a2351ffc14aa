/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The order of matching (MPI 3.1, 3.5), with an oracle.
 *
 * one sender: each rank has one sender, so that each receive must get exactly one certain message,
 * whatever the timing: the first message in send order that it matches and that no earlier receive
 * took. Receives are posted before the messages, after their arrival, and in between. Patterns and
 * sizes are random.
 *
 * all senders: every rank sends to every rank, receives are random patterns. What one receive gets
 * is not certain, but no later receive may hold a message that an earlier receive, which holds a
 * later message of the same sender, would have matched.
 *
 * args: [rounds] [messages] [largest size]
 */
/* TEST: np=1,2,4,8 args="10 300 300000" timeout=60 */
/* TEST: np=2,4 args="6 4000 100" timeout=60 */
/* TEST: np=11,16,33 args="4 100 60000" timeout=120 */
/* TEST: np=2,3 args="8 300 300000" env="OMPI_MCA_pml_tm_shm_ring_size=16384" timeout=60 */
/* TEST: np=2,3 args="8 300 300000" env="OMPI_MCA_pml_tm_shm_single_copy=none" timeout=60 */
/* TEST: np=2,3 args="8 300 300000" env="OMPI_MCA_pml_tm_eager_limit=0" timeout=60 */
/* TEST: np=2,3 pml=ob1 env="OMPI_MCA_btl=fabric OMPI_MCA_mpi_yield_when_idle=1" timeout=120 */
#include "tm_test.h"

enum { TAG_LAST = 20000 };

enum { POST_FIRST, POST_LAST, POST_MIXED, NPOST };

typedef struct msg {
    int src;
    int tag;
    int seq; /* in send order of this sender to this receiver */
    size_t size;
    int receive; /* index of the receive that took it; -1: none */
    unsigned char *buf;
    MPI_Request req;
} msg_t;

typedef struct receive {
    int src;
    int tag;
    int message; /* index of the message it must get; -1: not known or none */
    unsigned char *buf;
    MPI_Request req;
    MPI_Status st;
    bool is_done;
} receive_t;

static MPI_Comm comm;
static size_t max_size;

/* ---- plans ---- ------------------------------------------------------------------------------ */

/*
 * What src sends to dst in a round: both sides compute it. The last message can serve as the sign
 * that all have arrived.
 */
static msg_t *plan_messages(int round, int src, int dst, int n, int ntags)
{
    tm_rng_t rng = tm_rng((uint64_t) round, ((uint64_t) src << 20) + (uint64_t) dst);
    msg_t *m = tm_calloc((size_t) n, sizeof(*m));

    for (int i = 0; i < n; i++) {
        m[i].src = src;
        m[i].tag = i == n - 1 ? TAG_LAST : (int) tm_below(&rng, (uint64_t) ntags);
        m[i].seq = i;
        m[i].size = tm_rand_size(&rng, max_size);
        if (m[i].size > 4096 && 0 != tm_below(&rng, 4)) {
            m[i].size %= 4096;
        }
        m[i].receive = -1;
    }
    return m;
}

static bool pattern_matches(const receive_t *r, int src, int tag)
{
    return (MPI_ANY_SOURCE == r->src || r->src == src) && (MPI_ANY_TAG == r->tag || r->tag == tag);
}

static receive_t random_pattern(tm_rng_t *rng, int src, int tag, int wild)
{
    receive_t r = {.src = src, .tag = tag, .message = -1};

    if ((int) tm_below(rng, 100) < wild) {
        r.src = MPI_ANY_SOURCE;
    }
    if ((int) tm_below(rng, 100) < wild) {
        r.tag = MPI_ANY_TAG;
    }
    return r;
}

/*
 * Random receives for n messages of one sender such that each receive gets a message and each
 * message a receive. out has room for 2 * n.
 */
static int plan_receives(tm_rng_t *rng, msg_t *m, int n, int wild, receive_t *out)
{
    int nout = 0;

    for (int i = 0; i < n; i++) {
        const msg_t *like = &m[tm_below(rng, (uint64_t) n)];

        out[nout++] = random_pattern(rng, like->src, like->tag, wild);
    }
    for (int i = 0; i < nout; i++) {
        for (int j = 0; j < n; j++) {
            if (m[j].receive < 0 && pattern_matches(&out[i], m[j].src, m[j].tag)) {
                m[j].receive = i;
                out[i].message = j;
                break;
            }
        }
    }
    for (int j = 0; j < n; j++) {
        if (m[j].receive < 0) {
            out[nout] = random_pattern(rng, m[j].src, m[j].tag, 0);
            out[nout].message = j;
            m[j].receive = nout++;
        }
    }
    /*
     * A receive that gets nothing changes nothing for the others: leave it out. The appended ones
     * are in message order.
     */
    int kept = 0;
    for (int i = 0; i < nout; i++) {
        if (out[i].message >= 0) {
            m[out[i].message].receive = kept;
            out[kept++] = out[i];
        }
    }
    return kept;
}

/* ---- operations ---- ------------------------------------------------------------------------- */

static void start_send(tm_rng_t *rng, msg_t *m, int dst)
{
    m->buf = tm_alloc_data(m->size, tm_key(tm_rank, dst, m->tag, m->seq));
    TM_MPI((0 == tm_below(rng, 4) ? MPI_Issend : MPI_Isend)(m->buf, (int) m->size, MPI_BYTE, dst,
                                                            m->tag, comm, &m->req));
}

static void finish_sends(msg_t *m, int n)
{
    for (int i = 0; i < n; i++) {
        TM_MPI(MPI_Wait(&m[i].req, MPI_STATUS_IGNORE));
        tm_free(m[i].buf);
    }
    free(m);
}

static void post_receive(receive_t *r)
{
    r->buf = tm_alloc(max_size);
    tm_status_reset(&r->st);
    TM_MPI(MPI_Irecv(r->buf, (int) max_size, MPI_BYTE, r->src, r->tag, comm, &r->req));
}

static void check_receive(receive_t *r, const msg_t *m)
{
    if (tm_expect_status(&r->st, m->src, m->tag, m->size)) {
        tm_expect_data(r->buf, m->size, tm_key(m->src, tm_rank, m->tag, m->seq), "ordered data");
    }
}

/* ---- one sender ---- ------------------------------------------------------------------------- */

static void one_sender(int round, int n, int ntags, int wild, int posting)
{
    tm_rng_t rng = tm_rng((uint64_t) round, (uint64_t) tm_rank + 1000003);
    msg_t *out = plan_messages(round, tm_rank, tm_dst, n, ntags);
    msg_t *in = plan_messages(round, tm_src, tm_rank, n, ntags);
    receive_t *r = tm_calloc((size_t) n * 2, sizeof(*r));
    int nr = plan_receives(&rng, in, n, wild, r);
    int sent = 0, posted = 0;

    if (POST_FIRST == posting) {
        for (; posted < nr; posted++) {
            post_receive(&r[posted]);
        }
        TM_MPI(MPI_Barrier(comm));
    }
    while (POST_MIXED == posting && sent < n) {
        for (int k = (int) tm_below(&rng, 20); k > 0 && sent < n; k--, sent++) {
            start_send(&rng, &out[sent], tm_dst);
        }
        for (int k = (int) tm_below(&rng, 20); k > 0 && posted < nr; k--, posted++) {
            post_receive(&r[posted]);
        }
        if (0 == tm_below(&rng, 4)) {
            int flag;

            TM_MPI(MPI_Iprobe(tm_src, TAG_LAST + 1, comm, &flag, MPI_STATUS_IGNORE));
        }
    }
    for (; sent < n; sent++) {
        start_send(&rng, &out[sent], tm_dst);
    }
    if (POST_LAST == posting) {
        /* then all before it are here, too, as far as they can arrive unasked */
        tm_iprobe(tm_src, TAG_LAST, comm, MPI_STATUS_IGNORE);
    }
    for (; posted < nr; posted++) {
        post_receive(&r[posted]);
    }
    for (int i = 0; i < nr; i++) {
        TM_MPI(MPI_Wait(&r[i].req, &r[i].st));
        TM_CHECK(TM_NO_ERROR == r[i].st.MPI_ERROR, "MPI_Wait set MPI_ERROR to %d",
                 r[i].st.MPI_ERROR);
        check_receive(&r[i], &in[r[i].message]);
        tm_free(r[i].buf);
    }
    finish_sends(out, n);
    free(in);
    free(r);
    TM_MPI(MPI_Barrier(comm));
}

/* ---- all senders ---- ------------------------------------------------------------------------ */

/* Messages of src with tag that were taken by receives before r: they come in send order. */
static int find_seq(const msg_t *in, int n, int tag, int nth)
{
    for (int i = 0; i < n; i++) {
        if (in[i].tag == tag && 0 == nth--) {
            return i;
        }
    }
    return -1;
}

/*
 * The k-th receive, in posting order, that got (src, tag) holds the k-th such message. Sets message
 * in each receive.
 */
static void assign_messages(receive_t *r, int nr, msg_t **in, int n)
{
    for (int i = 0; i < nr; i++) {
        int nth = 0;

        if (!r[i].is_done) {
            continue;
        }
        for (int j = 0; j < i; j++) {
            nth += r[j].is_done && r[j].st.MPI_SOURCE == r[i].st.MPI_SOURCE &&
                   r[j].st.MPI_TAG == r[i].st.MPI_TAG;
        }
        r[i].message = find_seq(in[r[i].st.MPI_SOURCE], n, r[i].st.MPI_TAG, nth);
        if (!TM_CHECK(r[i].message >= 0, "receive %d got a message too many of source %d tag %d", i,
                      r[i].st.MPI_SOURCE, r[i].st.MPI_TAG)) {
            r[i].is_done = false;
            continue;
        }
        TM_CHECK(pattern_matches(&r[i], r[i].st.MPI_SOURCE, r[i].st.MPI_TAG),
                 "receive of source %d tag %d got %d %d", r[i].src, r[i].tag, r[i].st.MPI_SOURCE,
                 r[i].st.MPI_TAG);
        check_receive(&r[i], &in[r[i].st.MPI_SOURCE][r[i].message]);
    }
}

static void check_overtaking(const receive_t *r, int nr)
{
    for (int i = 0; i < nr; i++) {
        for (int j = i + 1; j < nr; j++) {
            if (!r[j].is_done || !pattern_matches(&r[i], r[j].st.MPI_SOURCE, r[j].st.MPI_TAG)) {
                continue;
            }
            if (!r[i].is_done) {
                TM_CHECK(false, "receive %d (%d, %d) was passed over for receive %d", i, r[i].src,
                         r[i].tag, j);
            } else if (r[i].st.MPI_SOURCE == r[j].st.MPI_SOURCE) {
                TM_CHECK(
                    r[i].message < r[j].message,
                    "receive %d (%d, %d) got message %d, the later receive %d message %d of %d", i,
                    r[i].src, r[i].tag, r[i].message, j, r[j].message, r[i].st.MPI_SOURCE);
            }
        }
    }
}

/* Complete what has completed among the nr receives. The number of them. */
static int reap(receive_t *r, int nr)
{
    int n = 0;

    for (int i = 0; i < nr; i++) {
        int flag = 0;

        if (!r[i].is_done) {
            TM_MPI(MPI_Test(&r[i].req, &flag, &r[i].st));
            r[i].is_done = 0 != flag;
            n += 0 != flag;
        }
    }
    return n;
}

static void all_senders(int round, int per_pair, int ntags, int wild, bool post_first)
{
    int total = per_pair * tm_size, planned = total, done = 0, nr = 0;
    tm_rng_t rng = tm_rng((uint64_t) round, (uint64_t) tm_rank + 2000003);
    msg_t **in = tm_calloc((size_t) tm_size, sizeof(*in)),
          **out = tm_calloc((size_t) tm_size, sizeof(*out));
    receive_t *r = tm_calloc((size_t) (2 * total + 1), sizeof(*r));

    for (int p = 0; p < tm_size; p++) {
        in[p] = plan_messages(round, p, tm_rank, per_pair, ntags);
        out[p] = plan_messages(round, tm_rank, p, per_pair, ntags);
    }
    for (int i = 0; i < planned; i++) {
        const msg_t *like =
            &in[tm_below(&rng, (uint64_t) tm_size)][tm_below(&rng, (uint64_t) per_pair)];

        r[i] = random_pattern(&rng, like->src, like->tag, wild);
    }
    for (; post_first && nr < planned; nr++) {
        post_receive(&r[nr]);
    }
    TM_MPI(MPI_Barrier(comm));
    for (int i = 0; i < per_pair; i++) {
        for (int p = 0; p < tm_size; p++) {
            int dst = (p + tm_rank) % tm_size;

            start_send(&rng, &out[dst][i], dst);
        }
        for (int k = (int) tm_below(&rng, (uint64_t) (2 * tm_size + 1)); k > 0 && nr < planned;
             k--, nr++) {
            post_receive(&r[nr]);
        }
    }
    for (; nr < planned; nr++) {
        post_receive(&r[nr]);
    }
    /*
     * Some of the random receives may never match: keep one that takes anything until all messages
     * are here.
     */
    while (done < total) {
        int n = reap(r, nr);

        done += n;
        if (done < total && (nr == planned || r[nr - 1].is_done)) {
            r[nr] = (receive_t){.src = MPI_ANY_SOURCE, .tag = MPI_ANY_TAG, .message = -1};
            post_receive(&r[nr++]);
        }
    }
    for (int i = 0; i < nr; i++) {
        if (!r[i].is_done) {
            TM_MPI(MPI_Cancel(&r[i].req));
            TM_CHECK(tm_wait_cancelled(&r[i].req, &r[i].st),
                     "receive %d of %d holds a message although all have been received", i, nr);
        }
    }
    assign_messages(r, nr, in, per_pair);
    check_overtaking(r, nr);
    for (int i = 0; i < nr; i++) {
        tm_free(r[i].buf);
    }
    for (int p = 0; p < tm_size; p++) {
        finish_sends(out[p], per_pair);
        free(in[p]);
    }
    free(in);
    free(out);
    free(r);
    TM_MPI(MPI_Barrier(comm));
}

int main(int argc, char **argv)
{
    static const int wild[] = {0, 100, 15, 50, 85};
    int rounds, n;

    tm_init(&argc, &argv, "ordering");
    rounds = (int) tm_arg(argc, argv, 1, 12);
    n = (int) tm_arg(argc, argv, 2, 300);
    max_size = (size_t) tm_arg(argc, argv, 3, 300000);
    TM_MPI(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
    for (int i = 0; i < rounds; i++) {
        int ntags = 0 == i % 3 ? 1 : 1 == i % 3 ? 5 : 1000;

        for (int posting = 0; posting < NPOST; posting++) {
            one_sender(i * 10 + posting, n, ntags, wild[i % 5], posting);
        }
        all_senders(i * 10 + 7, 1 + n / (2 * tm_size), ntags, wild[i % 5], 0 == i % 2);
    }
    TM_MPI(MPI_Comm_free(&comm));
    return tm_finish();
}
