/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Buffered sends: MPI_Buffer_detach waits for messages that nobody has received yet, an exhausted
 * buffer is an error that spoils nothing, space comes back, and the user's buffer may be
 * overwritten at once.
 */
/* TEST: np=1,2,4 timeout=60 quick=yes */
#include "tm_test.h"

static MPI_Comm comm, ctl;

/*
 * pml/ob1 of 4.1.4 loses a sequence number when a buffered send fails, and then delivers nothing
 * more on that communicator between the two: give it a new one.
 */
static void renew_comm(void)
{
    if (!tm_is_strict()) {
        TM_MPI(MPI_Comm_free(&comm));
        TM_MPI(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
        TM_MPI(MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN));
    }
}

/*
 * More than fits: each success must arrive, each failure must be MPI_ERR_BUFFER and leave nothing.
 */
static void exhaust(size_t n, bool nonblocking)
{
    enum { MAX = 100 };
    size_t size = 10 * (n + MPI_BSEND_OVERHEAD) + 3;
    void *buf = tm_buffer_attach(size);
    unsigned char *out = tm_alloc(n), *in = tm_alloc(n);
    int sent = 0, peer_sent;

    for (int i = 0; i < MAX; i++) {
        MPI_Request req = MPI_REQUEST_NULL;
        int rc;

        tm_fill(out, n, tm_key(tm_rank, tm_dst, 1, sent));
        if (nonblocking) {
            rc = MPI_Ibsend(out, (int) n, MPI_BYTE, tm_dst, 1, comm, &req);
        } else {
            rc = MPI_Bsend(out, (int) n, MPI_BYTE, tm_dst, 1, comm);
        }
        memset(out, 0x33, nonblocking ? 0 : n);
        if (MPI_SUCCESS == rc) {
            if (nonblocking) {
                TM_MPI(MPI_Wait(&req, MPI_STATUS_IGNORE));
            }
            sent++;
        } else {
            TM_CHECK(MPI_ERR_BUFFER == tm_class(rc),
                     "buffered send into a full buffer: error class %d, expected MPI_ERR_BUFFER",
                     tm_class(rc));
            if (!tm_is_strict()) {
                break;
            }
        }
    }
    /*
     * Where messages stay with the sender, MAX of them cannot have fitted; where they are copied
     * away at once, they can.
     */
    TM_CHECK(sent >= 10, "only %d buffered sends of %zu bytes fitted, expected at least 10", sent,
             n);
    peer_sent = tm_exchange(sent, tm_dst, tm_src, 2, ctl);
    for (int i = 0; i < peer_sent; i++) {
        tm_recv(in, n, tm_src, 1, comm, tm_key(tm_src, tm_rank, 1, i), "buffered message");
    }
    tm_buffer_detach(buf, size);
    /* The space is whole again. */
    renew_comm();
    buf = tm_buffer_attach(size);
    for (int i = 0; i < 10; i++) {
        tm_fill(out, n, tm_key(tm_rank, tm_dst, 3, i));
        TM_CHECK(MPI_SUCCESS == MPI_Bsend(out, (int) n, MPI_BYTE, tm_dst, 3, comm),
                 "MPI_Bsend %d after the buffer was full", i);
    }
    for (int i = 0; i < 10; i++) {
        tm_recv(in, n, tm_src, 3, comm, tm_key(tm_src, tm_rank, 3, i), "buffered message");
    }
    tm_buffer_detach(buf, size);
    tm_free(out);
    tm_free(in);
    TM_MPI(MPI_Barrier(ctl));
}

/*
 * A buffered send for which there is too little buffer: an error, or, where no buffer is needed, a
 * message.
 */
static void try_bsend(size_t n)
{
    unsigned char *out = tm_alloc_data(n, tm_key(tm_rank, tm_dst, 4, 0)), *in = tm_alloc(n);
    int rc;

    rc = MPI_Bsend(out, (int) n, MPI_BYTE, tm_dst, 4, comm);
    TM_CHECK(MPI_SUCCESS == rc || MPI_ERR_BUFFER == tm_class(rc),
             "MPI_Bsend: error class %d, expected MPI_ERR_BUFFER", tm_class(rc));
    memset(out, 0x33, n);
    if (tm_exchange(MPI_SUCCESS == rc, tm_dst, tm_src, 2, ctl)) {
        tm_recv(in, n, tm_src, 4, comm, tm_key(tm_src, tm_rank, 4, 0), "buffered message");
    }
    tm_free(out);
    tm_free(in);
    renew_comm();
}

