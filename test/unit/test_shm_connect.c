/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Claiming a ring of a peer's segment: kernels with large pages, more processes than the job has,
 * many claimers at once, limits of the process, and a lack of file descriptors or memory that
 * passes.
 *
 * What the provider asks of the kernel goes through the functions below, which play another one.
 *
 * TEST: sources=@fabric ldflags=-Wl,--wrap=fallocate,--wrap=mmap,--wrap=madvise,--wrap=sysconf,--wrap=open,--wrap=getrlimit,--wrap=prctl,--wrap=geteuid,--wrap=aligned_alloc variants=asan,tsan timeout=200
 */
#include "test_fab_jobs.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "fabric/fab_core.h"
#include "shm/shm.h"
#include "shm/shm_inl.h"

static fab_shm_domain_t *shm_domain(world_t *world)
{
    return (fab_shm_domain_t *) fab_core(world->fab)->slots[1].dom;
}

/* ---- the kernel that is played ------------------------------------------ */

static long page_size = 4096;
static long second_level = 1 << 20; /* bytes of the second-level cache */
static _Atomic long num_fallocates;
static pthread_barrier_t *meet; /* where each thread's first fallocate() waits for the others */
static _Thread_local bool has_met;
static int open_error;                     /* of open() below /proc; 0: none */
static int memory_errors;                  /* of the next calls that get memory */
static int memory_errno = ENOMEM;          /* what MADV_POPULATE_WRITE says then */
static int dumpable = 1;                   /* of prctl(PR_GET_DUMPABLE) */
static uid_t user = 1000;                  /* of geteuid() */
static rlim_t space_limit = RLIM_INFINITY; /* RLIMIT_AS; a real one would stop the sanitizers */

int __real_fallocate(int fd, int mode, off_t at, off_t len);
int __wrap_fallocate(int fd, int mode, off_t at, off_t len);
void *__real_mmap(void *addr, size_t len, int prot, int flags, int fd, off_t at);
void *__wrap_mmap(void *addr, size_t len, int prot, int flags, int fd, off_t at);
int __real_madvise(void *addr, size_t len, int advice);
static _Atomic size_t populated; /* bytes, by this process */
static int populate_error;       /* of MADV_POPULATE_WRITE; 0: none */

int __wrap_madvise(void *addr, size_t len, int advice);
long __real_sysconf(int name);
long __wrap_sysconf(int name);
int __real_open(const char *path, int flags, ...);
int __wrap_open(const char *path, int flags, ...);
int __real_getrlimit(__rlimit_resource_t resource, struct rlimit *limit);
int __wrap_getrlimit(__rlimit_resource_t resource, struct rlimit *limit);
int __wrap_prctl(int option, ...);
uid_t __wrap_geteuid(void);

int __wrap_fallocate(int fd, int mode, off_t at, off_t len)
{
    atomic_fetch_add(&num_fallocates, 1);
    if (NULL != meet && !has_met) {
        has_met = true;
        pthread_barrier_wait(meet);
    }
    if (memory_errors > 0 && 0 == mode) {
        memory_errors--;
        errno = ENOSPC;
        return -1;
    }
    return __real_fallocate(fd, mode, at, len);
}

void *__wrap_mmap(void *addr, size_t len, int prot, int flags, int fd, off_t at)
{
    if (0 != at % page_size) {
        errno = EINVAL;
        return MAP_FAILED;
    }
    return __real_mmap(addr, len, prot, flags, fd, at);
}

int __wrap_madvise(void *addr, size_t len, int advice)
{
    if (MADV_REMOVE == advice && 0 != len % (size_t) page_size) {
        errno = EINVAL;
        return -1;
    }
    if (MADV_POPULATE_WRITE == advice && 0 != populate_error) {
        errno = populate_error;
        return -1;
    }
    if (MADV_POPULATE_WRITE == advice && len > (size_t) page_size && memory_errors > 0) {
        memory_errors--;
        errno = memory_errno;
        return -1;
    }
    populated += MADV_POPULATE_WRITE == advice ? len : 0;
    return __real_madvise(addr, len, advice);
}

long __wrap_sysconf(int name)
{
    return _SC_PAGESIZE == name            ? page_size
           : _SC_LEVEL2_CACHE_SIZE == name ? second_level
                                           : __real_sysconf(name);
}

int __wrap_open(const char *path, int flags, ...)
{
    if (0 != open_error && 0 == strncmp(path, "/proc/", 6) && NULL != strstr(path, "/fd/")) {
        errno = open_error;
        return -1;
    }
    return __real_open(path, flags);
}

int __wrap_getrlimit(__rlimit_resource_t resource, struct rlimit *limit)
{
    int rc = __real_getrlimit(resource, limit);

    if (RLIMIT_AS == resource) {
        limit->rlim_cur = space_limit;
    }
    return rc;
}

int __wrap_prctl(int option, ...)
{
    return PR_GET_DUMPABLE == option ? dumpable : 0;
}

uid_t __wrap_geteuid(void)
{
    return user;
}

/* ---- large pages -------------------------------------------------------- */

