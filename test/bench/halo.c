/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Faces of a halo between ranks 0 and 1, by the layout of the face and its bytes.
 *
 * Results, in us:
 *      halo_us <layout> <bytes>       both ranks at once: MPI_Irecv, MPI_Isend, MPI_Waitall, the
 *                                     same type on both sides and in both directions, as where two
 *                                     subdomains meet
 *      face_us from-<layout> <bytes>  from rank 0 to rank 1, from such a type to contiguous memory
 *                                     (-f)
 *      face_us to-<layout> <bytes>    the same from contiguous memory to such a type (-f)
 *
 * Each exchange begins at a barrier, before which the sender has changed all that it sends.  Data
 * that never changes would be in the receiver's cache already, and be copied faster than in any
 * program.
 *
 * Layouts: contiguous; strided-B, blocks of B bytes at twice that distance, but at least two cache
 * lines; indexed-B, the same blocks at distances that differ; with B up to the length of the face.
 * The data of each is checked once.
 */
#include "bench.h"

enum {
    TAG = 1,
    LINE = 64, /* bytes of a cache line */
    PROBE_ITERATIONS = 10,
    MAX_ITERATIONS = 100000,
};

#define SIZES "8192,65536,524288,4194304"

typedef enum { CONTIGUOUS, STRIDED, INDEXED } shape_t;

typedef struct face {
    MPI_Datatype type;
    char *memory;
    size_t span; /* bytes of memory */
} face_t;

typedef enum { BOTH, FROM, TO } way_t;

static void make_strided(face_t *face, int n, int block)
{
    MPI_Aint stride = 2 * block > 2 * LINE ? 2 * block : 2 * LINE;

    MPI_Type_create_hvector(n, block, stride, MPI_BYTE, &face->type);
    face->span = (size_t) n * (size_t) stride;
}

static void make_indexed(face_t *face, int n, int block)
{
    MPI_Aint *at = malloc((size_t) n * sizeof(*at));
    MPI_Aint next = 0;

    if (NULL == at) {
        bench_fail("out of memory");
    }
    for (int i = 0; i < n; i++) {
        at[i] = next;
        next += (block > LINE ? block : LINE) + LINE * (1 + i * 7 % 5);
    }
    MPI_Type_create_hindexed_block(n, block, at, MPI_BYTE, &face->type);
    face->span = (size_t) next;
    free(at);
}

static void make_face(face_t *face, shape_t shape, int size, int block)
{
    int n = size / block;

    if (STRIDED == shape) {
        make_strided(face, n, block);
    } else if (INDEXED == shape) {
        make_indexed(face, n, block);
    } else {
        MPI_Type_contiguous(size, MPI_BYTE, &face->type);
        face->span = (size_t) size;
    }
    MPI_Type_commit(&face->type);
    face->memory = bench_alloc(face->span);
}

static void free_face(face_t *face)
{
    MPI_Type_free(&face->type);
    free(face->memory);
}

/* The program has computed: all that is sent is new, and in this processor's cache. */
static void compute(const face_t *face)
{
    for (size_t i = 0; i < face->span; i += sizeof(uint64_t)) {
        *(uint64_t *) (void *) (face->memory + i) += 1;
    }
}

/* Seconds of one exchange, from a barrier to the end on this rank. */
static double exchange(bool is_sender, bool is_receiver, int peer, const face_t *out,
                       const face_t *in)
{
    MPI_Request req[2] = {MPI_REQUEST_NULL, MPI_REQUEST_NULL};
    double start;

    MPI_Barrier(MPI_COMM_WORLD);
    start = bench_now();
    if (is_receiver) {
        MPI_Irecv(in->memory, 1, in->type, peer, TAG, MPI_COMM_WORLD, &req[0]);
    }
    if (is_sender) {
        MPI_Isend(out->memory, 1, out->type, peer, TAG, MPI_COMM_WORLD, &req[1]);
    }
    MPI_Waitall(2, req, MPI_STATUSES_IGNORE);
    return bench_now() - start;
}

