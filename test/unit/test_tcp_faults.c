/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The tcp provider among strangers and with damaged bytes: connections that do not belong to the
 * job, questions that cross, peers that die, leave or send what they must not.
 *
 * TEST: sources=@fabric ldflags=-Wl,--wrap=malloc,--wrap=epoll_ctl variants=asan,tsan timeout=300
 */
#include "test_fab_faults.h"
#include "test_strangers.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/resource.h>

#include "fabric/fab_core.h"
#include "fabric/fab_wire.h"
#include "tcp/tcp_types.h"

static fab_tcp_domain_t *tcp_domain(world_t *world)
{
    const fab_core_t *core = fab_core(world->fab);

    for (int i = 0; i < FAB_NUM_PROVIDERS; i++) {
        if (&fab_tcp_provider == fab_providers[i]) {
            return (fab_tcp_domain_t *) core->slots[i].dom;
        }
    }
    return NULL;
}

static fab_tcp_ep_t *ep_of(fab_peer_t *peer)
{
    return fab_tcp_ep_of(peer);
}

/* ---- strangers ---------------------------------------------------------- */

/* A greeting that is right, but for one byte that is not of its name: any name may call. */
static void say_damaged_greeting(world_t *world)
{
    fab_sock_greeting_t greeting = stranger_greeting(FAB_WIRE_TCP);
    size_t at = (size_t) random() % (offsetof(fab_sock_greeting_t, nonce) - sizeof(greeting.name));
    int fd = stranger_call(world);

    at += at < offsetof(fab_sock_greeting_t, name) ? 0 : sizeof(greeting.name);
    ((unsigned char *) &greeting)[at] ^= (unsigned char) (1 + random() % 255);
    CHECK((ssize_t) sizeof(greeting) == send(fd, &greeting, sizeof(greeting), MSG_NOSIGNAL));
    CHECK(0 == stranger_end(fd));
}

/* A question that would be right, with the proof of another key. */
static void ask_with_wrong_key(world_t *world, int i, const fab_tcp_frame_t *hello)
{
    uint8_t key[FAB_SOCK_KEY];

    memcpy(key, ep_of(world_peer(world, 0))->addr.key, sizeof(key));
    key[i % FAB_SOCK_KEY] ^= (uint8_t) (1 << i / 2 % 8);
    CHECK(0 == stranger_asks(world, FAB_WIRE_TCP, key, hello, sizeof(*hello)));
}

/* With the right key: what it says after that is of the job, and still has to make sense. */
static void say_nonsense(world_t *world, const fab_tcp_frame_t *hello)
{
    /* REFUSE comes back, or nothing */
    (void) stranger_asks(world, FAB_WIRE_TCP, ep_of(world_peer(world, 0))->addr.key, hello,
                         sizeof(*hello));
}

enum { IDLE = FAB_SOCK_STRANGERS + 8, STRANGERS = 300 };

static void stranger_calls(world_t *world)
{
    fab_tcp_domain_t *dom = tcp_domain(world);
    fab_tcp_frame_t hello = {.kind = FAB_TCP_HELLO, .serial = 1, .addr = dom->addr};
    int idle[IDLE];

    for (int i = 0; i < IDLE; i++) {
        idle[i] = stranger_call(world); /* and never says a word */
    }
    for (int i = 0; i < STRANGERS; i++) {
        stranger_says_garbage(world);
        if (i % 2) {
            say_damaged_greeting(world);
        } else {
            ask_with_wrong_key(world, i, &hello);
        }
    }
    hello.kind = FAB_TCP_WELCOME;
    say_nonsense(world, &hello);
    hello.kind = FAB_TCP_HELLO;
    hello.addr.num_ips = 77;
    say_nonsense(world, &hello);
    hello.addr = ep_of(world_peer(world, 0))->addr; /* it says that it is rank 0 itself */
    say_nonsense(world, &hello);
    for (int i = 0; i < IDLE; i++) {
        close(idle[i]);
    }
}

static void check_strangers(world_t *world)
{
    const fab_tcp_domain_t *dom = tcp_domain(world);

    /* not all may have been accepted yet, and those that were silent for long need not be read */
    WORLD_UNTIL(IDLE + 2 * STRANGERS <= fab_counters.tcp_strangers);
    WORLD_UNTIL(!fab_sock_set_is_busy(dom->socks));
    CHECK(IDLE + 2 * STRANGERS == fab_counters.tcp_strangers && 0 == dom->num_up);
    CHECK(fab_counters.tcp_bad_messages + fab_counters.tcp_refused > 1);
}

static void strangers_body(world_t *world)
{
    stranger_world(world, tcp_domain(world)->socks, stranger_calls, check_strangers);
}

static void test_strangers(void **state)
{
    (void) state;
    assert_int_equal(world_run(2, false, strangers_body), 0);
}

