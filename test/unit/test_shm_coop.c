/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Cooperative gets.
 *
 * The claim word alone (fab_claim.h): two threads. Between processes: gets whose giver is there,
 * is not, leaves in the middle, takes its memory back, or dies; and messages and words that no
 * giver or fetcher writes.
 *
 * TEST: sources=@fabric ldflags=-Wl,--wrap=process_vm_readv variants=asan,tsan timeout=300
 */
#include "test_fab_jobs.h"

#include <errno.h>
#include <sys/uio.h>

#include "fabric/fab_clock.h"
#include "fabric/fab_core.h"
#include "fabric/fab_cpus.h"
#include "fabric/fab_host.h"
#include "shm/shm.h"

/* ---- the claim word ----------------------------------------------------- */

enum { ROUNDS = 20000, PARTS = 5 };

static _Atomic uint64_t race_claim;
static _Atomic uint32_t race_asked, race_parts; /* number of the get; parts of it taken on */
static _Atomic bool is_racing;

static void *race_giver(void *arg)
{
    uint32_t done = 0;

    while (atomic_load(&is_racing)) {
        const uint32_t seq = atomic_load(&race_asked);
        uint32_t parts = 0;
        if (seq == done) {
            sched_yield();
            continue;
        }
        while (parts < PARTS && fab_claim_part(&race_claim, seq, parts)) {
            parts++;
        }
        atomic_store(&race_parts, parts);
        done = seq;
    }
    return arg;
}

/* A giver has taken on as many parts as the fetcher finds, however the two meet. */
static void test_claims(void **state)
{
    uint64_t seen[PARTS + 1] = {0};
    pthread_t thread;

    (void) state;
    atomic_store(&is_racing, true);
    assert_int_equal(pthread_create(&thread, NULL, race_giver, NULL), 0);
    for (uint32_t seq = 1; seq <= ROUNDS; seq++) {
        uint32_t parts;
        atomic_store(&race_parts, UINT32_MAX);
        fab_claim_open(&race_claim, seq);
        atomic_store(&race_asked, seq);
        for (uint32_t i = 0; i < seq % 64; i++) {
            fab_cpu_pause();
        }
        assert_true(fab_claim_close(&race_claim, seq, &parts));
        while (UINT32_MAX == atomic_load(&race_parts)) {
            sched_yield();
        }
        assert_int_equal(atomic_load(&race_parts), parts);
        seen[parts]++;
    }
    atomic_store(&is_racing, false);
    pthread_join(thread, NULL);
    print_message("closed before the first part %" PRIu64 " times, after the last %" PRIu64 "\n",
                  seen[0], seen[PARTS]);
    assert_true(!fab_claim_part(&race_claim, ROUNDS, 0)); /* it is closed */
    fab_claim_open(&race_claim, 7);
    assert_true(!fab_claim_part(&race_claim, 6, 0)); /* another get's */
    assert_true(!fab_claim_part(&race_claim, 7, 1)); /* not the next part */
}

/* ---- processes ---------------------------------------------------------- */

enum { AM_ADDR = 11, LEN = (3 << 20) + 12345 };

/* world_shared_t.scratch */
enum { GO_ON, GIVEN, OVER };

static world_t *this_world;
static bool is_read_failing;

ssize_t __real_process_vm_readv(pid_t pid, const struct iovec *local, unsigned long num_local,
                                const struct iovec *remote, unsigned long num_remote,
                                unsigned long flags);
ssize_t __wrap_process_vm_readv(pid_t pid, const struct iovec *local, unsigned long num_local,
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
    if (is_read_failing && local[0].iov_len > FAB_SHM_NONCE) {
        errno = EFAULT;
        return -1;
    }
    if (is_read_failing) { /* the nonce, and nothing of the data behind it */
        num_local = num_remote = 1;
    }
    return __real_process_vm_readv(pid, local, num_local, remote, num_remote, flags);
}

typedef struct remote {
    uint64_t at;
    fab_rkey_t rkey;
    bool is_there;
} remote_t;

static remote_t remote;
static fab_rkey_t rkey; /* of what this process exposes */
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

