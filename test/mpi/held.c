/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Messages that a receiver with little memory for unexpected ones holds back, of a length that is
 * sent while it is packed.  "blocking": one MPI_Send after the other, to a receiver that makes
 * progress but receives late.  "matched": the last of a window has begun when it is held back, and
 * its receive is posted before those of the messages ahead of it.
 *
 * args: blocking or matched
 */
/* TEST: np=2 args="blocking" env="OMPI_MCA_pml_tm_wait=spin OMPI_MCA_pml_tm_unexpected_max=1000000" timeout=60 */
/* TEST: np=2 args="matched" env="OMPI_MCA_pml_tm_wait=spin OMPI_MCA_pml_tm_unexpected_max=65536" timeout=60 */
#include "tm_counter.h"

enum { TAG = 7, LAST = 1000, MANY = 100, LONG = 65536, MIN = 12, MAX = 70, SHORT = 8000 };

static char shorts[MAX][SHORT], last[2 * LONG];

/* Make progress, and receive nothing. */
static void poll_for(double seconds)
{
    const double start = MPI_Wtime();
    int is_there;

    while (MPI_Wtime() - start < seconds) {
        TM_MPI(MPI_Iprobe(0, 0, MPI_COMM_SELF, &is_there, MPI_STATUS_IGNORE));
    }
}

static void blocking(void)
{
    char *buf = tm_alloc(LONG);

    if (1 == tm_rank) {
        poll_for(0.5);
    }
    for (int i = 0; i < MANY; i++) {
        const uint64_t key = tm_key(0, 1, TAG, i);
        if (0 == tm_rank) {
            tm_fill(buf, LONG, key);
            TM_MPI(MPI_Send(buf, LONG, MPI_BYTE, 1, TAG, MPI_COMM_WORLD));
        } else {
            TM_MPI(MPI_Recv(buf, LONG, MPI_BYTE, 0, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
            tm_expect_data(buf, LONG, key, "message");
        }
    }
    tm_free(buf);
}

static void send_window(int n)
{
    MPI_Request req[MAX];

    for (int i = 0; i < n; i++) {
        TM_MPI(MPI_Isend(shorts[i], SHORT, MPI_BYTE, 1, i, MPI_COMM_WORLD, &req[i]));
    }
    memset(last, n, sizeof(last));
    TM_MPI(MPI_Send(last, sizeof(last), MPI_BYTE, 1, LAST, MPI_COMM_WORLD));
    TM_MPI(MPI_Waitall(n, req, MPI_STATUSES_IGNORE));
}

/* Those that came, then the last one, then the others. */
static void receive_window(int n, tm_counter_t *unexpected)
{
    const unsigned long long before = tm_counter_read(unexpected);
    int came, is_done = 0;
    MPI_Request req;

    poll_for(0.02);
    came = (int) (tm_counter_read(unexpected) - before);
    came = came < n ? came : n;
    for (int i = 0; i < came; i++) {
        TM_MPI(MPI_Recv(shorts[0], SHORT, MPI_BYTE, 0, i, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    }
    usleep(5000); /* the sender goes on */
    TM_MPI(MPI_Irecv(last, sizeof(last), MPI_BYTE, 0, LAST, MPI_COMM_WORLD, &req));
    while (!is_done) {
        TM_MPI(MPI_Test(&req, &is_done, MPI_STATUS_IGNORE));
    }
    TM_CHECK(n == last[0] && n == last[sizeof(last) - 1], "window of %d: wrong data", n);
    for (int i = came; i < n; i++) {
        TM_MPI(MPI_Recv(shorts[0], SHORT, MPI_BYTE, 0, i, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    }
}

static void matched(void)
{
    tm_counter_t unexpected = tm_counter_open("pml_tm_unexpected");

    for (int n = MIN; n < MAX; n++) {
        TM_MPI(MPI_Barrier(MPI_COMM_WORLD));
        if (0 == tm_rank) {
            send_window(n);
        } else {
            receive_window(n, &unexpected);
        }
    }
    tm_counter_close(&unexpected);
}

int main(int argc, char **argv)
{
    tm_init(&argc, &argv, "held");
    if (argc > 1 && 0 == strcmp("matched", argv[1])) {
        matched();
    } else {
        blocking();
    }
    return tm_finish();
}
