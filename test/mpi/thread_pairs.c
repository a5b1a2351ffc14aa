/* SPDX-License-Identifier: BSD-3-Clause */
/* TEST: np=2 args="2 40" timeout=60 */
/* TEST: np=2 args="4 20" timeout=60 */
/*
 * Threads that share cores: each thread of rank 0 with its partner of rank 1, a communicator for
 * each pair, windows of 64 messages of 8 bytes and an answer.  One thread waits and polls while
 * another has something to send.  Each message's content and order is checked.
 *
 * args: threads, windows
 */
#include "tm_threads.h"

enum { WINDOW = 64, MAX_THREADS = 16, TAG = 3 };

static MPI_Comm comm[MAX_THREADS];
static long windows;

static int64_t content(int pair, long window, int i)
{
    return (int64_t) pair << 48 | (int64_t) window << 16 | i;
}

static void send_window(int pair, long window)
{
    int64_t out[WINDOW], answer = 0;
    MPI_Request req[WINDOW];

    for (int i = 0; i < WINDOW; i++) {
        out[i] = content(pair, window, i);
        TM_MPI(MPI_Isend(&out[i], 1, MPI_INT64_T, 1, TAG, comm[pair], &req[i]));
    }
    TM_MPI(MPI_Waitall(WINDOW, req, MPI_STATUSES_IGNORE));
    TM_MPI(MPI_Recv(&answer, 1, MPI_INT64_T, 1, TAG, comm[pair], MPI_STATUS_IGNORE));
    TM_CHECK(answer == window, "pair %d: answer %lld to window %ld", pair, (long long) answer,
             window);
}

static void receive_window(int pair, long window)
{
    int64_t in[WINDOW], answer = window;
    MPI_Request req[WINDOW];

    for (int i = 0; i < WINDOW; i++) {
        TM_MPI(MPI_Irecv(&in[i], 1, MPI_INT64_T, 0, TAG, comm[pair], &req[i]));
    }
    TM_MPI(MPI_Waitall(WINDOW, req, MPI_STATUSES_IGNORE));
    for (int i = 0; i < WINDOW; i++) {
        TM_CHECK(content(pair, window, i) == in[i], "pair %d: message %d of window %ld", pair, i,
                 window);
    }
    TM_MPI(MPI_Send(&answer, 1, MPI_INT64_T, 0, TAG, comm[pair]));
}

static void *pair_main(void *arg)
{
    int pair = (int) ((MPI_Comm *) arg - comm);

    for (long window = 0; window < windows; window++) {
        if (0 == tm_rank) {
            send_window(pair, window);
        } else {
            receive_window(pair, window);
        }
    }
    return NULL;
}

int main(int argc, char **argv)
{
    int threads;

    tm_init_thread(&argc, &argv, "thread_pairs", MPI_THREAD_MULTIPLE);
    threads = (int) tm_arg(argc, argv, 1, 2);
    threads = threads < MAX_THREADS ? threads : MAX_THREADS;
    windows = tm_arg(argc, argv, 2, 40);
    for (int i = 0; i < threads; i++) {
        TM_MPI(MPI_Comm_dup(MPI_COMM_WORLD, &comm[i]));
    }
    tm_in_threads(pair_main, comm, threads, sizeof(*comm));
    for (int i = 0; i < threads; i++) {
        TM_MPI(MPI_Comm_free(&comm[i]));
    }
    return tm_finish();
}
