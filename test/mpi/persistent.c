/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Persistent requests: many restarted at once, in every kind of wait and test; buffered sends
 * restarted before the receiver has looked; MPI_Request_free of active requests; types and
 * communicators freed meanwhile. (Every mode of one that is restarted: basic.c.)
 *
 * args: [largest size]
 */
/* TEST: np=1,2,4,8 args="1048577" timeout=60 quick=yes */
/* TEST: np=2 args="1048577" env="OMPI_MCA_pml_tm_shm_single_copy=none" timeout=60 */
#include "tm_complete.h"

enum { TAG_DONE = 32001 };

static MPI_Comm comm, ctl; /* ctl: no test receives from it with wildcards */

/* With all peers at once, waiting in several ways. */
static void all_peers(size_t n, int times)
{
    int nreq = 2 * tm_size;
    MPI_Request *req = tm_calloc((size_t) nreq, sizeof(*req));
    MPI_Status *st = tm_calloc((size_t) nreq, sizeof(*st));
    unsigned char **buf = tm_calloc((size_t) nreq, sizeof(*buf));
    int *index = tm_calloc((size_t) nreq, sizeof(*index));

    for (int i = 0; i < nreq; i++) {
        buf[i] = tm_alloc(n);
        if (i < tm_size) {
            TM_MPI(MPI_Recv_init(buf[i], (int) n, MPI_BYTE, i, 5, comm, &req[i]));
        } else {
            TM_MPI((0 == i % 2 ? MPI_Send_init : MPI_Ssend_init)(buf[i], (int) n, MPI_BYTE,
                                                                 i - tm_size, 5, comm, &req[i]));
        }
    }
    for (int t = 0; t < times; t++) {
        int count, which;

        for (int i = 0; i < tm_size; i++) {
            memset(buf[i], 0xee, n);
            tm_fill(buf[tm_size + i], n, tm_key(tm_rank, i, 5, t));
        }
        TM_MPI(MPI_Startall(nreq, req));
        tm_complete(t % TM_NCALLS, nreq, req, st, true);
        for (int i = 0; i < tm_size; i++) {
            tm_expect_status(&st[i], i, 5, n);
            tm_expect_data(buf[i], n, tm_key(i, tm_rank, 5, t), "persistent, all peers");
        }
        TM_MPI(MPI_Waitany(nreq, req, &which, &st[0]));
        TM_CHECK(MPI_UNDEFINED == which, "MPI_Waitany of inactive requests gave index %d", which);
        tm_expect_empty(&st[0]);
        TM_MPI(MPI_Waitsome(nreq, req, &count, index, st));
        TM_CHECK(MPI_UNDEFINED == count, "MPI_Waitsome of inactive requests gave count %d", count);
    }
    for (int i = 0; i < nreq; i++) {
        TM_MPI(MPI_Request_free(&req[i]));
        tm_free(buf[i]);
    }
    free(req);
    free(st);
    free(buf);
    free(index);
    TM_MPI(MPI_Barrier(comm));
}

/*
 * A buffered send is complete at once: restart it with new data while earlier ones are on their
 * way.
 */
static void bsend_quick(size_t n, int times)
{
    unsigned char *out = tm_alloc(n), *in = tm_alloc(n);
    size_t size = (size_t) times * (n + 64 + MPI_BSEND_OVERHEAD);
    void *buf = tm_buffer_attach(size);
    MPI_Request req;

    TM_MPI(MPI_Bsend_init(out, (int) n, MPI_BYTE, tm_dst, 7, comm, &req));
    for (int i = 0; i < times; i++) {
        tm_fill(out, n, tm_key(tm_rank, tm_dst, 7, i));
        TM_MPI(MPI_Start(&req));
        TM_MPI(MPI_Wait(&req, MPI_STATUS_IGNORE));
        TM_CHECK(MPI_REQUEST_NULL != req, "a persistent request became null");
    }
    memset(out, 0xdd, n);
    for (int i = 0; i < times; i++) {
        tm_recv(in, n, tm_src, 7, comm, tm_key(tm_src, tm_rank, 7, i),
                "quickly restarted buffered send");
    }
    TM_MPI(MPI_Request_free(&req));
    tm_buffer_detach(buf, size);
    tm_free(out);
    tm_free(in);
    TM_MPI(MPI_Barrier(comm));
}

/*
 * Progress until the last byte of buf has arrived; nothing else shows the end of a freed receive.
 */
static void await_data(unsigned char *buf, size_t n, uint64_t key)
{
    double end = tm_now() + 20;
    int flag;

    while (tm_now() < end && !tm_is(buf, n, key)) {
        TM_MPI(MPI_Iprobe(MPI_ANY_SOURCE, 31999, comm, &flag, MPI_STATUS_IGNORE));
    }
    tm_expect_data(buf, n, key, "receive that was freed while active");
}

