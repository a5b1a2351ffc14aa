/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Long messages to receives that are there first, among short ones, of two tags, with MPI_ANY_TAG,
 * with a first receive that is cancelled before or while the messages come; contiguous, and not.
 * Each has its number: of one tag they arrive in the order in which they were sent, and nothing is
 * written behind them.
 *
 * args: [counted]: over libfabric with pml_tm_ofi_tagged always (ofi_tagged.sh), where most go to
 * receives that were offered.
 */
/* TEST: np=2 */
/* TEST: np=2 device=tmdev env="OMPI_MCA_pml_tm_providers=^shm,tcp OMPI_MCA_mtl=^ofi" */
#include "tm_counter.h"

enum { MESSAGES = 8, LONG = 60000, SHORT = 100, ROUNDS = 60, STEADY = 40 };

typedef struct message {
    int tag;
    int len;
} message_t;

static message_t message[MESSAGES];
static unsigned char buf[MESSAGES + 1][LONG];
static MPI_Request request[MESSAGES + 1];

/* Rank 1 and rank 0 know the same plan. */
static void plan(tm_rng_t *rng)
{
    for (int i = 0; i < MESSAGES; i++) {
        message[i].tag = (int) tm_below(rng, 2);
        message[i].len = 0 == tm_below(rng, 4) ? 4 + (int) tm_below(rng, SHORT)
                                               : 20000 + (int) tm_below(rng, LONG - 20000);
    }
}

static void send_all(int round)
{
    for (int i = 0; i < MESSAGES; i++) {
        tm_fill(buf[i], (size_t) message[i].len, tm_key(0, 1, i, round));
        TM_MPI(MPI_Isend(buf[i], message[i].len, MPI_BYTE, 1, message[i].tag, MPI_COMM_WORLD,
                         &request[i]));
    }
    TM_MPI(MPI_Waitall(MESSAGES, request, MPI_STATUSES_IGNORE));
}

/* The message that a receive got is the next of its tag. */
static void expect_next(int at, const MPI_Status *status, int *next, int round)
{
    const int tag = status->MPI_TAG;
    int i, len;

    for (i = next[tag]; i < MESSAGES && message[i].tag != tag; i++) {
    }
    MPI_Get_count(status, MPI_BYTE, &len);
    if (!TM_CHECK(i < MESSAGES && len == message[i].len, "receive %d: %d bytes of tag %d", at, len,
                  tag)) {
        return;
    }
    next[tag] = i + 1;
    tm_expect_data(buf[at], (size_t) len, tm_key(0, 1, i, round), "message");
    for (int n = len; n < LONG; n++) {
        if (!TM_CHECK(0xee == buf[at][n], "byte %d behind a message of %d was written", n, len)) {
            break;
        }
    }
}

static void receive_all(bool is_any_tag, int cancel, int round)
{
    int next[2] = {0, 0}, first = 1, num = MESSAGES + 1, was_cancelled = 0;
    MPI_Status status;

    memset(buf, 0xee, sizeof(buf));
    for (int i = 0; i < num; i++) {
        const int tag = is_any_tag ? MPI_ANY_TAG : 0 == i ? 0 : message[i - 1].tag;
        request[i] = MPI_REQUEST_NULL;
        if (0 != i || 0 != cancel) {
            TM_MPI(MPI_Irecv(buf[i], LONG, MPI_BYTE, 0, tag, MPI_COMM_WORLD, &request[i]));
        }
    }
    if (1 == cancel) {
        TM_MPI(MPI_Cancel(&request[0]));
    }
    if (0 != round % 4) {
        TM_MPI(MPI_Barrier(MPI_COMM_WORLD));
    }
    if (2 == cancel) {
        tm_spin_us((long) (round % 8) * 100);
        TM_MPI(MPI_Cancel(&request[0]));
    }
    if (0 != cancel) {
        TM_MPI(MPI_Wait(&request[0], &status));
        MPI_Test_cancelled(&status, &was_cancelled);
        if (!was_cancelled) { /* it has a message: the last receive that fits gets none */
            expect_next(0, &status, next, round);
            for (first = num - 1; !is_any_tag && 0 != message[first - 1].tag; first--) {
            }
        }
    }
    for (int i = 1; i < num; i++) {
        if (0 != cancel && !was_cancelled && i == first) {
            continue;
        }
        TM_MPI(MPI_Wait(&request[i], &status));
        expect_next(i, &status, next, round);
    }
    if (0 != cancel && !was_cancelled) {
        TM_MPI(MPI_Cancel(&request[first]));
        TM_MPI(MPI_Wait(&request[first], &status));
        MPI_Test_cancelled(&status, &was_cancelled);
        TM_CHECK(was_cancelled, "a receive without message was not cancelled");
    }
}

