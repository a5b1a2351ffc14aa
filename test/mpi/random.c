/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Random traffic, all of point-to-point communication at once, with each byte and MPI's order
 * checked.
 *
 * args: [seed, 0: from the clock] [seconds] [options, comma separated]
 *
 *   threads=N   N threads with MPI_THREAD_MULTIPLE, each a lane with its own communicators, and one
 *               that all share
 *   from=N      no traffic in epochs before this one: to see again what happened there
 *   epochs=N    so many at most
 *   max=N       longest message (bytes)
 *   watch=N     seconds without progress of a lane after which the state is printed and the job
 *               ends
 *
 * The same seed gives the same plan: messages, communicators and calls, up to what depends on
 * timing (the result of a probe).
 *
 *   random.h         the state                    random_ops.c     single calls
 *   random_comms.c   communicators                random_run.c     an epoch of them, and why no
 *   random_plan.c    which messages there are                      rank waits for ever
 *                                                 random_oracle.c  what must have come of them
 */
/* TEST: np=2 args="@1 ~5" timeout=60 quick=yes sources=test/mpi/random_comms.c,test/mpi/random_ops.c,test/mpi/random_plan.c,test/mpi/random_run.c,test/mpi/random_oracle.c */
/* TEST: np=1 args="@2 ~5" timeout=60 */
/* TEST: np=3 args="@4 ~20" ompi=4.1 timeout=90 */
/* TEST: np=4 args="@5 ~20" timeout=90 */
/* TEST: np=8 args="@6 ~25" ompi=4.1 timeout=120 */
/* TEST: np=11 args="@27 ~8" ompi=4.1 timeout=120 */
/* TEST: np=4 args="@13 ~110" ompi=4.1 timeout=200 */
/* TEST: np=2 args="@7 ~15 threads=3" env="OMPI_MCA_mpi_yield_when_idle=1" timeout=90 */
/* TEST: np=2 args="@8 ~8" env="OMPI_MCA_pml_tm_shm_ring_size=4096" timeout=60 */
/* TEST: np=3 args="@9 ~8" env="OMPI_MCA_pml_tm_shm_single_copy=none OMPI_MCA_pml_tm_shm_ring_size=16384" timeout=60 */
/* TEST: np=4 args="@14 ~8" env="OMPI_MCA_pml_tm_shm_cooperative=always" timeout=60 */
/* TEST: np=2 args="@16 ~8 threads=3" env="OMPI_MCA_pml_tm_shm_cooperative=always OMPI_MCA_mpi_yield_when_idle=1" timeout=90 */
/* TEST: np=2 args="@10 ~8" env="OMPI_MCA_pml_tm_eager_limit=0" timeout=60 */
/* TEST: np=3 args="@12 ~8" env="PML_TM_TEST_fast_paths=0" timeout=60 */
/* TEST: np=4 args="@11 ~8" env="OMPI_MCA_pml_tm_unexpected_max=65536 OMPI_MCA_pml_tm_eager_limit=300" timeout=60 */
#include "random.h"

#include <signal.h>

#include "tm_threads.h"

tm_type_t *rnd_type[MAX_TYPES];
int rnd_ntypes;
int rnd_tag_ub;
size_t rnd_max = 3000000;

static rnd_lane_t lanes[MAX_LANES];
static int nlanes = 1;
static long first_epoch, max_epochs = -1, watch_seconds = 30;
static double end_time;

/* ---- epochs ------------------------------------------------------------- */

/* False: it was the last. */
static bool decide(rnd_lane_t *lane)
{
    int is_over = tm_now() > end_time || tm_errors > 0 ||
                  (max_epochs >= 0 && lane->epoch >= first_epoch + max_epochs);

    rnd_step(lane, "decides whether to go on");
    TM_MPI(MPI_Allreduce(MPI_IN_PLACE, &is_over, 1, MPI_INT, MPI_MAX, lane->ctl));
    return !is_over;
}

