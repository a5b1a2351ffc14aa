/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The cooperative copy.
 *
 * The claiming alone (shm_coop_inl.h): all interleavings of two gets in a row, fetcher and helper
 * as coroutines that may be switched before each access to shared memory; and two threads. Between
 * processes: gets with a helper that helps, never does, cannot, dies at each step, and words that
 * are overwritten.
 *
 * TEST: sources=@fabric ldflags=-Wl,--wrap=process_vm_readv,--wrap=process_vm_writev variants=asan,tsan timeout=300
 */
static void step(void);
#define FAB_SHM_STEP(what) step()

#include "test_fab_world.h"

#include <errno.h>
#include <sys/uio.h>
#include <ucontext.h>

#include "fabric/fab_core.h"
#include "fabric/fab_host.h"
#include "shm/shm.h"

/* ---- all interleavings -------------------------------------------------- */

enum { GETS = 2, CHUNKS = 3, MAX_STEPS = 400, SWITCHES = 2, RANDOM_RUNS = 1000 };

typedef struct play {
    fab_shm_coop_t coop;
    int copied[GETS + 1][CHUNKS]; /* how often */
    bool is_over[GETS + 1];       /* the fetcher has returned the buffer */
    bool is_helper_failing;
    bool is_fetcher_done;
    const char *wrong;
} play_t;

static play_t *play;

/* This side can do nothing before the other did something. */
static void yield_side(void);

static void copy_chunk(uint32_t seq, uint32_t i)
{
    if (seq < 1 || seq > GETS || i >= CHUNKS) {
        play->wrong = "a chunk that there is not";
    } else if (play->is_over[seq]) {
        play->wrong = "a copy after the end of its get";
    } else {
        play->copied[seq][i]++;
    }
}

static void play_desc(fab_shm_desc_t *desc, uint32_t seq)
{
    *desc = (fab_shm_desc_t){.to = seq,
                             .from = seq,
                             .len = CHUNKS * 10,
                             .key = seq,
                             .chunk = 10,
                             .n = CHUNKS,
                             .seq = seq};
}

/* One get by the fetcher; it claims `share` chunks at a time. */
static void fetch_one(uint32_t seq, uint32_t share)
{
    fab_shm_desc_t desc;
    uint32_t front = 0, back = 0;
    bool is_failed;
    int n;

    play_desc(&desc, seq);
    fab_shm_coop_open(&play->coop, &desc);
    while ((n = fab_shm_coop_take_front(&play->coop, &desc, front, share, &back)) > 0) {
        for (int i = 0; i < n; i++) {
            step();
            copy_chunk(seq, front++);
        }
    }
    if (n < 0) {
        play->wrong = "the claim word is spoilt";
        return;
    }
    while ((n = fab_shm_coop_done(&play->coop, &desc, back, &is_failed)) != (int) back) {
        if (n < 0) {
            play->wrong = "the helper did more than it claimed";
            return;
        }
        yield_side();
    }
    if (is_failed) {
        copy_chunk(seq, CHUNKS - back);
    }
    play->is_over[seq] = true;
    fab_shm_coop_idle(&play->coop, seq);
}

/* False: there was nothing to do. */
static bool help_once(uint32_t *unable)
{
    fab_shm_desc_t desc, expected;
    uint32_t i;

    if (!fab_shm_coop_look(&play->coop, &desc) || desc.seq == *unable ||
        !fab_shm_coop_take_back(&play->coop, &desc, &i)) {
        return false;
    }
    play_desc(&expected, desc.seq);
    if (0 != memcmp(&desc, &expected, sizeof(desc))) {
        play->wrong = "claimed by the words of another get";
    }
    step();
    if (play->is_helper_failing) {
        *unable = desc.seq;
    } else {
        copy_chunk(desc.seq, i);
    }
    fab_shm_coop_report(&play->coop, &desc, i, play->is_helper_failing);
    return true;
}

static const char *play_verdict(void)
{
    for (int seq = 1; seq <= GETS && NULL == play->wrong; seq++) {
        for (int i = 0; i < CHUNKS; i++) {
            if (1 != play->copied[seq][i]) {
                return "a chunk copied twice, or not";
            }
        }
    }
    return play->wrong;
}

static void play_init(bool is_helper_failing)
{
    memset(play, 0, sizeof(*play));
    play->is_helper_failing = is_helper_failing;
    fab_shm_coop_idle(&play->coop, 0);
}

