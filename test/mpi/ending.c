/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * MPI_Finalize with requests that the program has freed or left: what is matched is completed, what
 * is not is taken down, and no message says otherwise.  Each row of the table is a message that
 * both ranks send and receive, or only send, or only receive; all are under way at the same time.
 * The buffers are checked when MPI has ended.
 *
 * args: how many polls come between the last call of a row and MPI_Finalize; "late": rank 1 calls
 * it after a while without MPI; "ended": rank 0 calls it when rank 1 has ended, and only rows that
 * need nothing of the other rank are played; "received": only receives that nothing matches are.
 * "late" and "ended" only make sense without the barrier of MPI_Finalize (async_mpi_finalize).
 */
/* TEST: np=2 args="0" quick=yes */
/* TEST: np=2 args="3" */
/* TEST: np=2 args="0" env="OMPI_MCA_pml_tm_shm_single_copy=none" */
/* TEST: np=2 args="0" env="OMPI_MCA_pml_tm_eager_limit=0" */
/* TEST: np=2 args="0" env="OMPI_MCA_pml_tm_shm_ring_size=4096" */
/* TEST: np=2 args="0" env="OMPI_MCA_pml_tm_unexpected_max=65536" */
/* TEST: np=2 args="0" env="OMPI_MCA_pml_tm_providers=tcp,self" */
/* TEST: np=2 args="3" env="OMPI_MCA_pml_tm_providers=tcp,self OMPI_MCA_pml_tm_eager_limit=0" */
/* TEST: np=2 args="late" env="OMPI_MCA_async_mpi_finalize=1" */
/* TEST: np=2 args="late" env="OMPI_MCA_async_mpi_finalize=1 OMPI_MCA_pml_tm_providers=tcp,self" */
/* TEST: np=2 args="ended" env="OMPI_MCA_async_mpi_finalize=1" */
/* TEST: np=2 args="ended" env="OMPI_MCA_async_mpi_finalize=1 OMPI_MCA_pml_tm_providers=tcp,self" */
/* TEST: np=2 device=tmdev args="0" env="OMPI_MCA_pml_tm_providers=^shm,tcp OMPI_MCA_mtl=^ofi" timeout=120 */
/* TEST: np=2 device=tmdev args="received" env="OMPI_MCA_pml_tm_providers=^shm,tcp OMPI_MCA_mtl=^ofi" timeout=120 */
/* TEST: np=2 device=tmdev args="3" env="OMPI_MCA_pml_tm_providers=^shm,tcp TMDEV_TM_TAGS=4 OMPI_MCA_mtl=^ofi" timeout=120 */
#include "tm_test.h"

#include <signal.h>

enum { SHORT = 64, STREAM = 12000, LONG = 3000000 };

enum { BLOCK = 8, STRIDE = 16, FILLED = 0x77, LATE_US = 300000 };

typedef enum { WORLD, SELF, DUP, DUP_LEFT, NUM_COMMS } where_t;

typedef enum { NONE, WHOLE, GAPS } data_t;

typedef enum {
    RECV_FIRST, /* posted before the message is sent */
    SEND_FIRST, /* posted after it was sent */
    PROBED,     /* ... and a probe has found it */
} order_t;

typedef enum { STANDARD, BLOCKING, SYNC, BUFFERED, PERSISTENT } send_mode_t;

typedef enum { FREED, CANCELLED /* and freed */, LEFT /* neither */ } end_t;

typedef struct row {
    const char *name;
    int len;
    data_t send, recv;
    order_t order;
    send_mode_t mode;
    where_t where;
    end_t send_end, recv_end;
    bool is_any; /* MPI_ANY_SOURCE, if the receive is the only one of its communicator */
} row_t;