/* The communicators change in any case. */
static void one_epoch(rnd_lane_t *lane)
{
    int now = rnd_plan_epoch(lane), made = lane->comm_made >= 0 ? lane->comm_made : now;

    if (made >= 0) {
        rnd_comm_plan(lane, made, rnd_rng(lane, 3));
    }
    if (made >= 0 && (now >= 0 || lane->epoch < first_epoch)) {
        rnd_comm_begin(lane, made);
        rnd_comm_end(lane, made);
    }
    if (lane->epoch >= first_epoch) {
        rnd_plan_messages(lane);
        rnd_run_epoch(lane);
        rnd_check_epoch(lane);
        lane->nepochs++;
    } else if (lane->comm_freed >= 0) {
        rnd_comm_release(&lane->slot[lane->comm_freed]);
    }
}

static void *lane_main(void *arg)
{
    rnd_lane_t *lane = arg;

    for (lane->epoch = 0; lane->epoch < first_epoch || decide(lane); lane->epoch++) {
        one_epoch(lane);
    }
    rnd_step(lane, NULL);
    return NULL;
}

/* ---- watchdog ----------------------------------------------------------- */

/* The lane is stuck: so what it has counts, though this is another thread. */
static void watch_report(const rnd_lane_t *lane)
{
    int nopen = 0;

    for (int i = 0; i < lane->nops; i++) {
        nopen += rnd_op_is_open(lane->op[i]);
    }
    TM_ERROR("no progress for %ld s: lane %d, epoch %ld style %d profile %d, in: %s; %d "
             "operations, %d of them open",
             watch_seconds, lane->id, lane->epoch, lane->style, lane->profile,
             atomic_load(&lane->doing), lane->nops, nopen);
    for (int s = 0; s < NSLOTS; s++) {
        if (lane->slot[s].num_received != lane->slot[s].num_expected) {
            TM_ERROR("... slot %d: %d of %d messages received", s, lane->slot[s].num_received,
                     lane->slot[s].num_expected);
        }
    }
}

static void *watch_main(void *arg)
{
    long last[MAX_LANES] = {0};
    double since[MAX_LANES];

    for (int i = 0; i < nlanes; i++) {
        since[i] = tm_now();
    }
    for (;;) {
        usleep(200000);
        for (int i = 0; i < nlanes; i++) {
            long steps = atomic_load(&lanes[i].steps);

            if (steps != last[i] || NULL == atomic_load(&lanes[i].doing)) {
                last[i] = steps;
                since[i] = tm_now();
            } else if (tm_now() > since[i] + (double) watch_seconds) {
                watch_report(&lanes[i]);
                sleep(2); /* for the other ranks to say what they do */
                _exit(4);
            }
        }
    }
    return arg;
}

static void watch_start(void)
{
    sigset_t all, before;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    pthread_detach(tm_thread(watch_main, NULL));
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

/* ---- start and end ------------------------------------------------------ */

static void read_options(char *text)
{
    char *save = NULL;

    for (char *word = strtok_r(text, ",", &save); NULL != word; word = strtok_r(NULL, ",", &save)) {
        char *value = strchr(word, '=');
        long n = NULL != value ? strtol(value + 1, NULL, 0) : -1;
        size_t len = NULL != value ? (size_t) (value - word) : 0;

        if (n < 0) {
            TM_FATAL("option %s lacks a number", word);
        } else if (0 == strncmp(word, "threads", len) && n >= 1 && n <= MAX_LANES) {
            nlanes = (int) n;
        } else if (0 == strncmp(word, "from", len)) {
            first_epoch = n;
        } else if (0 == strncmp(word, "epochs", len)) {
            max_epochs = n;
        } else if (0 == strncmp(word, "max", len)) {
            rnd_max = (size_t) n;
        } else if (0 == strncmp(word, "watch", len)) {
            watch_seconds = n;
        } else {
            TM_FATAL("unknown option %s", word);
        }
    }
}

/* Types of one size may meet; those of which elements overlap cannot be received into. */
static void make_types(void)
{
    tm_type_collection(rnd_type);
    rnd_ntypes = TM_NTYPES;
    for (int i = 0; i < NRANDOM; i++) {
        tm_rng_t rng = tm_rng(77, (uint64_t) i);
        tm_type_t *t = tm_type_random(&rng, 1 + i % 3, "random");

        if (t->size > 0 && labs(tm_type_extent(t)) >= t->true_ub - t->true_lb) {
            rnd_type[rnd_ntypes++] = t;
        } else {
            tm_type_free(t);
        }
    }
}

static void open_all(void)
{
    int flag, *ub;

    TM_MPI(MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, &ub, &flag));
    rnd_tag_ub = *ub;
    (void) tm_is_strict();
    rnd_find_edges();
    make_types();
    for (int i = 0; i < nlanes; i++) {
        lanes[i].id = i;
        lanes[i].nlanes = nlanes;
        atomic_store(&lanes[i].doing, "starts");
        rnd_comm_open_first(&lanes[i]);
        for (int d = 0; d < MAX_DEFS; d++) {
            lanes[i].sdef[d].req = lanes[i].rdef[d].req = MPI_REQUEST_NULL;
        }
    }
    if (nlanes > 1) {
        TM_MPI(MPI_Buffer_attach(tm_calloc(1, 64 << 20), 64 << 20));
    }
}

