/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A program that locks all its memory, present and future, before or after MPI_Init: the segment
 * for shared memory, with room for many processes that never come, takes no memory for them.  A
 * core dump leaves it out.
 *
 * args: [late: after MPI_Init]
 */
/* TEST: np=2 env="OMPI_MCA_pml_tm_providers=shm" quick=yes */
/* TEST: np=2 args="late" env="OMPI_MCA_pml_tm_providers=shm" */
#include "tm_test.h"

#include <sys/mman.h>

enum { MAX_KIB = 64 << 10, BYTES = 100000 };

/* Mappings of segments of which a core dump has the pages: VmFlags without dd. */
static int num_dumped(void)
{
    FILE *file = fopen("/proc/self/smaps", "r");
    char line[512];
    bool is_segment = false;
    int num = 0;

    while (NULL != file && NULL != fgets(line, sizeof(line), file)) {
        if (NULL != strstr(line, "/memfd:")) {
            is_segment = NULL != strstr(line, "/memfd:pml_tm");
        } else if (is_segment && 0 == strncmp(line, "VmFlags:", 8)) {
            num += NULL == strstr(line, " dd ");
            is_segment = false;
        }
    }
    if (NULL != file) {
        fclose(file);
    }
    return num;
}

int main(int argc, char **argv)
{
    const bool is_late = argc > 1;
    int is_locked = !is_late && 0 == mlockall(MCL_CURRENT | MCL_FUTURE), all_locked = 0;
    long shared_kib;
    char *buf;

    tm_init(&argc, &argv, "locked");
    if (is_late) {
        is_locked = 0 == mlockall(MCL_CURRENT | MCL_FUTURE);
    }
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
    shared_kib = tm_proc_kib("/proc/self/status", "RssShmem:"); /* or -1 */
    TM_CHECK(shared_kib < MAX_KIB, "%ld KiB of shared memory", shared_kib);
    TM_CHECK(0 == num_dumped(), "%d mappings of segments would be dumped", num_dumped());
    free(buf);
    return tm_finish();
}