static void check_nobody_up(world_t *world)
{
    CHECK(0 == tcp_domain(world)->num_up);
}

static void wrong_key_body(world_t *world)
{
    stranger_has_wrong_key(world, ep_of(world_peer(world, 1 - world->rank))->addr.key,
                           check_nobody_up);
}

static void test_wrong_key(void **state)
{
    (void) state;
    assert_int_equal(world_run(2, false, wrong_key_body), 0);
}

/* ---- connections -------------------------------------------------------- */

enum { CROSSINGS = 100 };

static void crossed_body(world_t *world)
{
    cross(world, CROSSINGS, &fab_counters.tcp_crossed);
    CHECK(0 == tcp_domain(world)->num_up);
    CHECK(CROSSINGS * (unsigned) (world->size - 1) == fab_counters.tcp_connections);
    world_barrier(world);
}

static void test_crossed(void **state)
{
    (void) state;
    assert_int_equal(world_run(4, false, crossed_body), 0);
}

/* The first of a process's addresses leads nowhere: the next is tried. */
static void other_addresses_body(world_t *world)
{
    fab_tcp_addr_t *addr = &tcp_domain(world)->addr;
    uint64_t got = 0;

    fab_set_handler(world->fab, AM_DATA, count_arrived, &got);
    memmove(addr->ips + 1, addr->ips, sizeof(addr->ips[0]) * (FAB_SOCK_IPS - 1));
    addr->num_ips += addr->num_ips < FAB_SOCK_IPS;
    /* one of its own address that refuses: nobody listens on port 1 */
    addr->ips[0].port = 1;
    addr->ips[0].net = FAB_SOCK_NET_PLAIN;
    world->shared->len[world->rank] = fab_address(world->fab, world->shared->address[world->rank],
                                                  FAB_ADDRESS_MAX);
    world_barrier(world);
    post(world, world_peer(world, 1 - world->rank));
    WORLD_UNTIL(1 == got);
    world_barrier(world);
}

static void test_other_addresses(void **state)
{
    (void) state;
    assert_int_equal(world_run(2, false, other_addresses_body), 0);
}

/* A process that dies fails at its peer, after all that it sent. */
static void death_body(world_t *world)
{
    fab_peer_t *peer = world_peer(world, 1 - world->rank);
    uint64_t got = 0;

    fab_set_handler(world->fab, AM_DATA, count_arrived, &got);
    world_barrier(world);
    if (1 == world->rank) {
        for (int i = 0; i < 1000; i++) {
            post(world, peer);
        }
        WORLD_UNTIL(NULL == peer->pending && NULL == ep_of(peer)->out);
        raise(SIGKILL);
    }
    WORLD_UNTIL(1 == world->failures);
    CHECK(1000 == got && world->failed == peer && OPAL_ERR_PROC_ABORTED == world->failed_rc);
    CHECK(OPAL_ERR_UNREACH == fab_send(peer, fab_hdr(AM_DATA, 0, 0), NULL, 0));
}

static void test_death(void **state)
{
    (void) state;
    assert_int_equal(world_run_some_die(2, false, death_body, 1 << 1), 0);
}

/* A process that leaves has not failed, and can be sent nothing. */
static void leave_body(world_t *world)
{
    fab_peer_t *peer = world_peer(world, 1 - world->rank);
    uint64_t got = 0;

    fab_set_handler(world->fab, AM_DATA, count_arrived, &got);
    world_barrier(world);
    if (1 == world->rank) {
        for (int i = 0; i < 1000; i++) {
            post(world, peer);
        }
        WORLD_UNTIL(NULL == peer->pending);
        return;
    }
    WORLD_UNTIL(1000 == got && 0 == tcp_domain(world)->num_up);
    CHECK(0 == world->failures && 1 == world->left);
    CHECK(OPAL_ERR_UNREACH == fab_send(peer, fab_hdr(AM_DATA, 0, 0), NULL, 0));
    WORLD_UNTIL(1 == world->failures);
    CHECK(NULL != strstr(world->failed_why, "left"));
}

static void test_leave(void **state)
{
    (void) state;
    assert_int_equal(world_run(2, false, leave_body), 0);
}

static void test_leave_needed(void **state)
{
    (void) state;
    assert_int_equal(world_run(2, false, leave_needed_body), 0);
}

