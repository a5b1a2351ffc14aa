/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * MPI_Cancel of sends: of messages that have no receive yet, that race with one, that are matched,
 * queued, persistent, buffered, freed. Either a send is cancelled and nobody receives its message,
 * or it is not and its receiver has it; MPI_Wait returns in both cases without a receive.
 *
 * args: [rounds] [threads]
 */
/* TEST: np=1,2,4 args="60" timeout=90 quick=yes */
/* TEST: np=2 args="60" env="OMPI_MCA_pml_tm_shm_single_copy=none" timeout=90 */
/* TEST: np=2 args="60" env="OMPI_MCA_pml_tm_eager_limit=0" timeout=90 */
/* TEST: np=1,2 args="20 3" env="OMPI_MCA_mpi_yield_when_idle=1" timeout=90 */
/* TEST: np=2,4 args="40" env="OMPI_MCA_pml_tm_providers=tcp,self" timeout=90 */
/* TEST: np=2,4 device=tmdev args="40" env="OMPI_MCA_pml_tm_providers=^shm,tcp OMPI_MCA_mtl=^ofi" timeout=120 */
/* TEST: np=2 device=tmdev args="40" env="OMPI_MCA_pml_tm_providers=^shm,tcp TMDEV_TM_TAGS=4 OMPI_MCA_mtl=^ofi" timeout=120 */
/* TEST: np=2 device=tmdev args="10 2" env="OMPI_MCA_pml_tm_providers=^shm,tcp OMPI_MCA_mpi_yield_when_idle=1 OMPI_MCA_mtl=^ofi" timeout=120 */
#include "tm_threads.h"
#include "tm_types.h"

enum { MAX_THREADS = 8, TAG = 5, LARGE = 300000 };

static const size_t sizes[] = {0, 8, 3000, LARGE};
static int rounds;

/* What one thread of each rank uses. */
typedef struct lane {
    MPI_Comm comm, ctl;
    tm_rng_t rng;
} lane_t;

/* A message to send: contiguous, or every other byte of its buffer. */
static tm_type_t *byte, *gaps;

static tm_layout_t message_new(size_t n, bool is_strided, uint64_t key)
{
    tm_layout_t m = tm_layout_alloc(is_strided ? gaps : byte, n);

    tm_layout_write(&m, n, key, 0);
    return m;
}

static void start(const lane_t *lane, const tm_layout_t *m, int tag, bool is_sync, MPI_Request *req)
{
    TM_MPI((is_sync ? MPI_Issend : MPI_Isend)(tm_layout_buf(m), tm_int(m->count), m->type->mpi,
                                              tm_dst, tag, lane->comm, req));
}

/* Wait, in any of the ways there are; was it cancelled? */
static bool wait_cancelled(lane_t *lane, MPI_Request *req)
{
    MPI_Status st;
    int flag = 0;

    tm_status_reset(&st);
    if (0 == tm_below(&lane->rng, 2)) {
        TM_MPI(MPI_Wait(req, &st));
    }
    while (MPI_REQUEST_NULL != *req && !flag) {
        TM_MPI(MPI_Test(req, &flag, &st));
    }
    TM_MPI(MPI_Test_cancelled(&st, &flag));
    TM_CHECK(0 == flag || 1 == flag, "MPI_Test_cancelled gave %d", flag);
    return flag;
}

/* Let messages arrive, or not. */
static void dawdle(lane_t *lane)
{
    int flag;

    tm_spin_us((long) tm_below(&lane->rng, 20));
    for (int i = (int) tm_below(&lane->rng, 4); i > 0; i--) {
        TM_MPI(MPI_Iprobe(tm_src, 30, lane->ctl, &flag, MPI_STATUS_IGNORE));
    }
}

static void receive(const lane_t *lane, int source, int tag, size_t n, uint64_t key)
{
    unsigned char *in = tm_alloc(n);
    MPI_Status st;

    tm_status_reset(&st);
    TM_MPI(MPI_Recv(in, (int) n, MPI_BYTE, source, tag, lane->comm, &st));
    tm_expect_message(&st, in, tm_src, TAG, n, key, "message that was not cancelled");
    tm_free(in);
}

