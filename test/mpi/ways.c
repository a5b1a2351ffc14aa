/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The receiver chooses whether long messages are pushed by their sender or pulled, by its clock
 * (common/shm/shm_ways.h), and changes to the other way and back when their times change.
 *
 * Rank 0 sends, rank 1 receives; rank 1's clock is played: clock_gettime() of this program is used
 * instead of libc's.  Time passes by the messages that come through the ring, and by reads of rank
 * 0's memory, each as long as the phase wants.  The messages of the ring are counted when it is
 * empty, which may be after all of a stream; so that the times of streams can be compared all the
 * same, each look at the clock takes a part of it.
 *
 * args: blocking (MPI_Send: pushed messages are streams), or not (MPI_Isend: the sender gives)
 */
/* TEST: np=2 args="1" env="OMPI_MCA_pml_tm_providers=shm OMPI_MCA_pml_tm_shm_ring_size=65536 OMPI_MCA_pml_tm_shm_cooperative=auto" ldflags=-rdynamic timeout=60 quick=yes */
/* TEST: np=2 args="0" env="OMPI_MCA_pml_tm_providers=shm OMPI_MCA_pml_tm_shm_ring_size=65536 OMPI_MCA_pml_tm_shm_cooperative=auto" ldflags=-rdynamic timeout=60 */
#include <dlfcn.h>
#include <link.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "fabric/fab_counters.h"

#include "tm_counter.h"

enum {
    LENGTH = 131072,
    SETTLED = 40,      /* messages in a row that all go the wanted way */
    MAX_ROUNDS = 4000, /* of a phase */
    TAG = 1,
    TAG_ANSWER = 2,
};

/* ---- the clock ----------------------------------------------------------- */

static const fab_counters_t *counters; /* of this process; NULL: the clock is not played */
static pthread_t player;
static long ring_ns, read_ns; /* that a message takes, and a read of memory */
static uint64_t look_ns;      /* that a look at the clock takes */
static uint64_t played, messages, reads;

static int real_time(clockid_t clock, struct timespec *now)
{
    return (int) syscall(SYS_clock_gettime, clock, now);
}

static void play(void)
{
    played += look_ns + (counters->shm_msgs_received - messages) * (uint64_t) ring_ns +
              (counters->shm_cma_calls - reads) * (uint64_t) read_ns;
    messages = counters->shm_msgs_received;
    reads = counters->shm_cma_calls;
}

/* When it is played no more it stands still until the machine's has come as far. */
int clock_gettime(clockid_t clock, struct timespec *now)
{
    const int rc = real_time(clock, now);
    const uint64_t real = (uint64_t) now->tv_sec * 1000000000 + (uint64_t) now->tv_nsec;

    if (0 == played || CLOCK_MONOTONIC != clock || !pthread_equal(player, pthread_self())) {
        return rc;
    }
    if (NULL != counters) {
        play();
    } else if (real >= played) {
        return rc;
    }
    now->tv_sec = (time_t) (played / 1000000000);
    now->tv_nsec = (long) (played % 1000000000);
    return 0;
}

static int find(struct dl_phdr_info *info, size_t size, void *out)
{
    void *library;

    (void) size;
    if (NULL == strstr(info->dlpi_name, "libmca_common_tm-")) {
        return 0;
    }
    library = dlopen(info->dlpi_name, RTLD_LAZY | RTLD_NOLOAD);
    *(void **) out = NULL != library ? dlsym(library, "fab_counters") : NULL;
    return 1;
}

/* From here on this thread's clock is played; it does not go back. */
static void play_from_now(void)
{
    const fab_counters_t *found = NULL;
    struct timespec now;

    (void) dl_iterate_phdr(find, (void *) &found);
    if (NULL == found) {
        TM_FATAL("the fabric's counters are not found");
    }
    (void) real_time(CLOCK_MONOTONIC, &now);
    messages = found->shm_msgs_received;
    reads = found->shm_cma_calls;
    player = pthread_self();
    played = (uint64_t) now.tv_sec * 1000000000 + (uint64_t) now.tv_nsec;
    counters = found;
}