/* A receiver that does nothing: its sender's memory is bounded, and it goes on later. */
static void flood_body(world_t *world)
{
    static unsigned char buf[32768];
    fab_peer_t *peer = world_peer(world, 1 - world->rank);
    uint64_t got = 0, sent = 0;

    fab_set_handler(world->fab, AM_DATA, count_arrived, &got);
    world_barrier(world);
    if (1 == world->rank) {
        post(world, peer);
        double until = world_now() + 0.5;
        bool is_stopped = false;
        while (world_now() < until) {
            int rc = fab_send(peer, fab_hdr(AM_DATA, 0, 0), buf, sizeof(buf));
            sent += OPAL_SUCCESS == rc;
            is_stopped = is_stopped || OPAL_ERR_RESOURCE_BUSY == rc;
            world_progress(world);
            CHECK(ep_of(peer)->num_out <= FAB_TCP_QUEUE);
        }
        CHECK(is_stopped && fab_counters.tcp_blocked > 0);
        atomic_store(&world->shared->scratch[0], sent + 1);
        WORLD_UNTIL(1 == atomic_load(&world->shared->scratch[1]));
    } else {
        WORLD_UNTIL(got > 0);
        while (0 == atomic_load(&world->shared->scratch[0])) {
            usleep(1000);
        }
        WORLD_UNTIL(atomic_load(&world->shared->scratch[0]) == got);
        atomic_store(&world->shared->scratch[1], 1);
    }
    CHECK(0 == world->failures);
    world_barrier(world);
}

static void test_flood(void **state)
{
    (void) state;
    assert_int_equal(world_run(2, false, flood_body), 0);
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
    uint64_t got = 0;

    fab_set_handler(world->fab, AM_DATA, count_arrived, &got);
    world_barrier(world);
    post(world, peer);
    WORLD_UNTIL(1 == got);
    world_barrier(world);
    if (0 == world->rank) {
        for (int sent = 0; sent < MESSAGES;) {
            sent += OPAL_SUCCESS == fab_send(peer, fab_hdr(AM_DATA, 0, 0), buf, sizeof(buf));
            world_progress(world);
        }
        WORLD_UNTIL(1 == atomic_load(&world->shared->scratch[1]) || world->failures > 0);
    } else {
        sleep(4 * fab_params.tcp_timeout);
        WORLD_UNTIL(1 + MESSAGES == got);
        atomic_store(&world->shared->scratch[1], 1);
    }
    CHECK(0 == world->failures);
    world_barrier(world);
}

static void test_computing(void **state)
{
    const unsigned usual = fab_params.tcp_timeout;

    (void) state;
    fab_params.tcp_timeout = 1;
    assert_int_equal(world_run(2, false, computing_body), 0);
    fab_params.tcp_timeout = usual;
}

/* What was sent is with the kernel: others are told to wait, and leave together. */
static void together_body(world_t *world)
{
    enum { MESSAGES = 64 };
    fab_peer_t *peer = world_peer(world, 1 - world->rank);
    uint64_t got = 0;

    fab_set_handler(world->fab, AM_DATA, count_arrived, &got);
    world_barrier(world);
    post(world, peer);
    WORLD_UNTIL(1 == got && NULL == peer->pending);
    world_barrier_idle(world);
    CHECK(0 <= fab_progress(world->fab));
    unsigned long long writes = fab_counters.tcp_writes;
    CHECK(OPAL_SUCCESS == fab_send(peer, fab_hdr(AM_DATA, 0, 0), NULL, 0));
    CHECK(1 + writes == fab_counters.tcp_writes && NULL == ep_of(peer)->out);
    for (int i = 1; i < MESSAGES; i++) {
        CHECK(OPAL_ERR_RESOURCE_BUSY == fab_send(peer, fab_hdr(AM_DATA, 0, 0), NULL, 0));
        post(world, peer);
    }
    CHECK(1 + writes == fab_counters.tcp_writes);
    WORLD_UNTIL(NULL == peer->pending);
    CHECK(writes + 3 >= fab_counters.tcp_writes && NULL == ep_of(peer)->out);
    WORLD_UNTIL(1 + MESSAGES == got);
    world_barrier(world);
}

static void test_together(void **state)
{
    (void) state;
    assert_int_equal(world_run(2, false, together_body), 0);
}

/* ---- the hot connection --------------------------------------------------- */

typedef struct arrivals {
    uint64_t got; /* first: of count_arrived() */
    uint64_t due; /* what is waited for: a message may arrive in the barrier before */
} arrivals_t;

static void await_one(world_t *world, arrivals_t *arrivals)
{
    arrivals->due++;
    WORLD_UNTIL(arrivals->due <= arrivals->got);
}

/* Rank 0 and another send each other so many messages by turns. */
static void exchange(world_t *world, int other, int num, arrivals_t *arrivals)
{
    for (int i = 0; i < num; i++) {
        if (0 == world->rank) {
            post(world, world_peer(world, other));
        }
        await_one(world, arrivals);
        if (0 != world->rank) {
            post(world, world_peer(world, 0));
        }
    }
}

