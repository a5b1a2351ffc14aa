/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The flow of messages by the tcp provider: which leave at once and which together, the window of a
 * receiver that does not read, the connection that epoll leaves out, fragments that are read to
 * their destination, and how long they are within the host.
 *
 * TEST: sources=@fabric variants=asan,tsan timeout=300
 */
#include "test_fab_faults.h"
#include "test_fab_jobs.h"
#include "test_tcp_world.h"

#include <netinet/in.h>
#include <netinet/tcp.h>

/* ---- a receiver that does nothing ------------------------------------------ */

/* A receiver that does nothing: its sender's memory is bounded, and it goes on later. */
static void flood_body(world_t *world)
{
    static unsigned char buf[32768];
    fab_peer_t *peer = world_peer(world, 1 - world->rank);
    uint64_t sent = 0;

    world_barrier(world);
    if (1 == world->rank) {
        post(world, peer);
        double until = world_now() + 0.5;
        bool is_stopped = false, is_blocked = false;
        while (world_now() < until || !is_stopped || !is_blocked) { /* a busy host takes longer */
            int rc = fab_send(peer, fab_hdr(AM_DATA, 0, 0), buf, sizeof(buf));
            sent += OPAL_SUCCESS == rc;
            is_stopped = is_stopped || OPAL_ERR_RESOURCE_BUSY == rc;
            world_progress(world);
            is_blocked = is_blocked || ep_of(peer)->is_blocked;
            CHECK(ep_of(peer)->num_out <= FAB_TCP_QUEUE);
        }
        atomic_store(&world->shared->scratch[0], sent + 1);
        WORLD_UNTIL(1 == atomic_load(&world->shared->scratch[1]));
    } else {
        WORLD_UNTIL(world->got > 0);
        while (0 == atomic_load(&world->shared->scratch[0])) {
            usleep(1000);
        }
        WORLD_UNTIL(atomic_load(&world->shared->scratch[0]) == world->got);
        atomic_store(&world->shared->scratch[1], 1);
    }
    CHECK(0 == world->failures);
    world_barrier(world);
}

/*
 * A process ends with messages that the kernel took in part, or not at all, as its peer computes:
 * they arrive.  It waits as pml tm does.
 */
static void leave_full_body(world_t *world)
{
    enum { LEN = 16000, LATE_US = 1000000 };
    static unsigned char buf[LEN];
    fab_peer_t *peer = world_peer(world, 1 - world->rank);
    uint64_t sent = 0;

    world_barrier(world);
    post(world, peer);
    WORLD_UNTIL(1 == world->got);
    world_barrier(world);
    if (1 == world->rank) {
        while (!ep_of(peer)->is_blocked) {
            sent += OPAL_SUCCESS == fab_send(peer, fab_hdr(AM_DATA, 0, 0), buf, sizeof(buf));
            world_progress(world);
        }
        CHECK(NULL != ep_of(peer)->out);
        atomic_store(&world->shared->scratch[0], 1 + sent);
        WORLD_UNTIL(!fab_has_queued(world->fab));
        fab_peer_close(peer, FAB_USER_PML);
        WORLD_UNTIL(!fab_has_queued(world->fab));
        return;
    }
    while (0 == atomic_load(&world->shared->scratch[0])) {
        usleep(1000);
    }
    usleep(LATE_US); /* time enough to leave without them */
    WORLD_UNTIL(0 == tcp_domain(world)->num_up || world->failures > 0);
    CHECK(atomic_load(&world->shared->scratch[0]) == world->got && 0 == world->failures);
}

/*
 * A receiver that computes for longer than tcp_timeout, and has no room for what is sent, is not
 * lost.
 */
static void computing_body(world_t *world)
{
    enum { MESSAGES = 24, LEN = 32768 };
    static unsigned char buf[LEN];
    fab_peer_t *peer = world_peer(world, 1 - world->rank);

    world_barrier(world);
    post(world, peer);
    WORLD_UNTIL(1 == world->got);
    world_barrier(world);
    if (0 == world->rank) {
        for (int sent = 0; sent < MESSAGES;) {
            sent += OPAL_SUCCESS == fab_send(peer, fab_hdr(AM_DATA, 0, 0), buf, sizeof(buf));
            world_progress(world);
        }
        WORLD_UNTIL(1 == atomic_load(&world->shared->scratch[1]) || world->failures > 0);
    } else {
        sleep(4 * fab_params.tcp_timeout);
        WORLD_UNTIL(1 + MESSAGES == world->got);
        atomic_store(&world->shared->scratch[1], 1);
    }
    CHECK(0 == world->failures);
    world_barrier(world);
}

