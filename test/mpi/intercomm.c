/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Intercommunicators: created between halves of the job, with point-to-point traffic by all
 * patterns, where ranks are those of the remote group; duplicated, merged, with collectives; many
 * one after the other.
 *
 * args: [repetitions]
 */
/* TEST: np=2,3,4 args="40" timeout=60 */
/* TEST: np=8 args="10" timeout=60 */
#include "tm_test.h"

static const size_t lengths[] = {0, 9, 100, 5000, 70000, 1100000};

enum { NLENGTHS = sizeof(lengths) / sizeof(lengths[0]) };

/* Everybody sends to all of the other side, everybody receives by one pattern. */
static void all_remote(MPI_Comm inter, int side, bool any_source, bool any_tag)
{
    int rank, remote, *seen;
    MPI_Request *req;
    unsigned char **out;

    MPI_Comm_rank(inter, &rank);
    MPI_Comm_remote_size(inter, &remote);
    seen = tm_calloc((size_t) remote, sizeof(int));
    req = tm_calloc((size_t) remote * NLENGTHS, sizeof(*req));
    out = tm_calloc((size_t) remote * NLENGTHS, sizeof(*out));
    for (int i = 0; i < remote * NLENGTHS; i++) {
        int dst = i % remote, k = i / remote;

        out[i] = tm_alloc_data(lengths[k], tm_key(rank, dst, 20 + k, side));
        TM_MPI(MPI_Isend(out[i], (int) lengths[k], MPI_BYTE, dst, 20 + k, inter, &req[i]));
    }
    for (int i = 0; i < remote * NLENGTHS; i++) {
        int src = any_source ? MPI_ANY_SOURCE : i % remote, k = any_source ? -1 : seen[src]++;
        unsigned char *in = tm_alloc(lengths[NLENGTHS - 1]);
        MPI_Status st;

        tm_status_reset(&st);
        if (any_source && !any_tag) {
            k = i / remote; /* one of each sender */
        }
        TM_MPI(MPI_Recv(in, (int) lengths[NLENGTHS - 1], MPI_BYTE, src,
                        any_tag ? MPI_ANY_TAG : 20 + k, inter, &st));
        if (any_source) {
            src = st.MPI_SOURCE;
            if (!TM_CHECK(src >= 0 && src < remote, "source %d of %d", src, remote)) {
                MPI_Abort(MPI_COMM_WORLD, 3);
            }
            int next = seen[src]++;
            TM_CHECK(any_tag || k == next, "message %d of source %d, expected %d", k, src, next);
            k = next;
        }
        tm_expect_message(&st, in, src, 20 + k, lengths[k], tm_key(src, rank, 20 + k, !side),
                          "intercommunicator");
        tm_free(in);
    }
    TM_MPI(MPI_Waitall(remote * NLENGTHS, req, MPI_STATUSES_IGNORE));
    tm_free_all(out, remote * NLENGTHS);
    free(seen);
    free(req);
    free(out);
}

static void collectives(MPI_Comm inter, int side)
{
    int rank, size, remote, value, *all;

    MPI_Comm_rank(inter, &rank);
    MPI_Comm_size(inter, &size);
    MPI_Comm_remote_size(inter, &remote);
    all = tm_calloc((size_t) remote, sizeof(int));
    TM_MPI(MPI_Barrier(inter));
    value = 100 * side + rank;
    TM_MPI(MPI_Allgather(&value, 1, MPI_INT, all, 1, MPI_INT, inter));
    for (int i = 0; i < remote; i++) {
        TM_CHECK(all[i] == 100 * !side + i, "MPI_Allgather: %d, expected %d", all[i],
                 100 * !side + i);
    }
    value = 0 == side && 0 == rank ? 4711 : -1;
    TM_MPI(MPI_Bcast(&value, 1, MPI_INT, 0 == side ? (0 == rank ? MPI_ROOT : MPI_PROC_NULL) : 0,
                     inter));
    TM_CHECK(0 == side || 4711 == value, "MPI_Bcast: %d", value);
    int sum = -1;
    value = rank + 1;
    TM_MPI(MPI_Allreduce(&value, &sum, 1, MPI_INT, MPI_SUM, inter));
    TM_CHECK(sum == remote * (remote + 1) / 2, "MPI_Allreduce: %d, expected %d", sum,
             remote * (remote + 1) / 2);
    free(all);
}

static void merged(MPI_Comm inter, int side)
{
    int rank, size, token = 0, local;
    MPI_Comm intra;

    TM_MPI(MPI_Intercomm_merge(inter, side, &intra));
    MPI_Comm_rank(intra, &rank);
    MPI_Comm_size(intra, &size);
    MPI_Comm_rank(inter, &local);
    TM_CHECK(size == tm_size, "merged size %d, expected %d", size, tm_size);
    if (0 == side) {
        TM_CHECK(rank == local, "the low group has rank %d first, expected %d", rank, local);
    }
    for (int i = 0; i < 3; i++) {
        MPI_Status st;

        tm_status_reset(&st);
        TM_MPI(MPI_Sendrecv(&rank, 1, MPI_INT, (rank + 1) % size, i, &token, 1, MPI_INT,
                            MPI_ANY_SOURCE, i, intra, &st));
        tm_expect_single(&st, (rank + size - 1) % size, i, sizeof(int));
        TM_CHECK(token == (rank + size - 1) % size, "merged ring: %d", token);
        TM_MPI(MPI_Barrier(intra));
    }
    TM_MPI(MPI_Comm_free(&intra));
}

int main(int argc, char **argv)
{
    int times, side, first;
    MPI_Comm local, inter, twin;

    tm_init(&argc, &argv, "intercomm");
    times = (int) tm_arg(argc, argv, 1, 40);
    if (tm_size < 2) {
        return tm_skip("needs two ranks");
    }
    first = (tm_size + 1) / 2;
    side = tm_rank >= first;
    TM_MPI(MPI_Comm_split(MPI_COMM_WORLD, side, 0, &local));
    for (int i = 0; i < times; i++) {
        TM_MPI(MPI_Intercomm_create(local, 0, MPI_COMM_WORLD, 0 == side ? first : 0, 77, &inter));
        all_remote(inter, side, i & 1, i & 2);
        /*
         * With MPI_ANY_SOURCE a fast sender's message of the next phase could come before a slow
         * one's of this.
         */
        TM_MPI(MPI_Barrier(MPI_COMM_WORLD));
        if (0 == i % 4) {
            collectives(inter, side);
            merged(inter, side);
            TM_MPI(MPI_Comm_dup(inter, &twin));
            all_remote(twin, side, true, true);
            all_remote(inter, side, false, false);
            TM_MPI(MPI_Comm_free(&twin));
        }
        TM_MPI(MPI_Comm_free(&inter));
    }
    TM_MPI(MPI_Comm_free(&local));
    return tm_finish();
}