/* This rank sends a message to rank 0. */
static void send_one(world_t *world, int from, arrivals_t *arrivals)
{
    world_barrier(world);
    if (from == world->rank) {
        post(world, world_peer(world, 0));
    } else if (0 == world->rank) {
        await_one(world, arrivals);
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
    arrivals_t arrivals = {.got = 0};

    fab_set_handler(world->fab, AM_DATA, count_arrived, &arrivals);
    world->fab->may_sleep = 1 == world->rank;
    world->fab->is_yielding = 2 == world->rank;
    for (int i = 0; i < 9; i++) {
        const int other = 1 + i % 3;
        world_barrier(world);
        if (0 == world->rank || other == world->rank) {
            exchange(world, other, 2 * FAB_TCP_MUTE_READS, &arrivals);
            CHECK(dom->hot->is_muted == (0 == world->rank || 3 == world->rank));
        }
    }
    send_one(world, 1, &arrivals);
    CHECK(0 != world->rank || (dom->hot == ep_of(world_peer(world, 1)) && !dom->hot->is_muted &&
                               !ep_of(world_peer(world, 3))->is_muted));
    send_one(world, 3, &arrivals); /* it is noticed again */
    CHECK(0 != world->rank || (dom->hot == ep_of(world_peer(world, 3)) && !dom->hot->is_muted));
}

static void test_muted(void **state)
{
    (void) state;
    assert_int_equal(world_run(4, false, muted_body), 0);
}

/* ---- bytes of a peer that has gone mad ----------------------------------- */

enum { MAD_ROUNDS = 3000 };

/* A peer of that name, with a connection whose other end is *fd. */
static fab_peer_t *mad_peer(world_t *world, uint64_t name, int *fd)
{
    unsigned char address[FAB_ADDRESS_MAX];
    fab_peer_t *peer;
    const char *why = "";
    int ends[2];

    memcpy(address, world->shared->address[0], sizeof(address));
    memcpy(address + 8, &name, sizeof(name));
    int rc = fab_peer_open(world->fab, FAB_USER_PML, name, address, world->shared->len[0], &peer,
                           &why);
    if (OPAL_SUCCESS != rc) {
        fprintf(stderr, "%s\n", why);
    }
    CHECK(OPAL_SUCCESS == rc);
    CHECK(0 == socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends));
    fab_tcp_stream_open(ep_of(peer), ends[0], NULL, 0);
    *fd = ends[1];
    return peer;
}

/* Messages, whole ones at first, then with a byte changed, cut off, or nothing but noise. */
static size_t mad_bytes(unsigned char *buf, size_t size, bool *is_good)
{
    size_t len = 0;
    int num = (int) (random() % 8);

    *is_good = 0 == random() % 4;
    for (int i = 0; i < num; i++) {
        uint32_t payload = (uint32_t) (random() % 100);
        fab_tcp_hdr_t hdr = {.id_len = AM_DATA | payload << 8};
        memset(buf + len, 0, sizeof(hdr) + 104);
        memcpy(buf + len, &hdr, sizeof(hdr));
        len += sizeof(hdr) + ((payload + 7) & ~7u);
    }
    if (*is_good) {
        return len;
    }
    if (0 == random() % 3) {
        for (len = 0; len < size && 0 != random() % 200; len++) {
            buf[len] = (unsigned char) random();
        }
    } else if (len > 0) {
        buf[(size_t) random() % len] ^= (unsigned char) (1 + random() % 255);
        len -= (size_t) random() % 2 ? 0 : (size_t) random() % len;
    }
    return len;
}

/* Written in pieces of any size: whatever it is, nothing is read beyond it, and it ends. */
static void mad_body(world_t *world)
{
    static unsigned char buf[4096];
    uint64_t got = 0;
    bool is_good;

    fab_set_handler(world->fab, AM_DATA, count_arrived, &got);
    srandom((unsigned) atomic_load(&world->shared->scratch[7]) + 1);
    for (unsigned round = 0; round < MAD_ROUNDS; round++) {
        int fd;
        fab_peer_t *peer = mad_peer(world, (UINT64_C(9) << 32) + round, &fd);
        size_t len = mad_bytes(buf, sizeof(buf), &is_good);
        int failures = world->failures;
        for (size_t at = 0; at < len;) {
            size_t n = 1 + (size_t) random() % (0 == random() % 2 ? 9 : 300);
            ssize_t done = send(fd, buf + at, n < len - at ? n : len - at, MSG_NOSIGNAL);
            at = done > 0 ? at + (size_t) done : len; /* it may have been cut off by now */
            fab_tcp_expect(tcp_domain(world));
            world_progress(world);
        }
        CHECK(!is_good || failures == world->failures);
        close(fd);
        while (FAB_PEER_UP == peer->state && 0 < tcp_domain(world)->num_up) {
            fab_tcp_expect(tcp_domain(world));
            world_progress(world); /* the end has come without CLOSE */
        }
        WORLD_UNTIL(NULL == peer->ep || FAB_TCP_UP != ep_of(peer)->state);
        fab_peer_close(peer, FAB_USER_PML);
    }
    CHECK(got > 1000 && fab_counters.tcp_bad_messages > 100 && fab_counters.tcp_peers_lost > 100);
}

