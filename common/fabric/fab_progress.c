/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Progress and sleep: the providers, and what waits in the fabric.
 */
#include "fabric/fab_core.h"

#include <poll.h>
#include <time.h>

/* First the peers that are to move: their items wait for it. */
static int run_queues(fab_core_t *core)
{
    int events = fab_drop_run(core);

    events += fab_queue_run(core);
    fab_core_set_work(core,
                      core->num_busy > 0 || !LIST_EMPTY(&core->drops) || core->is_failure_lost);
    return events;
}

int fab_progress(fab_t *fab)
{
    fab_core_t *core = fab_core(fab);
    int events = 0;

    fab->must_return = false;
    fab->passes++;
    for (unsigned i = 0; i < core->num_open; i++) {
        events += core->open[i].progress(core->open[i].dom);
    }
    fab->events += (uint32_t) events;
    if (__builtin_expect(core->has_work, 0)) {
        events += run_queues(core);
    }
    return events;
}

bool fab_has_queued(const fab_t *fab)
{
    const fab_core_t *core = (const fab_core_t *) fab;

    for (int i = 0; i < FAB_NUM_PROVIDERS; i++) {
        if (NULL != core->slots[i].dom && NULL != fab_providers[i]->is_holding &&
            fab_providers[i]->is_holding(core->slots[i].dom)) {
            return true;
        }
    }
    return core->num_busy > 0;
}

bool fab_sleep(fab_t *fab, unsigned us)
{
    const fab_core_t *core = fab_core(fab);
    struct timespec time = {.tv_sec = us / 1000000, .tv_nsec = us % 1000000 * 1000};
    struct pollfd fds[FAB_NUM_PROVIDERS];
    int slots[FAB_NUM_PROVIDERS];
    nfds_t num = 0;

    bool is_awake = false;

    fab_lock(fab);
    for (int i = 0; i < FAB_NUM_PROVIDERS && !is_awake; i++) {
        if (NULL != core->slots[i].dom && NULL != fab_providers[i]->wake_fd) {
            const int fd = fab_providers[i]->wake_fd(core->slots[i].dom);

            is_awake = FAB_AWAKE == fd;
            slots[num] = i;
            fds[num++] = (struct pollfd){.fd = fd, .events = POLLIN};
        }
    }
    fab_unlock(fab);
    if (is_awake) {
        return true;
    }
    if (ppoll(fds, num, &time, NULL) <= 0) {
        return false;
    }
    fab_lock(fab);
    for (nfds_t i = 0; i < num; i++) {
        if (0 != fds[i].revents) {
            fab_providers[slots[i]]->is_awake(core->slots[slots[i]].dom);
        }
    }
    fab_unlock(fab);
    return true;
}
