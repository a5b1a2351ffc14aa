/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * More ranks than processors: several communicators duplicated at once, barriers that do not block,
 * and a wait that takes long, on one processor (crowd.sh).  All is done by waiting for others.
 * Whoever sleeps meanwhile polls all of Open MPI after each sleep.  One that tests in vain yields
 * after many tests, not after each: it may have work to do.
 *
 * args: [threads: MPI_THREAD_MULTIPLE] name of a counter that must have grown on each rank, or with
 * ! before it, not at all...
 */
#include <dlfcn.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "tm_counter.h"

enum {
    ROUNDS = 20,
    COMMS = 4,
    NAPS = 8,       /* the message after one of them, at least, ends a sleep */
    NAPS_MAX = 200, /* ... where others keep a process that waits from polling often */
    NAP_US = 100000,
    MAX_COUNTERS = 8,
    LONG = 20000, /* above the eager limit */
    TESTS = 4000
};

static unsigned yields; /* of this process, by whatever library */

int sched_yield(void)
{
    ++yields;
    return (int) syscall(SYS_sched_yield);
}

static void duplicate_at_once(void)
{
    MPI_Comm comm[COMMS];
    MPI_Request req[COMMS];

    for (int i = 0; i < COMMS; i++) {
        TM_MPI(MPI_Comm_idup(MPI_COMM_WORLD, &comm[i], &req[i]));
    }
    TM_MPI(MPI_Waitall(COMMS, req, MPI_STATUSES_IGNORE));
    for (int i = 0; i < COMMS; i++) {
        TM_MPI(MPI_Ibarrier(comm[i], &req[i]));
    }
    TM_MPI(MPI_Waitall(COMMS, req, MPI_STATUSES_IGNORE));
    for (int i = 0; i < COMMS; i++) {
        TM_MPI(MPI_Comm_free(&comm[i]));
    }
}

/* A message that may be streamed, from each rank to the next. */
static void pass_on(void)
{
    static char from[LONG], to[LONG];

    TM_MPI(MPI_Sendrecv(from, LONG, MPI_BYTE, (tm_rank + 1) % tm_size, 0, to, LONG, MPI_BYTE,
                        (tm_rank + tm_size - 1) % tm_size, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
}

static unsigned long long polls; /* of all of Open MPI */

static int count_poll(void)
{
    ++polls;
    return 0;
}

/* Rank 0 is late; the others wait for it in a blocking receive. */
static void nap(void)
{
    int token = 0;

    if (0 == tm_rank) {
        usleep(NAP_US);
    }
    TM_MPI(MPI_Bcast(&token, 1, MPI_INT, 0, MPI_COMM_WORLD));
}

static void wait_long(void)
{
    tm_counter_t sleeps = tm_counter_open("pml_tm_wait_sleeps");
    int (*progress_register)(int (*)(void));

    *(void **) &progress_register = dlsym(RTLD_DEFAULT, "opal_progress_register");
    progress_register(count_poll);
    polls = 0;
    for (int i = 0; i < NAPS; i++) {
        nap();
    }
    TM_CHECK(polls >= tm_counter_read(&sleeps), "%llu polls of all, but %llu sleeps", polls,
             tm_counter_read(&sleeps));
    tm_counter_close(&sleeps);
    TM_MPI(MPI_Barrier(MPI_COMM_WORLD));
}

static void test_in_vain(void)
{
    MPI_Request req;
    int token = 0, is_done = false;

    TM_MPI(MPI_Irecv(&token, 1, MPI_INT, tm_rank, 1, MPI_COMM_WORLD, &req));
    yields = 0;
    for (int i = 0; i < TESTS; i++) {
        TM_MPI(MPI_Test(&req, &is_done, MPI_STATUS_IGNORE));
        TM_CHECK(!is_done, "a receive is done whose message was not sent");
    }
    TM_CHECK(yields <= TESTS / 2, "%u yields in %d tests", yields, TESTS);
    TM_MPI(MPI_Send(&token, 1, MPI_INT, tm_rank, 1, MPI_COMM_WORLD));
    TM_MPI(MPI_Wait(&req, MPI_STATUS_IGNORE));
}

static bool is_as_wanted(const char *name, tm_counter_t *counter)
{
    const unsigned long long count = tm_counter_read(counter);

    return '!' == name[0] ? 0 == count : count > 0 || 0 == tm_rank;
}

/* On all ranks? */
static bool are_as_wanted(int argc, char **argv, tm_counter_t *counter)
{
    int mine = true, all = true;

    for (int i = 1; i < argc && i < MAX_COUNTERS; i++) {
        mine = mine && is_as_wanted(argv[i], &counter[i]);
    }
    TM_MPI(MPI_Allreduce(&mine, &all, 1, MPI_INT, MPI_LAND, MPI_COMM_WORLD));
    return all;
}

int main(int argc, char **argv)
{
    tm_counter_t counter[MAX_COUNTERS];
    const bool is_threaded = argc > 1 && 0 == strcmp(argv[1], "threads");

    tm_init_thread(&argc, &argv, "crowd", is_threaded ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE);
    argc -= is_threaded;
    argv += is_threaded;
    for (int i = 1; i < argc && i < MAX_COUNTERS; i++) {
        counter[i] = tm_counter_open(argv[i] + ('!' == argv[i][0]));
    }
    for (int i = 0; i < ROUNDS; i++) {
        duplicate_at_once();
        pass_on();
    }
    wait_long();
    if (!is_threaded) {
        TM_CHECK(argc < 2 || 0 != strcmp(argv[1], "pml_tm_wait_yields") || yields > 0,
                 "no yield was seen");
        test_in_vain();
    }
    for (int i = 0; i < NAPS_MAX && !are_as_wanted(argc, argv, counter); i++) {
        nap();
    }
    for (int i = 1; i < argc && i < MAX_COUNTERS; i++) {
        TM_CHECK(is_as_wanted(argv[i], &counter[i]), "%s: %llu", argv[i],
                 tm_counter_read(&counter[i]));
        tm_counter_close(&counter[i]);
    }
    return tm_finish();
}
