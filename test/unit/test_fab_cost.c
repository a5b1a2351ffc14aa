/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the fabric costs, counted in instructions by single-stepping a process (ptrace), so that the
 * result does not depend on the machine's load: a progress call costs the same with 200 idle
 * connected peers as with one, and sending and receiving a short message take few instructions.
 * System calls are counted in the same way: those of the first message to a peer, and those of
 * looking after 200 peers.
 *
 * TEST: sources=@fabric variants=plain timeout=120
 */
#include "test_fab_world.h"

#include <errno.h>
#include <sys/ptrace.h>

#include "fabric/fab_core.h"
#include "shm/shm.h"

enum { MANY = 200, PASSES = 512, MESSAGES = 64 };

static fab_shm_domain_t *shm_domain(world_t *world)
{
    return (fab_shm_domain_t *) fab_core(world->fab)->slots[1].dom;
}

/* ---- counting ----------------------------------------------------------- */

/*
 * Instructions of fn(), run in a copy of this process.  The copy has the same memory, shared
 * segments included, so its fabric works for what is not concerned with its pid.  Returns 0 if
 * single-stepping is not possible here.
 */
static unsigned long count_stops(enum __ptrace_request request, void (*fn)(void *), void *arg)
{
    unsigned long n = 0;
    int status;
    pid_t pid = fork();

    if (0 == pid) {
        if (0 != ptrace(PTRACE_TRACEME, 0, NULL, NULL)) {
            _exit(1);
        }
        raise(SIGSTOP);
        fn(arg);
        raise(SIGSTOP);
        _exit(0);
    }
    if (waitpid(pid, &status, 0) < 0 || !WIFSTOPPED(status)) {
        return 0;
    }
    while (0 == ptrace(request, pid, NULL, NULL) && waitpid(pid, &status, 0) > 0 &&
           WIFSTOPPED(status) && SIGSTOP != WSTOPSIG(status)) {
        n++;
    }
    kill(pid, SIGKILL);
    waitpid(pid, &status, 0);
    return n;
}

static unsigned long count_instructions(void (*fn)(void *), void *arg)
{
    return count_stops(PTRACE_SINGLESTEP, fn, arg);
}

static void do_nothing(void *arg)
{
    (void) arg;
}

/* System calls of fn(): two stops each. */
static unsigned long count_calls(void (*fn)(void *), void *arg)
{
    return (count_stops(PTRACE_SYSCALL, fn, arg) - count_stops(PTRACE_SYSCALL, do_nothing, arg)) /
           2;
}

static void progress_some(void *arg)
{
    world_t *world = arg;

    for (int i = 0; i < PASSES; i++) {
        fab_progress(world->fab);
    }
}

static void send_some(void *arg)
{
    uint64_t data = 0;

    for (int i = 0; i < MESSAGES; i++) {
        (void) fab_send(arg, fab_hdr(AM_DATA, 0, 0), &data, sizeof(data));
    }
}

static void report(world_t *world, int slot, void (*fn)(void *), void *arg)
{
    unsigned long none = count_instructions(do_nothing, arg);
    unsigned long n = count_instructions(fn, arg);

    atomic_store(&world->shared->scratch[slot], n > none ? n - none : 0);
}

/* ---- idle peers --------------------------------------------------------- */

static double *idle_cost;         /* shared: with one peer, with many */
static unsigned long *tick_calls; /* shared */

static void tick(void *arg)
{
    fab_shm_domain_t *dom = arg;

    dom->next_tick = 0;
    fab_shm_tick(dom);
}

/*
 * Rank 0 hears once from everybody, lets their rings go cold, and counts what progress costs then.
 */
static void idle_body(world_t *world)
{
    world_barrier(world);
    if (world->rank > 0) {
        CHECK(OPAL_SUCCESS == fab_send(world_peer(world, 0), fab_hdr(AM_DATA, 0, 0), NULL, 0));
    } else {
        WORLD_UNTIL(world->got + 1 == (uint64_t) world->size && 0 == shm_domain(world)->num_hot);
        CHECK(shm_domain(world)->num_eps + 1 == (unsigned) world->size);
        while (0 != shm_domain(world)->pass % FAB_SHM_CLOCK_PASSES) {
            fab_progress(world->fab); /* the next clock is far */
        }
        report(world, 0, progress_some, world);
        *tick_calls = count_calls(tick, shm_domain(world));
    }
    atomic_fetch_add(&world->shared->scratch[1], 1);
    while ((int) atomic_load(&world->shared->scratch[1]) < world->size) {
        usleep(10000); /* without progress: 200 processes polling would take minutes */
    }
    if (0 == world->rank) {
        idle_cost[world->size > 2] = (double) atomic_load(&world->shared->scratch[0]) / PASSES;
    }
}

