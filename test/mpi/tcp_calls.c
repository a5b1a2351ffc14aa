/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * System calls that messages by TCP cost, between two ranks: counted, not timed.  A helper of
 * hosts/programs.
 *
 *   ping-pong         one write and one read a message
 *   window of 64      a fifth of one a message, on each side
 *   64 KiB in turns   not announced
 *   long messages     straight from and to the user's memory, and their first part at once; in
 *                     windows, too, where they wait at the receiver
 */
#include "tm_counter.h"

enum { ROUNDS = 500, WINDOW = 64, SIZE = 8, LONG = 4 << 20, LONGS = 10, MEDIUM = 65536 };

static void ping_pong(void)
{
    tm_counter_t writes = tm_counter_open("pml_tm_tcp_writes"),
                 reads = tm_counter_open("pml_tm_tcp_reads");
    char buf[SIZE];

    for (int i = 0; i < ROUNDS; i++) {
        if (0 == tm_rank) {
            MPI_Send(buf, SIZE, MPI_BYTE, 1, 1, MPI_COMM_WORLD);
            MPI_Recv(buf, SIZE, MPI_BYTE, 1, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        } else {
            MPI_Recv(buf, SIZE, MPI_BYTE, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            MPI_Send(buf, SIZE, MPI_BYTE, 0, 1, MPI_COMM_WORLD);
        }
    }
    TM_CHECK(tm_counter_read(&writes) <= ROUNDS + 2, "%llu writes for %d messages",
             tm_counter_read(&writes), ROUNDS);
    TM_CHECK(tm_counter_read(&reads) <= ROUNDS + 2, "%llu reads for %d messages",
             tm_counter_read(&reads), ROUNDS);
}

static void windows(void)
{
    tm_counter_t writes = tm_counter_open("pml_tm_tcp_writes"),
                 reads = tm_counter_open("pml_tm_tcp_reads");
    MPI_Request requests[WINDOW];
    char buf[WINDOW][SIZE];

    for (int i = 0; i < ROUNDS; i++) {
        for (int k = 0; k < WINDOW; k++) {
            if (0 == tm_rank) {
                MPI_Isend(buf[k], SIZE, MPI_BYTE, 1, 1, MPI_COMM_WORLD, &requests[k]);
            } else {
                MPI_Irecv(buf[k], SIZE, MPI_BYTE, 0, 1, MPI_COMM_WORLD, &requests[k]);
            }
        }
        MPI_Waitall(WINDOW, requests, MPI_STATUSES_IGNORE);
        MPI_Sendrecv(buf, 0, MPI_BYTE, !tm_rank, 2, buf, 0, MPI_BYTE, !tm_rank, 2, MPI_COMM_WORLD,
                     MPI_STATUS_IGNORE);
    }
    if (0 == tm_rank) {
        TM_CHECK(5 * tm_counter_read(&writes) <= ROUNDS * WINDOW, "%llu writes for %d messages",
                 tm_counter_read(&writes), ROUNDS * WINDOW);
    } else {
        TM_CHECK(5 * tm_counter_read(&reads) <= ROUNDS * WINDOW, "%llu reads for %d messages",
                 tm_counter_read(&reads), ROUNDS * WINDOW);
    }
}

static void long_messages(void)
{
    tm_counter_t out = tm_counter_open("pml_tm_tcp_sends_from_memory"),
                 in = tm_counter_open("pml_tm_tcp_placed"),
                 first = tm_counter_open("pml_tm_rndv_with_data");
    char *buf = tm_calloc(1, LONG);

    for (int i = 0; i < LONGS; i++) {
        if (0 == tm_rank) {
            memset(buf, i + 1, LONG);
            MPI_Send(buf, LONG - i, MPI_BYTE, 1, 1, MPI_COMM_WORLD);
        } else {
            MPI_Recv(buf, LONG, MPI_BYTE, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            TM_CHECK(i + 1 == buf[0] && i + 1 == buf[LONG - i - 1], "message %d is wrong", i);
        }
    }
    TM_CHECK(tm_counter_read(0 == tm_rank ? &out : &in) >= LONGS * 15, "%llu fragments",
             tm_counter_read(0 == tm_rank ? &out : &in));
    TM_CHECK(1 == tm_rank || tm_counter_read(&first) >= LONGS, "%llu announcements with data",
             tm_counter_read(&first));
    free(buf);
}

/* The processes take turns: none is announced. */
static void medium_turns(void)
{
    tm_counter_t rndv = tm_counter_open("pml_tm_rndv_sent");
    char *buf = tm_calloc(1, MEDIUM);

    for (int i = 0; i < ROUNDS; i++) {
        if (tm_rank == i % 2) {
            TM_MPI(MPI_Send(buf, MEDIUM, MPI_BYTE, 1 - tm_rank, 1, MPI_COMM_WORLD));
        } else {
            TM_MPI(
                MPI_Recv(buf, MEDIUM, MPI_BYTE, 1 - tm_rank, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        }
    }
    TM_CHECK(tm_counter_read(&rndv) <= 2, "%llu messages were announced", tm_counter_read(&rndv));
    free(buf);
}

static void long_windows(void)
{
    tm_counter_t in = tm_counter_open("pml_tm_tcp_placed");
    MPI_Request requests[WINDOW];
    char *buf = tm_calloc(WINDOW, MEDIUM);

    for (int i = 0; i < LONGS; i++) {
        for (int k = 0; k < WINDOW; k++) {
            char *at = buf + (size_t) k * MEDIUM;
            if (0 == tm_rank) {
                MPI_Isend(at, MEDIUM, MPI_BYTE, 1, 1, MPI_COMM_WORLD, &requests[k]);
            } else {
                MPI_Irecv(at, MEDIUM, MPI_BYTE, 0, 1, MPI_COMM_WORLD, &requests[k]);
            }
        }
        MPI_Waitall(WINDOW, requests, MPI_STATUSES_IGNORE);
        MPI_Barrier(MPI_COMM_WORLD);
    }
    TM_CHECK(0 == tm_rank || 8 * tm_counter_read(&in) >= 7 * LONGS * WINDOW,
             "%llu of %d messages read to their place", tm_counter_read(&in), LONGS * WINDOW);
    free(buf);
}

int main(int argc, char **argv)
{
    tm_init(&argc, &argv, "tcp_calls");
    MPI_Barrier(MPI_COMM_WORLD);
    ping_pong();
    MPI_Barrier(MPI_COMM_WORLD);
    windows();
    MPI_Barrier(MPI_COMM_WORLD);
    long_messages();
    MPI_Barrier(MPI_COMM_WORLD);
    medium_turns();
    long_windows();
    MPI_Barrier(MPI_COMM_WORLD);
    return tm_finish();
}
