/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Every send mode, blocking and not, against every kind of receive, between all pairs of ranks and
 * to self, with sizes around the protocol thresholds.
 *
 * args: [largest size in bytes] [first size: test only this and the next two]
 */
/* TEST: np=1,2,4 args="4194305" timeout=60 quick=yes */
/* TEST: np=8 args="1048577" timeout=60 quick=yes */
/* TEST: np=2 args="4194305" env="OMPI_MCA_pml_tm_shm_ring_size=16384" timeout=60 */
/* TEST: np=2 args="4194305" env="OMPI_MCA_pml_tm_shm_single_copy=none" timeout=60 quick=yes */
/* TEST: np=2,4 args="65537" env="OMPI_MCA_pml_tm_eager_limit=0" timeout=60 */
/* TEST: np=2,3 pml=ob1 env="OMPI_MCA_btl=fabric OMPI_MCA_mpi_yield_when_idle=1" timeout=120 */
#include "tm_test.h"

enum { MODE_STANDARD, MODE_BUFFERED, MODE_SYNCHRONOUS, MODE_READY, NMODES };

enum { TAG_READY = 32000 };

typedef int (*send_fn_t)(const void *, int, MPI_Datatype, int, int, MPI_Comm);
typedef int (*isend_fn_t)(const void *, int, MPI_Datatype, int, int, MPI_Comm, MPI_Request *);

static const send_fn_t send_fn[NMODES] = {MPI_Send, MPI_Bsend, MPI_Ssend, MPI_Rsend};
static const isend_fn_t isend_fn[NMODES] = {MPI_Isend, MPI_Ibsend, MPI_Issend, MPI_Irsend};

static MPI_Comm comm;
static unsigned char *sendbuf, *recvbuf;
static void *bsend_buf;
static int next_tag;

static void attach(int mode, size_t n)
{
    if (MODE_BUFFERED == mode) {
        bsend_buf = tm_buffer_attach(n + MPI_BSEND_OVERHEAD);
    }
}

static void detach(int mode, size_t n)
{
    if (MODE_BUFFERED == mode) {
        tm_buffer_detach(bsend_buf, n + MPI_BSEND_OVERHEAD);
    }
}

/* For ready mode: src knows that dst has posted its receive. */
static void handshake(int mode, int src, int dst)
{
    if (MODE_READY == mode) {
        MPI_Status st;

        tm_status_reset(&st);
        TM_MPI(MPI_Sendrecv(NULL, 0, MPI_BYTE, src, TAG_READY, NULL, 0, MPI_BYTE, dst, TAG_READY,
                            comm, &st));
        tm_expect_single(&st, dst, TAG_READY, 0);
    }
}

/* Send to dst while receiving from src. */
static void irecv_then_send(int mode, int src, int dst, size_t n, bool nonblocking)
{
    int tag = next_tag++;
    MPI_Request rreq, sreq;
    MPI_Status st;

    tm_fill(sendbuf, n, tm_key(tm_rank, dst, tag, 0));
    memset(recvbuf, 0xee, n);
    attach(mode, n);
    TM_MPI(MPI_Irecv(recvbuf, (int) n, MPI_BYTE, src, tag, comm, &rreq));
    handshake(mode, src, dst);
    if (nonblocking) {
        TM_MPI(isend_fn[mode](sendbuf, (int) n, MPI_BYTE, dst, tag, comm, &sreq));
        tm_status_reset(&st);
        TM_MPI(MPI_Wait(&sreq, &st));
        TM_CHECK(TM_NO_ERROR == st.MPI_ERROR, "MPI_Wait of a send set MPI_ERROR to %d",
                 st.MPI_ERROR);
        TM_CHECK(MPI_REQUEST_NULL == sreq, "the send request is not null after MPI_Wait");
    } else {
        TM_MPI(send_fn[mode](sendbuf, (int) n, MPI_BYTE, dst, tag, comm));
    }
    tm_wait_recv(&rreq, recvbuf, src, tag, n, tm_key(src, tm_rank, tag, 0));
    TM_CHECK(MPI_REQUEST_NULL == rreq, "the receive request is not null after MPI_Wait");
    tm_expect_data(sendbuf, n, tm_key(tm_rank, dst, tag, 0), "send buffer");
    detach(mode, n);
}

/*
 * A blocking receive after the send has started, with another message of the same pair behind it.
 */
static void isend_then_recv(int mode, int src, int dst, size_t n)
{
    int tag = next_tag++;
    MPI_Request sreq;

    tm_fill(sendbuf, n, tm_key(tm_rank, dst, tag, 0));
    memset(recvbuf, 0xee, n);
    attach(mode, n);
    TM_MPI(isend_fn[mode](sendbuf, (int) n, MPI_BYTE, dst, tag, comm, &sreq));
    tm_recv(recvbuf, n, src, tag, comm, tm_key(src, tm_rank, tag, 0), "MPI_Recv");
    tm_expect_guard(recvbuf);
    TM_MPI(MPI_Wait(&sreq, MPI_STATUS_IGNORE));
    detach(mode, n);
}

