/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A small job for tests of the fabric: some processes, made by fork(), each with an open fabric and
 * the addresses of the others. A process that finds something wrong says so and exits with 1, which
 * fails the test.
 */
#ifndef TEST_FAB_WORLD_H
#define TEST_FAB_WORLD_H

#include "fabric/fab.h"
#include "fabric/fab_abi.h"

#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "fabric/fab_counters.h"
#include "fabric/fab_params.h"
#include "test_cmocka.h"

/* Parameters have their defaults before main(), since nothing registers them here. */
__attribute__((constructor)) static void world_reset_params(void)
{
    fab_params_reset();
    /* faults are counted in what tests do, not in the self-test of matching by the device */
    fab_params.verbs_tm = "always";
}

/* fab_config_t.num_procs of the jobs. */
static uint32_t world_num_procs;

/* fab_config_t.may_sleep of the jobs. */
static bool world_may_sleep;

/* fab_config_t.num_local of the jobs; 0: all that there are. */
static uint32_t world_num_local;

enum { WORLD_MAX = 256, WORLD_SCRATCH = 4096, WORLD_TIMEOUT_S = 120 };

/* What the processes of a job share. */
typedef struct world_shared {
    _Atomic unsigned barrier[2]; /* arrived, left */
    _Atomic unsigned phase;
    _Atomic uint64_t scratch[WORLD_SCRATCH]; /* for the test */
    size_t len[WORLD_MAX];
    unsigned char address[WORLD_MAX][FAB_ADDRESS_MAX];
} world_shared_t;

typedef struct world {
    int rank;
    int size;
    bool is_threaded;
    fab_t *fab;
    world_shared_t *shared;
    fab_peer_t *peers[WORLD_MAX];
    uint64_t got; /* messages AM_DATA, unless the test has a handler of its own for them */
    int failures; /* peers reported as failed */
    fab_peer_t *failed;
    int failed_rc;
    char failed_why[512];
    bool needs_left; /* peers that leave: what they are told to be */
    int left;        /* times that this was asked */
    int woken;       /* times that another user had something to do */
    int said;        /* lines that the user sees, whatever the verbosity */
    char last_said[512];
    void *user;
} world_t;

typedef void (*world_fn_t)(world_t *world);

enum { AM_DATA = 9 };

#define CHECK(cond)                                                                                \
    do {                                                                                           \
        if (!(cond)) {                                                                             \
            fprintf(stderr, "rank %d: %s:%d: %s\n", world->rank, __FILE__, __LINE__, #cond);       \
            _exit(1);                                                                              \
        }                                                                                          \
    } while (0)

static inline uint64_t world_name(int rank)
{
    return UINT64_C(7) << 32 | (unsigned) rank;
}

static inline double world_now(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double) now.tv_sec + (double) now.tv_nsec / 1e9;
}

static inline int world_progress(world_t *world)
{
    int events;

    fab_lock(world->fab);
    events = fab_progress(world->fab);
    fab_unlock(world->fab);
    if (0 == events) {
        sched_yield(); /* there are more processes than cores */
    }
    return events;
}

/* Progress until cond. */
#define WORLD_UNTIL(cond)                                                                          \
    while (!(cond)) {                                                                              \
        world_progress(world);                                                                     \
    }

/* One more is here: the phase changes when all are. Returns the phase until then. */
static inline unsigned world_arrive(world_t *world)
{
    world_shared_t *shared = world->shared;
    unsigned phase = atomic_load(&shared->phase);

    if (atomic_fetch_add(&shared->barrier[0], 1) + 1 == (unsigned) world->size) {
        atomic_store(&shared->barrier[0], 0);
        atomic_store(&shared->phase, phase + 1);
    }
    return phase;
}

/* Wait for all; progress meanwhile. */
static inline void world_barrier(world_t *world)
{
    unsigned phase = world_arrive(world);

    WORLD_UNTIL(atomic_load(&world->shared->phase) != phase);
}

/* The same without progress: nothing that the others do afterwards is seen here before. */
static inline void world_barrier_idle(world_t *world)
{
    unsigned phase = world_arrive(world);

    while (atomic_load(&world->shared->phase) == phase) {
        sched_yield();
    }
}

