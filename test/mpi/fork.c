/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Programs that fork while messages are under way: the child overwrites its copy of all buffers and
 * ends, or becomes another program; the parent's messages are none the worse.
 *
 * args: rounds
 */
/* TEST: np=2,4 args="10" env="OMPI_MCA_mpi_warn_on_fork=0" timeout=60 */
#include <sys/wait.h>

#include "tm_test.h"

static const size_t sizes[] = {0, 8, 41, 4096, 16385, 300000, 3000000};

enum { NSIZES = sizeof(sizes) / sizeof(sizes[0]) };

static unsigned char *out[NSIZES], *in[NSIZES];

static pid_t start_child(int round)
{
    pid_t pid = fork();

    if (0 != pid) {
        TM_CHECK(pid > 0, "fork: %d", (int) pid);
        return pid;
    }
    for (int s = 0; s < NSIZES; s++) {
        memset(out[s], 0xee, sizes[s]);
        memset(in[s], 0xdd, sizes[s]);
    }
    if (0 == round % 2) {
        execl("/bin/true", "true", (char *) NULL);
    }
    _exit(0);
}

static void end_child(pid_t pid)
{
    int status = -1;

    TM_CHECK(pid == waitpid(pid, &status, 0) && 0 == status, "child's status %d", status);
}

/* From the left neighbour, to the right one; the child begins between posting and waiting. */
static void one_round(int round)
{
    MPI_Request req[2 * NSIZES];
    pid_t child = -1;

    for (int s = 0; s < NSIZES; s++) {
        memset(out[s], (tm_rank + round + s) & 0x7f, sizes[s]);
        memset(in[s], 0xff, sizes[s]);
        TM_MPI(MPI_Irecv(in[s], (int) sizes[s], MPI_BYTE, tm_src, s, MPI_COMM_WORLD, &req[s]));
        if (s == round % NSIZES) {
            child = start_child(round);
        }
        TM_MPI(MPI_Isend(out[s], (int) sizes[s], MPI_BYTE, tm_dst, s, MPI_COMM_WORLD,
                         &req[NSIZES + s]));
    }
    TM_MPI(MPI_Waitall(2 * NSIZES, req, MPI_STATUSES_IGNORE));
    end_child(child);
    for (int s = 0; s < NSIZES; s++) {
        TM_CHECK(tm_expect_fill(in[s], sizes[s], (tm_src + round + s) & 0x7f, "message"),
                 "in round %d", round);
    }
}

int main(int argc, char **argv)
{
    tm_init(&argc, &argv, "fork");
    for (int s = 0; s < NSIZES; s++) {
        out[s] = malloc(sizes[s] + 1);
        in[s] = malloc(sizes[s] + 1);
    }
    for (int round = 0; round < (int) tm_arg(argc, argv, 1, 20); round++) {
        one_round(round);
    }
    for (int s = 0; s < NSIZES; s++) {
        free(out[s]);
        free(in[s]);
    }
    return tm_finish();
}
