/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One-sided communication by several threads of each process, each on other targets and places, on
 * windows of its own and on one that all share. What is read must be what the thread has written;
 * a counter that all threads of all ranks raise must end at their number of increments, and no two
 * of them may get the same old value.
 *
 * args: [threads] [rounds]
 */
/* TEST: np=2 args="3 40" env="OMPI_MCA_osc=rdma OMPI_MCA_btl=fabric OMPI_MCA_mpi_yield_when_idle=1" timeout=60 */
/* TEST: np=4 args="3 20" pml=ob1 env="OMPI_MCA_osc=rdma OMPI_MCA_btl=fabric,self OMPI_MCA_mpi_yield_when_idle=1" timeout=60 */
/* TEST: np=3 args="3 20" env="OMPI_MCA_osc=rdma OMPI_MCA_btl=fabric OMPI_MCA_pml_tm_shm_single_copy=none OMPI_MCA_mpi_yield_when_idle=1" timeout=60 */
/* TEST: np=2 args="3 20" env="OMPI_MCA_osc=rdma OMPI_MCA_btl=fabric OMPI_MCA_pml_tm_providers=tcp OMPI_MCA_mpi_yield_when_idle=1" timeout=60 */
#include "tm_threads.h"

enum { MAX_THREADS = 8, MAX_RANKS = 16, WORDS = 3000, PER_ROUND = 5 };

/* Of each rank: the counter, then WORDS for each thread of each rank. */
typedef struct window {
    MPI_Win win;
    int64_t *base;
} window_t;

typedef struct job {
    int id;
    window_t own; /* only this thread uses it */
} job_t;

static job_t jobs[MAX_THREADS];
static window_t shared;
static int nthreads, rounds;
static atomic_char *seen; /* old values of rank 0's counter in the shared window */

static MPI_Aint place(int id)
{
    return 1 + (MPI_Aint) (tm_rank * nthreads + id) * WORDS;
}

static window_t window_open(void)
{
    MPI_Aint size = 8 * (1 + (MPI_Aint) tm_size * nthreads * WORDS);
    window_t w = {.base = tm_alloc((size_t) size)};

    memset(w.base, 0, (size_t) size);
    TM_MPI(MPI_Win_create(w.base, size, 8, MPI_INFO_NULL, MPI_COMM_WORLD, &w.win));
    TM_MPI(MPI_Win_lock_all(0, w.win));
    return w;
}

static void window_close(window_t *w)
{
    TM_MPI(MPI_Win_unlock_all(w->win));
    TM_MPI(MPI_Win_free(&w->win));
    tm_free(w->base);
}

static int64_t value(int id, int round, int i)
{
    return (int64_t) (tm_mix((uint64_t) (tm_rank * MAX_THREADS + id) << 32 | (unsigned) round) +
                      (uint64_t) i);
}

/* Write to a place of this thread's, add, read both back. */
static void write_and_read(const window_t *w, int id, int round, int target)
{
    int64_t out[WORDS], in[WORDS], one[WORDS];
    int n = 0 == round % 3 ? 1 : 1 + (int) (tm_mix((uint64_t) (round * 64 + id)) % WORDS);

    for (int i = 0; i < n; i++) {
        out[i] = value(id, round, i);
        one[i] = 1;
        in[i] = 0;
    }
    TM_MPI(MPI_Put(out, n, MPI_INT64_T, target, place(id), n, MPI_INT64_T, w->win));
    TM_MPI(MPI_Win_flush(target, w->win));
    TM_MPI(MPI_Accumulate(one, n, MPI_INT64_T, target, place(id), n, MPI_INT64_T, MPI_SUM, w->win));
    TM_MPI(MPI_Win_flush(target, w->win));
    TM_MPI(MPI_Get(in, n, MPI_INT64_T, target, place(id), n, MPI_INT64_T, w->win));
    TM_MPI(MPI_Win_flush(target, w->win));
    for (int i = 0; i < n; i++) {
        if (!TM_CHECK(in[i] == out[i] + 1, "thread %d, round %d: word %d of %d at rank %d is wrong",
                      id, round, i, n, target)) {
            return;
        }
    }
}

static void count(const window_t *w, bool is_shared)
{
    int64_t one = 1, old = -1;
    int64_t most = is_shared ? (int64_t) tm_size * nthreads * rounds * PER_ROUND
                             : (int64_t) tm_size * rounds * PER_ROUND;

    for (int i = 0; i < PER_ROUND; i++) {
        TM_MPI(MPI_Fetch_and_op(&one, &old, MPI_INT64_T, 0, 0, MPI_SUM, w->win));
        TM_MPI(MPI_Win_flush(0, w->win));
        if (TM_CHECK(0 <= old && old < most, "a counter was at %lld", (long long) old) &&
            is_shared) {
            TM_CHECK(0 == atomic_fetch_add(&seen[old], 1), "two got %lld", (long long) old);
        }
    }
}

static void *job_main(void *arg)
{
    job_t *job = arg;

    for (int round = 0; round < rounds; round++) {
        int target = (tm_rank + job->id + round) % tm_size;
        write_and_read(&shared, job->id, round, target);
        write_and_read(&job->own, job->id, round, (target + 1) % tm_size);
        count(&shared, true);
        count(&job->own, false);
    }
    return NULL;
}

/* Nobody got the old value of another, and all were given. */
static void check_seen(size_t n)
{
    TM_MPI(MPI_Allreduce(MPI_IN_PLACE, seen, (int) n, MPI_CHAR, MPI_SUM, MPI_COMM_WORLD));
    for (size_t i = 0; i < n; i++) {
        if (!TM_CHECK(1 == seen[i], "%d threads got the old value %zu", seen[i], i)) {
            return;
        }
    }
}

static void run(void)
{
    size_t n = (size_t) (tm_size * nthreads * rounds * PER_ROUND);

    seen = calloc(n, 1);
    shared = window_open();
    for (int i = 0; i < nthreads; i++) {
        jobs[i].id = i;
        jobs[i].own = window_open();
    }
    TM_MPI(MPI_Barrier(MPI_COMM_WORLD));
    tm_in_threads(job_main, jobs, nthreads, sizeof(*jobs));
    TM_MPI(MPI_Barrier(MPI_COMM_WORLD));
    check_seen(n);
    for (int i = 0; i < nthreads; i++) {
        window_close(&jobs[i].own);
    }
    window_close(&shared);
    free(seen);
}

int main(int argc, char **argv)
{
    tm_init_thread(&argc, &argv, "onesided_threads", MPI_THREAD_MULTIPLE);
    nthreads = (int) tm_arg(argc, argv, 1, 3);
    rounds = (int) tm_arg(argc, argv, 2, 40);
    if (nthreads > MAX_THREADS || tm_size > MAX_RANKS) {
        return tm_skip("at most 8 threads and 16 ranks");
    }
    run();
    return tm_finish();
}
