/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Waiting for a message that is there, or comes: by exact source and tag or wildcards, from among
 * others, where an older receive fits as well, too long for its buffer, synchronous, of another
 * communicator. Each round by rank 1, from rank 0, with the messages there before the receives (the
 * barrier has seen them, or not), or not, and by each way to wait for a receive.
 *
 * args: [threads]: with MPI_THREAD_MULTIPLE; [counted]: most of the plain ones are taken the short
 * way, where no device matches; [full]: there are few requests, which are used up.
 */
/* TEST: np=2,3 args=counted env="OMPI_MCA_pml_tm_providers=shm" quick=yes */
/* TEST: np=2 */
/* TEST: np=2 args=threads */
/* TEST: np=2 args=full env="PML_TM_TEST_requests=32" */
/* TEST: np=2 args="full threads" env="PML_TM_TEST_requests=32" */
#include "tm_counter.h"

#include <sched.h>

enum { PLAIN = 400, LONGEST = 8200, WORDS = 100, IN_RING = 8, ROUNDS = 30 };

/*
 * Longest message, in bytes, that every provider takes while no receive is posted; verbs where a
 * device matches tags by a parameter.
 */
enum { SURELY_EAGER = 8000, MAX_LATE = LONGEST - SURELY_EAGER + 1 };

static MPI_Comm other;
static atomic_int *told; /* rounds of which rank 0 has sent all; NULL: the ranks share no memory */
static MPI_Win win;
static bool is_early; /* the messages are there before the receives */
static bool is_threaded;

typedef enum { BY_RECV, BY_PROBE, BY_WAIT, BY_WAITALL, BY_START, NUM_WAYS } way_t;

static way_t way;

/* What rank 0 has sent is on its way, or is still to be sent. */
static void between(void)
{
    if (is_early) {
        MPI_Barrier(MPI_COMM_WORLD);
    }
}

static void share(void)
{
    MPI_Comm host;
    MPI_Aint bytes;
    int size, unit;

    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &host);
    MPI_Comm_size(host, &size);
    if (size == tm_size) {
        TM_MPI(MPI_Win_allocate_shared(0 == tm_rank ? sizeof(*told) : 0, 1, MPI_INFO_NULL, host,
                                       &told, &win));
        MPI_Win_shared_query(win, 0, &bytes, &unit, &told);
        if (0 == tm_rank) {
            atomic_store(told, 0);
        }
        MPI_Barrier(host);
    }
    MPI_Comm_free(&host);
}

/* Rank 0 has sent: rank 1 goes on, and has looked at nothing that came meanwhile. */
static void tell(void)
{
    static int times;

    times++;
    if (NULL != told && 0 == tm_rank) {
        atomic_store(told, times);
    }
    while (NULL != told && 1 == tm_rank && atomic_load(told) < times) {
        sched_yield();
    }
}

static int num_bytes(const MPI_Status *status)
{
    int count = -1;

    MPI_Get_count(status, MPI_BYTE, &count);
    return count;
}

/* MPI_Recv, or what should be the same. */
static int receive(void *buf, int count, MPI_Datatype type, int source, int tag, MPI_Comm comm,
                   MPI_Status *status)
{
    MPI_Status each, got;
    MPI_Request req;
    int rc;

    switch (way) {
    case BY_PROBE:
        TM_MPI(MPI_Probe(source, tag, comm, &each));
        rc = MPI_Recv(buf, count, type, each.MPI_SOURCE, each.MPI_TAG, comm, &got);
        TM_CHECK(MPI_SUCCESS != rc ||
                     (got.MPI_SOURCE == each.MPI_SOURCE && got.MPI_TAG == each.MPI_TAG &&
                      num_bytes(&got) == num_bytes(&each)),
                 "not what the probe found: %d bytes of rank %d, tag %d", num_bytes(&each),
                 each.MPI_SOURCE, each.MPI_TAG);
        if (MPI_STATUS_IGNORE != status) {
            got.MPI_ERROR = status->MPI_ERROR;
            *status = got;
        }
        return rc;
    case BY_WAIT:
        TM_MPI(MPI_Irecv(buf, count, type, source, tag, comm, &req));
        return MPI_Wait(&req, status);
    case BY_WAITALL:
        TM_MPI(MPI_Irecv(buf, count, type, source, tag, comm, &req));
        rc = MPI_Waitall(1, &req, &each);
        if (MPI_ERR_IN_STATUS == tm_class(rc)) {
            rc = each.MPI_ERROR;
        }
        if (MPI_STATUS_IGNORE != status) {
            each.MPI_ERROR = status->MPI_ERROR; /* the others leave it as it was */
            *status = each;
        }
        return rc;
    case BY_START:
        TM_MPI(MPI_Recv_init(buf, count, type, source, tag, comm, &req));
        TM_MPI(MPI_Start(&req));
        rc = MPI_Wait(&req, status);
        if (MPI_REQUEST_NULL != req) { /* Open MPI frees one that had an error */
            TM_MPI(MPI_Request_free(&req));
        }
        return rc;
    default:
        return MPI_Recv(buf, count, type, source, tag, comm, status);
    }
}