/* ---- the two ranks --------------------------------------------------------- */

typedef struct phase {
    bool is_pulled; /* that this is to be found out */
    int ring_us;    /* what a message through the ring takes */
    int read_us;    /* what a read takes */
} phase_t;

static const phase_t phases[] = {{true, 10, 0}, {false, 10, 2000}, {true, 10, 0}, {false, 1, 500}};

enum { PHASES = sizeof(phases) / sizeof(phases[0]) };

/* Rank 0 sends until SETTLED messages in a row went the wanted way. Tag TAG + 1: there is more. */
static void send_phase(const phase_t *phase, char *buf, bool is_blocking)
{
    tm_counter_t streamed = tm_counter_open("pml_tm_streamed");
    tm_counter_t given = tm_counter_open("pml_tm_shm_coop_given");
    unsigned long long before = 0;
    int settled = 0, rounds = 0;

    while (settled < SETTLED && rounds < MAX_ROUNDS) {
        MPI_Request req;
        int is_last;
        tm_fill(buf, LENGTH, tm_key(0, 1, TAG, rounds));
        if (is_blocking) {
            TM_MPI(MPI_Send(buf, LENGTH, MPI_BYTE, 1, TAG, MPI_COMM_WORLD));
        } else {
            TM_MPI(MPI_Isend(buf, LENGTH, MPI_BYTE, 1, TAG, MPI_COMM_WORLD, &req));
            TM_MPI(MPI_Wait(&req, MPI_STATUS_IGNORE));
        }
        const unsigned long long now = tm_counter_read(&streamed) + tm_counter_read(&given);
        settled = (now == before) == phase->is_pulled ? settled + 1 : 0;
        before = now;
        rounds++;
        is_last = settled == SETTLED || rounds == MAX_ROUNDS;
        TM_MPI(MPI_Recv(NULL, 0, MPI_BYTE, 1, TAG_ANSWER, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        TM_MPI(MPI_Send(&is_last, 1, MPI_INT, 1, TAG_ANSWER, MPI_COMM_WORLD));
    }
    printf("%s found after %d messages\n", phase->is_pulled ? "pulling" : "pushing",
           rounds - settled);
    TM_CHECK(settled == SETTLED, "%s is faster, and was not found in %d messages",
             phase->is_pulled ? "pulling" : "pushing", rounds);
    tm_counter_close(&given);
    tm_counter_close(&streamed);
}

static void receive_phase(const phase_t *phase, char *buf)
{
    int is_last = 0;

    ring_ns = 1000L * phase->ring_us;
    read_ns = 1000L * phase->read_us;
    for (int i = 0; !is_last; i++) {
        TM_MPI(MPI_Recv(buf, LENGTH, MPI_BYTE, 0, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        tm_expect_data(buf, LENGTH, tm_key(0, 1, TAG, i), "a long message");
        TM_MPI(MPI_Send(NULL, 0, MPI_BYTE, 0, TAG_ANSWER, MPI_COMM_WORLD));
        TM_MPI(MPI_Recv(&is_last, 1, MPI_INT, 0, TAG_ANSWER, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    }
}

int main(int argc, char **argv)
{
    char *buf;

    tm_init(&argc, &argv, "ways");
    if (!tm_is_pml_tm()) {
        return tm_skip("only pml tm chooses so");
    }
    buf = tm_alloc(LENGTH);
    look_ns = 0 != tm_arg(argc, argv, 1, 1) ? 10000 : 1; /* a get looks again and again */
    if (1 == tm_rank) {
        play_from_now();
    }
    for (int i = 0; i < PHASES; i++) {
        if (0 == tm_rank) {
            send_phase(&phases[i], buf, 0 != tm_arg(argc, argv, 1, 1));
        } else {
            receive_phase(&phases[i], buf);
        }
    }
    if (1 == tm_rank) {
        counters = NULL;
    }
    tm_free(buf);
    return tm_finish();
}
