/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the tests of the verbs provider's inside share: its objects behind those of the fabric.
 */
#ifndef TEST_VERBS_WORLD_H
#define TEST_VERBS_WORLD_H

#include "test_fab_faults.h"

#include <fcntl.h>

#include "fabric/fab_core.h"
#include "verbs/verbs.h"

/* The table of providers has verbs there: fab_provider.c. */
static inline fab_verbs_domain_t *verbs_domain(const world_t *world)
{
    return (fab_verbs_domain_t *) fab_core(world->fab)->slots[3].dom;
}

static inline fab_verbs_ep_t *ep_of(const fab_peer_t *peer)
{
    return peer->ep;
}

static inline bool is_by(const fab_peer_t *peer, const char *provider)
{
    return 0 == strcmp(provider, fab_peer_provider_name(peer));
}

/* Connect to it, both ways of traffic ready here. */
static inline void connect_to(world_t *world, fab_peer_t *peer)
{
    post(world, peer);
    WORLD_UNTIL(FAB_SES_UP == ep_of(peer)->ses.state);
}

/*
 * For the jobs from now on a file for TMDEV_CUT, which they inherit: what is sent from and to a LID
 * whose byte is not 0 is lost.  world_end_cuts() ends it.
 */
static _Atomic uint8_t *world_cuts;

static inline void world_begin_cuts(void)
{
    int fd = memfd_create("cuts", 0);
    char name[40];

    assert_true(fd >= 0 && 0 == ftruncate(fd, 256));
    world_cuts = mmap(NULL, 256, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    assert_true(MAP_FAILED != (void *) world_cuts);
    snprintf(name, sizeof(name), "/proc/self/fd/%d", fd);
    setenv("TMDEV_CUT", name, 1);
}

static inline void world_end_cuts(void)
{
    munmap((void *) world_cuts, 256);
    close(atoi(getenv("TMDEV_CUT") + strlen("/proc/self/fd/")));
    unsetenv("TMDEV_CUT");
}

/* world_run_some_die() of processes whose ports can be cut. */
static inline int world_run_cut(int size, bool is_threaded, world_fn_t fn, uint64_t killed)
{
    int wrong;

    world_begin_cuts();
    wrong = world_run_some_die(size, is_threaded, fn, killed);
    world_end_cuts();
    return wrong;
}

#endif /* TEST_VERBS_WORLD_H */
