/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A completion queue with a descriptor costs providers a system call now and then, so it has none
 * unless somebody may sleep (fab_t.may_sleep).  Where a provider has no such queues, sleeps just
 * end later.  The descriptor of libfabric 1.17's net is readable ever after the first connection: a
 * sleep that such an event ended is followed by one that none ends (pml_tm_idle.c).
 */
#include "ofi/ofi.h"

#include <rdma/fi_errno.h>
#include <rdma/fi_eq.h>

static int open_queue(fab_ofi_domain_t *dom, size_t size, enum fi_wait_obj wait)
{
    struct fi_cq_attr attr = {.size = size, .format = FI_CQ_FORMAT_TAGGED, .wait_obj = wait};

    return fi_cq_open(dom->domain, &attr, &dom->cq, NULL);
}

int fab_ofi_sleep_open_queue(fab_ofi_domain_t *dom, size_t size)
{
    if (dom->fab->may_sleep && 0 == open_queue(dom, size, FI_WAIT_FD)) {
        if (0 == fi_control(&dom->cq->fid, FI_GETWAIT, &dom->wake_fd)) {
            return 0;
        }
        (void) fi_close(&dom->cq->fid);
    }
    dom->wake_fd = -1;
    return open_queue(dom, size, FI_WAIT_NONE);
}

int fab_ofi_sleep_fd(fab_domain_t *domain)
{
    fab_ofi_domain_t *dom = (fab_ofi_domain_t *) domain;
    struct fid *fids[] = {&dom->cq->fid};
    const bool may_sleep = dom->wake_fd < 0 || FI_SUCCESS == fi_trywait(dom->fabric, fids, 1);

    return may_sleep ? dom->wake_fd : FAB_AWAKE;
}
