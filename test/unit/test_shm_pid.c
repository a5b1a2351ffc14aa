/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A peer died and another process has its pid: what is read from it is no data of the peer's, and
 * nothing is written into it.  And /proc is that of another pid namespace, where the peers' pids
 * are those of other processes: they are not taken for the peers.
 *
 * In a pid namespace of its own, where the test chooses pids; needs the right to make one.
 *
 * TEST: sources=@fabric variants=asan timeout=100
 */
#include "test_fab_world.h"

#include <linux/sched.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/syscall.h>

#include "fabric/fab_core.h"
#include "fabric/fab_counters.h"
#include "shm/shm.h"

enum { LEN = 4 << 20, SKIPPED = 77 };

/* What the processes tell each other. */
enum { NOTHING, FETCHED, REPLACED, DONE };

/* in all processes at the same address */
static unsigned char memory[LEN];
static unsigned char local[LEN];
static int completed;
static int complete_status;

static void rma_complete(fab_rma_t *op, int status)
{
    (void) op;
    completed++;
    complete_status = status;
}

static void wait_for(world_shared_t *shared, uint64_t what)
{
    while (atomic_load(&shared->scratch[0]) != what) {
        usleep(1000);
    }
}

static int transfer(world_t *world, int (*start)(fab_rma_t *))
{
    fab_rma_t op = {.peer = world_peer(world, 1),
                    .local = local,
                    .remote = (uint64_t) (uintptr_t) memory,
                    .len = LEN,
                    .complete = rma_complete};
    int before = completed;
    int rc = start(&op);

    if (OPAL_SUCCESS != rc) {
        return rc;
    }
    while (before == completed) { /* not WORLD_UNTIL: a failed peer ends it all the same */
        fab_progress(world->fab);
    }
    return complete_status;
}

/* Rank 1 waits to be killed; rank 0 reads its memory before and after. */
static void reader_body(world_t *world)
{
    bool is_put = 0 != atomic_load(&world->shared->scratch[1]);

    memset(memory, 1 == world->rank ? 'p' : 0, LEN);
    world_barrier(world);
    if (1 == world->rank) {
        while (true) {
            pause();
        }
    }
    CHECK(OPAL_SUCCESS == transfer(world, fab_get) && 'p' == local[0] && 'p' == local[LEN - 1]);
    atomic_store(&world->shared->scratch[0], FETCHED);
    wait_for(world->shared, REPLACED);
    memset(local, 'x', LEN);
    CHECK(OPAL_ERR_UNREACH == transfer(world, is_put ? fab_put : fab_get));
    WORLD_UNTIL(1 == world->failures);
    CHECK(OPAL_ERR_PROC_ABORTED == world->failed_rc);
    atomic_store(&world->shared->scratch[0], DONE);
}

/* Another process with that pid and memory at the same addresses. Returns what fork() does. */
static pid_t fork_as(pid_t pid)
{
    struct clone_args args = {
        .exit_signal = SIGCHLD, .set_tid = (uint64_t) (uintptr_t) &pid, .set_tid_size = 1};

    return (pid_t) syscall(SYS_clone3, &args, sizeof(args));
}

static void stranger(world_shared_t *shared)
{
    memset(memory, 's', LEN);
    atomic_store(&shared->scratch[0], REPLACED);
    wait_for(shared, DONE);
    for (size_t i = 0; i < LEN; i++) {
        if ('s' != memory[i]) {
            fprintf(stderr, "byte %zu of a stranger was overwritten\n", i);
            _exit(1);
        }
    }
    _exit(0);
}

/* ---- /proc of another namespace ----------------------------------------- */

enum { ROUNDS = 40 };

/* Messages to and fro, and in each round each peer is looked after. */
static void other_proc_body(world_t *world)
{
    fab_shm_domain_t *dom = (fab_shm_domain_t *) fab_core(world->fab)->slots[1].dom;
    fab_peer_t *peer = world_peer(world, 1 - world->rank);

    world_barrier(world);
    for (int i = 1; i <= ROUNDS; i++) {
        post(world, peer);
        WORLD_UNTIL((world->got >= (uint64_t) i && NULL == peer->pending) || 0 != world->failures);
        dom->next_tick = 0;
        fab_shm_tick(dom);
        world_progress(world);
        CHECK(0 == world->failures);
    }
    CHECK(1 == fab_counters.shm_segments_passed); /* /proc cannot be asked for it */
    world_barrier(world);
}