/* Messages both ways; the rings are given back and claimed again. */
static void talk_body(world_t *world)
{
    fab_shm_domain_t *dom = shm_domain(world);

    CHECK(0 == fab_shm_ring_at(&dom->addr, 0) % (size_t) page_size);
    CHECK(0 == fab_shm_stride(&dom->addr) % (size_t) page_size);
    world_barrier(world);
    for (uint64_t round = 1; round <= 3; round++) {
        fab_peer_t *peer = world_peer(world, 1 - world->rank);
        char data[304] = "";
        CHECK(OPAL_SUCCESS == fab_post(peer, fab_hdr(AM_DATA, 0, 0), data, 256));
        WORLD_UNTIL(round == world->got && NULL == peer->pending);
        world_barrier(world);
        fab_peer_close(peer, FAB_USER_PML);
        world->peers[1 - world->rank] = NULL;
        WORLD_UNTIL(NULL == fab_peer_find(world->fab, world_name(1 - world->rank)));
        CHECK(LIST_EMPTY(&dom->eps) && 0 == world->failures); /* before the other sends again */
        world_barrier(world);
    }
}

static void test_large_pages(void **state)
{
    static const unsigned ring_sizes[] = {0, 4096, 65536, 1 << 20, 1 << 24};

    (void) state;
    for (page_size = 4096; page_size <= 1 << 18; page_size *= 4) {
        for (int i = 0; i < 5; i++) {
            fab_params.shm_ring_size = ring_sizes[i]; /* the largest is mapped by itself */
            assert_int_equal(world_run(2, false, talk_body), 0);
        }
    }
    fab_params.shm_ring_size = 0;
    page_size = 4096;
}

/* ---- memory ------------------------------------------------------------- */

/*
 * A ring, and the peer's first page, get memory and page-table entries with the first message, and
 * no more later; without the peer's file being opened once more.
 */
static void first_lap_body(world_t *world)
{
    fab_peer_t *peer = world_peer(world, 1 - world->rank);
    const size_t first = fab_shm_first_size(&shm_domain(world)->addr) + (size_t) page_size;
    const size_t ring = fab_shm_first_size(&shm_domain(world)->addr);

    populated = 0;
    open_error = EMFILE;
    world_barrier(world);
    for (uint64_t i = 1; i <= 2 * ring / FAB_SHM_LINE; i++) {
        if (0 == world->rank) {
            post(world, peer);
            CHECK(first == populated);
        }
        if (0 == i % 64) {
            WORLD_UNTIL(0 == world->rank || i == world->got);
            world_barrier(world);
        }
    }
    CHECK(0 == world->failures);
    CHECK((0 == world->rank ? first : 0) == populated);
    open_error = 0;
}

static long long bytes_of(const fab_shm_domain_t *dom)
{
    struct stat st;

    assert_int_equal(fstat(dom->file.fd, &st), 0);
    return (long long) st.st_blocks * 512;
}

/* Linux before 5.14 knows no MADV_POPULATE_WRITE: a ring has its memory all the same. */
static void old_kernel_body(world_t *world)
{
    const long long ring = fab_shm_first_size(&shm_domain(world)->addr);
    fab_peer_t *peer = world_peer(world, 1 - world->rank);

    populate_error = EINVAL;
    world_barrier(world);
    for (uint64_t i = 0; i < 40000 && 0 == world->rank; i++) {
        post(world, peer);
        if (0 == i % 64) {
            WORLD_UNTIL(NULL == peer->pending);
        }
    }
    WORLD_UNTIL(0 == world->rank ? NULL == peer->pending : 40000 == world->got);
    CHECK(0 == world->rank || bytes_of(shm_domain(world)) >= ring);
    CHECK(0 == world->failures);
    world_barrier(world);
    populate_error = 0;
}

static unsigned growth_error; /* of the call for the memory of the rest of the ring; 0: none */

/*
 * The rest of a ring gets memory, once, when 1 MiB has been sent in messages of several slots.  If
 * there is none, or the kernel cannot say so, the first part stays all of it.
 */
static void growth_body(world_t *world)
{
    enum { COUNT = 10000 }; /* of 8 slots */
    const fab_shm_addr_t *addr = &shm_domain(world)->addr;
    const size_t rest = addr->ring_size - fab_shm_first_size(addr);
    fab_peer_t *peer = world_peer(world, 1 - world->rank);
    static const unsigned char data[448];

    world_barrier(world);
    for (uint64_t i = 1; i <= COUNT; i++) {
        if (0 == world->rank) {
            WORLD_UNTIL(OPAL_SUCCESS == fab_send(peer, fab_hdr(AM_DATA, 0, 0), data, sizeof(data)));
            populated = 1 == i ? 0 : populated;
            populate_error = (int) growth_error;
            CHECK(i * 8 * FAB_SHM_LINE >= 1 << 20 || 0 == populated);
        }
        if (0 == i % 64) { /* a ring does not grow while the receiver is far behind */
            WORLD_UNTIL(0 == world->rank ? NULL == peer->pending : i == world->got);
            world_barrier(world);
        }
    }
    WORLD_UNTIL(0 == world->rank ? NULL == peer->pending : COUNT == world->got);
    CHECK(0 != world->rank || (0 == growth_error ? rest : 0) == populated);
    CHECK(0 == world->failures);
    world_barrier(world);
    populate_error = 0;
}

/* Processes that see pages of other sizes, as an emulator's may, do not communicate. */
static void other_pages_body(world_t *world)
{
    fab_peer_t *peer = NULL;
    const char *why = "";

    if (0 == world->rank) { /* as if it had been opened on another kernel */
        shm_domain(world)->addr.page = 65536;
        CHECK(OPAL_ERR_UNREACH == fab_peer_open(world->fab, FAB_USER_PML, world_name(1),
                                                world->shared->address[1], world->shared->len[1],
                                                &peer, &why));
        CHECK(NULL != strstr(why, "pages of 4096 bytes, this process's of 65536"));
        shm_domain(world)->addr.page = 4096;
    }
    world_barrier(world);
}

/* ---- peers that are prepared -------------------------------------------- */