static void send_word(int64_t value, int tag, MPI_Comm comm)
{
    TM_MPI(MPI_Send(&value, 1, MPI_INT64_T, 1, tag, comm));
}

static void expect_word(int64_t value, int source, int tag, int want_tag, MPI_Comm comm)
{
    MPI_Status status = {.MPI_ERROR = TM_NO_ERROR};
    int64_t in = -1;
    int count = -1;

    TM_MPI(receive(&in, 1, MPI_INT64_T, source, tag, comm, &status));
    MPI_Get_count(&status, MPI_INT64_T, &count);
    TM_CHECK(value == in && 0 == status.MPI_SOURCE && want_tag == status.MPI_TAG && 1 == count &&
                 TM_NO_ERROR == status.MPI_ERROR,
             "%" PRId64 " of rank %d, tag %d, count %d, error %d: not %" PRId64 ", tag %d", in,
             status.MPI_SOURCE, status.MPI_TAG, count, status.MPI_ERROR, value, want_tag);
}

/*
 * Lengths around what a slot holds, a slot's end, the end of what goes whole, with what the buffer
 * had behind it.
 */
static int next_length(int len)
{
    return len < 128 ? len + 1 : len + len / 16 < 8160 ? len + len / 16 : len + 1;
}

/* Longer ones than any provider may have to announce are not waited for. Returns their number. */
static int send_lengths(unsigned char (*late)[LONGEST], MPI_Request *req)
{
    int num = 0;

    for (int len = 0; len <= LONGEST; len = next_length(len)) {
        tm_fill(late[num], (size_t) len, tm_key(0, 1, len, len));
        if (len <= SURELY_EAGER) {
            TM_MPI(MPI_Send(late[num], len, MPI_BYTE, 1, len, MPI_COMM_WORLD));
            continue;
        }
        TM_MPI(MPI_Isend(late[num], len, MPI_BYTE, 1, len, MPI_COMM_WORLD, &req[num]));
        num++;
    }
    return num;
}

static void lengths(void)
{
    static unsigned char buf[LONGEST + 8], late[MAX_LATE][LONGEST];
    MPI_Request req[MAX_LATE];
    MPI_Status status;
    int num_late = 0 == tm_rank ? send_lengths(late, req) : 0;

    between();
    TM_MPI(MPI_Waitall(num_late, req, MPI_STATUSES_IGNORE));
    for (int len = 0; 1 == tm_rank && len <= LONGEST; len = next_length(len)) {
        int count;

        memset(buf, 0x77, sizeof(buf));
        TM_MPI(receive(buf, LONGEST, MPI_BYTE, 0, len, MPI_COMM_WORLD, &status));
        MPI_Get_count(&status, MPI_BYTE, &count);
        TM_CHECK(count == len, "%d bytes, not %d", count, len);
        tm_expect_data(buf, (size_t) len, tm_key(0, 1, len, len), "length");
        TM_CHECK(0x77 == buf[len], "%d bytes: one behind was written", len);
    }
}

static void wildcards(void)
{
    if (0 == tm_rank) {
        for (int i = 1; i <= 4; i++) {
            send_word(i, 10 + i, MPI_COMM_WORLD);
        }
    }
    between();
    if (1 == tm_rank) {
        expect_word(1, 0, MPI_ANY_TAG, 11, MPI_COMM_WORLD);
        expect_word(2, MPI_ANY_SOURCE, 12, 12, MPI_COMM_WORLD);
        expect_word(4, 0, 14, 14, MPI_COMM_WORLD); /* from behind another */
        expect_word(3, MPI_ANY_SOURCE, MPI_ANY_TAG, 13, MPI_COMM_WORLD);
    }
}

/* Messages of one tag go to receives in the order in which these were posted. */
static void older_receive(int source, int tag)
{
    int64_t in = -1;
    MPI_Request req = MPI_REQUEST_NULL;

    if (1 == tm_rank) {
        TM_MPI(MPI_Irecv(&in, 1, MPI_INT64_T, source, tag, MPI_COMM_WORLD, &req));
    } else if (0 == tm_rank) {
        send_word(1, 5, MPI_COMM_WORLD);
        send_word(2, 5, MPI_COMM_WORLD);
    }
    between();
    if (1 == tm_rank) {
        expect_word(2, 0, 5, 5, MPI_COMM_WORLD);
        TM_MPI(MPI_Wait(&req, MPI_STATUS_IGNORE));
        TM_CHECK(1 == in, "%" PRId64 " went to the older receive", in);
    }
}

