/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Provider ofi: when receive buffers are posted again.
 *
 * TEST: sources=@fabric,@ofi,test/ofidev/ofidev.c variants=asan cflags=-DFAB_HAVE_OFI=1 ldflags=-lfabric needs=libfabric-1.15 timeout=300
 */
#include "conform_ofi.h"

#include <sys/syscall.h>
#include <time.h>

#include "ofi/ofi.h"

/* bytes */
enum { AM_MEET = 13 };
enum { BUFFERS = 2, LEN = 1000, LONG = 5000, ALL = 8 << 20, PART = 3 << 20, RANKS = 3 };

void ofidev_stop(size_t min_len); /* of test/ofidev */
unsigned ofidev_stopped(void);

static size_t got;      /* bytes, of the shorter messages */
static unsigned longer; /* messages */
static int wrong;       /* messages that are others than those that were due */

/* In place of libc's. */
static bool is_stopped; /* it shows one and the same time */
static time_t ahead;    /* seconds */
static struct timespec stopped[16];

int clock_gettime(clockid_t clock, struct timespec *time)
{
    int rc = 0;

    if (!is_stopped || clock < 0 || clock >= 16) {
        rc = (int) syscall(SYS_clock_gettime, clock, time);
    } else {
        if (0 == stopped[clock].tv_sec) {
            (void) syscall(SYS_clock_gettime, clock, &stopped[clock]);
        }
        *time = stopped[clock];
    }
    time->tv_sec += ahead;
    return rc;
}

static void arrived(void *ctx, fab_peer_t *peer, fab_hdr_t hdr, const void *data, size_t len)
{
    (void) ctx, (void) peer, (void) hdr;
    if (LONG == len) {
        for (size_t i = 0; i < len; i++) {
            wrong += LONG % 256 != ((const unsigned char *) data)[i];
        }
        longer++;
        return;
    }
    wrong += memcmp(data, &got, sizeof(got)) != 0;
    got += len;
}

/* Each message begins with the number of bytes before it. */
static void send_from(world_t *world, fab_peer_t *peer, size_t *sent, size_t all)
{
    static char data[LEN];

    while (*sent < all) {
        memcpy(data, sent, sizeof(*sent));
        if (OPAL_SUCCESS == fab_send(peer, fab_hdr(AM_DATA, 0, 0), data, LEN)) {
            *sent += LEN;
        } else {
            world_progress(world);
        }
    }
}

static void send_all(world_t *world, fab_peer_t *peer, size_t all)
{
    size_t sent = 0;

    send_from(world, peer, &sent, all);
}

/* One that is full is posted by the poll that found its last message, not when nothing comes. */
static void again_body(world_t *world)
{
    fab_peer_t *peer = world_peer(world, 1 - world->rank);
    const fab_ofi_domain_t *dom = ((const fab_ofi_ep_t *) peer->ep)->dom;

    fab_set_handler(world->fab, AM_DATA, arrived, NULL);
    world_barrier(world);
    if (1 == world->rank) {
        send_all(world, peer, ALL);
    }
    while (0 == world->rank && got < ALL) {
        world_progress(world);
        CHECK(0 == dom->recv.num_idle);
    }
    CHECK(0 == wrong);
    world_barrier(world);
}

static void test_again(void **state)
{
    (void) state;
    assert_int_equal(world_run(2, false, again_body), 0);
}

/* The settings of test/ofidev, the last NULL, for one world. */
static int run(int size, const char *const *settings, world_fn_t body)
{
    for (int i = 0; NULL != settings[i]; i += 2) {
        (void) setenv(settings[i], settings[i + 1], 1);
    }
    int rc = world_run(size, false, body);
    for (int i = 0; NULL != settings[i]; i += 2) {
        (void) unsetenv(settings[i]);
    }
    return rc;
}

/* Rank 1 sends all; rank 0 has it though its clock stands still. */
static void at_once(world_t *world)
{
    fab_peer_t *peer = world_peer(world, 1 - world->rank);

    fab_set_handler(world->fab, AM_DATA, arrived, NULL);
    world_barrier(world);
    if (1 == world->rank) {
        send_all(world, peer, ALL);
    } else {
        is_stopped = true;
        WORLD_UNTIL(got >= ALL);
        is_stopped = false;
    }
    CHECK(0 == wrong);
    world_barrier(world);
}

/* The provider releases buffers with more room than it must, with the last message. */
static void test_early(void **state)
{
    static const char *const settings[] = {"OFIDEV_EARLY", "6000", NULL};

    (void) state;
    assert_int_equal(run(2, settings, at_once), 0);
}

/* Or by an entry of its own, and is one that fills no buffer after that. */
static void final_body(world_t *world)
{
    const fab_ofi_ep_t *ep = world_peer(world, 1 - world->rank)->ep;

    ep->dom->recv.is_final = true;
    at_once(world);
}

static const char *const own_entry[] = {"OFIDEV_EARLY", "6000", "OFIDEV_RELEASE", "1", NULL};

static void test_final(void **state)
{
    (void) state;
    assert_int_equal(run(2, own_entry, final_body), 0);
}