/* ---- the queue ------------------------------------------------------------ */

/* The first are with the kernel at once; others are told to wait, and leave together. */
static void together_body(world_t *world)
{
    enum { MESSAGES = 64 };
    fab_peer_t *peer = world_peer(world, 1 - world->rank);

    world_barrier(world);
    post(world, peer);
    WORLD_UNTIL(1 == world->got && NULL == peer->pending);
    world_barrier_idle(world);
    CHECK(0 <= fab_progress(world->fab));
    unsigned long long writes = fab_counters.tcp_writes;
    for (unsigned i = 1; i <= FAB_TCP_ALONE; i++) {
        CHECK(OPAL_SUCCESS == fab_send(peer, fab_hdr(AM_DATA, 0, 0), NULL, 0));
        CHECK(i + writes == fab_counters.tcp_writes && NULL == ep_of(peer)->out);
    }
    writes += FAB_TCP_ALONE;
    for (int i = FAB_TCP_ALONE; i < MESSAGES; i++) {
        CHECK(OPAL_ERR_RESOURCE_BUSY == fab_send(peer, fab_hdr(AM_DATA, 0, 0), NULL, 0));
        post(world, peer);
    }
    CHECK(writes == fab_counters.tcp_writes);
    WORLD_UNTIL(NULL == peer->pending);
    CHECK(writes + 2 >= fab_counters.tcp_writes && NULL == ep_of(peer)->out);
    WORLD_UNTIL(1 + MESSAGES == world->got);
    world_barrier(world);
}

/* ---- the hot connection --------------------------------------------------- */

static uint64_t due; /* messages that are waited for: one may arrive in the barrier before */

static void await_one(world_t *world)
{
    due++;
    WORLD_UNTIL(due <= world->got);
}

/* Rank 0 and another send each other so many messages by turns. */
static void exchange(world_t *world, int other, int num)
{
    for (int i = 0; i < num; i++) {
        if (0 == world->rank) {
            post(world, world_peer(world, other));
        }
        await_one(world);
        if (0 != world->rank) {
            post(world, world_peer(world, 0));
        }
    }
}

/* This rank sends a message to rank 0. */
static void send_one(world_t *world, int from)
{
    world_barrier(world);
    if (from == world->rank) {
        post(world, world_peer(world, 0));
    } else if (0 == world->rank) {
        await_one(world);
    }
    world_barrier(world);
}

/*
 * A connection by which many messages come is muted until others come by another.  None is in a
 * process that may sleep, or yields.
 */
static void muted_body(world_t *world)
{
    const fab_tcp_domain_t *dom = tcp_domain(world);

    world->fab->may_sleep = 1 == world->rank;
    world->fab->is_yielding = 2 == world->rank;
    for (int i = 0; i < 9; i++) {
        const int other = 1 + i % 3;
        world_barrier(world);
        if (0 == world->rank || other == world->rank) {
            exchange(world, other, 2 * FAB_TCP_MUTE_READS);
            CHECK(dom->hot->is_muted == (0 == world->rank || 3 == world->rank));
        }
    }
    send_one(world, 1);
    CHECK(0 != world->rank || (dom->hot == ep_of(world_peer(world, 1)) && !dom->hot->is_muted &&
                               !ep_of(world_peer(world, 3))->is_muted));
    send_one(world, 3); /* it is noticed again */
    CHECK(0 != world->rank || (dom->hot == ep_of(world_peer(world, 3)) && !dom->hot->is_muted));
}

/* ---- the window --------------------------------------------------------- */

