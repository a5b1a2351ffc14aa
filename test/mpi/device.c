/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Messages from and to memory of a device, which only Open MPI's convertor can copy; device.sh has
 * the component that plays the device.  Sends and receives of all kinds, of data with gaps and
 * without, between host and device in all combinations, to another process and to self; collectives
 * that move data; with "onesided", MPI_Put, MPI_Get and MPI_Accumulate from and to such memory.
 *
 * args: [largest size in bytes] ["onesided", "putget": of these the first two, or "others": no
 * messages to self]
 */
#include <dlfcn.h>
#include <errno.h>

#include "device_play.h"
#include "tm_test.h"
#include "tm_types.h"

static const tm_play_t *play;

typedef enum { HOST, DEVICE, NPLACES } place_t;

static const char *const place_names[NPLACES] = {"host", "device"};

/* A buffer; layout.mem is what it contains, if it is a device's when it was last seen. */
typedef struct buffer {
    tm_layout_t layout;
    char *at; /* of the first byte */
    size_t len;
    place_t place;
} buffer_t;

static buffer_t buffer_alloc(place_t place, const tm_type_t *type, size_t count)
{
    buffer_t b = {.layout = tm_layout_alloc(type, count), .place = place};

    b.len = (size_t) (b.layout.hi - b.layout.lo);
    b.at = DEVICE == place ? play->alloc(b.len) : (char *) b.layout.mem;
    return b;
}

static void buffer_free(buffer_t *b)
{
    if (DEVICE == b->place) {
        play->free(b->at);
    }
    tm_layout_free(&b->layout);
}

/* To MPI, and the number of elements. */
static void *buf(const buffer_t *b)
{
    return b->at - b->layout.lo;
}

static int count(const buffer_t *b)
{
    return (int) b->layout.count;
}

static MPI_Datatype type(const buffer_t *b)
{
    return b->layout.type->mpi;
}

static void buffer_write(buffer_t *b, int rest, size_t bytes, uint64_t key)
{
    memset(b->layout.mem, rest, b->len);
    tm_layout_fill(&b->layout, b->layout.mem, bytes, key);
    if (DEVICE == b->place) {
        play->copy(b->at, b->layout.mem, b->len);
    }
}

/* It holds this, and between that it is still `rest`. */
static void buffer_expect(buffer_t *b, int rest, size_t bytes, uint64_t key, const char *what)
{
    if (DEVICE == b->place) {
        play->copy(b->layout.mem, b->at, b->len);
    }
    tm_expect_layout(&b->layout, bytes, key, rest, what);
}

/* ---- messages ----------------------------------------------------------- */

/* How a message is sent and received. */
typedef enum {
    EXPECTED,
    UNEXPECTED,
    SYNCHRONOUS,
    BUFFERED,
    MATCHED,
    MATCHED_NOW,
    PERSISTENT,
    SENDRECV,
    ANY_SOURCE,
    BLOCKING,
    NHOWS,
} how_t;

static const char *const how_names[NHOWS] = {"expected",   "unexpected",  "synchronous", "buffered",
                                             "matched",    "matched now", "persistent",  "sendrecv",
                                             "any source", "blocking"};

static int dst, src;
static char *attached;
static int attached_len;

/* All that dst sends is here, or its receives are posted. */
static void meet(void)
{
    tm_handshake(src, dst, 31000, MPI_COMM_WORLD);
}

static void persistent(buffer_t *out, buffer_t *in, int tag, MPI_Status *st)
{
    MPI_Request reqs[2];
    MPI_Status statuses[2];

    TM_MPI(MPI_Send_init(buf(out), count(out), type(out), dst, tag, MPI_COMM_WORLD, &reqs[0]));
    TM_MPI(MPI_Recv_init(buf(in), count(in), type(in), src, tag, MPI_COMM_WORLD, &reqs[1]));
    for (int i = 0; i < 2; i++) {
        TM_MPI(MPI_Startall(2, reqs));
        TM_MPI(MPI_Waitall(2, reqs, statuses));
    }
    *st = statuses[1];
    st->MPI_ERROR = TM_NO_ERROR;
    TM_MPI(MPI_Request_free(&reqs[0]));
    TM_MPI(MPI_Request_free(&reqs[1]));
}

