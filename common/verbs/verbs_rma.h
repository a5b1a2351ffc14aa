/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Get and put, and the memory that peers may reach: READs and WRITEs in steps.
 */
#ifndef FAB_VERBS_RMA_H
#define FAB_VERBS_RMA_H

#include "verbs/verbs_reg.h"
#include "verbs/verbs_types.h"
#include "verbs/verbs_wire.h"

enum {
    /* bytes of one READ or WRITE: others on the same QP wait that long, 0.1 ms at 100 Gbit/s */
    FAB_VERBS_STEP = 1 << 20,
    /* READs or WRITEs under way on one QP, if the devices can: enough to fill the line */
    FAB_VERBS_STEPS = 4,
};

struct fab_verbs_op {
    STAILQ_ENTRY(fab_verbs_op) link; /* in ep->ops */
    fab_verbs_domain_t *dom;
    fab_rma_t *rma;
    fab_verbs_reg_t *reg; /* of the local memory */
    size_t posted;        /* bytes asked for so far */
    uint32_t in_flight;   /* work requests under way */
    int status;
    bool is_queued; /* in ep->ops: there is more to post */
};

/* Memory that a peer, or the device for a listed receive, may reach. */
struct fab_verbs_exposed {
    LIST_ENTRY(fab_verbs_exposed) link;
    fab_verbs_reg_t *reg;
    bool is_requested; /* in a request that the receiver's device may answer */
};

int fab_verbs_rma(fab_rma_t *op);
int fab_verbs_rma_progress(fab_verbs_domain_t *dom);
int fab_verbs_expose(fab_peer_t *peer, const void *buf, size_t len, unsigned access,
                     fab_rkey_t *rkey);
void fab_verbs_unexpose(fab_peer_t *peer, fab_rkey_t *rkey);
bool fab_verbs_expose_any(fab_domain_t *dom, const void *buf, size_t len, unsigned access,
                          fab_rkey_t *rkey);
void fab_verbs_unexpose_any(fab_domain_t *dom, const fab_rkey_t *rkey);
/* How a peer reaches what this process exposed, as matching hardware reads and writes it. */
fab_verbs_rvh_t fab_verbs_rvh(const fab_rndv_t *rndv);
fab_rndv_t fab_verbs_rndv(const fab_verbs_rvh_t *rvh);
/*
 * Register memory until it is let go; peers that know its key may read it, and do what access
 * (FAB_ACCESS_*) says; 0: this process's device writes it.  *list: where to keep it. NULL: it
 * cannot be.
 */
fab_verbs_exposed_t *fab_verbs_hold(fab_verbs_domain_t *dom, fab_verbs_exposed_list_t *list,
                                    const void *buf, size_t len, unsigned access);
void fab_verbs_let_go(fab_verbs_domain_t *dom, fab_verbs_exposed_t *exposed);
/* The receiver's device may answer this request, at most once, until the memory is let go. */
void fab_verbs_requested(fab_verbs_domain_t *dom, const fab_rndv_t *rndv);
/* A READ or WRITE of len bytes ended. */
void fab_verbs_op_landed(fab_verbs_op_t *op, uint32_t len, int status);
/* End all operations that are not posted, and release what the peer may reach. */
void fab_verbs_rma_drop(fab_verbs_ep_t *ep);

#endif /* FAB_VERBS_RMA_H */