static bool prepares; /* is the ring to be there before the first message? */

/* What has been got for the peer's ring and first page by now is all that is needed, or nothing. */
static bool is_connected(world_t *world, const fab_peer_t *peer)
{
    const size_t first = fab_shm_first_size(&shm_domain(world)->addr) + (size_t) page_size;
    const bool is_there = NULL != ((const fab_shm_ep_t *) peer->ep)->entry;

    CHECK((is_there ? first : 0) == populated);
    return is_there;
}

/* Prepare the peer twice, the first time without memory; then send to it. */
static void prepared_body(world_t *world)
{
    fab_peer_t *peer = world_peer(world, 1 - world->rank);

    populated = 0;
    memory_errors = 1;
    fab_peer_prepare(peer);
    CHECK(NULL == ((const fab_shm_ep_t *) peer->ep)->entry && prepares == (0 == memory_errors));
    memory_errors = 0;
    populated = 0;
    for (int i = 0; i < 2; i++) {
        fab_peer_prepare(peer);
        CHECK(prepares == is_connected(world, peer));
    }
    world_barrier(world);
    post(world, peer);
    CHECK(is_connected(world, peer));
    WORLD_UNTIL(1 == world->got);
    CHECK(0 == world->failures);
    world_barrier(world);
}

static void prepared(uint32_t num_local, unsigned ring_size, bool is_at_once)
{
    world_num_local = num_local;
    fab_params.shm_ring_size = ring_size;
    prepares = is_at_once;
    assert_int_equal(world_run(2, false, prepared_body), 0);
    world_num_local = 0;
    fab_params.shm_ring_size = 0;
}

/*
 * Up to eight processes connect before the first message: at first 512 KiB of rings to each.
 */
static void test_prepared(void **state)
{
    (void) state;
    prepared(2, 0, true);
    prepared(8, 0, true);
    prepared(9, 0, false);
    prepared(2, 256 << 10, true);
    prepared(2, 1 << 20, true);
    prepared(32, 16 << 10, true);
    prepared(33, 16 << 10, false);
}

/* ---- many senders, all in this process ---------------------------------- */

enum { CLAIMERS = 256, JOINERS = 1024 };

/* A process of the job, with endpoints towards itself that are not known to its fabric. */
typedef struct alone {
    fab_t *fab;
    fab_shm_domain_t *dom;
    fab_peer_t peer;
} alone_t;

static void alone_open(alone_t *alone, uint32_t num_local)
{
    fab_config_t config = {.name = 7, .num_local = num_local};
    const char *why = "";

    assert_int_equal(fab_open(&config, &alone->fab, &why), OPAL_SUCCESS);
    alone->dom = (fab_shm_domain_t *) fab_core(alone->fab)->slots[1].dom;
    alone->peer = (fab_peer_t){.name = 7};
}

/* An endpoint of a domain of its own: what one more process would have. */
static fab_shm_ep_t *alone_ep(alone_t *alone)
{
    fab_shm_domain_t *dom = calloc(1, sizeof(*dom));
    fab_shm_ep_t *ep = aligned_alloc(64, (sizeof(*ep) + 63) & ~(size_t) 63);

    dom->fab = alone->fab;
    dom->addr = alone->dom->addr;
    *ep = (fab_shm_ep_t){.peer = &alone->peer, .dom = dom, .addr = alone->dom->addr};
    return ep;
}

static void alone_ep_free(fab_shm_ep_t *ep)
{
    fab_shm_disconnect(ep);
    free(ep->dom);
    free(ep);
}

/* The length of a ring, by the number of processes of the job and the second-level cache. */
static void test_ring_length(void **state)
{
    enum { KIB = 1024, MIB = 1024 * KIB };
    static const struct {
        uint32_t num_local;
        uint32_t size; /* bytes */
        long second_level;
    } rows[] = {
        {1, 256 * KIB, 1 * MIB},      {2, 256 * KIB, 1 * MIB},  {8, 256 * KIB, 1 * MIB},
        {9, 128 * KIB, 1 * MIB},      {16, 128 * KIB, 1 * MIB}, {17, 64 * KIB, 1 * MIB},
        {32, 64 * KIB, 1 * MIB},      {128, 64 * KIB, 1 * MIB}, {129, 32 * KIB, 1 * MIB},
        {256, 32 * KIB, 1 * MIB},     {512, 16 * KIB, 1 * MIB}, {4096, 16 * KIB, 1 * MIB},
        {2, 512 * KIB, 2 * MIB},      {4, 512 * KIB, 2 * MIB},  {5, 256 * KIB, 2 * MIB},
        {8, 256 * KIB, 2 * MIB},      {9, 128 * KIB, 2 * MIB},  {2, 512 * KIB, 64 * MIB},
        {2, 256 * KIB, 2 * MIB - 64}, {2, 256 * KIB, 0},        {2, 256 * KIB, -1},
    };
    alone_t alone;

    (void) state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        second_level = rows[i].second_level;
        alone_open(&alone, rows[i].num_local);
        assert_int_equal(alone.dom->addr.ring_size, rows[i].size);
        fab_close(alone.fab, FAB_USER_PML);
    }
    second_level = 1 * MIB;
}