/* The two sides, and who goes next. */
static ucontext_t main_context, side_contexts[2];
static int running_side = -1;
static uint32_t play_share;
static bool is_side_over[2];
static bool is_yielding;
static unsigned char choices[MAX_STEPS];
static int num_choices, fixed_choices;

static void step(void)
{
    if (running_side >= 0) {
        swapcontext(&side_contexts[running_side], &main_context);
    }
}

static void yield_side(void)
{
    is_yielding = true;
    step();
}

static void fetcher_main(void)
{
    for (uint32_t seq = 1; seq <= GETS; seq++) {
        fetch_one(seq, play_share);
    }
    is_side_over[0] = true;
    step();
}

static void helper_main(void)
{
    uint32_t unable = 0;

    while (!is_side_over[0]) {
        if (!help_once(&unable)) {
            yield_side();
        }
    }
    is_side_over[1] = true;
    step();
}

static char stacks[2][1 << 17];

/* Not inline: for the compiler getcontext() returns twice. */
static __attribute__((noinline)) void fresh_context(ucontext_t *context)
{
    (void) getcontext(context);
}

/*
 * Run along the choices made so far, then with the first side that can; at most `switches` times
 * away from the one that runs.
 */
static void run_once(int switches)
{
    int side = 0, left = switches;

    is_side_over[0] = is_side_over[1] = is_yielding = false;
    for (int i = 0; i < 2; i++) {
        fresh_context(&side_contexts[i]);
        side_contexts[i].uc_stack.ss_sp = stacks[i];
        side_contexts[i].uc_stack.ss_size = sizeof(stacks[i]);
        makecontext(&side_contexts[i], 0 == i ? fetcher_main : helper_main, 0);
    }
    num_choices = 0;
    while (!is_side_over[0]) {
        bool is_switch = false;
        if (is_yielding) {
            side = 1 - side;
        } else if (left > 0 && num_choices < MAX_STEPS) {
            is_switch = num_choices < fixed_choices && choices[num_choices];
            choices[num_choices++] = is_switch;
        }
        is_yielding = false;
        left -= is_switch;
        side = is_switch ? 1 - side : side;
        running_side = side;
        swapcontext(&main_context, &side_contexts[side]);
        running_side = -1;
        if (NULL != play->wrong) {
            return;
        }
    }
}

/* The next sequence of choices. False: all were made. */
static bool next_choices(void)
{
    while (num_choices > 0 && choices[num_choices - 1]) {
        num_choices--;
    }
    if (0 == num_choices) {
        return false;
    }
    choices[num_choices - 1] = 1;
    fixed_choices = num_choices;
    return true;
}

static void all_interleavings(bool is_helper_failing, uint32_t share, int switches)
{
    long runs = 0;

    play_share = share;
    fixed_choices = 0;
    do {
        play_init(is_helper_failing);
        run_once(switches);
        runs++;
        if (NULL != play_verdict()) {
            fail_msg("run %ld: %s", runs, play_verdict());
        }
    } while (next_choices());
    print_message("share %u%s: %ld interleavings of up to %d switches\n", share,
                  is_helper_failing ? ", helper fails" : "", runs, switches);
}

/* Switches at random places, as many as come. */
static void random_interleavings(bool is_helper_failing, uint32_t share)
{
    srandom(1);
    play_share = share;
    for (int run = 0; run < RANDOM_RUNS; run++) {
        for (int i = 0; i < MAX_STEPS; i++) {
            choices[i] = 0 == random() % (2 + run % 5);
        }
        fixed_choices = MAX_STEPS;
        play_init(is_helper_failing);
        run_once(MAX_STEPS);
        if (NULL != play_verdict()) {
            fail_msg("random run %d: %s", run, play_verdict());
        }
    }
}

static void test_interleavings(void **state)
{
    (void) state;
    play = aligned_alloc(64, (sizeof(*play) + 63) & ~(size_t) 63);
    for (uint32_t share = 1; share <= 2; share++) {
        all_interleavings(false, share, SWITCHES);
        all_interleavings(true, share, SWITCHES);
        random_interleavings(false, share);
        random_interleavings(true, share);
    }
    free(play);
}

/* ---- two threads -------------------------------------------------------- */

/* Here the claim words of real gets: help_once() and fetch_one() know the play's alone. */
enum { ROUNDS = 20000 };

static _Atomic bool is_racing;
static _Atomic int race_copied[CHUNKS];
static fab_shm_coop_t race_coop;

