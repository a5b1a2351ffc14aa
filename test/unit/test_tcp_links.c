/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Long messages of the tcp provider over several links: they arrive whole and in order, whichever
 * links there are, also if one cannot be made, breaks, or is written by a peer that has gone mad.
 *
 * Each process has an address in three networks, and is on a host of its own unless the test says
 * that they share one.
 *
 * TEST: sources=@fabric,test/unit/conform_messages.c variants=asan,tsan timeout=300
 */
#include "conform.h"
#include "test_fab_jobs.h"
#include "test_tcp_world.h"

#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <linux/ethtool.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <sys/utsname.h>

#include "sock/sock_ip.h"
#include "tcp/tcp.h"

enum { ADDRESSES = 3, LEN = FAB_FRAGMENT_MAX };

/* ---- addresses ---------------------------------------------------------- */

static unsigned is_one_net; /* all processes have the same addresses */

/* This process's address in network i, which is all 127.(1 + i).x.y. */
static uint32_t own_ip(uint32_t i)
{
    uint32_t host = is_one_net ? 1 : (uint32_t) getpid() & 0xffff;

    return htonl(127u << 24 | (1 + i) << 16 | host);
}

static bool is_on_lo; /* the addresses are these, of the loopback interface */
static bool has_carrier[ADDRESSES] = {true, true, true};
static const uint32_t lo_ips[ADDRESSES] = {0x7f000001, 0x0a010203, 0x7f010001};

/* In place of libc's. */
int getifaddrs(struct ifaddrs **out)
{
    static struct sockaddr_in ips[ADDRESSES];
    static struct sockaddr_in mask = {.sin_family = AF_INET};
    static struct ifaddrs all[ADDRESSES];
    static char names[ADDRESSES][6];

    mask.sin_addr.s_addr = htonl(0xffff0000);
    for (uint32_t i = 0; i < ADDRESSES; i++) {
        ips[i] = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = own_ip(i)};
        snprintf(names[i], sizeof(names[i]), "test%u", i % 10);
        if (is_on_lo) {
            ips[i].sin_addr.s_addr = htonl(lo_ips[i]);
        }
        all[i] = (struct ifaddrs){.ifa_next = i + 1 < ADDRESSES ? &all[i + 1] : NULL,
                                  .ifa_name = names[i],
                                  .ifa_flags = IFF_UP | (has_carrier[i] ? IFF_RUNNING : 0) |
                                               (is_on_lo ? IFF_LOOPBACK : 0),
                                  .ifa_addr = (struct sockaddr *) &ips[i],
                                  .ifa_netmask = (struct sockaddr *) &mask};
    }
    *out = all;
    return 0;
}

void freeifaddrs(struct ifaddrs *all)
{
    (void) all;
}

/* Mbit/s of the interfaces, which are test0 and so on; 0: unknown. */
static uint32_t speeds[ADDRESSES] = {25000, 25000, 25000};

/* In place of libc's: how fast is the interface? */
int ioctl(int fd, unsigned long request, ...)
{
    va_list args;

    va_start(args, request);
    void *arg = va_arg(args, void *);
    va_end(args);
    if (SIOCETHTOOL != request) {
        return (int) syscall(SYS_ioctl, fd, request, arg);
    }
    const struct ifreq *req = arg;
    struct ethtool_link_settings *link = (struct ethtool_link_settings *) (void *) req->ifr_data;
    const uint32_t speed = speeds[req->ifr_name[4] - '0'];
    if (ETHTOOL_GLINKSETTINGS != link->cmd) {
        errno = EOPNOTSUPP;
        return -1;
    }
    link->link_mode_masks_nwords = 1 == link->link_mode_masks_nwords ? 1 : -1;
    link->speed = 0 != speed ? speed : (uint32_t) SPEED_UNKNOWN;
    return 0;
}

static unsigned is_one_host;

/* In place of libc's: the name by which processes know that they share a host. */
int uname(struct utsname *name)
{
    *name = (struct utsname){.sysname = "test"};
    snprintf(name->nodename, sizeof(name->nodename), "host%d", is_one_host ? 0 : (int) getpid());
    return 0;
}

/* It leaves by the address that is in the same network, where loopback would take 127.0.0.1. */
int connect(int fd, const struct sockaddr *to, socklen_t len)
{
    uint32_t ip = ntohl(((const struct sockaddr_in *) to)->sin_addr.s_addr);
    struct sockaddr_in from = {.sin_family = AF_INET,
                               .sin_addr.s_addr = own_ip((ip >> 16 & 0xff) - 1)};

    if (0 != bind(fd, (struct sockaddr *) &from, sizeof(from))) {
        return -1;
    }
    return (int) syscall(SYS_connect, fd, to, len);
}