/* Processes of /proc's namespace with the pids that the job's will have; they have ended. */
static int other_proc_namespace(const pid_t *zombies)
{
    world_shared_t *shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE,
                                  MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    int wrong = 0, status;
    pid_t pids[2];

    for (int i = 0; i < 2; i++) {
        pids[i] = fork_as(zombies[i]);
        if (pids[i] < 0) {
            return SKIPPED;
        }
        if (0 == pids[i]) {
            world_child(i, 2, false, shared, other_proc_body);
        }
    }
    for (int i = 0; i < 2; i++) {
        pid_t pid = wait(&status);
        if (0 != status) { /* the other one would wait for it */
            kill(pids[pid == pids[0]], SIGKILL);
        }
        wrong += 0 != status;
    }
    return wrong;
}

static int other_proc(void)
{
    pid_t zombies[2], pid;
    int status = 1;

    for (int i = 0; i < 2; i++) {
        zombies[i] = fork();
        if (0 == zombies[i]) {
            _exit(0);
        }
    }
    if (0 != unshare(CLONE_NEWPID) && 0 != unshare(CLONE_NEWUSER | CLONE_NEWPID)) {
        return SKIPPED;
    }
    pid = fork();
    if (0 == pid) {
        _exit(other_proc_namespace(zombies));
    }
    waitpid(pid, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

static void test_other_proc(void **state)
{
    int status = 1;
    pid_t pid;

    (void) state;
    fflush(NULL);
    pid = fork();
    if (0 == pid) {
        _exit(other_proc());
    }
    waitpid(pid, &status, 0);
    if (WIFEXITED(status) && SKIPPED == WEXITSTATUS(status)) {
        print_message("SKIPPED: this process may not make a pid namespace\n");
        skip();
    }
    assert_int_equal(status, 0);
}

/* ---- a pid is reused ---------------------------------------------------- */

/* The namespace's first process, parent of all others. Returns its exit status. */
static int run_namespace(bool is_put)
{
    world_shared_t *shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE,
                                  MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    int status[2] = {1, 1};
    pid_t pids[2], other;

    if (MAP_FAILED == shared || 0 != mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) ||
        0 != mount("proc", "/proc", "proc", 0, NULL)) {
        return SKIPPED;
    }
    atomic_store(&shared->scratch[1], is_put);
    for (int i = 0; i < 2; i++) {
        pids[i] = fork();
        if (0 == pids[i]) {
            world_child(i, 2, false, shared, reader_body);
        }
    }
    while (FETCHED != atomic_load(&shared->scratch[0])) {
        if (0 != waitpid(pids[0], status, WNOHANG)) {
            return 1; /* rank 0 found something wrong */
        }
        usleep(1000);
    }
    kill(pids[1], SIGKILL);
    waitpid(pids[1], NULL, 0);
    other = fork_as(pids[1]);
    if (0 == other) {
        stranger(shared);
    }
    if (other < 0) {
        return SKIPPED;
    }
    waitpid(pids[0], &status[0], 0);
    atomic_store(&shared->scratch[0], DONE);
    waitpid(other, &status[1], 0);
    return 0 != status[0] || 0 != status[1];
}

static void test_reused(bool is_put)
{
    int status = 1;
    pid_t pid;

    fflush(NULL);
    pid = fork();
    if (0 == pid) {
        if (0 != unshare(CLONE_NEWPID | CLONE_NEWNS) &&
            0 != unshare(CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNS)) {
            _exit(SKIPPED);
        }
        pid = fork();
        if (0 == pid) {
            _exit(run_namespace(is_put));
        }
        waitpid(pid, &status, 0);
        _exit(WIFEXITED(status) ? WEXITSTATUS(status) : 1);
    }
    waitpid(pid, &status, 0);
    if (WIFEXITED(status) && SKIPPED == WEXITSTATUS(status)) {
        print_message("SKIPPED: this process may not make a pid namespace\n");
        skip();
    }
    assert_int_equal(status, 0);
}

static void test_get(void **state)
{
    (void) state;
    test_reused(false);
}

static void test_put(void **state)
{
    (void) state;
    test_reused(true);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_get),
        cmocka_unit_test(test_put),
        cmocka_unit_test(test_other_proc),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
