/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Communicators: many created, used and freed, many alive at once with the same tags, and
 * non-blocking creation. (Those freed while messages are on their way: reuse.c; subsets:
 * comm_kinds.c.)
 *
 * args: [communicators created one after the other] [communicators alive at once]
 */
/* TEST: np=1,2,4 args="1000 100" timeout=90 */
/* TEST: np=8 args="150 30" timeout=90 */
#include "tm_test.h"

/* One message each way round the ring of comm, of n bytes, with wildcards if wild; then self. */
static void ring(MPI_Comm comm, int tag, size_t n, bool wild)
{
    unsigned char *out, *in = tm_alloc(n);
    int rank, size, dst, src;
    MPI_Request req;

    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &size);
    dst = (rank + 1) % size;
    src = (rank + size - 1) % size;
    out = tm_alloc_data(n, tm_key(rank, dst, tag, size));
    TM_MPI(MPI_Irecv(in, (int) n, MPI_BYTE, wild ? MPI_ANY_SOURCE : src, wild ? MPI_ANY_TAG : tag,
                     comm, &req));
    TM_MPI(MPI_Send(out, (int) n, MPI_BYTE, dst, tag, comm));
    tm_wait_recv(&req, in, src, tag, n, tm_key(src, rank, tag, size));
    tm_free(out);
    tm_free(in);
}

static void one_after_the_other(int count)
{
    for (int i = 0; i < count; i++) {
        MPI_Comm comm;

        switch (i % 4) {
        case 0:
            TM_MPI(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
            break;
        case 1:
            TM_MPI(MPI_Comm_split(MPI_COMM_WORLD, tm_rank % 2, tm_size - tm_rank, &comm));
            break;
        case 2: {
            MPI_Request req;

            TM_MPI(MPI_Comm_idup(MPI_COMM_WORLD, &comm, &req));
            TM_MPI(MPI_Wait(&req, MPI_STATUS_IGNORE));
            break;
        }
        default: {
            MPI_Group group;

            TM_MPI(MPI_Comm_group(MPI_COMM_WORLD, &group));
            TM_MPI(MPI_Comm_create(MPI_COMM_WORLD, group, &comm));
            TM_MPI(MPI_Group_free(&group));
            break;
        }
        }
        ring(comm, i % 7, 0 == i % 50 ? 100000 : (size_t) (i % 300), 0 == i % 2);
        TM_MPI(MPI_Comm_free(&comm));
    }
}

/*
 * The same source, tag and pattern in all communicators: each receive must get its own
 * communicator's message.
 */
static void many_alive(int count)
{
    MPI_Comm *comm = tm_calloc((size_t) count, sizeof(*comm));
    MPI_Request *rreq = tm_calloc((size_t) count, sizeof(*rreq)),
                *sreq = tm_calloc((size_t) count, sizeof(*sreq));
    unsigned char **in = tm_calloc((size_t) count, sizeof(*in)),
                  **out = tm_calloc((size_t) count, sizeof(*out));
    tm_rng_t rng = tm_rng(1, (uint64_t) tm_rank);

    for (int i = 0; i < count; i++) {
        TM_MPI(MPI_Comm_dup(MPI_COMM_WORLD, &comm[i]));
    }
    for (int round = 0; round < 4; round++) {
        int shift = (int) tm_below(&rng, (uint64_t) count), post_first = round % 2;

        for (int step = 0; step < 2; step++) {
            for (int k = 0; k < count; k++) {
                int i = (k + shift) % count;
                size_t n = (size_t) (i * 37 % 5000);

                if (step == post_first) {
                    out[i] = tm_alloc_data(n, tm_key(tm_rank, tm_dst, i, round));
                    TM_MPI(MPI_Isend(out[i], (int) n, MPI_BYTE, tm_dst, 1, comm[i], &sreq[i]));
                } else {
                    in[i] = tm_alloc(5000);
                    TM_MPI(MPI_Irecv(in[i], 5000, MPI_BYTE, 0 == k % 2 ? MPI_ANY_SOURCE : tm_src,
                                     0 == k % 3 ? MPI_ANY_TAG : 1, comm[i], &rreq[i]));
                }
            }
        }
        for (int i = 0; i < count; i++) {
            tm_wait_recv(&rreq[i], in[i], tm_src, 1, (size_t) (i * 37 % 5000),
                         tm_key(tm_src, tm_rank, i, round));
            tm_free(in[i]);
        }
        TM_MPI(MPI_Waitall(count, sreq, MPI_STATUSES_IGNORE));
        tm_free_all(out, count);
    }
    /* Freed in another order than made. */
    for (int i = 0; i < count; i++) {
        TM_MPI(MPI_Comm_free(&comm[(i ^ 1) < count ? i ^ 1 : i]));
    }
    free(comm);
    free(rreq);
    free(sreq);
    free(in);
    free(out);
}

/*
 * Non-blocking duplication with traffic on the parent. One at a time: Open MPI 4.1.4 can hang with
 * several of one parent.
 */
static void idup(void)
{
    enum { COUNT = 10 };
    MPI_Comm comm[COUNT];

    for (int round = 0; round < 5; round++) {
        for (int i = 0; i < COUNT; i++) {
            MPI_Request req;

            TM_MPI(MPI_Comm_idup(MPI_COMM_WORLD, &comm[i], &req));
            ring(MPI_COMM_WORLD, i, 0 == i % 3 ? 100000 : 200, false);
            TM_MPI(MPI_Wait(&req, MPI_STATUS_IGNORE));
        }
        for (int i = COUNT - 1; i >= 0; i--) {
            ring(comm[i], i, 20000, true);
            TM_MPI(MPI_Comm_free(&comm[i]));
        }
    }
}

int main(int argc, char **argv)
{
    int count;

    tm_init(&argc, &argv, "comms");
    count = (int) tm_arg(argc, argv, 1, 1000);
    one_after_the_other(count);
    many_alive((int) tm_arg(argc, argv, 2, 100) | 1);
    idup();
    one_after_the_other(8);
    return tm_finish();
}