static void matched(how_t how, buffer_t *in, int tag, MPI_Status *st)
{
    MPI_Message msg;
    MPI_Request req;

    if (MATCHED == how) {
        TM_MPI(MPI_Mprobe(src, tag, MPI_COMM_WORLD, &msg, MPI_STATUS_IGNORE));
        TM_MPI(MPI_Mrecv(buf(in), count(in), type(in), &msg, st));
        return;
    }
    tm_improbe(src, tag, MPI_COMM_WORLD, &msg, MPI_STATUS_IGNORE);
    TM_MPI(MPI_Imrecv(buf(in), count(in), type(in), &msg, &req));
    TM_MPI(MPI_Wait(&req, st));
}

/* The lower rank sends first. */
static void blocking(buffer_t *out, buffer_t *in, int tag, MPI_Status *st)
{
    if (tm_rank <= dst) {
        TM_MPI(MPI_Send(buf(out), count(out), type(out), dst, tag, MPI_COMM_WORLD));
    }
    TM_MPI(MPI_Recv(buf(in), count(in), type(in), src, tag, MPI_COMM_WORLD, st));
    if (tm_rank > dst) {
        TM_MPI(MPI_Ssend(buf(out), count(out), type(out), dst, tag, MPI_COMM_WORLD));
    }
}

static void nonblocking(how_t how, buffer_t *out, buffer_t *in, int tag, MPI_Status *st)
{
    MPI_Request sreq, rreq = MPI_REQUEST_NULL;

    if (EXPECTED == how || ANY_SOURCE == how) {
        TM_MPI(MPI_Irecv(buf(in), count(in), type(in), ANY_SOURCE == how ? MPI_ANY_SOURCE : src,
                         tag, MPI_COMM_WORLD, &rreq));
        meet();
    }
    if (BUFFERED == how) {
        TM_MPI(MPI_Buffer_attach(attached, attached_len));
        TM_MPI(MPI_Ibsend(buf(out), count(out), type(out), dst, tag, MPI_COMM_WORLD, &sreq));
    } else {
        TM_MPI((SYNCHRONOUS == how ? MPI_Issend : MPI_Isend)(buf(out), count(out), type(out), dst,
                                                             tag, MPI_COMM_WORLD, &sreq));
    }
    if (UNEXPECTED == how) {
        meet();
    }
    if (MATCHED == how || MATCHED_NOW == how) {
        matched(how, in, tag, st);
    } else if (MPI_REQUEST_NULL != rreq) {
        TM_MPI(MPI_Wait(&rreq, st));
    } else {
        TM_MPI(MPI_Recv(buf(in), count(in), type(in), src, tag, MPI_COMM_WORLD, st));
    }
    TM_MPI(MPI_Wait(&sreq, MPI_STATUS_IGNORE));
    if (BUFFERED == how) {
        TM_MPI(MPI_Buffer_detach(&(void *){NULL}, &(int){0}));
    }
}