static void test_idle_peers_cost_nothing(void **state)
{
    (void) state;
    idle_cost = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    tick_calls = (unsigned long *) (idle_cost + 2);
    fab_params.providers = (char *) "shm"; /* what tcp looks at depends on the time */
    assert_int_equal(world_run(2, false, idle_body), 0);
    assert_int_equal(world_run(MANY + 1, false, idle_body), 0);
    print_message("progress with 1 idle peer: %.1f, with %d: %.1f instructions\n", idle_cost[0],
                  MANY, idle_cost[1]);
    assert_true(idle_cost[0] > 20 && idle_cost[1] < idle_cost[0] + 5);
    print_message("looking after %d peers: %lu system calls per tick\n", MANY, *tick_calls);
    /* four looks into /proc, each of which asks first whose pids are there */
    assert_true(*tick_calls > 0 && *tick_calls <= 4 * 7 + MANY / 8 + 3);
}

/* ---- short messages ----------------------------------------------------- */

static void receive_some(void *arg)
{
    world_t *world = arg;

    for (int i = 0; i < MESSAGES / FAB_SHM_BATCH; i++) {
        fab_progress(world->fab);
    }
}

static void wait_for_flag(world_t *world, int slot)
{
    while (0 == atomic_load(&world->shared->scratch[slot])) {
        usleep(1000);
    }
}

/*
 * Rank 1's copy sends; rank 0's copy receives that.  Afterwards neither original uses the ring: it
 * does not know of it.
 */
static void messages_body(world_t *world)
{
    fab_peer_t *peer = world_peer(world, 1 - world->rank);
    world_barrier(world);
    if (1 == world->rank) {
        CHECK(OPAL_SUCCESS == fab_send(peer, fab_hdr(AM_DATA, 0, 0), NULL, 0));
        wait_for_flag(world, 2);
        report(world, 0, send_some, peer);
        wait_for_flag(world, 1);
        return;
    }
    WORLD_UNTIL(1 == world->got);
    atomic_store(&world->shared->scratch[2], 1);
    wait_for_flag(world, 0);
    CHECK(1 == shm_domain(world)->num_hot);
    /* step by step it may take so long that there are several ticks */
    shm_domain(world)->next_tick = shm_domain(world)->next_pass = UINT64_MAX;
    report(world, 1, receive_some, world);
    double send = (double) atomic_load(&world->shared->scratch[0]) / MESSAGES;
    double receive = (double) atomic_load(&world->shared->scratch[1]) / MESSAGES;
    printf("short message: send %.1f, receive %.1f instructions\n", send, receive);
    fflush(stdout);
    /* without optimisation as well? no: about 300 */
    CHECK(send > 10 && send < 120 && receive > 10 && receive < 120);
}

static void test_short_messages(void **state)
{
    (void) state;
    assert_int_equal(world_run(2, false, messages_body), 0);
}

/* ---- the first message -------------------------------------------------- */

static void send_one(void *arg)
{
    (void) fab_send(arg, fab_hdr(AM_DATA, 0, 0), NULL, 0);
}

/* Rank 1's copy sends; the segment is rank 0's, which does nothing. */
static void first_body(world_t *world)
{
    fab_peer_t *peer = world_peer(world, 1 - world->rank);

    world_barrier(world);
    if (1 == world->rank) {
        unsigned long calls = count_calls(send_one, peer);
        printf("first message: %lu system calls\n", calls);
        fflush(stdout);
        CHECK(calls > 0 && calls <= 7); /* fab_shm_connect() */
    }
    world_barrier(world);
}

static void test_first_message(void **state)
{
    (void) state;
    assert_int_equal(world_run(2, false, first_body), 0);
}

/* No sanitizer: its instructions would be counted too. */
int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_idle_peers_cost_nothing),
        cmocka_unit_test(test_short_messages),
        cmocka_unit_test(test_first_message),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
