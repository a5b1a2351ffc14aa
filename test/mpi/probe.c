/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Probes of several messages: the order in which they see them; matched messages received late, out
 * of order, and when their communicator was freed; MPI_MESSAGE_NO_PROC. (Each probe of one message,
 * by every pattern, from 0 bytes to rendezvous sizes: basic.c; from anybody: flood_small.c,
 * random.c.)
 *
 * args: [largest size]
 */
/* TEST: np=1,2,4,8 args="1048577" timeout=60 quick=yes */
/* TEST: np=2 args="4194305" env="OMPI_MCA_pml_tm_shm_single_copy=none" timeout=60 */
/* TEST: np=2 args="1048577" env="OMPI_MCA_pml_tm_eager_limit=0" timeout=60 quick=yes */
#include "tm_test.h"

static MPI_Comm comm;

/* Nothing was sent: the non-blocking probes find nothing, whatever the pattern. */
static void nothing_there(void)
{
    for (int i = 0; i < 100; i++) {
        int flag = 1, from = 0 == i % 2 ? tm_src : MPI_ANY_SOURCE,
            tag = i % 4 < 2 ? 1 : MPI_ANY_TAG;
        MPI_Message msg = MPI_MESSAGE_NO_PROC;
        MPI_Status st;

        TM_MPI(MPI_Iprobe(from, tag, comm, &flag, &st));
        TM_CHECK(!flag, "MPI_Iprobe found a message that nobody sent");
        flag = 1;
        TM_MPI(MPI_Improbe(from, tag, comm, &flag, &msg, &st));
        TM_CHECK(!flag && MPI_MESSAGE_NULL == msg, "MPI_Improbe found a message that nobody sent");
    }
    TM_MPI(MPI_Barrier(comm));
}

/*
 * A probe shows the first message in order and goes on showing it; a matched probe takes it away.
 */
static void order(size_t n)
{
    enum { COUNT = 12 };
    unsigned char *out[COUNT], *in[COUNT];
    MPI_Message msg[COUNT];
    MPI_Request req[COUNT], rreq[COUNT];
    MPI_Status st;

    for (int i = 0; i < COUNT; i++) {
        size_t len = 1 == i % 3 ? n : (size_t) i;

        out[i] = tm_alloc(n);
        in[i] = tm_alloc(n);
        tm_fill(out[i], len, tm_key(tm_rank, tm_dst, i, 5));
        TM_MPI(MPI_Isend(out[i], (int) len, MPI_BYTE, tm_dst, i, comm, &req[i]));
    }
    for (int i = 0; i < COUNT; i++) {
        size_t len = 1 == i % 3 ? n : (size_t) i;

        for (int k = 0; k < 3; k++) {
            tm_status_reset(&st);
            TM_MPI(MPI_Probe(0 == k ? tm_src : MPI_ANY_SOURCE, MPI_ANY_TAG, comm, &st));
            tm_expect_single(&st, tm_src, i, len);
        }
        if (i == COUNT / 2) {
            /*
             * An ordinary receive takes the next one although earlier messages have been matched
             * but not received.
             */
            tm_status_reset(&st);
            TM_MPI(MPI_Recv(in[i], (int) n, MPI_BYTE, MPI_ANY_SOURCE, MPI_ANY_TAG, comm, &st));
            tm_expect_message(&st, in[i], tm_src, i, len, tm_key(tm_src, tm_rank, i, 5),
                              "receive between matched messages");
            msg[i] = MPI_MESSAGE_NULL;
        } else {
            TM_MPI(MPI_Mprobe(tm_src, MPI_ANY_TAG, comm, &msg[i], &st));
        }
    }
    /* Receive in reverse order, every second without waiting. */
    for (int i = COUNT - 1; i >= 0; i--) {
        size_t len = 1 == i % 3 ? n : (size_t) i;

        rreq[i] = MPI_REQUEST_NULL;
        if (i == COUNT / 2) {
            continue;
        }
        tm_status_reset(&st);
        if (0 == i % 2) {
            TM_MPI(MPI_Imrecv(in[i], (int) n, MPI_BYTE, &msg[i], &rreq[i]));
        } else {
            TM_MPI(MPI_Mrecv(in[i], (int) n, MPI_BYTE, &msg[i], &st));
            tm_expect_message(&st, in[i], tm_src, i, len, tm_key(tm_src, tm_rank, i, 5),
                              "matched message received late");
        }
    }
    for (int i = 0; i < COUNT; i++) {
        if (MPI_REQUEST_NULL != rreq[i]) {
            tm_wait_recv(&rreq[i], in[i], tm_src, i, 1 == i % 3 ? n : (size_t) i,
                         tm_key(tm_src, tm_rank, i, 5));
        }
    }
    TM_MPI(MPI_Waitall(COUNT, req, MPI_STATUSES_IGNORE));
    tm_free_all(out, COUNT);
    tm_free_all(in, COUNT);
    TM_MPI(MPI_Barrier(comm));
}

