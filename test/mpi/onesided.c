/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One-sided communication over whatever Open MPI chooses for it: MPI_Put, MPI_Get, MPI_Accumulate,
 * MPI_Get_accumulate, MPI_Fetch_and_op and MPI_Compare_and_swap with fences, locks, flushes and
 * start/post/complete/wait; created and allocated windows. osc/pt2pt is what uses a PML for it.
 * (Operations with requests and with gaps: onesided_random.c, onesided_strided.c.)
 *
 * args: [rounds] ["safe": without what Open MPI 4.1.4's own choice, osc/rdma over vader, fails in
 * whatever the PML:
 *       MPI_Compare_and_swap (crashes) and windows created by one process alone (MPI_ERR_WIN)]
 */
/* Open MPI 5.0 opens the TCP BTL, which complains of a host that has no network. */
/* TEST: np=1,2,4 args="20 safe" env="OMPI_MCA_mpi_yield_when_idle=1" timeout=60 stderr="Unable to find reachable pairing" */
/* TEST: np=1,2,4 args="20" env="OMPI_MCA_osc=pt2pt OMPI_MCA_mpi_yield_when_idle=1" ompi=4.1 timeout=60 */
/* osc/rdma over btl fabric, messages by pml tm or ob1 */
/* TEST: np=1,2,4 args="20" env="OMPI_MCA_osc=rdma OMPI_MCA_btl=fabric OMPI_MCA_mpi_yield_when_idle=1 MALLOC_PERTURB_=165 GLIBC_TUNABLES=glibc.malloc.tcache_count=0" timeout=60 */
/* TEST: np=2 args="20" env="OMPI_MCA_osc=rdma OMPI_MCA_btl=fabric OMPI_MCA_pml_tm_shm_single_copy=none" timeout=60 */
/* TEST: np=4 args="20" pml=ob1 env="OMPI_MCA_osc=rdma OMPI_MCA_btl=fabric,self OMPI_MCA_mpi_yield_when_idle=1" timeout=60 */
/* pml tm polls others seldom, but after a message for osc/pt2pt it does at once */
/* TEST: np=2 args="20" env="OMPI_MCA_osc=pt2pt PML_TM_TEST_progress_interval=1000000" ompi=4.1 timeout=60 */
#include "tm_test.h"

enum { MAX_WORDS = 20000 };

/* Window: one counter, then room for MAX_WORDS. */
typedef struct window {
    MPI_Win win;
    int64_t *base;
    bool is_allocated;
} window_t;

static const int counts[] = {1, 3, 100, 2048, 2049, MAX_WORDS};

#define NCOUNTS (int) (sizeof(counts) / sizeof(counts[0]))

static window_t window_open(bool is_allocated)
{
    MPI_Aint size = (MAX_WORDS + 1) * (MPI_Aint) sizeof(int64_t);
    window_t w = {.is_allocated = is_allocated};

    if (is_allocated) {
        TM_MPI(MPI_Win_allocate(size, sizeof(int64_t), MPI_INFO_NULL, MPI_COMM_WORLD, &w.base,
                                &w.win));
    } else {
        w.base = tm_alloc((size_t) size);
        TM_MPI(
            MPI_Win_create(w.base, size, sizeof(int64_t), MPI_INFO_NULL, MPI_COMM_WORLD, &w.win));
    }
    memset(w.base, 0, (size_t) size);
    TM_MPI(MPI_Barrier(MPI_COMM_WORLD));
    return w;
}

static void window_close(window_t *w)
{
    TM_MPI(MPI_Win_free(&w->win));
    if (!w->is_allocated) {
        tm_free(w->base);
    }
}

/* What a rank puts in a round. */
static uint64_t key_of(int owner, int round)
{
    return tm_key(owner, 0, round, 0);
}

/* Put to the right, then get from the left what it got, between fences. */
static void fence(window_t *w, int rounds)
{
    int64_t *out = tm_alloc(MAX_WORDS * sizeof(*out)), *in = tm_alloc(MAX_WORDS * sizeof(*in));
    int far = (tm_rank + tm_size - 2 % tm_size) % tm_size; /* the one left of the left */

    for (int r = 0; r < rounds; r++) {
        int n = counts[r % NCOUNTS];

        tm_fill(out, (size_t) n * sizeof(*out), key_of(tm_rank, r));
        memset(in, 0xee, MAX_WORDS * sizeof(*in));
        TM_MPI(MPI_Win_fence(MPI_MODE_NOPRECEDE, w->win));
        TM_MPI(MPI_Put(out, n, MPI_INT64_T, tm_dst, 1, n, MPI_INT64_T, w->win));
        TM_MPI(MPI_Win_fence(0, w->win));
        tm_expect_data(w->base + 1, (size_t) n * sizeof(*in), key_of(tm_src, r), "MPI_Put");
        TM_MPI(MPI_Get(in, n, MPI_INT64_T, tm_src, 1, n, MPI_INT64_T, w->win));
        TM_MPI(MPI_Win_fence(MPI_MODE_NOSUCCEED, w->win));
        tm_expect_data(in, (size_t) n * sizeof(*in), key_of(far, r), "MPI_Get");
        tm_expect_fill(in + n, (size_t) (MAX_WORDS - n) * sizeof(*in), 0xee,
                       "behind what MPI_Get got");
    }
    tm_free(out);
    tm_free(in);
}