static inline void world_on_failed(void *ctx, fab_peer_t *peer, int rc, const char *why)
{
    world_t *world = ctx;

    world->failures++;
    world->failed = peer;
    world->failed_rc = rc;
    snprintf(world->failed_why, sizeof(world->failed_why), "%s", why);
}

static inline bool world_on_left(void *ctx, fab_peer_t *peer)
{
    world_t *world = ctx;

    (void) peer;
    world->left++;
    return world->needs_left;
}

static inline void world_count(void *ctx, fab_peer_t *peer, fab_hdr_t hdr, const void *data,
                               size_t len)
{
    (void) peer, (void) hdr, (void) data, (void) len;
    ((world_t *) ctx)->got++;
}

static inline void world_on_others(void *ctx)
{
    ((world_t *) ctx)->woken++;
}

static inline void world_on_log(void *ctx, int level, const char *text)
{
    world_t *world = ctx;

    if (0 == level) {
        world->said++;
        snprintf(world->last_said, sizeof(world->last_said), "%s", text);
    }
}

/* The peer with this rank, opened if it was not. */
static inline fab_peer_t *world_peer(world_t *world, int rank)
{
    const char *why = "";

    if (NULL == world->peers[rank]) {
        fab_lock(world->fab);
        int rc = fab_peer_open(world->fab, FAB_USER_PML, world_name(rank),
                               world->shared->address[rank], world->shared->len[rank],
                               &world->peers[rank], &why);
        fab_unlock(world->fab);
        if (OPAL_SUCCESS != rc) {
            fprintf(stderr, "rank %d: peer %d: %s\n", world->rank, rank, why);
            _exit(1);
        }
    }
    return world->peers[rank];
}

/* Send it a message AM_DATA of no length, by and by. */
static inline void post(world_t *world, fab_peer_t *peer)
{
    CHECK(OPAL_SUCCESS == fab_post(peer, fab_hdr(AM_DATA, 0, 0), NULL, 0));
}

static inline void world_open(world_t *world, bool is_threaded)
{
    world->is_threaded = is_threaded;
    fab_config_t config = {
        .name = world_name(world->rank),
        .num_local = 0 != world_num_local ? world_num_local : (uint32_t) world->size,
        .local_rank = (uint32_t) world->rank,
        .num_procs = world_num_procs,
        .is_threaded = &world->is_threaded,
        .may_sleep = world_may_sleep,
        .ctx = world,
        .peer_failed = world_on_failed,
        .peer_left = world_on_left,
        .others_wait = world_on_others,
        .log = world_on_log,
    };
    const char *why = "";

    if (OPAL_SUCCESS != fab_open(&config, &world->fab, &why)) {
        fprintf(stderr, "rank %d: fab_open: %s\n", world->rank, why);
        _exit(1);
    }
    fab_set_handler(world->fab, AM_DATA, world_count, world);
    fab_start(world->fab, FAB_USER_PML);
    world->shared->len[world->rank] = fab_address(world->fab, world->shared->address[world->rank],
                                                  sizeof(world->shared->address[world->rank]));
}

static inline void world_child(int rank, int size, bool is_threaded, world_shared_t *shared,
                               world_fn_t fn)
{
    static world_t world;

    signal(SIGSEGV, SIG_DFL); /* cmocka's handler would go on with the next test */
    signal(SIGBUS, SIG_DFL);
    world.rank = rank;
    world.size = size;
    world.shared = shared;
    world_open(&world, is_threaded);
    world_barrier(&world);
    fn(&world);
    fab_close(world.fab, FAB_USER_PML);
    exit(0);
}

/* Those that have ended are 0 in pids. */
static inline void world_kill(const pid_t *pids, int size)
{
    for (int i = 0; i < size; i++) {
        if (0 != pids[i]) {
            kill(pids[i], SIGKILL);
            waitpid(pids[i], NULL, 0);
        }
    }
}

/* Seconds until processes hang: only for that, so the machine may be slow. */
static inline double world_time_limit(void)
{
    const char *scale = getenv("TM_TEST_TIMEOUT_SCALE");

    return WORLD_TIMEOUT_S * (NULL == scale || atoi(scale) < 1 ? 1.0 : (double) atoi(scale));
}

/*
 * Run fn in size processes.  Those in the mask killed are expected to end by SIGKILL.  Returns the
 * number of processes that did not end as they should.
 */
