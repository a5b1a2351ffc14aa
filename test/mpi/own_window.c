/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Helper of hosts/onesided: the last process uses its own window while no other process calls MPI:
 * they wait until it has made a file.
 *
 * args: name of the file, which does not exist
 */
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tm_test.h"

/* A shared lock, since osc/rdma asks rank 0 for an exclusive one. */
static void use(MPI_Win win, int me)
{
    int64_t one = 1, old = 0, value = 0;

    TM_MPI(MPI_Win_lock(MPI_LOCK_SHARED, me, 0, win));
    TM_MPI(MPI_Put(&one, 1, MPI_INT64_T, me, 0, 1, MPI_INT64_T, win));
    TM_MPI(MPI_Win_flush(me, win));
    TM_MPI(MPI_Accumulate(&one, 1, MPI_INT64_T, me, 0, 1, MPI_INT64_T, MPI_SUM, win));
    TM_MPI(MPI_Win_flush(me, win));
    TM_MPI(MPI_Fetch_and_op(&one, &old, MPI_INT64_T, me, 0, MPI_SUM, win));
    TM_MPI(MPI_Win_flush(me, win));
    TM_MPI(MPI_Get(&value, 1, MPI_INT64_T, me, 0, 1, MPI_INT64_T, win));
    TM_MPI(MPI_Win_unlock(me, win));
    TM_CHECK(2 == old && 3 == value, "old %lld, now %lld", (long long) old, (long long) value);
}

static void wait_for_file(const char *name)
{
    struct stat stat_buf;

    while (0 != stat(name, &stat_buf)) {
        usleep(1000);
    }
}

int main(int argc, char **argv)
{
    int64_t word = 0;
    MPI_Win win;

    tm_init(&argc, &argv, "own_window");
    if (argc < 2) {
        TM_FATAL("the name of a file is missing");
    }
    TM_MPI(MPI_Win_create(&word, sizeof(word), sizeof(word), MPI_INFO_NULL, MPI_COMM_WORLD, &win));
    TM_MPI(MPI_Barrier(MPI_COMM_WORLD));
    if (tm_rank == tm_size - 1) {
        use(win, tm_rank);
        TM_CHECK(0 <= open(argv[1], O_CREAT | O_WRONLY, 0600), "%s cannot be made", argv[1]);
    } else {
        wait_for_file(argv[1]);
    }
    TM_MPI(MPI_Barrier(MPI_COMM_WORLD));
    TM_MPI(MPI_Win_free(&win));
    return tm_finish();
}
