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

/* What a rank gives, or has in the end: so many ints in blocks, from one rank to another. */
typedef enum {
    NOTHING,
    BLOCK,      /* n ints, to rank 0, or from the root */
    OWN_BLOCK,  /* as many as block_of() says for this rank */
    BLOCKS,     /* n to, or from, each */
    OWN_BLOCKS, /* block_of() of each, with a gap behind each block */
    TO_ME,      /* of each as many as block_of() says for this rank, in reverse, with gaps */
    STRIDED,    /* n, every other int */
    PAIRS,      /* 2 n, for an operation of the program's own */
    NEIGHBOURS, /* n from the one below and the one above */
} shape_t;

/* How what the ranks give becomes what they have. */
typedef enum { MOVE, SUM, SUM_UPTO, SUM_BELOW, MAX, OWN } result_t;

typedef enum {
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
} kind_t;

/* to_each: what is given differs from receiver to receiver. */
static const struct {
    const char *name;
    shape_t in, out;
    result_t result;
    bool gives_root, has_root; /* the root alone */
    bool is_in_place, to_each;
} kinds[NKINDS] = {
    [BARRIER] = {"Barrier", NOTHING, NOTHING},
    [BCAST] = {"Bcast", BLOCK, BLOCK, MOVE, .gives_root = true, .is_in_place = true},
    [BCAST_VECTOR] = {"Bcast of a vector", STRIDED, STRIDED, MOVE, .gives_root = true,
                      .is_in_place = true},
    [GATHER] = {"Gather", BLOCK, BLOCKS, MOVE, .has_root = true},
    [GATHER_IN_PLACE] = {"Gather in place", BLOCK, BLOCKS, MOVE, .has_root = true,
                         .is_in_place = true},
    [GATHERV] = {"Gatherv", OWN_BLOCK, OWN_BLOCKS, MOVE, .has_root = true},
    [SCATTER] = {"Scatter", BLOCKS, BLOCK, MOVE, .gives_root = true, .to_each = true},
    [SCATTERV] = {"Scatterv", OWN_BLOCKS, OWN_BLOCK, MOVE, .gives_root = true, .to_each = true},
    [ALLGATHER] = {"Allgather", BLOCK, BLOCKS, MOVE},
    [ALLGATHER_IN_PLACE] = {"Allgather in place", BLOCK, BLOCKS, MOVE, .is_in_place = true},
    [ALLGATHERV] = {"Allgatherv", OWN_BLOCK, OWN_BLOCKS, MOVE},
    [ALLTOALL] = {"Alltoall", BLOCKS, BLOCKS, MOVE, .to_each = true},
    [ALLTOALL_IN_PLACE] = {"Alltoall in place", BLOCKS, BLOCKS, MOVE, .is_in_place = true,
                           .to_each = true},
    [ALLTOALLV] = {"Alltoallv", OWN_BLOCKS, TO_ME, MOVE, .to_each = true},
    [ALLTOALLW] = {"Alltoallw", OWN_BLOCKS, TO_ME, MOVE, .to_each = true},
    [REDUCE] = {"Reduce", BLOCK, BLOCK, SUM, .has_root = true},
    [ALLREDUCE] = {"Allreduce", BLOCK, BLOCK, MAX},
    [ALLREDUCE_IN_PLACE] = {"Allreduce in place", BLOCK, BLOCK, SUM, .is_in_place = true},
    [ALLREDUCE_OWN_OP] = {"Allreduce, own operation", PAIRS, PAIRS, OWN},
    [REDUCE_SCATTER] = {"Reduce_scatter", OWN_BLOCKS, OWN_BLOCK, SUM, .to_each = true},
    [REDUCE_SCATTER_BLOCK] = {"Reduce_scatter_block", BLOCKS, BLOCK, SUM, .to_each = true},
    [SCAN] = {"Scan", BLOCK, BLOCK, SUM_UPTO},
    [EXSCAN] = {"Exscan", BLOCK, BLOCK, SUM_BELOW},
    [NEIGHBOR_ALLGATHER] = {"Neighbor_allgather", BLOCK, NEIGHBOURS, MOVE},
    [NEIGHBOR_ALLTOALL] = {"Neighbor_alltoall", BLOCKS, NEIGHBOURS, MOVE, .to_each = true},
};

