/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Provider ofi: libfabric refuses receive buffers.  It is said, the others are used, and without
 * any all peers fail, and others that come later, too: nobody waits.  So it is if libfabric reports
 * a failure of the endpoint.
 *
 * TEST: sources=@fabric,@ofi,test/ofidev/ofidev.c variants=asan cflags=-DFAB_HAVE_OFI=1 ldflags=-lfabric needs=libfabric-1.15 timeout=120
 */
#include "conform_ofi.h"

#include "fabric/fab_core.h"
#include "ofi/ofi_wire.h"

enum { BUFFERS = 2 };

static size_t got; /* bytes */
static int said;

static void arrived(void *ctx, fab_peer_t *peer, fab_hdr_t hdr, const void *data, size_t len)
{
    (void) ctx, (void) peer, (void) hdr, (void) data;
    got += len;
}

static void log_line(void *ctx, int level, const char *text)
{
    (void) ctx, (void) level;
    said += NULL != strstr(text, "refuses a receive buffer: Input/output error");
}

/* Rank 1 sends until its peer fails; rank 0 fills one buffer, then the other.  Rank 2 is late. */
static void refused_body(world_t *world)
{
    fab_peer_t *peer = world_peer(world, 0 == world->rank ? 1 : 0), *late;
    static char data[FAB_OFI_EAGER_MAX];

    fab_set_handler(world->fab, AM_DATA, arrived, NULL);
    fab_core(world->fab)->users[FAB_USER_PML].config.log = log_line;
    world_barrier(world);
    if (1 == world->rank) {
        while (0 == world->shared->scratch[0]) {
            (void) fab_send(peer, fab_hdr(AM_DATA, 0, 0), data, peer->eager_max);
            world_progress(world);
        }
        return;
    }
    if (2 == world->rank) {
        WORLD_UNTIL(0 != world->shared->scratch[0]);
        return;
    }
    WORLD_UNTIL(1 == world->failures);
    CHECK(OPAL_ERR_COMM_FAILURE == world->failed_rc);
    CHECK(NULL != strstr(world->failed_why, "takes no receive buffers: Input/output error"));
    CHECK(got > FAB_OFI_RECV_BYTES && got < BUFFERS * FAB_OFI_RECV_BYTES);
    CHECK(BUFFERS == said && BUFFERS == fab_counters.ofi_errors);
    late = world_peer(world, 2);
    CHECK(OPAL_SUCCESS != fab_send(late, fab_hdr(AM_DATA, 0, 0), data, 8));
    WORLD_UNTIL(2 == world->failures);
    CHECK(late == world->failed && NULL != strstr(world->failed_why, "has failed here"));
    world->shared->scratch[0] = 1;
}

static void test_refused(void **state)
{
    (void) state;
    (void) setenv("OFIDEV_REFUSE", "3", 1);
    assert_int_equal(world_run(3, false, refused_body), 0);
}

static void event_body(world_t *world)
{
    fab_peer_t *peer = world_peer(world, 1 - world->rank);

    fab_set_handler(world->fab, AM_DATA, arrived, NULL);
    world_barrier(world);
    post(world, peer);
    WORLD_UNTIL(1 == world->failures);
    CHECK(NULL != strstr(world->failed_why, "reports a failure: Input/output error"));
}

static void test_event(void **state)
{
    (void) state;
    (void) setenv("OFIDEV_EVENT", "4", 1);
    assert_int_equal(world_run(2, false, event_body), 0);
    (void) unsetenv("OFIDEV_EVENT");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_event),
                                       cmocka_unit_test(test_refused)};

    fab_limits.ofi_buffers = BUFFERS;
    fab_params.ofi_provider = (char *) (uintptr_t) "tcp,net";
    world_use_providers("ofi");
    return cmocka_run_group_tests(tests, NULL, NULL);
}
