/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A program that locks all its memory, present and future, before MPI_Init: the segment for shared
 * memory, with room for many processes that never come, takes no memory for them.
 */
/* TEST: np=2 env="OMPI_MCA_pml_tm_providers=shm" quick=yes */
#include "tm_test.h"

#include <sys/mman.h>

enum { MAX_KIB = 64 << 10, BYTES = 100000 };

/* Resident pages of shared memory, KiB; -1: the kernel does not say. */
static long shared_kib(void)
{
    FILE *file = fopen("/proc/self/status", "r");
    char line[256];
    long kib = -1;

    while (NULL != file && NULL != fgets(line, sizeof(line), file)) {
        (void) sscanf(line, "RssShmem: %ld", &kib);
    }
    if (NULL != file) {
        fclose(file);
    }
    return kib;
}

int main(int argc, char **argv)
{
    const int is_locked = 0 == mlockall(MCL_CURRENT | MCL_FUTURE);
    int all_locked = 0;
    char *buf;

    tm_init(&argc, &argv, "locked");
    TM_MPI(MPI_Allreduce(&is_locked, &all_locked, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD));
    if (!all_locked) {
        return tm_skip("mlockall() is not allowed here");
    }
    buf = tm_calloc(BYTES, 1);
    if (0 == tm_rank) {
        tm_fill(buf, BYTES, tm_key(0, 1, 1, 0));
        TM_MPI(MPI_Send(buf, BYTES, MPI_BYTE, 1, 1, MPI_COMM_WORLD));
    } else {
        TM_MPI(MPI_Recv(buf, BYTES, MPI_BYTE, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        tm_expect_data(buf, BYTES, tm_key(0, 1, 1, 0), "a message of a locked process");
    }
    TM_CHECK(shared_kib() < MAX_KIB, "%ld KiB of shared memory", shared_kib());
    free(buf);
    return tm_finish();
}