/* Read away what was written to the peer; its first READ, if any, says *told bytes. */
static void take_all(int fd, uint32_t *told)
{
    static unsigned char buf[1 << 18];
    fab_tcp_hdr_t hdr;
    ssize_t n = recv(fd, buf, sizeof(buf), MSG_DONTWAIT);

    if (n >= (ssize_t) sizeof(hdr)) {
        memcpy(&hdr, buf, sizeof(hdr));
        *told = FAB_TCP_ID_CREDIT == (hdr.id_len & 0xff) ? (uint32_t) hdr.tag : 0;
    }
}

/* Send as many messages as go, to a peer whose kernel takes everything. Returns their bytes. */
static size_t fill_window(world_t *world, fab_peer_t *peer, int fd)
{
    static const unsigned char buf[16384];
    size_t sum = 0;
    uint32_t told;

    for (unsigned long long full = fab_counters.no_credit; full == fab_counters.no_credit;) {
        sum += OPAL_SUCCESS == fab_send(peer, fab_hdr(AM_DATA, 0, 0), buf, sizeof(buf))
                   ? sizeof(fab_tcp_hdr_t) + sizeof(buf)
                   : 0;
        take_all(fd, &told);
        world_progress(world);
    }
    return sum;
}

/*
 * No more is sent than the window holds, until the peer says that it has read; it cannot have read
 * more than was sent. What this process reads it tells.
 */
static void window_body(world_t *world)
{
    const size_t size = sizeof(fab_tcp_hdr_t) + 16384;
    uint32_t told = 0;
    size_t sent;
    int fd;
    fab_peer_t *peer = mad_peer(world, UINT64_C(9) << 32, &fd);

    sent = fill_window(world, peer, fd);
    CHECK(sent >= FAB_TCP_WINDOW && sent < FAB_TCP_WINDOW + size);
    write_hdr(world, fd, FAB_TCP_ID_CREDIT, 10 * (uint32_t) size);
    sent = fill_window(world, peer, fd);
    CHECK(sent >= 9 * size && sent <= 11 * size);

    for (uint64_t i = 0; i < FAB_TCP_WINDOW / 4 / sizeof(fab_tcp_hdr_t); i++) {
        CHECK(0 == told);
        write_hdr(world, fd, AM_DATA, 0);
        take_all(fd, &told);
    }
    WORLD_UNTIL(FAB_TCP_WINDOW / 4 / sizeof(fab_tcp_hdr_t) == world->got);
    take_all(fd, &told);
    CHECK(FAB_TCP_WINDOW / 4 == told);

    CHECK(0 == world->failures);
    write_hdr(world, fd, FAB_TCP_ID_CREDIT, 10 * (uint32_t) size - 1); /* less than before */
    WORLD_UNTIL(1 == world->failures);
    fab_peer_close(peer, FAB_USER_PML);
    close(fd);
}

/* ---- much at once --------------------------------------------------------- */

enum { CROWD = 100, CROWD_MESSAGES = 6, CROWD_LEN = 20000 };

typedef struct crowd {
    fab_peer_t *peer[CROWD];
    int fd[CROWD];
} crowd_t;

static void crowd_open(world_t *world, crowd_t *crowd)
{
    for (unsigned i = 0; i < CROWD; i++) {
        crowd->peer[i] = mad_peer(world, (UINT64_C(9) << 32) + i, &crowd->fd[i]);
    }
}

static void crowd_close(world_t *world, crowd_t *crowd)
{
    CHECK(0 == world->failures);
    for (unsigned i = 0; i < CROWD; i++) {
        close(crowd->fd[i]);
        fab_peer_close(crowd->peer[i], FAB_USER_PML);
    }
}

/* Bytes of a message from one to another, as many of each peer. */
static void crowd_write(world_t *world, const crowd_t *crowd, size_t from, size_t to)
{
    static struct {
        fab_tcp_hdr_t hdr;
        unsigned char payload[CROWD_LEN];
    } message = {.hdr = {.id_len = AM_DATA | CROWD_LEN << 8}};

    for (unsigned i = 0; i < CROWD; i++) {
        CHECK((ssize_t) (to - from) ==
              send(crowd->fd[i], (const char *) &message + from, to - from, MSG_NOSIGNAL));
    }
    fab_tcp_expect(tcp_domain(world));
}

