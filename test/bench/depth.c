/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Matching depth: what N other receives posted, or N other messages unexpected, cost the message
 * that is behind them.
 *
 * Two ranks, one communicator for everything that is measured, 8-byte messages.  Tag PING_TAG is
 * the ping-pong's; the others have tags from BASE_TAG up, or come from the process itself, which
 * sends to itself only when it is over: that is the source that "names another rank" without a
 * third process on the machine.
 *
 * A pattern is what a receive names: exact (source, tag), src-any (source, any tag), any-tag (any
 * source, tag), any-any, and mix, which takes the others in turn.
 *
 * Rows, metric depth_us, half the round trip in µs, <x> = N:
 *
 *  posted:A/B
 *      On both ranks N receives of pattern A are posted first; then a ping-pong whose own receives
 *      have pattern B, each posted behind the N.  A message of the ping-pong can match none of the
 *      N: they name other tags, or (src-any) the process itself as source.  A = mix is exact,
 *      src-any, any-tag in turn; B = mix is all four.
 *  posted:any-any/any-any
 *      Receives of (any, any) match everything, so nothing can pass them.  Here N + 1 of them form
 *      a ring: the message takes the oldest, and a new one is posted behind the other N.
 *  unexpected:B
 *      On both ranks N messages have arrived for which there is no receive; then a ping-pong whose
 *      receives have pattern B.  The N come from the peer with other tags; for src-any, which would
 *      take them, from the process itself, and so for mix (exact, src-any, any-tag in turn).
 *  unexpected:any-any
 *      Again nothing can pass: the receive takes the oldest of the N unexpected messages, and the
 *      peer sends a new one behind them.  Neither rank waits for the other, so for N > 0 this is a
 *      time per message, not a latency.
 *
 * Rows, metric drain_us, µs per message over N messages, on the receiving rank:
 *
 *  posted:exact, posted:any-tag, posted:mix
 *      N receives with distinct tags, messages in the opposite order: each matches the receive
 *      posted last.  mix: exact and any-tag in turn.  Includes the sender's time where that is
 *      longer.
 *  posted:src-any, posted:any-any
 *      N receives alike; messages match them in order.
 *  unexpected:exact, unexpected:any-tag
 *      N messages wait; they are received in the opposite order of their arrival.
 *  unexpected:src-any, unexpected:any-any
 *      N messages wait; they are received in the order of their arrival.
 *  unexpected:mix
 *      N messages wait; they are received in turn from the end (exact), the front (src-any), the
 *      end (any-tag), the front (any-any).
 *
 * Every message carries a number, which is checked: a wrong match fails the program.  A depth that
 * needs more tags than MPI_TAG_UB, and a drain that would take longer than MAX_DRAIN_SECONDS
 * judging by a tenth of it, are skipped; a line S <metric> <variant> <x> <reason> says so.
 *
 * -l gives the depths.  Without -f only some of the pairs A/B are measured.
 */
#include "bench.h"

enum {
    PING_TAG = 1,
    BASE_TAG = 1000,
    PROBE_ITERATIONS = 10,
    MAX_ITERATIONS = 50000,
    MAX_DRAIN_SECONDS = 10,
    LARGE_DRAIN = 10000, /* a drain of more is predicted first */
    LONG_DRAIN_MS = 300, /* a drain that takes longer is measured once */
};

typedef enum pattern {
    EXACT,
    SRC_ANY,
    ANY_TAG,
    ANY_ANY,
    MIX,
    PATTERN_COUNT,
} pattern_t;

static const char *const pattern_name[PATTERN_COUNT] = {"exact", "src-any", "any-tag", "any-any",
                                                        "mix"};

/* MIX takes the first so many of exact, src-any, any-tag, any-any in turn. */
enum {
    MIX_PASSABLE = 3,
    MIX_ALL = 4,
};

typedef struct bench {
    bench_options_t opt;
    MPI_Comm comm;
    int rank, peer;
    int tag_ub;
    int max_depth;
    int64_t *value;    /* max_depth + 1: receive buffers, or what a send carries */
    MPI_Request *req;  /* max_depth + 1 */
    MPI_Request *sent; /* max_depth + 1 */
} bench_t;

static pattern_t pattern_at(pattern_t pattern, int i, int mix)
{
    return MIX == pattern ? (pattern_t) (i % mix) : pattern;
}

