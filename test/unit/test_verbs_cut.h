/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Jobs with three ports a process, that fail while they are used: numbered messages of many lengths
 * (send_long(), on_long()), and how a port fails.
 */
#ifndef TEST_VERBS_CUT_H
#define TEST_VERBS_CUT_H

#include "test_verbs_world.h"

enum { DOWN = -1 }; /* for cut(): the first port of this process is down for good */

static uint64_t num_got[4], num_wrong; /* messages, from each rank */

static inline size_t long_of(uint64_t number)
{
    return 0 == number % 9 ? number * 101 % 6000 : number % 300;
}

static inline void on_long(void *ctx, fab_peer_t *peer, fab_hdr_t hdr, const void *data, size_t len)
{
    uint64_t *next = &num_got[peer->name & 3];

    (void) ctx;
    num_wrong += hdr.tag != *next || len != long_of(*next) || !world_is_filled(data, *next, len);
    ++*next;
}

static inline void send_long(world_t *world, fab_peer_t *peer, uint64_t number)
{
    static unsigned char data[6000];
    size_t len = long_of(number);

    world_fill(data, number, len);
    while (OPAL_SUCCESS != fab_send(peer, fab_hdr(AM_DATA, number, 0), data, len)) {
        CHECK(FAB_PEER_UP == peer->state);
        world_progress(world);
    }
}

/* The port with this LID, or DOWN. */
static inline void cut(world_t *world, int lid)
{
    if (DOWN == lid) {
        fab_verbs_port_lost(verbs_domain(world)); /* as it says after ten seconds */
    } else {
        atomic_store(&world_cuts[lid], 1);
    }
}

enum { KEPT = 20, SENT_AGAIN = 3 }; /* messages; KEPT is less than a window */

static inline void send_kept(world_t *world, fab_peer_t *peer)
{
    for (uint64_t number = 1; number <= KEPT; number++) {
        send_long(world, peer, number);
    }
}

/*
 * The connection by the first port breaks with KEPT messages under way, and the next one is up with
 * room for SENT_AGAIN of them.  Returns how much room it had.
 */
static inline uint32_t break_first(world_t *world, fab_verbs_ep_t *ep)
{
    const uint32_t sq_used_max = ep->dom->sq_used_max;
    const fab_verbs_domain_t *first = ep->dom;

    cut(world, first->addr.lid);
    send_kept(world, ep->peer);
    while (first == ep->dom || FAB_VERBS_UP != ep->state) {
        world_progress(world);
        if (first != ep->dom) {
            ep->dom->sq_used_max = 0; /* no room for what is to be sent again */
        }
    }
    CHECK(NULL != ep->keep && 0 == fab_counters.verbs_sent_again);
    ep->dom->sq_used_max = ep->dom->sq_used + SENT_AGAIN;
    return sq_used_max;
}

/* A test with ports by which processes move without waiting long, and that match no tags. */
#define THREE_PORTS(test) cmocka_unit_test_setup_teardown(test, three_ports, one_port)

static unsigned int usual_timeout;
static char *usual_tm;

static inline int three_ports(void **state)
{
    (void) state;
    usual_timeout = fab_params.verbs_timeout;
    usual_tm = fab_params.verbs_tm;
    fab_params.verbs_timeout = 8;
    fab_params.verbs_tm = (char *) (uintptr_t) "none";
    return setenv("TMDEV_DEVICES", "3", 1);
}

static inline int one_port(void **state)
{
    (void) state;
    fab_params.verbs_timeout = usual_timeout;
    fab_params.verbs_tm = usual_tm;
    return unsetenv("TMDEV_DEVICES");
}

#endif /* TEST_VERBS_CUT_H */