static void too_long(void)
{
    int64_t out[2] = {1, 2}, in[2] = {0, 77};
    int rc;

    /* Open MPI 4.1.4's own MPI_Waitall hangs, with threads, if a request has failed before it */
    if (BY_WAITALL == way && is_threaded && !tm_is_strict()) {
        return;
    }
    if (0 == tm_rank) {
        TM_MPI(MPI_Send(out, 2, MPI_INT64_T, 1, 6, MPI_COMM_WORLD));
        send_word(3, 6, MPI_COMM_WORLD);
    }
    between();
    if (1 == tm_rank) {
        rc = receive(in, 1, MPI_INT64_T, 0, 6, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        TM_CHECK(MPI_ERR_TRUNCATE == tm_class(rc) && 77 == in[1], "class %d, %" PRId64 " behind",
                 tm_class(rc), in[1]);
        expect_word(3, 0, 6, 6, MPI_COMM_WORLD);
    }
}

/* A synchronous send is complete when it is received, no sooner. */
static void synchronous(void)
{
    int64_t out = 1;
    MPI_Request req;
    int is_done = 0;

    if (0 == tm_rank) {
        TM_MPI(MPI_Issend(&out, 1, MPI_INT64_T, 1, 7, MPI_COMM_WORLD, &req));
    }
    between();
    if (0 == tm_rank) {
        TM_MPI(MPI_Test(&req, &is_done, MPI_STATUS_IGNORE));
        TM_CHECK(!is_done, "complete before it was received");
        send_word(2, 8, MPI_COMM_WORLD);
        TM_MPI(MPI_Wait(&req, MPI_STATUS_IGNORE));
        TM_MPI(MPI_Issend(&out, 1, MPI_INT64_T, 1, 7, MPI_COMM_WORLD, &req));
    } else if (1 == tm_rank) {
        expect_word(2, 0, 8, 8, MPI_COMM_WORLD);
        expect_word(1, 0, 7, 7, MPI_COMM_WORLD);
    }
    tell(); /* the next one is the first in the ring */
    if (0 == tm_rank) {
        TM_MPI(MPI_Wait(&req, MPI_STATUS_IGNORE));
    } else if (1 == tm_rank) {
        expect_word(1, 0, 7, 7, MPI_COMM_WORLD);
    }
}

/* Any tag fits no message of a collective; nor does a message of another communicator fit. */
static void others_in_front(void)
{
    MPI_Request req;

    if (0 == tm_rank) {
        TM_MPI(MPI_Ibarrier(MPI_COMM_WORLD, &req));
        send_word(1, 9, other);
        send_word(2, 9, MPI_COMM_WORLD);
    }
    tell();
    if (1 == tm_rank) {
        expect_word(2, 0, MPI_ANY_TAG, 9, MPI_COMM_WORLD);
        expect_word(1, 0, MPI_ANY_TAG, 9, other);
    }
    if (0 != tm_rank) {
        TM_MPI(MPI_Ibarrier(MPI_COMM_WORLD, &req));
    }
    TM_MPI(MPI_Wait(&req, MPI_STATUS_IGNORE));
}

static tm_counter_t taken_by_receives, found_by_probes;

static unsigned long long num_taken(void)
{
    return tm_counter_read(BY_PROBE == way ? &found_by_probes : &taken_by_receives);
}

/*
 * Those that are there before their receive, in order and in reverse: most need no request.  A
 * receive that is posted gets an unexpected one at once.
 */
static void plain(bool is_counted)
{
    unsigned long long before = is_counted ? num_taken() : 0, taken;

    for (int i = 0; 0 == tm_rank && i < PLAIN; i++) {
        send_word(i, i, MPI_COMM_WORLD);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    for (int i = 0; 1 == tm_rank && i < PLAIN; i++) {
        int tag = i < PLAIN / 2 ? i : PLAIN + PLAIN / 2 - 1 - i;

        expect_word(tag, 0, tag, tag, MPI_COMM_WORLD);
    }
    if (is_counted && BY_RECV == way && 1 == tm_rank) {
        taken = num_taken() - before;
        TM_CHECK(taken >= PLAIN / 2, "%llu of %d were received without a request", taken, PLAIN);
    }
}

/*
 * Longer ones that lie in the ring: most are taken out of it by who waits for them, or found there
 * by who probes.
 */
static void in_ring(bool is_counted)
{
    unsigned long long before = is_counted ? num_taken() : 0, taken;
    int64_t words[WORDS];
    int is_there;

    if (1 == tm_rank) { /* from here on it does not poll, and has no need to for a while */
        for (int i = 0; i < 17; i++) { /* one of them, at least, polls everything */
            TM_MPI(MPI_Iprobe(0, 0, other, &is_there, MPI_STATUS_IGNORE));
        }
        TM_MPI(MPI_Send(NULL, 0, MPI_BYTE, 0, 0, other));
    } else if (0 == tm_rank) {
        TM_MPI(MPI_Recv(NULL, 0, MPI_BYTE, 1, 0, other, MPI_STATUS_IGNORE));
    }
    for (int i = 0; 0 == tm_rank && i < IN_RING; i++) {
        for (int k = 0; k < WORDS; k++) {
            words[k] = i * WORDS + k;
        }
        TM_MPI(MPI_Send(words, WORDS, MPI_INT64_T, 1, i, MPI_COMM_WORLD));
    }
    tell();
    for (int i = 0; 1 == tm_rank && i < IN_RING; i++) {
        TM_MPI(receive(words, WORDS, MPI_INT64_T, 0, i, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        for (int k = 0; k < WORDS; k++) {
            TM_CHECK(i * WORDS + k == words[k], "word %d is %" PRId64, k, words[k]);
        }
    }
    if (is_counted && NULL != told && 1 == tm_rank) {
        taken = num_taken() - before;
        TM_CHECK(taken >= IN_RING / 2, "%llu of %d were found in the ring", taken, IN_RING);
    }
}

enum { USED_UP = 64 };

/* A receive that fails, since no request is left, leaves its message where it is. */
static void used_up(void)
{
    MPI_Request req[USED_UP];
    int64_t value = 42, in[USED_UP];
    int num = 0, rc;

    if (0 == tm_rank) {
        TM_MPI(MPI_Ssend(&value, 1, MPI_INT64_T, 1, 1, MPI_COMM_WORLD));
        return;
    }
    value = 0;
    TM_MPI(MPI_Probe(0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    while (num < USED_UP &&
           MPI_SUCCESS == MPI_Irecv(&in[num], 1, MPI_INT64_T, 0, 2, MPI_COMM_WORLD, &req[num])) {
        num++;
    }
    TM_CHECK(num < USED_UP, "there is no limit for requests");
    rc = MPI_Recv(&value, 1, MPI_INT64_T, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    TM_CHECK(MPI_SUCCESS != rc, "there was a request left");
    for (int i = 0; i < num; i++) {
        TM_MPI(MPI_Cancel(&req[i]));
        TM_MPI(MPI_Wait(&req[i], MPI_STATUS_IGNORE));
    }
    TM_MPI(MPI_Recv(&value, 1, MPI_INT64_T, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    TM_CHECK(42 == value, "the message is %" PRId64, value);
}

int main(int argc, char **argv)
{
    bool is_counted = false, is_full = false;

    for (int i = 1; i < argc; i++) {
        is_threaded = is_threaded || 0 == strcmp("threads", argv[i]);
        is_counted = is_counted || 0 == strcmp("counted", argv[i]);
        is_full = is_full || 0 == strcmp("full", argv[i]);
    }
    tm_init_thread(&argc, &argv, "take", is_threaded ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE);
    is_counted = is_counted && tm_is_pml_tm();
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    TM_MPI(MPI_Comm_dup(MPI_COMM_WORLD, &other));
    if (is_counted) {
        taken_by_receives = tm_counter_open("pml_tm_taken");
        found_by_probes = tm_counter_open("pml_tm_peeked");
    }
    share();
    if (is_full && tm_is_pml_tm()) {
        used_up();
    }
    for (int round = 0; !is_full && round < ROUNDS; round++) {
        is_early = 0 != round % 2;
        way = (way_t) (round / 2 % NUM_WAYS);
        lengths();
        wildcards();
        older_receive(0, 5);
        older_receive(MPI_ANY_SOURCE, MPI_ANY_TAG);
        too_long();
        synchronous();
        others_in_front();
        plain(is_counted);
        in_ring(is_counted && (!is_threaded || BY_RECV == way));
    }
    if (is_counted) {
        tm_counter_close(&taken_by_receives);
        tm_counter_close(&found_by_probes);
    }
    if (NULL != told) {
        MPI_Win_free(&win);
    }
    MPI_Comm_free(&other);
    return tm_finish();
}