/* ---- a kernel that takes no more ------------------------------------------ */

static int held_fd = -1; /* it takes what is in the first piece of memory, and then nothing */
static bool is_held_full;

/* In place of libc's, which takes what it can. */
ssize_t sendmsg(int fd, const struct msghdr *msg, int flags)
{
    const struct iovec *first = msg->msg_iov;

    if (fd != held_fd) {
        return syscall(SYS_sendmsg, fd, msg, flags);
    }
    if (is_held_full) {
        errno = EAGAIN;
        return -1;
    }
    is_held_full = true;
    return syscall(SYS_sendto, fd, first->iov_base, first->iov_len, flags, NULL, 0);
}

ssize_t send(int fd, const void *buf, size_t len, int flags)
{
    if (fd == held_fd) {
        errno = EAGAIN;
        return -1;
    }
    return syscall(SYS_sendto, fd, buf, len, flags, NULL, 0);
}

static fab_sock_ip_t ip_of(uint32_t v4, uint8_t prefix, fab_sock_net_t net)
{
    fab_sock_ip_t ip = {.ip = {[10] = 0xff, [11] = 0xff}, .prefix = prefix, .net = (uint8_t) net};

    v4 = htonl(v4);
    memcpy(ip.ip + 12, &v4, sizeof(v4));
    ip.speed = 1000;
    return ip;
}

/*
 * A link leads to another network that both are in, once; never to a bridge, or the other family.
 */
static void test_other_nets(void **state)
{
    fab_sock_ip_t own[] = {
        ip_of(0x0a010001, 120, FAB_SOCK_NET_PLAIN),  ip_of(0x0a020001, 120, FAB_SOCK_NET_PLAIN),
        ip_of(0x0a030001, 120, FAB_SOCK_NET_PLAIN),  ip_of(0x0a040001, 120, FAB_SOCK_NET_PLAIN),
        ip_of(0xac110001, 112, FAB_SOCK_NET_BRIDGE), {.ip = {0xfd, [15] = 1}, .prefix = 64},
    };
    fab_sock_ip_t peer[] = {
        ip_of(0x0a010002, 120, FAB_SOCK_NET_PLAIN), ip_of(0x0a010003, 120, FAB_SOCK_NET_PLAIN),
        ip_of(0x0a090002, 120, FAB_SOCK_NET_PLAIN), ip_of(0x0a020002, 120, FAB_SOCK_NET_PLAIN),
        ip_of(0x0a020003, 120, FAB_SOCK_NET_PLAIN), ip_of(0x0a030001, 120, FAB_SOCK_NET_PLAIN),
        ip_of(0x0a040002, 120, FAB_SOCK_NET_PLAIN), ip_of(0xac110002, 112, FAB_SOCK_NET_BRIDGE),
        {.ip = {0xfd, [15] = 2}, .prefix = 64},
    };
    fab_sock_ip_t out[8];

    (void) state;
    assert_int_equal(fab_sock_other_nets(own, 6, peer, 9, peer[0].ip, out, 7), 2);
    assert_memory_equal(&out[0], &peer[3], sizeof(out[0]));
    assert_memory_equal(&out[1], &peer[6], sizeof(out[1]));
    assert_int_equal(fab_sock_other_nets(own, 6, peer, 9, peer[0].ip, out, 1), 1);
    assert_int_equal(fab_sock_other_nets(own, 6, peer, 9, peer[0].ip, out, 0), 0);
    assert_int_equal(fab_sock_other_nets(own, 6, peer, 9, own[0].ip, out, 7), 0);
    own[1].speed = 100; /* one end of 10.2/16 is slower, whatever the other is */
    assert_int_equal(fab_sock_other_nets(own, 6, peer, 9, peer[0].ip, out, 7), 1);
    assert_memory_equal(&out[0], &peer[6], sizeof(out[0]));
    peer[6].speed = own[3].speed = 0; /* not known */
    assert_int_equal(fab_sock_other_nets(own, 6, peer, 9, peer[0].ip, out, 7), 0);
    peer[0].speed = own[0].speed = 0;
    assert_int_equal(fab_sock_other_nets(own, 6, peer, 9, peer[0].ip, out, 7), 0);
}

