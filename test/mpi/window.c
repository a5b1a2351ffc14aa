/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Helper of tm_mlx5.sh: windows of messages into one buffer, as bandwidth benchmarks send them.
 * MPI does not allow it, so what matters is that all complete, with the last message's bytes, which are
 * those of all.
 *
 * args: rounds
 */
#include "tm_test.h"

enum { WINDOW = 64, LONGEST = 1 << 20 };

static const int sizes[] = {8, 1000, 8192, 20000, 100000, LONGEST};

static void send_window(char **out, int size)
{
    MPI_Request req[WINDOW];

    for (int i = 0; i < WINDOW; i++) {
        TM_MPI(MPI_Isend(out[i % 2], size, MPI_BYTE, 1, 7, MPI_COMM_WORLD, &req[i]));
    }
    TM_MPI(MPI_Waitall(WINDOW, req, MPI_STATUSES_IGNORE));
    TM_MPI(MPI_Recv(NULL, 0, MPI_BYTE, 1, 8, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
}

static void receive_window(char *in, int size, bool is_early)
{
    MPI_Request req[WINDOW];
    MPI_Status status[WINDOW];

    memset(in, 0, (size_t) size);
    if (is_early) {
        MPI_Barrier(MPI_COMM_WORLD);
    }
    for (int i = 0; i < WINDOW; i++) {
        TM_MPI(MPI_Irecv(in, size, MPI_BYTE, 0, 7, MPI_COMM_WORLD, &req[i]));
    }
    if (!is_early) {
        MPI_Barrier(MPI_COMM_WORLD);
    }
    TM_MPI(MPI_Waitall(WINDOW, req, status));
    for (int i = 0; i < WINDOW; i++) {
        int count;
        MPI_Get_count(&status[i], MPI_BYTE, &count);
        TM_CHECK(count == size, "message %d has %d bytes, not %d", i, count, size);
    }
    tm_expect_data((unsigned char *) in, (size_t) size, tm_key(0, 1, 7, size), "window");
    TM_MPI(MPI_Send(NULL, 0, MPI_BYTE, 0, 8, MPI_COMM_WORLD));
}

int main(int argc, char **argv)
{
    char *out[2], *in;

    tm_init(&argc, &argv, "window");
    out[0] = tm_calloc(1, LONGEST);
    out[1] = tm_calloc(1, LONGEST);
    in = tm_calloc(1, LONGEST);
    for (int round = 0; round < tm_arg(argc, argv, 1, 5); round++) {
        for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
            tm_fill((unsigned char *) out[0], (size_t) sizes[i], tm_key(0, 1, 7, sizes[i]));
            tm_fill((unsigned char *) out[1], (size_t) sizes[i], tm_key(0, 1, 7, sizes[i]));
            if (1 == tm_rank) {
                receive_window(in, sizes[i], round % 2);
            } else {
                MPI_Barrier(MPI_COMM_WORLD);
            }
            if (0 == tm_rank) {
                send_window(out, sizes[i]);
            }
        }
    }
    free(out[0]);
    free(out[1]);
    free(in);
    return tm_finish();
}
