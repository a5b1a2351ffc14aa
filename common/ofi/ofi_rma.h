/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Get and put: fi_read() and fi_write() in steps.
 */
#ifndef FAB_OFI_RMA_H
#define FAB_OFI_RMA_H

#include "ofi/ofi_domain.h"
#include "ofi/ofi_ep.h"

enum {
    FAB_OFI_STEP = 1 << 20,      /* bytes of one transfer at most */
    FAB_OFI_UNDER_WAY = 4 << 20, /* bytes under way with one peer before no more are asked for */
    FAB_OFI_XFERS = 64,          /* and transfers */
};

struct fab_ofi_op {
    TAILQ_ENTRY(fab_ofi_op) link; /* in ep->ops or ep->posted */
    fab_ofi_ep_t *ep;             /* NULL: dropped */
    fab_ofi_domain_t *dom;
    fab_rma_t *rma;
    size_t posted;      /* bytes asked for so far */
    uint32_t in_flight; /* transfers under way */
    int status;
    bool is_posted;  /* it is in ep->posted */
    bool is_flushed; /* a read after the last write has been asked for, or is not needed */
};

/* A transfer. */
typedef struct fab_ofi_xfer {
    fab_ofi_ctx_t ctx;
    fab_ofi_op_t *op;
    size_t len; /* bytes */
} fab_ofi_xfer_t;

int fab_ofi_rma(fab_rma_t *op);
int fab_ofi_rma_progress(fab_ofi_domain_t *dom);
/* A transfer ended; it is freed. */
void fab_ofi_xfer_end(fab_ofi_domain_t *dom, fab_ofi_xfer_t *xfer, int status);
/*
 * End all operations of which nothing is under way, and release what the peer may reach; the others
 * end when libfabric has done with them.
 */
void fab_ofi_rma_drop(fab_ofi_ep_t *ep);

#endif /* FAB_OFI_RMA_H */