/* How long gets from the other process wait for it, ns, whether it polls or not. */
static void set_patience(world_t *world, uint64_t ns)
{
    ep_of(world, 1 - world->rank)->dom->patience = ns;
    ep_of(world, 1 - world->rank)->dom->away = ns;
}

/* Set by a test before its processes are made: memory is exposed to any peer. */
static unsigned is_for_any;
static fab_region_t region;

static void expose(world_t *world, void *buf, fab_rkey_t *key)
{
    if (is_for_any) {
        fab_expose_any(world->fab, NULL, buf, LEN, FAB_ACCESS_READ | FAB_ACCESS_WRITE, &region);
        CHECK(0 == fab_shm_key_of(&region.rkey)); /* a window */
        fab_unexpose_any(world->fab, &region);
        fab_expose_any(world->fab, NULL, buf, LEN, FAB_ACCESS_READ, &region);
        *key = region.rkey;
    } else {
        CHECK(OPAL_SUCCESS ==
              fab_expose(world_peer(world, 1 - world->rank), buf, LEN, FAB_ACCESS_READ, key));
    }
}

static void unexpose(world_t *world)
{
    if (is_for_any) {
        fab_unexpose_any(world->fab, &region);
    } else {
        fab_unexpose(world_peer(world, 1 - world->rank), &rkey);
    }
}