/* Matched messages kept while posted receives and other messages pass by. */
static void keep_matched(size_t n)
{
    enum { ROUNDS = 200 };
    unsigned char *out = tm_alloc(n), *in = tm_alloc(n), *small = tm_alloc(64), *big = tm_alloc(n);
    MPI_Message msg;
    MPI_Request req, sreq;
    MPI_Status st;

    tm_fill(out, n, tm_key(tm_rank, tm_dst, 3, 6));
    TM_MPI(MPI_Isend(out, (int) n, MPI_BYTE, tm_dst, 3, comm, &req));
    TM_MPI(MPI_Mprobe(tm_src, 3, comm, &msg, &st));
    for (int i = 0; i < ROUNDS; i++) {
        size_t len = 49 == i % 50 ? n : (size_t) (i % 64);
        unsigned char *to = len > 64 ? big : small,
                      *from = tm_alloc_data(len, tm_key(tm_rank, tm_dst, 3, 100 + i));

        TM_MPI(MPI_Isend(from, (int) len, MPI_BYTE, tm_dst, 3, comm, &sreq));
        tm_recv(to, len, tm_src, 3, comm, tm_key(tm_src, tm_rank, 3, 100 + i),
                "message after a matched one");
        TM_MPI(MPI_Wait(&sreq, MPI_STATUS_IGNORE));
        tm_free(from);
    }
    tm_status_reset(&st);
    TM_MPI(MPI_Mrecv(in, (int) n, MPI_BYTE, &msg, &st));
    tm_expect_message(&st, in, tm_src, 3, n, tm_key(tm_src, tm_rank, 3, 6),
                      "matched message kept for long");
    TM_MPI(MPI_Wait(&req, MPI_STATUS_IGNORE));
    tm_free(out);
    tm_free(in);
    tm_free(small);
    tm_free(big);
    TM_MPI(MPI_Barrier(comm));
}

/*
 * A matched message outlives its communicator's handle: MPI_Comm_free lets pending communication
 * complete (MPI 4.0, 7.4.3).  Truncated receives look at the freed communicator's error handler;
 * another communicator, with another handler, is made in between.  The last ones are not truncated:
 * Open MPI looks at the handler after it has freed the request, the last to hold the communicator.
 */
