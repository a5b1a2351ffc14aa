/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Nobody starves (MPI 4.0, 3.5 progress and 3.7.5: MPI_Waitsome and MPI_Testsome must be fair):
 * while some ranks flood rank 0 without end, a message of another rank is received, probed for, and
 * completes its send; and with receives from any source each sender gets its turn. The flood ends
 * only when rank 0 has what it waits for.
 *
 * args: [size of the messages of the flood]
 */
/* TEST: np=3,4 args="8" timeout=60 quick=yes */
/* TEST: np=3 args="3000" timeout=60 */
/* TEST: np=3 args="3000" env="OMPI_MCA_pml_tm_unexpected_max=65536" timeout=60 */
#include "tm_test.h"

enum { FLOOD = 1, QUIET, STOP };

enum { WINDOW = 16, WITHIN = 20 /* seconds */ };

enum { WAITSOME, TESTSOME, TEST_LAST, PROBE, MPROBE, BLOCKING, ANY_SOURCE, NWAYS };

static const char *const way_name[NWAYS] = {"MPI_Waitsome",
                                            "MPI_Testsome",
                                            "MPI_Test",
                                            "MPI_Iprobe",
                                            "MPI_Improbe",
                                            "MPI_Recv",
                                            "receives from any source"};

static MPI_Comm comm, ctl;
static size_t size;
static unsigned char *bufs[WINDOW + 1];

/* Rank 0: end the flood, and take what is left of it. */
static void stop_flood(const int *from_each)
{
    int left[64], total;
    MPI_Status st;

    for (int r = 1; r < tm_size; r++) {
        TM_MPI(MPI_Send(NULL, 0, MPI_BYTE, r, STOP, ctl));
    }
    for (int r = 1; r < tm_size; r++) {
        TM_MPI(MPI_Recv(&total, 1, MPI_INT, r, STOP, ctl, &st));
        left[r] = total - from_each[r];
        for (int i = 0; i < left[r]; i++) {
            TM_MPI(MPI_Recv(bufs[0], tm_int(size), MPI_BYTE, r, FLOOD, comm, &st));
        }
    }
}

/*
 * The others: send until a message says stop; the last rank is the quiet one unless all take part.
 */
static void flood(void)
{
    MPI_Request req[WINDOW], stop;
    unsigned char *buf = tm_calloc(size, 1);
    int sent = 0, flag = 0, at = 0;

    for (int i = 0; i < WINDOW; i++) {
        req[i] = MPI_REQUEST_NULL;
    }
    TM_MPI(MPI_Irecv(NULL, 0, MPI_BYTE, 0, STOP, ctl, &stop));
    while (!flag) {
        int is_done;

        TM_MPI(MPI_Test(&req[at], &is_done, MPI_STATUS_IGNORE));
        if (is_done) {
            TM_MPI(MPI_Isend(buf, tm_int(size), MPI_BYTE, 0, FLOOD, comm, &req[at]));
            sent++;
            at = (at + 1) % WINDOW;
        }
        TM_MPI(MPI_Test(&stop, &flag, MPI_STATUS_IGNORE));
    }
    TM_MPI(MPI_Send(&sent, 1, MPI_INT, 0, STOP, ctl));
    TM_MPI(MPI_Waitall(WINDOW, req, MPI_STATUSES_IGNORE));
    free(buf);
}

/*
 * One message, synchronous: that it is received in the end is not enough, the sender must learn of
 * it while the flood goes on.
 */
static void quiet(int way, int round)
{
    int note = 1;

    usleep(2000); /* the flood has begun */
    if (ANY_SOURCE != way) {
        TM_MPI(MPI_Ssend(&round, 1, MPI_INT, 0, QUIET, comm));
        TM_MPI(MPI_Send(&note, 1, MPI_INT, 0, QUIET, ctl));
        TM_MPI(MPI_Recv(NULL, 0, MPI_BYTE, 0, STOP, ctl, MPI_STATUS_IGNORE));
        note = 0;
        TM_MPI(MPI_Send(&note, 1, MPI_INT, 0, STOP, ctl));
    } else {
        flood();
    }
}