static void test_mad(void **state)
{
    (void) state;
    assert_int_equal(world_run(1, false, mad_body), 0);
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
        *told = FAB_TCP_ID_CREDIT == (hdr.id_len & 0xff) ? hdr.app_ctx : 0;
    }
}

/* Send as many messages as go, to a peer whose kernel takes everything. Returns their bytes. */
static size_t fill_window(world_t *world, fab_peer_t *peer, int fd)
{
    static const unsigned char buf[16384];
    size_t sum = 0;
    uint32_t told;

    for (unsigned long long full = fab_counters.tcp_window_full;
         full == fab_counters.tcp_window_full;) {
        sum += OPAL_SUCCESS == fab_send(peer, fab_hdr(AM_DATA, 0, 0), buf, sizeof(buf))
                   ? sizeof(fab_tcp_hdr_t) + sizeof(buf)
                   : 0;
        take_all(fd, &told);
        world_progress(world);
    }
    return sum;
}

static void write_hdr(world_t *world, int fd, uint8_t id, uint32_t app_ctx)
{
    const fab_tcp_hdr_t hdr = {.id_len = id, .app_ctx = app_ctx};

    CHECK((ssize_t) sizeof(hdr) == send(fd, &hdr, sizeof(hdr), MSG_NOSIGNAL));
    fab_tcp_expect(tcp_domain(world));
    world_progress(world);
}

/*
 * No more is sent than the window holds, until the peer says that it has read; it cannot have read
 * more than was sent. What this process reads it tells.
 */
static void window_body(world_t *world)
{
    const size_t size = sizeof(fab_tcp_hdr_t) + 16384;
    uint64_t got = 0;
    uint32_t told = 0;
    size_t sent;
    int fd;
    fab_peer_t *peer = mad_peer(world, UINT64_C(9) << 32, &fd);

    fab_set_handler(world->fab, AM_DATA, count_arrived, &got);
    sent = fill_window(world, peer, fd);
    CHECK(sent >= FAB_TCP_WINDOW && sent < FAB_TCP_WINDOW + size);
    write_hdr(world, fd, FAB_TCP_ID_CREDIT, 10 * (uint32_t) size);
    sent = fill_window(world, peer, fd);
    CHECK(sent >= 9 * size && sent <= 11 * size);

    for (uint64_t i = 0; i < FAB_TCP_CREDIT / sizeof(fab_tcp_hdr_t); i++) {
        CHECK(0 == told);
        write_hdr(world, fd, AM_DATA, 0);
        take_all(fd, &told);
    }
    WORLD_UNTIL(FAB_TCP_CREDIT / sizeof(fab_tcp_hdr_t) == got);
    take_all(fd, &told);
    CHECK(FAB_TCP_CREDIT == told);

    CHECK(0 == world->failures);
    write_hdr(world, fd, FAB_TCP_ID_CREDIT, UINT32_MAX);
    WORLD_UNTIL(1 == world->failures);
    fab_peer_close(peer, FAB_USER_PML);
    close(fd);
}

static void test_window(void **state)
{
    (void) state;
    assert_int_equal(world_run(1, false, window_body), 0);
}

/* ---- no memory ------------------------------------------------------------ */

static bool is_out_of_memory;

void *__real_malloc(size_t size);
void *__wrap_malloc(size_t size);

void *__wrap_malloc(size_t size)
{
    return is_out_of_memory ? NULL : __real_malloc(size);
}

/* From now on there are no more buffers than the provider has kept for that. */
static void run_out_of_memory(world_t *world)
{
    fab_tcp_domain_t *dom = tcp_domain(world);

    is_out_of_memory = true;
    while (dom->num_free > FAB_TCP_RESERVE) {
        fab_tcp_node_t *node = dom->free_bufs;
        dom->free_bufs = node->next;
        dom->num_free--;
        free(node);
    }
}

enum { FLOW_LEN = 30001, FLOW_NUM = 600 };

/* Messages to a peer, of which some are sent from memory. */
typedef struct flow {
    fab_item_t item; /* first */
    int sent;
    bool is_busy;
    fab_out_t out;
} flow_t;

static const unsigned char flow_data[FLOW_LEN];

static void flow_complete(fab_out_t *out, int status)
{
    flow_t *flow = (flow_t *) ((char *) out - offsetof(flow_t, out));

    flow->is_busy = OPAL_SUCCESS != status;
}