/* Each exposes its memory; both are connected. */
static void introduce(world_t *world)
{
    fab_peer_t *peer = world_peer(world, 1 - world->rank);
    remote_t mine = {.at = (uint64_t) (uintptr_t) memory, .is_there = true};

    this_world = world;
    fab_set_handler(world->fab, AM_ADDR, address_arrived, NULL);
    world_fill(memory, (uint64_t) world->rank, LEN);
    world_barrier(world);
    expose(world, memory, &mine.rkey);
    CHECK(OPAL_SUCCESS == fab_post(peer, fab_hdr(AM_ADDR, 0, 0), &mine, sizeof(mine)));
    rkey = mine.rkey;
    WORLD_UNTIL(remote.is_there);
    /* the other has seen this process's ring as well */
    WORLD_UNTIL(NULL != ep_of(world, 1 - world->rank)->in);
    world_barrier(world);
    world_barrier_idle(world); /* none gives any more, until it is told to */
    set_patience(world, 60 * UINT64_C(1000000000));
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

/* Rank 0 gets it all; if it is impatient, from when the other one lets it go on. */
static int get_all_if(world_t *world, bool is_impatient)
{
    fab_rma_t op = get_op(world);
    int before = completed;

    memset(local, 0, LEN);
    CHECK(OPAL_SUCCESS == fab_get(&op));
    if (is_impatient) {
        WORLD_UNTIL(0 != atomic_load(&world->shared->scratch[GO_ON]));
        set_patience(world, 0);
    }
    WORLD_UNTIL(before + 1 == completed);
    CHECK(OPAL_SUCCESS != complete_status || LEN == op.done);
    return complete_status;
}

static int get_all(world_t *world)
{
    return get_all_if(world, false);
}

/* Rank 1 is in MPI, and gives all of it. */
static void given_body(world_t *world)
{
    introduce(world);
    if (0 == world->rank) {
        const uint64_t before = fab_counters.shm_cma_bytes;
        CHECK(OPAL_SUCCESS == get_all(world) && world_is_filled(local, 1, LEN));
        CHECK(1 == fab_counters.shm_coop_offered && 1 == fab_counters.shm_coop_helped);
        CHECK(before == fab_counters.shm_cma_bytes);
    }
    world_barrier(world);
    CHECK((1 == world->rank ? LEN : 0) == fab_counters.shm_coop_given && 0 == world->failures);
}

/* Both get at the same time, and both give. */
static void both_body(world_t *world)
{
    introduce(world);
    CHECK(OPAL_SUCCESS == get_all(world));
    CHECK(world_is_filled(local, (uint64_t) (1 - world->rank), LEN));
    world_barrier(world);
    CHECK(LEN == fab_counters.shm_coop_given && 0 == world->failures);
}

/* Set by a test before its processes are made: what rank 1 does when it has given a part. */
enum { NEVER_GIVES, LEAVES, UNEXPOSES };
static unsigned giver_does;

/* What the giver does not send is read. */
static void rest_read_body(world_t *world)
{
    introduce(world);
    if (0 == world->rank) {
        CHECK(OPAL_SUCCESS == get_all_if(world, true) && world_is_filled(local, 1, LEN));
        CHECK(1 == fab_counters.shm_coop_offered);
        CHECK((NEVER_GIVES != giver_does) == (1 == fab_counters.shm_coop_helped));
        atomic_store(&world->shared->scratch[GIVEN], LEN - fab_counters.shm_cma_bytes);
        atomic_store(&world->shared->scratch[OVER], 1);
    } else {
        if (NEVER_GIVES != giver_does) {
            WORLD_UNTIL(0 != fab_counters.shm_coop_given);
        }
        if (UNEXPOSES == giver_does) {
            unexpose(world);
            expose(world, local, &rkey);
        }
        atomic_store(&world->shared->scratch[GO_ON], 1);
        WORLD_UNTIL(UNEXPOSES != giver_does || 1 == atomic_load(&world->shared->scratch[OVER]));
        wait_for(OVER);
    }
    world_barrier(world);
    if (1 == world->rank) {
        /* each byte once; the fetcher has read a nonce or two, too */
        CHECK(fab_counters.shm_coop_given - atomic_load(&world->shared->scratch[GIVEN]) <= 64);
        CHECK(fab_counters.shm_coop_given < LEN);
    }
    CHECK(0 == world->failures);
}

/* A giver whose beat stands still is away, so all is read; unless it copies. */
static void away_body(world_t *world)
{
    introduce(world);
    if (0 == world->rank) {
        const uint64_t before = fab_counters.shm_cma_bytes;
        fab_rma_t op = get_op(world);
        uint64_t end;
        ep_of(world, 1)->dom->away = 1000000;
        world_barrier_idle(world); /* it copies */
        CHECK(OPAL_SUCCESS == fab_get(&op));
        end = fab_now_us() + 50000;
        WORLD_UNTIL(fab_now_us() >= end);
        CHECK(0 == completed && before == fab_counters.shm_cma_bytes);
        atomic_store(&world->shared->scratch[GO_ON], 1);
        WORLD_UNTIL(1 == completed);
        CHECK(OPAL_SUCCESS == complete_status && world_is_filled(local, 1, LEN));
        CHECK(0 == fab_counters.shm_coop_helped);
        atomic_store(&world->shared->scratch[OVER], 1);
    } else {
        fab_shm_beat(ep_of(world, 0)->dom);
        world_barrier_idle(world);
        wait_for(GO_ON);
        fab_shm_beat(ep_of(world, 0)->dom);
        wait_for(OVER);
    }
    world_barrier(world);
    CHECK(0 == world->failures);
}

/* It is not worth a message: nothing to give, too short, too long, or a get at once. */
static void not_asked_body(world_t *world)
{
    introduce(world);
    if (0 == world->rank) {
        fab_rma_t op = get_op(world);
        op.len = FAB_SHM_COOP_MIN;
        CHECK(!fab_get_now(&op) && 0 == op.done && 0 == completed); /* the peer may give it */
        op.len = (size_t) 1 << 43; /* more parts than can be counted */
        CHECK(!fab_shm_coop_is_worth_it(ep_of(world, 1), &op));
        op.len = FAB_SHM_COOP_MIN - 1;
        CHECK(OPAL_SUCCESS == fab_get(&op));
        WORLD_UNTIL(1 == completed);
        remote.rkey = (fab_rkey_t){{0}};
        CHECK(OPAL_SUCCESS == get_all(world) && world_is_filled(local, 1, LEN));
        CHECK(0 == fab_counters.shm_coop_offered);
    }
    world_barrier(world);
    CHECK(0 == world->failures && 0 == fab_counters.shm_coop_given);
}

/*
 * The rest cannot be read: the get ends, and its buffer is the user's, although parts of it still
 * lie in the ring.
 */
static void read_fails_body(world_t *world)
{
    introduce(world);
    if (0 == world->rank) {
        fab_rma_t op = get_op(world);
        fab_shm_ep_t *ep = ep_of(world, 1);
        fab_shm_fetch_t *fetch;
        is_read_failing = true;
        CHECK(OPAL_SUCCESS == fab_get(&op));
        fetch = fab_shm_fetch_of(ep, &op);
        CHECK(NULL != fetch);
        wait_for(GIVEN);
        set_patience(world, 0);
        STAILQ_REMOVE(&ep->dom->rma, &op, fab_rma, link); /* as fab_shm_rma_progress() does */
        CHECK(OPAL_ERR_NOT_SUPPORTED == fab_shm_fetch_step(ep, fetch, LEN));
        ep->num_long--;
        memset(local, 0x5a, LEN);
        atomic_store(&world->shared->scratch[OVER], 1);
    } else {
        WORLD_UNTIL(0 != fab_counters.shm_coop_given);
        atomic_store(&world->shared->scratch[GIVEN], 1);
        wait_for(OVER);
    }
    world_barrier(world);
    for (size_t i = 0; 0 == world->rank && i < LEN; i++) {
        CHECK(0x5a == local[i]);
    }
    CHECK(0 == world->failures && fab_counters.shm_coop_given < LEN);
}

/* The giver dies when it has taken on a part that it has not sent. */
static void giver_dies_body(world_t *world)
{
    introduce(world);
    if (1 == world->rank) {
        fab_shm_ep_t *ep = ep_of(world, 0);
        wait_for(GO_ON);
        fab_shm_claim_t *claim = &ep->dom->entries[ep->in->index].claims[0];
        for (int k = 0; k < FAB_SHM_COOPS; k++) {
            (void) fab_claim_part(&claim[k].word, (uint32_t) (atomic_load(&claim[k].word) >> 32),
                                  0);
        }
        raise(SIGKILL);
    }
    fab_rma_t op = get_op(world);
    CHECK(OPAL_SUCCESS == fab_get(&op) && NULL != fab_shm_fetch_of(ep_of(world, 1), &op));
    set_patience(world, 1000000);
    atomic_store(&world->shared->scratch[GO_ON], 1);
    while (!fab_proc_is_gone(ep_of(world, 1)->addr.pid, ep_of(world, 1)->addr.start_time)) {
        usleep(1000);
    }
    WORLD_UNTIL(1 == world->failures && 1 == completed);
    CHECK(OPAL_ERR_UNREACH == complete_status && OPAL_ERR_PROC_ABORTED == world->failed_rc);
}

/* The fetcher gives the peer up in the middle: its buffer is not written any more. */
static void given_up_body(world_t *world)
{
    introduce(world);
    if (1 == world->rank) {
        WORLD_UNTIL(1 == atomic_load(&world->shared->scratch[OVER]));
    } else {
        fab_rma_t op = get_op(world);
        CHECK(OPAL_SUCCESS == fab_get(&op));
        WORLD_UNTIL(NULL != fab_shm_fetch_of(ep_of(world, 1), &op) &&
                    0 != fab_shm_fetch_of(ep_of(world, 1), &op)->received);
        CHECK(fab_shm_fetch_of(ep_of(world, 1), &op)->received == op.done);
        fab_peer_fail(world_peer(world, 1), OPAL_ERR_UNREACH, "The test has given it up.");
        WORLD_UNTIL(1 == completed && NULL == world_peer(world, 1)->ep);
        CHECK(1 == world->failures && OPAL_ERR_UNREACH == complete_status);
        memset(local, 0x5a, LEN);
        for (int i = 0; i < 1000; i++) {
            world_progress(world);
        }
        for (size_t i = 0; i < LEN; i++) {
            CHECK(0x5a == local[i]);
        }
        atomic_store(&world->shared->scratch[OVER], 1);
    }
}

/* The fetcher closes the peer in the middle, as one that disconnects: the same. */
static void closes_body(world_t *world)
{
    introduce(world);
    if (1 == world->rank) {
        fab_shm_ep_t *ep = ep_of(world, 0);
        WORLD_UNTIL(NULL == ep->in); /* which it leaves behind full of parts */
        CHECK(TAILQ_EMPTY(&ep->dom->gives) && 0 != fab_counters.shm_coop_given);
    } else {
        fab_rma_t op = get_op(world);
        CHECK(OPAL_SUCCESS == fab_get(&op));
        WORLD_UNTIL(0 != op.done);
        fab_peer_close(world_peer(world, 1), FAB_USER_PML);
        WORLD_UNTIL(1 == completed);
        CHECK(OPAL_ERR_UNREACH == complete_status);
        memset(local, 0x5a, LEN);
        for (int i = 0; i < 1000; i++) {
            world_progress(world);
        }
        for (size_t i = 0; i < LEN; i++) {
            CHECK(0x5a == local[i]);
        }
    }
    CHECK(0 == world->failures);
}

/* The fetcher dies with parts in its ring: no more are sent. */
static void fetcher_dies_body(world_t *world)
{
    introduce(world);
    if (0 == world->rank) {
        fab_rma_t op = get_op(world);
        CHECK(OPAL_SUCCESS == fab_get(&op) && NULL != fab_shm_fetch_of(ep_of(world, 1), &op));
        wait_for(GIVEN);
        raise(SIGKILL);
    }
    fab_shm_domain_t *dom = ep_of(world, 0)->dom;
    WORLD_UNTIL(0 != fab_counters.shm_coop_given);
    CHECK(!TAILQ_EMPTY(&dom->gives));
    atomic_store(&world->shared->scratch[GIVEN], 1);
    WORLD_UNTIL(1 == world->failures);
    CHECK(OPAL_ERR_PROC_ABORTED == world->failed_rc && NULL == world_peer(world, 0)->ep);
    CHECK(TAILQ_EMPTY(&dom->gives) && fab_counters.shm_coop_given < LEN);
}

enum { BAD_ASKS = 8 };

/* The fetcher asks for what is not its to have: nothing is sent. */
static void bad_ask_body(world_t *world)
{
    introduce(world);
    if (0 == world->rank) {
        fab_shm_ep_t *ep = ep_of(world, 1);
        fab_shm_ask_t good = {
            .from = remote.at, .len = LEN, .key = fab_shm_key_of(&remote.rkey), .part = 4096};
        for (uint32_t i = 0; i < BAD_ASKS; i++) {
            fab_shm_ask_t bad = good;
            bad.from += 0 == i ? 1 : 1 == i ? UINT64_MAX : 0;
            bad.len = 2 == i ? LEN + 1 : bad.len;
            bad.key ^= 3 == i ? UINT64_C(1) << 32 : 4 == i ? 0x10000 : 0;
            bad.key = 5 == i ? 0 : bad.key;
            bad.part = 6 == i ? 1 << 20 : 7 == i ? world_peer(world, 1)->eager_max + 1 : bad.part;
            fab_claim_open(&ep->entry->claims[i % FAB_SHM_COOPS].word, 100 + i);
            CHECK(fab_shm_tx_send_short(&ep->tx, fab_hdr(FAB_SHM_AM_ASK, 0, 100 + i), &bad,
                                        sizeof(bad)));
        }
    }
    world_barrier(world);
    for (int i = 0; i < 100; i++) {
        world_progress(world);
    }
    CHECK(0 == fab_counters.shm_coop_given);
    world_barrier(world);
    CHECK(0 == world->failures);
}

/* Set by a test before its processes are made: which of the wrong messages rank 1 sends. */
static unsigned wrong;

enum { WRONG_MESSAGES = 8, UNCOUNTED = 7 };

/* A message that no process of this version sends: its sender fails. */
static void wrong_message_body(world_t *world)
{
    introduce(world);
    if (0 == world->rank) {
        fab_rma_t op = get_op(world);
        CHECK(OPAL_SUCCESS == fab_get(&op));
        fab_shm_fetch_t *fetch = fab_shm_fetch_of(ep_of(world, 1), &op);
        CHECK(NULL != fetch);
        atomic_store(&world->shared->scratch[10], fetch->seq);
        atomic_store(&world->shared->scratch[11], fetch->part);
        atomic_store(&world->shared->scratch[GO_ON], 1);
        if (UNCOUNTED == wrong) {
            WORLD_UNTIL(0 != fetch->received);
            set_patience(world, 0); /* the claim word has fewer parts than have come */
        }
        WORLD_UNTIL(1 == completed && 1 == world->failures);
        CHECK(OPAL_ERR_UNREACH == complete_status && OPAL_ERR_COMM_FAILURE == world->failed_rc);
        atomic_store(&world->shared->scratch[OVER], 1);
    } else {
        fab_shm_ep_t *ep = ep_of(world, 0);
        const fab_shm_ask_t ask = {.part = 3 == wrong ? 0 : 1, .len = UINT64_MAX};
        const char data[32] = "";
        wait_for(GO_ON);
        const uint32_t seq = (uint32_t) atomic_load(&world->shared->scratch[10]);
        const size_t full = (size_t) atomic_load(&world->shared->scratch[11]);
        const fab_hdr_t part = fab_hdr(FAB_SHM_AM_PART, 0 == wrong, seq);
        const fab_hdr_t asks = fab_hdr(FAB_SHM_AM_ASK, 0, 1);
        if (wrong < 2) { /* out of order; without data */
            CHECK(fab_shm_tx_send_short(&ep->tx, part, data, 1 == wrong ? 0 : 8));
        } else if (wrong < 5) { /* half a question; one for no parts; for too many */
            CHECK(fab_shm_tx_send_short(&ep->tx, asks, &ask, 2 == wrong ? 8 : sizeof(ask)));
        } else if (5 == wrong) { /* more than was asked for */
            CHECK(fab_shm_tx_send_short(&ep->tx, fab_hdr(FAB_SHM_AM_PART, LEN, seq), data, 8));
        } else { /* less than a part; one that is not counted */
            CHECK(fab_shm_tx_send_any(&ep->tx, part, memory, 6 == wrong ? 8 : full));
        }
        wait_for(OVER);
    }
}

/* By another provider than shm come the same ids: the sender fails. */
static void other_provider_body(world_t *world)
{
    const fab_shm_ask_t ask = {.len = 1, .part = 1};
    fab_peer_t *peer = world_peer(world, world->rank);

    CHECK(0 == strcmp("self", fab_peer_provider_name(peer)));
    CHECK(OPAL_SUCCESS ==
          fab_send(peer, fab_hdr((uint8_t) (FAB_SHM_AM_ASK + wrong), 0, 2), &ask, sizeof(ask)));
    WORLD_UNTIL(1 == world->failures);
    CHECK(OPAL_ERR_COMM_FAILURE == world->failed_rc && peer == world->failed);
    CHECK(0 == fab_counters.shm_coop_given);
}

/* The giver's side writes anything into the claim word. */
static void spoilt_body(world_t *world)
{
    introduce(world);
    if (0 == world->rank) {
        fab_rma_t op = get_op(world);
        fab_shm_ep_t *ep = ep_of(world, 1);
        CHECK(OPAL_SUCCESS == fab_get(&op));
        fab_shm_fetch_t *fetch = fab_shm_fetch_of(ep, &op);
        CHECK(NULL != fetch);
        _Atomic uint64_t *word = &ep->entry->claims[fetch - ep->fetches].word;
        if (0 == wrong) {
            fab_claim_open(word, fetch->seq + 1); /* another get's */
        } else {
            atomic_fetch_add(word, LEN); /* more parts than it has */
        }
        set_patience(world, 0);
        WORLD_UNTIL(1 == completed && 1 == world->failures);
        CHECK(OPAL_ERR_UNREACH == complete_status && OPAL_ERR_COMM_FAILURE == world->failed_rc);
        atomic_store(&world->shared->scratch[GO_ON], 1);
    } else {
        wait_for(GO_ON);
    }
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

/* The peer is asked for all, and a short one waits for none of them, although nobody gives. */
static void window_body(world_t *world)
{
    introduce(world);
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
        CHECK(WINDOW == fab_counters.shm_coop_offered && WINDOW == fab_counters.shm_coop_helped);
    }
    world_barrier(world);
    CHECK(0 == world->failures);
}

/* The peer dies: those end that are under way, and those that were to follow. */
static void window_fails_body(world_t *world)
{
    introduce(world);
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

/* ---- many at once, both ways -------------------------------------------- */

enum { MANY = 200 };

/* Set by a test before its processes are made. */
static unsigned is_impatient;

/* The next numbers of gets are the last ones before they begin again. */
static void set_numbers(fab_shm_ep_t *ep)
{
    for (uint32_t k = 0; k < FAB_SHM_COOPS; k++) {
        ep->fetches[k].seq = 0 - 3 * FAB_SHM_COOPS + k;
    }
}

/*
 * Random parts of the other's memory, up to eight at once, while it does the same; and if they are
 * impatient with waits of 0 to 30 us, so that some are closed with parts on their way.
 */
static void random_body(world_t *world)
{
    static fab_rma_t ops[WINDOW];
    static size_t froms[WINDOW];
    static unsigned char *bufs[WINDOW];
    uint64_t rng = (uint64_t) world->rank + 1;
    introduce(world);
    world_fill(local, (uint64_t) (1 - world->rank), LEN); /* what the other has */
    set_numbers(ep_of(world, 1 - world->rank));
    for (int i = 0; i < WINDOW; i++) {
        bufs[i] = malloc(LEN);
    }
    for (int round = 0; round < MANY / WINDOW; round++) {
        int before = completed;
        if (is_impatient) {
            set_patience(world, (rng >> 40) % 4 * 10000);
        }
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

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_claims),
        WORLD_JOB("test_given", given_body, .each = {&is_for_any, 2}),
        WORLD_JOB("test_both", both_body),
        WORLD_JOB("test_never_given", rest_read_body, .number = {{&giver_does, NEVER_GIVES}}),
        WORLD_JOB("test_leaves", rest_read_body, .number = {{&giver_does, LEAVES}}),
        WORLD_JOB("test_unexposed", rest_read_body, .number = {{&giver_does, UNEXPOSES}},
                  .each = {&is_for_any, 2}),
        WORLD_JOB("test_not_asked", not_asked_body),
        WORLD_JOB("test_read_fails", read_fails_body),
        WORLD_JOB("test_giver_dies", giver_dies_body, .killed = 1 << 1),
        WORLD_JOB("test_given_up", given_up_body),
        WORLD_JOB("test_bad_ask", bad_ask_body),
        WORLD_JOB("test_wrong_message", wrong_message_body, .each = {&wrong, WRONG_MESSAGES}),
        WORLD_JOB("test_spoilt", spoilt_body, .each = {&wrong, 2}),
        WORLD_JOB("test_window", window_body),
        WORLD_JOB("test_window_fails", window_fails_body, .killed = 1 << 1),
        WORLD_JOB("test_random", random_body, .each = {&is_impatient, 2}),
        WORLD_JOB("test_random threads", random_body, .is_threaded = true,
                  .each = {&is_impatient, 2}),
        WORLD_JOB("test_other_provider", other_provider_body,
                  .each = {&wrong, FAB_SHM_AM_PART - FAB_SHM_AM_ASK + 1}),
        /* there is room for a part, and for messages beside it */
        WORLD_JOB("test_given_short_ring", given_body,
                  .number = {{&fab_params.shm_ring_size, FAB_SHM_RING_MIN}}),
        WORLD_JOB("test_closes", closes_body),
        WORLD_JOB("test_fetcher_dies", fetcher_dies_body, .killed = 1 << 0),
        WORLD_JOB("test_away", away_body),
    };

    fab_params.shm_cooperative = (char *) "always";
    fab_params.providers = (char *) "shm";
    cmocka_set_test_filter(argc > 1 ? argv[1] : NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