/* All add to all. */
static void accumulate(window_t *w, int rounds)
{
    int64_t *out = tm_alloc(MAX_WORDS * sizeof(*out));

    for (int r = 0; r < rounds; r++) {
        int n = counts[r % NCOUNTS], bad = 0;

        memset(w->base, 0, (MAX_WORDS + 1) * sizeof(*w->base));
        for (int i = 0; i < n; i++) {
            out[i] = i + r + tm_rank;
        }
        TM_MPI(MPI_Win_fence(0, w->win));
        for (int k = 0; k < tm_size; k++) {
            TM_MPI(MPI_Accumulate(out, n, MPI_INT64_T, (tm_rank + k) % tm_size, 1, n, MPI_INT64_T,
                                  MPI_SUM, w->win));
        }
        TM_MPI(MPI_Win_fence(0, w->win));
        for (int i = 0; i < n; i++) {
            bad += w->base[1 + i] != (int64_t) tm_size * (i + r) + tm_size * (tm_size - 1) / 2;
        }
        TM_CHECK(0 == bad, "MPI_Accumulate of %d words: %d wrong", n, bad);
    }
    TM_MPI(MPI_Win_fence(0, w->win));
    tm_free(out);
}

/* Each ticket of the counter in rank 0 is drawn once. */
static void tickets(window_t *w, int rounds)
{
    int total = rounds * tm_size, bad = 0;
    int *mine = tm_calloc((size_t) total, sizeof(*mine)),
        *all = tm_calloc((size_t) total, sizeof(*all));
    int64_t one = 1, ticket, last = -1;

    w->base[0] = 0;
    TM_MPI(MPI_Barrier(MPI_COMM_WORLD));
    TM_MPI(MPI_Win_lock_all(0, w->win));
    for (int r = 0; r < rounds; r++) {
        ticket = -1;
        if (0 == r % 2) {
            TM_MPI(MPI_Fetch_and_op(&one, &ticket, MPI_INT64_T, 0, 0, MPI_SUM, w->win));
        } else {
            TM_MPI(MPI_Get_accumulate(&one, 1, MPI_INT64_T, &ticket, 1, MPI_INT64_T, 0, 0, 1,
                                      MPI_INT64_T, MPI_SUM, w->win));
        }
        TM_MPI(MPI_Win_flush(0, w->win));
        if (TM_CHECK(ticket > last && ticket < total, "ticket %" PRId64 " after %" PRId64, ticket,
                     last)) {
            mine[ticket]++;
            last = ticket;
        }
    }
    TM_MPI(MPI_Win_unlock_all(w->win));
    TM_MPI(MPI_Allreduce(mine, all, total, MPI_INT, MPI_SUM, MPI_COMM_WORLD));
    for (int i = 0; i < total; i++) {
        bad += 1 != all[i];
    }
    TM_CHECK(0 == bad, "%d tickets of %d were not drawn exactly once", bad, total);
    free(mine);
    free(all);
}

/* A counter in the last rank, increased by compare and swap. */
static void compare_and_swap(window_t *w, int rounds)
{
    int64_t seen = 0, value = -1, next;
    int done = 0, owner = tm_size - 1;

    w->base[0] = 0;
    TM_MPI(MPI_Barrier(MPI_COMM_WORLD));
    TM_MPI(MPI_Win_lock(MPI_LOCK_SHARED, owner, 0, w->win));
    while (done < rounds) {
        next = seen + 1;
        TM_MPI(MPI_Compare_and_swap(&next, &seen, &value, MPI_INT64_T, owner, 0, w->win));
        TM_MPI(MPI_Win_flush(owner, w->win));
        TM_CHECK(value >= seen, "MPI_Compare_and_swap found %" PRId64 " after %" PRId64, value,
                 seen);
        done += value == seen;
        seen = value == seen ? next : value;
    }
    TM_MPI(MPI_Win_unlock(owner, w->win));
    TM_MPI(MPI_Barrier(MPI_COMM_WORLD));
    TM_MPI(MPI_Win_lock(MPI_LOCK_SHARED, owner, 0, w->win));
    TM_MPI(MPI_Get(&value, 1, MPI_INT64_T, owner, 0, 1, MPI_INT64_T, w->win));
    TM_MPI(MPI_Win_unlock(owner, w->win));
    TM_CHECK(value == (int64_t) rounds * tm_size, "the counter is %" PRId64 ", expected %d", value,
             rounds * tm_size);
    TM_MPI(MPI_Barrier(MPI_COMM_WORLD));
}

