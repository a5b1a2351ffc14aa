/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One message of more than 4 GiB: contiguous, and strided at both ends. The lengths are no multiple
 * of anything. Skipped where too little memory is free.
 */
/* TEST: np=2 timeout=300 quick=no short=turns */
#include "tm_test.h"

enum { TAG = 5, STRIDE = 69696 };

static const size_t unit = (size_t) 1 << 16; /* of the types: the count of units is an int */
static const size_t units = 65536 + 37;      /* 4 GiB and a little */
static const size_t tail = 12345;

static MPI_Datatype contiguous_type(void)
{
    MPI_Datatype part, type;
    int block[2] = {tm_int(units), tm_int(tail)};
    MPI_Aint disp[2] = {0, (MPI_Aint) (units * unit)};

    TM_MPI(MPI_Type_contiguous(tm_int(unit), MPI_BYTE, &part));
    TM_MPI(MPI_Type_create_struct(2, block, disp, (MPI_Datatype[]){part, MPI_BYTE}, &type));
    TM_MPI(MPI_Type_commit(&type));
    TM_MPI(MPI_Type_free(&part));
    return type;
}

static MPI_Datatype strided_type(void)
{
    MPI_Datatype part, type;
    int block[2] = {1, tm_int(tail)};
    MPI_Aint disp[2] = {0, (MPI_Aint) (units * STRIDE)};

    TM_MPI(MPI_Type_create_hvector(tm_int(units), tm_int(unit), STRIDE, MPI_BYTE, &part));
    TM_MPI(MPI_Type_create_struct(2, block, disp, (MPI_Datatype[]){part, MPI_BYTE}, &type));
    TM_MPI(MPI_Type_commit(&type));
    TM_MPI(MPI_Type_free(&part));
    return type;
}

/* Apply to each piece of a buffer: fill it, or compare it. */
static void fill(unsigned char *buf, bool is_strided, uint64_t key)
{
    size_t step = is_strided ? STRIDE : unit;

    for (size_t i = 0; i <= units; i++) {
        tm_fill_at(buf + i * step, i * unit, i < units ? unit : tail, key);
        if (is_strided && i < units) {
            memset(buf + i * step + unit, 0xee, STRIDE - unit);
        }
    }
}

static void check(const unsigned char *buf, bool is_strided, uint64_t key)
{
    size_t step = is_strided ? STRIDE : unit;

    for (size_t i = 0; i <= units; i++) {
        size_t n = i < units ? unit : tail, same = tm_match_at(buf + i * step, i * unit, n, key);

        if (!TM_CHECK(same == n, "byte %zu of the message is wrong", i * unit + same)) {
            return;
        }
        if (is_strided && i < units &&
            !tm_expect_fill(buf + i * step + unit, STRIDE - unit, 0xee, "gap")) {
            return;
        }
    }
}

static void transfer(unsigned char *buf, bool send_strided, bool recv_strided, int how, int seq)
{
    size_t bytes = units * unit + tail;
    bool mine_strided = 0 == tm_rank ? send_strided : recv_strided;
    MPI_Datatype type = mine_strided ? strided_type() : contiguous_type();
    uint64_t key = tm_key(0, 1, TAG, seq);
    double start;

    if (0 == tm_rank) {
        fill(buf, mine_strided, key);
    } else if (mine_strided) {
        memset(buf, 0xee, units * STRIDE + tail);
    } else {
        memset(buf, 0, bytes);
    }
    TM_MPI(MPI_Barrier(MPI_COMM_WORLD));
    start = tm_now();
    if (0 == tm_rank) {
        TM_MPI(MPI_Send(buf, 1, type, 1, TAG, MPI_COMM_WORLD));
        TM_MPI(MPI_Send(&seq, 1, MPI_INT, 1, TAG, MPI_COMM_WORLD));
    } else {
        MPI_Count elements = -1;
        MPI_Status st;
        MPI_Request req;
        int next = -1;

        tm_status_reset(&st);
        if (0 == how) {
            TM_MPI(MPI_Irecv(buf, 1, type, 0, TAG, MPI_COMM_WORLD, &req));
            TM_MPI(MPI_Wait(&req, &st));
        } else {
            TM_MPI(MPI_Probe(MPI_ANY_SOURCE, TAG, MPI_COMM_WORLD, &st));
            tm_expect_single(&st, 0, TAG, bytes);
            TM_MPI(MPI_Recv(buf, 1, type, 0, TAG, MPI_COMM_WORLD, &st));
        }
        tm_expect_single(&st, 0, TAG, bytes);
        TM_MPI(MPI_Get_elements_x(&st, type, &elements));
        TM_CHECK(elements == (MPI_Count) bytes, "MPI_Get_elements_x gave %lld, expected %zu",
                 (long long) elements, bytes);
        TM_MPI(MPI_Recv(&next, 1, MPI_INT, 0, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        TM_CHECK(next == seq, "the message behind is %d, expected %d", next, seq);
        printf("large: %zu bytes, strided %d to %d: %.2f s\n", bytes, send_strided, recv_strided,
               tm_now() - start);
        check(buf, mine_strided, key);
    }
    TM_MPI(MPI_Type_free(&type));
    TM_MPI(MPI_Barrier(MPI_COMM_WORLD));
}

int main(int argc, char **argv)
{
    size_t size = units * STRIDE + tail;
    size_t need = 2 * size + ((size_t) 1 << 30);
    unsigned char *buf;

    tm_init(&argc, &argv, "large");
    if (tm_free_memory(MPI_COMM_WORLD) < need) {
        return tm_skip("not enough memory");
    }
    if (2 != tm_size) {
        return tm_skip("this is for two ranks");
    }
    buf = tm_alloc(size);
    transfer(buf, false, false, 0, 1);
    transfer(buf, true, true, 1, 2);
    tm_free(buf);
    return tm_finish();
}