static void expect_nothing(const lane_t *lane)
{
    int flag;

    TM_MPI(MPI_Barrier(lane->ctl));
    TM_MPI(MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, lane->comm, &flag, MPI_STATUS_IGNORE));
    TM_CHECK(!flag, "a message is left");
    TM_MPI(MPI_Barrier(lane->ctl)); /* nobody sends the next one before all have looked */
}

/* No receive is posted. What waits for one must be cancelled, the rest is complete. */
static void unmatched(lane_t *lane, size_t n, bool is_sync, bool is_strided)
{
    uint64_t key = tm_key(tm_rank, tm_dst, TAG, (long) n);
    tm_layout_t m = message_new(n, is_strided, key);
    MPI_Request req;
    bool was_cancelled;

    start(lane, &m, TAG, is_sync, &req);
    dawdle(lane);
    TM_MPI(MPI_Cancel(&req));
    if (0 == tm_below(&lane->rng, 4)) {
        TM_MPI(MPI_Cancel(&req));
    }
    was_cancelled = wait_cancelled(lane, &req);
    TM_CHECK(was_cancelled || (!is_sync && n < LARGE), "a send of %zu bytes was not cancelled", n);
    tm_layout_free(&m);
    if (!tm_exchange(was_cancelled, tm_dst, tm_src, 1, lane->ctl)) {
        receive(lane, MPI_ANY_SOURCE, TAG, n, tm_key(tm_src, tm_rank, TAG, (long) n));
    }
    expect_nothing(lane);
}

/*
 * The receive is posted at about the time of the cancel. A cancelled message is followed by
 * another.
 */
static void race(lane_t *lane, size_t n, bool is_sync, bool is_strided)
{
    int won = 0;

    for (int i = 0; i < rounds; i++) {
        int source = 0 == i % 2 ? tm_src : MPI_ANY_SOURCE, tag = 0 == i % 3 ? MPI_ANY_TAG : TAG;
        int mine, theirs;
        tm_layout_t m = message_new(n, is_strided, tm_key(tm_rank, tm_dst, TAG, i));
        unsigned char *in = tm_alloc(n);
        MPI_Request sreq, rreq;
        bool is_first = 0 == tm_below(&lane->rng, 2);

        if (!is_first) {
            TM_MPI(MPI_Irecv(in, (int) n, MPI_BYTE, source, tag, lane->comm, &rreq));
        }
        start(lane, &m, TAG, is_sync, &sreq);
        dawdle(lane);
        if (is_first) {
            TM_MPI(MPI_Irecv(in, (int) n, MPI_BYTE, source, tag, lane->comm, &rreq));
        }
        TM_MPI(MPI_Cancel(&sreq));
        mine = wait_cancelled(lane, &sreq);
        theirs = tm_exchange(mine, tm_dst, tm_src, 1, lane->ctl);
        won += mine;
        tm_layout_free(&m);
        m = message_new(n, is_strided, tm_key(tm_rank, tm_dst, TAG, -1 - i));
        if (mine) {
            start(lane, &m, TAG, is_sync, &sreq);
        }
        tm_wait_recv(&rreq, in, tm_src, TAG, n, tm_key(tm_src, tm_rank, TAG, theirs ? -1 - i : i));
        TM_MPI(MPI_Wait(&sreq, MPI_STATUS_IGNORE));
        tm_layout_free(&m);
        tm_free(in);
    }
    expect_nothing(lane);
    if (NULL != getenv("TM_VERBOSE")) {
        printf("cancel_send: rank %d: %zu bytes: %d of %d cancelled\n", tm_rank, n, won, rounds);
    }
}

