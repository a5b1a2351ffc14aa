/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Helper of xpmem.sh: rank 0 puts to and gets from memory of rank 1, which only waits in a barrier.
 * By osc/rdma and btl fabric over XPMEM all of it is copied by rank 0 itself, without a system call
 * and without the target, from the first operation on.
 */
#include "tm_test.h"

enum { ROUNDS = 500, LENGTH = 2000 };

static MPI_T_pvar_session session;

static MPI_T_pvar_handle open_counter(const char *name)
{
    MPI_T_pvar_handle handle;
    int index, count;

    if (MPI_SUCCESS != MPI_T_pvar_get_index(name, MPI_T_PVAR_CLASS_COUNTER, &index) ||
        MPI_SUCCESS != MPI_T_pvar_handle_alloc(session, index, NULL, &handle, &count)) {
        TM_ERROR("there is no performance variable %s", name);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    return handle;
}

/* How much it has grown since it was opened. */
static unsigned long long read_counter(MPI_T_pvar_handle handle)
{
    unsigned long long value = 0;

    TM_MPI(MPI_T_pvar_read(session, handle, &value));
    return value;
}

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
    int provided;
    char *memory;
    MPI_Win win;

    tm_init(&argc, &argv, "mapped");
    MPI_T_init_thread(MPI_THREAD_SINGLE, &provided);
    MPI_T_pvar_session_create(&session);
    memory = tm_calloc(1, LENGTH);
    TM_MPI(MPI_Win_create(memory, LENGTH, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &win));
    TM_MPI(MPI_Win_lock_all(0, win));
    MPI_Barrier(MPI_COMM_WORLD);
    if (0 == tm_rank) {
        MPI_T_pvar_handle bytes = open_counter("pml_tm_shm_xpmem_bytes");
        MPI_T_pvar_handle calls = open_counter("pml_tm_shm_cma_calls");
        put_and_get(win);
        TM_CHECK(2 * ROUNDS * LENGTH == read_counter(bytes), "%llu bytes by XPMEM",
                 read_counter(bytes));
        TM_CHECK(0 == read_counter(calls), "%llu calls of process_vm_readv and its kin",
                 read_counter(calls));
    }
    TM_MPI(MPI_Win_unlock_all(win));
    MPI_Win_free(&win);
    free(memory);
    MPI_T_pvar_session_free(&session);
    MPI_T_finalize();
    return tm_finish();
}
