/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Blocking sends above the eager limit, which pml tm streams inside a host: the message leaves in
 * parts, as the receiver makes room, and other messages of the same sender stand before and behind
 * it.  Rank 0 sends to rank 1, then both exchange.  The receives are posted or not, long enough or
 * not; the data is contiguous or not, on either side.
 */
/* TEST: np=2 env="OMPI_MCA_pml_tm_stream_limit=65536" quick=yes */
/* TEST: np=2 env="OMPI_MCA_pml_tm_stream_limit=65536 OMPI_MCA_pml_tm_shm_ring_size=16384 OMPI_MCA_pml_tm_eager_limit=1024" */
/* TEST: np=2 env="OMPI_MCA_pml_tm_stream_limit=65536 OMPI_MCA_pml_tm_unexpected_max=65536" */
/* TEST: np=2 env="OMPI_MCA_pml_tm_providers=tcp" */
/* TEST: np=2 args="threads" env="OMPI_MCA_pml_tm_providers=shm OMPI_MCA_pml_tm_stream_limit=65536" */
#include "tm_counter.h"
#include "tm_threads.h"
#include "tm_types.h"

enum { MAX = 80000, NEAR = 3, TAG = 7, LAST = 9, ROUNDS = 30, SMALL = 100 };

static const size_t sizes[] = {16384, 16385, 20000, 32768, 49152, 65535, 65536, 65537, MAX};

enum { NUM_SIZES = sizeof(sizes) / sizeof(sizes[0]) };

/* Pairs of bytes with gaps, or bytes. */
static tm_type_t *pairs, *byte;

static tm_layout_t layout(size_t len, bool is_strided)
{
    return is_strided ? tm_layout_alloc(pairs, len / 2) : tm_layout_alloc(byte, len);
}

/* Rank 0: small messages around a long one, which is blocking. */
static void send_one(size_t len, bool is_strided)
{
    tm_layout_t out = layout(len, is_strided);
    MPI_Request small[2 * NEAR];
    static char near[2 * NEAR][SMALL];

    for (int i = 0; i < 2 * NEAR; i++) {
        tm_fill(near[i], SMALL, tm_key(0, 1, TAG, i));
    }
    for (int i = 0; i < NEAR; i++) {
        TM_MPI(MPI_Isend(near[i], SMALL, MPI_BYTE, 1, TAG, MPI_COMM_WORLD, &small[i]));
    }
    tm_layout_write(&out, len, tm_key(0, 1, TAG, (long) len), 0);
    TM_MPI(MPI_Send(tm_layout_buf(&out), tm_int(out.count), out.type->mpi, 1, TAG, MPI_COMM_WORLD));
    tm_layout_write(&out, 0, 0, 0); /* the send is complete: its memory is ours */
    for (int i = NEAR; i < 2 * NEAR; i++) {
        TM_MPI(MPI_Isend(near[i], SMALL, MPI_BYTE, 1, TAG, MPI_COMM_WORLD, &small[i]));
    }
    TM_MPI(MPI_Waitall(2 * NEAR, small, MPI_STATUSES_IGNORE));
    tm_layout_free(&out);
}

static void expect_small(int i)
{
    char near[SMALL];
    MPI_Status status;

    TM_MPI(MPI_Recv(near, SMALL, MPI_BYTE, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &status));
    TM_CHECK(TAG == status.MPI_TAG, "a message overtook another");
    tm_expect_data(near, SMALL, tm_key(0, 1, TAG, i), "a small message");
}

/* room: bytes that the receive takes. */
static void expect_long(size_t len, bool is_strided, size_t room)
{
    tm_layout_t in = layout(room, is_strided);
    MPI_Status status;
    int rc;

    tm_layout_write(&in, 0, 0, 0xee);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    rc = MPI_Recv(tm_layout_buf(&in), tm_int(in.count), in.type->mpi, 0, TAG, MPI_COMM_WORLD,
                  &status);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
    TM_CHECK((room < len ? MPI_ERR_TRUNCATE : MPI_SUCCESS) == tm_class(rc),
             "a receive of %zu bytes for %zu: error class %d", room, len, tm_class(rc));
    tm_expect_layout(&in, room, tm_key(0, 1, TAG, (long) len), 0xee, "a long message");
    tm_layout_free(&in);
}

