/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Communicators of every kind, each with messages of all patterns along it: duplicates (with info,
 * non-blocking), splits by colour and by type, of groups, Cartesian grids and their slices, graphs,
 * distributed graphs with repeated neighbours, and intercommunicators created, duplicated, split,
 * merged, and with collectives. No message of one is seen in another.
 */
/* TEST: np=1,2,3,4 timeout=60 quick=yes */
/* TEST: np=6,8 timeout=90 */
#include "tm_test.h"

static const size_t sizes[] = {0, 9, 500, 20000, 70000, 1100000};

enum { NSIZES = 6, LONGEST = 1100000 };

/*
 * Everybody to everybody on an intracommunicator, or to all of the other side; received by pattern:
 * bit 0 any source, bit 1 any tag.
 */
static void all_to_all(MPI_Comm comm, int pattern)
{
    int rank, size, peers, inter;
    MPI_Request *req;
    unsigned char **out;
    bool *seen;

    TM_MPI(MPI_Comm_rank(comm, &rank));
    TM_MPI(MPI_Comm_size(comm, &size));
    TM_MPI(MPI_Comm_test_inter(comm, &inter));
    peers = size;
    if (inter) {
        TM_MPI(MPI_Comm_remote_size(comm, &peers));
    }
    req = tm_calloc((size_t) peers, sizeof(*req));
    out = tm_calloc((size_t) peers, sizeof(*out));
    seen = tm_calloc((size_t) peers, sizeof(*seen));
    for (int i = 0; i < peers; i++) {
        size_t n = sizes[(rank + i + pattern) % NSIZES];

        out[i] = tm_alloc_data(n, tm_key(rank, i, 50 + i, pattern));
        TM_MPI(MPI_Isend(out[i], tm_int(n), MPI_BYTE, i, 50 + i, comm, &req[i]));
    }
    for (int k = 0; k < peers; k++) {
        unsigned char *in = tm_alloc(LONGEST);
        MPI_Status st;

        tm_status_reset(&st);
        TM_MPI(MPI_Recv(in, LONGEST, MPI_BYTE, 0 != (pattern & 1) ? MPI_ANY_SOURCE : k,
                        0 != (pattern & 2) ? MPI_ANY_TAG : 50 + rank, comm, &st));
        if (TM_CHECK(st.MPI_SOURCE >= 0 && st.MPI_SOURCE < peers && !seen[st.MPI_SOURCE],
                     "source %d of %d, pattern %d", st.MPI_SOURCE, peers, pattern)) {
            size_t n = sizes[(st.MPI_SOURCE + rank + pattern) % NSIZES];

            seen[st.MPI_SOURCE] = true;
            tm_expect_message(&st, in, st.MPI_SOURCE, 50 + rank, n,
                              tm_key(st.MPI_SOURCE, rank, 50 + rank, pattern), "all to all");
        }
        tm_free(in);
    }
    TM_MPI(MPI_Waitall(peers, req, MPI_STATUSES_IGNORE));
    tm_free_all(out, peers);
    free(req);
    free(out);
    free(seen);
}

/* A message of the same tag waits in each of the two all the while. */
static void check(MPI_Comm comm)
{
    int out = 4711, in = 0, rank, flag;
    MPI_Comm self;
    MPI_Request req;

    TM_MPI(MPI_Comm_rank(comm, &rank));
    TM_MPI(MPI_Comm_dup(MPI_COMM_SELF, &self));
    TM_MPI(MPI_Isend(&out, 1, MPI_INT, 0, 50 + rank, self, &req));
    for (int pattern = 0; pattern < 4; pattern++) {
        all_to_all(comm, pattern);
        TM_MPI(MPI_Barrier(comm));
    }
    TM_MPI(MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, comm, &flag, MPI_STATUS_IGNORE));
    TM_CHECK(!flag, "a message is left over");
    TM_MPI(MPI_Recv(&in, 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, self, MPI_STATUS_IGNORE));
    TM_CHECK(in == out, "got %d, expected %d", in, out);
    TM_MPI(MPI_Wait(&req, MPI_STATUS_IGNORE));
    TM_MPI(MPI_Comm_free(&self));
}

static void check_and_free(MPI_Comm *comm)
{
    if (MPI_COMM_NULL != *comm) {
        check(*comm);
        TM_MPI(MPI_Comm_free(comm));
    }
}