static void transfer(how_t how, buffer_t *out, buffer_t *in, size_t bytes)
{
    static int next;
    const int tag = next++ % 30000;
    const uint64_t sent = tm_key(tm_rank, dst, tag, 0), wanted = tm_key(src, tm_rank, tag, 0);
    MPI_Status st;
    char what[200];

    if (BLOCKING == how && (tm_size != 2 || dst == tm_rank)) {
        return;
    }
    snprintf(what, sizeof(what), "%s, %zu bytes, from %s to %s", how_names[how], bytes,
             place_names[out->place], place_names[in->place]);
    buffer_write(out, 0x11, bytes, sent);
    buffer_write(in, 0xee, 0, 0);
    tm_status_reset(&st);
    if (PERSISTENT == how) {
        persistent(out, in, tag, &st);
    } else if (SENDRECV == how) {
        TM_MPI(MPI_Sendrecv(buf(out), count(out), type(out), dst, tag, buf(in), count(in), type(in),
                            src, tag, MPI_COMM_WORLD, &st));
    } else if (BLOCKING == how) {
        blocking(out, in, tag, &st);
    } else {
        nonblocking(how, out, in, tag, &st);
    }
    tm_expect_single(&st, src, tag, bytes);
    buffer_expect(in, 0xee, bytes, wanted, what);
    buffer_expect(out, 0x11, bytes, sent, what);
}

/* The receive has room for one element more than comes. */
static void all_hows(place_t from, place_t to, const tm_type_t *sent, const tm_type_t *received,
                     size_t size)
{
    const size_t nfrom = (size + sent->size - 1) / sent->size, bytes = nfrom * sent->size;
    const size_t nto = (bytes + received->size - 1) / received->size;
    buffer_t out = buffer_alloc(from, sent, nfrom);
    buffer_t in = buffer_alloc(to, received, nto + 1);

    for (how_t how = 0; how < NHOWS; how++) {
        transfer(how, &out, &in, bytes);
    }
    buffer_free(&out);
    buffer_free(&in);
}

static void all_types(place_t from, place_t to, size_t max)
{
    static const size_t sizes[] = {0, 1, 8, 64, 1000, 4096, 20000, 65536, 300000, 1048576, 8388608};
    static const int block[] = {3, 7, 1, 100, 2};
    static const MPI_Aint disp[] = {-300, 10, 333, 100, -77};
    tm_type_t *byte = tm_type_byte();
    tm_type_t *types[] = {byte, tm_type_resized(byte, 0, 3, "byte with gaps"),
                          tm_type_vector(16, 64, 80, byte, "vector"),
                          tm_type_hindexed(5, block, disp, byte, "list")};

    for (size_t k = 0; k < sizeof(sizes) / sizeof(sizes[0]) && sizes[k] <= max; k++) {
        for (int i = 0; i < 4; i++) {
            /* every byte by itself: seldom, and not many */
            if (0 == i || (1 == i ? sizes[k] <= 4096 : sizes[k] <= 1048576)) {
                all_hows(from, to, types[i], types[(i + (int) k) % 4], sizes[k]);
            }
        }
    }
    tm_types_free(types, 4);
}

