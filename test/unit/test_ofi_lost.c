/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Provider ofi: a message that libfabric loses fails its peer: nobody waits for it for ever.
 *
 * TEST: sources=@fabric,@ofi,test/ofidev/ofidev.c variants=asan,tsan cflags=-DFAB_HAVE_OFI=1 ldflags=-lfabric needs=libfabric-1.15 timeout=120 env="TSAN_OPTIONS=halt_on_error=1:report_thread_leaks=0"
 */
#include "conform_ofi.h"

enum { MESSAGES = 20, LOST = 10 };

static uint64_t got;
static bool is_last; /* the lost message is the last one */

static void arrived(void *ctx, fab_peer_t *peer, fab_hdr_t hdr, const void *data, size_t len)
{
    (void) ctx, (void) peer, (void) data, (void) len;
    got += got == hdr.tag; /* in order, without a gap */
}

/* Rank 1 sends; of what comes to rank 0 the LOST-th is lost, own messages of ofi counted. */
static void lost_body(world_t *world)
{
    fab_peer_t *peer = world_peer(world, 1 - world->rank);
    _Atomic uint64_t *seen = &world->shared->scratch[0], *has_failed = &world->shared->scratch[1];

    fab_set_handler(world->fab, AM_DATA, arrived, NULL);
    if (1 == world->rank) {
        for (uint64_t n = 0; n < MESSAGES && 0 == *has_failed; n++) {
            CHECK(OPAL_SUCCESS == fab_post(peer, fab_hdr(AM_DATA, n, 0), NULL, 0));
            WORLD_UNTIL(NULL == peer->pending);
            WORLD_UNTIL(!is_last || *seen > n || 0 != *has_failed);
        }
        world_barrier(world);
        return;
    }
    WORLD_UNTIL(got > 0);
    fab_params.ofi_timeout = 1; /* and not for HELLO */
    while (0 == world->failures) {
        world_progress(world);
        *seen = got;
    }
    *has_failed = 1;
    CHECK(OPAL_ERR_COMM_FAILURE == world->failed_rc);
    CHECK(NULL != strstr(world->failed_why, "was lost"));
    CHECK(got > 0 && got < LOST);
    world_barrier(world);
}

static void test_lost(void **state)
{
    (void) state;
    assert_int_equal(world_run(2, false, lost_body), 0);
}

/* Then the answer to a question shows that it was lost. */
static void test_last(void **state)
{
    is_last = true;
    test_lost(state);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_lost), cmocka_unit_test(test_last)};

    (void) setenv("OFIDEV_SWALLOW", "10", 1);
    fab_params.ofi_provider = (char *) (uintptr_t) "tcp,net";
    world_use_providers("ofi");
    return cmocka_run_group_tests(tests, NULL, NULL);
}