/* Fast interfaces come first; what is not known stays where it is. */
static void test_speeds(void **state)
{
    const uint32_t usual = speeds[0];
    const uint32_t cases[][2 * ADDRESSES] = {/* speeds, and the order of interfaces */
                                             {100, 1000, 25000, 2, 1, 0},
                                             {1000, 100, 1000, 0, 2, 1},
                                             {100, 0, 1000, 2, 1, 0},
                                             {0, 100, 1000, 0, 2, 1},
                                             {0, 0, 1000, 0, 1, 2}};
    fab_sock_ip_t out[FAB_SOCK_IPS];

    (void) state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        memcpy(speeds, cases[i], sizeof(speeds));
        assert_int_equal(fab_sock_own_ips(NULL, NULL, out, FAB_SOCK_IPS), ADDRESSES);
        for (int k = 0; k < ADDRESSES; k++) {
            uint32_t at = cases[i][ADDRESSES + k];
            assert_int_equal(out[k].ip[13], 1 + at);
            assert_int_equal(out[k].speed, cases[i][at]);
        }
    }
    for (int i = 0; i < ADDRESSES; i++) {
        speeds[i] = usual;
    }
}

/* Without a carrier an interface is left out, but not if none has one. */
static void test_no_carrier(void **state)
{
    fab_sock_ip_t out[FAB_SOCK_IPS];

    (void) state;
    has_carrier[0] = false;
    assert_int_equal(fab_sock_own_ips(NULL, NULL, out, FAB_SOCK_IPS), ADDRESSES - 1);
    assert_int_equal(out[0].ip[13], 2);
    has_carrier[1] = has_carrier[2] = false;
    assert_int_equal(fab_sock_own_ips(NULL, NULL, out, FAB_SOCK_IPS), ADDRESSES);
    assert_int_equal(out[0].ip[13], 1);
    is_on_lo = has_carrier[1] = true; /* nor if only loopback has */
    assert_int_equal(fab_sock_own_ips(NULL, NULL, out, FAB_SOCK_IPS), ADDRESSES);
    is_on_lo = false;
    has_carrier[0] = has_carrier[2] = true;
}

/* Where networks lead to the host, not to a card of it, its address is one of loopback. */
static void test_on_lo(void **state)
{
    fab_sock_ip_t out[FAB_SOCK_IPS];

    (void) state;
    is_on_lo = true;
    assert_int_equal(fab_sock_own_ips(NULL, NULL, out, FAB_SOCK_IPS), ADDRESSES);
    is_on_lo = false;
    assert_int_equal(out[0].ip[12], 10);
    assert_int_equal(out[0].net, FAB_SOCK_NET_BRIDGE);
    assert_int_equal(out[1].net, FAB_SOCK_NET_LOOPBACK);
}

/* ---- a stream of long messages, each with a short one behind it ----------- */

typedef struct flow {
    world_t *world;
    fab_peer_t *peer;
    unsigned char *from;
    unsigned char *to;
    uint64_t num;  /* to be sent */
    uint64_t sent; /* short messages have odd numbers */
    uint64_t out;  /* completed */
    uint64_t got;
    uint64_t due; /* what flow_both() waits for */
    int status;   /* of the last */
    bool is_busy;
    fab_out_t send;
    fab_item_t item;
} flow_t;

static void *flow_place(void *ctx, fab_peer_t *peer, fab_hdr_t hdr, size_t len)
{
    flow_t *flow = ctx;
    world_t *world = flow->world;

    (void) peer;
    CHECK(hdr.tag == flow->got && LEN - hdr.tag % 100 == len);
    return flow->to;
}

static void flow_arrived(void *ctx, fab_peer_t *peer, fab_hdr_t hdr, const void *data, size_t len)
{
    flow_t *flow = ctx;
    world_t *world = flow->world;

    (void) peer;
    CHECK(hdr.tag == flow->got);
    if (0 == hdr.tag % 2) {
        CHECK(data == flow->to && LEN - hdr.tag % 100 == len &&
              world_is_filled(data, hdr.tag, len));
        memset(flow->to, 0xee, LEN); /* nothing is written any more */
    } else {
        CHECK(0 == len);
    }
    flow->got++;
}

static void flow_complete(fab_out_t *out, int status)
{
    flow_t *flow = (flow_t *) ((char *) out - offsetof(flow_t, send));
    world_t *world = flow->world;

    CHECK(flow->is_busy);
    memset(flow->from, 0xdd, LEN);
    flow->is_busy = false;
    flow->status = status;
    flow->out++;
}