/* Blocking on both sides: the lower rank sends first. In ready mode the other posts first. */
static void ping_pong(int mode, int peer, size_t n)
{
    int tag = next_tag++;
    MPI_Request req;

    tm_fill(sendbuf, n, tm_key(tm_rank, peer, tag, 1));
    memset(recvbuf, 0xee, n);
    attach(mode, n);
    if (MODE_READY == mode) {
        TM_MPI(MPI_Irecv(recvbuf, (int) n, MPI_BYTE, peer, tag, comm, &req));
        handshake(mode, peer, peer);
        TM_MPI(MPI_Rsend(sendbuf, (int) n, MPI_BYTE, peer, tag, comm));
        tm_wait_recv(&req, recvbuf, peer, tag, n, tm_key(peer, tm_rank, tag, 1));
        return;
    }
    if (tm_rank < peer) {
        TM_MPI(send_fn[mode](sendbuf, (int) n, MPI_BYTE, peer, tag, comm));
    }
    tm_recv(recvbuf, n, peer, tag, comm, tm_key(peer, tm_rank, tag, 1), "ping-pong");
    tm_expect_guard(recvbuf);
    if (tm_rank > peer) {
        TM_MPI(send_fn[mode](sendbuf, (int) n, MPI_BYTE, peer, tag, comm));
    }
    detach(mode, n);
}

static void all_modes(int distance, int partner, size_t n)
{
    int dst = (tm_rank + distance) % tm_size;
    int src = (tm_rank + tm_size - distance) % tm_size;

    sendbuf = tm_alloc(n);
    recvbuf = tm_alloc(n);
    for (int mode = 0; mode < NMODES; mode++) {
        irecv_then_send(mode, src, dst, n, false);
        irecv_then_send(mode, src, dst, n, true);
        if (MODE_READY != mode) {
            isend_then_recv(mode, src, dst, n);
        }
        if (partner < tm_size && partner != tm_rank) {
            ping_pong(mode, partner, n);
        } else {
            next_tag++;
        }
    }
    tm_free(sendbuf);
    tm_free(recvbuf);
    next_tag %= 16000;
}

/*
 * A self send in standard mode that cannot complete before its receive, in both orders of posting.
 */
static void self_order(size_t n)
{
    unsigned char *a = tm_alloc(n), *b = tm_alloc(n);
    MPI_Request req[2];

    for (int i = 0; i < 2; i++) {
        tm_fill(a, n, tm_key(tm_rank, tm_rank, i, 2));
        memset(b, 0xee, n);
        for (int j = 0; j < 2; j++) {
            if (i == j) {
                TM_MPI(MPI_Issend(a, (int) n, MPI_BYTE, tm_rank, i, comm, &req[0]));
            } else {
                TM_MPI(MPI_Irecv(b, (int) n, MPI_BYTE, tm_rank, i, comm, &req[1]));
            }
        }
        tm_wait_recv(&req[1], b, tm_rank, i, n, tm_key(tm_rank, tm_rank, i, 2));
        TM_MPI(MPI_Wait(&req[0], MPI_STATUS_IGNORE));
    }
    tm_free(a);
    tm_free(b);
}

/* An Issend must not complete before its receive is posted. */
static void synchronous_waits(size_t n)
{
    unsigned char *a = tm_alloc_data(n, tm_key(tm_rank, tm_dst, 1, 3)), *b = tm_alloc(n);
    MPI_Request sreq, rreq;
    int flag;

    TM_MPI(MPI_Issend(a, (int) n, MPI_BYTE, tm_dst, 1, comm, &sreq));
    TM_MPI(MPI_Barrier(comm));
    for (int i = 0; i < 200; i++) {
        TM_MPI(MPI_Test(&sreq, &flag, MPI_STATUS_IGNORE));
        if (!TM_CHECK(!flag, "MPI_Issend of %zu bytes completed before the receive was posted",
                      n)) {
            break;
        }
    }
    TM_MPI(MPI_Barrier(comm));
    TM_MPI(MPI_Irecv(b, (int) n, MPI_BYTE, tm_src, 1, comm, &rreq));
    tm_wait_recv(&rreq, b, tm_src, 1, n, tm_key(tm_src, tm_rank, 1, 3));
    TM_MPI(MPI_Wait(&sreq, MPI_STATUS_IGNORE));
    TM_MPI(MPI_Barrier(comm));
    tm_free(a);
    tm_free(b);
}

int main(int argc, char **argv)
{
    size_t sizes[TM_MAX_SIZES];
    int nsizes;

    tm_init(&argc, &argv, "basic");
    nsizes = tm_sizes((size_t) tm_arg(argc, argv, 1, 4194305), sizes);
    if (argc > 2) {
        nsizes = 3;
        for (int i = 0; i < nsizes; i++) {
            sizes[i] = (size_t) tm_arg(argc, argv, 2, 0) + (size_t) i;
        }
    }
    TM_MPI(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
    for (int distance = 0; distance < tm_size; distance++) {
        for (int i = 0; i < nsizes; i++) {
            all_modes(distance, tm_rank ^ distance, sizes[i]);
        }
    }
    for (int i = 0; i < nsizes; i++) {
        self_order(sizes[i]);
        synchronous_waits(sizes[i]);
    }
    TM_MPI(MPI_Comm_free(&comm));
    return tm_finish();
}
