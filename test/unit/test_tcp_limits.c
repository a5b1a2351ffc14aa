/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The tcp provider without memory or descriptors, and with an epoll set that takes no more: nothing
 * that is connected waits for ever, and what cannot go on says so.
 *
 * TEST: sources=@fabric ldflags=-Wl,--wrap=malloc,--wrap=epoll_ctl variants=asan,tsan timeout=300
 */
#include "test_fab_faults.h"
#include "test_fab_jobs.h"
#include "test_tcp_world.h"

#include <errno.h>
#include <sys/epoll.h>
#include <sys/resource.h>

/* ---- no memory ------------------------------------------------------------ */

static bool is_out_of_memory;

void *__real_malloc(size_t size);
void *__wrap_malloc(size_t size);

void *__wrap_malloc(size_t size)
{
    return is_out_of_memory ? NULL : __real_malloc(size);
}

static void memory_is_back(void)
{
    is_out_of_memory = false;
}

/* From now on there are no more buffers than the provider has kept for that. */
static void run_out_of_memory(world_t *world)
{
    fab_tcp_domain_t *dom = tcp_domain(world);

    atexit(memory_is_back); /* gcov needs memory to write its counters, when the process ends */
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

    world_barrier(world);
    for (int i = 0; i < world->size; i++) {
        if (i != world->rank) {
            post(world, world_peer(world, i));
            flows[i].item = (fab_item_t){.fn = flow_item, .user = FAB_USER_PML};
            fab_queue(world_peer(world, i), &flows[i].item);
        }
    }
    while (world->got < (uint64_t) (world->size - 1)) {
        world_progress(world);
    }
    for (int i = 0; i < world->size; i++) { /* no buffer is in use now */
        WORLD_UNTIL(i == world->rank || FLOW_NUM == flows[i].sent);
    }
    WORLD_UNTIL(all == world->got);
    world_barrier(world);
    run_out_of_memory(world);
    world_barrier(world);
    for (int i = 0; i < world->size; i++) {
        if (i != world->rank) {
            flows[i].sent = 0;
            fab_queue(world_peer(world, i), &flows[i].item);
        }
    }
    WORLD_UNTIL(all - (uint64_t) (world->size - 1) + all == world->got);
    world_barrier(world);
    CHECK(0 == world->failures);
    if (0 == world->rank) {
        is_out_of_memory = false;
        WORLD_UNTIL(0 == tcp_domain(world)->num_up);
        CHECK(0 == world->failures && world->left >= world->size - 1);
    }
    free(flows);
}