static void stop_arrived(void *ctx, fab_peer_t *peer, fab_hdr_t hdr, const void *data, size_t len)
{
    world_count(ctx, peer, hdr, data, len);
    peer->fab->must_return = true;
}

/*
 * However much is there from however many, a poll reads a limited part of it, and stops at a
 * handler's wish; nobody is left out.
 */
static void bounded_body(world_t *world)
{
    const size_t size = sizeof(fab_tcp_hdr_t) + CROWD_LEN;
    static crowd_t crowd;

    crowd_open(world, &crowd);
    for (int stops = 0; stops < 2; stops++) {
        fab_set_handler(world->fab, AM_DATA, 1 == stops ? stop_arrived : world_count, world);
        world->got = 0;
        for (int i = 0; i < CROWD_MESSAGES; i++) {
            crowd_write(world, &crowd, 0, size);
        }
        while (world->got < CROWD * CROWD_MESSAGES) {
            const uint64_t before = world->got;
            world_progress(world); /* of all connections, and of the hot one */
            CHECK((world->got - before) * size <=
                  2 * (1 == stops ? FAB_TCP_BUF : FAB_TCP_READ_MAX + FAB_TCP_BUF));
        }
    }
    crowd_close(world, &crowd);
}

/* Parts of messages take no more memory than these messages, if there are many. */
static void parts_body(world_t *world)
{
    const size_t size = sizeof(fab_tcp_hdr_t) + CROWD_LEN;
    static crowd_t crowd;
    uint64_t sum = 0;

    crowd_open(world, &crowd);
    crowd_write(world, &crowd, 0, 100);
    for (unsigned i = 0; i < CROWD; i++) {
        const fab_tcp_ep_t *ep = ep_of(crowd.peer[i]);
        WORLD_UNTIL(NULL != ep->in && 100 == ep->in->node.end - ep->in->node.start);
        sum += ep->in->size;
    }
    CHECK(CROWD == tcp_domain(world)->num_parts && 0 == world->got);
    CHECK(sum <= FAB_TCP_PARTS * FAB_TCP_BUF + (CROWD - FAB_TCP_PARTS) * size);
    crowd_write(world, &crowd, 100, 9000);
    crowd_write(world, &crowd, 9000, size);
    crowd_write(world, &crowd, 0, size);
    WORLD_UNTIL(2 * CROWD == world->got);
    CHECK(0 == tcp_domain(world)->num_parts);
    crowd_close(world, &crowd);
}

/* ---- fragments of long messages --------------------------------------------- */

enum { AM_FRAGMENT = 10, FRAGMENTS = 4, FRAGMENT = 32768 };

static unsigned char fragment_place[FRAGMENT];

static void *place_fragment(void *ctx, fab_peer_t *peer, fab_hdr_t hdr, size_t len)
{
    (void) ctx, (void) peer, (void) hdr;
    return FRAGMENT == len ? fragment_place : NULL;
}

static void fragment_arrived(void *ctx, fab_peer_t *peer, fab_hdr_t hdr, const void *data,
                             size_t len)
{
    world_t *world = peer->fab->config.ctx;

    CHECK(FRAGMENT == len && world_is_filled(data, (unsigned) hdr.tag, len));
    ++*(uint64_t *) ctx;
}

/* After the first fragment others go to their place, also if all have come before they are read. */
static void fragments_body(world_t *world)
{
    static unsigned char payload[FRAGMENT];
    uint64_t got = 0;
    int fd;
    fab_peer_t *peer = mad_peer(world, UINT64_C(9) << 32, &fd);

    fab_set_handler(world->fab, AM_FRAGMENT, fragment_arrived, &got);
    fab_set_place(world->fab, AM_FRAGMENT, place_fragment, NULL);
    for (uint32_t i = 0; i < FRAGMENTS; i++) {
        const fab_tcp_hdr_t hdr = {.id_len = AM_FRAGMENT | FRAGMENT << 8, .tag = 1 + i};
        world_fill(payload, 1 + i, sizeof(payload));
        CHECK((ssize_t) sizeof(hdr) == send(fd, &hdr, sizeof(hdr), MSG_NOSIGNAL));
        CHECK((ssize_t) sizeof(payload) == send(fd, payload, sizeof(payload), MSG_NOSIGNAL));
        fab_tcp_expect(tcp_domain(world));
        WORLD_UNTIL(got > 0);
    }
    WORLD_UNTIL(FRAGMENTS == got);
    CHECK(FRAGMENTS - 1 <= fab_counters.tcp_placed);
    fab_peer_close(peer, FAB_USER_PML);
    close(fd);
}