static void *race_helper(void *arg)
{
    fab_shm_desc_t desc;
    uint32_t i;

    while (atomic_load(&is_racing)) {
        if (fab_shm_coop_look(&race_coop, &desc) && fab_shm_coop_take_back(&race_coop, &desc, &i)) {
            atomic_fetch_add(&race_copied[i], 1);
            fab_shm_coop_report(&race_coop, &desc, i, false);
        } else {
            sched_yield();
        }
    }
    return arg;
}

static void test_threads(void **state)
{
    pthread_t thread;

    (void) state;
    fab_shm_coop_idle(&race_coop, 0);
    atomic_store(&is_racing, true);
    assert_int_equal(pthread_create(&thread, NULL, race_helper, NULL), 0);
    for (uint32_t seq = 1; seq <= ROUNDS; seq++) {
        fab_shm_desc_t desc;
        uint32_t front = 0, back = 0;
        bool is_failed;
        int n;
        play_desc(&desc, seq);
        fab_shm_coop_open(&race_coop, &desc);
        while ((n = fab_shm_coop_take_front(&race_coop, &desc, front, 1, &back)) > 0) {
            atomic_fetch_add(&race_copied[front++], 1);
        }
        assert_int_equal(n, 0);
        while (fab_shm_coop_done(&race_coop, &desc, back, &is_failed) < (int) back) {
            sched_yield();
        }
        fab_shm_coop_idle(&race_coop, seq);
        for (int i = 0; i < CHUNKS; i++) {
            assert_int_equal(atomic_exchange(&race_copied[i], 0), 1);
        }
    }
    atomic_store(&is_racing, false);
    pthread_join(thread, NULL);
}

/* ---- processes ---------------------------------------------------------- */

enum { AM_ADDR = 11, LEN = (3 << 20) + 12345 };

/* What the copies of a process do besides copying. */
typedef enum deed {
    COPY,
    WAIT_FOR_HELP, /* reads wait until the helper has written */
    FAIL,          /* EFAULT */
    FAIL_LATER,    /* EFAULT after the first */
    DIE_BEFORE,
    DIE_AFTER,
    HANG, /* until told to go on */
} deed_t;

/* world_shared_t.scratch */
enum { WRITTEN, GO_ON, CLAIMED, OVER };

static world_t *this_world;
static deed_t on_read, on_write;
static int num_reads;

ssize_t __real_process_vm_readv(pid_t pid, const struct iovec *local, unsigned long num_local,
                                const struct iovec *remote, unsigned long num_remote,
                                unsigned long flags);
ssize_t __wrap_process_vm_readv(pid_t pid, const struct iovec *local, unsigned long num_local,
                                const struct iovec *remote, unsigned long num_remote,
                                unsigned long flags);
ssize_t __real_process_vm_writev(pid_t pid, const struct iovec *local, unsigned long num_local,
                                 const struct iovec *remote, unsigned long num_remote,
                                 unsigned long flags);
ssize_t __wrap_process_vm_writev(pid_t pid, const struct iovec *local, unsigned long num_local,
                                 const struct iovec *remote, unsigned long num_remote,
                                 unsigned long flags);

static void wait_for(int what)
{
    while (0 == atomic_load(&this_world->shared->scratch[what])) {
        usleep(100);
    }
}

ssize_t __wrap_process_vm_readv(pid_t pid, const struct iovec *local, unsigned long num_local,
                                const struct iovec *remote, unsigned long num_remote,
                                unsigned long flags)
{
    bool is_data = local[0].iov_len > FAB_SHM_NONCE;

    if (is_data && WAIT_FOR_HELP == on_read) {
        wait_for(WRITTEN);
    }
    if (is_data && (FAIL == on_read || (FAIL_LATER == on_read && num_reads++ > 0))) {
        atomic_store(&this_world->shared->scratch[GO_ON], 1);
        errno = EFAULT;
        return -1;
    }
    return __real_process_vm_readv(pid, local, num_local, remote, num_remote, flags);
}