static void test_mixed(void)
{
    for (int round = 0; round < ROUNDS; round++) {
        tm_rng_t rng = tm_rng(tm_seed, (uint64_t) round);

        plan(&rng);
        message[0].tag = 0; /* the first receive can get a message */
        if (0 == tm_rank) {
            if (0 != round % 4) {
                TM_MPI(MPI_Barrier(MPI_COMM_WORLD));
            }
            send_all(round);
        } else {
            receive_all(0 == round % 3, round % 5 % 3, round);
        }
        TM_MPI(MPI_Barrier(MPI_COMM_WORLD));
    }
}

/* Receives are posted again and again, ahead of the messages. */
static void test_steady(bool is_counted)
{
    tm_counter_t counter;
    MPI_Status status;

    if (is_counted) {
        counter = tm_counter_open("pml_tm_ofi_placed");
    }
    for (int i = 0; 1 == tm_rank && i < MESSAGES; i++) {
        TM_MPI(MPI_Irecv(buf[i], LONG, MPI_BYTE, 0, 5, MPI_COMM_WORLD, &request[i]));
    }
    TM_MPI(MPI_Barrier(MPI_COMM_WORLD));
    for (int i = 0; i < STEADY * MESSAGES; i++) {
        const int at = i % MESSAGES;

        if (0 == tm_rank) {
            tm_fill(buf[at], LONG, tm_key(0, 1, i, 0));
            TM_MPI(MPI_Send(buf[at], LONG, MPI_BYTE, 1, 5, MPI_COMM_WORLD));
            continue;
        }
        TM_MPI(MPI_Wait(&request[at], &status));
        tm_expect_data(buf[at], LONG, tm_key(0, 1, i, 0), "steady");
        if (i + MESSAGES < STEADY * MESSAGES) {
            TM_MPI(MPI_Irecv(buf[at], LONG, MPI_BYTE, 0, 5, MPI_COMM_WORLD, &request[at]));
        }
    }
    if (is_counted) {
        const unsigned long long placed = tm_counter_read(&counter);

        TM_CHECK(0 == tm_rank || placed >= MESSAGES, "only %llu of %d were placed", placed,
                 STEADY * MESSAGES);
        tm_counter_close(&counter);
    }
}

/* The receiver's memory, or the sender's, has gaps. */
static void test_gaps(bool is_receiver)
{
    enum { ELEMENTS = 8000 };
    const bool has_gaps = is_receiver == (1 == tm_rank);
    static int ints[2 * ELEMENTS];
    MPI_Datatype spaced;

    TM_MPI(MPI_Type_vector(ELEMENTS, 1, 2, MPI_INT, &spaced));
    TM_MPI(MPI_Type_commit(&spaced));
    for (int i = 0; i < 2 * ELEMENTS; i++) {
        ints[i] = 0 == tm_rank ? i : -1;
    }
    if (1 == tm_rank) {
        TM_MPI(MPI_Irecv(ints, has_gaps ? 1 : ELEMENTS, has_gaps ? spaced : MPI_INT, 0, 6,
                         MPI_COMM_WORLD, &request[0]));
    }
    TM_MPI(MPI_Barrier(MPI_COMM_WORLD));
    if (0 == tm_rank) {
        TM_MPI(MPI_Send(ints, has_gaps ? 1 : ELEMENTS, has_gaps ? spaced : MPI_INT, 1, 6,
                        MPI_COMM_WORLD));
    } else {
        TM_MPI(MPI_Wait(&request[0], MPI_STATUS_IGNORE));
        for (int i = 0; i < ELEMENTS; i++) {
            const int want = is_receiver ? i : 2 * i;
            if (!TM_CHECK(want == ints[has_gaps ? 2 * i : i], "element %d is not %d", i, want)) {
                break;
            }
        }
    }
    TM_MPI(MPI_Type_free(&spaced));
}

int main(int argc, char **argv)
{
    tm_init(&argc, &argv, "offered");
    if (2 != tm_size) {
        return tm_skip("needs 2 ranks");
    }
    test_mixed();
    test_steady(argc > 1 && 0 == strcmp("counted", argv[1]));
    test_gaps(false);
    test_gaps(true);
    test_mixed();
    return tm_finish();
}
