/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the fabric does when things go wrong: peers that die, memory that may not be read, rings
 * that run out, addresses and memory that are damaged, doorbells that are missed.
 *
 * TEST: sources=@fabric ldflags=-Wl,--wrap=fallocate,--wrap=madvise,--wrap=malloc variants=asan,tsan timeout=300
 */
#include "test_fab_faults.h"
#include "test_fab_jobs.h"

#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "fabric/fab_core.h"
#include "fabric/fab_host.h"
#include "fabric/fab_wire.h"
#include "shm/shm_types.h"

enum { CAPS_RMA = FAB_CAP_GET | FAB_CAP_PUT };

static fab_shm_domain_t *shm_domain(world_t *world)
{
    return (fab_shm_domain_t *) fab_core(world->fab)->slots[1].dom;
}

/* ---- CMA is refused ----------------------------------------------------- */

/* From now on these two system calls of this process fail with the error. */
static void refuse_calls(world_t *world, unsigned call, unsigned other_call, unsigned error)
{
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, call, 1, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, other_call, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | error),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof(filter) / sizeof(filter[0]), filter};

    CHECK(0 == prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0));
    CHECK(0 == prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program));
}

static void refuse_cma(world_t *world)
{
    refuse_calls(world, SYS_process_vm_readv, SYS_process_vm_writev, EPERM);
}

static void cma_refused_body(world_t *world)
{
    fab_peer_t *peer = world_peer(world, 1 - world->rank);
    char memory[64], text[2048];
    fab_rma_t op = {.peer = peer,
                    .local = memory,
                    .remote = (uint64_t) (uintptr_t) memory,
                    .len = 64,
                    .complete = rma_complete};

    refuse_cma(world);
    CHECK(CAPS_RMA == (peer->caps & CAPS_RMA));
    CHECK(OPAL_ERR_NOT_SUPPORTED == fab_get(&op));
    CHECK(0 == (peer->caps & CAPS_RMA) && 1 == fab_counters.shm_cma_refused);
    CHECK(OPAL_ERR_NOT_SUPPORTED == fab_put(&op));
    CHECK(1 == fab_counters.shm_cma_refused && 0 == completed);
    fab_describe(world->fab, text, sizeof(text));
    CHECK(NULL != strstr(text, "Operation not permitted"));
    world_barrier(world);
}