static inline int world_run_some_die(int size, bool is_threaded, world_fn_t fn, uint64_t killed)
{
    world_shared_t *shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE,
                                  MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pid_t pids[WORLD_MAX];
    double deadline = world_now() + world_time_limit();
    int wrong = 0;

    if (MAP_FAILED == shared) {
        return size;
    }
    fflush(NULL);
    for (int i = 0; i < size; i++) {
        pids[i] = fork();
        if (0 == pids[i]) {
            world_child(i, size, is_threaded, shared, fn);
        }
    }
    for (int running = size; running > 0;) {
        bool is_late = world_now() > deadline;
        if (is_late || wrong > 0) {
            fprintf(stderr, "%s: %d other ranks are killed\n",
                    is_late ? "timeout" : "a rank failed", running);
            world_kill(pids, size);
            wrong += running;
            break;
        }
        usleep(2000);
        for (int i = 0; i < size; i++) {
            int status = 0;
            if (0 != pids[i] && 0 != waitpid(pids[i], &status, WNOHANG)) {
                bool is_killed = i < 64 && (killed >> i & 1);
                wrong += is_killed ? !(WIFSIGNALED(status) && SIGKILL == WTERMSIG(status))
                                   : 0 != status;
                pids[i] = 0;
                running--;
            }
        }
    }
    munmap(shared, sizeof(*shared));
    return wrong;
}

static inline int world_run(int size, bool is_threaded, world_fn_t fn)
{
    return world_run_some_die(size, is_threaded, fn, 0);
}

/*
 * Use these providers (as the parameter names them); ends the program as a skipped test, if they
 * cannot be used here.
 */
static inline void world_use_providers(const char *providers)
{
    fab_config_t config = {.name = 1, .num_local = 2};
    const char *why = "";
    fab_t *fab;

    fab_params.providers = (char *) (uintptr_t) providers;
    if (0 == fork()) { /* devices are opened in children only: they do not all survive fork() */
        if (OPAL_SUCCESS != fab_open(&config, &fab, &why)) {
            printf("SKIPPED: %s\n", why);
            exit(77);
        }
        fab_close(fab, FAB_USER_PML);
        exit(0);
    }
    int status = 0;
    wait(&status);
    if (0 != status) {
        exit(WIFEXITED(status) ? WEXITSTATUS(status) : 1);
    }
}

/*
 * Payloads: byte i of message or transfer seq is seq * 131 + i * 7 + i / 512 + i / 131072 * 11, so
 * no power of two below 32 MiB is a period. They are written and compared in blocks, since a
 * sanitizer looks at a block as fast as at a byte.
 */
enum { WORLD_BLOCK = 512 };

static unsigned char world_sevens[256 + WORLD_BLOCK]; /* at k: 7 * k */

static inline __attribute__((constructor)) void world_make_sevens(void)
{
    for (unsigned k = 0; k < sizeof(world_sevens); k++) {
        world_sevens[k] = (unsigned char) (7 * k);
    }
}

/* Byte i and what follows it in its block: *len bytes, and no more than before. */
static inline const unsigned char *world_bytes(uint64_t seq, size_t i, size_t *len)
{
    unsigned char first = (unsigned char) (seq * 131 + i / WORLD_BLOCK + (i >> 17) * 11);
    size_t at = i % WORLD_BLOCK;

    *len = *len < WORLD_BLOCK - at ? *len : WORLD_BLOCK - at;
    return world_sevens + (unsigned char) (first * 183) + at; /* 7 * 183 is 1, modulo 256 */
}

static inline void world_fill(void *buf, uint64_t seq, size_t len)
{
    for (size_t i = 0, n; i < len; i += n) {
        n = len - i;
        const unsigned char *bytes = world_bytes(seq, i, &n);
        memcpy((unsigned char *) buf + i, bytes, n);
    }
}

/* Are these the bytes of that payload from the given one on? */
static inline bool world_is_part(const void *buf, uint64_t seq, size_t from, size_t len)
{
    for (size_t i = 0, n; i < len; i += n) {
        n = len - i;
        const unsigned char *bytes = world_bytes(seq, from + i, &n);
        if (0 != memcmp((const unsigned char *) buf + i, bytes, n)) {
            return false;
        }
    }
    return true;
}

static inline bool world_is_filled(const void *buf, uint64_t seq, size_t len)
{
    return world_is_part(buf, seq, 0, len);
}

#endif /* TEST_FAB_WORLD_H */