/* A message that is longer than its receive, which is on the device. */
static void truncated(size_t size)
{
    tm_type_t *byte = tm_type_byte();
    buffer_t out = buffer_alloc(DEVICE, byte, size), in = buffer_alloc(DEVICE, byte, size / 2);
    MPI_Request req;
    int rc;

    buffer_write(&out, 0, size, tm_key(tm_rank, dst, 1, 0));
    buffer_write(&in, 0xee, 0, 0);
    TM_MPI(MPI_Isend(buf(&out), count(&out), MPI_BYTE, dst, 30001, MPI_COMM_WORLD, &req));
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    rc = MPI_Recv(buf(&in), count(&in), MPI_BYTE, src, 30001, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
    TM_CHECK(MPI_ERR_TRUNCATE == tm_class(rc), "a message that is too long: error class %d",
             tm_class(rc));
    TM_MPI(MPI_Wait(&req, MPI_STATUS_IGNORE));
    buffer_free(&out);
    buffer_free(&in);
    tm_type_free(byte);
}

/* ---- collectives -------------------------------------------------------- */

static void collectives(size_t each)
{
    const size_t all = each * (size_t) tm_size;
    tm_type_t *byte = tm_type_byte();
    buffer_t one = buffer_alloc(DEVICE, byte, each), out = buffer_alloc(DEVICE, byte, all),
             in = buffer_alloc(DEVICE, byte, all);
    MPI_Request req;

    buffer_write(&one, 0, 0 == tm_rank ? each : 0, tm_key(0, 0, 7, 0));
    TM_MPI(MPI_Bcast(buf(&one), count(&one), MPI_BYTE, 0, MPI_COMM_WORLD));
    buffer_expect(&one, 0, each, tm_key(0, 0, 7, 0), "MPI_Bcast");

    /* every part is the same */
    TM_MPI(MPI_Gather(buf(&one), (int) each, MPI_BYTE, buf(&in), (int) each, MPI_BYTE, 0,
                      MPI_COMM_WORLD));
    TM_MPI(MPI_Scatter(buf(&in), (int) each, MPI_BYTE, buf(&one), (int) each, MPI_BYTE, 0,
                       MPI_COMM_WORLD));
    buffer_expect(&one, 0, each, tm_key(0, 0, 7, 0), "MPI_Gather and MPI_Scatter");

    buffer_write(&out, 0, all, tm_key(0, 0, 8, 0));
    buffer_write(&in, 0xee, 0, 0);
    TM_MPI(MPI_Allgather(buf(&out) + (size_t) tm_rank * each, (int) each, MPI_BYTE, buf(&in),
                         (int) each, MPI_BYTE, MPI_COMM_WORLD));
    buffer_expect(&in, 0xee, all, tm_key(0, 0, 8, 0), "MPI_Allgather");

    /* twice is as it was */
    buffer_write(&out, 0, all, tm_key(tm_rank, 0, 9, 0));
    TM_MPI(MPI_Alltoall(buf(&out), (int) each, MPI_BYTE, buf(&in), (int) each, MPI_BYTE,
                        MPI_COMM_WORLD));
    TM_MPI(MPI_Ialltoall(buf(&in), (int) each, MPI_BYTE, buf(&out), (int) each, MPI_BYTE,
                         MPI_COMM_WORLD, &req));
    TM_MPI(MPI_Wait(&req, MPI_STATUS_IGNORE));
    buffer_expect(&out, 0, all, tm_key(tm_rank, 0, 9, 0), "MPI_Alltoall");
    buffer_free(&one);
    buffer_free(&out);
    buffer_free(&in);
    tm_type_free(byte);
}

/* ---- one-sided ---------------------------------------------------------- */

/* The window is memory of the host. */
static void put_get(MPI_Win win, char *base, size_t size)
{
    tm_type_t *byte = tm_type_byte();
    buffer_t out = buffer_alloc(DEVICE, byte, size), in = buffer_alloc(DEVICE, byte, size);

    buffer_write(&out, 0, size, tm_key(tm_rank, dst, 10, (long) size));
    buffer_write(&in, 0xee, 0, 0);
    TM_MPI(MPI_Win_fence(0, win));
    TM_MPI(MPI_Put(buf(&out), count(&out), MPI_BYTE, dst, 0, count(&out), MPI_BYTE, win));
    TM_MPI(MPI_Win_fence(0, win));
    tm_expect_data(base, size, tm_key(src, tm_rank, 10, (long) size), "MPI_Put");
    TM_MPI(MPI_Get(buf(&in), count(&in), MPI_BYTE, dst, 0, count(&in), MPI_BYTE, win));
    TM_MPI(MPI_Win_fence(0, win));
    buffer_expect(&in, 0xee, size, tm_key(tm_rank, dst, 10, (long) size), "MPI_Get");
    buffer_free(&out);
    buffer_free(&in);
    tm_type_free(byte);
}

static void add(MPI_Win win, int64_t *base, int n)
{
    int64_t *values = tm_calloc((size_t) n, sizeof(*values));
    const size_t len = (size_t) n * sizeof(*values);
    int64_t *on_device = play->alloc(len);

    for (int i = 0; i < n; i++) {
        base[i] = i;
        values[i] = 1000 + i;
    }
    play->copy(on_device, values, len);
    TM_MPI(MPI_Win_fence(0, win));
    TM_MPI(MPI_Accumulate(on_device, n, MPI_INT64_T, dst, 0, n, MPI_INT64_T, MPI_SUM, win));
    TM_MPI(MPI_Win_fence(0, win));
    for (int i = 0; i < n; i++) {
        TM_CHECK(1000 + 2 * i == base[i], "MPI_Accumulate: element %d of %d is %" PRId64, i, n,
                 base[i]);
    }
    play->free(on_device);
    free(values);
}

/* A window in memory of the device is refused. */
static void window_on_device(void)
{
    char *base = play->alloc(4096);
    MPI_Win win;
    int rc;

    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    rc = MPI_Win_create(base, 4096, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &win);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
    TM_CHECK(MPI_SUCCESS != rc, "MPI_Win_create in memory of the device succeeds");
    play->free(base);
}

static void put_get_add(MPI_Win win, char *base, size_t max, bool has_add)
{
    static const size_t sizes[] = {1, 8, 64, 4096, 65536, 1048576, 8388608};

    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]) && sizes[i] <= max; i++) {
        put_get(win, base, sizes[i]);
    }
    if (has_add) {
        add(win, (int64_t *) base, 1);
        add(win, (int64_t *) base, 1000);
    }
}