static void freed_before_received(size_t n)
{
    enum { COUNT = 4 };
    unsigned char *out = tm_alloc(n), *in = tm_alloc(n);
    MPI_Comm freed, other;
    MPI_Message msg[COUNT];
    MPI_Request sreq[COUNT], rreq;
    MPI_Status st;

    TM_MPI(MPI_Comm_dup(comm, &freed));
    TM_MPI(MPI_Comm_set_errhandler(freed, MPI_ERRORS_RETURN));
    tm_fill(out, n, tm_key(tm_rank, tm_dst, 8, 6));
    for (int i = 0; i < COUNT; i++) {
        TM_MPI(MPI_Isend(out, (int) n, MPI_BYTE, tm_dst, i, freed, &sreq[i]));
    }
    for (int i = 0; i < COUNT; i++) {
        TM_MPI(MPI_Mprobe(tm_src, i, freed, &msg[i], &st));
    }
    TM_MPI(MPI_Comm_free(&freed));
    TM_MPI(MPI_Comm_dup(comm, &other));
    TM_MPI(MPI_Comm_set_errhandler(other, MPI_ERRORS_ARE_FATAL));
    for (int i = 0; i < COUNT; i++) {
        size_t room = i < 2 ? n - 1 : n;
        int rc, want = i < 2 ? MPI_ERR_TRUNCATE : MPI_SUCCESS;

        memset(in, 0xee, n);
        tm_status_reset(&st);
        if (0 == i % 2) {
            rc = MPI_Mrecv(in, (int) room, MPI_BYTE, &msg[i], &st);
        } else {
            TM_MPI(MPI_Imrecv(in, (int) room, MPI_BYTE, &msg[i], &rreq));
            rc = MPI_Wait(&rreq, &st);
            if (MPI_REQUEST_NULL != rreq) { /* Open MPI keeps it after an error */
                TM_MPI(MPI_Request_free(&rreq));
            }
        }
        TM_CHECK(want == tm_class(rc), "a message of a freed communicator: error class %d, not %d",
                 tm_class(rc), want);
        tm_expect_data(in, room, tm_key(tm_src, tm_rank, 8, 6), "message of a freed communicator");
    }
    TM_MPI(MPI_Waitall(COUNT, sreq, MPI_STATUSES_IGNORE));
    TM_MPI(MPI_Comm_free(&other));
    tm_free(out);
    tm_free(in);
    TM_MPI(MPI_Barrier(comm));
}

static void no_proc(void)
{
    MPI_Message msg = MPI_MESSAGE_NULL;
    MPI_Request req;
    MPI_Status st;
    int flag = 0;

    tm_status_reset(&st);
    TM_MPI(MPI_Probe(MPI_PROC_NULL, 1, comm, &st));
    tm_expect_proc_null(&st);
    tm_status_reset(&st);
    TM_MPI(MPI_Iprobe(MPI_PROC_NULL, 1, comm, &flag, &st));
    TM_CHECK(flag, "MPI_Iprobe of MPI_PROC_NULL found nothing");
    tm_expect_proc_null(&st);
    tm_status_reset(&st);
    TM_MPI(MPI_Mprobe(MPI_PROC_NULL, 1, comm, &msg, &st));
    TM_CHECK(MPI_MESSAGE_NO_PROC == msg,
             "MPI_Mprobe of MPI_PROC_NULL did not give MPI_MESSAGE_NO_PROC");
    tm_expect_proc_null(&st);
    tm_status_reset(&st);
    TM_MPI(MPI_Mrecv(NULL, 0, MPI_BYTE, &msg, &st));
    TM_CHECK(MPI_MESSAGE_NULL == msg, "the message is not null after MPI_Mrecv");
    tm_expect_proc_null(&st);
    flag = 0;
    TM_MPI(MPI_Improbe(MPI_PROC_NULL, MPI_ANY_TAG, comm, &flag, &msg, &st));
    TM_CHECK(flag && MPI_MESSAGE_NO_PROC == msg,
             "MPI_Improbe of MPI_PROC_NULL did not give MPI_MESSAGE_NO_PROC");
    TM_MPI(MPI_Imrecv(NULL, 0, MPI_BYTE, &msg, &req));
    tm_status_reset(&st);
    TM_MPI(MPI_Wait(&req, &st));
    tm_expect_proc_null(&st);
}

int main(int argc, char **argv)
{
    size_t max;

    tm_init(&argc, &argv, "probe");
    max = (size_t) tm_arg(argc, argv, 1, 1048577);
    TM_MPI(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
    nothing_there();
    order(30);
    order(10000);
    order(200000);
    keep_matched(10);
    keep_matched(300000);
    freed_before_received(10);
    freed_before_received(5000);
    freed_before_received(max);
    no_proc();
    nothing_there();
    TM_MPI(MPI_Comm_free(&comm));
    return tm_finish();
}
