/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Everybody at once: all ranks send random sizes to all ranks in rounds (storm), or to one rank,
 * which changes (incast), with receives posted before, after, after and in reverse, or by wildcard.
 *
 * args: storm|incast [rounds] [messages per pair and round] [largest size] [seconds]
 *
 * With seconds the rounds are repeated until they are over.
 */
/* TEST: np=1,2,4 args="storm 40 40 70000" timeout=60 */
/* TEST: np=8 args="storm 20 20 70000" timeout=60 */
/* TEST: np=4 args="storm 3 4 3000000" timeout=60 */
/* TEST: np=4 args="storm 24 40 70000" env="OMPI_MCA_pml_tm_shm_single_copy=none" timeout=60 */
/* TEST: np=4 args="incast 40 300 70000" timeout=60 */
/* TEST: np=8 args="incast 32 200 20000" timeout=60 */
/* TEST: np=1,2,4 args="incast 5 10000 200" timeout=90 */
/* TEST: np=2 args="incast 5 2000 100000" env="OMPI_MCA_pml_tm_unexpected_max=65536" timeout=90 */
/* TEST: np=4 args="incast 8 2000 100" env="OMPI_MCA_pml_tm_shm_ring_size=4096" timeout=60 */
#include "tm_test.h"

enum { BEFORE, AFTER, REVERSED, WILD_SOURCE, WILD_BOTH, NHOW };

static MPI_Comm comm;
static int per_pair;
static size_t max_size;

static size_t size_of(int src, int dst, int round, int i)
{
    tm_rng_t rng = tm_rng(tm_key(src, dst, round, i), 3);

    return tm_rand_size(&rng, max_size);
}

/* Which of its sender's messages the k-th receive is for, if its source is given. */
static int index_of(int how, int k)
{
    return REVERSED == how ? per_pair - 1 - k / tm_size : k / tm_size;
}

/* dst: the one who receives, or -1: all do. */
static void exchange(int round, int target)
{
    int how = round % NHOW, n = tm_size * per_pair, nsend = 0, nrecv = 0;
    bool receives = target < 0 || target == tm_rank;
    MPI_Request *sreq = tm_calloc((size_t) n, sizeof(*sreq)),
                *rreq = tm_calloc((size_t) n, sizeof(*rreq));
    unsigned char **out = tm_calloc((size_t) n, sizeof(*out)),
                  **in = tm_calloc((size_t) n, sizeof(*in));
    int *next = tm_calloc((size_t) tm_size, sizeof(int));

    for (int step = 0; step < 2; step++) {
        if (step == (AFTER == how || REVERSED == how)) {
            for (; nrecv < n && receives; nrecv++) {
                int src = nrecv % tm_size, i = index_of(how, nrecv);

                in[nrecv] = tm_alloc(max_size);
                TM_MPI(MPI_Irecv(in[nrecv], (int) max_size, MPI_BYTE,
                                 how >= WILD_SOURCE ? MPI_ANY_SOURCE : src,
                                 WILD_BOTH == how ? MPI_ANY_TAG : i, comm, &rreq[nrecv]));
            }
        } else {
            for (int k = 0; k < n; k++) {
                int dst = (tm_rank + k) % tm_size, i = k / tm_size;
                size_t size = size_of(tm_rank, dst, round, i);

                if (target >= 0 && target != dst) {
                    continue;
                }
                out[nsend] = tm_alloc_data(size, tm_key(tm_rank, dst, round, i));
                TM_MPI(MPI_Isend(out[nsend], (int) size, MPI_BYTE, dst, i, comm, &sreq[nsend]));
                nsend++;
            }
        }
    }
    for (int k = 0; k < nrecv; k++) {
        MPI_Status st;
        int src, i;

        tm_status_reset(&st);
        TM_MPI(MPI_Wait(&rreq[k], &st));
        src = st.MPI_SOURCE;
        if (!TM_CHECK(src >= 0 && src < tm_size, "source %d", src)) {
            MPI_Abort(MPI_COMM_WORLD, 3);
        }
        /*
         * Messages of a sender come in order, and receives were waited for in the order in which
         * they were posted.
         */
        i = how < WILD_SOURCE ? index_of(how, k) : next[src]++;
        tm_expect_message(&st, in[k], how >= WILD_SOURCE ? src : k % tm_size, i,
                          size_of(src, tm_rank, round, i), tm_key(src, tm_rank, round, i), "storm");
        tm_free(in[k]);
    }
    TM_MPI(MPI_Waitall(nsend, sreq, MPI_STATUSES_IGNORE));
    tm_free_all(out, nsend);
    /* A fast rank's next round must not come into wild receives of this one. */
    TM_MPI(MPI_Barrier(comm));
    free(sreq);
    free(rreq);
    free(out);
    free(in);
    free(next);
}

/* Is there time left?  Rank 0 says so. */
static bool goes_on(double until)
{
    int is_over = MPI_Wtime() >= until;

    TM_MPI(MPI_Bcast(&is_over, 1, MPI_INT, 0, comm));
    return !is_over;
}

int main(int argc, char **argv)
{
    int rounds;
    bool is_incast;
    double until;

    tm_init(&argc, &argv, "storm");
    is_incast = argc > 1 && 0 == strcmp(argv[1], "incast");
    rounds = (int) tm_arg(argc, argv, 2, 12);
    per_pair = (int) tm_arg(argc, argv, 3, 40);
    max_size = (size_t) tm_arg(argc, argv, 4, 70000);
    until = MPI_Wtime() + (double) tm_arg(argc, argv, 5, 0);
    TM_MPI(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
    do {
        for (int i = 0; i < rounds; i++) {
            exchange(i, is_incast ? i * 3 % tm_size : -1);
        }
    } while (goes_on(until));
    TM_MPI(MPI_Comm_free(&comm));
    return tm_finish();
}