static int flow_item(fab_item_t *item, fab_peer_t *peer)
{
    flow_t *flow = (flow_t *) ((char *) item - offsetof(flow_t, item));
    world_t *world = flow->world;
    fab_hdr_t hdr = fab_hdr(AM_DATA, flow->sent, 0);
    size_t len = LEN - flow->sent % 100;
    int rc = OPAL_ERR_RESOURCE_BUSY;

    if (flow->sent == flow->num) {
        return OPAL_SUCCESS;
    }
    if (1 == flow->sent % 2) {
        rc = fab_item_send(peer, hdr, NULL, 0);
    } else if (!flow->is_busy) {
        flow->send = (fab_out_t){.buf = flow->from, .len = len, .complete = flow_complete};
        if (LEN == len && !is_one_host && !is_one_net && NULL == ep_of(peer)->links) {
            flow->send.len = FAB_FRAGMENT_LOCAL_MAX; /* LEN of it are taken */
        }
        world_fill(flow->from, flow->sent, len);
        rc = fab_item_send_from(peer, hdr, &flow->send);
        flow->is_busy = OPAL_SUCCESS == rc;
        CHECK(OPAL_SUCCESS != rc || len == flow->send.len);
    } else if (FAB_PEER_UP != peer->state) {
        return OPAL_SUCCESS;
    }
    flow->sent += OPAL_SUCCESS == rc;
    if (OPAL_ERR_UNREACH == rc) {
        return OPAL_SUCCESS;
    }
    return OPAL_SUCCESS == rc && flow->sent < flow->num ? OPAL_ERR_IN_PROCESS : rc;
}

/* Of both, since one may send at once what reaches the other in its barrier. */
static flow_t *flow_new(world_t *world)
{
    flow_t *flow = calloc(1, sizeof(*flow));

    flow->world = world;
    flow->peer = conform_partner(world);
    flow->from = malloc(LEN);
    flow->to = malloc(LEN);
    flow->item = (fab_item_t){.fn = flow_item, .user = FAB_USER_PML};
    fab_set_handler(world->fab, AM_DATA, flow_arrived, flow);
    fab_set_place(world->fab, AM_DATA, flow_place, flow);
    world_barrier(world);
    return flow;
}

static void flow_free(flow_t *flow)
{
    free(flow->from);
    free(flow->to);
    free(flow);
}

/* So many more. */
static void flow_send(flow_t *flow, uint64_t num)
{
    flow->num = flow->sent + num;
    fab_queue(flow->peer, &flow->item);
}

static bool flow_is_out(const flow_t *flow)
{
    return flow->num == flow->sent && !flow->is_busy;
}

/* Both send, and get what the other sends. */
static void flow_both(flow_t *flow, uint64_t num)
{
    world_t *world = flow->world;

    flow->due += num; /* some may be there already */
    flow_send(flow, num);
    WORLD_UNTIL(flow_is_out(flow) && flow->due == flow->got);
    CHECK(0 == world->failures && OPAL_SUCCESS == flow->status);
    world_barrier(world);
}

static bool is_up(const fab_tcp_ep_t *link)
{
    return NULL != link && fab_tcp_is_up(link);
}

/* All links of this process and of the other are up. */
static void await_links(flow_t *flow)
{
    world_t *world = flow->world;

    flow_both(flow, 4);
    const fab_tcp_links_t *links = ep_of(flow->peer)->links;
    CHECK(NULL != links);
    WORLD_UNTIL(is_up(links->out[1]) && is_up(links->out[2]));
    world_barrier(world);
    WORLD_UNTIL(is_up(links->in[1]) && is_up(links->in[2]));
    world_barrier(world);
}

static void whole_body(world_t *world)
{
    flow_t *flow = flow_new(world);

    await_links(flow);
    unsigned long long striped = fab_counters.tcp_striped_bytes;
    flow_both(flow, 200);
    CHECK(fab_counters.tcp_striped_bytes > striped);
    CHECK(4 == fab_counters.tcp_links_made && 0 == fab_counters.tcp_links_failed);
    CHECK(1 == fab_counters.connections && 0 == fab_counters.tcp_links_lost);
    striped = fab_counters.tcp_striped_bytes;
    conform_outs(world);
    CHECK(fab_counters.tcp_striped_bytes > striped);
    flow_free(flow);
    world_barrier(world);
}

/* Links are for this connection: after a new one they are asked for again. */
static void again_body(world_t *world)
{
    for (int round = 0; round < 5; round++) {
        flow_t *flow = flow_new(world);
        await_links(flow);
        flow_both(flow, 20);
        world_barrier(world);
        fab_peer_close(flow->peer, FAB_USER_PML);
        world->peers[1 - world->rank] = NULL;
        WORLD_UNTIL(NULL == fab_peer_find(world->fab, world_name(1 - world->rank)));
        flow_free(flow);
        world_barrier(world);
    }
    CHECK(20 == fab_counters.tcp_links_made && 0 == fab_counters.tcp_links_lost);
}

/* ---- links that are not there --------------------------------------------- */

