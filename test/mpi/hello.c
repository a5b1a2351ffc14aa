/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The least that shows that messages go through the PML that was asked for.
 */
/* TEST: np=1,2 quick=yes */
#include "tm_test.h"

int main(int argc, char **argv)
{
    int sum = 0;

    tm_init(&argc, &argv, "hello");
    MPI_Allreduce(&(int){1}, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    TM_CHECK(sum == tm_size, "sum %d of %d ranks", sum, tm_size);
    return tm_finish();
}