static const row_t rows[] = {
    {"short", .len = SHORT, .send = WHOLE, .recv = WHOLE},
    {"short, unexpected", .len = SHORT, .send = WHOLE, .recv = WHOLE, .order = SEND_FIRST},
    {"short, probed", .len = SHORT, .send = WHOLE, .recv = WHOLE, .order = PROBED},
    {"short, synchronous", .len = SHORT, .send = WHOLE, .recv = WHOLE, .mode = SYNC},
    {"short, synchronous, unexpected", .len = SHORT, .send = WHOLE, .recv = WHOLE,
     .order = SEND_FIRST, .mode = SYNC},
    {"short, buffered", .len = SHORT, .send = WHOLE, .recv = WHOLE, .mode = BUFFERED},
    {"short, gaps", .len = SHORT, .send = GAPS, .recv = GAPS},
    {"streamed", .len = STREAM, .send = WHOLE, .recv = WHOLE, .mode = BLOCKING},
    {"streamed, gaps", .len = STREAM, .send = GAPS, .recv = GAPS, .mode = BLOCKING},
    {"eager, unexpected", .len = STREAM, .send = WHOLE, .recv = WHOLE, .order = SEND_FIRST},
    {"long", .len = LONG, .send = WHOLE, .recv = WHOLE},
    {"long, unexpected", .len = LONG, .send = WHOLE, .recv = WHOLE, .order = SEND_FIRST},
    {"long, probed", .len = LONG, .send = WHOLE, .recv = WHOLE, .order = PROBED},
    {"long, synchronous", .len = LONG, .send = WHOLE, .recv = WHOLE, .mode = SYNC},
    {"long, buffered", .len = LONG, .send = WHOLE, .recv = WHOLE, .mode = BUFFERED},
    {"long, persistent", .len = LONG, .send = WHOLE, .recv = WHOLE, .mode = PERSISTENT},
    {"long, gaps sent", .len = LONG, .send = GAPS, .recv = WHOLE},
    {"long, gaps received", .len = LONG, .send = WHOLE, .recv = GAPS},
    {"long, gaps", .len = LONG, .send = GAPS, .recv = GAPS, .order = SEND_FIRST},
    {"long, left", .len = LONG, .send = WHOLE, .recv = WHOLE, .send_end = LEFT, .recv_end = LEFT},
    {"long, gaps, left", .len = LONG, .send = GAPS, .recv = GAPS, .send_end = LEFT,
     .recv_end = LEFT},
    {"long, freed communicator", .len = LONG, .send = GAPS, .recv = WHOLE, .where = DUP},
    {"long, communicator left", .len = LONG, .send = GAPS, .recv = WHOLE, .order = SEND_FIRST,
     .where = DUP_LEFT},
    {"long, to itself", .len = LONG, .send = WHOLE, .recv = WHOLE, .where = SELF},
    {"long, gaps, to itself", .len = LONG, .send = GAPS, .recv = GAPS, .order = SEND_FIRST,
     .where = SELF},
    {"short, sent only", .len = SHORT, .send = WHOLE},
    {"short, synchronous, sent only", .len = SHORT, .send = WHOLE, .mode = SYNC},
    {"short, synchronous, sent only, cancelled", .len = SHORT, .send = WHOLE, .mode = SYNC,
     .send_end = CANCELLED},
    {"eager, sent only", .len = STREAM, .send = WHOLE},
    {"long, sent only", .len = LONG, .send = WHOLE},
    {"long, sent only, cancelled", .len = LONG, .send = GAPS, .send_end = CANCELLED},
    {"long, sent only, left", .len = LONG, .send = WHOLE, .send_end = LEFT},
    {"long, sent only, communicator left", .len = LONG, .send = WHOLE, .where = DUP_LEFT},
    {"long, sent only, to itself", .len = LONG, .send = WHOLE, .where = SELF},
    {"short, received only", .len = SHORT, .recv = WHOLE},
    {"long, received only", .len = LONG, .recv = WHOLE},
    {"long, received only, gaps", .len = LONG, .recv = GAPS},
    {"long, received only, left", .len = LONG, .recv = WHOLE, .recv_end = LEFT},
    {"long, received only, cancelled", .len = LONG, .recv = WHOLE, .recv_end = CANCELLED},
    {"long, received only, communicator left", .len = LONG, .recv = WHOLE, .where = DUP_LEFT},
    {"long, received only, from itself", .len = LONG, .recv = WHOLE, .where = SELF, .is_any = true},
};

enum { NUM_ROWS = sizeof(rows) / sizeof(rows[0]) };

/* A row as it is played. */
typedef struct play {
    unsigned char *from, *to;
    MPI_Request send, recv;
    uint64_t key; /* of what is received */
} play_t;

