/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The fast path, laid out for counting instructions under callgrind (instructions): messages of 8
 * bytes, in some sections of 64 and 1024, none of them waited for in a polling loop, so that a
 * count does not depend on timing.
 *
 * Sections, each dumped by rank twice, after n and after 2 n messages (the difference is free of
 * constant costs), under the name <section>:<messages>:
 *
 *      self-expected     a process to itself: MPI_Irecv, MPI_Send, MPI_Wait
 *      self-unexpected   a process to itself: MPI_Isend, MPI_Recv, MPI_Wait
 *      pair-sync         rank 0 to rank 1 in batches, without messages: what the batches'
 *                        semaphores cost
 *      pair-expected     receives of a batch posted, then all of it sent (MPI_Send); rank 1 is
 *                        told, and calls MPI_Waitall
 *      pair-unexpected   a batch sent, rank 1 told; then it receives, the last message first: the
 *                        others are unexpected
 *      pair-present      a batch sent, rank 1 told; then it receives (MPI_Recv), in the order in
 *                        which they were sent
 *      pair-expected-64, pair-present-64, pair-expected-1024, pair-present-1024
 *                        the same with messages of so many bytes
 *      pair-expected-column, pair-present-column
 *                        the same with messages of 64 bytes, in blocks of 8 on both sides
 *      window-sync       as pair-sync, for the batches of the following: of 64 messages
 *      window            64 receives of one tag posted, then 64 messages sent (MPI_Isend,
 *                        MPI_Waitall); rank 1 is told, and calls
 *                        MPI_Waitall: what osu_bw and osu_mbw_mr do
 *      poll              rank 1 waits for a message for some time (MPI_Recv): its polls are
 *                        counted, and divided by
 *      failed-test, failed-testany, failed-iprobe
 *                        rank 1 looks for a message that does not come: MPI_Test of one receive,
 *                        MPI_Testany of 16, MPI_Iprobe
 *
 * The ranks tell each other by semaphores in shared memory, which sleep.  Usage: fastpath
 * [messages [single|threads [few]]], threads for MPI_THREAD_MULTIPLE, few for pair-sync,
 * pair-expected, pair-present, window-sync and window alone
 */
#include "counted.h"

enum {
    BATCH = 16,
    WINDOW = 64,
    TAG = 1,
    WORDS_MAX = 128,
    POLL_MICROSECONDS = 50000,
};

/* of a message of the pairs' sections: words of 8 bytes each, or one column of a matrix */
static int words = 1;
static MPI_Datatype type = MPI_INT64_T;

static void self_expected(int messages)
{
    int64_t in = 0, out = 1;
    MPI_Request req;

    for (int i = 0; i < messages; i++) {
        MPI_Irecv(&in, 1, MPI_INT64_T, rank, TAG, MPI_COMM_WORLD, &req);
        MPI_Send(&out, 1, MPI_INT64_T, rank, TAG, MPI_COMM_WORLD);
        MPI_Wait(&req, MPI_STATUS_IGNORE);
    }
}

