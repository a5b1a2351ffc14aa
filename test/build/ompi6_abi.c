/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A program of the standard's ABI, for ompi6.sh: a message from rank 0 to rank 1, and whether
 * libmpi was loaded.
 */
#include <dlfcn.h>
#include <stdio.h>

#include <mpi.h>

int main(int argc, char **argv)
{
    int rank, value = 0, errors = 0;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (0 == rank) {
        value = 42;
        MPI_Send(&value, 1, MPI_INT, 1, 7, MPI_COMM_WORLD);
    } else if (1 == rank) {
        MPI_Recv(&value, 1, MPI_INT, 0, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        errors = 42 != value;
        printf("abi: errors=%d\n", errors);
        printf("abi: libmpi is %sloaded\n",
               NULL == dlopen("libmpi.so.0", RTLD_NOLOAD | RTLD_LAZY) ? "not " : "");
    }
    MPI_Finalize();
    return errors;
}