/* Or is not known to be one: no buffer is ever known to be free, and the user is told. */
static void gaps_body(world_t *world)
{
    fab_peer_t *peer = world_peer(world, 1 - world->rank);

    fab_set_handler(world->fab, AM_DATA, arrived, NULL);
    world_barrier(world);
    if (1 == world->rank) {
        static char data[LEN];
        while (0 == world->shared->scratch[0]) {
            (void) fab_send(peer, fab_hdr(AM_DATA, 0, 0), data, LEN);
            world_progress(world);
        }
        return;
    }
    WORLD_UNTIL(1 == world->failures);
    CHECK(OPAL_ERR_COMM_FAILURE == world->failed_rc);
    CHECK(NULL != strstr(world->failed_why, "leaves gaps in receive buffers"));
    CHECK(got > BUFFERS * (FAB_OFI_RECV_BYTES - 20000));
    world->shared->scratch[0] = 1;
}

static void test_gaps(void **state)
{
    (void) state;
    assert_int_equal(run(2, own_entry, gaps_body), 0);
}

/* It releases a buffer long before it reports the last message: none is posted before that. */
static void test_ahead(void **state)
{
    static const char *const settings[] = {"OFIDEV_RELEASE", "2", "OFIDEV_DELAY", "200", NULL};

    (void) state;
    assert_int_equal(run(2, settings, at_once), 0);
}

static void came(void *ctx, fab_peer_t *peer, fab_hdr_t hdr, const void *data, size_t len)
{
    (void) peer, (void) hdr, (void) data, (void) len;
    ++*(unsigned *) ctx;
}

/* Rank 0 has sessions with the others, whose set-up has long messages, too. */
static void meet(world_t *world)
{
    unsigned num = 0;

    fab_set_handler(world->fab, AM_MEET, came, &num);
    world_barrier(world);
    if (0 != world->rank) {
        fab_peer_t *peer = world_peer(world, 0);
        while (OPAL_SUCCESS != fab_send(peer, fab_hdr(AM_MEET, 0, 0), NULL, 0)) {
            world_progress(world);
        }
    } else {
        WORLD_UNTIL(RANKS - 1 == num);
    }
    world_barrier(world);
    fab_set_handler(world->fab, AM_MEET, NULL, NULL);
}

/* Rank 1 stops inside a message, and rank 2 fills the rest of that buffer, and others. */
static void stop_one(world_t *world, unsigned which)
{
    static char data[LONG];

    if (0 == world->rank) {
        ofidev_stop(LONG);
    }
    world_barrier(world);
    if (1 == world->rank) {
        memset(data, LONG % 256, sizeof(data));
        while (OPAL_SUCCESS != fab_send(world_peer(world, 0), fab_hdr(AM_DATA, 0, 0), data, LONG)) {
            world_progress(world);
        }
    }
    if (0 == world->rank) {
        WORLD_UNTIL(which == ofidev_stopped());
    }
    world_barrier(world);
}

/*
 * The sum of all so far is sent by rank 2, and rank 0 has it.  Rank 1 answers nothing meanwhile:
 * where messages of two peers find no buffer, net and tcp before 1.20 go on with one of them when
 * there is one, and with the other at the next.
 */
static void flow(world_t *world, size_t sum)
{
    static size_t sent;

    if (1 == world->rank) {
        world_barrier_idle(world);
        return;
    }
    if (2 == world->rank) {
        send_from(world, world_peer(world, 0), &sent, sum);
    } else {
        WORLD_UNTIL(got >= sum);
    }
    world_barrier(world);
}

static void stopped_body(world_t *world)
{
    fab_set_handler(world->fab, AM_DATA, arrived, NULL);
    meet(world);
    stop_one(world, 1);
    flow(world, PART);
    ahead += 0 == world->rank ? 5 : 0; /* however long it takes */
    for (int i = 0; 0 == world->rank && i < 5000; i++) {
        world_progress(world);
    }
    flow(world, 2 * PART);
    stop_one(world, 2); /* in the other buffer: then there must be a third */
    flow(world, 4 * PART);
    if (0 == world->rank) {
        const fab_ofi_ep_t *ep = world_peer(world, 1)->ep;
        const fab_ofi_rbufs_t *recv = &ep->dom->recv;
        CHECK(0 == longer && 1 == recv->num_more && 2 == recv->num_idle);
        ofidev_stop(0);
        WORLD_UNTIL(2 == longer && 0 == recv->num_idle);
    }
    CHECK(0 == wrong);
    world_barrier(world);
}

static void test_stopped(void **state)
{
    static const char *const none[] = {NULL};
    const unsigned timeout = fab_params.ofi_timeout;

    (void) state;
    fab_params.ofi_timeout = 10000; /* what has stopped is not lost, however long it takes */
    assert_int_equal(run(RANKS, none, stopped_body), 0);
    fab_params.ofi_timeout = timeout;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_again), cmocka_unit_test(test_early), cmocka_unit_test(test_final),
        cmocka_unit_test(test_gaps),  cmocka_unit_test(test_ahead), cmocka_unit_test(test_stopped),
    };

    fab_limits.ofi_buffers = BUFFERS;
    fab_params.ofi_provider = (char *) (uintptr_t) "tcp,net";
    world_use_providers("ofi");
    return cmocka_run_group_tests(tests, NULL, NULL);
}