static void self_unexpected(int messages)
{
    int64_t in = 0, out = 1;
    MPI_Request req;

    for (int i = 0; i < messages; i++) {
        MPI_Isend(&out, 1, MPI_INT64_T, rank, TAG, MPI_COMM_WORLD, &req);
        MPI_Recv(&in, 1, MPI_INT64_T, rank, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Wait(&req, MPI_STATUS_IGNORE);
    }
}

static void send_batch(int messages)
{
    static int64_t out[WORDS_MAX];

    wait_for(&shared->receiver_ready);
    for (int i = 0; i < messages; i++) {
        MPI_Send(out, words, type, 1, TAG + i, MPI_COMM_WORLD);
    }
    sem_post(&shared->sender_done);
}

static void pair_sync(int messages)
{
    for (int i = 0; i < messages; i += BATCH) {
        if (0 == rank) {
            send_batch(0);
        } else {
            sem_post(&shared->receiver_ready);
            wait_for(&shared->sender_done);
        }
    }
}

static void pair_expected(int messages)
{
    static int64_t in[BATCH][WORDS_MAX];
    MPI_Request req[BATCH];

    for (int i = 0; i < messages; i += BATCH) {
        if (0 == rank) {
            send_batch(BATCH);
            continue;
        }
        for (int k = 0; k < BATCH; k++) {
            MPI_Irecv(in[k], words, type, 0, TAG + k, MPI_COMM_WORLD, &req[k]);
        }
        sem_post(&shared->receiver_ready);
        wait_for(&shared->sender_done);
        MPI_Waitall(BATCH, req, MPI_STATUSES_IGNORE);
    }
}

static void pair_unexpected(int messages)
{
    int64_t in;

    for (int i = 0; i < messages; i += BATCH) {
        if (0 == rank) {
            send_batch(BATCH);
            continue;
        }
        sem_post(&shared->receiver_ready);
        wait_for(&shared->sender_done);
        for (int k = BATCH - 1; k >= 0; k--) {
            MPI_Recv(&in, 1, MPI_INT64_T, 0, TAG + k, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        }
    }
}

static void pair_present(int messages)
{
    static int64_t in[WORDS_MAX];

    for (int i = 0; i < messages; i += BATCH) {
        if (0 == rank) {
            send_batch(BATCH);
            continue;
        }
        sem_post(&shared->receiver_ready);
        wait_for(&shared->sender_done);
        for (int k = 0; k < BATCH; k++) {
            MPI_Recv(in, words, type, 0, TAG + k, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        }
    }
}

static void window_sync(int messages)
{
    for (int i = 0; i < messages; i += WINDOW) {
        if (0 == rank) {
            send_batch(0);
        } else {
            sem_post(&shared->receiver_ready);
            wait_for(&shared->sender_done);
        }
    }
}

static void window(int messages)
{
    static int64_t in[WINDOW], out;
    MPI_Request req[WINDOW];

    for (int i = 0; i < messages; i += WINDOW) {
        if (0 == rank) {
            wait_for(&shared->receiver_ready);
            for (int k = 0; k < WINDOW; k++) {
                MPI_Isend(&out, 1, MPI_INT64_T, 1, TAG, MPI_COMM_WORLD, &req[k]);
            }
            MPI_Waitall(WINDOW, req, MPI_STATUSES_IGNORE);
            sem_post(&shared->sender_done);
            continue;
        }
        for (int k = 0; k < WINDOW; k++) {
            MPI_Irecv(&in[k], 1, MPI_INT64_T, 0, TAG, MPI_COMM_WORLD, &req[k]);
        }
        sem_post(&shared->receiver_ready);
        wait_for(&shared->sender_done);
        MPI_Waitall(WINDOW, req, MPI_STATUSES_IGNORE);
    }
}

/* The number of messages means nothing here. */
static void poll_empty(int messages)
{
    int64_t word = 0;

    (void) messages;
    if (0 == rank) {
        usleep(POLL_MICROSECONDS);
        MPI_Send(&word, 1, MPI_INT64_T, 1, TAG, MPI_COMM_WORLD);
    } else {
        MPI_Recv(&word, 1, MPI_INT64_T, 0, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
}

/* Receives of rank 1 that nothing matches until release_posted(). */
static int64_t posted_in[BATCH];
static MPI_Request posted[BATCH];

static void post(int num)
{
    for (int i = 0; i < num && 1 == rank; i++) {
        MPI_Irecv(&posted_in[i], 1, MPI_INT64_T, 0, TAG + i, MPI_COMM_WORLD, &posted[i]);
    }
    MPI_Barrier(MPI_COMM_WORLD);
}

static void release_posted(int num)
{
    const int64_t word = 0;

    MPI_Barrier(MPI_COMM_WORLD);
    for (int i = 0; i < num && 0 == rank; i++) {
        MPI_Send(&word, 1, MPI_INT64_T, 1, TAG + i, MPI_COMM_WORLD);
    }
    if (1 == rank) {
        MPI_Waitall(num, posted, MPI_STATUSES_IGNORE);
    }
}

/* One call that looks for a message and finds none. */
typedef int (*look_fn_t)(int *flag);

/* Rank 0 sleeps while rank 1 looks. */
static inline void look(int times, look_fn_t fn)
{
    int flag = 0;

    if (0 == rank) {
        wait_for(&shared->receiver_ready);
        return;
    }
    for (int i = 0; i < times && 0 == flag; i++) {
        fn(&flag);
    }
    if (flag) {
        MPI_Abort(MPI_COMM_WORLD, 1); /* not what the section says */
    }
    sem_post(&shared->receiver_ready);
}

static int look_test(int *flag)
{
    return MPI_Test(&posted[0], flag, MPI_STATUS_IGNORE);
}

static int look_testany(int *flag)
{
    int index;

    return MPI_Testany(BATCH, posted, &index, flag, MPI_STATUS_IGNORE);
}

static int look_iprobe(int *flag)
{
    return MPI_Iprobe(0, TAG, MPI_COMM_WORLD, flag, MPI_STATUS_IGNORE);
}

static void failed_test(int times)
{
    look(times, look_test);
}

static void failed_testany(int times)
{
    look(times, look_testany);
}

static void failed_iprobe(int times)
{
    look(times, look_iprobe);
}

/* What a program pays that looks for messages between its steps. */
static void failed_sections(int messages)
{
    post(BATCH);
    section("failed-test", failed_test, messages);
    section("failed-testany", failed_testany, messages);
    release_posted(BATCH);
    section("failed-iprobe", failed_iprobe, messages);
}

/*
 * Rank 1 is short of memory once (pml_tm_unexpected_max), and tells rank 0 to hold messages back:
 * short messages are to cost no more when that is over.
 */
static void hold_once(void)
{
    enum { LEN = 4096, NUM = 64 };
    char *data = calloc(NUM, LEN);
    MPI_Request req[NUM];

    for (int i = 0; i < NUM && 0 == rank; i++) {
        MPI_Isend(data + i * LEN, LEN, MPI_CHAR, 1, TAG, MPI_COMM_WORLD, &req[i]);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    for (int i = 0; i < NUM && 1 == rank; i++) {
        MPI_Irecv(data + i * LEN, LEN, MPI_CHAR, 0, TAG, MPI_COMM_WORLD, &req[i]);
    }
    MPI_Waitall(NUM, req, MPI_STATUSES_IGNORE);
    free(data);
}

static void few_sections(int messages)
{
    section("pair-sync", pair_sync, messages);
    section("pair-expected", pair_expected, messages);
    section("pair-present", pair_present, messages);
    section("window-sync", window_sync, messages);
    section("window", window, messages);
}

static void all_sections(int messages)
{
    hold_once();
    section("self-expected", self_expected, messages);
    section("self-unexpected", self_unexpected, messages);
    section("pair-sync", pair_sync, messages);
    section("pair-expected", pair_expected, messages);
    section("pair-unexpected", pair_unexpected, messages);
    section("pair-present", pair_present, messages);
    words = 64 / sizeof(int64_t);
    section("pair-expected-64", pair_expected, messages);
    section("pair-present-64", pair_present, messages);
    words = 1024 / sizeof(int64_t);
    section("pair-expected-1024", pair_expected, messages);
    section("pair-present-1024", pair_present, messages);
    words = 1;
    MPI_Type_vector(8, 1, 2, MPI_INT64_T, &type);
    MPI_Type_commit(&type);
    section("pair-expected-column", pair_expected, messages);
    section("pair-present-column", pair_present, messages);
    MPI_Type_free(&type);
    section("window-sync", window_sync, messages);
    section("window", window, messages);
    section("poll", poll_empty, messages);
    failed_sections(messages);
}

int main(int argc, char **argv)
{
    int messages = argc > 1 ? atoi(argv[1]) : 1024, provided;
    int level = argc > 2 && 0 == strcmp("threads", argv[2]) ? MPI_THREAD_MULTIPLE
                                                            : MPI_THREAD_SINGLE;
    MPI_Win win;

    MPI_Init_thread(&argc, &argv, level, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    share(&win);
    if (argc > 3 && 0 == strcmp("few", argv[3])) {
        few_sections(messages);
    } else {
        all_sections(messages);
    }
    MPI_Win_free(&win);
    MPI_Finalize();
    return 0;
}
