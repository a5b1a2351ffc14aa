/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Datatypes at every boundary between protocols: messages of one byte less than each threshold, of
 * exactly that, and of one byte more, contiguous and not, on either side and on both, received by a
 * posted receive, late, by a matched probe and persistently. The thresholds are those of tm_test.h
 * and the values of the parameters of the PML that runs.
 *
 * args: [largest size]
 */
/* TEST: np=1,2 args="1048577" timeout=120 */
/* TEST: np=2 args="300000" env="OMPI_MCA_pml_tm_shm_ring_size=16384" timeout=120 */
/* TEST: np=2 args="300000" env="OMPI_MCA_pml_tm_shm_single_copy=none" timeout=120 */
/* TEST: np=2 args="70000" env="OMPI_MCA_pml_tm_eager_limit=0" timeout=120 */
#include "tm_test.h"
#include "tm_types.h"

enum { CONTIGUOUS, BLOCKS, LARGE_BLOCKS, BACKWARDS, SCATTERED, NKINDS };

enum { POSTED, LATE, SYNCHRONOUS, MATCHED, PERSISTENT, NHOWS };

enum { MAX_BOUNDARIES = 40 };

static MPI_Comm comm;
static int next_tag;

/* Blocks of memory with gaps, and what is left of n bytes behind them, in one type. */
static tm_type_t *blocks(size_t n, size_t block, ptrdiff_t stride, const char *name)
{
    tm_type_t *byte = tm_type_byte(), *body, *tail, *t;
    int whole = tm_int(n / block);
    MPI_Aint disp[2] = {0, stride > 0 ? whole * stride + 5 : 2 * (MPI_Aint) block + 5};

    body = tm_type_hvector(whole, tm_int(block), stride, byte, "body");
    tail = tm_type_contiguous(tm_int(n % block), byte, "tail");
    t = tm_type_struct(2, (const int[]){1, 1}, disp, (tm_type_t *const[]){body, tail}, name);
    tm_type_free(byte);
    tm_type_free(body);
    tm_type_free(tail);
    return t;
}

/* Pieces of all lengths, not in the order of memory. */
static tm_type_t *scattered(size_t n)
{
    enum { PIECES = 9 };
    tm_type_t *byte = tm_type_byte(), *t;
    int block[PIECES], sum = 0;
    MPI_Aint disp[PIECES], at = -1000;

    for (int i = 0; i < PIECES; i++) {
        block[i] = i < PIECES - 1 ? tm_int(n / 10) + (n > 100 ? i : 0) : tm_int(n) - sum;
        sum += block[i];
    }
    for (int i = 0; i < PIECES; i++) {
        int k = (4 * i + 3) % PIECES;

        disp[k] = at;
        at += block[k] + 1 + i;
    }
    t = tm_type_hindexed(PIECES, block, disp, byte, "scattered");
    tm_type_free(byte);
    return t;
}

/* A type of exactly n bytes. */
static tm_type_t *make_type(int kind, size_t n)
{
    tm_type_t *byte, *t;

    switch (kind) {
    case BLOCKS:
        return blocks(n, n > 100000 ? 120 : 3, n > 100000 ? 133 : 7, "small blocks");
    case LARGE_BLOCKS:
        return blocks(n, 5000, 5010, "large blocks");
    case BACKWARDS:
        return blocks(n, 700, -900, "backwards");
    case SCATTERED:
        return scattered(n);
    default:
        byte = tm_type_byte();
        t = tm_type_contiguous(tm_int(n), byte, "contiguous");
        tm_type_free(byte);
        return t;
    }
}