static void close_all(void)
{
    long sum[7] = {0};

    if (nlanes > 1) {
        rnd_buffer_detach();
    }
    for (int i = 0; i < nlanes; i++) {
        rnd_lane_t *lane = &lanes[i];
        const long n[7] = {lane->nepochs,    lane->nmessages, lane->nprobed, lane->ncancelled,
                           lane->ntruncated, lane->nblocking, lane->nunsent};

        for (int k = 0; k < 7; k++) {
            sum[k] += n[k];
        }
        rnd_comm_close_all(lane);
        free(lane->in);
        free(lane->out);
        free(lane->op);
    }
    tm_types_free(rnd_type, rnd_ntypes);
    TM_MPI(MPI_Allreduce(MPI_IN_PLACE, sum, 7, MPI_LONG, MPI_SUM, MPI_COMM_WORLD));
    if (0 == tm_rank) {
        printf("random: %ld epochs, %ld messages, %ld probed, %ld cancels, %ld truncated, %ld "
               "blocking calls, %ld sends cancelled in time\n",
               sum[0] / tm_size, sum[1], sum[2], sum[3], sum[4], sum[5], sum[6]);
    }
}

static void agree_on_seed(uint64_t seed)
{
    struct timespec now;

    clock_gettime(CLOCK_REALTIME, &now);
    tm_seed = 0 != seed
                  ? seed
                  : ((uint64_t) now.tv_sec * 1000 + (uint64_t) now.tv_nsec / 1000000) % 1000000007;
    TM_MPI(MPI_Bcast(&tm_seed, 1, MPI_UINT64_T, 0, MPI_COMM_WORLD));
}

int main(int argc, char **argv)
{
    if (argc > 3) {
        read_options(argv[3]);
    }
    tm_init_thread(&argc, &argv, "random", nlanes > 1 ? MPI_THREAD_MULTIPLE : MPI_THREAD_FUNNELED);
    if (tm_size > MAX_RANKS) {
        return tm_skip("too many ranks");
    }
    if (nlanes > 1 && !tm_is_strict()) { /* doc/btl.md, "Tests" */
        return tm_skip("pml/ob1 of Open MPI 4.1.4 crashes with threads, over any BTL");
    }
    agree_on_seed(argc > 1 ? strtoull(argv[1], NULL, 0) : 0);
    end_time = tm_now() + (double) tm_arg(argc, argv, 2, 10);
    if (0 == tm_rank) {
        printf("random: seed %" PRIu64 ", %d ranks, %d threads\n", tm_seed, tm_size, nlanes);
        fflush(stdout);
    }
    open_all();
    watch_start();
    tm_in_threads(lane_main, lanes, nlanes, sizeof(lanes[0]));
    close_all();
    return tm_finish();
}
