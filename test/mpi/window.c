/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Helper of tm_mlx5.sh: windows of messages into one buffer, as bandwidth benchmarks send them. MPI
 * does not allow it, so what matters is that all complete, with the last message's bytes, which are
 * those of all. And two receives with one buffer and different tags, the later one's message first:
 * what announces the other message is overwritten before this process looks at it.
 *
 * args: rounds
 */
#include "tm_counter.h"

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

enum { TAG_LATE = 9, TAG_FIRST = 10, TAG_GO = 11, FIRST = 4000, LATE = 100000 };

static void send_two(char **out, MPI_Datatype halves)
{
    TM_MPI(MPI_Send(out[0], FIRST, MPI_BYTE, 1, TAG_FIRST, MPI_COMM_WORLD));
    if (MPI_DATATYPE_NULL == halves) {
        TM_MPI(MPI_Send(out[1], LATE, MPI_BYTE, 1, TAG_LATE, MPI_COMM_WORLD));
    } else {
        TM_MPI(MPI_Send(out[1], 1, halves, 1, TAG_LATE, MPI_COMM_WORLD));
    }
}

/* Where the messages do not overlap is the longer one's data. */
static void receive_two(char *in, int capacity)
{
    int size = capacity < LATE ? capacity : LATE, go_on = 1, rc[2];
    const struct timespec moment = {0, 5000000};
    unsigned char *want = tm_alloc(LATE);
    MPI_Request req[2];

    memset(in, 0, LATE);
    TM_MPI(MPI_Irecv(in, capacity, MPI_BYTE, 0, TAG_LATE, MPI_COMM_WORLD, &req[0]));
    TM_MPI(MPI_Irecv(in, LATE, MPI_BYTE, 0, TAG_FIRST, MPI_COMM_WORLD, &req[1]));
    TM_MPI(MPI_Send(&go_on, 1, MPI_INT, 0, TAG_GO, MPI_COMM_WORLD));
    nanosleep(&moment, NULL); /* outside of MPI: both messages come meanwhile, mostly */
    for (int i = 1; i >= 0; i--) {
        rc[i] = MPI_Wait(&req[i], MPI_STATUS_IGNORE);
    }
    TM_CHECK(MPI_SUCCESS == rc[1] && (capacity < LATE) == (MPI_ERR_TRUNCATE == rc[0]), "%d and %d",
             rc[0], rc[1]);
    tm_fill(want, (size_t) size, tm_key(0, 1, TAG_LATE, LATE));
    TM_CHECK(0 == memcmp(in + FIRST, want + FIRST, (size_t) (size - FIRST)), "wrong data");
    tm_free(want);
}

enum { ROUNDS_MIN = 30, ROUNDS_MAX = 3000 };

/* Contiguous messages, others, and ones that are longer than the receive: until it has happened. */
static void overwrite(char **out, char *in)
{
    int lens[2] = {LATE / 2, LATE / 2}, at[2] = {0, LATE}, go_on = 1;
    MPI_Datatype halves;
    tm_counter_t overwritten;
    bool is_counted = tm_counter_find("pml_tm_verbs_tm_overwritten", MPI_T_PVAR_CLASS_COUNTER,
                                      &overwritten);

    TM_MPI(MPI_Type_indexed(2, lens, at, MPI_BYTE, &halves));
    TM_MPI(MPI_Type_commit(&halves));
    TM_MPI(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    for (int i = 0; go_on; i++) {
        if (0 == tm_rank) {
            TM_MPI(MPI_Recv(&go_on, 1, MPI_INT, 1, TAG_GO, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        } else if (i >= ROUNDS_MIN &&
                   (!is_counted || ROUNDS_MAX == i || tm_counter_read(&overwritten) > 0)) {
            go_on = 0;
            TM_MPI(MPI_Send(&go_on, 1, MPI_INT, 0, TAG_GO, MPI_COMM_WORLD));
        }
        if (go_on && 0 == tm_rank) {
            tm_fill((unsigned char *) out[1], LATE, tm_key(0, 1, TAG_LATE, LATE));
            if (1 == i % 3) { /* its second half is apart */
                memmove(out[1] + LATE, out[1] + LATE / 2, LATE / 2);
            }
            send_two(out, 1 == i % 3 ? halves : MPI_DATATYPE_NULL);
        } else if (go_on) {
            receive_two(in, 2 == i % 3 ? LATE / 2 : LATE);
        }
    }
    TM_CHECK(0 == tm_rank || !is_counted || tm_counter_read(&overwritten) > 0,
             "no announcement was written over");
    TM_MPI(MPI_Type_free(&halves));
}

int main(int argc, char **argv)
{
    tm_counter_t open_operations;
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
    overwrite(out, in);
    TM_CHECK(!tm_counter_find("pml_tm_open_operations", MPI_T_PVAR_CLASS_LEVEL, &open_operations) ||
                 0 == tm_counter_read(&open_operations),
             "operations are open, and all were completed");
    free(out[0]);
    free(out[1]);
    free(in);
    return tm_finish();
}