ssize_t __wrap_process_vm_writev(pid_t pid, const struct iovec *local, unsigned long num_local,
                                 const struct iovec *remote, unsigned long num_remote,
                                 unsigned long flags)
{
    ssize_t moved;

    if (HANG == on_write) {
        atomic_store(&this_world->shared->scratch[CLAIMED], 1);
        wait_for(GO_ON);
    }
    if (DIE_BEFORE == on_write) {
        raise(SIGKILL);
    }
    if (FAIL == on_write) {
        atomic_store(&this_world->shared->scratch[WRITTEN], 1);
        errno = EFAULT;
        return -1;
    }
    moved = __real_process_vm_writev(pid, local, num_local, remote, num_remote, flags);
    if (DIE_AFTER == on_write) {
        raise(SIGKILL);
    }
    atomic_store(&this_world->shared->scratch[WRITTEN], 1);
    return moved;
}

typedef struct remote {
    uint64_t at;
    fab_rkey_t rkey;
    bool is_there;
} remote_t;

static remote_t remote;
static int completed;
static int complete_status;
static unsigned char memory[LEN];
static unsigned char local[LEN];

static void address_arrived(void *ctx, fab_peer_t *peer, fab_hdr_t hdr, const void *data,
                            size_t len)
{
    (void) ctx, (void) peer, (void) hdr;
    if (sizeof(remote) == len) {
        memcpy(&remote, data, len);
    }
    remote.is_there = true;
}

static void rma_complete(fab_rma_t *op, int status)
{
    (void) op;
    completed++;
    complete_status = status;
}

static fab_shm_ep_t *ep_of(world_t *world, int rank)
{
    return world_peer(world, rank)->ep;
}

/* Set by a test before its processes are made: memory is exposed to any peer. */
static bool is_for_any;
static fab_region_t region;

static void expose(world_t *world, void *buf, fab_rkey_t *rkey)
{
    if (is_for_any) {
        fab_expose_any(world->fab, NULL, buf, LEN, FAB_ACCESS_WRITE, &region);
        CHECK(0 == fab_shm_key_of(&region.rkey)); /* there is no get to help with */
        fab_unexpose_any(world->fab, &region);
        fab_expose_any(world->fab, NULL, buf, LEN, FAB_ACCESS_READ, &region);
        *rkey = region.rkey;
    } else {
        CHECK(OPAL_SUCCESS ==
              fab_expose(world_peer(world, 1 - world->rank), buf, LEN, FAB_ACCESS_READ, rkey));
    }
}

static void unexpose(world_t *world, fab_rkey_t *rkey)
{
    if (is_for_any) {
        fab_unexpose_any(world->fab, &region);
    } else {
        fab_unexpose(world_peer(world, 1 - world->rank), rkey);
    }
}

/* Each exposes its memory; both are connected. */
static void introduce(world_t *world, fab_rkey_t *rkey)
{
    fab_peer_t *peer = world_peer(world, 1 - world->rank);
    remote_t mine = {.at = (uint64_t) (uintptr_t) memory, .is_there = true};

    this_world = world;
    fab_set_handler(world->fab, AM_ADDR, address_arrived, NULL);
    world_fill(memory, (uint64_t) world->rank, LEN);
    world_barrier(world);
    expose(world, memory, &mine.rkey);
    CHECK(OPAL_SUCCESS == fab_post(peer, fab_hdr(AM_ADDR, 0, 0), &mine, sizeof(mine)));
    *rkey = mine.rkey;
    WORLD_UNTIL(remote.is_there);
    /* the other has seen this process's ring as well */
    WORLD_UNTIL(NULL != ep_of(world, 1 - world->rank)->in);
    world_barrier(world);
    world_barrier_idle(world); /* none helps any more, until it is told what to do */
}

static fab_rma_t get_op(world_t *world)
{
    return (fab_rma_t){.peer = world_peer(world, 1 - world->rank),
                       .local = local,
                       .remote = remote.at,
                       .rkey = remote.rkey,
                       .len = LEN,
                       .complete = rma_complete};
}

/* Rank 0 reads it all. */
static int get_all(world_t *world)
{
    fab_rma_t op = get_op(world);
    int before = completed;

    memset(local, 0, LEN);
    CHECK(OPAL_SUCCESS == fab_get(&op));
    WORLD_UNTIL(before + 1 == completed);
    CHECK(OPAL_SUCCESS != complete_status || LEN == op.done);
    return complete_status;
}

static deed_t reader_does, writer_does; /* of a test, before its processes are made */