/* ---- within the host ---------------------------------------------------------- */

static const struct {
    size_t len;   /* that is to be sent */
    size_t taken; /* of it, as one fragment */
} locals[] = {
    {FAB_FRAGMENT_MAX + 1, FAB_FRAGMENT_MAX + 1},
    {FAB_TCP_WHOLE, FAB_TCP_WHOLE},
    {FAB_TCP_WHOLE + 1, FAB_TCP_LONG},
    {FAB_FRAGMENT_LOCAL_MAX, FAB_TCP_LONG},
};

enum { LOCALS = sizeof(locals) / sizeof(locals[0]) };

static unsigned char local_bytes[FAB_FRAGMENT_LOCAL_MAX];

static void *place_local(void *ctx, fab_peer_t *peer, fab_hdr_t hdr, size_t len)
{
    (void) ctx, (void) peer;
    return hdr.tag < LOCALS && len == locals[hdr.tag].taken ? local_bytes : NULL;
}

static void local_arrived(void *ctx, fab_peer_t *peer, fab_hdr_t hdr, const void *data, size_t len)
{
    world_t *world = peer->fab->config.ctx;
    uint64_t *got = ctx;

    CHECK(hdr.tag == *got && data == local_bytes && world_is_filled(data, (unsigned) hdr.tag, len));
    ++*got;
}

static void local_complete(fab_out_t *out, int status)
{
    out->head = OPAL_SUCCESS == status ? local_bytes : NULL; /* for send_local() */
}

static void send_local(world_t *world, fab_peer_t *peer, unsigned i)
{
    fab_out_t out = {.buf = local_bytes, .complete = local_complete};
    int rc;

    world_fill(local_bytes, i, sizeof(local_bytes));
    do {
        out.len = locals[i].len;
        rc = fab_item_send_from(peer, fab_hdr(AM_FRAGMENT, i, 0), &out);
        world_progress(world);
    } while (OPAL_ERR_RESOURCE_BUSY == rc);
    CHECK(OPAL_SUCCESS == rc && locals[i].taken == out.len);
    WORLD_UNTIL(local_bytes == out.head);
}

/* Few and long fragments, and congestion control that does not pace. */
static void local_body(world_t *world)
{
    fab_peer_t *peer = world_peer(world, 1 - world->rank);
    char name[16] = "";
    socklen_t len = sizeof(name);
    uint64_t got = 0;

    fab_set_handler(world->fab, AM_FRAGMENT, local_arrived, &got);
    fab_set_place(world->fab, AM_FRAGMENT, place_local, NULL);
    world_barrier(world);
    for (unsigned i = 0; i < LOCALS && 0 == world->rank; i++) {
        send_local(world, peer, i);
    }
    WORLD_UNTIL(0 == world->rank || LOCALS == got);
    CHECK(0 == getsockopt(ep_of(peer)->fd, IPPROTO_TCP, TCP_CONGESTION, name, &len));
    CHECK(0 == strcmp(name, "reno"));
    CHECK(0 == world->failures);
    world_barrier(world);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        WORLD_JOB("test_flood", flood_body),
        WORLD_JOB("test_leave_full", leave_full_body),
        WORLD_JOB("test_computing", computing_body, .number = {{&fab_params.tcp_timeout, 1}}),
        WORLD_JOB("test_together", together_body),
        WORLD_JOB("test_muted", muted_body, .ranks = 4),
        WORLD_JOB("test_window", window_body, .ranks = 1),
        WORLD_JOB("test_fragments", fragments_body, .ranks = 1),
        WORLD_JOB("test_local", local_body),
        WORLD_JOB("test_bounded", bounded_body, .ranks = 1),
        WORLD_JOB("test_parts", parts_body, .ranks = 1),
    };

    world_use_providers("tcp");
    cmocka_set_test_filter(argc > 1 ? argv[1] : NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