/* Nobody listens at one address of rank 1, and rank 1 itself wants one link at most. */
static void refused_body(world_t *world)
{
    flow_t *flow;

    if (1 == world->rank) {
        tcp_domain(world)->addr.ips[1].port = 1;
        world->shared->len[1] = fab_address(world->fab, world->shared->address[1], FAB_ADDRESS_MAX);
        fab_limits.tcp_links = 1;
    }
    world_barrier(world);
    flow = flow_new(world);
    flow_both(flow, 4);
    if (0 == world->rank) {
        WORLD_UNTIL(2 == fab_counters.tcp_links_failed);
    }
    flow_both(flow, 50);
    CHECK(0 == fab_counters.tcp_links_made && 0 == fab_counters.tcp_striped_bytes);
    CHECK((0 == world->rank) == (2 == fab_counters.tcp_links_failed));
    CHECK((1 == world->rank) == (1 == fab_counters.refused));
    flow_free(flow);
    world_barrier(world);
}

/* Processes of one host do not ask for any, nor do containers that share its network. */
static void one_host_body(world_t *world)
{
    flow_t *flow = flow_new(world);

    flow_both(flow, 50);
    CHECK(1 == fab_counters.connections && NULL == ep_of(flow->peer)->links);
    CHECK(0 == fab_counters.tcp_links_made && 0 == fab_counters.tcp_links_failed);
    flow_free(flow);
    world_barrier(world);
}

/* A link that breaks while nothing is sent is not used any more. */
static void lost_idle_body(world_t *world)
{
    flow_t *flow = flow_new(world);

    await_links(flow);
    const fab_tcp_links_t *links = ep_of(flow->peer)->links;
    world_barrier(world);
    if (0 == world->rank) {
        CHECK(0 == shutdown(links->out[1]->fd, SHUT_RDWR));
    }
    WORLD_UNTIL(NULL == (0 == world->rank ? links->out[1] : links->in[1]));
    CHECK(1 == fab_counters.tcp_links_lost);
    world_barrier(world);
    unsigned long long striped = fab_counters.tcp_striped_bytes;
    flow_both(flow, 50);
    CHECK(fab_counters.tcp_striped_bytes > striped); /* by the other link */
    flow_free(flow);
    world_barrier(world);
}

/* Rank 0 sends until the kernel has the header of a piece, and takes no more of it. */
static fab_tcp_ep_t *fill(flow_t *flow)
{
    world_t *world = flow->world;
    fab_tcp_ep_t *link = ep_of(flow->peer)->links->out[1];

    held_fd = link->fd;
    flow_send(flow, 100);
    WORLD_UNTIL(flow->is_busy && NULL != link->out);
    flow->num = flow->sent;
    return link;
}

/* Break a link on which this rank sends, if it is up. Returns whether it was. */
static bool cut(const flow_t *flow, int number)
{
    const fab_tcp_links_t *links = ep_of(flow->peer)->links;

    return NULL != links && is_up(links->out[number]) &&
           0 == shutdown(links->out[number]->fd, SHUT_RDWR);
}

/* What is on a link that breaks, in the middle of a piece, goes again, and all is there once. */
static void cut_body(world_t *world)
{
    flow_t *flow = flow_new(world);

    await_links(flow);
    if (0 == world->rank) {
        (void) fill(flow);
        CHECK(cut(flow, 1));
        held_fd = -1;
        WORLD_UNTIL(flow_is_out(flow));
        CHECK(OPAL_SUCCESS == flow->status && 1 == fab_counters.tcp_links_lost);
        CHECK(3 <= fab_counters.tcp_links_made); /* two, and one of them again */
        atomic_store(&world->shared->scratch[0], flow->sent);
    }
    WORLD_UNTIL(1 == world->rank || 0 != atomic_load(&world->shared->scratch[0]));
    world_barrier(world);
    WORLD_UNTIL(0 == world->rank || atomic_load(&world->shared->scratch[0]) == flow->got);
    flow->due = 0 == world->rank ? flow->due : flow->got;
    flow_both(flow, 50);
    CHECK(0 == world->failures);
    flow_free(flow);
    world_barrier(world);
}

/* Links that break at any time, the replacement, too. */
static void cut_often_body(world_t *world)
{
    enum { CUTS = 20 };
    flow_t *flow = flow_new(world);
    int cuts = 0;

    await_links(flow);
    flow->due += 400;
    flow_send(flow, 400);
    srandom((unsigned) world->rank + 1);
    while (!flow_is_out(flow) || flow->due != flow->got) {
        for (int i = (int) random() % 20; i > 0; i--) {
            world_progress(world);
        }
        cuts += cuts < CUTS && cut(flow, 1 + (int) random() % 2);
        CHECK(0 == world->failures);
    }
    CHECK(cuts > 0 && OPAL_SUCCESS == flow->status);
    world_barrier(world);
    CHECK(0 == world->failures);
    flow_free(flow);
    world_barrier(world);
}

/* ---- the end -------------------------------------------------------------- */

