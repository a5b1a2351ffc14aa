/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The domain: one endpoint of libfabric's, with all that is open on it.
 */
#ifndef FAB_OFI_DOMAIN_H
#define FAB_OFI_DOMAIN_H

#include <rdma/fabric.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>

#include "fabric/fab_provider.h"
#include "fabric/fab_reg.h"
#include "idmap/idmap.h"
#include "ofi/ofi_pool.h"
#include "ofi/ofi_types.h"
#include "ofi/ofi_wire.h"
#include "session/session.h"

enum {
    FAB_OFI_KEYS = 256, /* buckets of the table from key to exposed memory */
};

typedef struct fab_ofi_rbuf {
    fab_ofi_ctx_t ctx;
    unsigned char *data; /* the begin of a page */
    size_t high;         /* bytes up to the end of the message that lies last in it */
    size_t filled;       /* bytes of all its messages so far, and of gaps that hold none */
    bool is_posted;
    bool is_refused;  /* by libfabric, which is not asked again */
    bool is_released; /* libfabric begins no more messages in it */
    bool is_whole;    /* and said so with the message that lies last in it */
    struct fab_ofi_rbuf *next;
} fab_ofi_rbuf_t;

typedef struct fab_ofi_rbufs {
    fab_ofi_rbuf_t *bufs; /* all */
    uint32_t num;         /* of them, but num_more */
    uint32_t num_idle;    /* not posted, and to be posted when they are free */
    uint32_t num_refused;
    uint32_t num_more;    /* made because all others were aside */
    size_t size;          /* bytes of each */
    size_t min_free;      /* with less room than this left, libfabric releases a buffer */
    uint64_t *aligned;    /* for a message that is not */
    uint64_t aside_since; /* us: all are released, and none is free; 0: not so */
    bool is_final;        /* the provider fills no buffer that it has released */
    bool is_known;        /* one was found free: the provider leaves no gaps */
} fab_ofi_rbufs_t;

struct fab_ofi_domain {
    fab_t *fab;
    const fab_provider_t *provider;
    fab_ses_domain_t ses;

    /* polling */
    struct fid_ep *rdm;
    struct fid_cq *cq;
    uint32_t pass;
    uint32_t num_sends; /* messages that will complete */
    uint32_t num_early; /* messages kept until those before them have come */
    uint32_t num_quiet; /* polls that found the queue empty, so far */
    bool is_dead;       /* the completion queue failed */
    bool is_closed;     /* by fab_close(): operations end without completion */

    /* sending */
    bool is_packing;    /* a message costs the provider a system call: few messages, then */
    bool is_lazy;       /* nothing leaves libfabric but in a poll */
    uint32_t polls;     /* of the completion queue, so far */
    size_t inject_max;  /* bytes of a message that libfabric copies at once */
    size_t eager_limit; /* bytes of a payload here */
    fab_ofi_pool_t send_pool;
    fab_ofi_ep_queue_t sending; /* with messages that found no room */
    int send_error;             /* libfabric's, of the last message that it refused */

    /* receiving */
    fab_idmap_t sessions; /* endpoints, by the indexes that messages to this process have */
    uint64_t next_nonce;
    uint32_t ticks;     /* so far */
    uint32_t next_look; /* index of the session that is looked at next */
    bool has_clocks;    /* of sessions that await a last word, perhaps: fab_ses_tick() */
    fab_ofi_rbufs_t recv;

    fab_ofi_ep_queue_t due;       /* credits are to be returned */
    fab_ofi_ep_queue_t broken;    /* their path: until all that came by it is taken */
    fab_ofi_ep_queue_t rma;       /* with operations to post */
    fab_ofi_via_queue_t again;    /* HELLOs to look at again */
    const fab_ofi_frame_t *frame; /* WELCOME that is being handed to its session */

    /* memory */
    bool has_rma;
    bool is_virt;              /* RMA by addresses, not by offsets */
    bool has_delivery;         /* a write can tell that it has reached memory */
    bool is_honest;            /* and then it has */
    fab_ofi_xfer_list_t xfers; /* under way */
    uint64_t next_key;         /* where the provider makes none */
    fab_regs_t *regs;
    fab_ofi_exposed_list_t exposed; /* memory that any peer may reach */
    fab_ofi_exposed_list_t by_key[FAB_OFI_KEYS];
    uint64_t *flushed; /* what a read after writes reads; not used */

    /* libfabric's objects */
    struct fi_info *info;
    struct fid_fabric *fabric;
    struct fid_domain *domain;
    struct fid_av *av;
    struct fid_eq *eq; /* NULL: the provider takes none */
    int wake_fd;       /* readable when the queue has something; -1: there is none */
    char name[96];     /* "cxi, cxi0" */

    uint64_t next_tick;          /* us */
    uint32_t period;             /* of FAB_OFI_PERIOD_US, while this process polls */
    uint64_t next_period;        /* us */
    fab_ofi_ep_list_t eps;       /* of all peers */
    fab_ofi_ep_list_t lingering; /* without a peer, with something left to send */
    fab_ofi_addr_t addr;         /* of this process */
};

#endif /* FAB_OFI_DOMAIN_H */
