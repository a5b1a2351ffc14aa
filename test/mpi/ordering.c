/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The order of matching (MPI 3.1, 3.5), with an oracle: each rank has one sender, so that each
 * receive must get exactly one certain message, whatever the timing: the first message in send
 * order that it matches and that no earlier receive took. Receives are posted before the messages,
 * after their arrival, and in between. Patterns and sizes are random. (From all senders: random.c,
 * whose oracle takes the source from what happened.)
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
    }
    TM_MPI(MPI_Comm_free(&comm));
    return tm_finish();
}