static play_t plays[NUM_ROWS];
static MPI_Comm comms[NUM_COMMS];
static int other;

static size_t extent(const row_t *row, data_t data)
{
    return (size_t) row->len * (GAPS == data ? STRIDE / BLOCK : 1);
}

/* What a message of the row takes: count times the type. */
static int make_type(const row_t *row, data_t data, MPI_Datatype *type)
{
    *type = MPI_BYTE;
    if (GAPS == data) {
        *type = tm_vector(row->len / BLOCK, BLOCK, STRIDE, MPI_BYTE);
    }
    return GAPS == data ? 1 : row->len;
}

static void free_type(MPI_Datatype *type)
{
    if (MPI_BYTE != *type) {
        TM_MPI(MPI_Type_free(type));
    }
}

/* Copy a message into its buffer with gaps, or out of it. */
static void spread(const row_t *row, data_t data, unsigned char *buf, unsigned char *packed,
                   bool is_in)
{
    const int block = GAPS == data ? BLOCK : row->len, stride = GAPS == data ? STRIDE : row->len;

    for (int i = 0; i < row->len / block; i++) {
        unsigned char *at = buf + (size_t) i * (size_t) stride;
        unsigned char *from = packed + (size_t) i * (size_t) block;
        memcpy(is_in ? at : from, is_in ? from : at, (size_t) block);
    }
}

static int peer_of(const row_t *row)
{
    return SELF == row->where ? 0 : other;
}

static void post(const row_t *row, play_t *play, int tag)
{
    const int source = row->is_any ? MPI_ANY_SOURCE : peer_of(row);
    MPI_Datatype type;
    int count;

    if (NONE == row->recv) {
        return;
    }
    count = make_type(row, row->recv, &type);
    if (PERSISTENT == row->mode) {
        TM_MPI(MPI_Recv_init(play->to, count, type, source, tag, comms[row->where], &play->recv));
        TM_MPI(MPI_Start(&play->recv));
    } else {
        TM_MPI(MPI_Irecv(play->to, count, type, source, tag, comms[row->where], &play->recv));
    }
    free_type(&type);
}

static void send(const row_t *row, play_t *play, int tag)
{
    MPI_Comm comm = comms[row->where];
    MPI_Datatype type;
    int count;

    if (NONE == row->send) {
        return;
    }
    count = make_type(row, row->send, &type);
    switch (row->mode) {
    case STANDARD:
        TM_MPI(MPI_Isend(play->from, count, type, peer_of(row), tag, comm, &play->send));
        break;
    case BLOCKING:
        TM_MPI(MPI_Send(play->from, count, type, peer_of(row), tag, comm));
        break;
    case SYNC:
        TM_MPI(MPI_Issend(play->from, count, type, peer_of(row), tag, comm, &play->send));
        break;
    case BUFFERED:
        TM_MPI(MPI_Ibsend(play->from, count, type, peer_of(row), tag, comm, &play->send));
        break;
    case PERSISTENT:
        TM_MPI(MPI_Send_init(play->from, count, type, peer_of(row), tag, comm, &play->send));
        TM_MPI(MPI_Start(&play->send));
        break;
    }
    free_type(&type);
}

static void give_up(MPI_Request *req, end_t end)
{
    if (MPI_REQUEST_NULL == *req || LEFT == end) {
        return;
    }
    if (CANCELLED == end) {
        TM_MPI(MPI_Cancel(req));
    }
    TM_MPI(MPI_Request_free(req));
}

static void prepare(const row_t *row, play_t *play, int tag)
{
    unsigned char *packed = tm_calloc(1, (size_t) row->len);

    *play = (play_t){.send = MPI_REQUEST_NULL, .recv = MPI_REQUEST_NULL};
    play->key = tm_key(SELF == row->where ? tm_rank : other, 0, tag, row->len);
    play->from = tm_alloc(extent(row, row->send));
    play->to = tm_alloc(extent(row, row->recv));
    tm_fill(packed, (size_t) row->len, tm_key(tm_rank, 0, tag, row->len));
    spread(row, row->send, play->from, packed, true);
    memset(play->to, FILLED, extent(row, row->recv));
    free(packed);
}