static int flow_item(fab_item_t *item, fab_peer_t *peer)
{
    flow_t *flow = (flow_t *) item;
    int rc = OPAL_ERR_RESOURCE_BUSY;

    if (0 != flow->sent % 5) {
        rc = fab_item_send(peer, fab_hdr(AM_DATA, 0, 0), flow_data, sizeof(flow_data));
    } else if (!flow->is_busy) {
        flow->out = (fab_out_t){
            .buf = flow_data, .len = sizeof(flow_data), .complete = flow_complete};
        rc = fab_item_send_from(peer, fab_hdr(AM_DATA, 0, 0), &flow->out);
        flow->is_busy = OPAL_SUCCESS == rc;
    }
    flow->sent += OPAL_SUCCESS == rc;
    return OPAL_SUCCESS == rc && flow->sent < FLOW_NUM ? OPAL_ERR_IN_PROCESS : rc;
}

/*
 * Each rank sends all others more than their windows hold, while none gets memory; and they leave
 * without.
 */
static void no_memory_body(world_t *world)
{
    flow_t *flows = calloc((size_t) world->size, sizeof(*flows));
    const uint64_t all = (uint64_t) (world->size - 1) * (1 + FLOW_NUM);
    uint64_t got = 0;

    fab_set_handler(world->fab, AM_DATA, count_arrived, &got);
    world_barrier(world);
    for (int i = 0; i < world->size; i++) {
        if (i != world->rank) {
            post(world, world_peer(world, i));
            flows[i].item = (fab_item_t){.fn = flow_item, .user = FAB_USER_PML};
            fab_queue(world_peer(world, i), &flows[i].item);
        }
    }
    while (got < (uint64_t) (world->size - 1)) {
        world_progress(world);
    }
    for (int i = 0; i < world->size; i++) { /* no buffer is in use now */
        WORLD_UNTIL(i == world->rank || FLOW_NUM == flows[i].sent);
    }
    WORLD_UNTIL(all == got);
    world_barrier(world);
    run_out_of_memory(world);
    world_barrier(world);
    for (int i = 0; i < world->size; i++) {
        if (i != world->rank) {
            flows[i].sent = 0;
            fab_queue(world_peer(world, i), &flows[i].item);
        }
    }
    WORLD_UNTIL(all - (uint64_t) (world->size - 1) + all == got);
    world_barrier(world);
    CHECK(0 == world->failures);
    if (0 == world->rank) {
        is_out_of_memory = false;
        WORLD_UNTIL(0 == tcp_domain(world)->num_up);
        CHECK(0 == world->failures && world->left >= world->size - 1);
    }
    free(flows);
}

static void test_no_memory(void **state)
{
    (void) state;
    assert_int_equal(world_run(2, false, no_memory_body), 0);
    assert_int_equal(world_run(4, false, no_memory_body), 0);
}

/* Read all that was written to the peer. Returns the credit; *end: CLOSE came, last. */
static uint32_t take_credit(world_t *world, int fd, bool *end)
{
    fab_tcp_hdr_t hdr;
    unsigned char buf[512];
    uint32_t sum = 0;

    while ((ssize_t) sizeof(hdr) == recv(fd, &hdr, sizeof(hdr), MSG_DONTWAIT)) {
        CHECK(!*end);
        *end = FAB_TCP_ID_CLOSE == (hdr.id_len & 0xff);
        sum += FAB_TCP_ID_CREDIT == (hdr.id_len & 0xff) ? hdr.app_ctx : 0;
        for (size_t left = hdr.id_len >> 8; left > 0;) {
            ssize_t n = recv(fd, buf, left < sizeof(buf) ? left : sizeof(buf), MSG_DONTWAIT);
            left -= n > 0 ? (size_t) n : 0;
            fab_tcp_expect(tcp_domain(world));
            world_progress(world);
        }
        fab_tcp_expect(tcp_domain(world));
        world_progress(world);
    }
    return sum;
}

/* Send from memory until the kernel takes no more for the peer: no buffer is last in its queue. */
static void fill_kernel(world_t *world, fab_peer_t *peer)
{
    static flow_t flow;

    while (!ep_of(peer)->is_blocked) {
        flow.out = (fab_out_t){.buf = flow_data, .len = 16000, .complete = flow_complete};
        CHECK(OPAL_SUCCESS == fab_item_send_from(peer, fab_hdr(AM_DATA, 0, 0), &flow.out));
        world_progress(world);
    }
}

/*
 * The kernel takes no more for the peer, and there is no memory: when the peer reads, it gets the
 * credit that it is owed all the same, and CLOSE.
 */