/* Of four processes with a limit: rings, and bytes of the segment; 0: it does not open. */
static void limited(rlim_t file, rlim_t space, uint32_t rings, size_t most)
{
    fab_config_t config = {.name = 7, .num_local = 4};
    struct rlimit saved, limit;
    const char *why = "";
    alone_t alone;

    assert_int_equal(__real_getrlimit(RLIMIT_FSIZE, &saved), 0);
    limit = (struct rlimit){.rlim_cur = file, .rlim_max = saved.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
    space_limit = space;
    if (0 == rings) {
        assert_int_equal(fab_open(&config, &alone.fab, &why), OPAL_ERR_NOT_AVAILABLE);
        assert_non_null(strstr(why, strerror(EFBIG)));
    } else {
        alone_open(&alone, config.num_local);
        assert_int_equal(alone.dom->addr.num_rings, rings);
        assert_true(fab_shm_seg_size(&alone.dom->addr) <= most);
        fab_close(alone.fab, FAB_USER_PML);
    }
    space_limit = RLIM_INFINITY;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &saved), 0);
}

/* Spare rings are left out where they would exceed a limit, those of the job are not. */
static void test_limits(void **state)
{
    const rlim_t mib = 1 << 20;

    (void) state;
    fab_params.shm_ring_size = 1 << 20;
    limited(RLIM_INFINITY, RLIM_INFINITY, 4 + 1024, SIZE_MAX);
    limited(1100 * mib, RLIM_INFINITY, 4 + 1024, 1100 * mib);
    limited(1000 * mib, RLIM_INFINITY, 4 + 512, 1000 * mib);
    limited(6 * mib, RLIM_INFINITY, 4 + 1, 6 * mib);
    limited(5 * mib, RLIM_INFINITY, 4, 5 * mib);
    limited(4 * mib, RLIM_INFINITY, 0, 0);
    limited(RLIM_INFINITY, 3000 * mib, 4 + 128, 3000 * mib / 16);
    limited(100 * mib, 3000 * mib, 4 + 64, 100 * mib);
    limited(RLIM_INFINITY, 16 * mib, 4, 5 * mib);
    fab_params.shm_ring_size = 0;
}

/* Whose files below /proc cannot be opened is not reached by shm, except as root. */
static void test_not_dumpable(void **state)
{
    fab_config_t config = {.name = 7, .num_local = 2};
    const char *why = "";
    alone_t alone;

    (void) state;
    for (dumpable = 0; dumpable <= 2; dumpable += 2) {
        assert_int_equal(fab_open(&config, &alone.fab, &why), OPAL_ERR_NOT_AVAILABLE);
        assert_non_null(strstr(why, "PR_SET_DUMPABLE"));
        user = 0;
        alone_open(&alone, 2);
        fab_close(alone.fab, FAB_USER_PML);
        user = 1000;
    }
    dumpable = -1;
    alone_open(&alone, 2);
    fab_close(alone.fab, FAB_USER_PML);
    dumpable = 1;
}

static void *claim_main(void *arg)
{
    const char *why = "";

    return OPAL_SUCCESS == fab_shm_connect(arg, &why) ? NULL : arg;
}

/* 256 senders that begin at the same moment find a ring each, and none tries all entries. */
static void test_many_at_once(void **state)
{
    pthread_barrier_t barrier;
    fab_shm_ep_t *eps[CLAIMERS];
    pthread_t threads[CLAIMERS];
    alone_t alone;

    (void) state;
    fab_params.shm_ring_size = 4096;
    alone_open(&alone, CLAIMERS);
    assert_int_equal(pthread_barrier_init(&barrier, NULL, CLAIMERS), 0);
    num_fallocates = 0;
    meet = &barrier;
    for (int i = 0; i < CLAIMERS; i++) {
        eps[i] = alone_ep(&alone);
        assert_int_equal(pthread_create(&threads[i], NULL, claim_main, eps[i]), 0);
    }
    for (int i = 0; i < CLAIMERS; i++) {
        void *failed;
        pthread_join(threads[i], &failed);
        assert_null(failed);
    }
    meet = NULL;
    for (int i = 0; i < CLAIMERS; i++) {
        assert_int_equal(fab_shm_state_of(alone.dom->entries[i].state), FAB_SHM_READY);
    }
    print_message("%d senders at once: %ld calls of fallocate()\n", CLAIMERS, num_fallocates);
    /* one for the ring, the others for entries, which all of them may find without memory */
    assert_true(num_fallocates <= 4 * CLAIMERS);
    for (int i = 0; i < CLAIMERS; i++) {
        alone_ep_free(eps[i]);
    }
    pthread_barrier_destroy(&barrier);
    fab_close(alone.fab, FAB_USER_PML);
    fab_params.shm_ring_size = 0;
}

/* By default a process alone in its job has rings for 1024 others; only those used have memory. */
static void test_many_join(void **state)
{
    fab_shm_ep_t *eps[JOINERS];
    const char *why = "";
    alone_t alone;

    (void) state;
    alone_open(&alone, 1);
    fab_close(alone.fab, FAB_USER_PML);
    fab_params.shm_ring_size = 4096;
    alone_open(&alone, 1);
    assert_true(bytes_of(alone.dom) <= 4096);
    for (int i = 0; i < JOINERS; i++) {
        eps[i] = alone_ep(&alone);
        assert_int_equal(fab_shm_connect(eps[i], &why), OPAL_SUCCESS);
        if (9 == i) {
            assert_true(bytes_of(alone.dom) <= 2 * 4096 + 10 * 4096); /* head and entries, rings */
        }
    }
    for (int i = 0; i < JOINERS; i++) {
        alone_ep_free(eps[i]);
    }
    fab_close(alone.fab, FAB_USER_PML);
    fab_params.shm_ring_size = 0;
}

