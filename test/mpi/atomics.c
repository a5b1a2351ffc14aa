/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Words of rank 0's window that all ranks change at once, through MPI, and rank 0 by instructions
 * of its processor as well: each change must count, and the old values that a rank sees must grow.
 * Counters of 8 bytes are raised by MPI_Fetch_and_op and by MPI_Compare_and_swap; of one of 4 bytes
 * and one that is changed by MPI_BXOR the operations are others.
 *
 * args: [rounds]
 */
/* TEST: np=2,3 device=tmdev env="OMPI_MCA_osc=rdma OMPI_MCA_btl=fabric OMPI_MCA_pml_tm_providers=^shm,tcp OMPI_MCA_osc_rdma_acc_single_intrinsic=1 OMPI_MCA_mtl=^ofi OMPI_MCA_mpi_yield_when_idle=1" timeout=60 */
/* TEST: np=3 env="OMPI_MCA_osc=rdma OMPI_MCA_btl=fabric OMPI_MCA_mpi_yield_when_idle=1" timeout=60 */
#include "tm_test.h"

enum { ROUNDS = 100 };

typedef struct words {
    int64_t added;
    int64_t swapped;
    int64_t toggled;
    int32_t short_added;
    int32_t unused;
} words_t;

static words_t words;
static int rounds = ROUNDS;

static MPI_Aint at(const void *word)
{
    return (const char *) word - (const char *) &words;
}

/* Of 4 bytes if the type is MPI_INT32_T. */
static void fetch(MPI_Win win, const void *word, MPI_Datatype type, MPI_Op op, int64_t *old)
{
    const int64_t one = 1;
    const int32_t short_one = 1;
    int32_t short_old = 0;

    if (MPI_INT32_T == type) {
        MPI_Fetch_and_op(&short_one, &short_old, type, 0, at(word), op, win);
    } else {
        MPI_Fetch_and_op(&one, old, type, 0, at(word), op, win);
    }
    MPI_Win_flush(0, win);
    *old = MPI_INT32_T == type ? short_old : *old;
}

static void raise_by_swaps(MPI_Win win)
{
    int64_t seen = 0, found, wanted;

    do {
        wanted = seen + 1;
        found = -1;
        MPI_Compare_and_swap(&wanted, &seen, &found, MPI_INT64_T, 0, at(&words.swapped), win);
        MPI_Win_flush(0, win);
        wanted = seen;
        seen = found;
    } while (found != wanted);
}

/* What this rank finds in a counter grows, since all only add. */
static void take_part(MPI_Win win)
{
    int64_t old = 0, before = -1, short_before = -1;

    for (int i = 0; i < rounds; i++) {
        fetch(win, &words.added, MPI_INT64_T, MPI_SUM, &old);
        TM_CHECK(old > before, "round %d: %lld after %lld", i, (long long) old, (long long) before);
        before = old;
        fetch(win, &words.short_added, MPI_INT32_T, MPI_SUM, &old);
        TM_CHECK(old > short_before, "round %d: %lld after %lld, of 4 bytes", i, (long long) old,
                 (long long) short_before);
        short_before = old;
        fetch(win, &words.toggled, MPI_INT64_T, MPI_BXOR, &old);
        raise_by_swaps(win);
        if (0 == tm_rank) {
            __atomic_fetch_add(&words.added, 1, __ATOMIC_SEQ_CST);
            __atomic_fetch_add(&words.short_added, 1, __ATOMIC_SEQ_CST);
        }
    }
}

int main(int argc, char **argv)
{
    MPI_Win win;

    tm_init(&argc, &argv, "atomics");
    rounds = argc > 1 ? atoi(argv[1]) : rounds;
    MPI_Win_create(&words, sizeof(words), 1, MPI_INFO_NULL, MPI_COMM_WORLD, &win);
    MPI_Win_lock_all(0, win);
    MPI_Barrier(MPI_COMM_WORLD);
    take_part(win);
    MPI_Win_unlock_all(win);
    MPI_Barrier(MPI_COMM_WORLD);
    if (0 == tm_rank) {
        const int64_t all = (int64_t) rounds * tm_size;
        TM_CHECK(all + rounds == words.added, "%lld additions", (long long) words.added);
        TM_CHECK(all == words.swapped, "%lld swaps", (long long) words.swapped);
        TM_CHECK(all + rounds == words.short_added, "%d additions, of 4 bytes", words.short_added);
        TM_CHECK(all % 2 == words.toggled, "toggled to %lld", (long long) words.toggled);
    }
    MPI_Win_free(&win);
    return tm_finish();
}