/* The other side closes while a link still has to write: what was handed over arrives. */
static void close_body(world_t *world)
{
    flow_t *flow = flow_new(world);
    fab_peer_t *peer = flow->peer;

    await_links(flow);
    if (0 == world->rank) {
        (void) fill(flow);
        atomic_store(&world->shared->scratch[0], flow->sent);
    }
    world_barrier_idle(world);
    if (1 == world->rank) {
        fab_peer_close(peer, FAB_USER_PML);
        world_barrier_idle(world); /* its BYE is there before anything is read */
        world_barrier(world);
        WORLD_UNTIL(atomic_load(&world->shared->scratch[0]) == flow->got);
        WORLD_UNTIL(0 != atomic_load(&world->shared->scratch[1]));
    } else {
        world_barrier_idle(world);
        WORLD_UNTIL(FAB_SES_BYE_NONE != ep_of(peer)->ses.peer_bye && ep_of(peer)->is_eof);
        for (int i = 0; i < 1000; i++) {
            world_progress(world);
        }
        CHECK(flow->is_busy && fab_tcp_is_up(ep_of(peer)));
        held_fd = -1;
        world_barrier(world);
        WORLD_UNTIL(!flow->is_busy);
        CHECK(OPAL_SUCCESS == flow->status);
        WORLD_UNTIL(!fab_tcp_is_up(ep_of(peer)));
        CHECK(NULL == ep_of(peer)->links && 0 == fab_counters.tcp_links_lost);
        atomic_store(&world->shared->scratch[1], 1);
    }
    CHECK(0 == world->failures);
    world_barrier(world);
    flow_free(flow);
}

/* A process leaves as soon as all is with its kernel. */
static void leave_body(world_t *world)
{
    flow_t *flow = flow_new(world);

    await_links(flow);
    if (0 == world->rank) {
        flow_send(flow, 11);
        WORLD_UNTIL(flow_is_out(flow));
        flow_free(flow);
        return;
    }
    WORLD_UNTIL(1 == world->left);
    CHECK(4 + 11 == flow->got && 0 == world->failures && 0 == fab_counters.tcp_links_lost);
    flow_free(flow);
}

/* ---- bytes of a peer that has gone mad ------------------------------------- */

enum { TOTAL = 130000, END = 1000, AHEAD = TOTAL - END, BAD = 1, GOOD = 0 };

static unsigned char *mad_place; /* of TOTAL bytes exactly */
static uint64_t mad_got;

static void *place_mad(void *ctx, fab_peer_t *peer, fab_hdr_t hdr, size_t len)
{
    (void) ctx, (void) peer;
    return TOTAL == len && 7 == hdr.tag ? mad_place : NULL;
}

static void mad_arrived(void *ctx, fab_peer_t *peer, fab_hdr_t hdr, const void *data, size_t len)
{
    world_t *world = peer->fab->config.ctx;

    (void) ctx;
    if (TOTAL == len) {
        CHECK(7 == hdr.tag && data == mad_place && world_is_filled(data, 5, len));
    }
    mad_got++;
}

typedef struct mad {
    world_t *world;
    fab_peer_t *peer;
    int fd[3]; /* other ends: the connection, link 1, link 2 */
} mad_t;

static void mad_progress(mad_t *mad)
{
    fab_tcp_expect(ep_of(mad->peer)->dom);
    world_progress(mad->world);
}

static int mad_end(int *mine)
{
    int ends[2];

    if (0 != socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends)) {
        _exit(1);
    }
    *mine = ends[0];
    return ends[1];
}

static void mad_open(world_t *world, uint64_t name, mad_t *mad)
{
    int mine;

    mad->world = world;
    mad->peer = mad_peer(world, name, &mad->fd[0]);
    for (uint32_t i = 1; i <= 2; i++) {
        mad->fd[i] = mad_end(&mine);
        fab_tcp_stream_open(fab_tcp_link_accept(ep_of(mad->peer), i), mine, NULL, 0);
    }
    CHECK(NULL == fab_tcp_link_accept(ep_of(mad->peer), 0));
    CHECK(NULL == fab_tcp_link_accept(ep_of(mad->peer), FAB_TCP_LINKS));
}

/* As far as the other side listens. */
static void mad_write(mad_t *mad, int to, const void *bytes, size_t len)
{
    for (size_t at = 0; at < len && FAB_PEER_UP == mad->peer->state;) {
        size_t piece = 1 + (size_t) random() % 20000;
        ssize_t n = send(mad->fd[to], (const char *) bytes + at,
                         piece < len - at ? piece : len - at, MSG_NOSIGNAL);
        at += n > 0 ? (size_t) n : 0;
        mad_progress(mad);
        if (n < 0 && EAGAIN != errno) {
            return;
        }
    }
}

