/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Helper of startup.sh.
 *
 * args: now (MPI_Init, MPI_Finalize) | hello (one collective) | abort STATUS (by the last rank) |
 * exit STATUS (no finalize)
 */
#include "tm_test.h"

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "hello";
    int sum = 0;

    tm_init(&argc, &argv, "startup");
    if (0 == strcmp(what, "now")) {
        MPI_Finalize();
        return 0;
    }
    if (0 == strcmp(what, "abort")) {
        if (tm_rank == tm_size - 1) {
            MPI_Abort(MPI_COMM_WORLD, (int) tm_arg(argc, argv, 2, 7));
        }
        /* does not come */
        TM_MPI(MPI_Recv(&sum, 1, MPI_INT, tm_rank, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    }
    if (0 == strcmp(what, "exit")) {
        exit((int) tm_arg(argc, argv, 2, 7));
    }
    TM_MPI(MPI_Allreduce(&(int){1}, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD));
    TM_CHECK(sum == tm_size, "sum %d of %d ranks", sum, tm_size);
    return tm_finish();
}