/* Eighty processes that the receiver's job did not count; those it did are two. */
static void joined_body(world_t *world)
{
    world_barrier(world);
    if (world->rank > 0) {
        post(world, world_peer(world, 0));
        WORLD_UNTIL(NULL == world_peer(world, 0)->pending);
    } else {
        WORLD_UNTIL(world->got + 1 == (uint64_t) world->size);
    }
    world_barrier(world);
    CHECK(0 == world->failures && 0 == fab_counters.shm_rings_exhausted);
}

/* ---- not now ------------------------------------------------------------ */

/*
 * No file descriptor, no memory (of this process, or of shared memory: EFAULT): the message waits,
 * and goes when there is some again.
 */
static void not_now_body(world_t *world)
{
    static const int errors[] = {EMFILE, ENFILE, ENOMEM};

    world_barrier(world);
    for (uint64_t i = 0; i < 5; i++) {
        if (1 == world->rank) {
            unsigned long long before = fab_counters.shm_connect_retries;
            open_error = i < 3 ? errors[i] : 0;
            memory_errors = i >= 3 ? 5 : 0;
            memory_errno = 4 == i ? EFAULT : ENOMEM;
            fab_peer_t *zero = world_peer(world, 0);
            CHECK(OPAL_ERR_RESOURCE_BUSY == fab_send(zero, fab_hdr(AM_DATA, 0, 0), NULL, 0));
            post(world, zero);
            WORLD_UNTIL(fab_counters.shm_connect_retries >= before + 4);
            open_error = 0;
            WORLD_UNTIL(NULL == zero->pending);
            CHECK(FAB_PEER_UP == zero->state);
            fab_peer_close(zero, FAB_USER_PML);
            world->peers[0] = NULL;
        } else {
            WORLD_UNTIL(i + 1 == world->got);
        }
        world_barrier(world);
    }
    CHECK(0 == world->failures);
}

/* The kernel's own limit; given back by the program. */
static void no_fd_body(world_t *world)
{
    struct rlimit saved, limit;

    world_barrier(world);
    if (1 == world->rank) {
        CHECK(0 == getrlimit(RLIMIT_NOFILE, &saved));
        limit = (struct rlimit){.rlim_cur = 3, .rlim_max = saved.rlim_max};
        CHECK(0 == setrlimit(RLIMIT_NOFILE, &limit));
        fab_peer_t *zero = world_peer(world, 0);
        post(world, zero);
        WORLD_UNTIL(fab_counters.shm_connect_retries >= 3);
        CHECK(NULL != zero->pending && FAB_PEER_UP == zero->state);
        CHECK(0 == setrlimit(RLIMIT_NOFILE, &saved));
        WORLD_UNTIL(NULL == zero->pending);
    } else {
        WORLD_UNTIL(1 == world->got);
    }
    world_barrier(world);
    CHECK(0 == world->failures);
}

static bool are_rings_free(const fab_shm_domain_t *dom)
{
    uint32_t i = 0;

    while (i < fab_shm_high(dom) && FAB_SHM_FREE == fab_shm_state_of(dom->entries[i].state)) {
        i++;
    }
    return i == fab_shm_high(dom);
}

/*
 * After the peer came, the program uses up its descriptors, changes its root directory or user, or
 * the peer closes its descriptors or forbids others to look at it: the first message goes, also by
 * a ring that is not among the first.
 */
static void found_body(world_t *world)
{
    static const int errors[] = {EMFILE, ENOENT, EACCES};
    const uint32_t num_errors = sizeof(errors) / sizeof(errors[0]);

    world_barrier(world);
    for (uint64_t i = 0; i < 2 * num_errors; i++) {
        if (1 == world->rank) {
            fab_peer_t *zero = world_peer(world, 0);
            char data[304] = "";
            if (i >= num_errors) {
                fab_shm_ep_t *ep = zero->ep;
                atomic_store(&ep->seg->claim_hint, ep->addr.num_ahead + (uint32_t) i);
            }
            open_error = errors[i % num_errors];
            CHECK(OPAL_SUCCESS == fab_send(zero, fab_hdr(AM_DATA, 0, 0), data, sizeof(data)));
            CHECK((i >= num_errors) == (0 != ((fab_shm_ep_t *) zero->ep)->ring_len));
            open_error = 0;
            fab_peer_close(zero, FAB_USER_PML);
            world->peers[0] = NULL;
        } else { /* the two rings that the peer has mapped are to be free again */
            WORLD_UNTIL(i + 1 == world->got);
            WORLD_UNTIL(are_rings_free(shm_domain(world)));
        }
        world_barrier(world);
    }
    CHECK(0 == world->failures);
}

/* A socket of a stranger, which has a name of its own. */
static int stranger_open(const world_t *world, const fab_shm_addr_t *addr, struct sockaddr_un *to,
                         socklen_t *to_len)
{
    const struct sockaddr_un none = {.sun_family = AF_UNIX};
    const struct timeval limit = {.tv_sec = 60}; /* beside others polls can be ms apart */
    int fd = socket(AF_UNIX, SOCK_DGRAM, 0);

    CHECK(fd >= 0 && 0 == bind(fd, (const struct sockaddr *) &none, sizeof(none.sun_family)));
    CHECK(0 == setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit)));
    *to = (struct sockaddr_un){.sun_family = AF_UNIX};
    *to_len = (socklen_t) (offsetof(struct sockaddr_un, sun_path) + 1 +
                           (size_t) snprintf(to->sun_path + 1, 16, "%05x", addr->socket - 1));
    return fd;
}