static void mad_message(mad_t *mad, int to, uint8_t id, uint64_t tag, uint32_t app_ctx, size_t at,
                        size_t len)
{
    static unsigned char payload[TOTAL + 8];
    fab_tcp_hdr_t hdr = {.id_len = id | (uint32_t) len << 8, .app_ctx = app_ctx, .tag = tag};

    world_fill(payload, 5, TOTAL);
    memset(payload + TOTAL, 0, 8);
    mad_write(mad, to, &hdr, sizeof(hdr));
    mad_write(mad, to, payload + at, at + len < TOTAL ? len : TOTAL - at);
    mad_write(mad, to, "\0\0\0\0\0\0\0", -len & 7);
}

/* What is written: the announcement, the message, the pieces; fields of 0 are as they should be. */
typedef struct mad_case {
    int result;
    uint32_t named;
    uint64_t total;
    uint64_t tag;
    size_t end;
    uint64_t offset[2]; /* plus 1 */
    size_t len[2];
    uint8_t id;
    uint8_t piece_id;
    bool is_early;    /* the pieces come first */
    bool is_cut_idle; /* link 2 ends before, and is made again before its piece comes */
    bool is_on_first; /* the piece comes on the connection */
    bool is_twice;    /* all is announced twice */
} mad_case_t;

static const mad_case_t mad_cases[] = {
    {.result = GOOD},
    {.result = GOOD, .is_early = true},
    {.result = GOOD, .offset = {40001, 1}, .len = {AHEAD - 40000, 40000}}, /* in any order */
    {.result = BAD, .offset = {AHEAD - 40000 + 1 + 8}},
    {.result = BAD, .offset = {UINT64_MAX}},
    {.result = BAD, .len = {AHEAD + 8}},
    {.result = BAD, .len = {TOTAL - TOTAL % 8, 8}},
    {.result = BAD, .len = {40004}},
    {.result = BAD, .len = {39992}}, /* 8 bytes are missing */
    {.result = BAD, .offset = {0, 1}, .len = {40000, AHEAD - 39992}},
    {.result = BAD, .named = 1 | 2 | 4},
    {.result = BAD, .named = 1u << 31},
    {.result = BAD, .named = 1u << FAB_TCP_LINKS},
    {.result = BAD, .named = 2 | 8},
    {.result = GOOD, .is_cut_idle = true},
    {.result = GOOD, .is_cut_idle = true, .is_early = true},
    {.result = BAD, .total = FAB_TCP_EAGER_MAX},
    {.result = BAD, .total = FAB_TCP_STRIPE_MAX + 1},
    {.result = BAD, .total = UINT64_MAX},
    {.result = BAD, .total = TOTAL + 8}, /* for which there is no place */
    {.result = BAD, .tag = 8},
    {.result = BAD, .end = TOTAL},
    {.result = BAD, .end = TOTAL + 8},
    {.result = BAD, .id = FAB_TCP_ID_BYE},
    {.result = BAD, .id = 77},
    {.result = BAD, .id = AM_REPLY},
    {.result = BAD, .piece_id = AM_DATA},
    {.result = BAD, .piece_id = FAB_TCP_ID_CREDIT},
    {.result = BAD, .is_on_first = true},
    {.result = BAD, .is_twice = true},
};

static void mad_pieces(mad_t *mad, const mad_case_t *how)
{
    const size_t usual[2][2] = {{0, 40000}, {40000, AHEAD - 40000}};

    for (int i = 0; i < 2; i++) {
        uint64_t at = 0 != how->offset[i] ? how->offset[i] - 1 : usual[i][0];
        size_t len = 0 != how->len[i] ? how->len[i] : usual[i][1];
        mad_message(mad, how->is_on_first ? 0 : 1 + i,
                    0 != how->piece_id ? how->piece_id : FAB_TCP_ID_PIECE, at, 0,
                    at < AHEAD ? at : 0, len);
    }
}

/* Make link 2 again if it was lost, or in place of one that half a piece came by. */
static void mad_link_again(mad_t *mad)
{
    const fab_tcp_hdr_t hdr = {.id_len = FAB_TCP_ID_PIECE | 64 << 8};
    int mine;

    if (FAB_PEER_UP != mad->peer->state) {
        return;
    }
    if (-1 != mad->fd[2]) {
        mad_write(mad, 2, &hdr, sizeof(hdr));
        mad_write(mad, 2, &hdr, sizeof(hdr));
        close(mad->fd[2]);
    }
    mad->fd[2] = mad_end(&mine);
    fab_tcp_stream_open(fab_tcp_link_accept(ep_of(mad->peer), 2), mine, NULL, 0);
}