static void helped_body(world_t *world)
{
    fab_rkey_t rkey;

    introduce(world, &rkey);
    if (0 == world->rank) {
        on_read = reader_does;
        CHECK(OPAL_SUCCESS == get_all(world));
        CHECK(world_is_filled(local, 1, LEN));
        CHECK(1 == fab_counters.shm_coop_offered && 1 == fab_counters.shm_coop_helped);
        atomic_store(&world->shared->scratch[10], fab_counters.shm_cma_bytes);
    } else {
        on_write = writer_does;
    }
    world_barrier(world);
    if (1 == world->rank) { /* each byte once */
        CHECK((FAIL == writer_does) == (0 == fab_counters.shm_coop_given));
        CHECK(fab_counters.shm_coop_given + atomic_load(&world->shared->scratch[10]) == LEN);
        CHECK((FAIL == writer_does) == (1 == fab_counters.shm_cma_faults));
    }
    world_barrier(world);
    CHECK(0 == world->failures);
}

static void test_helped(void **state)
{
    (void) state;
    reader_does = WAIT_FOR_HELP;
    writer_does = COPY;
    for (int i = 0; i < 2; i++) {
        is_for_any = 1 == i;
        assert_int_equal(world_run(2, false, helped_body), 0);
    }
    is_for_any = false;
}

/* It claims a chunk that it cannot copy: the fetcher does. */
static void test_helper_fails(void **state)
{
    (void) state;
    reader_does = WAIT_FOR_HELP;
    writer_does = FAIL;
    assert_int_equal(world_run(2, false, helped_body), 0);
}

/*
 * While rank 0 has memory exposed to rank 1, which may be fetching it, or to any, it reads alone,
 * and at once; after that a get at once is left to one that rank 1 may help with, unless nobody
 * could complete it.
 */
static void both_busy_body(world_t *world)
{
    fab_rkey_t rkey;

    introduce(world, &rkey);
    if (0 == world->rank) {
        fab_rma_t op = get_op(world), silent = get_op(world);
        ep_of(world, 1)->dom->is_coop = true; /* also where there is one processor */
        ep_of(world, 1)->dom->is_coop_forced = false;
        op.len = silent.len = FAB_RMA_NOW_LOCKED;
        silent.complete = NULL;
        CHECK(OPAL_SUCCESS == get_all(world) && world_is_filled(local, 1, LEN));
        CHECK(fab_get_now(&op) && 0 == fab_counters.shm_coop_offered);
        unexpose(world, &rkey);
        CHECK(!fab_get_now(&op) && 1 == completed);
        CHECK(fab_get_now(&silent) && 0 == fab_counters.shm_coop_offered);
        fab_params.shm_copy_step = 65536; /* too much for one call: none of it, or what can be */
        CHECK(!fab_get_now(&op) && 0 == op.done);
        CHECK(!fab_get_now(&silent) && 4 * 65536 == silent.done);
        fab_params.shm_copy_step = 1 << 20;
        CHECK(OPAL_SUCCESS == get_all(world) && world_is_filled(local, 1, LEN));
        CHECK(1 == fab_counters.shm_coop_offered);
    }
    world_barrier(world);
    CHECK(0 == world->failures);
}

static void test_both_busy(void **state)
{
    (void) state;
    for (int i = 0; i < 2; i++) {
        is_for_any = 1 == i;
        assert_int_equal(world_run(2, false, both_busy_body), 0);
    }
    is_for_any = false;
}

/* Not inside MPI; or what was offered is exposed no more. */
static void alone_body(world_t *world)
{
    fab_rkey_t rkey;

    introduce(world, &rkey);
    if (0 == world->rank) {
        WORLD_UNTIL(1 == atomic_load(&world->shared->scratch[GO_ON]));
        CHECK(OPAL_SUCCESS == get_all(world) && world_is_filled(local, 1, LEN));
        CHECK(1 == fab_counters.shm_coop_offered && 0 == fab_counters.shm_coop_helped);
        atomic_store(&world->shared->scratch[GO_ON], 2);
    } else if (COPY == writer_does) {
        atomic_store(&world->shared->scratch[GO_ON], 1);
        while (2 != atomic_load(&world->shared->scratch[GO_ON])) {
            usleep(100);
        }
    } else {
        unexpose(world, &rkey);
        expose(world, local, &rkey);
        atomic_store(&world->shared->scratch[GO_ON], 1);
    }
    world_barrier(world);
    CHECK(0 == world->failures && 0 == fab_counters.shm_coop_given);
}

static void test_never_helped(void **state)
{
    (void) state;
    writer_does = COPY;
    assert_int_equal(world_run(2, false, alone_body), 0);
}