static void too_large(void)
{
    void *buf = tm_buffer_attach(5000);
    void *again = malloc(1000);

    try_bsend(10000);
    try_bsend(1000000);
    /* Open MPI 4.1.4 returns here a number that is no MPI error code. */
    TM_CHECK(MPI_SUCCESS != MPI_Buffer_attach(again, 1000), "a second MPI_Buffer_attach succeeded");
    free(again);
    tm_buffer_detach(buf, 5000);
    try_bsend(0);
    try_bsend(100);
    try_bsend(100000);
    TM_MPI(MPI_Barrier(ctl));
}

/* The sender detaches, and so waits, while the receiver does something else first. */
static void detach_waits(size_t n, int count)
{
    size_t size = (size_t) count * (n + MPI_BSEND_OVERHEAD + 64);
    unsigned char *out = tm_alloc(n), **in = tm_calloc((size_t) count, sizeof(*in));
    MPI_Request *req = tm_calloc((size_t) count, sizeof(*req));
    void *buf = tm_buffer_attach(size);

    for (int i = 0; i < count; i++) {
        tm_fill(out, n, tm_key(tm_rank, tm_dst, 5, i));
        TM_MPI(MPI_Bsend(out, (int) n, MPI_BYTE, tm_dst, 5, comm));
    }
    memset(out, 0x77, n);
    if (1 == tm_rank % 2) {
        usleep(50000);
    }
    /*
     * Receives are posted, but not waited for: the peer's detach needs our progress, ours needs the
     * peer's.
     */
    for (int i = 0; i < count; i++) {
        in[i] = tm_alloc(n);
        TM_MPI(MPI_Irecv(in[i], (int) n, MPI_BYTE, tm_src, 5, comm, &req[i]));
    }
    tm_buffer_detach(buf, size);
    for (int i = 0; i < count; i++) {
        tm_wait_recv(&req[i], in[i], tm_src, 5, n, tm_key(tm_src, tm_rank, 5, i));
        tm_free(in[i]);
    }
    free(in);
    free(req);
    tm_free(out);
    TM_MPI(MPI_Barrier(ctl));
}

/* A long stream through a small buffer, whose space comes back as messages leave. */
static void stream(int count, size_t max)
{
    enum { CREDIT = 8 };
    size_t size = 3 * CREDIT * (max + MPI_BSEND_OVERHEAD);
    void *buf = tm_buffer_attach(size);
    unsigned char *out = tm_alloc(max), *in = tm_alloc(max);
    tm_rng_t to = tm_rng(3, (uint64_t) tm_rank), from = tm_rng(3, (uint64_t) tm_src);

    for (int i = 0; i < count; i += CREDIT) {
        for (int k = i; k < i + CREDIT; k++) {
            size_t n = tm_rand_size(&to, max);
            double end = tm_now() + 20;
            int rc = MPI_ERR_BUFFER, flag;

            tm_fill(out, n, tm_key(tm_rank, tm_dst, 6, k));
            /*
             * The receiver has the earlier ones, but their space need not be known to be free
             * before some progress.
             */
            while (tm_now() < end &&
                   MPI_SUCCESS != (rc = MPI_Bsend(out, (int) n, MPI_BYTE, tm_dst, 6, comm))) {
                TM_MPI(MPI_Iprobe(tm_src, 31, ctl, &flag, MPI_STATUS_IGNORE));
            }
            TM_CHECK(MPI_SUCCESS == rc, "MPI_Bsend %d: class %d for 20 s", k, tm_class(rc));
        }
        for (int k = i; k < i + CREDIT; k++) {
            size_t n = tm_rand_size(&from, max);
            MPI_Status st;

            tm_status_reset(&st);
            TM_MPI(MPI_Recv(in, (int) max, MPI_BYTE, tm_src, 6, comm, &st));
            tm_expect_message(&st, in, tm_src, 6, n, tm_key(tm_src, tm_rank, 6, k),
                              "stream of buffered messages");
        }
        if (0 == i % (4 * CREDIT)) {
            TM_MPI(MPI_Barrier(ctl));
        }
    }
    tm_buffer_detach(buf, size);
    tm_free(out);
    tm_free(in);
    TM_MPI(MPI_Barrier(ctl));
}

int main(int argc, char **argv)
{
    tm_init(&argc, &argv, "buffered");
    TM_MPI(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
    TM_MPI(MPI_Comm_dup(MPI_COMM_WORLD, &ctl));
    TM_MPI(MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN));
    for (size_t n = 1; n < 3000000; n *= 13) {
        exhaust(n, false);
        exhaust(n, true);
        detach_waits(n, n < 100000 ? 200 : 5);
    }
    too_large();
    stream(2000, 100);
    stream(400, 100000);
    TM_MPI(MPI_Comm_free(&comm));
    TM_MPI(MPI_Comm_free(&ctl));
    return tm_finish();
}