/* Who does not know the nonce, or speaks another version, or sends too little, gets no answer. */
static void check_strangers(const world_t *world, const fab_shm_addr_t *addr)
{
    fab_shm_pass_t text = {.magic = FAB_SHM_ASK, .version = FAB_SHM_VERSION}, answer;
    struct sockaddr_un to;
    socklen_t to_len;
    int fd = stranger_open(world, addr, &to, &to_len);

    for (int i = 0; i < 4; i++) { /* the last is a process of the job */
        memcpy(text.nonce, addr->nonce, sizeof(text.nonce));
        text.nonce[0] ^= 0 == i;
        text.version = FAB_SHM_VERSION + (1 == i);
        CHECK(sendto(fd, &text, 2 == i ? 20 : sizeof(text), 0, (struct sockaddr *) &to, to_len) >
              0);
    }
    CHECK((ssize_t) sizeof(answer) == recv(fd, &answer, sizeof(answer), 0));
    CHECK(FAB_SHM_GIVE == answer.magic);
    CHECK(-1 == recv(fd, &answer, sizeof(answer), MSG_DONTWAIT));
    close(fd);
}

/* /proc refuses: the owner, which is in MPI, passes its segment. */
static void passed_body(world_t *world)
{
    fab_peer_t *other;

    open_error = 0 == world->rank ? EACCES : ENOENT;
    other = world_peer(world, 1 - world->rank);
    world_barrier(world);
    if (1 == world->rank) {
        check_strangers(world, &((fab_shm_ep_t *) other->ep)->addr);
        atomic_store(&world->shared->scratch[0], 1);
    } else {
        WORLD_UNTIL(0 != atomic_load(&world->shared->scratch[0]));
    }
    post(world, other);
    CHECK(NULL != other->pending);
    WORLD_UNTIL(1 == world->got && NULL == other->pending);
    CHECK(1 == fab_counters.shm_segments_passed && 0 == world->failures);
    open_error = 0;
    world_barrier(world);
}

/* The owner computes: after shm_connect_timeout the user is told, once. The message waits on. */
static void computes_body(world_t *world)
{
    if (0 == world->rank) {
        open_error = EACCES;
        fab_peer_t *one = world_peer(world, 1);
        world_barrier_idle(world);
        post(world, one);
        unsigned long long before = fab_counters.shm_connect_retries;
        WORLD_UNTIL(fab_counters.shm_connect_retries >= before + 4);
        CHECK(1 == world->said && NULL != strstr(world->last_said, "only while it is in MPI"));
        CHECK(FAB_PEER_UP == one->state && NULL != one->pending);
        world_barrier_idle(world);
        WORLD_UNTIL(NULL == one->pending);
    } else {
        world_barrier_idle(world);
        world_barrier_idle(world);
        WORLD_UNTIL(1 == world->got);
    }
    CHECK(0 == world->failures);
    world_barrier(world);
}

/*
 * The answer comes after the asker has closed the peer, or after the peer has left: the segment is
 * not mapped.
 */
static void passed_late_body(world_t *world)
{
    if (0 == world->rank) {
        open_error = EACCES;
        fab_peer_t *one = world_peer(world, 1);
        fab_shm_ep_t *ep = one->ep;
        world_barrier(world);
        WORLD_UNTIL(1 == world->got); /* it has a ring here */
        post(world, one);             /* asks */
        CHECK(NULL != one->pending && NULL != ep->in);
        world_barrier_idle(world);
        if (0 == atomic_load(&world->shared->scratch[1])) {
            fab_peer_close(one, FAB_USER_PML);
            world->peers[1] = NULL;
            world_barrier_idle(world); /* it has answered */
            fab_shm_pass_serve(shm_domain(world));
            CHECK(NULL == ep->seg && 0 == fab_counters.shm_segments_passed);
            world_barrier_idle(world);
            WORLD_UNTIL(NULL == fab_peer_find(world->fab, world_name(1)));
            CHECK(LIST_EMPTY(&shm_domain(world)->eps));
        } else {
            world_barrier_idle(world); /* it has answered */
            world_barrier_idle(world);
            while (!atomic_load(&world->shared->scratch[0])) { /* it has left */
                sched_yield();
            }
            fab_shm_pass_serve(shm_domain(world));
            CHECK(NULL == ep->seg && 0 == fab_counters.shm_segments_passed);
            WORLD_UNTIL(1 == world->failures);
        }
        open_error = 0;
    } else {
        fab_peer_t *zero = world_peer(world, 0);
        world_barrier(world);
        CHECK(OPAL_SUCCESS == fab_send(zero, fab_hdr(AM_DATA, 0, 0), NULL, 0));
        world_barrier_idle(world);
        fab_shm_pass_serve(shm_domain(world));
        world_barrier_idle(world);
        world_barrier_idle(world);
        fab_close(world->fab, FAB_USER_PML);
        atomic_store(&world->shared->scratch[0], 1);
        _exit(0);
    }
}

static void passed_late_left_body(world_t *world)
{
    atomic_store(&world->shared->scratch[1], 1);
    passed_late_body(world);
}

/* ... and there is no socket: that peer fails, with the reason. */
static void refused_body(world_t *world)
{
    world_barrier(world);
    if (1 == world->rank) {
        open_error = EACCES;
        shm_domain(world)->addr.socket = 0;
        CHECK(OPAL_ERR_UNREACH == fab_send(world_peer(world, 0), fab_hdr(AM_DATA, 0, 0), NULL, 0));
        WORLD_UNTIL(1 == world->failures);
        CHECK(OPAL_ERR_UNREACH == world->failed_rc);
        CHECK(NULL != strstr(world->failed_why, "cannot be opened"));
        open_error = 0;
    }
    world_barrier(world);
}