static void transfer(const tm_type_t *from, const tm_type_t *to, size_t n, int how)
{
    tm_layout_t out = tm_layout_alloc(from, 1), in = tm_layout_alloc(to, 1);
    int tag = next_tag++ % 30000;
    uint64_t mine = tm_key(tm_rank, tm_dst, tag, 0), theirs = tm_key(tm_src, tm_rank, tag, 0);
    void *obuf = tm_layout_buf(&out), *ibuf = tm_layout_buf(&in);
    MPI_Request sreq, rreq = MPI_REQUEST_NULL;
    MPI_Message msg;
    MPI_Status st;

    tm_layout_write(&out, n, mine, 0x11);
    tm_layout_write(&in, 0, 0, 0xee);
    tm_status_reset(&st);
    if (POSTED == how) {
        TM_MPI(MPI_Irecv(ibuf, 1, to->mpi, tm_src, tag, comm, &rreq));
        tm_handshake(tm_src, tm_dst, 32000, comm); /* the receive is posted */
    } else if (PERSISTENT == how) {
        TM_MPI(MPI_Recv_init(ibuf, 1, to->mpi, MPI_ANY_SOURCE, tag, comm, &rreq));
        TM_MPI(MPI_Start(&rreq));
    }
    if (SYNCHRONOUS == how) {
        TM_MPI(MPI_Issend(obuf, 1, from->mpi, tm_dst, tag, comm, &sreq));
    } else if (PERSISTENT == how) {
        TM_MPI(MPI_Send_init(obuf, 1, from->mpi, tm_dst, tag, comm, &sreq));
        TM_MPI(MPI_Start(&sreq));
    } else {
        TM_MPI(MPI_Isend(obuf, 1, from->mpi, tm_dst, tag, comm, &sreq));
    }
    if (MATCHED == how) {
        TM_MPI(MPI_Mprobe(tm_src, tag, comm, &msg, MPI_STATUS_IGNORE));
        TM_MPI(MPI_Mrecv(ibuf, 1, to->mpi, &msg, &st));
    } else if (MPI_REQUEST_NULL == rreq) {
        TM_MPI(MPI_Recv(ibuf, 1, to->mpi, tm_src, tag, comm, &st));
    } else {
        TM_MPI(MPI_Wait(&rreq, &st));
    }
    tm_expect_single(&st, tm_src, tag, n);
    tm_expect_layout(&in, n, theirs, 0xee, from->name);
    TM_MPI(MPI_Wait(&sreq, MPI_STATUS_IGNORE));
    tm_expect_layout(&out, n, mine, 0x11, "send buffer");
    if (PERSISTENT == how) {
        TM_MPI(MPI_Request_free(&sreq));
        TM_MPI(MPI_Request_free(&rreq));
    }
    tm_layout_free(&out);
    tm_layout_free(&in);
}

/*
 * The sizes around all thresholds up to max: those of rank 0, for on another host some are other.
 */
static int boundaries(size_t max, size_t *out)
{
    static const char *const names[] = {"pml_tm_eager_limit",      "pml_tm_stream_limit",
                                        "pml_tm_shm_copy_step",    "pml_tm_shm_ring_size",
                                        "btl_vader_eager_limit",   "btl_sm_eager_limit",
                                        "btl_vader_max_send_size", "btl_self_eager_limit"};
    size_t at[MAX_BOUNDARIES];
    int n = 0, count = 0;

    for (size_t i = 0; i < TM_NTHRESHOLDS; i++) {
        at[n++] = tm_thresholds[i];
    }
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        size_t value = tm_cvar_number(names[i]);

        for (int k = 0; k < n; k++) {
            value = value == at[k] ? 0 : value;
        }
        if (value > 1) {
            at[n++] = value;
        }
    }
    TM_MPI(MPI_Bcast(&n, 1, MPI_INT, 0, comm));
    TM_MPI(MPI_Bcast(at, n, MPI_UNSIGNED_LONG, 0, comm));
    for (int i = 0; i < n; i++) {
        for (int d = -1; d <= 1; d++) {
            if (at[i] + 1 <= max) {
                out[count++] = at[i] + (size_t) d;
            }
        }
    }
    return count;
}

int main(int argc, char **argv)
{
    size_t sizes[3 * MAX_BOUNDARIES], max;
    int nsizes;

    tm_init(&argc, &argv, "boundaries");
    max = (size_t) tm_arg(argc, argv, 1, 1048577);
    TM_MPI(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
    nsizes = boundaries(max, sizes);
    for (int s = 0; s < nsizes; s++) {
        tm_type_t *type[NKINDS];

        for (int i = 0; i < NKINDS; i++) {
            type[i] = make_type(i, sizes[s]);
        }
        for (int i = 0; i < NKINDS * NKINDS; i++) {
            for (int how = 0; how < NHOWS; how++) {
                /*
                 * Of the large sizes each pair of types in one way, which differs from pair to
                 * pair.
                 */
                if (sizes[s] < 100000 || (i + s) % NHOWS == how) {
                    transfer(type[i / NKINDS], type[i % NKINDS], sizes[s], how);
                }
            }
        }
        tm_types_free(type, NKINDS);
    }
    TM_MPI(MPI_Comm_free(&comm));
    return tm_finish();
}