static void intracommunicators(void)
{
    MPI_Group world, some;
    MPI_Request req;
    MPI_Info info;
    MPI_Comm comm;
    int range[1][3] = {{tm_size - 1, 0, -1}}, last = tm_size - 1;

    TM_MPI(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
    check_and_free(&comm);
    TM_MPI(MPI_Info_create(&info));
    TM_MPI(MPI_Info_set(info, "pml_tm_unknown", "1"));
    TM_MPI(MPI_Comm_dup_with_info(MPI_COMM_WORLD, info, &comm));
    check_and_free(&comm);
    TM_MPI(MPI_Comm_idup(MPI_COMM_WORLD, &comm, &req));
    TM_MPI(MPI_Wait(&req, MPI_STATUS_IGNORE));
    check_and_free(&comm);
#if OMPI_MAJOR_VERSION >= 5
    TM_MPI(MPI_Comm_idup_with_info(MPI_COMM_WORLD, info, &comm, &req));
    TM_MPI(MPI_Wait(&req, MPI_STATUS_IGNORE));
    check_and_free(&comm);
#endif
    for (int colours = 1; colours < 4; colours++) {
        TM_MPI(MPI_Comm_split(MPI_COMM_WORLD, tm_rank % colours, -tm_rank, &comm));
        check_and_free(&comm);
    }
    TM_MPI(MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, tm_rank, info, &comm));
    check_and_free(&comm);
    TM_MPI(
        MPI_Comm_split_type(MPI_COMM_WORLD, OMPI_COMM_TYPE_NODE, -tm_rank, MPI_INFO_NULL, &comm));
    check_and_free(&comm);
    TM_MPI(MPI_Comm_split_type(MPI_COMM_WORLD, 0 == tm_rank ? MPI_UNDEFINED : MPI_COMM_TYPE_SHARED,
                               0, MPI_INFO_NULL, &comm));
    check_and_free(&comm);
#if OMPI_MAJOR_VERSION >= 5
    TM_MPI(MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_HW_UNGUIDED, 0, MPI_INFO_NULL, &comm));
    check_and_free(&comm);
#endif
    TM_MPI(MPI_Info_free(&info));
    TM_MPI(MPI_Comm_group(MPI_COMM_WORLD, &world));
    TM_MPI(MPI_Group_range_incl(world, 1, range, &some));
    TM_MPI(MPI_Comm_create(MPI_COMM_WORLD, some, &comm));
    check_and_free(&comm);
    TM_MPI(MPI_Group_free(&some));
    TM_MPI(MPI_Group_excl(world, 1, &last, &some));
    TM_MPI(MPI_Comm_create(MPI_COMM_WORLD, some, &comm));
    check_and_free(&comm);
    if (tm_rank != last) {
        TM_MPI(MPI_Comm_create_group(MPI_COMM_WORLD, some, 5, &comm));
        check_and_free(&comm);
    }
    TM_MPI(MPI_Group_free(&some));
    TM_MPI(MPI_Group_free(&world));
}

/* Each dimension in both directions, with neighbours that may be MPI_PROC_NULL or oneself. */
static void shifts(MPI_Comm grid, int ndims)
{
    int rank;

    TM_MPI(MPI_Comm_rank(grid, &rank));
    for (int d = 0; d < ndims; d++) {
        for (int step = -1; step <= 1; step += 2) {
            int from, to, out = 1000 * rank + d, in = -1;
            MPI_Status st;

            TM_MPI(MPI_Cart_shift(grid, d, step, &from, &to));
            tm_status_reset(&st);
            TM_MPI(MPI_Sendrecv(&out, 1, MPI_INT, to, d, &in, 1, MPI_INT, from, d, grid, &st));
            if (MPI_PROC_NULL == from) {
                tm_expect_proc_null(&st);
            } else {
                tm_expect_single(&st, from, d, sizeof(int));
            }
            TM_CHECK(in == (MPI_PROC_NULL == from ? -1 : 1000 * from + d),
                     "shift in dimension %d: got %d from %d", d, in, from);
        }
    }
}

static void grids(void)
{
    int dims[2] = {0, 0}, periods[2], keep[2] = {0, 1};
    MPI_Comm grid, row;

    TM_MPI(MPI_Dims_create(tm_size, 2, dims));
    for (int k = 0; k < 4; k++) {
        int in[4] = {-1, -1, -1, -1}, out, from, to;

        periods[0] = k & 1;
        periods[1] = k >> 1;
        TM_MPI(MPI_Cart_create(MPI_COMM_WORLD, 2, dims, periods, 3 == k, &grid));
        TM_MPI(MPI_Comm_rank(grid, &out));
        shifts(grid, 2);
        TM_MPI(MPI_Neighbor_allgather(&out, 1, MPI_INT, in, 1, MPI_INT, grid));
        for (int d = 0; d < 2; d++) {
            TM_MPI(MPI_Cart_shift(grid, d, 1, &from, &to));
            TM_CHECK(in[2 * d] == (MPI_PROC_NULL == from ? -1 : from) &&
                         in[2 * d + 1] == (MPI_PROC_NULL == to ? -1 : to),
                     "MPI_Neighbor_allgather in dimension %d gave %d %d, expected %d %d", d,
                     in[2 * d], in[2 * d + 1], from, to);
        }
        TM_MPI(MPI_Cart_sub(grid, keep, &row));
        shifts(row, 1);
        check_and_free(&row);
        check_and_free(&grid);
    }
}

