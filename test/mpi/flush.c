/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Rank 0 waits for what the others add to its window, and makes no MPI calls but those for its own
 * window: they must make progress, with nothing of its own under way.
 */
/* TEST: np=2 env="OMPI_MCA_osc=rdma OMPI_MCA_btl=fabric OMPI_MCA_pml_tm_providers=shm OMPI_MCA_mtl=^ofi" timeout=60 */
/* TEST: np=2 env="OMPI_MCA_osc=rdma OMPI_MCA_btl=fabric OMPI_MCA_pml_tm_providers=tcp OMPI_MCA_mtl=^ofi" timeout=60 */
#include "tm_test.h"

enum { ROUNDS = 20 };

static int64_t word;

/* As this process sees it. */
static int64_t look(void)
{
    return __atomic_load_n(&word, __ATOMIC_ACQUIRE);
}

static void by_flush(MPI_Win win, int64_t wanted)
{
    MPI_Win_lock_all(0, win);
    while (look() < wanted) {
        MPI_Win_flush(0, win);
    }
    MPI_Win_unlock_all(win);
}

static void by_get(MPI_Win win, int64_t wanted)
{
    int64_t value = 0;

    MPI_Win_lock_all(0, win);
    while (value < wanted) {
        MPI_Get(&value, 1, MPI_INT64_T, 0, 0, 1, MPI_INT64_T, win);
        MPI_Win_flush(0, win);
    }
    MPI_Win_unlock_all(win);
}

static void by_unlock(MPI_Win win, int64_t wanted)
{
    while (look() < wanted) {
        MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, win);
        MPI_Win_unlock(0, win);
    }
}

static void add(MPI_Win win)
{
    const int64_t one = 1;

    MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, win);
    MPI_Accumulate(&one, 1, MPI_INT64_T, 0, 0, 1, MPI_INT64_T, MPI_SUM, win);
    MPI_Win_unlock(0, win);
}

int main(int argc, char **argv)
{
    static void (*const waits[])(MPI_Win, int64_t) = {by_flush, by_get, by_unlock};
    int64_t wanted = 0;
    MPI_Win win;

    tm_init(&argc, &argv, "flush");
    MPI_Win_create(&word, sizeof(word), 1, MPI_INFO_NULL, MPI_COMM_WORLD, &win);
    for (int i = 0; i < ROUNDS; i++) {
        for (size_t k = 0; k < sizeof(waits) / sizeof(waits[0]); k++) {
            MPI_Barrier(MPI_COMM_WORLD);
            wanted += tm_size - 1;
            if (0 == tm_rank) {
                waits[k](win, wanted);
            } else {
                add(win);
            }
        }
    }
    MPI_Barrier(MPI_COMM_WORLD);
    TM_CHECK(0 != tm_rank || wanted == word, "%lld of %lld", (long long) word, (long long) wanted);
    MPI_Win_free(&win);
    return tm_finish();
}
