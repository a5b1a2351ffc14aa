/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Helper of xpmem.sh: rank 0 puts to and gets from memory of rank 1, which only waits in a barrier.
 * By osc/rdma and btl fabric over XPMEM all of it is copied by rank 0 itself, without a system call
 * and without the target, from the first operation on.
 */
#include "tm_counter.h"

enum { ROUNDS = 500, LENGTH = 2000 };

static void put_and_get(MPI_Win win)
{
    char *mine = tm_calloc(2, LENGTH);

    for (int i = 0; i < ROUNDS; i++) {
        memset(mine, i, LENGTH);
        TM_MPI(MPI_Put(mine, LENGTH, MPI_BYTE, 1, 0, LENGTH, MPI_BYTE, win));
        TM_MPI(MPI_Win_flush(1, win));
        TM_MPI(MPI_Get(mine + LENGTH, LENGTH, MPI_BYTE, 1, 0, LENGTH, MPI_BYTE, win));
        TM_MPI(MPI_Win_flush(1, win));
        TM_CHECK(0 == memcmp(mine, mine + LENGTH, LENGTH), "round %d: not what was put", i);
    }
    free(mine);
}

int main(int argc, char **argv)
{
    char *memory;
    MPI_Win win;

    tm_init(&argc, &argv, "mapped");
    memory = tm_calloc(1, LENGTH);
    TM_MPI(MPI_Win_create(memory, LENGTH, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &win));
    TM_MPI(MPI_Win_lock_all(0, win));
    MPI_Barrier(MPI_COMM_WORLD);
    if (0 == tm_rank) {
        tm_counter_t bytes = tm_counter_open("pml_tm_shm_xpmem_bytes");
        tm_counter_t calls = tm_counter_open("pml_tm_shm_cma_calls");
        put_and_get(win);
        TM_CHECK(2 * ROUNDS * LENGTH == tm_counter_read(&bytes), "%llu bytes by XPMEM",
                 tm_counter_read(&bytes));
        TM_CHECK(0 == tm_counter_read(&calls), "%llu calls of process_vm_readv and its kin",
                 tm_counter_read(&calls));
        tm_counter_close(&bytes);
        tm_counter_close(&calls);
    }
    TM_MPI(MPI_Win_unlock_all(win));
    MPI_Win_free(&win);
    free(memory);
    return tm_finish();
}
