/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The tcp provider among strangers and with damaged bytes: connections that do not belong to the
 * job, questions that cross, peers that die, leave or send what they must not.
 *
 * TEST: sources=@fabric variants=asan,tsan timeout=300
 */
#include "test_fab_faults.h"
#include "test_fab_jobs.h"
#include "test_strangers.h"
#include "test_tcp_world.h"

#include "fabric/fab_wire.h"

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
    fab_tcp_frame_t hello = {.msg = {.kind = FAB_SES_HELLO, .window = 1, .serial = 1},
                             .addr = dom->addr};
    int idle[IDLE];

    for (int i = 0; i < IDLE; i++) {
        idle[i] = stranger_call_from(world, INADDR_LOOPBACK + 1); /* and never says a word */
    }
    for (int i = 0; i < STRANGERS; i++) {
        stranger_says_garbage(world);
        if (i % 2) {
            say_damaged_greeting(world);
        } else {
            ask_with_wrong_key(world, i, &hello);
        }
    }
    hello.msg.kind = FAB_SES_WELCOME;
    say_nonsense(world, &hello);
    hello.msg.kind = FAB_SES_HELLO;
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

    /* these came last, but some of those that say nothing may not have been accepted yet */
    WORLD_UNTIL(fab_counters.bad_messages + fab_counters.refused > 1);
    WORLD_UNTIL(!fab_sock_set_is_busy(dom->socks));
    /* who says nothing is counted only if its place is taken */
    CHECK(2 * STRANGERS <= fab_counters.tcp_strangers &&
          fab_counters.tcp_strangers <= IDLE + 2 * STRANGERS && 0 == dom->num_up);
}

static void strangers_body(world_t *world)
{
    stranger_world(world, tcp_domain(world)->socks, stranger_calls, check_strangers);
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

/* ---- connections -------------------------------------------------------- */

enum { CROSSINGS = 100 };

static void crossed_body(world_t *world)
{
    uint64_t rounds = cross(world, CROSSINGS, &fab_counters.crossed);

    CHECK(0 == tcp_domain(world)->num_up);
    CHECK(rounds * (unsigned) (world->size - 1) == fab_counters.connections);
    world_barrier(world);
}

/* The first of a process's addresses leads nowhere: the next is tried. */
static void other_addresses_body(world_t *world)
{
    fab_tcp_addr_t *addr = &tcp_domain(world)->addr;

    memmove(addr->ips + 1, addr->ips, sizeof(addr->ips[0]) * (FAB_SOCK_IPS - 1));
    addr->num_ips += addr->num_ips < FAB_SOCK_IPS;
    /* one of its own address that refuses: nobody listens on port 1 */
    addr->ips[0].port = 1;
    addr->ips[0].net = FAB_SOCK_NET_PLAIN;
    world->shared->len[world->rank] = fab_address(world->fab, world->shared->address[world->rank],
                                                  FAB_ADDRESS_MAX);
    world_barrier(world);
    post(world, world_peer(world, 1 - world->rank));
    WORLD_UNTIL(1 == world->got);
    world_barrier(world);
}

/*
 * Only the process with the greater name can connect: what the other tries accepts, and is silent,
 * or refuses.  The other has precedence, but as long as it could not say HELLO, it answers.
 */
static void one_way(world_t *world, bool refuses)
{
    fab_tcp_addr_t *addr = &tcp_domain(world)->addr;
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof(at);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    CHECK(0 == bind(fd, (struct sockaddr *) &at, len) && (refuses || 0 == listen(fd, 1)) &&
          0 == getsockname(fd, (struct sockaddr *) &at, &len));
    if (1 == world->rank) {
        memset(addr->ips, 0, sizeof(addr->ips));
        addr->num_ips = 1;
        addr->ips[0] = (fab_sock_ip_t){.ip = {[10] = 0xff, 0xff, 127, 0, 0, 1},
                                       .port = ntohs(at.sin_port)};
        world->shared->len[1] = fab_address(world->fab, world->shared->address[1], FAB_ADDRESS_MAX);
    }
    world_barrier(world);
    if (0 == world->rank) {
        const fab_sock_race_t *race;
        post(world, world_peer(world, 1));
        race = &ep_of(world_peer(world, 1))->sock->race;
        WORLD_UNTIL(refuses ? 0 != race->refused_until : FAB_SOCK_RUN_GREETED == race->runners[0]);
    }
    world_barrier(world);
    post(world, world_peer(world, 1 - world->rank));
    WORLD_UNTIL((world->rank ? 2u : 1u) == world->got);
    CHECK(0 == world->failures);
    close(fd);
    world_barrier(world);
}

static void one_way_silent_body(world_t *world)
{
    one_way(world, false);
}

static void one_way_refused_body(world_t *world)
{
    one_way(world, true);
}

/* A process that dies fails at its peer, after all that it sent. */
static void death_body(world_t *world)
{
    fab_peer_t *peer = world_peer(world, 1 - world->rank);

    world_barrier(world);
    if (1 == world->rank) {
        for (int i = 0; i < 1000; i++) {
            post(world, peer);
        }
        WORLD_UNTIL(NULL == peer->pending && NULL == ep_of(peer)->out);
        raise(SIGKILL);
    }
    WORLD_UNTIL(1 == world->failures);
    CHECK(1000 == world->got && world->failed == peer && OPAL_ERR_PROC_ABORTED == world->failed_rc);
    CHECK(OPAL_ERR_UNREACH == fab_send(peer, fab_hdr(AM_DATA, 0, 0), NULL, 0));
}

/* A process that leaves has not failed, and can be sent nothing. */
static void leave_body(world_t *world)
{
    fab_peer_t *peer = world_peer(world, 1 - world->rank);

    world_barrier(world);
    if (1 == world->rank) {
        for (int i = 0; i < 1000; i++) {
            post(world, peer);
        }
        WORLD_UNTIL(NULL == peer->pending);
        return;
    }
    WORLD_UNTIL(1000 == world->got && 0 == tcp_domain(world)->num_up);
    CHECK(0 == world->failures && 1 == world->left);
    CHECK(OPAL_ERR_UNREACH == fab_send(peer, fab_hdr(AM_DATA, 0, 0), NULL, 0));
    WORLD_UNTIL(1 == world->failures);
    CHECK(NULL != strstr(world->failed_why, "left"));
}

/* ---- bytes of a peer that has gone mad ----------------------------------- */

enum { MAD_ROUNDS = 3000 };

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
    bool is_good;

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
            world_progress(world); /* the end has come without BYE */
        }
        WORLD_UNTIL(NULL == peer->ep || !fab_tcp_is_up(ep_of(peer)));
        fab_peer_close(peer, FAB_USER_PML);
    }
    CHECK(world->got > 1000 && fab_counters.bad_messages > 100 &&
          fab_counters.connections_lost > 100);
}