static void test_unexposed(void **state)
{
    (void) state;
    writer_does = FAIL;
    for (int i = 0; i < 2; i++) {
        is_for_any = 1 == i;
        assert_int_equal(world_run(2, false, alone_body), 0);
    }
    is_for_any = false;
}

/* The fetcher cannot read, before or after it has: it ends only when the helper is done. */
static void reader_fails_body(world_t *world)
{
    fab_rkey_t rkey;

    introduce(world, &rkey);
    if (0 == world->rank) {
        on_read = reader_does;
        CHECK(OPAL_ERR_NOT_SUPPORTED == get_all(world));
        memset(local, 0x5a, LEN); /* the user's again */
        atomic_store(&world->shared->scratch[OVER], 1);
    } else {
        on_write = HANG; /* with one chunk, until the other cannot read */
        WORLD_UNTIL(1 == atomic_load(&world->shared->scratch[OVER]));
    }
    world_barrier(world);
    for (size_t i = 0; 0 == world->rank && i < LEN; i++) {
        CHECK(0x5a == local[i]);
    }
    CHECK(0 == world->failures);
}

static void test_reader_fails(void **state)
{
    (void) state;
    reader_does = FAIL;
    assert_int_equal(world_run(2, false, reader_fails_body), 0);
    reader_does = FAIL_LATER;
    assert_int_equal(world_run(2, false, reader_fails_body), 0);
}

/* The helper dies with a chunk claimed; copied or not. */
static void helper_dies_body(world_t *world)
{
    fab_rkey_t rkey;

    introduce(world, &rkey);
    if (1 == world->rank) {
        on_write = writer_does;
        while (true) {
            world_progress(world);
        }
    }
    /* its half, and then it waits: the other is dead before it is asked for what it claimed */
    fab_rma_t op = get_op(world);
    CHECK(OPAL_SUCCESS == fab_get(&op));
    fab_shm_fetch_t *fetch = fab_shm_fetch_of(ep_of(world, 1), &op);
    CHECK(NULL != fetch);
    while (!fab_proc_is_gone(ep_of(world, 1)->addr.pid, ep_of(world, 1)->addr.start_time)) {
        usleep(1000);
    }
    WORLD_UNTIL(1 == world->failures && 1 == completed);
    CHECK(OPAL_ERR_UNREACH == complete_status && OPAL_ERR_PROC_ABORTED == world->failed_rc);
}

static void test_helper_dies(void **state)
{
    (void) state;
    writer_does = DIE_BEFORE;
    assert_int_equal(world_run_some_die(2, false, helper_dies_body, 1 << 1), 0);
    writer_does = DIE_AFTER;
    assert_int_equal(world_run_some_die(2, false, helper_dies_body, 1 << 1), 0);
}

/* The fetcher gives the peer up while that one copies: the get ends after the copy. */
static void given_up_body(world_t *world)
{
    fab_rkey_t rkey;

    introduce(world, &rkey);
    if (1 == world->rank) {
        on_write = HANG;
        WORLD_UNTIL(2 == atomic_load(&world->shared->scratch[GO_ON]));
    } else {
        fab_rma_t op = get_op(world);
        CHECK(OPAL_SUCCESS == fab_get(&op));
        (void) fab_shm_fetch_of(ep_of(world, 1), &op);
        wait_for(CLAIMED);
        fab_peer_fail(world_peer(world, 1), OPAL_ERR_UNREACH, "The test has given it up.");
        for (int i = 0; i < 1000; i++) {
            world_progress(world);
        }
        CHECK(1 == world->failures && 0 == completed && NULL != world_peer(world, 1)->ep);
        atomic_store(&world->shared->scratch[GO_ON], 1);
        WORLD_UNTIL(1 == completed);
        CHECK(OPAL_ERR_UNREACH == complete_status);
        WORLD_UNTIL(NULL == world_peer(world, 1)->ep);
        memset(local, 0x5a, LEN);
        atomic_store(&world->shared->scratch[GO_ON], 2);
        for (int i = 0; i < 1000; i++) {
            world_progress(world);
        }
        for (size_t i = 0; i < LEN; i++) {
            CHECK(0x5a == local[i]);
        }
    }
}

static void test_given_up(void **state)
{
    (void) state;
    assert_int_equal(world_run(2, false, given_up_body), 0);
}