static void check(int64_t got, int64_t expected)
{
    if (got != expected) {
        fprintf(stderr, "message %lld where %lld was due\n", (long long) got, (long long) expected);
        bench_fail("wrong match");
    }
}

static void send_value(const bench_t *b, int64_t value, int dest, int tag)
{
    MPI_Send(&value, 1, MPI_INT64_T, dest, tag, b->comm);
}

static int64_t recv_value(const bench_t *b, pattern_t pattern, int tag)
{
    int source = ANY_TAG == pattern || ANY_ANY == pattern ? MPI_ANY_SOURCE : b->peer;
    int64_t value = -1;

    tag = SRC_ANY == pattern || ANY_ANY == pattern ? MPI_ANY_TAG : tag;
    MPI_Recv(&value, 1, MPI_INT64_T, source, tag, b->comm, MPI_STATUS_IGNORE);
    return value;
}

/* ---- the ping-pong, behind whatever there is ---------------------------- */

typedef struct row row_t;

struct row {
    const char *metric;
    char variant[64];
    pattern_t others;
    pattern_t own;
    int mix; /* patterns that own = MIX takes in turn */
    int depth;
    int64_t next_sent, next_received; /* numbers of the ping-pong's messages */
    void (*setup)(bench_t *b, row_t *row);
    void (*step)(bench_t *b, row_t *row, bool is_first);
    void (*teardown)(bench_t *b, row_t *row);
};

static void ping_send(const bench_t *b, row_t *row)
{
    send_value(b, row->next_sent++, b->peer, PING_TAG);
}

static void plain_receive(const bench_t *b, row_t *row)
{
    pattern_t pattern = pattern_at(row->own, (int) (row->next_received % row->mix), row->mix);

    check(recv_value(b, pattern, PING_TAG), row->next_received++);
}

static void plain_step(bench_t *b, row_t *row, bool is_first)
{
    if (is_first) {
        ping_send(b, row);
        plain_receive(b, row);
    } else {
        plain_receive(b, row);
        ping_send(b, row);
    }
}

static double steps_seconds(bench_t *b, row_t *row, int steps)
{
    double start;

    MPI_Barrier(MPI_COMM_WORLD);
    start = bench_now();
    for (int i = 0; i < steps; i++) {
        row->step(b, row, 0 == b->rank);
    }
    return (bench_now() - start) / steps;
}