/* Processes of one host map each other's windows only if MPI has allocated them. */
static void onesided(size_t max, bool is_all)
{
    char *base = tm_alloc(max);
    MPI_Win win;

    TM_MPI(MPI_Win_create(base, (MPI_Aint) max, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &win));
    put_get_add(win, base, max, is_all);
    TM_MPI(MPI_Win_free(&win));
    tm_free(base);
    TM_MPI(MPI_Win_allocate((MPI_Aint) max, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &base, &win));
    put_get_add(win, base, max, is_all);
    TM_MPI(MPI_Win_free(&win));
    if (is_all) {
        window_on_device();
    }
}

/* ---- all ---------------------------------------------------------------- */

/* Nobody can touch it: not even the kernel, for this process. */
static void check_memory(void)
{
    char *ptr = play->alloc(1);
    int fds[2];

    TM_CHECK(0 == pipe(fds), "pipe: %s", strerror(errno));
    TM_CHECK(-1 == write(fds[1], ptr, 1) && EFAULT == errno, "memory of the device can be read");
    close(fds[0]);
    close(fds[1]);
    play->free(ptr);
}

static void messages(size_t max, bool has_self)
{
    attached_len = (int) max + 4096 + MPI_BSEND_OVERHEAD;
    attached = tm_alloc((size_t) attached_len);
    for (int distance = has_self ? 0 : 1; distance < 2 && distance < tm_size; distance++) {
        dst = (tm_rank + distance) % tm_size;
        src = (tm_rank + tm_size - distance) % tm_size;
        all_types(HOST, HOST, 4096);
        all_types(HOST, DEVICE, max);
        all_types(DEVICE, HOST, max);
        all_types(DEVICE, DEVICE, max);
        truncated(100);
        truncated(max);
    }
    tm_free(attached);
    collectives(8);
    collectives(5000);
    collectives(300000);
}

int main(int argc, char **argv)
{
    size_t max;

    tm_init(&argc, &argv, "device");
    max = (size_t) tm_arg(argc, argv, 1, 8388608);
    play = dlsym(RTLD_DEFAULT, TM_PLAY);
    if (NULL == play) {
        TM_FATAL("no component plays a device");
    }
    check_memory();
    dst = tm_dst;
    src = tm_src;
    if (argc > 2 && 0 == strcmp("onesided", argv[2])) {
        onesided(max, true);
    } else if (argc > 2 && 0 == strcmp("putget", argv[2])) {
        onesided(max, false);
    } else {
        messages(max, argc <= 2);
    }
    return tm_finish();
}
