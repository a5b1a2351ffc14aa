/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * MPI_Get and MPI_Put of a column: one call that is as many operations of 4 bytes.  The data is
 * right, and where processes copy each other's memory themselves (CMA) it takes no memory for each.
 *
 * args: [megabytes that it may take over shared memory; 0: any]
 */
/* TEST: np=2 args="24" env="OMPI_MCA_osc=rdma OMPI_MCA_btl=fabric OMPI_MCA_mpi_yield_when_idle=1" timeout=60 */
/* TEST: np=2 args="24" pml=ob1 env="OMPI_MCA_osc=rdma OMPI_MCA_btl=fabric,self OMPI_MCA_mpi_yield_when_idle=1" timeout=60 */
/* TEST: np=2 args="0" env="OMPI_MCA_osc=rdma OMPI_MCA_btl=fabric OMPI_MCA_pml_tm_providers=tcp OMPI_MCA_mpi_yield_when_idle=1" timeout=60 */
#include "tm_test.h"

enum { ROWS = 200000, STRIDE = 3 };

/* The most memory that this process had so far, in MB. */
static long peak_mb(void)
{
    long kib = tm_proc_kib("/proc/self/status", "VmHWM:");

    TM_CHECK(kib > 0, "no VmHWM in /proc/self/status");
    return kib / 1024;
}

int main(int argc, char **argv)
{
    long limit;
    int32_t *base, *column;
    MPI_Datatype strided;
    MPI_Win win;
    long before;

    tm_init(&argc, &argv, "onesided_strided");
    limit = NULL == getenv("OMPI_MCA_pml_tm_providers") ? tm_arg(argc, argv, 1, 0) : 0;
    base = tm_alloc(ROWS * STRIDE * sizeof(*base));
    column = tm_alloc(ROWS * sizeof(*column));
    for (int i = 0; i < ROWS * STRIDE; i++) {
        base[i] = i;
    }
    memset(column, 0xee, ROWS * sizeof(*column));
    strided = tm_vector(ROWS, 1, STRIDE, MPI_INT32_T);
    TM_MPI(MPI_Win_create(base, ROWS * STRIDE * (MPI_Aint) sizeof(*base), sizeof(*base),
                          MPI_INFO_NULL, MPI_COMM_WORLD, &win));
    TM_MPI(MPI_Barrier(MPI_COMM_WORLD));
    before = peak_mb();
    TM_MPI(MPI_Win_fence(0, win));
    if (0 == tm_rank) {
        TM_MPI(MPI_Get(column, ROWS, MPI_INT32_T, 1, 1, 1, strided, win));
    }
    TM_MPI(MPI_Win_fence(0, win));
    for (int i = 0; 0 == tm_rank && i < ROWS; i++) {
        TM_CHECK(STRIDE * i + 1 == column[i], "got %d in row %d", column[i], i);
        column[i] = -i;
    }
    TM_MPI(MPI_Win_fence(0, win));
    if (0 == tm_rank) {
        TM_MPI(MPI_Put(column, ROWS, MPI_INT32_T, 1, 2, 1, strided, win));
    }
    TM_MPI(MPI_Win_fence(0, win));
    for (int i = 0; 1 == tm_rank && i < ROWS; i++) {
        TM_CHECK(STRIDE * i == base[STRIDE * i] && STRIDE * i + 1 == base[STRIDE * i + 1] &&
                     -i == base[STRIDE * i + 2],
                 "row %d is %d %d %d", i, base[STRIDE * i], base[STRIDE * i + 1],
                 base[STRIDE * i + 2]);
    }
    TM_CHECK(0 == limit || peak_mb() - before <= limit, "it took %ld MB", peak_mb() - before);
    TM_MPI(MPI_Win_free(&win));
    TM_MPI(MPI_Type_free(&strided));
    tm_free(base);
    tm_free(column);
    return tm_finish();
}