static void check(const row_t *row, play_t *play)
{
    unsigned char *packed = tm_calloc(1, (size_t) row->len);

    spread(row, row->recv, play->to, packed, false);
    if (NONE == row->send || NONE == row->recv) {
        tm_expect_fill(packed, (size_t) row->len, FILLED, row->name);
    } else {
        tm_expect_data(packed, (size_t) row->len, play->key, row->name);
    }
    tm_free(play->from);
    tm_free(play->to);
    free(packed);
}

static void poll_once(void)
{
    int is_there;

    TM_MPI(MPI_Iprobe(0, 0, MPI_COMM_SELF, &is_there, MPI_STATUS_IGNORE));
}

typedef bool (*is_played_t)(const row_t *row);

static void play_all(is_played_t is_played)
{
    for (int i = 0; i < NUM_ROWS; i++) {
        prepare(&rows[i], &plays[i], i);
        if (is_played(&rows[i]) && RECV_FIRST == rows[i].order) {
            post(&rows[i], &plays[i], i);
        }
    }
    TM_MPI(MPI_Barrier(MPI_COMM_WORLD));
    for (int i = 0; i < NUM_ROWS; i++) {
        if (is_played(&rows[i])) {
            send(&rows[i], &plays[i], i);
        }
    }
    for (int i = 0; i < NUM_ROWS; i++) {
        if (is_played(&rows[i]) && PROBED == rows[i].order) {
            TM_MPI(MPI_Probe(peer_of(&rows[i]), i, comms[rows[i].where], MPI_STATUS_IGNORE));
        }
        if (is_played(&rows[i]) && RECV_FIRST != rows[i].order) {
            post(&rows[i], &plays[i], i);
        }
    }
    for (int i = 0; i < NUM_ROWS; i++) {
        give_up(&plays[i].send, rows[i].send_end);
        give_up(&plays[i].recv, rows[i].recv_end);
    }
}

static bool every_row(const row_t *row)
{
    (void) row;
    return true;
}

/* With a process that has ended: it can neither send nor receive. */
static bool rows_of_one(const row_t *row)
{
    return NONE == row->send || SELF == row->where ||
           (NONE == row->recv && STANDARD == row->mode && row->len <= SHORT);
}

static bool rows_received(const row_t *row)
{
    return NONE == row->send;
}

static is_played_t rows_for(const char *how)
{
    if (0 == strcmp(how, "ended")) {
        return rows_of_one;
    }
    return 0 == strcmp(how, "received") ? rows_received : every_row;
}

static void open_comms(void)
{
    comms[WORLD] = MPI_COMM_WORLD;
    comms[SELF] = MPI_COMM_SELF;
    TM_MPI(MPI_Comm_dup(MPI_COMM_WORLD, &comms[DUP]));
    TM_MPI(MPI_Comm_dup(MPI_COMM_WORLD, &comms[DUP_LEFT]));
}

int main(int argc, char **argv)
{
    const char *how = argc > 1 ? argv[1] : "0";
    const bool is_alone = 0 == strcmp(how, "ended");
    const is_played_t is_played = rows_for(how);
    int pid = (int) getpid(), pids[2];
    void *attached = tm_calloc(2, LONG);

    tm_init(&argc, &argv, "ending");
    other = 1 - tm_rank;
    TM_MPI(MPI_Buffer_attach(attached, 2 * LONG));
    TM_MPI(MPI_Allgather(&pid, 1, MPI_INT, pids, 1, MPI_INT, MPI_COMM_WORLD));
    open_comms();
    play_all(is_played);
    TM_MPI(MPI_Comm_free(&comms[DUP]));
    for (int i = 0; i < atoi(how); i++) {
        poll_once();
    }
    if (0 == strcmp(how, "late") && 1 == tm_rank) {
        usleep(LATE_US);
    }
    while (is_alone && 0 == tm_rank && 0 == kill(pids[1], 0)) {
        usleep(1000);
    }
    MPI_Finalize();
    for (int i = 0; i < NUM_ROWS; i++) {
        if (is_played(&rows[i])) {
            check(&rows[i], &plays[i]);
        }
    }
    free(attached);
    printf("ending: rank %d errors=%d\n", tm_rank, atomic_load(&tm_errors));
    return 0 != atomic_load(&tm_errors);
}