/* Rank 0: receive the flood through a window of requests, with the quiet one's behind it. */
static void by_requests(int way, int from, int round, int *from_each)
{
    MPI_Request req[WINDOW + 2];
    MPI_Status st[WINDOW + 2];
    int n = WINDOW + 2, index[WINDOW + 2], some, got = -1, note;
    bool has_message = false, has_word = false;
    double end = tm_now() + WITHIN;

    for (int i = 0; i < WINDOW; i++) {
        TM_MPI(MPI_Irecv(bufs[i], tm_int(size), MPI_BYTE, MPI_ANY_SOURCE, FLOOD, comm, &req[i]));
    }
    TM_MPI(MPI_Irecv(&got, 1, MPI_INT, from, QUIET, comm, &req[WINDOW]));
    TM_MPI(MPI_Irecv(&note, 1, MPI_INT, from, QUIET, ctl, &req[WINDOW + 1]));
    while (!(has_message && has_word) && tm_now() < end) {
        if (WAITSOME == way) {
            TM_MPI(MPI_Waitsome(n, req, &some, index, st));
        } else if (TESTSOME == way) {
            TM_MPI(MPI_Testsome(n, req, &some, index, st));
        } else {
            int flag;

            some = 0;
            for (int i = 0; i < n; i++) {
                if (MPI_REQUEST_NULL != req[i]) {
                    TM_MPI(MPI_Test(&req[i], &flag, &st[some]));
                    if (flag) {
                        index[some++] = i;
                    }
                }
            }
        }
        for (int k = 0; k < some; k++) {
            has_message |= WINDOW == index[k];
            has_word |= index[k] == WINDOW + 1;
            if (index[k] < WINDOW) {
                from_each[st[k].MPI_SOURCE]++;
                TM_MPI(MPI_Irecv(bufs[index[k]], tm_int(size), MPI_BYTE, MPI_ANY_SOURCE, FLOOD,
                                 comm, &req[index[k]]));
            }
        }
    }
    if (!TM_CHECK(
            has_message && has_word,
            "%s: the message of rank %d did not come in %d s of flood (message %d, end of send %d)",
            way_name[way], from, WITHIN, has_message, has_word)) {
        MPI_Abort(MPI_COMM_WORLD, 3);
    }
    TM_CHECK(got == round, "%s: got %d, expected %d", way_name[way], got, round);
    for (int i = 0; i < WINDOW; i++) {
        TM_MPI(MPI_Cancel(&req[i]));
        from_each[tm_wait_cancelled(&req[i], &st[0]) ? 0 : st[0].MPI_SOURCE]++;
    }
}

/* Rank 0: nothing of the flood is received until the quiet one's message was. */
static void by_probe(int way, int from, int round)
{
    double end = tm_now() + WITHIN;
    int flag = 0, got = -1, note;
    MPI_Message msg;
    MPI_Status st;

    while (BLOCKING != way && !flag && tm_now() < end) {
        if (PROBE == way) {
            TM_MPI(MPI_Iprobe(from, QUIET, comm, &flag, &st));
        } else {
            TM_MPI(MPI_Improbe(MPI_ANY_SOURCE, QUIET, comm, &flag, &msg, &st));
        }
    }
    if (BLOCKING != way &&
        !TM_CHECK(flag, "%s: the message of rank %d was not seen in %d s of flood", way_name[way],
                  from, WITHIN)) {
        MPI_Abort(MPI_COMM_WORLD, 3);
    }
    if (MPROBE == way) {
        TM_MPI(MPI_Mrecv(&got, 1, MPI_INT, &msg, &st));
    } else {
        TM_MPI(MPI_Recv(&got, 1, MPI_INT, from, QUIET, comm, &st));
    }
    TM_CHECK(got == round, "%s: got %d, expected %d", way_name[way], got, round);
    TM_MPI(MPI_Recv(&note, 1, MPI_INT, from, QUIET, ctl, &st));
}

/* Rank 0: from anybody, until each has had 500 turns. */
static void from_any(int *from_each)
{
    double end = tm_now() + WITHIN;
    bool all = false;
    MPI_Status st;

    while (!all && tm_now() < end) {
        TM_MPI(MPI_Recv(bufs[0], tm_int(size), MPI_BYTE, MPI_ANY_SOURCE, FLOOD, comm, &st));
        from_each[st.MPI_SOURCE]++;
        all = true;
        for (int r = 1; r < tm_size; r++) {
            all = all && from_each[r] >= 500;
        }
    }
    for (int r = 1; r < tm_size; r++) {
        TM_CHECK(from_each[r] >= 500, "any source: %d messages of rank %d in %d s", from_each[r], r,
                 WITHIN);
    }
}

int main(int argc, char **argv)
{
    tm_init(&argc, &argv, "fairness");
    size = (size_t) tm_arg(argc, argv, 1, 8);
    if (tm_size < 3 || tm_size > 64) {
        return tm_skip("this needs 3 to 64 ranks");
    }
    TM_MPI(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
    TM_MPI(MPI_Comm_dup(MPI_COMM_WORLD, &ctl));
    for (int i = 0; i <= WINDOW; i++) {
        bufs[i] = tm_calloc(size, 1);
    }
    for (int round = 0; round < 3 * NWAYS; round++) {
        int way = round % NWAYS, from = 1 + round % (tm_size - 1), from_each[64] = {0};

        TM_MPI(MPI_Barrier(ctl));
        if (0 == tm_rank) {
            if (way <= TEST_LAST) {
                by_requests(way, from, round, from_each);
            } else if (way <= BLOCKING) {
                by_probe(way, from, round);
            } else {
                from_any(from_each);
            }
            stop_flood(from_each);
        } else if (tm_rank == from) {
            quiet(way, round);
        } else {
            flood();
        }
    }
    for (int i = 0; i <= WINDOW; i++) {
        free(bufs[i]);
    }
    TM_MPI(MPI_Comm_free(&comm));
    TM_MPI(MPI_Comm_free(&ctl));
    return tm_finish();
}