/* The fetcher offers what is not its to offer: nothing is written. */
static void bad_offer_body(world_t *world)
{
    fab_rkey_t rkey;

    introduce(world, &rkey);
    if (0 == world->rank) {
        fab_shm_ep_t *ep = ep_of(world, 1);
        fab_shm_desc_t good = {.to = (uint64_t) (uintptr_t) local,
                               .from = remote.at,
                               .len = LEN,
                               .key = fab_shm_key_of(&remote.rkey),
                               .chunk = 65536,
                               .n = 1,
                               .seq = 1};
        for (int i = 0; i < 9; i++) {
            fab_shm_desc_t bad = good;
            bad.seq = (uint32_t) i + 1;
            bad.from += 0 == i ? 1 : 1 == i ? UINT64_MAX : 0;
            bad.len = 2 == i ? LEN + 1 : 3 == i ? UINT64_MAX : 4 == i ? 0 : bad.len;
            bad.key ^= 5 == i ? UINT64_C(1) << 32 : 6 == i ? 0x10000 : 0;
            bad.chunk = 7 == i ? 0 : 8 == i ? 1 : bad.chunk;
            fab_shm_coop_open(&ep->entry->coops[0], &bad);
            atomic_fetch_or(&ep->seg->help, UINT64_C(1) << ep->tx.doorbell_bit);
            atomic_store(&world->shared->scratch[20], (uint64_t) i + 1);
            WORLD_UNTIL((uint64_t) i + 1 == atomic_load(&world->shared->scratch[21]));
            fab_shm_coop_idle(&ep->entry->coops[0], bad.seq);
        }
    } else {
        for (uint64_t i = 1; i <= 9; i++) {
            WORLD_UNTIL(i == atomic_load(&world->shared->scratch[20]));
            for (int k = 0; k < 10; k++) {
                world_progress(world);
            }
            atomic_store(&world->shared->scratch[21], i);
        }
        CHECK(0 == fab_counters.shm_coop_given);
    }
    world_barrier(world);
    CHECK(0 == world->failures);
}

static void test_bad_offer(void **state)
{
    (void) state;
    assert_int_equal(world_run(2, false, bad_offer_body), 0);
}

static bool is_done_spoilt;

/*
 * The helper's side writes anything into the claim word, or says that it did more than it claimed.
 */
static void spoilt_body(world_t *world)
{
    fab_rkey_t rkey;

    introduce(world, &rkey);
    if (0 == world->rank) {
        fab_rma_t op = get_op(world);
        fab_shm_ep_t *ep = ep_of(world, 1);
        CHECK(OPAL_SUCCESS == fab_get(&op));
        fab_shm_fetch_t *fetch = fab_shm_fetch_of(ep, &op);
        CHECK(NULL != fetch);
        fab_shm_coop_t *coop = &ep->entry->coops[fetch - ep->fetches];
        if (is_done_spoilt) {
            atomic_store(&coop->claim, fab_shm_claim_word(fetch->desc.seq, 0, 1));
            atomic_store(&coop->done, fab_shm_claim_word(fetch->desc.seq, 0, 2));
        } else {
            atomic_store(&coop->claim, fab_shm_claim_word(fetch->desc.seq, 3, 0));
        }
        WORLD_UNTIL(1 == completed && 1 == world->failures);
        CHECK(OPAL_ERR_UNREACH == complete_status && OPAL_ERR_COMM_FAILURE == world->failed_rc);
        atomic_store(&world->shared->scratch[GO_ON], 1);
    } else {
        wait_for(GO_ON);
    }
}

static void test_spoilt(void **state)
{
    (void) state;
    is_done_spoilt = false;
    assert_int_equal(world_run(2, false, spoilt_body), 0);
    is_done_spoilt = true;
    assert_int_equal(world_run(2, false, spoilt_body), 0);
}

/* ---- a window of gets --------------------------------------------------- */

enum { WINDOW = 8 };

static fab_rma_t window[WINDOW];
static int window_ended;

/* Of the gets that follow in the window, only the next is begun. */
static void window_complete(fab_rma_t *op, int status)
{
    world_t *world = this_world;

    CHECK(OPAL_SUCCESS != status || LEN == op->done);
    window_ended++;
    for (int i = window_ended + FAB_SHM_COOPS; i < WINDOW; i++) {
        CHECK(0 == window[i].done);
    }
    complete_status = status;
}

static void window_begin(world_t *world)
{
    for (int i = 0; i < WINDOW; i++) {
        window[i] = get_op(world);
        window[i].complete = window_complete;
        CHECK(OPAL_SUCCESS == fab_get(&window[i]));
    }
}