/* Under an exclusive lock all words of the target are the same; each holder increases them. */
static void exclusive(window_t *w, int rounds)
{
    int64_t *buf = tm_alloc(MAX_WORDS * sizeof(*buf)), sum = 0;

    memset(w->base, 0, (MAX_WORDS + 1) * sizeof(*w->base));
    TM_MPI(MPI_Barrier(MPI_COMM_WORLD));
    for (int r = 0; r < rounds; r++) {
        int target = (tm_rank + r) % tm_size, n = counts[NCOUNTS - 1 - r / tm_size % 2], bad = 0;

        TM_MPI(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, target, 0, w->win));
        TM_MPI(MPI_Get(buf, n, MPI_INT64_T, target, 0, n, MPI_INT64_T, w->win));
        TM_MPI(MPI_Win_flush(target, w->win));
        for (int i = n - 1; i >= 0; i--) {
            bad += i < counts[NCOUNTS - 2] && buf[i] != buf[0];
            buf[i]++;
        }
        TM_CHECK(0 == bad, "%d words of %d differ under an exclusive lock", bad, n);
        TM_MPI(MPI_Put(buf, n, MPI_INT64_T, target, 0, n, MPI_INT64_T, w->win));
        TM_MPI(MPI_Win_unlock(target, w->win));
    }
    TM_MPI(MPI_Barrier(MPI_COMM_WORLD));
    TM_MPI(MPI_Win_lock(MPI_LOCK_SHARED, tm_rank, 0, w->win));
    TM_MPI(MPI_Get(buf, 1, MPI_INT64_T, tm_rank, 0, 1, MPI_INT64_T, w->win));
    TM_MPI(MPI_Win_unlock(tm_rank, w->win));
    TM_MPI(MPI_Allreduce(buf, &sum, 1, MPI_INT64_T, MPI_SUM, MPI_COMM_WORLD));
    TM_CHECK(sum == (int64_t) rounds * tm_size, "the sum is %" PRId64 " after %d locks", sum,
             rounds * tm_size);
    tm_free(buf);
}

/* Post to the left, start to the right. */
static void pscw(window_t *w, int rounds)
{
    int64_t *out = tm_alloc(MAX_WORDS * sizeof(*out)), first = -1;
    MPI_Group world, to, from;

    TM_MPI(MPI_Comm_group(MPI_COMM_WORLD, &world));
    TM_MPI(MPI_Group_incl(world, 1, &tm_dst, &to));
    TM_MPI(MPI_Group_incl(world, 1, &tm_src, &from));
    for (int r = 0; r < rounds; r++) {
        int n = counts[r % NCOUNTS];

        w->base[0] = 1000 * tm_rank + r;
        tm_fill(out, (size_t) n * sizeof(*out), key_of(tm_rank, r));
        TM_MPI(MPI_Win_post(from, 0, w->win));
        TM_MPI(MPI_Win_start(to, 0, w->win));
        TM_MPI(MPI_Put(out, n, MPI_INT64_T, tm_dst, 1, n, MPI_INT64_T, w->win));
        TM_MPI(MPI_Get(&first, 1, MPI_INT64_T, tm_dst, 0, 1, MPI_INT64_T, w->win));
        TM_MPI(MPI_Win_complete(w->win));
        TM_CHECK(first == 1000 * tm_dst + r, "MPI_Get got %" PRId64 ", expected %d", first,
                 1000 * tm_dst + r);
        if (0 == r % 2) {
            TM_MPI(MPI_Win_wait(w->win));
        } else {
            for (int flag = 0; !flag;) {
                TM_MPI(MPI_Win_test(w->win, &flag));
            }
        }
        tm_expect_data(w->base + 1, (size_t) n * sizeof(*out), key_of(tm_src, r),
                       "MPI_Put in an exposure epoch");
    }
    TM_MPI(MPI_Group_free(&to));
    TM_MPI(MPI_Group_free(&from));
    TM_MPI(MPI_Group_free(&world));
    tm_free(out);
}

int main(int argc, char **argv)
{
    bool is_safe;
    int rounds;

    tm_init(&argc, &argv, "onesided");
    rounds = (int) tm_arg(argc, argv, 1, 20);
    is_safe = argc > 2 && 0 == strcmp(argv[2], "safe");
    for (int i = 0; i < 4; i++) {
        window_t w;

        if (is_safe && 1 == tm_size && 1 == i % 2) {
            continue;
        }
        w = window_open(0 == i % 2);
        fence(&w, rounds);
        accumulate(&w, rounds);
        tickets(&w, 2 * rounds);
        if (!is_safe) {
            compare_and_swap(&w, rounds);
        }
        exclusive(&w, rounds);
        pscw(&w, rounds);
        window_close(&w);
    }
    return tm_finish();
}