/* Another user namespace: by the socket, if both have one in the same network namespace. */
static void test_namespaces(void **state)
{
    alone_t alone;
    fab_peer_t peer = {.name = 8};
    fab_shm_addr_t addr;
    const char *why = "";

    (void) state;
    alone_open(&alone, 1);
    peer.fab = alone.fab;
    for (int i = 0; i < 4; i++) {
        addr = alone.dom->addr;
        addr.user_ns += 1;
        addr.uid += 1; /* means nothing there */
        addr.net_ns += 1 == i;
        addr.socket = 2 == i ? 0 : addr.socket;
        addr.user_ns -= 3 == i; /* the same: that is another user */
        assert_int_equal(fab_shm_attach((fab_domain_t *) alone.dom, &peer, &addr, &why),
                         0 == i ? OPAL_SUCCESS : OPAL_ERR_UNREACH);
        if (0 == i) {
            fab_shm_detach((fab_domain_t *) alone.dom, &peer);
        }
    }
    fab_close(alone.fab, FAB_USER_PML);
}

/* ---- no memory for the peer --------------------------------------------- */

void *__real_aligned_alloc(size_t align, size_t len);
void *__wrap_aligned_alloc(size_t align, size_t len);
static int endpoint_errors; /* so many endpoints get no memory */

void *__wrap_aligned_alloc(size_t align, size_t len)
{
    if (endpoint_errors > 0 && len == fab_shm_round_up(sizeof(fab_shm_ep_t), 64)) {
        endpoint_errors--;
        errno = ENOMEM;
        return NULL;
    }
    return __real_aligned_alloc(align, len);
}

/* Rank 0 has no memory for rank 1: it does not go on to tcp, while rank 1 sends by shm. */
static void one_way_body(world_t *world)
{
    fab_peer_t *peer = NULL;
    const char *why = "";

    if (0 == world->rank) {
        endpoint_errors = 1;
        CHECK(OPAL_ERR_OUT_OF_RESOURCE == fab_peer_open(world->fab, FAB_USER_PML, world_name(1),
                                                        world->shared->address[1],
                                                        world->shared->len[1], &peer, &why));
        CHECK(NULL != strstr(why, "not enough memory"));
    }
    peer = world_peer(world, 1 - world->rank);
    CHECK(0 == strcmp("shm", fab_peer_provider_name(peer)));
    post(world, peer);
    WORLD_UNTIL(1 == world->got && NULL == peer->pending);
    CHECK(0 == world->failures);
    world_barrier(world);
}

/* A message comes from rank 1, for which rank 0 has no memory. Rank 1 learns that by a tick. */
static void refused_ring_body(world_t *world)
{
    fab_shm_domain_t *dom = shm_domain(world);

    endpoint_errors = 0 == world->rank;
    world_barrier(world);
    if (1 == world->rank) {
        fab_peer_t *zero = world_peer(world, 0);
        CHECK(OPAL_SUCCESS == fab_send(zero, fab_hdr(AM_DATA, 0, 0), NULL, 0));
        while (0 == world->failures) {
            dom->next_tick = 0;
            fab_shm_tick(dom);
            world_progress(world);
        }
        CHECK(OPAL_ERR_UNREACH == world->failed_rc);
        CHECK(NULL != strstr(world->failed_why, "has no memory for it"));
    }
    world_barrier(world);
    CHECK(0 == world->got && (1 == world->rank) == world->failures);
}

/* It does not come back: that peer fails, with the reason. */
static void never_body(world_t *world)
{
    world_barrier(world);
    if (1 == world->rank) {
        open_error = EMFILE; /* before the peer comes */
        post(world, world_peer(world, 0));
        WORLD_UNTIL(1 == world->failures);
        CHECK(fab_counters.shm_connect_retries > 0 && OPAL_ERR_UNREACH == world->failed_rc);
        CHECK(NULL != strstr(world->failed_why, strerror(EMFILE)));
        CHECK(NULL != strstr(world->failed_why, "This was tried for"));
        open_error = 0;
    }
    world_barrier(world);
}

/* ---- a ring that is not polled ------------------------------------------ */

/* What comes by a cold ring arrives as well, but is not seen before a poll has found it. */
static void cold_body(world_t *world)
{
    fab_peer_t *peer = world_peer(world, 1 - world->rank);

    world_barrier(world);
    CHECK(!fab_has_come(peer)); /* there is no ring */
    world_barrier_idle(world);
    if (1 == world->rank) {
        post(world, peer);
        world_barrier_idle(world);
        world_barrier_idle(world);
        post(world, peer);
    } else {
        world_barrier_idle(world);
        WORLD_UNTIL(1 == world->got);
        CHECK(!fab_has_come(peer));
        fab_shm_in_cool(shm_domain(world), ((fab_shm_ep_t *) peer->ep)->in);
        CHECK(NULL == ((fab_shm_ep_t *) peer->ep)->rx);
        CHECK(!fab_has_come(peer));
        world_barrier_idle(world);
    }
    world_barrier_idle(world);
    if (0 == world->rank) {
        CHECK(!fab_has_come(peer));
        WORLD_UNTIL(2 == world->got);
    }
    world_barrier(world);
    CHECK(0 == world->failures);
}