/* The mean, on rank 1, which receives. */
static double seconds(int rank, way_t way, const face_t *out, const face_t *in, int iterations)
{
    double sum = 0;

    for (int i = 0; i < iterations; i++) {
        compute(out);
        sum += exchange(BOTH == way || 0 == rank, BOTH == way || 1 == rank, 1 - rank, out, in);
    }
    sum /= iterations;
    MPI_Bcast(&sum, 1, MPI_DOUBLE, 1, MPI_COMM_WORLD);
    return sum;
}

/* The bytes of a face in their order. */
static char *packed(const face_t *face, int *len)
{
    int room, at = 0;
    char *bytes;

    MPI_Pack_size(1, face->type, MPI_COMM_SELF, &room);
    bytes = bench_alloc((size_t) room);
    MPI_Pack(face->memory, 1, face->type, bytes, room, &at, MPI_COMM_SELF);
    *len = at;
    return bytes;
}

/* Both ranks send the same: what comes must be what goes. */
static void check_data(int rank, way_t way, face_t *out, face_t *in)
{
    char *sent, *got;
    int num_sent, num_got;

    for (size_t i = 0; i < out->span; i++) {
        out->memory[i] = (char) (i * 7 + (i >> 12));
    }
    seconds(rank, way, out, in, 1);
    sent = packed(out, &num_sent);
    got = packed(in, &num_got);
    if (num_sent != num_got ||
        ((BOTH == way || 1 == rank) && 0 != memcmp(sent, got, (size_t) num_sent))) {
        bench_fail("wrong data");
    }
    free(sent);
    free(got);
}

static void measure(int rank, way_t way, shape_t shape, int size, int block,
                    const bench_options_t *opt)
{
    static const char *const shape_name[] = {"contiguous", "strided", "indexed"};
    static const char *const way_name[] = {"", "from-", "to-"};
    double batch[BENCH_MAX_BATCHES], probe;
    char variant[64];
    face_t out, in;
    int iterations;

    make_face(&out, TO == way ? CONTIGUOUS : shape, size, block);
    make_face(&in, FROM == way ? CONTIGUOUS : shape, size, block);
    check_data(rank, way, &out, &in);
    probe = seconds(rank, way, &out, &in, PROBE_ITERATIONS);
    iterations = bench_iterations(MPI_COMM_WORLD, opt->batch_seconds, 2 * probe, MAX_ITERATIONS);
    for (int b = 0; b < opt->batches; b++) {
        batch[b] = 1e6 * seconds(rank, way, &out, &in, iterations);
    }
    if (CONTIGUOUS == shape) {
        snprintf(variant, sizeof(variant), "contiguous");
    } else {
        snprintf(variant, sizeof(variant), "%s%s-%d", way_name[way], shape_name[shape], block);
    }
    if (0 == rank) {
        bench_result_times(BOTH == way ? "halo_us" : "face_us", variant, size, batch, opt->batches);
    }
    free_face(&out);
    free_face(&in);
}

int main(int argc, char **argv)
{
    static const int blocks[] = {8, 256, 1024, 4096};
    bench_options_t opt;
    int rank;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    opt = bench_options(argc, argv, SIZES);
    for (int i = 0; i < opt.list.count && rank < 2; i++) {
        int size = (int) opt.list.value[i];
        for (way_t way = BOTH; way <= (opt.is_full ? TO : BOTH); way++) {
            measure(rank, way, CONTIGUOUS, size, size, &opt);
            for (int b = 0; b < (int) (sizeof(blocks) / sizeof(*blocks)) && blocks[b] <= size;
                 b++) {
                measure(rank, way, STRIDED, size, blocks[b], &opt);
                measure(rank, way, INDEXED, size, blocks[b], &opt);
            }
        }
    }
    MPI_Finalize();
    return 0;
}