static void row_measure(bench_t *b, row_t *row)
{
    double batch[BENCH_MAX_BATCHES], probe;
    int steps;

    row->next_sent = 0;
    row->next_received = 0;
    row->setup(b, row);
    steps_seconds(b, row, PROBE_ITERATIONS);
    probe = steps_seconds(b, row, PROBE_ITERATIONS);
    steps = bench_iterations(MPI_COMM_WORLD, b->opt.batch_seconds, probe, MAX_ITERATIONS);
    for (int i = 0; i < b->opt.batches; i++) {
        batch[i] = 0.5e6 * steps_seconds(b, row, steps);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    row->teardown(b, row);
    if (0 == b->rank) {
        bench_result_times(row->metric, row->variant, row->depth, batch, b->opt.batches);
    }
}

/* ---- N receives posted ahead -------------------------------------------- */

static void posted_setup(bench_t *b, row_t *row)
{
    for (int i = 0; i < row->depth; i++) {
        pattern_t pattern = pattern_at(row->others, i, MIX_PASSABLE);
        int source = EXACT == pattern ? b->peer : SRC_ANY == pattern ? b->rank : MPI_ANY_SOURCE;
        int tag = SRC_ANY == pattern ? MPI_ANY_TAG : BASE_TAG + i;

        b->value[i] = -1;
        MPI_Irecv(&b->value[i], 1, MPI_INT64_T, source, tag, b->comm, &b->req[i]);
    }
}

static void posted_teardown(bench_t *b, row_t *row)
{
    for (int i = 0; i < row->depth; i++) {
        pattern_t pattern = pattern_at(row->others, i, MIX_PASSABLE);

        send_value(b, i, SRC_ANY == pattern ? b->rank : b->peer, BASE_TAG + i);
    }
    MPI_Waitall(row->depth, b->req, MPI_STATUSES_IGNORE);
    for (int i = 0; i < row->depth; i++) {
        check(b->value[i], i);
    }
}

static void measure_posted(bench_t *b, pattern_t others, pattern_t own, int depth)
{
    row_t row = {
        .metric = "depth_us", .others = others, .own = own, .mix = MIX_ALL, .depth = depth};

    snprintf(row.variant, sizeof(row.variant), "posted:%s/%s", pattern_name[others],
             pattern_name[own]);
    row.setup = posted_setup;
    row.step = plain_step;
    row.teardown = posted_teardown;
    row_measure(b, &row);
}

/* ---- a ring of N + 1 receives of (any, any) ----------------------------- */

static void ring_post(bench_t *b, int slot)
{
    b->value[slot] = -1;
    MPI_Irecv(&b->value[slot], 1, MPI_INT64_T, MPI_ANY_SOURCE, MPI_ANY_TAG, b->comm, &b->req[slot]);
}

static void ring_setup(bench_t *b, row_t *row)
{
    for (int i = 0; i <= row->depth; i++) {
        ring_post(b, i);
    }
    MPI_Barrier(MPI_COMM_WORLD);
}

static void ring_receive(bench_t *b, row_t *row)
{
    int slot = (int) (row->next_received % (row->depth + 1));

    MPI_Wait(&b->req[slot], MPI_STATUS_IGNORE);
    check(b->value[slot], row->next_received++);
    ring_post(b, slot);
}

static void ring_step(bench_t *b, row_t *row, bool is_first)
{
    if (is_first) {
        ping_send(b, row);
        ring_receive(b, row);
    } else {
        ring_receive(b, row);
        ping_send(b, row);
    }
}

static void ring_teardown(bench_t *b, row_t *row)
{
    for (int i = 0; i <= row->depth; i++) {
        ping_send(b, row);
    }
    for (int i = 0; i <= row->depth; i++) {
        int slot = (int) (row->next_received % (row->depth + 1));

        MPI_Wait(&b->req[slot], MPI_STATUS_IGNORE);
        check(b->value[slot], row->next_received++);
    }
}

static void measure_ring(bench_t *b, int depth)
{
    row_t row = {.metric = "depth_us",
                 .variant = "posted:any-any/any-any",
                 .others = ANY_ANY,
                 .own = ANY_ANY,
                 .depth = depth};

    row.setup = ring_setup;
    row.step = ring_step;
    row.teardown = ring_teardown;
    row_measure(b, &row);
}

/* ---- N unexpected messages ahead ---------------------------------------- */

/* To the peer, or to the process itself where the receives of the row would take the peer's. */
static void unexpected_setup(bench_t *b, row_t *row)
{
    int dest = SRC_ANY == row->own || MIX == row->own ? b->rank : b->peer;

    for (int i = 0; i < row->depth; i++) {
        b->value[i] = i;
        MPI_Isend(&b->value[i], 1, MPI_INT64_T, dest, BASE_TAG + i, b->comm, &b->sent[i]);
    }
}

static void unexpected_teardown(bench_t *b, row_t *row)
{
    int source = SRC_ANY == row->own || MIX == row->own ? b->rank : b->peer;

    for (int i = 0; i < row->depth; i++) {
        int64_t value = -1;

        MPI_Recv(&value, 1, MPI_INT64_T, source, BASE_TAG + i, b->comm, MPI_STATUS_IGNORE);
        check(value, i);
    }
    MPI_Waitall(row->depth, b->sent, MPI_STATUSES_IGNORE);
}

/*
 * Here a message is received only after the N ahead of it, so a send must not wait for its receive.
 * It takes one of N + 1 slots, and waits for what that slot held before; both ranks cannot wait at
 * once, for that takes 2 N + 2 messages, and there are 2 N.
 */
static void backlog_send(bench_t *b, row_t *row)
{
    int slot = (int) (row->next_sent % (row->depth + 1));

    MPI_Wait(&b->sent[slot], MPI_STATUS_IGNORE);
    b->value[slot] = row->next_sent++;
    MPI_Isend(&b->value[slot], 1, MPI_INT64_T, b->peer, PING_TAG, b->comm, &b->sent[slot]);
}

static void backlog_setup(bench_t *b, row_t *row)
{
    for (int i = 0; i <= row->depth; i++) {
        b->sent[i] = MPI_REQUEST_NULL;
    }
    for (int i = 0; i < row->depth; i++) {
        backlog_send(b, row);
    }
    MPI_Barrier(MPI_COMM_WORLD);
}

static void backlog_step(bench_t *b, row_t *row, bool is_first)
{
    if (is_first) {
        backlog_send(b, row);
        plain_receive(b, row);
    } else {
        plain_receive(b, row);
        backlog_send(b, row);
    }
}

static void backlog_teardown(bench_t *b, row_t *row)
{
    for (int i = 0; i < row->depth; i++) {
        plain_receive(b, row);
    }
    MPI_Waitall(row->depth + 1, b->sent, MPI_STATUSES_IGNORE);
}

static void measure_unexpected(bench_t *b, pattern_t own, int depth)
{
    row_t row = {.metric = "depth_us", .own = own, .mix = MIX_PASSABLE, .depth = depth};

    snprintf(row.variant, sizeof(row.variant), "unexpected:%s", pattern_name[own]);
    row.setup = ANY_ANY == own ? backlog_setup : unexpected_setup;
    row.step = ANY_ANY == own ? backlog_step : plain_step;
    row.teardown = ANY_ANY == own ? backlog_teardown : unexpected_teardown;
    row_measure(b, &row);
}

/* ---- draining ----------------------------------------------------------- */

/* Rank 1 posts in the order of the tags, rank 0 sends in the opposite order. */
static double drain_posted(bench_t *b, pattern_t pattern, int depth)
{
    bool in_order = SRC_ANY == pattern || ANY_ANY == pattern;
    double start;

    for (int i = 0; 1 == b->rank && i < depth; i++) {
        bool any_source = ANY_TAG == pattern || ANY_ANY == pattern ||
                          (MIX == pattern && 1 == i % 2);

        b->value[i] = -1;
        MPI_Irecv(&b->value[i], 1, MPI_INT64_T, any_source ? MPI_ANY_SOURCE : b->peer,
                  in_order ? MPI_ANY_TAG : BASE_TAG + i, b->comm, &b->req[i]);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    start = bench_now();
    if (0 == b->rank) {
        for (int i = 0; i < depth; i++) {
            int number = in_order ? i : depth - 1 - i;

            send_value(b, number, b->peer, BASE_TAG + number);
        }
        return 0;
    }
    MPI_Waitall(depth, b->req, MPI_STATUSES_IGNORE);
    start = bench_now() - start;
    for (int i = 0; i < depth; i++) {
        check(b->value[i], i);
    }
    return start;
}

static double drain_receive_all(bench_t *b, pattern_t pattern, int depth)
{
    int front = 0, end = depth - 1;
    double start = bench_now();

    for (int i = 0; i < depth; i++) {
        static const pattern_t turn[] = {EXACT, SRC_ANY, ANY_TAG, ANY_ANY};
        pattern_t own = MIX == pattern ? turn[i % 4] : pattern;
        int number = SRC_ANY == own || ANY_ANY == own ? front++ : end--;

        check(recv_value(b, own, BASE_TAG + number), number);
    }
    return bench_now() - start;
}

/* Rank 0 sends all; a message behind them, for which rank 1 waits, shows that they have arrived. */
static double drain_unexpected(bench_t *b, pattern_t pattern, int depth)
{
    double seconds = 0;

    if (0 == b->rank) {
        for (int i = 0; i < depth; i++) {
            b->value[i] = i;
            MPI_Isend(&b->value[i], 1, MPI_INT64_T, b->peer, BASE_TAG + i, b->comm, &b->sent[i]);
        }
        send_value(b, 0, b->peer, PING_TAG);
        MPI_Waitall(depth, b->sent, MPI_STATUSES_IGNORE);
    } else {
        check(recv_value(b, EXACT, PING_TAG), 0);
        seconds = drain_receive_all(b, pattern, depth);
    }
    return seconds;
}

typedef double (*drain_fn_t)(bench_t *b, pattern_t pattern, int depth);

/* Once more than asked for, the first as warm-up, but only once where that takes long. */
static void drain_measure(bench_t *b, const char *variant, drain_fn_t drain, pattern_t pattern,
                          int depth)
{
    double seconds, batch[BENCH_MAX_BATCHES];
    int count = 0;

    do {
        seconds = drain(b, pattern, depth);
        MPI_Bcast(&seconds, 1, MPI_DOUBLE, 1, MPI_COMM_WORLD);
        batch[count > 0 ? count - 1 : 0] = 1e6 * seconds / depth;
        count++;
    } while (count <= b->opt.batches && seconds < 1e-3 * LONG_DRAIN_MS);
    if (0 == b->rank) {
        bench_result_times("drain_us", variant, depth, batch, count > 1 ? count - 1 : 1);
    }
}

/*
 * Seconds that one drain of this depth will take, from the better of two of a tenth of it: at worst
 * they grow with the square.
 */
static double drain_predict(bench_t *b, drain_fn_t drain, pattern_t pattern, int depth)
{
    double seconds[2] = {0, 0};

    for (int i = 0; i < 2 && depth > LARGE_DRAIN; i++) {
        seconds[i] = 100 * drain(b, pattern, depth / 10);
        MPI_Bcast(&seconds[i], 1, MPI_DOUBLE, 1, MPI_COMM_WORLD);
    }
    return seconds[0] < seconds[1] ? seconds[0] : seconds[1];
}

static void drain_depths(bench_t *b, const char *kind, drain_fn_t drain, pattern_t pattern)
{
    char variant[64];

    snprintf(variant, sizeof(variant), "%s:%s", kind, pattern_name[pattern]);
    for (int i = 0; i < b->opt.list.count; i++) {
        int depth = (int) b->opt.list.value[i];

        if (depth < 1 || depth > b->tag_ub - BASE_TAG) {
            continue;
        }
        if (drain_predict(b, drain, pattern, depth) < MAX_DRAIN_SECONDS) {
            drain_measure(b, variant, drain, pattern, depth);
        } else if (0 == b->rank) {
            printf("S drain_us %s %d too-slow\n", variant, depth);
        }
    }
}

/* ---- */

static void measure_depth(bench_t *b, int depth)
{
    static const pattern_t usual[][2] = {{EXACT, EXACT},   {SRC_ANY, EXACT}, {ANY_TAG, EXACT},
                                         {MIX, EXACT},     {EXACT, SRC_ANY}, {EXACT, ANY_TAG},
                                         {EXACT, ANY_ANY}, {MIX, MIX}};
    static const pattern_t passable[] = {EXACT, SRC_ANY, ANY_TAG, MIX};

    for (size_t i = 0; !b->opt.is_full && i < sizeof(usual) / sizeof(*usual); i++) {
        measure_posted(b, usual[i][0], usual[i][1], depth);
    }
    for (size_t i = 0; b->opt.is_full && i < sizeof(passable) / sizeof(*passable); i++) {
        for (int own = EXACT; own < PATTERN_COUNT; own++) {
            measure_posted(b, passable[i], (pattern_t) own, depth);
        }
    }
    measure_ring(b, depth);
    for (int own = EXACT; own < PATTERN_COUNT; own++) {
        measure_unexpected(b, (pattern_t) own, depth);
    }
}

static void bench_open(bench_t *b, int argc, char **argv)
{
    int ranks, flag, *ub;

    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    if (2 != ranks) {
        bench_fail("two ranks are needed");
    }
    MPI_Comm_dup(MPI_COMM_WORLD, &b->comm);
    MPI_Comm_rank(b->comm, &b->rank);
    b->peer = 1 - b->rank;
    MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, &ub, &flag);
    b->tag_ub = flag ? *ub : 32767;
    b->opt = bench_options(argc, argv, "0,10,100,1000,10000");
    for (int i = 0; i < b->opt.list.count; i++) {
        b->max_depth = b->opt.list.value[i] > b->max_depth ? (int) b->opt.list.value[i]
                                                           : b->max_depth;
    }
    b->value = bench_alloc(((size_t) b->max_depth + 1) * sizeof(*b->value));
    b->req = bench_alloc(((size_t) b->max_depth + 1) * sizeof(MPI_Request));
    b->sent = bench_alloc(((size_t) b->max_depth + 1) * sizeof(MPI_Request));
}

static void bench_close(bench_t *b)
{
    free(b->sent);
    free(b->req);
    free(b->value);
    MPI_Comm_free(&b->comm);
}

int main(int argc, char **argv)
{
    bench_t b = {0};

    MPI_Init(&argc, &argv);
    bench_open(&b, argc, argv);
    for (int i = 0; i < b.opt.list.count; i++) {
        if (b.opt.list.value[i] <= b.tag_ub - BASE_TAG) {
            measure_depth(&b, (int) b.opt.list.value[i]);
        } else if (0 == b.rank) {
            printf("S depth_us all %ld too-few-tags\n", b.opt.list.value[i]);
        }
    }
    for (int pattern = EXACT; pattern < PATTERN_COUNT; pattern++) {
        drain_depths(&b, "posted", drain_posted, (pattern_t) pattern);
        drain_depths(&b, "unexpected", drain_unexpected, (pattern_t) pattern);
    }
    bench_close(&b);
    MPI_Finalize();
    return 0;
}
