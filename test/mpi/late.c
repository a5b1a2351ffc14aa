/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Long messages whose receives come late: a process keeps the memory in which it gathers them, for
 * the next ones.  Of each length rank 0 sends WINDOW messages, and a last one of 0 bytes, which
 * rank 1 receives first.  Data and order are checked; the second time some of the memory must be
 * used again, where the messages are sent whole. This is for pml tm only.
 *
 * args: yes or no: is memory used again?
 */
/* TEST: np=2 args="yes" env="OMPI_MCA_pml_tm_providers=shm OMPI_MCA_pml_tm_eager_limit=65536 OMPI_MCA_pml_tm_shm_ring_size=1048576" quick=yes */
/* TEST: np=2 args="no" env="OMPI_MCA_pml_tm_stream_limit=0" */
#include "tm_counter.h"

enum { WINDOW = 6, LAST = 7 /* its tag */, ROUNDS = 3 };

static const int lengths[] = {16384,  16385,  20000,  32768,  32769,  65536,
                              100000, 131072, 200000, 262144, 262145, 700000};

enum { LENGTHS = sizeof(lengths) / sizeof(lengths[0]), LONGEST = 700000 };

static void send_window(char *buf, int len, int round)
{
    MPI_Request req[WINDOW];

    for (int i = 0; i < WINDOW; i++) {
        char *data = buf + (size_t) i * LONGEST;
        tm_fill(data, (size_t) len, tm_key(0, len, round, i));
        TM_MPI(MPI_Isend(data, len, MPI_BYTE, 1, i % 2, MPI_COMM_WORLD, &req[i]));
    }
    TM_MPI(MPI_Send(NULL, 0, MPI_BYTE, 1, LAST, MPI_COMM_WORLD));
    TM_MPI(MPI_Waitall(WINDOW, req, MPI_STATUSES_IGNORE));
}

/* Those with an odd tag are received before the others. */
static void receive_window(char *buf, int len, int round)
{
    TM_MPI(MPI_Recv(NULL, 0, MPI_BYTE, 0, LAST, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    for (int n = 0; n < WINDOW; n++) {
        int i = n < WINDOW / 2 ? 2 * n + 1 : 2 * (n - WINDOW / 2);
        TM_MPI(MPI_Recv(buf, len, MPI_BYTE, 0, i % 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        tm_expect_data(buf, (size_t) len, tm_key(0, len, round, i), "a late message");
    }
}

int main(int argc, char **argv)
{
    tm_counter_t reused;
    char *buf;

    tm_init(&argc, &argv, "late");
    if (!tm_is_pml_tm()) {
        return tm_skip("only pml tm counts memory that it uses again");
    }
    buf = tm_calloc(WINDOW, LONGEST);
    reused = tm_counter_open("pml_tm_reused");
    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < LENGTHS; i++) {
            if (0 == tm_rank) {
                send_window(buf, lengths[i], round);
            } else if (1 == tm_rank) {
                receive_window(buf, lengths[i], round);
            }
            MPI_Barrier(MPI_COMM_WORLD);
        }
    }
    if (1 == tm_rank) {
        bool is_reused = tm_counter_read(&reused) > 0;
        TM_CHECK(is_reused == (0 == strcmp(argv[1], "yes")), "memory was %sused again",
                 is_reused ? "" : "not ");
    }
    free(buf);
    tm_counter_close(&reused);
    return tm_finish();
}
