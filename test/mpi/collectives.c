/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Collective operations over the PML: each one, blocking and not, checked element by element, with
 * small and large counts, in place, with derived types, and with a reduction that is not
 * commutative; on MPI_COMM_WORLD, on split and reordered communicators; many non-blocking ones at
 * once on several communicators, with point-to-point messages between them.
 *
 * args: [largest count of ints]
 */
/* TEST: np=1,2,4 args="30000" timeout=90 */
/* TEST: np=3 args="300000" timeout=90 */
/* TEST: np=5,8 args="3000" timeout=90 */
/* TEST: np=4 args="30000" env="OMPI_MCA_pml_tm_shm_single_copy=none" timeout=90 */
/* TEST: np=2,3 pml=ob1 env="OMPI_MCA_btl=fabric OMPI_MCA_mpi_yield_when_idle=1" timeout=120 */
#include "tm_test.h"

enum {
    BARRIER,
    BCAST,
    BCAST_VECTOR,
    GATHER,
    GATHER_IN_PLACE,
    GATHERV,
    SCATTER,
    SCATTERV,
    ALLGATHER,
    ALLGATHER_IN_PLACE,
    ALLGATHERV,
    ALLTOALL,
    ALLTOALL_IN_PLACE,
    ALLTOALLV,
    ALLTOALLW,
    REDUCE,
    ALLREDUCE,
    ALLREDUCE_IN_PLACE,
    ALLREDUCE_OWN_OP,
    REDUCE_SCATTER,
    REDUCE_SCATTER_BLOCK,
    SCAN,
    EXSCAN,
    NEIGHBOR_ALLGATHER,
    NEIGHBOR_ALLTOALL,
    NKINDS
};

static const char *const names[NKINDS] = {
    "Barrier",
    "Bcast",
    "Bcast of a vector",
    "Gather",
    "Gather in place",
    "Gatherv",
    "Scatter",
    "Scatterv",
    "Allgather",
    "Allgather in place",
    "Allgatherv",
    "Alltoall",
    "Alltoall in place",
    "Alltoallv",
    "Alltoallw",
    "Reduce",
    "Allreduce",
    "Allreduce in place",
    "Allreduce, own operation",
    "Reduce_scatter",
    "Reduce_scatter_block",
    "Scan",
    "Exscan",
    "Neighbor_allgather",
    "Neighbor_alltoall",
};

/* One collective operation from its start to its check. */
typedef struct op {
    MPI_Comm comm;
    /* n: ints per block; the v variants give rank r a block of n + r % 3 */
    int kind, n, salt, root;
    int rank, size;
    int *in, *out; /* in is what this rank contributes */
    int *counts, *displs, *counts2, *displs2;
    MPI_Datatype type;   /* Bcast of a vector */
    MPI_Datatype *types; /* Alltoallw */
    MPI_Request req;
} op_t;

static MPI_Op own_op;

/* The value of element i of the block that goes from one rank to another. */
static int value(const op_t *op, int from, int to, int i)
{
    return (int) (tm_mix((uint64_t) op->salt * 1000003 + (uint64_t) (from * 64 + to)) % 100000) +
           i % 1000;
}

/*
 * Multiplication of affine maps modulo 2^32, (a, b) then (c, d): associative, not commutative.
 * Elements are pairs.
 */
static void own_function(void *in, void *inout, int *len, MPI_Datatype *type)
{
    uint32_t *a = in, *b = inout;

    (void) type;
    for (int i = 0; i < *len; i++, a += 2, b += 2) {
        b[1] = a[1] * b[0] + b[1];
        b[0] = a[0] * b[0];
    }
}

static int block_of(const op_t *op, int rank)
{
    return op->n + rank % 3;
}

static int *new_ints(size_t n)
{
    int *p = tm_alloc(n * sizeof(int));

    for (size_t i = 0; i < n; i++) {
        p[i] = -7;
    }
    return p;
}

/* ---- start ---- ------------------------------------------------------------------------------ */