/* A message in a new ring, or a cold one, is taken by the first poll after it. */
static void rung_body(world_t *world)
{
    fab_peer_t *peer = world_peer(world, 1 - world->rank);

    world_barrier(world);
    for (uint64_t i = 0; i < 2 * FAB_SHM_SWEEP_PASSES; i++) {
        world_barrier_idle(world);
        if (1 == world->rank) {
            post(world, peer);
        }
        world_barrier_idle(world);
        if (0 == world->rank) {
            CHECK(i == world->got && NULL == ((fab_shm_ep_t *) peer->ep)->rx);
            CHECK(1 == fab_shm_poll(shm_domain(world)) && i + 1 == world->got);
            fab_shm_in_cool(shm_domain(world), ((fab_shm_ep_t *) peer->ep)->in);
        }
    }
    world_barrier(world);
    CHECK(0 == world->failures);
}

/*
 * The sender did not see that the ring went cold, and did not ring: the ring is found all the same,
 * at once where polls may be far apart.
 */
static void missed_body(world_t *world)
{
    fab_peer_t *peer = world_peer(world, 1 - world->rank);
    fab_shm_ep_t *ep;

    world->fab->is_yielding = true;
    world_barrier(world);
    for (uint64_t i = 0; i < FAB_SHM_SWEEP_PASSES; i++) {
        if (1 == world->rank) {
            post(world, peer);
            world_barrier_idle(world);
            world_barrier_idle(world);
            ep = peer->ep;
            ep->tx.rung = atomic_load(&ep->tx.ctl->idle);
            CHECK(1 == ep->tx.rung % 2);
            post(world, peer);
            world_barrier_idle(world);
        } else {
            world_barrier_idle(world);
            WORLD_UNTIL(2 * i + 1 == world->got);
            fab_shm_in_cool(shm_domain(world), ((fab_shm_ep_t *) peer->ep)->in);
            world_barrier_idle(world);
            world_barrier_idle(world);
            CHECK(1 == fab_progress(world->fab) && 2 * i + 2 == world->got);
        }
        world_barrier_idle(world);
    }
    world_barrier(world);
    CHECK(0 == world->failures);
}

/* Polls that may be far apart read the clock. */
static void test_tick(void **state)
{
    alone_t alone;

    (void) state;
    alone_open(&alone, 1);
    for (int i = 0; i < 3; i++) {
        alone.fab->is_yielding = 1 == i;
        alone.fab->may_sleep = 2 == i;
        alone.dom->next_tick = 0;
        (void) fab_progress(alone.fab);
        assert_int_equal(0 != alone.dom->next_tick, 0 != i);
    }
    fab_close(alone.fab, FAB_USER_PML);
}

/* ---- the segment's file descriptor -------------------------------------- */

/* A program closed all its files and opened others: they stay open. */
static void test_fd_of_the_user(void **state)
{
    alone_t alone;
    struct stat before, after;
    int fd, user;

    (void) state;
    alone_open(&alone, 1);
    fd = alone.dom->file.fd;
    user = open("/dev/null", O_RDONLY);
    assert_true(user >= 0 && fd == dup2(user, fd));
    close(user);
    assert_int_equal(fstat(fd, &before), 0);
    fab_close(alone.fab, FAB_USER_PML);
    assert_int_equal(fstat(fd, &after), 0);
    assert_true(before.st_dev == after.st_dev && before.st_ino == after.st_ino);
    close(fd);
    alone_open(&alone, 1);
    fd = alone.dom->file.fd;
    fab_close(alone.fab, FAB_USER_PML);
    assert_int_equal(fstat(fd, &after), -1); /* its own is closed */
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ring_length),
        cmocka_unit_test(test_large_pages),
        WORLD_JOB("test_first_lap", first_lap_body),
        WORLD_JOB("test_other_pages", other_pages_body),
        cmocka_unit_test(test_many_at_once),
        cmocka_unit_test(test_many_join),
        WORLD_JOB("test_joined", joined_body, .ranks = 80, .number = {{&world_num_local, 2}}),
        WORLD_JOB("test_not_now", not_now_body),
        WORLD_JOB("test_no_fd", no_fd_body),
        WORLD_JOB("test_never", never_body, .number = {{&fab_limits.shm_connect_timeout, 1}}),
        cmocka_unit_test(test_fd_of_the_user),
        cmocka_unit_test(test_limits),
        cmocka_unit_test(test_not_dumpable),
        WORLD_JOB("test_old_kernel", old_kernel_body),
        WORLD_JOB("test_growth", growth_body),
        WORLD_JOB("test_growth no memory", growth_body, .number = {{&growth_error, EFAULT}}),
        WORLD_JOB("test_growth old kernel", growth_body, .number = {{&growth_error, EINVAL}}),
        WORLD_JOB("test_cold", cold_body),
        WORLD_JOB("test_found", found_body, .number = {{&world_num_local, 2}}),
        WORLD_JOB("test_rung", rung_body),
        WORLD_JOB("test_missed", missed_body),
        cmocka_unit_test(test_tick),
        WORLD_JOB("test_passed", passed_body, .number = {{&fab_limits.shm_connect_timeout, 120}}),
        WORLD_JOB("test_refused", refused_body),
        cmocka_unit_test(test_namespaces),
        cmocka_unit_test(test_prepared),
        WORLD_JOB("test_computes", computes_body, .number = {{&fab_limits.shm_connect_timeout, 0}}),
        WORLD_JOB("test_passed_late", passed_late_body),
        WORLD_JOB("test_passed_late left", passed_late_left_body),
        WORLD_JOB("test_no_endpoint", one_way_body, .text = {&fab_params.providers, "shm,tcp"}),
        WORLD_JOB("test_no_endpoint refused_ring", refused_ring_body,
                  .text = {&fab_params.providers, "shm,tcp"}),
    };

    fab_params.providers = (char *) "shm";
    cmocka_set_test_filter(argc > 1 ? argv[1] : NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