static void mad_case(world_t *world, uint64_t name, const mad_case_t *how)
{
    uint64_t got = mad_got;
    int failures = world->failures;
    unsigned long long bad = fab_counters.bad_messages, lost = fab_counters.connections_lost;
    mad_t mad;

    mad_open(world, name, &mad);
    mad_place = malloc(TOTAL);
    if (how->is_cut_idle) {
        close(mad.fd[2]);
        while (NULL != ep_of(mad.peer)->links->in[2]) {
            mad_progress(&mad);
        }
        mad.fd[2] = -1;
    }
    if (how->is_early) {
        mad_link_again(&mad);
        mad_pieces(&mad, how);
    }
    for (int i = 0; i < 1 + how->is_twice; i++) {
        mad_message(&mad, 0, FAB_TCP_ID_STRIPE, 0 != how->total ? how->total : TOTAL,
                    0 != how->named ? how->named : 2 | 4, 0, 0);
    }
    if (!how->is_on_first) {
        mad_message(&mad, 0, 0 != how->id ? how->id : AM_DATA, 0 != how->tag ? how->tag : 7, 0,
                    AHEAD, 0 != how->end ? how->end : END);
    }
    mad_message(&mad, 0, AM_DATA, 9, 0, 0, 0); /* which is delivered after it */
    if (!how->is_early) {
        CHECK(got == mad_got);
        mad_link_again(&mad);
        mad_pieces(&mad, how);
    }
    if (GOOD == how->result) {
        WORLD_UNTIL(got + 2 == mad_got);
        CHECK(failures == world->failures);
    } else {
        WORLD_UNTIL(failures + 1 == world->failures);
        CHECK(got == mad_got && bad + 1 == fab_counters.bad_messages &&
              lost == fab_counters.connections_lost);
    }
    for (int i = 0; i < 3; i++) {
        close(mad.fd[i]);
    }
    WORLD_UNTIL(failures + 1 == world->failures); /* the end has come without CLOSE */
    WORLD_UNTIL(fab_peer_is_gone(mad.peer));
    fab_peer_close(mad.peer, FAB_USER_PML);
    free(mad_place);
}

static void mad_body(world_t *world)
{
    fab_set_handler(world->fab, AM_DATA, mad_arrived, NULL);
    fab_set_handler(world->fab, AM_REPLY, mad_arrived, NULL);
    fab_set_place(world->fab, AM_DATA, place_mad, NULL);
    srandom(1);
    for (size_t i = 0; i < sizeof(mad_cases) / sizeof(mad_cases[0]); i++) {
        mad_case(world, (UINT64_C(9) << 32) + i, &mad_cases[i]);
    }
}

enum { WRONG_HDRS = 3 };
static unsigned wrong_hdr; /* which of these comes */

/* Only what can be true comes back on a link. */
static void other_way_body(world_t *world)
{
    static const fab_tcp_hdr_t hdrs[WRONG_HDRS] = {
        {.id_len = FAB_TCP_ID_PIECE | 64 << 8},
        {.id_len = FAB_TCP_ID_CONFIRM, .tag = 1000},
        {.id_len = FAB_TCP_ID_CONFIRM, .tag = UINT64_MAX},
    };
    const fab_tcp_hdr_t hdr = hdrs[wrong_hdr];
    flow_t *flow = flow_new(world);

    await_links(flow);
    if (0 == world->rank) {
        const int fd = ep_of(flow->peer)->links->in[1]->fd;
        CHECK((ssize_t) sizeof(hdr) == send(fd, &hdr, sizeof(hdr), MSG_NOSIGNAL));
    }
    WORLD_UNTIL(1 == world->failures);
    CHECK((1 == world->rank) == (1 == fab_counters.bad_messages));
    world_barrier(world);
    flow_free(flow);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_other_nets),
        cmocka_unit_test(test_speeds),
        cmocka_unit_test(test_no_carrier),
        cmocka_unit_test(test_on_lo),
        WORLD_JOB("test_whole", whole_body),
        WORLD_JOB("test_whole_threaded", whole_body, .is_threaded = true),
        WORLD_JOB("test_again", again_body),
        WORLD_JOB("test_refused", refused_body),
        WORLD_JOB("test_one_host", one_host_body, .number = {{&is_one_host, 1}}),
        WORLD_JOB("test_one_host one_net", one_host_body, .number = {{&is_one_net, 1}}),
        WORLD_JOB("test_lost_idle", lost_idle_body),
        WORLD_JOB("test_cut", cut_body),
        WORLD_JOB("test_cut_often", cut_often_body),
        WORLD_JOB("test_close", close_body),
        WORLD_JOB("test_leave", leave_body),
        WORLD_JOB("test_mad", mad_body, .ranks = 1),
        WORLD_JOB("test_other_way", other_way_body, .each = {&wrong_hdr, WRONG_HDRS}),
    };

    cmocka_set_test_filter(argc > 1 ? argv[1] : NULL);
    world_use_providers("tcp");
    return cmocka_run_group_tests(tests, NULL, NULL);
}