static void owed_body(world_t *world)
{
    const uint64_t num = 3 * FAB_TCP_CREDIT / sizeof(fab_tcp_hdr_t);
    uint64_t got = 0;
    bool end = false;
    int fd;
    fab_peer_t *peer = mad_peer(world, UINT64_C(9) << 32, &fd);

    fab_set_handler(world->fab, AM_DATA, count_arrived, &got);
    fill_kernel(world, peer);
    run_out_of_memory(world);
    for (uint64_t i = 0; i < num; i++) {
        write_hdr(world, fd, AM_DATA, 0);
    }
    WORLD_UNTIL(num == got);
    CHECK(ep_of(peer)->credit_due >= FAB_TCP_CREDIT);
    CHECK(3 * FAB_TCP_CREDIT == take_credit(world, fd, &end) && !end);
    fill_kernel(world, peer);
    fab_peer_close(peer, FAB_USER_PML);
    CHECK(0 == take_credit(world, fd, &end) && end);
    CHECK(0 == world->failures);
    is_out_of_memory = false;
    close(fd);
}

static void test_owed(void **state)
{
    (void) state;
    assert_int_equal(world_run(1, false, owed_body), 0);
}

/* The memory of a message cannot be read: the peer fails, and nothing waits for ever. */
static void unreadable_body(world_t *world)
{
    static flow_t flow;
    char *nothing = mmap(NULL, 1 << 20, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    fab_peer_t *peer = world_peer(world, 1 - world->rank);
    uint64_t got = 0;

    fab_set_handler(world->fab, AM_DATA, count_arrived, &got);
    world_barrier(world);
    post(world, peer);
    WORLD_UNTIL(1 == got && NULL == peer->pending);
    if (0 == world->rank) {
        flow.out = (fab_out_t){.buf = nothing, .len = 100000, .complete = flow_complete};
        WORLD_UNTIL(OPAL_SUCCESS == fab_item_send_from(peer, fab_hdr(AM_DATA, 0, 0), &flow.out));
    }
    WORLD_UNTIL(1 == world->failures);
    CHECK(1 == world->rank || NULL != strstr(world->failed_why, "memory"));
    world_barrier(world);
}

static void test_unreadable(void **state)
{
    (void) state;
    assert_int_equal(world_run(2, false, unreadable_body), 0);
}

/* ---- no descriptors -------------------------------------------------------- */

static int num_lines; /* that were logged */

static void count_lines(void *ctx, int level, const char *text)
{
    (void) ctx, (void) level;
    num_lines += NULL != strstr(text, "ulimit -n");
}

/* This process gets no more files, or as many as before if is_for_now. */
static void limit_files(world_t *world, bool is_for_now)
{
    struct rlimit limit;
    int next = dup(0);

    CHECK(next >= 0 && 0 == close(next) && 0 == getrlimit(RLIMIT_NOFILE, &limit));
    limit.rlim_cur = (rlim_t) next;
    limit.rlim_max = is_for_now ? limit.rlim_max : limit.rlim_cur;
    CHECK(0 == setrlimit(RLIMIT_NOFILE, &limit));
}

/*
 * A process that may have no more files takes as many as are allowed; if there are none, others
 * wait until there are, and it says so once.
 */
static void files_body(world_t *world)
{
    fab_peer_t *peer = world_peer(world, 1 - world->rank);
    uint64_t got = 0;
    int other = -1;

    fab_set_handler(world->fab, AM_DATA, count_arrived, &got);
    fab_core(world->fab)->users[FAB_USER_PML].config.log = count_lines;
    if (1 == world->rank) {
        other = dup(0);
        limit_files(world, true);
    }
    world_barrier(world);
    if (0 == world->rank) {
        post(world, peer);
    }
    WORLD_UNTIL(0 == world->rank || 1 == got);
    close_peers(world);
    world_barrier(world);
    if (1 == world->rank) {
        limit_files(world, false);
    }
    world_barrier(world);
    if (0 == world->rank) {
        post(world, world_peer(world, 1));
    } else {
        (void) world_peer(world, 0);
        WORLD_UNTIL(1 == num_lines);
        CHECK(0 == close(other));
        WORLD_UNTIL(2 == got);
    }
    CHECK(num_lines == world->rank);
    world_barrier(world);
}

static void test_files(void **state)
{
    (void) state;
    assert_int_equal(world_run(2, false, files_body), 0);
}

static int failing_adds;

int __real_epoll_ctl(int epoll, int op, int fd, struct epoll_event *event);
int __wrap_epoll_ctl(int epoll, int op, int fd, struct epoll_event *event);

int __wrap_epoll_ctl(int epoll, int op, int fd, struct epoll_event *event)
{
    if (EPOLL_CTL_ADD == op && failing_adds > 0) {
        failing_adds--;
        errno = ENOSPC;
        return -1;
    }
    return __real_epoll_ctl(epoll, op, fd, event);
}

/* A connection that cannot be watched is made again; if it is up, the peer fails. */
static void unwatched_body(world_t *world)
{
    fab_peer_t *peer = world_peer(world, 1 - world->rank);
    uint64_t got = 0;

    fab_set_handler(world->fab, AM_DATA, count_arrived, &got);
    world_barrier(world);
    failing_adds = 2; /* of rank 0: attempts to connect; of rank 1: connections accepted */
    if (0 == world->rank) {
        post(world, peer);
    }
    WORLD_UNTIL(0 == failing_adds);
    WORLD_UNTIL(0 == world->rank || 1 == got);
    CHECK(0 == world->failures);
    close_peers(world);
    world_barrier(world);
    peer = world_peer(world, 1 - world->rank);
    if (0 == world->rank) {
        post(world, peer);
        WORLD_UNTIL(FAB_TCP_ASKING != ep_of(peer)->state || NULL != ep_of(peer)->sock);
        failing_adds = 1; /* of what is the connection now */
    }
    WORLD_UNTIL(1 == world->failures);
    CHECK(1 == world->rank || NULL != strstr(world->failed_why, strerror(ENOSPC)));
    world_barrier(world);
}

static void test_unwatched(void **state)
{
    (void) state;
    assert_int_equal(world_run(2, false, unwatched_body), 0);
}

/* ---- another kind of process -------------------------------------------- */

/* The address with this byte of it changed is refused; the sentence has the text. */
static void refuse_address(world_t *world, const unsigned char *address, const char *text)
{
    fab_peer_t *peer;
    const char *why = "";

    CHECK(OPAL_ERR_BAD_PARAM == fab_peer_open(world->fab, FAB_USER_PML, world_name(0), address,
                                              world->shared->len[0], &peer, &why));
    CHECK(NULL != strstr(why, text));
}

/* As a machine of the other byte order, or another release, would write it. */
static void other_kind_body(world_t *world)
{
    unsigned char address[FAB_ADDRESS_MAX];
    fab_wire_head_t head;
    fab_tcp_domain_t *dom = tcp_domain(world);
    fab_peer_t *peer;

    if (0 == world->rank) {
        atomic_store(&world->shared->scratch[STRANGER_PORT], dom->addr.ips[0].port);
    }
    world_barrier(world);
    if (1 == world->rank) {
        memcpy(address, world->shared->address[0], sizeof(address));
        memcpy(&head, address, sizeof(head));
        head.magic = __builtin_bswap32(head.magic);
        head.version = __builtin_bswap16(head.version);
        memcpy(address, &head, sizeof(head));
        refuse_address(world, address, "another byte order");
        memcpy(&head, world->shared->address[0], sizeof(head));
        head.version++;
        memcpy(address, &head, sizeof(head));
        refuse_address(world, address, "install the same release");
        /* and a greeting of such a process at the port is nobody's of the job */
        fab_sock_greeting_t greeting = stranger_greeting(FAB_WIRE_TCP);
        for (int i = 0; i < 2; i++) {
            int fd;
            greeting.version = FAB_SOCK_VERSION + (1 == i);
            greeting.magic = 0 == i ? __builtin_bswap32(FAB_SOCK_MAGIC) : FAB_SOCK_MAGIC;
            fd = stranger_call(world);
            CHECK((ssize_t) sizeof(greeting) ==
                  send(fd, &greeting, sizeof(greeting), MSG_NOSIGNAL));
            CHECK(0 == stranger_end(fd));
        }
        atomic_store(&world->shared->scratch[0], 1);
    } else {
        WORLD_UNTIL(1 == atomic_load(&world->shared->scratch[0]));
        WORLD_UNTIL(!fab_sock_set_is_busy(dom->socks));
        CHECK(2 == fab_counters.tcp_strangers && 0 == dom->num_up && 0 == world->failures);
    }
    world_barrier(world);
    peer = world_peer(world, 1 - world->rank); /* and as it is, it is accepted */
    CHECK(0 == strcmp("tcp", fab_peer_provider_name(peer)));
}

static void test_other_kind(void **state)
{
    (void) state;
    assert_int_equal(world_run(2, false, other_kind_body), 0);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_strangers),
        cmocka_unit_test(test_other_kind),
        cmocka_unit_test(test_wrong_key),
        cmocka_unit_test(test_crossed),
        cmocka_unit_test(test_other_addresses),
        cmocka_unit_test(test_death),
        cmocka_unit_test(test_leave),
        cmocka_unit_test(test_leave_needed),
        cmocka_unit_test(test_flood),
        cmocka_unit_test(test_computing),
        cmocka_unit_test(test_together),
        cmocka_unit_test(test_muted),
        cmocka_unit_test(test_mad),
        cmocka_unit_test(test_window),
        cmocka_unit_test(test_no_memory),
        cmocka_unit_test(test_owed),
        cmocka_unit_test(test_unreadable),
        cmocka_unit_test(test_files),
        cmocka_unit_test(test_unwatched),
    };

    world_use_providers("tcp");
    cmocka_set_test_filter(argc > 1 ? argv[1] : NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