/* kind: bit 0 the sender's data, bit 1 the receiver's is not contiguous; bit 2 it is cut. */
static void one_way(size_t len, int kind, bool is_late)
{
    len = 0 != kind ? len & ~(size_t) 1 : len;
    TM_MPI(MPI_Barrier(MPI_COMM_WORLD));
    if (0 == tm_rank) {
        send_one(len, 0 != (kind & 1));
        return;
    }
    if (is_late) {
        tm_spin_us(2000);
    }
    for (int i = 0; i < NEAR; i++) {
        expect_small(i);
    }
    expect_long(len, 0 != (kind & 2), 0 != (kind & 4) ? len / 4 * 2 : len);
    for (int i = NEAR; i < 2 * NEAR; i++) {
        expect_small(i);
    }
}

/* Both send at the same time, and receive what the other sends. */
static void exchange(char *data, size_t len)
{
    static char got[MAX];
    const int other = 1 - tm_rank;

    for (int i = 0; i < ROUNDS; i++) {
        tm_fill(data, len, tm_key(tm_rank, other, LAST, i));
        TM_MPI(MPI_Sendrecv(data, (int) len, MPI_BYTE, other, LAST, got, MAX, MPI_BYTE, other, LAST,
                            MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        tm_expect_data(got, len, tm_key(other, tm_rank, LAST, i), "an exchanged message");
    }
}

/* A thread of its own: blocking messages of all sizes, in a communicator of its own. */
static void *thread_main(void *arg)
{
    MPI_Comm comm = *(MPI_Comm *) arg;
    char *data = tm_calloc(1, MAX);

    for (int i = 0; i < 10 * ROUNDS; i++) {
        size_t len = i % 3 ? sizes[i % NUM_SIZES] : SMALL;
        uint64_t key = tm_key(0, 1, (int) len, i);
        if (0 == tm_rank) {
            tm_fill(data, len, key);
            TM_MPI(MPI_Send(data, (int) len, MPI_BYTE, 1, TAG, comm));
        } else {
            TM_MPI(MPI_Recv(data, MAX, MPI_BYTE, 0, TAG, comm, MPI_STATUS_IGNORE));
            tm_expect_data(data, len, key, "a message of a thread");
        }
    }
    free(data);
    return NULL;
}

static void run_threads(void)
{
    MPI_Comm comms[NEAR];

    for (int i = 0; i < NEAR; i++) {
        TM_MPI(MPI_Comm_dup(MPI_COMM_WORLD, &comms[i]));
    }
    tm_in_threads(thread_main, comms, NEAR, sizeof(*comms));
    for (int i = 0; i < NEAR; i++) {
        TM_MPI(MPI_Comm_free(&comms[i]));
    }
}

int main(int argc, char **argv)
{
    const bool is_threaded = argc > 1;
    tm_counter_t counter = {0};
    tm_type_t *pair;
    bool is_counted;
    char *data;

    tm_init_thread(&argc, &argv, "blocking", is_threaded ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE);
    data = tm_calloc(1, MAX);
    byte = tm_type_byte();
    pair = tm_type_contiguous(2, byte, "pair");
    pairs = tm_type_resized(pair, 0, 3, "pairs with gaps");
    tm_type_free(pair);
    is_counted = tm_is_pml_tm() && 0 == tm_rank && !is_threaded &&
                 NULL == getenv("OMPI_MCA_pml_tm_providers");
    if (is_counted) {
        counter = tm_counter_open("pml_tm_streamed");
    }
    for (int kind = 0; kind < 8 && !is_threaded; kind++) {
        for (int i = 0; i < NUM_SIZES; i++) {
            one_way(sizes[i], kind, false);
            one_way(sizes[i], kind, true);
        }
    }
    if (is_counted) {
        /* 6 of the sizes, of each kind, twice; fewer where the receiver is short of memory */
        TM_CHECK(0 != tm_counter_read(&counter), "nothing was streamed");
        tm_counter_close(&counter);
    }
    for (int i = 0; i < NUM_SIZES && !is_threaded; i++) {
        exchange(data, sizes[i]);
    }
    if (is_threaded) {
        run_threads();
    }
    tm_type_free(pairs);
    tm_type_free(byte);
    free(data);
    return tm_finish();
}