/* Call the blocking function, or the non-blocking one with a request. */
#define CALL(name, ...)                                                                            \
    do {                                                                                           \
        if (blocking) {                                                                            \
            TM_MPI(MPI_##name(__VA_ARGS__));                                                       \
        } else {                                                                                   \
            TM_MPI(MPI_I##name(__VA_ARGS__, &op->req));                                            \
        }                                                                                          \
    } while (0)

/* MPI's names differ in the first letter. */
#define MPI_IBarrier              MPI_Ibarrier
#define MPI_IBcast                MPI_Ibcast
#define MPI_IGather               MPI_Igather
#define MPI_IGatherv              MPI_Igatherv
#define MPI_IScatter              MPI_Iscatter
#define MPI_IScatterv             MPI_Iscatterv
#define MPI_IAllgather            MPI_Iallgather
#define MPI_IAllgatherv           MPI_Iallgatherv
#define MPI_IAlltoall             MPI_Ialltoall
#define MPI_IAlltoallv            MPI_Ialltoallv
#define MPI_IAlltoallw            MPI_Ialltoallw
#define MPI_IReduce               MPI_Ireduce
#define MPI_IAllreduce            MPI_Iallreduce
#define MPI_IReduce_scatter       MPI_Ireduce_scatter
#define MPI_IReduce_scatter_block MPI_Ireduce_scatter_block
#define MPI_IScan                 MPI_Iscan
#define MPI_IExscan               MPI_Iexscan
#define MPI_INeighbor_allgather   MPI_Ineighbor_allgather
#define MPI_INeighbor_alltoall    MPI_Ineighbor_alltoall

/* The block of n ints that goes from one rank to another. */
static void fill(const op_t *op, int *block, int n, int from, int to)
{
    for (int i = 0; i < n; i++) {
        block[i] = value(op, from, to, i);
    }
}

/* What this rank sends to each, one block after the other. */
static void fill_blocks(op_t *op, int blocks)
{
    op->in = new_ints((size_t) blocks * (size_t) op->n);
    for (int b = 0; b < blocks; b++) {
        fill(op, op->in + b * op->n, op->n, op->rank, b);
    }
}

/* Counts and displacements with a gap of one between blocks. The value is the room they need. */
static size_t make_counts(const op_t *op, int **counts, int **displs)
{
    int at = 0;

    *counts = tm_calloc((size_t) op->size, sizeof(int));
    *displs = tm_calloc((size_t) op->size, sizeof(int));
    for (int r = 0; r < op->size; r++) {
        (*counts)[r] = block_of(op, r);
        (*displs)[r] = at;
        at += block_of(op, r) + 1;
    }
    return (size_t) at;
}

static void start_rooted(op_t *op, bool blocking)
{
    bool is_root = op->rank == op->root;
    size_t room;

    switch (op->kind) {
    case BCAST:
        op->out = new_ints((size_t) op->n);
        if (is_root) {
            fill(op, op->out, op->n, op->root, 0);
        }
        CALL(Bcast, op->out, op->n, MPI_INT, op->root, op->comm);
        break;
    case BCAST_VECTOR:
        op->type = tm_vector(op->n, 1, 2, MPI_INT);
        op->out = new_ints(2 * (size_t) op->n);
        for (int i = 0; i < op->n && is_root; i++) {
            op->out[2 * i] = value(op, op->root, 0, i);
        }
        CALL(Bcast, op->out, 1, op->type, op->root, op->comm);
        break;
    case GATHER:
    case GATHER_IN_PLACE:
        fill_blocks(op, 1);
        op->out = new_ints(is_root ? (size_t) op->n * (size_t) op->size : 0);
        if (GATHER_IN_PLACE == op->kind && is_root) {
            memcpy(op->out + op->rank * op->n, op->in, (size_t) op->n * sizeof(int));
        }
        CALL(Gather, GATHER_IN_PLACE == op->kind && is_root ? MPI_IN_PLACE : op->in, op->n, MPI_INT,
             op->out, op->n, MPI_INT, op->root, op->comm);
        break;
    case GATHERV:
        room = make_counts(op, &op->counts, &op->displs);
        op->in = new_ints((size_t) block_of(op, op->rank));
        fill(op, op->in, block_of(op, op->rank), op->rank, 0);
        op->out = new_ints(is_root ? room : 0);
        CALL(Gatherv, op->in, block_of(op, op->rank), MPI_INT, op->out, op->counts, op->displs,
             MPI_INT, op->root, op->comm);
        break;
    case SCATTER:
        fill_blocks(op, is_root ? op->size : 0);
        op->out = new_ints((size_t) op->n);
        CALL(Scatter, op->in, op->n, MPI_INT, op->out, op->n, MPI_INT, op->root, op->comm);
        break;
    default: /* SCATTERV */
        room = make_counts(op, &op->counts, &op->displs);
        op->in = new_ints(is_root ? room : 0);
        for (int r = 0; r < op->size && is_root; r++) {
            fill(op, op->in + op->displs[r], op->counts[r], op->root, r);
        }
        op->out = new_ints((size_t) block_of(op, op->rank));
        CALL(Scatterv, op->in, op->counts, op->displs, MPI_INT, op->out, block_of(op, op->rank),
             MPI_INT, op->root, op->comm);
        break;
    }
}

static void start_all(op_t *op, bool blocking)
{
    size_t blocks = (size_t) op->size * (size_t) op->n, room;
    int unit = (int) sizeof(int);

    switch (op->kind) {
    case ALLGATHER:
    case ALLGATHER_IN_PLACE:
        fill_blocks(op, 1);
        op->out = new_ints(blocks);
        if (ALLGATHER_IN_PLACE == op->kind) {
            memcpy(op->out + op->rank * op->n, op->in, (size_t) op->n * sizeof(int));
        }
        CALL(Allgather, ALLGATHER == op->kind ? op->in : MPI_IN_PLACE, op->n, MPI_INT, op->out,
             op->n, MPI_INT, op->comm);
        break;
    case ALLGATHERV:
        op->out = new_ints(make_counts(op, &op->counts, &op->displs));
        op->in = new_ints((size_t) block_of(op, op->rank));
        fill(op, op->in, block_of(op, op->rank), op->rank, 0);
        CALL(Allgatherv, op->in, block_of(op, op->rank), MPI_INT, op->out, op->counts, op->displs,
             MPI_INT, op->comm);
        break;
    case ALLTOALL:
    case ALLTOALL_IN_PLACE:
        fill_blocks(op, op->size);
        op->out = new_ints(blocks);
        if (ALLTOALL_IN_PLACE == op->kind) {
            memcpy(op->out, op->in, blocks * sizeof(int));
        }
        CALL(Alltoall, ALLTOALL == op->kind ? op->in : MPI_IN_PLACE, op->n, MPI_INT, op->out, op->n,
             MPI_INT, op->comm);
        break;
    default: /* ALLTOALLV, ALLTOALLW: the block from a to b has n + b % 3 ints */
        room = make_counts(op, &op->counts, &op->displs);
        op->in = new_ints(room);
        for (int r = 0; r < op->size; r++) {
            fill(op, op->in + op->displs[r], op->counts[r], op->rank, r);
        }
        op->counts2 = tm_calloc((size_t) op->size, sizeof(int));
        op->displs2 = tm_calloc((size_t) op->size, sizeof(int));
        op->types = tm_calloc((size_t) op->size, sizeof(MPI_Datatype));
        for (int r = 0; r < op->size; r++) {
            op->counts2[r] = block_of(op, op->rank);
            op->displs2[r] = (op->size - 1 - r) * (block_of(op, op->rank) + 2);
            op->types[r] = MPI_INT;
        }
        op->out = new_ints((size_t) op->size * (size_t) (block_of(op, op->rank) + 2));
        if (ALLTOALLV == op->kind) {
            CALL(Alltoallv, op->in, op->counts, op->displs, MPI_INT, op->out, op->counts2,
                 op->displs2, MPI_INT, op->comm);
        } else {
            for (int r = 0; r < op->size; r++) {
                op->displs[r] *= unit;
                op->displs2[r] *= unit;
            }
            CALL(Alltoallw, op->in, op->counts, op->displs, op->types, op->out, op->counts2,
                 op->displs2, op->types, op->comm);
        }
        break;
    }
}

static void start_reduction(op_t *op, bool blocking)
{
    size_t n = (size_t) op->n;

    if (op->kind <= ALLREDUCE_IN_PLACE || SCAN == op->kind || EXSCAN == op->kind) {
        fill_blocks(op, 1);
        op->out = new_ints(n);
    }
    switch (op->kind) {
    case REDUCE:
        CALL(Reduce, op->in, op->out, op->n, MPI_INT, MPI_SUM, op->root, op->comm);
        break;
    case ALLREDUCE:
        CALL(Allreduce, op->in, op->out, op->n, MPI_INT, MPI_MAX, op->comm);
        break;
    case ALLREDUCE_IN_PLACE:
        memcpy(op->out, op->in, n * sizeof(int));
        CALL(Allreduce, MPI_IN_PLACE, op->out, op->n, MPI_INT, MPI_SUM, op->comm);
        break;
    case ALLREDUCE_OWN_OP:
        op->in = new_ints(2 * n);
        for (int i = 0; i < 2 * op->n; i++) {
            op->in[i] = 2 * value(op, op->rank, 0, i) + 1;
        }
        op->out = new_ints(2 * n);
        CALL(Allreduce, op->in, op->out, op->n, MPI_2INT, own_op, op->comm);
        break;
    case REDUCE_SCATTER:
        make_counts(op, &op->counts, &op->displs);
        op->in = new_ints((n + 2) * (size_t) op->size);
        for (int r = 0, at = 0; r < op->size; at += op->counts[r++]) {
            fill(op, op->in + at, op->counts[r], op->rank, r);
        }
        op->out = new_ints((size_t) block_of(op, op->rank));
        CALL(Reduce_scatter, op->in, op->out, op->counts, MPI_INT, MPI_SUM, op->comm);
        break;
    case REDUCE_SCATTER_BLOCK:
        fill_blocks(op, op->size);
        op->out = new_ints(n);
        CALL(Reduce_scatter_block, op->in, op->out, op->n, MPI_INT, MPI_SUM, op->comm);
        break;
    case SCAN:
        CALL(Scan, op->in, op->out, op->n, MPI_INT, MPI_SUM, op->comm);
        break;
    default: /* EXSCAN */
        CALL(Exscan, op->in, op->out, op->n, MPI_INT, MPI_SUM, op->comm);
        break;
    }
}

/* comm is a ring for the neighbourhood collectives: the neighbours are rank - 1 and rank + 1. */
static op_t *start(MPI_Comm comm, int kind, int n, int salt, bool blocking)
{
    op_t *op = tm_calloc(1, sizeof(*op));

    *op = (op_t){.comm = comm,
                 .kind = kind,
                 .n = n,
                 .salt = salt,
                 .req = MPI_REQUEST_NULL,
                 .type = MPI_DATATYPE_NULL};
    MPI_Comm_rank(comm, &op->rank);
    MPI_Comm_size(comm, &op->size);
    op->root = salt % op->size;
    if (BARRIER == kind) {
        CALL(Barrier, op->comm);
    } else if (kind <= SCATTERV) {
        start_rooted(op, blocking);
    } else if (kind <= ALLTOALLW) {
        start_all(op, blocking);
    } else if (kind <= EXSCAN) {
        start_reduction(op, blocking);
    } else if (NEIGHBOR_ALLGATHER == kind) {
        fill_blocks(op, 1);
        op->out = new_ints(2 * (size_t) n);
        CALL(Neighbor_allgather, op->in, n, MPI_INT, op->out, n, MPI_INT, op->comm);
    } else {
        fill_blocks(op, 2);
        op->out = new_ints(2 * (size_t) n);
        CALL(Neighbor_alltoall, op->in, n, MPI_INT, op->out, n, MPI_INT, op->comm);
    }
    return op;
}

/* ---- check ---- ------------------------------------------------------------------------------ */

static bool expect(const op_t *op, int at, int want)
{
    return TM_CHECK(op->out[at] == want,
                    "%s of %d ints, %d ranks, root %d: element %d is %d, expected %d",
                    names[op->kind], op->n, op->size, op->root, at, op->out[at], want);
}

static void expect_block(const op_t *op, int at, int n, int from, int to)
{
    for (int i = 0; i < n && expect(op, at + i, value(op, from, to, i)); i++) {
    }
}

/* The sum over the ranks below last of what they gave for block to. */
static void expect_sum(const op_t *op, int n, int last, int to)
{
    for (int i = 0; i < n; i++) {
        int sum = 0;

        for (int r = 0; r < last; r++) {
            sum += value(op, r, to, i);
        }
        if (!expect(op, i, sum)) {
            return;
        }
    }
}

static void check_own_op(const op_t *op)
{
    for (int i = 0; i < op->n; i++) {
        uint32_t a = 1, b = 0;

        for (int r = 0; r < op->size; r++) {
            uint32_t c = 2 * (uint32_t) value(op, r, 0, 2 * i) + 1,
                     d = 2 * (uint32_t) value(op, r, 0, 2 * i + 1) + 1;

            b = b * c + d;
            a *= c;
        }
        if (!expect(op, 2 * i, (int) a) || !expect(op, 2 * i + 1, (int) b)) {
            return;
        }
    }
}

static void check(const op_t *op)
{
    bool is_root = op->rank == op->root;

    switch (op->kind) {
    case BARRIER:
        break;
    case BCAST:
        expect_block(op, 0, op->n, op->root, 0);
        break;
    case BCAST_VECTOR:
        for (int i = 0;
             i < op->n && expect(op, 2 * i, value(op, op->root, 0, i)) && expect(op, 2 * i + 1, -7);
             i++) {
        }
        break;
    case GATHER:
    case GATHER_IN_PLACE:
    case ALLGATHER:
    case ALLGATHER_IN_PLACE:
        for (int r = 0; r < op->size && (is_root || op->kind >= ALLGATHER); r++) {
            expect_block(op, r * op->n, op->n, r, 0);
        }
        break;
    case GATHERV:
    case ALLGATHERV:
        for (int r = 0; r < op->size && (is_root || ALLGATHERV == op->kind); r++) {
            expect_block(op, op->displs[r], op->counts[r], r, 0);
            expect(op, op->displs[r] + op->counts[r], -7);
        }
        break;
    case SCATTER:
        expect_block(op, 0, op->n, op->root, op->rank);
        break;
    case SCATTERV:
        expect_block(op, 0, block_of(op, op->rank), op->root, op->rank);
        break;
    case ALLTOALL:
    case ALLTOALL_IN_PLACE:
        for (int r = 0; r < op->size; r++) {
            expect_block(op, r * op->n, op->n, r, op->rank);
        }
        break;
    case ALLTOALLV:
    case ALLTOALLW:
        for (int r = 0; r < op->size; r++) {
            int at = op->displs2[r] / (ALLTOALLW == op->kind ? (int) sizeof(int) : 1);

            expect_block(op, at, op->counts2[r], r, op->rank);
            expect(op, at + op->counts2[r], -7);
        }
        break;
    case REDUCE:
        if (is_root) {
            expect_sum(op, op->n, op->size, 0);
        }
        break;
    case ALLREDUCE:
        for (int i = 0; i < op->n; i++) {
            int max = value(op, 0, 0, i);

            for (int r = 1; r < op->size; r++) {
                max = value(op, r, 0, i) > max ? value(op, r, 0, i) : max;
            }
            if (!expect(op, i, max)) {
                break;
            }
        }
        break;
    case ALLREDUCE_IN_PLACE:
        expect_sum(op, op->n, op->size, 0);
        break;
    case ALLREDUCE_OWN_OP:
        check_own_op(op);
        break;
    case REDUCE_SCATTER:
        expect_sum(op, block_of(op, op->rank), op->size, op->rank);
        break;
    case REDUCE_SCATTER_BLOCK:
        expect_sum(op, op->n, op->size, op->rank);
        break;
    case SCAN:
        expect_sum(op, op->n, op->rank + 1, 0);
        break;
    case EXSCAN:
        if (op->rank > 0) {
            expect_sum(op, op->n, op->rank, 0);
        }
        break;
    default: {
        int low = (op->rank + op->size - 1) % op->size, high = (op->rank + 1) % op->size;
        bool all = NEIGHBOR_ALLTOALL == op->kind;

        /* What the lower neighbour sends to its higher one, and the other way round. */
        expect_block(op, 0, op->n, low, all ? 1 : 0);
        expect_block(op, op->n, op->n, high, 0);
        break;
    }
    }
}

static void finish(op_t *op)
{
    check(op);
    if (NULL != op->in) {
        tm_free(op->in);
    }
    if (NULL != op->out) {
        tm_free(op->out);
    }
    if (MPI_DATATYPE_NULL != op->type) {
        TM_MPI(MPI_Type_free(&op->type));
    }
    free(op->counts);
    free(op->displs);
    free(op->counts2);
    free(op->displs2);
    free(op->types);
    free(op);
}

/* ---- runs ---- ------------------------------------------------------------------------------- */

/*
 * With one or two ranks both neighbours are the same, and Open MPI's order of their blocks is not
 * what one expects.
 */
static bool can_run(int kind, int size)
{
    return kind < NEIGHBOR_ALLGATHER || size > 2;
}

static void one_by_one(MPI_Comm comm, int max)
{
    int size;

    MPI_Comm_size(comm, &size);
    for (int n = 1; n <= max; n = n < 8 ? n * 3 : n * 10) {
        for (int kind = 0; kind < NKINDS; kind++) {
            for (int blocking = 0; blocking < 2 && can_run(kind, size); blocking++) {
                op_t *op = start(comm, kind, n, n + 10 * kind + blocking, blocking);

                TM_MPI(MPI_Wait(&op->req, MPI_STATUS_IGNORE));
                finish(op);
            }
        }
    }
}

/* Many on several communicators at once, completed in random order, with messages between. */
static void at_once(MPI_Comm *comm, int ncomms, int count, int max, int round)
{
    op_t **op = tm_calloc((size_t) count, sizeof(*op));
    MPI_Request *req = tm_calloc((size_t) count, sizeof(*req));
    tm_rng_t rng = tm_rng((uint64_t) round, 31); /* the same on all ranks */

    for (int i = 0; i < count; i++) {
        MPI_Comm c = comm[tm_below(&rng, (uint64_t) ncomms)];
        int kind = (int) tm_below(&rng, NKINDS),
            n = 1 + (int) tm_below(&rng, (uint64_t) max) / (0 == i % 5 ? 1 : 50), size;

        MPI_Comm_size(c, &size);
        op[i] = start(c, can_run(kind, tm_size > 3 ? size : 1) ? kind : ALLTOALL, n,
                      1000 * round + i, false);
        req[i] = op[i]->req;
        if (0 == i % 4) {
            unsigned char out[200], in[200];

            tm_fill(out, sizeof(out), tm_key(tm_rank, tm_dst, i, round));
            TM_MPI(MPI_Sendrecv(out, sizeof(out), MPI_BYTE, tm_dst, i, in, sizeof(in), MPI_BYTE,
                                tm_src, i, comm[0], MPI_STATUS_IGNORE));
            tm_expect_data(in, sizeof(in), tm_key(tm_src, tm_rank, i, round),
                           "between collectives");
        }
    }
    if (0 == round % 2) {
        TM_MPI(MPI_Waitall(count, req, MPI_STATUSES_IGNORE));
    }
    for (int left = 0 == round % 2 ? 0 : count; left > 0; left--) {
        int which;

        TM_MPI(MPI_Waitany(count, req, &which, MPI_STATUS_IGNORE));
    }
    for (int i = 0; i < count; i++) {
        finish(op[i]);
    }
    free(op);
    free(req);
}

int main(int argc, char **argv)
{
    MPI_Comm ring, half, reversed, graph[4];
    int max, size;

    tm_init(&argc, &argv, "collectives");
    max = (int) tm_arg(argc, argv, 1, 30000);
    TM_MPI(MPI_Op_create(own_function, 0, &own_op));
    /* Each communicator gets a periodic line as its topology, for the neighbourhood collectives. */
    TM_MPI(MPI_Comm_split(MPI_COMM_WORLD, tm_rank % 2, 0, &half));
    TM_MPI(MPI_Comm_split(MPI_COMM_WORLD, 0, tm_size - tm_rank, &reversed));
    TM_MPI(MPI_Comm_dup(MPI_COMM_WORLD, &ring));
    MPI_Comm base[4] = {MPI_COMM_WORLD, half, reversed, ring};
    for (int i = 0; i < 4; i++) {
        MPI_Comm_size(base[i], &size);
        TM_MPI(MPI_Cart_create(base[i], 1, &size, (int[]){1}, 0, &graph[i]));
    }
    for (int i = 0; i < 3; i++) {
        one_by_one(graph[i], 0 == i ? max : max / 10);
    }
    for (int round = 0; round < 30; round++) {
        at_once(graph, 4, 25, max / 3 + 1, round);
    }
    for (int i = 0; i < 4; i++) {
        TM_MPI(MPI_Comm_free(&graph[i]));
    }
    TM_MPI(MPI_Comm_free(&half));
    TM_MPI(MPI_Comm_free(&reversed));
    TM_MPI(MPI_Comm_free(&ring));
    TM_MPI(MPI_Op_free(&own_op));
    return tm_finish();
}