static void free_active(size_t n, bool persistent, bool post_first)
{
    unsigned char *out = tm_alloc(n), *in = tm_alloc(n);
    MPI_Request req[2];

    tm_fill(out, n, tm_key(tm_rank, tm_dst, 8, persistent));
    memset(in, 0xee, n);
    for (int k = 0; k < 2; k++) {
        if (k == post_first) {
            if (persistent) {
                TM_MPI(MPI_Ssend_init(out, (int) n, MPI_BYTE, tm_dst, 8, comm, &req[0]));
                TM_MPI(MPI_Start(&req[0]));
            } else {
                TM_MPI(MPI_Isend(out, (int) n, MPI_BYTE, tm_dst, 8, comm, &req[0]));
            }
            TM_MPI(MPI_Request_free(&req[0]));
            TM_CHECK(MPI_REQUEST_NULL == req[0], "MPI_Request_free did not set the handle to null");
        } else {
            if (persistent) {
                TM_MPI(MPI_Recv_init(in, (int) n, MPI_BYTE, tm_src, 8, comm, &req[1]));
                TM_MPI(MPI_Start(&req[1]));
            } else {
                TM_MPI(MPI_Irecv(in, (int) n, MPI_BYTE, tm_src, 8, comm, &req[1]));
            }
            TM_MPI(MPI_Request_free(&req[1]));
            TM_CHECK(MPI_REQUEST_NULL == req[1], "MPI_Request_free did not set the handle to null");
        }
    }
    await_data(in, n, tm_key(tm_src, tm_rank, 8, persistent));
    /* My send buffer is free for use when the receiver says so. */
    tm_handshake(tm_src, tm_dst, TAG_DONE, ctl);
    TM_MPI(MPI_Barrier(comm));
    tm_free(out);
    tm_free(in);
}

/*
 * The datatype and the communicator may be freed while a persistent request that uses them lives.
 */
static void freed_type(void)
{
    enum { BLOCKS = 1000 };
    int *out = tm_alloc(2 * BLOCKS * sizeof(int)), *in = tm_alloc(2 * BLOCKS * sizeof(int));
    MPI_Datatype type;
    MPI_Comm other;
    MPI_Request req[2];

    TM_MPI(MPI_Comm_dup(comm, &other));
    type = tm_vector(BLOCKS, 1, 2, MPI_INT);
    TM_MPI(MPI_Send_init(out, 1, type, tm_dst, 9, other, &req[0]));
    TM_MPI(MPI_Recv_init(in, 1, type, tm_src, 9, other, &req[1]));
    TM_MPI(MPI_Type_free(&type));
    TM_MPI(MPI_Comm_free(&other));
    for (int t = 0; t < 20; t++) {
        MPI_Status st[2];

        for (int i = 0; i < 2 * BLOCKS; i++) {
            out[i] = 1000 * tm_rank + 7 * t + i;
            in[i] = -1;
        }
        TM_MPI(MPI_Startall(2, req));
        TM_MPI(MPI_Waitall(2, req, st));
        tm_expect_status(&st[1], tm_src, 9, BLOCKS * sizeof(int));
        for (int i = 0; i < 2 * BLOCKS; i++) {
            int want = 0 == i % 2 ? 1000 * tm_src + 7 * t + i : -1;

            if (!TM_CHECK(in[i] == want, "freed type: element %d is %d, expected %d", i, in[i],
                          want)) {
                break;
            }
        }
    }
    TM_MPI(MPI_Request_free(&req[0]));
    TM_MPI(MPI_Request_free(&req[1]));
    tm_free(out);
    tm_free(in);
    TM_MPI(MPI_Barrier(comm));
}

int main(int argc, char **argv)
{
    size_t sizes[TM_MAX_SIZES];
    int nsizes;

    tm_init(&argc, &argv, "persistent");
    TM_MPI(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
    TM_MPI(MPI_Comm_dup(MPI_COMM_WORLD, &ctl));
    nsizes = tm_sizes((size_t) tm_arg(argc, argv, 1, 1048577), sizes);
    for (int i = 0; i < nsizes; i++) {
        free_active(sizes[i], false, false);
        free_active(sizes[i], false, true);
        free_active(sizes[i], true, false);
        free_active(sizes[i], true, true);
    }
    all_peers(0, 30);
    all_peers(64, 60);
    all_peers(10000, 30);
    all_peers(200000, 9);
    bsend_quick(8, 2000);
    bsend_quick(3000, 500);
    bsend_quick(100000, 100);
    freed_type();
    TM_MPI(MPI_Comm_free(&comm));
    TM_MPI(MPI_Comm_free(&ctl));
    return tm_finish();
}