/* Read all that was written to the peer. Returns the last credit; *end: BYE came, last. */
static uint32_t take_credit(world_t *world, int fd, bool *end)
{
    fab_tcp_hdr_t hdr;
    unsigned char buf[512];
    uint32_t sum = 0;

    while ((ssize_t) sizeof(hdr) == recv(fd, &hdr, sizeof(hdr), MSG_DONTWAIT)) {
        CHECK(!*end);
        *end = FAB_TCP_ID_BYE == (hdr.id_len & 0xff);
        sum = FAB_TCP_ID_CREDIT == (hdr.id_len & 0xff) ? (uint32_t) hdr.tag : sum;
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
 * credit that it is owed all the same, and BYE.
 */
static void owed_body(world_t *world)
{
    const uint64_t num = 3 * FAB_TCP_WINDOW / 4 / sizeof(fab_tcp_hdr_t);
    bool end = false;
    int fd;
    fab_peer_t *peer = mad_peer(world, UINT64_C(9) << 32, &fd);

    fill_kernel(world, peer);
    run_out_of_memory(world);
    for (uint64_t i = 0; i < num; i++) {
        write_hdr(world, fd, AM_DATA, 0);
    }
    WORLD_UNTIL(num == world->got);
    CHECK(ep_of(peer)->ses.is_credit_due);
    CHECK(3 * FAB_TCP_WINDOW / 4 == take_credit(world, fd, &end) && !end);
    fill_kernel(world, peer);
    fab_peer_close(peer, FAB_USER_PML);
    CHECK(0 == take_credit(world, fd, &end) && end);
    CHECK(0 == world->failures);
    is_out_of_memory = false;
    close(fd);
}

/*
 * The peer has said its last word, and reads no more: what is still to be written to it fails, and
 * that is no failure of the peer.
 */
static void last_word_body(world_t *world)
{
    const fab_tcp_hdr_t bye = {.id_len = FAB_TCP_ID_BYE, .app_ctx = FAB_SES_BYE_CLOSE};
    int fd;
    fab_peer_t *peer = mad_peer(world, UINT64_C(9) << 32, &fd);

    fill_kernel(world, peer);
    CHECK((ssize_t) sizeof(bye) == send(fd, &bye, sizeof(bye), MSG_NOSIGNAL));
    CHECK(0 == shutdown(fd, SHUT_WR));
    while (!ep_of(peer)->is_eof) {
        fab_tcp_expect(tcp_domain(world));
        world_progress(world);
    }
    CHECK(FAB_SES_CLOSING == ep_of(peer)->ses.state);
    close(fd);
    while (fab_tcp_is_up(ep_of(peer))) {
        fab_tcp_expect(tcp_domain(world));
        world_progress(world);
    }
    world_progress(world);
    CHECK(0 == world->failures && FAB_PEER_UP == peer->state);
    CHECK(FAB_SES_KNOWN == ep_of(peer)->ses.state);
    fab_peer_close(peer, FAB_USER_PML);
}

/* A session over TCP does not pause: the peer that asks for it fails. */
static void pause_body(world_t *world)
{
    const fab_tcp_hdr_t bye = {.id_len = FAB_TCP_ID_BYE, .app_ctx = FAB_SES_BYE_PAUSE};
    int fd;
    fab_peer_t *peer = mad_peer(world, UINT64_C(9) << 32, &fd);

    CHECK((ssize_t) sizeof(bye) == send(fd, &bye, sizeof(bye), MSG_NOSIGNAL));
    while (FAB_PEER_UP == peer->state && FAB_SES_UP == ep_of(peer)->ses.state) {
        fab_tcp_expect(tcp_domain(world));
        world_progress(world);
    }
    CHECK(FAB_PEER_FAILED == peer->state && 1 == fab_counters.bad_messages);
    WORLD_UNTIL(1 == world->failures);
    close(fd);
}

/* ---- no descriptors -------------------------------------------------------- */

static int num_lines; /* that were logged */

static void count_lines(void *ctx, int level, const char *text)
{
    (void) ctx, (void) level;
    num_lines += NULL != strstr(text, "ulimit -n");
}

/* This process gets no more files, or as many as before if is_for_now.  Returns one to close. */
static int limit_files(world_t *world, bool is_for_now)
{
    struct rlimit limit;
    int last;

    while ((last = dup(0)) >= 0 && last < 100) { /* so that all that it has are below the limit */
    }
    CHECK(last >= 0 && 0 == getrlimit(RLIMIT_NOFILE, &limit));
    limit.rlim_cur = (rlim_t) last + 1;
    limit.rlim_max = is_for_now ? limit.rlim_max : limit.rlim_cur;
    CHECK(0 == setrlimit(RLIMIT_NOFILE, &limit));
    return last;
}

/*
 * A process that may have no more files takes as many as are allowed, and one that it has kept for
 * this; then others wait until there are more, and it says so once.
 */
static void files_body(world_t *world)
{
    int other = -1;

    fab_core(world->fab)->users[FAB_USER_PML].config.log = count_lines;
    if (1 == world->rank) {
        (void) limit_files(world, true);
    }
    world_barrier(world);
    if (0 == world->rank) {
        post(world, world_peer(world, 1));
    }
    WORLD_UNTIL(1 != world->rank || 1 == world->got);
    for (int i = 0; i < world->size; i++) {
        if (i != world->rank) {
            (void) world_peer(world, i);
        }
    }
    close_peers(world);
    world_barrier(world);
    if (1 == world->rank) {
        other = limit_files(world, false);
    }
    world_barrier(world);
    if (1 != world->rank) {
        post(world, world_peer(world, 1));
    } else {
        (void) world_peer(world, 0);
        (void) world_peer(world, 2);
        WORLD_UNTIL(1 == num_lines && 2 == world->got);
        CHECK(0 == close(other));
        WORLD_UNTIL(3 == world->got);
    }
    CHECK(num_lines == (1 == world->rank));
    world_barrier(world);
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

    failing_adds = 2; /* of rank 0: attempts to connect; of rank 1: connections accepted */
    world_barrier(world);
    if (0 == world->rank) {
        post(world, peer);
    }
    WORLD_UNTIL(0 == failing_adds);
    WORLD_UNTIL(0 == world->rank || 1 == world->got);
    CHECK(0 == world->failures);
    close_peers(world);
    world_barrier(world);
    peer = world_peer(world, 1 - world->rank);
    if (0 == world->rank) {
        post(world, peer);
        WORLD_UNTIL(fab_tcp_is_up(ep_of(peer)) || NULL != ep_of(peer)->sock);
        failing_adds = 1; /* of what is the connection now */
    }
    WORLD_UNTIL(1 == world->failures);
    CHECK(1 == world->rank || NULL != strstr(world->failed_why, strerror(ENOSPC)));
    world_barrier(world);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        WORLD_JOB("test_no_memory", no_memory_body),
        WORLD_JOB("test_no_memory 4 ranks", no_memory_body, .ranks = 4),
        WORLD_JOB("test_owed", owed_body, .ranks = 1),
        WORLD_JOB("test_last_word", last_word_body, .ranks = 1),
        WORLD_JOB("test_pause", pause_body, .ranks = 1),
        WORLD_JOB("test_files", files_body, .ranks = 3),
        WORLD_JOB("test_unwatched", unwatched_body),
    };

    world_use_providers("tcp");
    cmocka_set_test_filter(argc > 1 ? argv[1] : NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
