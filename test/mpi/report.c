/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * For report.sh: traffic between ranks 0 and 1 for which the report at the end has something to
 * say, or has not.
 *
 * args: which (a name of `cases`)
 */
#include <signal.h>

#include "tm_test.h"

enum { COUNT = 3000, TAG = 1 };

static char buf[4096];
static MPI_Comm pairs;

/* Each receive is posted before its message is sent. */
static void expected(void)
{
    for (int i = 0; i < COUNT / 5; i++) { /* short, so that nobody waits for long */
        if (0 == tm_rank) {
            MPI_Request req;

            TM_MPI(MPI_Irecv(buf, 8, MPI_BYTE, 1, TAG, pairs, &req));
            TM_MPI(MPI_Ssend(buf, 8, MPI_BYTE, 1, TAG, pairs));
            TM_MPI(MPI_Wait(&req, MPI_STATUS_IGNORE));
        } else if (1 == tm_rank) {
            TM_MPI(MPI_Recv(buf, 8, MPI_BYTE, 0, TAG, pairs, MPI_STATUS_IGNORE));
            TM_MPI(MPI_Send(buf, 8, MPI_BYTE, 0, TAG, pairs));
        }
    }
}

/* Rank 0 receives the last message first. */
static void unexpected(void)
{
    for (int i = 0; i < COUNT; i++) {
        if (0 == tm_rank) {
            TM_MPI(MPI_Recv(buf, 8, MPI_BYTE, 1, COUNT - 1 - i, pairs, MPI_STATUS_IGNORE));
        } else if (1 == tm_rank) {
            TM_MPI(MPI_Send(buf, 8, MPI_BYTE, 0, i, pairs));
        }
    }
}

/* Rank 0 waits in another communicator until all messages were sent. */
static void held(void)
{
    static MPI_Request req[COUNT];

    if (0 == tm_rank) {
        TM_MPI(MPI_Recv(buf, 8, MPI_BYTE, 1, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        for (int i = 0; i < COUNT; i++) {
            TM_MPI(MPI_Recv(buf, 8, MPI_BYTE, 1, TAG, pairs, MPI_STATUS_IGNORE));
        }
    } else if (1 == tm_rank) {
        for (int i = 0; i < COUNT; i++) {
            TM_MPI(MPI_Isend(buf, 8, MPI_BYTE, 0, TAG, pairs, &req[i]));
        }
        TM_MPI(MPI_Send(buf, 8, MPI_BYTE, 0, TAG, MPI_COMM_WORLD));
        TM_MPI(MPI_Waitall(COUNT, req, MPI_STATUSES_IGNORE));
    }
}

/* Rank 0 does not call MPI until rank 1 has begun all sends, which its ring does not take. */
static void queued(void)
{
    static MPI_Request req[COUNT];
    int pid = (int) getpid(), number;
    sigset_t set;

    sigemptyset(&set);
    sigaddset(&set, SIGUSR2);
    TM_CHECK(0 == sigprocmask(SIG_BLOCK, &set, NULL), "sigprocmask");
    TM_MPI(MPI_Bcast(&pid, 1, MPI_INT, 0, pairs));
    if (0 == tm_rank) {
        TM_CHECK(0 == sigwait(&set, &number), "sigwait");
        for (int i = 0; i < COUNT; i++) {
            TM_MPI(MPI_Recv(buf, 4096, MPI_BYTE, 1, TAG, pairs, MPI_STATUS_IGNORE));
        }
    } else if (1 == tm_rank) {
        for (int i = 0; i < COUNT; i++) {
            TM_MPI(MPI_Isend(buf, 4096, MPI_BYTE, 0, TAG, pairs, &req[i]));
        }
        TM_CHECK(0 == kill(pid, SIGUSR2), "kill");
        TM_MPI(MPI_Waitall(COUNT, req, MPI_STATUSES_IGNORE));
    }
}

/* A number of messages of each size, and no others: 8 bytes, 512, 8 KiB, 128 KiB. */
static void sizes(void)
{
    static const struct {
        int count, len;
    } of[] = {{8000, 8}, {4000, 512}, {3000, 8 << 10}, {1000, 128 << 10}};
    char *data = tm_calloc(128 << 10, 1);

    for (int i = 0; i < 4; i++) {
        for (int j = 0; j < of[i].count; j++) {
            if (0 == tm_rank) {
                TM_MPI(MPI_Recv(data, of[i].len, MPI_BYTE, 1, TAG, pairs, MPI_STATUS_IGNORE));
            } else if (1 == tm_rank) {
                TM_MPI(MPI_Send(data, of[i].len, MPI_BYTE, 0, TAG, pairs));
            }
        }
    }
    free(data);
}

/* All wait for the last, which computes. */
static void late(void)
{
    char token = 0;

    for (int i = 0; i < 4; i++) {
        if (tm_rank == tm_size - 1) {
            tm_spin_us(700000);
            for (int to = 0; to < tm_size - 1; to++) {
                TM_MPI(MPI_Send(&token, 1, MPI_BYTE, to, TAG, pairs));
            }
        } else {
            TM_MPI(MPI_Recv(&token, 1, MPI_BYTE, tm_size - 1, TAG, pairs, MPI_STATUS_IGNORE));
        }
    }
}

/* Messages that are announced. */
static void large(void)
{
    const size_t size = 4 << 20;
    char *data = tm_calloc(size, 1);

    for (int i = 0; i < 4; i++) {
        if (0 == tm_rank) {
            TM_MPI(MPI_Recv(data, tm_int(size), MPI_BYTE, 1, TAG, pairs, MPI_STATUS_IGNORE));
        } else if (1 == tm_rank) {
            TM_MPI(MPI_Send(data, tm_int(size), MPI_BYTE, 0, TAG, pairs));
        }
    }
    free(data);
}

static const struct {
    const char *name;
    void (*run)(void);
} cases[] = {
    {"expected", expected}, {"unexpected", unexpected}, {"held", held}, {"queued", queued},
    {"large", large},       {"sizes", sizes},           {"late", late},
};

int main(int argc, char **argv)
{
    tm_init(&argc, &argv, "report");
    TM_MPI(MPI_Comm_dup(MPI_COMM_WORLD, &pairs));
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        if (tm_size > 1 && argc > 1 && 0 == strcmp(argv[1], cases[i].name)) {
            cases[i].run();
        }
    }
    TM_MPI(MPI_Comm_free(&pairs));
    return tm_finish();
}