/* Refused in the middle of a transfer, and no memory at the address. */
static void rma_error_body(world_t *world)
{
    fab_peer_t *peer = world_peer(world, 1 - world->rank);
    static char memory[8 << 20];
    fab_rma_t op = {
        .peer = peer, .local = memory, .remote = 4096, .len = 4096, .complete = rma_complete};

    CHECK(OPAL_SUCCESS == fab_get(&op));
    WORLD_UNTIL(1 == completed);
    CHECK(OPAL_ERR_NOT_SUPPORTED == complete_status && 0 == op.done);
    CHECK(1 == fab_counters.shm_cma_faults);
    op.remote = (uint64_t) (uintptr_t) (memory + sizeof(memory)) - 8192;
    op.len = 1 << 30; /* partly there */
    op.local = mmap(NULL, op.len, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    CHECK(OPAL_SUCCESS == fab_get(&op));
    WORLD_UNTIL(2 == completed);
    CHECK(OPAL_ERR_NOT_SUPPORTED == complete_status && op.done < op.len);
    world_barrier(world);
    op.remote = (uint64_t) (uintptr_t) memory; /* fork(): the same in both */
    op.len = sizeof(memory);
    CHECK(OPAL_SUCCESS == fab_get(&op));
    fab_progress(world->fab);
    CHECK(op.done > 0 && op.done < op.len);
    refuse_cma(world);
    WORLD_UNTIL(3 == completed);
    CHECK(OPAL_ERR_NOT_SUPPORTED == complete_status && 0 == (peer->caps & CAPS_RMA));
    CHECK(OPAL_ERR_NOT_SUPPORTED == fab_get(&op));
    CHECK(0 == world->failures);
    world_barrier(world);
}

static void single_copy_none_body(world_t *world)
{
    fab_peer_t *peer = world_peer(world, 1 - world->rank);
    fab_rma_t op = {.peer = peer, .complete = rma_complete};

    CHECK(0 == (peer->caps & CAPS_RMA));
    CHECK(OPAL_ERR_NOT_SUPPORTED == fab_get(&op));
    CHECK(0 == fab_counters.shm_cma_calls && 0 == fab_counters.shm_cma_refused);
    world_barrier(world);
}

/* ---- a peer dies -------------------------------------------------------- */

static bool is_out_of_memory;

void *__real_malloc(size_t size);
void *__wrap_malloc(size_t size);

void *__wrap_malloc(size_t size)
{
    return is_out_of_memory ? NULL : __real_malloc(size);
}

/*
 * Each failure is reported although there is no memory to keep it, the first one with its reason.
 */
static void no_memory_for_failures_body(world_t *world)
{
    if (0 == world->rank) {
        fab_peer_t *peers[] = {world_peer(world, 1), world_peer(world, 2)};

        is_out_of_memory = true;
        fab_peer_fail(peers[0], OPAL_ERR_OUT_OF_RESOURCE, "the first one");
        fab_peer_fail(peers[1], OPAL_ERR_OUT_OF_RESOURCE, "the second one");
        WORLD_UNTIL(1 == world->failures);
        CHECK(0 == strcmp("the first one", world->failed_why));
        WORLD_UNTIL(2 == world->failures);
        CHECK(NULL != strstr(world->failed_why, "no memory to keep the reason"));
        is_out_of_memory = false;
    }
    world_barrier_idle(world);
}

static int items_run;
static int items_unreach;

static int dead_item_run(fab_item_t *item, fab_peer_t *peer)
{
    int rc = fab_item_send(peer, fab_hdr(AM_DATA, 0, 0), item, 8);

    if (OPAL_ERR_RESOURCE_BUSY == rc) {
        return rc;
    }
    items_run++;
    items_unreach += OPAL_ERR_UNREACH == rc;
    return OPAL_SUCCESS;
}

/*
 * Rank 2 sends 100 messages and kills itself; rank 0 has filled its ring and queued more; rank 1
 * goes on sending to rank 0.
 */
static void killed_body(world_t *world)
{
    fab_item_t items[10] = {{.fn = dead_item_run}};

    fab_peer_t *zero = world_peer(world, 0);
    if (2 == world->rank) {
        world_barrier(world);
        while (2 != atomic_load(&world->shared->scratch[0])) { /* without progress */
            sched_yield();
        }
        for (int i = 0; i < 100; i++) {
            CHECK(OPAL_SUCCESS == fab_send(zero, fab_hdr(AM_DATA, 0, 0), NULL, 0));
        }
        raise(SIGKILL);
    }
    fab_peer_t *dying = world_peer(world, 2);
    world_barrier(world);
    if (0 == world->rank) {
        while (OPAL_SUCCESS == fab_send(dying, fab_hdr(AM_DATA, 0, 0), NULL, 0)) {
        }
        for (int i = 0; i < 10; i++) {
            items[i].fn = dead_item_run;
            fab_queue(dying, &items[i]);
        }
        CHECK(OPAL_SUCCESS == fab_post(dying, fab_hdr(AM_DATA, 0, 0), "x", 1));
        atomic_store(&world->shared->scratch[0], 2);
        WORLD_UNTIL(1 == world->failures);
        CHECK(world->failed == dying && OPAL_ERR_PROC_ABORTED == world->failed_rc);
        CHECK(NULL != strstr(world->failed_why, "ended"));
        CHECK(10 == items_run && 10 == items_unreach && NULL == dying->pending);
        CHECK(100 == world->got); /* all that it sent before */
        CHECK(1 == fab_counters.peers_died);
        CHECK(OPAL_ERR_UNREACH == fab_send(dying, fab_hdr(AM_DATA, 0, 0), NULL, 0));
        atomic_store(&world->shared->scratch[0], 1);
        WORLD_UNTIL(101 == world->got);
    } else { /* knows the dying peer, but sends it nothing: it must not see a failure */
        WORLD_UNTIL(1 == atomic_load(&world->shared->scratch[0]));
        post(world, zero);
        WORLD_UNTIL(2 == atomic_load(&world->shared->scratch[0]));
        CHECK(0 == world->failures);
    }
    for (int i = 0; i < 10000; i++) {
        world_progress(world);
    }
    CHECK((0 == world->rank) == world->failures);
    if (0 == world->rank) {
        atomic_store(&world->shared->scratch[0], 2);
    }
}

/*
 * RMA towards a process that died ends with an error, exactly once, and so does RMA that is asked
 * for afterwards.
 */
static void killed_rma_body(world_t *world)
{
    static char memory[32 << 20];
    fab_peer_t *peer = world_peer(world, 1 - world->rank);
    fab_rma_t op = {.peer = peer,
                    .local = memory,
                    .remote = (uint64_t) (uintptr_t) memory,
                    .len = sizeof(memory),
                    .complete = rma_complete};

    world_barrier(world);
    if (1 == world->rank) {
        while (0 == atomic_load(&world->shared->scratch[0])) {
        }
        raise(SIGKILL);
    }
    CHECK(OPAL_SUCCESS == fab_send(peer, fab_hdr(AM_DATA, 0, 0), NULL, 0));
    CHECK(OPAL_SUCCESS == fab_get(&op));
    fab_progress(world->fab);
    atomic_store(&world->shared->scratch[0], 1);
    while (!fab_proc_is_gone(LIST_FIRST(&shm_domain(world)->eps)->addr.pid,
                             LIST_FIRST(&shm_domain(world)->eps)->addr.start_time)) {
    }
    CHECK(op.done < op.len && 0 == completed);
    WORLD_UNTIL(1 == world->failures && 1 == completed);
    CHECK(OPAL_ERR_UNREACH == complete_status);
    CHECK(OPAL_ERR_UNREACH == fab_get(&op) && 1 == completed);
}

/*
 * Died before anything was sent to it.  The send fails at once if its parent knows already, and has
 * waited for it; else it is found out soon.
 */
static void killed_early_body(world_t *world)
{
    world_barrier(world);
    if (1 == world->rank) {
        atomic_store(&world->shared->scratch[0], 1);
        raise(SIGKILL);
    }
    fab_peer_t *peer = world_peer(world, 1);
    fab_shm_ep_t *ep = peer->ep;
    while (!fab_proc_is_gone(ep->addr.pid, ep->addr.start_time)) {
    }
    int rc = fab_send(peer, fab_hdr(AM_DATA, 0, 0), NULL, 0);
    CHECK(OPAL_SUCCESS == rc || OPAL_ERR_UNREACH == rc);
    WORLD_UNTIL(1 == world->failures);
    CHECK(FAB_PEER_FAILED == peer->state);
    CHECK((OPAL_SUCCESS == rc ? OPAL_ERR_PROC_ABORTED : OPAL_ERR_UNREACH) == world->failed_rc);
}

/* A peer that leaves in an orderly way has not failed, whoever sent to whom. */
static void orderly_body(world_t *world)
{
    world_barrier(world);
    for (int i = 0; i < world->size; i++) {
        if (world->rank <= i) { /* some pairs send both ways, some one way */
            post(world, world_peer(world, i));
        }
    }
    WORLD_UNTIL(world->got == (uint64_t) world->rank + 1);
    world_barrier(world);
    if (0 == world->rank || 3 == world->rank) {
        double start = world_now();
        WORLD_UNTIL(world_now() - start > 3.5);
        CHECK(0 == world->failures && 0 == fab_counters.peers_died);
    }
}

/*
 * Rank 0 never sent to rank 1, which has left, and may have sent: what rank 0 sends to it then
 * harms nothing, and nothing of it stays mapped.
 */
static unsigned has_sent;

static void left_early_body(world_t *world)
{
    fab_peer_t *peer = world_peer(world, 1 - world->rank);
    const fab_shm_ep_t *ep = peer->ep;

    world_barrier(world);
    if (1 == world->rank) {
        CHECK(!has_sent || OPAL_SUCCESS == fab_post(peer, fab_hdr(AM_DATA, 0, 0), NULL, 0));
        return;
    }
    while (0 == atomic_load(&ep->seg->is_finalized)) {
    }
    WORLD_UNTIL(world->got == has_sent);
    WORLD_UNTIL(0 == has_sent || NULL == ep->in);
    post(world, peer);
    WORLD_UNTIL(NULL == ep->seg);
    CHECK(0 == world->failures && 1 == world->left && NULL == ep->in && NULL == ep->entry);
}

/* The same, but rank 0 sends nothing to it; or it is killed. */
static void unmapped_body(world_t *world)
{
    const fab_shm_ep_t *ep = world_peer(world, 1 - world->rank)->ep;

    world_barrier(world);
    if (1 == world->rank) {
        if (has_sent) {
            raise(SIGKILL);
        }
        return;
    }
    WORLD_UNTIL(NULL == ep->seg);
    CHECK(0 == world->failures && NULL == ep->in && NULL == ep->entry);
}

/* ---- items -------------------------------------------------------------- */

static int item_runs, item_noted; /* how often it ran, and its peer was noted, at most */

/* Queues itself twice: its peer is noted as busy once, however often that happens. */
static int again_run(fab_item_t *item, fab_peer_t *peer)
{
    int num = (int) fab_core(peer->fab)->num_busy;

    item_noted = num > item_noted ? num : item_noted;
    if (++item_runs < 3) {
        fab_queue(peer, item);
    }
    return OPAL_SUCCESS;
}

static void again_body(world_t *world)
{
    fab_item_t item = {.fn = again_run};

    fab_queue(world_peer(world, 0), &item);
    WORLD_UNTIL(3 == item_runs && !fab_has_queued(world->fab));
    CHECK(1 == item_noted);
}

typedef struct numbered {
    fab_item_t item;
    unsigned number;
} numbered_t;

static unsigned numbers_run[8]; /* in the order of running */
static unsigned num_run;

static int numbered_run(fab_item_t *item, fab_peer_t *peer)
{
    (void) peer;
    numbers_run[num_run++] = ((const numbered_t *) item)->number;
    return OPAL_SUCCESS;
}

static bool is_above(const fab_item_t *item, const void *ctx)
{
    return ((const numbered_t *) item)->number > *(const unsigned *) ctx;
}

static bool is_odd(const fab_item_t *item, const void *ctx)
{
    (void) ctx;
    return 0 != ((const numbered_t *) item)->number % 2;
}

/* Takes back all that is queued behind it. */
static int taking_run(fab_item_t *item, fab_peer_t *peer)
{
    const unsigned number = ((const numbered_t *) item)->number;

    return NULL != fab_unqueue(peer, is_above, &number) ? OPAL_SUCCESS : OPAL_ERR_BAD_PARAM;
}

static void queue_numbered(numbered_t *items, unsigned num, fab_peer_t *peer)
{
    for (unsigned i = 0; i < num; i++) {
        items[i] = (numbered_t){.item.fn = numbered_run, .number = i};
        fab_queue(peer, &items[i].item);
    }
}

/* Items that are taken back do not run, the others do, in order, also those of other peers. */
static void unqueue_body(world_t *world)
{
    numbered_t items[5], other[1];
    fab_peer_t *peer = world_peer(world, 0);

    queue_numbered(items, 5, peer);
    CHECK(&items[1].item == fab_unqueue(peer, is_odd, NULL));
    CHECK(&items[3].item == items[1].item.next && NULL == items[3].item.next);
    WORLD_UNTIL(!fab_has_queued(world->fab));
    CHECK(3 == num_run && 0 == numbers_run[0] && 2 == numbers_run[1] && 4 == numbers_run[2]);

    queue_numbered(items, 2, peer);
    CHECK(NULL != fab_unqueue(peer, is_odd, NULL) && fab_has_queued(world->fab));
    CHECK(fab_unqueue_item(peer, &items[0].item) && !fab_unqueue_item(peer, &items[0].item));
    CHECK(NULL == peer->pending && !fab_has_queued(world->fab));

    queue_numbered(items, 5, peer);
    items[0].item.fn = taking_run;
    queue_numbered(other, 1, world_peer(world, 1));
    WORLD_UNTIL(!fab_has_queued(world->fab));
    CHECK(4 == num_run);
}

/* ---- rings -------------------------------------------------------------- */

static int waiting_item_run(fab_item_t *item, fab_peer_t *peer)
{
    (void) item;
    return fab_item_send(peer, fab_hdr(AM_DATA, 0, 0), NULL, 0);
}

/* Rank 0 has two rings; the third sender waits; when one leaves, its ring serves the next. */
static void exhausted_body(world_t *world)
{
    fab_item_t item = {.fn = waiting_item_run};
    fab_peer_t *zero = world_peer(world, 0);

    world_barrier(world);
    if (1 == world->rank || 2 == world->rank) {
        CHECK(OPAL_SUCCESS == fab_send(zero, fab_hdr(AM_DATA, 0, 0), NULL, 0));
    }
    world_barrier(world);
    if (3 == world->rank) {
        CHECK(OPAL_ERR_RESOURCE_BUSY == fab_send(zero, fab_hdr(AM_DATA, 0, 0), NULL, 0));
        fab_queue(zero, &item);
        WORLD_UNTIL(fab_counters.shm_connect_retries > 5);
        CHECK(1 == fab_counters.shm_rings_exhausted);
        CHECK(NULL != zero->pending && NULL == ((fab_shm_ep_t *) zero->ep)->entry);
        CHECK(1 == world->said && NULL != strstr(world->last_said, "Raise pml_tm_shm_max_peers"));
    }
    world_barrier(world);
    if (1 == world->rank) {
        fab_peer_close(zero, FAB_USER_PML);
    }
    if (0 == world->rank) {
        WORLD_UNTIL(3 == world->got);
    }
    if (3 == world->rank) {
        WORLD_UNTIL(NULL == zero->pending);
    }
    world_barrier(world);
    CHECK(0 == world->failures);
}

static unsigned is_old; /* Linux before 5.14: a ring gets memory by its file, in steps */

int __real_madvise(void *addr, size_t len, int advice);
int __wrap_madvise(void *addr, size_t len, int advice);

int __wrap_madvise(void *addr, size_t len, int advice)
{
    if (is_old && MADV_POPULATE_WRITE == advice) {
        errno = EINVAL;
        return -1;
    }
    return __real_madvise(addr, len, advice);
}

/*
 * No memory for a ring: the sender is told so, the receiver notices nothing, the next sender gets
 * that ring.
 */
static void no_memory_body(world_t *world)
{
    fab_peer_t *zero = world_peer(world, 0);

    world_barrier(world);
    if (1 == world->rank) {
        refuse_calls(world, SYS_fallocate, SYS_fallocate, ENOSPC);
        CHECK(OPAL_ERR_UNREACH == fab_send(zero, fab_hdr(AM_DATA, 0, 0), NULL, 0));
        fab_progress(world->fab);
        CHECK(1 == world->failures && NULL != strstr(world->failed_why, "no memory"));
        CHECK(NULL != strstr(world->failed_why, "This was tried for"));
        CHECK(LIST_EMPTY(&shm_domain(world)->eps));
    }
    world_barrier(world);
    if (2 == world->rank) {
        CHECK(OPAL_SUCCESS == fab_send(zero, fab_hdr(AM_DATA, 0, 0), NULL, 0));
        CHECK(1 == atomic_load(&((fab_shm_ep_t *) zero->ep)->seg->high));
    }
    if (0 == world->rank) {
        WORLD_UNTIL(1 == world->got);
        CHECK(0 == world->failures);
    }
    world_barrier(world);
}

static bool is_interrupting;            /* every other call that takes memory */
static unsigned last_step = UINT32_MAX; /* then there is no memory left */
static unsigned num_calls, num_steps;

int __real_fallocate(int fd, int mode, off_t at, off_t len);
int __wrap_fallocate(int fd, int mode, off_t at, off_t len);

int __wrap_fallocate(int fd, int mode, off_t at, off_t len)
{
    if (is_interrupting && 0 == mode && 0 == num_calls++ % 2) {
        errno = EINTR;
        return -1;
    }
    if (0 == mode && num_steps++ >= last_step) {
        errno = ENOSPC;
        return -1;
    }
    return __real_fallocate(fd, mode, at, len);
}

/* A timer of the program interrupts what takes memory: it is tried again. */
static void interrupted_body(world_t *world)
{
    world_barrier(world);
    if (1 == world->rank) {
        is_interrupting = true;
        CHECK(OPAL_SUCCESS == fab_send(world_peer(world, 0), fab_hdr(AM_DATA, 0, 0), NULL, 0));
        CHECK(num_calls >= 2 && 0 == world->failures);
    } else {
        WORLD_UNTIL(1 == world->got);
    }
    world_barrier(world);
}

/* Memory for a part of the ring only: that is given back. */
static void part_of_ring_body(world_t *world)
{
    fab_peer_t *zero = world_peer(world, 0);
    struct stat st;

    world_barrier(world);
    if (1 == world->rank) {
        is_interrupting = true; /* then memory is taken in steps */
        last_step = num_steps + 2;
        CHECK(OPAL_ERR_UNREACH == fab_send(zero, fab_hdr(AM_DATA, 0, 0), NULL, 0));
        CHECK(num_steps == last_step + 1);
    }
    world_barrier(world);
    if (0 == world->rank) {
        CHECK(0 == fstat(shm_domain(world)->file.fd, &st) && st.st_blocks * 512 < 1 << 16);
    }
    world_barrier(world);
}

static void wait_until_cold(world_t *world)
{
    while (shm_domain(world)->num_hot > 0) {
        fab_progress(world->fab);
    }
}

/*
 * A ring that went cold is woken by the doorbell in the next progress call; by the sweep, if the
 * doorbell is missed: after some progress calls, and in the first one where they are far apart.
 */
static void cold_body(world_t *world)
{
    fab_peer_t *peer = world_peer(world, 1 - world->rank);

    world_barrier(world);
    for (int round = 0; round < 12; round++) {
        bool is_missed = round % 2, is_far = round / 2 % 2;
        if (0 == world->rank) {
            fab_shm_ep_t *ep = peer->ep;
            if (round > 0 && is_missed) {
                CHECK(1 == (atomic_load(&ep->tx.ctl->idle) & 1));
                ep->tx.rung = atomic_load(&ep->tx.ctl->idle); /* as if it had read it too early */
            }
            CHECK(OPAL_SUCCESS == fab_send(peer, fab_hdr(AM_DATA, 0, 0), NULL, 0));
            atomic_store(&world->shared->scratch[round], 1);
            while (2 != atomic_load(&world->shared->scratch[round])) {
            }
        } else {
            int passes = 0;
            while (1 != atomic_load(&world->shared->scratch[round])) {
            }
            world->fab->is_far = is_far;
            while (world->got <= (uint64_t) round) {
                fab_progress(world->fab);
                passes++;
            }
            world->fab->is_far = false;
            CHECK(passes <= (is_missed && !is_far ? 2 * FAB_SHM_SWEEP_PASSES + 2 : 2));
            wait_until_cold(world);
            atomic_store(&world->shared->scratch[round], 2);
        }
    }
    world_barrier(world);
}

/* A peer that writes nonsense into its ring fails, and only it. */
static void nonsense_body(world_t *world)
{
    fab_peer_t *zero = world_peer(world, 0);

    world_barrier(world);
    if (world->rank > 0) {
        CHECK(OPAL_SUCCESS == fab_send(zero, fab_hdr(AM_DATA, 0, 0), NULL, 0));
    }
    if (1 == world->rank) {
        fab_shm_ep_t *ep = zero->ep;
        fab_shm_tx_publish(&ep->tx, fab_shm_tx_slot(&ep->tx),
                           fab_shm_word(UINT32_MAX, AM_DATA, 0, ep->tx.lap), 1);
    }
    if (0 == world->rank) {
        WORLD_UNTIL(1 == world->failures && 2 == world->got);
        CHECK(world_name(1) == world->failed->name && OPAL_ERR_COMM_FAILURE == world->failed_rc);
        CHECK(1 == fab_counters.bad_messages);
    }
    world_barrier(world);
    if (2 == world->rank) {
        CHECK(OPAL_SUCCESS == fab_send(zero, fab_hdr(AM_DATA, 0, 0), NULL, 0));
    }
    if (0 == world->rank) {
        WORLD_UNTIL(3 == world->got);
        CHECK(1 == world->failures);
    }
    world_barrier(world);
}

/* ---- addresses ---------------------------------------------------------- */

/* Open the other under a damaged address; whatever comes of it, it must be an orderly answer. */
static void try_address(world_t *world, const unsigned char *address, size_t len)
{
    fab_peer_t *peer = NULL;
    const char *why = NULL;
    int rc = fab_peer_open(world->fab, FAB_USER_PML, world_name(1), address, len, &peer, &why);

    if (OPAL_SUCCESS != rc) {
        CHECK(NULL == peer && NULL != why && strlen(why) > 10);
        return;
    }
    int before = world->failures;
    rc = fab_send(peer, fab_hdr(AM_DATA, 0, 0), NULL, 0);
    fab_progress(world->fab);
    if (OPAL_ERR_RESOURCE_BUSY == rc) { /* somebody is asked to pass the segment */
        CHECK(before == world->failures);
    } else if (OPAL_SUCCESS != rc) {
        CHECK(OPAL_ERR_UNREACH == rc && before + 1 == world->failures &&
              strlen(world->failed_why) > 10);
        /* the look after the living came just then: no process began at that time */
    } else if (before != world->failures) {
        CHECK(before + 1 == world->failures && NULL != strstr(world->failed_why, "ended"));
    }
    fab_peer_close(peer, FAB_USER_PML);
}

static void damaged_body(world_t *world)
{
    world_barrier(world);
    if (0 == world->rank) {
        damage_address(world, try_address);
    }
    world_barrier(world);
    CHECK(OPAL_SUCCESS ==
          fab_post(world_peer(world, 1 - world->rank), fab_hdr(AM_DATA, 7, 0), NULL, 0));
    uint64_t now = world->got;
    WORLD_UNTIL(world->got > now || (1 == world->rank && world->got > 0));
    world_barrier(world);
}

/* ---- many peers known --------------------------------------------------- */

/*
 * A hundred thousand records, found, closed, found again; the address is this process's, under
 * other names.
 */
static void many_known_body(world_t *world)
{
    unsigned char address[FAB_ADDRESS_MAX];
    size_t len = world->shared->len[0];
    fab_peer_t *peer;
    const char *why;

    memcpy(address, world->shared->address[0], len);
    for (uint64_t i = 0; i < 100000; i++) {
        uint64_t name = world_name(1000) + i * (i % 3 ? 1 : UINT64_C(1) << 32);
        memcpy(address + offsetof(fab_wire_head_t, name), &name, sizeof(name));
        CHECK(OPAL_SUCCESS ==
              fab_peer_open(world->fab, FAB_USER_PML, name, address, len, &peer, &why));
        CHECK(peer->name == name && 0 == ((uintptr_t) peer & 63));
        peer->user[FAB_USER_PML] = (void *) (uintptr_t) (i + 1);
    }
    for (int pass = 0; pass < 2; pass++) {
        for (uint64_t i = 0; i < 100000; i++) {
            uint64_t name = world_name(1000) + i * (i % 3 ? 1 : UINT64_C(1) << 32);
            peer = fab_peer_find(world->fab, name);
            if (1 == pass && 0 != i % 7) {
                CHECK(NULL == peer);
                continue;
            }
            CHECK(NULL != peer && (uintptr_t) peer->user[FAB_USER_PML] == i + 1);
            if (0 != i % 7) {
                fab_peer_close(peer, FAB_USER_PML);
            }
        }
    }
    CHECK(14286 == fab_core(world->fab)->num_peers);
}

/* ---- parameters, leftovers ---------------------------------------------- */

static void test_providers(void **state)
{
    fab_config_t config = {.name = 1, .num_local = 1};
    const char *why = NULL;
    fab_t *fab;
    char text[2048];

    (void) state;
    fab_params.providers = (char *) "shm,nosuch";
    assert_int_equal(fab_open(&config, &fab, &why), OPAL_ERR_BAD_PARAM);
    assert_non_null(strstr(why, "nosuch"));
    fab_params.providers = (char *) "self";
    assert_int_equal(fab_open(&config, &fab, &why), OPAL_SUCCESS);
    fab_describe(fab, text, sizeof(text));
    assert_non_null(strstr(text, "not used"));
    fab_describe(fab, text, 10);
    assert_true(strlen(text) < 10);
    fab_close(fab, FAB_USER_PML);
    config.num_local = 2;
    assert_int_equal(fab_open(&config, &fab, &why), OPAL_ERR_NOT_AVAILABLE);
    fab_params.providers = NULL;
}

/* A component of another build of the same release. */
static void test_other_build(void **state)
{
    const fab_config_t other = {.shm_abi = FAB_SHM_ABI + 1};
    const char *why = NULL;
    fab_t *fab = NULL;

    (void) state;
    assert_int_equal(fab_open_abi(FAB_ABI + 1, NULL, &fab, &why), OPAL_ERR_BAD_PARAM);
    assert_non_null(strstr(why, "another build"));
    why = "";
    assert_int_equal(fab_open(&other, &fab, &why), OPAL_ERR_BAD_PARAM);
    assert_non_null(strstr(why, "another build"));
    assert_null(fab);
}

static bool maps_contain(const char *what)
{
    FILE *maps = fopen("/proc/self/maps", "r");
    char line[512];
    bool is_there = false;

    while (NULL != fgets(line, sizeof(line), maps)) {
        is_there |= NULL != strstr(line, what);
    }
    fclose(maps);
    return is_there;
}

/*
 * Nothing of shm has a name in the file system; two file descriptors while open, of the segment and
 * of the socket that passes it, none afterwards; no mapping either.
 */
static void test_nothing_left(void **state)
{
    fab_config_t config = {.name = 1, .num_local = 1};
    int fds = count_open_fds();
    const char *why;
    fab_t *fab, *again;

    (void) state;
    fab_params.providers = (char *) "shm";
    assert_int_equal(fab_open(&config, &fab, &why), OPAL_SUCCESS);
    config.user = FAB_USER_BTL;
    assert_int_equal(fab_open(&config, &again, &why), OPAL_SUCCESS);
    assert_ptr_equal(fab, again);
    fab_close(again, FAB_USER_BTL);
    assert_true(maps_contain("memfd:pml_tm"));
    assert_false(maps_contain("/dev/shm"));
    assert_int_equal(count_open_fds(), fds + 3);
    fab_close(fab, FAB_USER_PML);
    assert_false(maps_contain("memfd:pml_tm"));
    assert_int_equal(count_open_fds(), fds);
    fab_params.providers = NULL;
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_providers),
        cmocka_unit_test(test_other_build),
        cmocka_unit_test(test_nothing_left),
        WORLD_JOB("test_cma_refused", cma_refused_body),
        WORLD_JOB("test_rma_errors", rma_error_body),
        WORLD_JOB("test_single_copy_none", single_copy_none_body,
                  .text = {&fab_params.shm_single_copy, "none"}),
        WORLD_JOB("test_cold_rings", cold_body),
        WORLD_JOB("test_nonsense_in_ring", nonsense_body, .ranks = 3),
        /* the time limit is not for rings */
        WORLD_JOB("test_rings_exhausted", exhausted_body, .ranks = 4,
                  .number = {{&fab_params.shm_max_peers, 2}, {&fab_limits.shm_connect_timeout, 0}}),
        /* rings that are refused come back at a tick only */
        WORLD_JOB("test_damaged_address", damaged_body, .text = {&fab_params.providers, "shm"},
                  .number = {{&fab_params.shm_max_peers, 4096}}),
        WORLD_JOB("test_no_memory_for_ring", no_memory_body, .ranks = 3,
                  .number = {{&is_old, 1}, {&fab_limits.shm_connect_timeout, 0}}),
        WORLD_JOB("test_interrupted", interrupted_body, .number = {{&is_old, 1}}),
        /* all of the ring is used at first */
        WORLD_JOB("test_part_of_ring", part_of_ring_body,
                  .number = {{&is_old, 1},
                             {&fab_params.shm_ring_size, 1 << 18},
                             {&fab_limits.shm_eager, 1 << 16},
                             {&fab_limits.shm_connect_timeout, 0}}),
        WORLD_JOB("test_many_known", many_known_body, .ranks = 1),
        WORLD_JOB("test_killed_peer", killed_body, .ranks = 3, .killed = 1 << 2),
        WORLD_JOB("test_killed_during_rma", killed_rma_body, .killed = 1 << 1),
        WORLD_JOB("test_killed_early", killed_early_body, .killed = 1 << 1),
        WORLD_JOB("test_orderly_leave", orderly_body, .ranks = 4),
        WORLD_JOB("test_needed_leave", leave_needed_body),
        WORLD_JOB("test_item_unqueue", unqueue_body),
        WORLD_JOB("test_left_early", left_early_body, .each = {&has_sent, 2}),
        WORLD_JOB("test_unmapped", unmapped_body),
        WORLD_JOB("test_unmapped killed", unmapped_body, .number = {{&has_sent, 1}},
                  .killed = 1 << 1),
        WORLD_JOB("test_item_again", again_body, .ranks = 1),
        WORLD_JOB("test_no_memory_for_failures", no_memory_for_failures_body, .ranks = 3),
    };

    cmocka_set_test_filter(argc > 1 ? argv[1] : NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