static void ignore_end(fab_out_t *out, int status)
{
    (void) out, (void) status;
}

/* The memory of a message cannot be read: the peer fails, and nothing waits for ever. */
static void unreadable_body(world_t *world)
{
    static fab_out_t out;
    char *nothing = mmap(NULL, 1 << 20, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    fab_peer_t *peer = world_peer(world, 1 - world->rank);

    world_barrier(world);
    post(world, peer);
    WORLD_UNTIL(1 == world->got && NULL == peer->pending);
    if (0 == world->rank) {
        out = (fab_out_t){.buf = nothing, .len = 100000, .complete = ignore_end};
        WORLD_UNTIL(OPAL_SUCCESS == fab_item_send_from(peer, fab_hdr(AM_DATA, 0, 0), &out));
    }
    WORLD_UNTIL(1 == world->failures);
    CHECK(1 == world->rank || NULL != strstr(world->failed_why, "memory"));
    world_barrier(world);
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

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        WORLD_JOB("test_strangers", strangers_body),
        WORLD_JOB("test_other_kind", other_kind_body),
        WORLD_JOB("test_wrong_key", wrong_key_body),
        WORLD_JOB("test_crossed", crossed_body, .ranks = 4),
        WORLD_JOB("test_other_addresses", other_addresses_body),
        WORLD_JOB("test_one_way", one_way_silent_body),
        WORLD_JOB("test_one_way refused", one_way_refused_body),
        WORLD_JOB("test_death", death_body, .killed = 1 << 1),
        WORLD_JOB("test_leave", leave_body),
        WORLD_JOB("test_leave_needed", leave_needed_body),
        WORLD_JOB("test_mad", mad_body, .ranks = 1),
        WORLD_JOB("test_unreadable", unreadable_body),
    };

    world_use_providers("tcp");
    cmocka_set_test_filter(argc > 1 ? argv[1] : NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