/* Many at once, more than there is room for, cancelled in random order; some stay. */
static void many(lane_t *lane, int count, size_t n, unsigned percent)
{
    tm_layout_t m = message_new(n, false, tm_key(tm_rank, tm_dst, TAG, 0));
    MPI_Request *req = tm_calloc((size_t) count, sizeof(*req));
    int *order = tm_calloc((size_t) count, sizeof(*order)), kept = 0, theirs;

    for (int i = 0; i < count; i++) {
        start(lane, &m, TAG, true, &req[i]);
    }
    tm_shuffle(&lane->rng, count, order);
    for (int i = 0; i < count; i++) {
        if (tm_below(&lane->rng, 100) < percent) {
            TM_MPI(MPI_Cancel(&req[order[i]]));
            if (0 == i % 2) {
                TM_CHECK(wait_cancelled(lane, &req[order[i]]), "one of many was not cancelled");
            }
        } else {
            order[kept++] = order[i];
        }
    }
    theirs = tm_exchange(kept, tm_dst, tm_src, 1, lane->ctl);
    for (int i = 0; i < theirs; i++) {
        receive(lane, 0 == i % 2 ? tm_src : MPI_ANY_SOURCE, TAG, n,
                tm_key(tm_src, tm_rank, TAG, 0));
    }
    TM_MPI(MPI_Waitall(count, req, MPI_STATUSES_IGNORE));
    expect_nothing(lane);
    tm_layout_free(&m);
    free(req);
    free(order);
}

static void persistent(lane_t *lane, size_t n, bool is_sync)
{
    tm_layout_t m = message_new(n, false, tm_key(tm_rank, tm_dst, TAG, 1));
    MPI_Request req;

    TM_MPI((is_sync ? MPI_Ssend_init : MPI_Send_init)(m.mem, (int) n, MPI_BYTE, tm_dst, TAG,
                                                      lane->comm, &req));
    for (int i = 0; i < 10; i++) {
        MPI_Status st;

        TM_MPI(MPI_Start(&req));
        dawdle(lane);
        TM_MPI(MPI_Cancel(&req));
        TM_CHECK(tm_wait_cancelled(&req, &st), "a persistent send was not cancelled");
        TM_CHECK(MPI_REQUEST_NULL != req, "a cancelled persistent request became null");
        expect_nothing(lane);
        TM_MPI(MPI_Start(&req));
        receive(lane, tm_src, TAG, n, tm_key(tm_src, tm_rank, TAG, 1));
        TM_CHECK(!tm_wait_cancelled(&req, &st), "a send started again is still cancelled");
    }
    TM_MPI(MPI_Request_free(&req));
    tm_layout_free(&m);
}

/* MPI_Request_free in place of a wait. */
static void freed(lane_t *lane, size_t n)
{
    tm_layout_t m = message_new(n, false, 0);

    for (int i = 0; i < 30; i++) {
        MPI_Request req;

        start(lane, &m, TAG, true, &req);
        TM_MPI(MPI_Cancel(&req));
        TM_MPI(MPI_Request_free(&req));
    }
    tm_exchange(0, tm_dst, tm_src, 1, lane->ctl); /* behind all that was to be cancelled */
    expect_nothing(lane);
    tm_layout_free(&m);
}

/* A matched probe has the message: too late. */
static void probed(lane_t *lane, size_t n)
{
    tm_layout_t m = message_new(n, false, tm_key(tm_rank, tm_dst, TAG, 2));
    unsigned char *in = tm_alloc(n);
    MPI_Message message;
    MPI_Request req;
    MPI_Status st;

    start(lane, &m, TAG, true, &req);
    TM_MPI(MPI_Mprobe(tm_src, TAG, lane->comm, &message, MPI_STATUS_IGNORE));
    TM_MPI(MPI_Barrier(lane->ctl));
    TM_MPI(MPI_Cancel(&req));
    TM_MPI(MPI_Barrier(lane->ctl));
    tm_status_reset(&st);
    TM_MPI(MPI_Mrecv(in, (int) n, MPI_BYTE, &message, &st));
    tm_expect_message(&st, in, tm_src, TAG, n, tm_key(tm_src, tm_rank, TAG, 2),
                      "message of a matched probe");
    TM_CHECK(!wait_cancelled(lane, &req), "a message that a probe had matched was cancelled");
    tm_free(in);
    tm_layout_free(&m);
}