/* All are offered, and a short one waits for none of them, although nobody helps. */
static void window_body(world_t *world)
{
    fab_rkey_t rkey;

    introduce(world, &rkey);
    if (1 == world->rank) {
        wait_for(GO_ON);
    } else {
        fab_rma_t one = get_op(world);
        one.len = 8;
        window_begin(world);
        CHECK(OPAL_SUCCESS == fab_get(&one));
        WORLD_UNTIL(1 == completed);
        CHECK(0 == window_ended);
        atomic_store(&world->shared->scratch[GO_ON], 1);
        WORLD_UNTIL(WINDOW == window_ended);
        CHECK(world_is_filled(local, 1, LEN));
        CHECK(WINDOW == fab_counters.shm_coop_offered);
    }
    world_barrier(world);
    CHECK(0 == world->failures);
}

static void test_window(void **state)
{
    (void) state;
    assert_int_equal(world_run(2, false, window_body), 0);
}

/* The peer dies: those end that are under way, and those that were to follow. */
static void window_fails_body(world_t *world)
{
    fab_rkey_t rkey;

    introduce(world, &rkey);
    if (1 == world->rank) {
        wait_for(GO_ON);
        raise(SIGKILL);
    }
    window_begin(world);
    atomic_store(&world->shared->scratch[GO_ON], 1);
    while (!fab_proc_is_gone(ep_of(world, 1)->addr.pid, ep_of(world, 1)->addr.start_time)) {
        usleep(1000);
    }
    WORLD_UNTIL(1 == world->failures && WINDOW == window_ended);
    CHECK(OPAL_ERR_UNREACH == complete_status);
}

static void test_window_fails(void **state)
{
    (void) state;
    assert_int_equal(world_run_some_die(2, false, window_fails_body, 1 << 1), 0);
}

/* ---- many at once, both ways -------------------------------------------- */

enum { MANY = 200 };

/* Random parts of the other's memory, up to eight at once, while it does the same. */
static void random_body(world_t *world)
{
    static fab_rma_t ops[WINDOW];
    static size_t froms[WINDOW];
    static unsigned char *bufs[WINDOW];
    uint64_t rng = (uint64_t) world->rank + 1;
    fab_rkey_t rkey;

    introduce(world, &rkey);
    world_fill(local, (uint64_t) (1 - world->rank), LEN); /* what the other has */
    for (int i = 0; i < WINDOW; i++) {
        bufs[i] = malloc(LEN);
    }
    for (int round = 0; round < MANY / WINDOW; round++) {
        int before = completed;
        for (int i = 0; i < WINDOW; i++) {
            rng = rng * UINT64_C(6364136223846793005) + 1442695040888963407u;
            froms[i] = (rng >> 20) % (LEN - 1);
            ops[i] = get_op(world);
            ops[i].local = bufs[i];
            ops[i].remote += froms[i];
            ops[i].len = 1 + (rng >> 30) % (LEN - froms[i]);
            CHECK(OPAL_SUCCESS == fab_get(&ops[i]));
        }
        WORLD_UNTIL(before + WINDOW == completed);
        CHECK(OPAL_SUCCESS == complete_status);
        for (int i = 0; i < WINDOW; i++) {
            CHECK(0 == memcmp(bufs[i], local + froms[i], ops[i].len) && ops[i].done == ops[i].len);
        }
    }
    world_barrier(world);
    CHECK(0 == world->failures);
}

static void test_random(void **state)
{
    (void) state;
    assert_int_equal(world_run(2, false, random_body), 0);
    assert_int_equal(world_run(2, true, random_body), 0);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_interleavings), cmocka_unit_test(test_threads),
        cmocka_unit_test(test_helped),        cmocka_unit_test(test_helper_fails),
        cmocka_unit_test(test_both_busy),     cmocka_unit_test(test_never_helped),
        cmocka_unit_test(test_unexposed),     cmocka_unit_test(test_reader_fails),
        cmocka_unit_test(test_helper_dies),   cmocka_unit_test(test_given_up),
        cmocka_unit_test(test_bad_offer),     cmocka_unit_test(test_spoilt),
        cmocka_unit_test(test_window),        cmocka_unit_test(test_window_fails),
        cmocka_unit_test(test_random),
    };

    fab_params.shm_cooperative = (char *) "always";
    fab_params.providers = (char *) "shm";
    cmocka_set_test_filter(argc > 1 ? argv[1] : NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