/* A message to each neighbour that the topology names, one from each. */
static void neighbours(MPI_Comm comm, int nin, const int *in, int nout, const int *out)
{
    MPI_Request req[20];
    int got[10], mine, k = 0;

    TM_MPI(MPI_Comm_rank(comm, &mine));
    for (int i = 0; i < nin; i++) {
        got[i] = -1;
        TM_MPI(MPI_Irecv(&got[i], 1, MPI_INT, in[i], 9, comm, &req[k++]));
    }
    for (int i = 0; i < nout; i++) {
        TM_MPI(MPI_Isend(&mine, 1, MPI_INT, out[i], 9, comm, &req[k++]));
    }
    TM_MPI(MPI_Waitall(k, req, MPI_STATUSES_IGNORE));
    for (int i = 0; i < nin; i++) {
        TM_CHECK(got[i] == in[i], "neighbour %d: got %d, expected %d", i, got[i], in[i]);
        got[i] = -1;
    }
    TM_MPI(MPI_Neighbor_allgather(&mine, 1, MPI_INT, got, 1, MPI_INT, comm));
    for (int i = 0; i < nin; i++) {
        TM_CHECK(got[i] == in[i], "MPI_Neighbor_allgather: got %d, expected %d", got[i], in[i]);
    }
}

static void graphs(void)
{
    int *index = tm_calloc((size_t) tm_size, sizeof(int)),
        *edges = tm_calloc(2 * (size_t) tm_size, sizeof(int));
    int right = (tm_rank + 1) % tm_size, left = (tm_rank + tm_size - 1) % tm_size, near[2], n;
    int in[3] = {left, left, tm_rank}, out[3] = {right, right, tm_rank}, degree = 3;
    const int weights[3] = {1, 1, 1};
    MPI_Comm comm;

    for (int i = 0; i < tm_size; i++) {
        index[i] = 2 * (i + 1);
        edges[2 * i] = (i + tm_size - 1) % tm_size;
        edges[2 * i + 1] = (i + 1) % tm_size;
    }
    TM_MPI(MPI_Graph_create(MPI_COMM_WORLD, tm_size, index, edges, 0, &comm));
    TM_MPI(MPI_Graph_neighbors_count(comm, tm_rank, &n));
    TM_MPI(MPI_Graph_neighbors(comm, tm_rank, 2, near));
    TM_CHECK(2 == n && near[0] == left && near[1] == right, "MPI_Graph_neighbors gave %d: %d %d", n,
             near[0], near[1]);
    neighbours(comm, 2, near, 2, near);
    check_and_free(&comm);
    TM_MPI(MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, 3, in, weights, 3, out, weights,
                                          MPI_INFO_NULL, 0, &comm));
    neighbours(comm, 3, in, 3, out);
    check_and_free(&comm);
    TM_MPI(MPI_Dist_graph_create(MPI_COMM_WORLD, 1, &tm_rank, &degree, out, weights, MPI_INFO_NULL,
                                 0, &comm));
    check_and_free(&comm);
    free(index);
    free(edges);
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

static void intercommunicators(void)
{
    int side = tm_rank % 2, lead = 0 == side ? 1 : 0, first, rank, size;
    MPI_Comm half, inter, other;
    MPI_Group group;

    TM_MPI(MPI_Comm_split(MPI_COMM_WORLD, side, 0, &half));
    TM_MPI(MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, lead, 77, &inter));
    check(inter);
    collectives(inter, side);
    TM_MPI(MPI_Comm_dup(inter, &other));
    check_and_free(&other);
    /* The first of each side, and all the others. */
    TM_MPI(MPI_Comm_rank(inter, &first));
    TM_MPI(MPI_Comm_split(inter, 0 == first, 0, &other));
    check_and_free(&other);
    TM_MPI(MPI_Comm_group(inter, &group));
    TM_MPI(MPI_Comm_create(inter, group, &other));
    TM_MPI(MPI_Group_free(&group));
    check_and_free(&other);
    for (int high = 0; high < 2; high++) {
        TM_MPI(MPI_Intercomm_merge(inter, side == high, &other));
        TM_MPI(MPI_Comm_rank(other, &rank));
        TM_MPI(MPI_Comm_size(other, &size));
        TM_CHECK(size == tm_size && (side == high || rank == first),
                 "merged: rank %d of %d, %d of its side", rank, size, first);
        check_and_free(&other);
    }
    TM_MPI(MPI_Comm_free(&inter));
    check_and_free(&half);
}

int main(int argc, char **argv)
{
    tm_init(&argc, &argv, "comm_kinds");
    for (int round = 0; round < 3; round++) {
        intracommunicators();
        grids();
        graphs();
        if (tm_size > 1) {
            intercommunicators();
        }
    }
    check(MPI_COMM_WORLD);
    check(MPI_COMM_SELF);
    return tm_finish();
}