static void buffered(lane_t *lane, size_t n)
{
    tm_layout_t m = message_new(n, false, tm_key(tm_rank, tm_dst, TAG, 3));
    MPI_Request req;

    TM_MPI(MPI_Ibsend(m.mem, (int) n, MPI_BYTE, tm_dst, TAG, lane->comm, &req));
    TM_MPI(MPI_Cancel(&req));
    TM_CHECK(!wait_cancelled(lane, &req), "a buffered send was cancelled");
    receive(lane, tm_src, TAG, n, tm_key(tm_src, tm_rank, TAG, 3));
    expect_nothing(lane);
    tm_layout_free(&m);
}

/* The receiver has freed the communicator when the send is cancelled, or will have. */
static void comm_freed(lane_t *lane, size_t n, bool is_late)
{
    bool is_sender = 0 == tm_rank % 2; /* who sends holds the communicator until that is done */
    tm_layout_t m = message_new(n, false, 0);
    lane_t gone = *lane;
    MPI_Request req;

    TM_MPI(MPI_Comm_dup(lane->ctl, &gone.comm));
    if (is_sender) {
        start(&gone, &m, TAG, true, &req);
    }
    tm_exchange(0, tm_dst, tm_src, 1, lane->ctl);
    TM_MPI(MPI_Comm_free(&gone.comm));
    if (is_late) {
        TM_MPI(MPI_Barrier(lane->ctl));
        tm_exchange(0, tm_dst, tm_src, 1, lane->ctl);
    }
    if (is_sender) {
        TM_MPI(MPI_Cancel(&req));
        TM_CHECK(wait_cancelled(lane, &req), "not cancelled in a communicator that is freed");
    }
    tm_layout_free(&m);
}

static void *run(void *arg)
{
    lane_t *lane = arg;

    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        for (int k = 0; k < 4; k++) {
            unmatched(lane, sizes[i], 0 == k % 2, k > 1 && sizes[i] > 0);
            race(lane, sizes[i], 0 == k % 2, k > 1 && sizes[i] > 0);
        }
        many(lane, 40, sizes[i], 50);
        freed(lane, sizes[i]);
        persistent(lane, sizes[i], true);
        probed(lane, sizes[i]);
        buffered(lane, sizes[i]);
        comm_freed(lane, sizes[i], false);
        comm_freed(lane, sizes[i], true);
    }
    persistent(lane, LARGE, false);
    many(lane, 3000, 8, 100);
    many(lane, 3000, 3000, 90);
    return NULL;
}

static void lane_open(lane_t *lane, int id)
{
    lane->rng = tm_rng((uint64_t) id, (uint64_t) tm_rank);
    TM_MPI(MPI_Comm_dup(MPI_COMM_WORLD, &lane->comm));
    TM_MPI(MPI_Comm_dup(MPI_COMM_WORLD, &lane->ctl));
}

int main(int argc, char **argv)
{
    static lane_t lane[MAX_THREADS];
    int nthreads = (int) tm_arg(argc, argv, 2, 1);
    size_t size;
    void *buffer;

    tm_init_thread(&argc, &argv, "cancel_send",
                   nthreads > 1 ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE);
    if (!tm_is_strict()) {
        return tm_skip("other PMLs complete such a send only when it is received");
    }
    rounds = (int) tm_arg(argc, argv, 1, 60);
    size = (size_t) nthreads * (LARGE + MPI_BSEND_OVERHEAD);
    buffer = tm_buffer_attach(size);
    byte = tm_type_byte();
    gaps = tm_type_resized(byte, 0, 2, "byte with a gap");
    for (int i = 0; i < nthreads; i++) {
        lane_open(&lane[i], i);
    }
    tm_in_threads(run, lane, nthreads, sizeof(*lane));
    for (int i = 0; i < nthreads; i++) {
        TM_MPI(MPI_Comm_free(&lane[i].comm));
        TM_MPI(MPI_Comm_free(&lane[i].ctl));
    }
    tm_type_free(gaps);
    tm_type_free(byte);
    tm_buffer_detach(buffer, size);
    return tm_finish();
}