enum { UNTOUCHED = -7 };

/* The blocks of a shape: as many as ranks or fewer, each of so many ints, at these places. */
typedef struct blocks {
    int n, *counts, *displs;
    size_t room;
    int *data;
} blocks_t;

/* One collective operation from its start to its check. */
typedef struct op {
    MPI_Comm comm;
    kind_t kind;
    int n, salt, root; /* n: ints per block */
    int rank, size;
    blocks_t in, out;
    MPI_Datatype type, *types; /* Bcast of a vector; Alltoallw */
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

/* The v variants give rank r a block of so many. */
static int block_of(const op_t *op, int rank)
{
    return op->n + rank % 3;
}

/* ---- start ---- ------------------------------------------------------------------------------ */

static blocks_t make_blocks(const op_t *op, shape_t shape)
{
    bool is_one = BLOCK == shape || OWN_BLOCK == shape || STRIDED == shape || PAIRS == shape;
    int at = 0, gap = OWN_BLOCKS == shape || TO_ME == shape ? 2 : 0;
    blocks_t b = {.n = NOTHING == shape ? 0 : is_one ? 1 : NEIGHBOURS == shape ? 2 : op->size};

    b.counts = tm_calloc((size_t) op->size + 1, sizeof(int));
    b.displs = tm_calloc((size_t) op->size + 1, sizeof(int));
    for (int k = 0; k < b.n; k++) {
        int r = TO_ME == shape ? b.n - 1 - k : k;

        b.counts[r] = OWN_BLOCK == shape || TO_ME == shape ? block_of(op, op->rank)
                      : OWN_BLOCKS == shape                ? block_of(op, r)
                      : PAIRS == shape                     ? 2 * op->n
                                                           : op->n;
        b.displs[r] = at;
        at += b.counts[r] * (STRIDED == shape ? 2 : 1) + gap;
    }
    b.room = (size_t) at;
    b.data = tm_alloc(b.room * sizeof(int));
    for (size_t i = 0; i < b.room; i++) {
        b.data[i] = UNTOUCHED;
    }
    return b;
}

/* What this rank gives, with its memory, and that for the result. */
static void prepare(op_t *op)
{
    bool is_root = op->rank == op->root;
    int step = BCAST_VECTOR == op->kind ? 2 : 1;

    op->in = make_blocks(op, kinds[op->kind].gives_root && !is_root ? NOTHING : kinds[op->kind].in);
    op->out = make_blocks(op, kinds[op->kind].has_root && !is_root ? NOTHING : kinds[op->kind].out);
    for (int b = 0; b < op->in.n; b++) {
        int *block = op->in.data + op->in.displs[b], to = kinds[op->kind].to_each ? b : 0;

        for (int i = 0; i < op->in.counts[b]; i++) {
            block[step * i] = PAIRS == kinds[op->kind].in ? 2 * value(op, op->rank, 0, i) + 1
                                                          : value(op, op->rank, to, i);
        }
    }
    if (kinds[op->kind].is_in_place && op->in.n > 0 && op->out.n > 0) {
        memcpy(op->out.data + (op->in.n < op->out.n ? op->out.displs[op->rank] : 0), op->in.data,
               op->in.room * sizeof(int));
    }
}

/* Call the blocking function, or the non-blocking one, whose name differs, with a request. */
#define CALL(name, iname, ...)                                                                     \
    do {                                                                                           \
        if (is_blocking) {                                                                         \
            TM_MPI(MPI_##name(__VA_ARGS__));                                                       \
        } else {                                                                                   \
            TM_MPI(MPI_I##iname(__VA_ARGS__, &op->req));                                           \
        }                                                                                          \
    } while (0)

static void call(op_t *op, bool is_blocking)
{
    int n = op->n, root = op->root, *out = op->out.data;
    /* a rank that is not the root gives what it has to MPI_Gather */
    void *in = kinds[op->kind].is_in_place && op->out.n > 0 ? MPI_IN_PLACE : op->in.data;
    MPI_Comm comm = op->comm;

    switch (op->kind) {
    case BARRIER:
        CALL(Barrier, barrier, comm);
        break;
    case BCAST:
        CALL(Bcast, bcast, out, n, MPI_INT, root, comm);
        break;
    case BCAST_VECTOR:
        op->type = tm_vector(n, 1, 2, MPI_INT);
        CALL(Bcast, bcast, out, 1, op->type, root, comm);
        break;
    case GATHER:
    case GATHER_IN_PLACE:
        CALL(Gather, gather, in, n, MPI_INT, out, n, MPI_INT, root, comm);
        break;
    case GATHERV:
        CALL(Gatherv, gatherv, in, op->in.counts[0], MPI_INT, out, op->out.counts, op->out.displs,
             MPI_INT, root, comm);
        break;
    case SCATTER:
        CALL(Scatter, scatter, in, n, MPI_INT, out, n, MPI_INT, root, comm);
        break;
    case SCATTERV:
        CALL(Scatterv, scatterv, in, op->in.counts, op->in.displs, MPI_INT, out, op->out.counts[0],
             MPI_INT, root, comm);
        break;
    case ALLGATHER:
    case ALLGATHER_IN_PLACE:
        CALL(Allgather, allgather, in, n, MPI_INT, out, n, MPI_INT, comm);
        break;
    case ALLGATHERV:
        CALL(Allgatherv, allgatherv, in, op->in.counts[0], MPI_INT, out, op->out.counts,
             op->out.displs, MPI_INT, comm);
        break;
    case ALLTOALL:
    case ALLTOALL_IN_PLACE:
        CALL(Alltoall, alltoall, in, n, MPI_INT, out, n, MPI_INT, comm);
        break;
    case ALLTOALLV:
        CALL(Alltoallv, alltoallv, in, op->in.counts, op->in.displs, MPI_INT, out, op->out.counts,
             op->out.displs, MPI_INT, comm);
        break;
    case ALLTOALLW:
        op->types = tm_calloc((size_t) op->size, sizeof(*op->types));
        for (int r = 0; r < op->size; r++) {
            op->types[r] = MPI_INT;
            op->in.displs[r] *= (int) sizeof(int);
            op->out.displs[r] *= (int) sizeof(int);
        }
        CALL(Alltoallw, alltoallw, in, op->in.counts, op->in.displs, op->types, out, op->out.counts,
             op->out.displs, op->types, comm);
        break;
    case REDUCE:
        CALL(Reduce, reduce, in, out, n, MPI_INT, MPI_SUM, root, comm);
        break;
    case ALLREDUCE:
        CALL(Allreduce, allreduce, in, out, n, MPI_INT, MPI_MAX, comm);
        break;
    case ALLREDUCE_IN_PLACE:
        CALL(Allreduce, allreduce, in, out, n, MPI_INT, MPI_SUM, comm);
        break;
    case ALLREDUCE_OWN_OP:
        CALL(Allreduce, allreduce, in, out, n, MPI_2INT, own_op, comm);
        break;
    case REDUCE_SCATTER: /* its blocks lie without gaps */
        for (int r = 0, at = 0; r < op->size; at += op->in.counts[r++]) {
            memmove(op->in.data + at, op->in.data + op->in.displs[r],
                    (size_t) op->in.counts[r] * sizeof(int));
        }
        CALL(Reduce_scatter, reduce_scatter, in, out, op->in.counts, MPI_INT, MPI_SUM, comm);
        break;
    case REDUCE_SCATTER_BLOCK:
        CALL(Reduce_scatter_block, reduce_scatter_block, in, out, n, MPI_INT, MPI_SUM, comm);
        break;
    case SCAN:
        CALL(Scan, scan, in, out, n, MPI_INT, MPI_SUM, comm);
        break;
    case EXSCAN:
        CALL(Exscan, exscan, in, out, n, MPI_INT, MPI_SUM, comm);
        break;
    case NEIGHBOR_ALLGATHER:
        CALL(Neighbor_allgather, neighbor_allgather, in, n, MPI_INT, out, n, MPI_INT, comm);
        break;
    default: /* of the blocks the first two */
        CALL(Neighbor_alltoall, neighbor_alltoall, in, n, MPI_INT, out, n, MPI_INT, comm);
        break;
    }
}

/* comm is a ring for the neighbourhood collectives: the neighbours are rank - 1 and rank + 1. */
static op_t *start(MPI_Comm comm, int kind, int n, int salt, bool is_blocking)
{
    op_t *op = tm_calloc(1, sizeof(*op));

    *op = (op_t){.comm = comm,
                 .kind = (kind_t) kind,
                 .n = n,
                 .salt = salt,
                 .req = MPI_REQUEST_NULL,
                 .type = MPI_DATATYPE_NULL};
    MPI_Comm_rank(comm, &op->rank);
    MPI_Comm_size(comm, &op->size);
    op->root = salt % op->size;
    prepare(op);
    call(op, is_blocking);
    return op;
}

/* ---- check ---- ------------------------------------------------------------------------------ */

/* Element i of the result's block b. */
static int expected(const op_t *op, int b, int i)
{
    int low = (op->rank + op->size - 1) % op->size, high = (op->rank + 1) % op->size, all = 0,
        last = op->size, to = kinds[op->kind].to_each ? op->rank : 0;
    uint32_t own[2] = {1, 0};

    switch (kinds[op->kind].result) {
    case MOVE:
        if (NEIGHBOURS == kinds[op->kind].out) {
            /* what the lower one sends to its higher one, and the other way round */
            return value(op, 0 == b ? low : high, kinds[op->kind].to_each && 0 == b, i);
        }
        return value(op, kinds[op->kind].gives_root ? op->root : b, to, i);
    case OWN:
        for (int r = 0; r < op->size; r++) {
            uint32_t c = 2 * (uint32_t) value(op, r, 0, i & ~1) + 1,
                     d = 2 * (uint32_t) value(op, r, 0, i | 1) + 1;

            own[1] = own[1] * c + d;
            own[0] *= c;
        }
        return (int) own[i & 1];
    case SUM_UPTO:
    case SUM_BELOW:
        last = op->rank + (SUM_UPTO == kinds[op->kind].result);
        break;
    default:
        break;
    }
    for (int r = 0; r < last; r++) {
        int one = value(op, r, to, i);

        all = MAX == kinds[op->kind].result ? (one > all ? one : all) : all + one;
    }
    return all;
}

/* All that is there, and that nothing else was written. */
static void check(const op_t *op)
{
    int unit = ALLTOALLW == op->kind ? (int) sizeof(int) : 1,
        step = BCAST_VECTOR == op->kind ? 2 : 1;
    int *want = tm_calloc(op->out.room, sizeof(int));

    for (size_t i = 0; i < op->out.room; i++) {
        want[i] = UNTOUCHED;
    }
    for (int b = 0; b < op->out.n; b++) {
        for (int i = 0; i < op->out.counts[b]; i++) {
            want[op->out.displs[b] / unit + step * i] = expected(op, b, i);
        }
    }
    for (size_t i = 0; i < op->out.room && (EXSCAN != op->kind || op->rank > 0); i++) {
        if (!TM_CHECK(op->out.data[i] == want[i],
                      "%s of %d ints, %d ranks, root %d: int %zu is %d, expected %d",
                      kinds[op->kind].name, op->n, op->size, op->root, i, op->out.data[i],
                      want[i])) {
            break;
        }
    }
    free(want);
}

static void free_blocks(blocks_t *b)
{
    tm_free(b->data);
    free(b->counts);
    free(b->displs);
}

static void finish(op_t *op)
{
    check(op);
    free_blocks(&op->in);
    free_blocks(&op->out);
    if (MPI_DATATYPE_NULL != op->type) {
        TM_MPI(MPI_Type_free(&op->type));
    }
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
                op_t *op = start(comm, kind, n, n + 10 * kind + blocking, 0 != blocking);

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
