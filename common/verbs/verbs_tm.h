/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Matching hardware.
 */
#ifndef FAB_VERBS_TM_H
#define FAB_VERBS_TM_H

#include "fabric/fab_tm.h"
#include "verbs/verbs_types.h"

enum {
    /* places beyond the list's length: for receives that are off the list and not yet delivered */
    FAB_VERBS_TM_SPARE = FAB_VERBS_BATCH,
    FAB_VERBS_LISTED = 2, /* in a wr_id: a listed receive, not a buffer */
};

struct fab_verbs_tm {
    struct ibv_cq_ex *cq;
    uint32_t max_tags;
    uint32_t max_ops;
    fab_verbs_pool_t pool;          /* buffers of listed receives */
    struct fab_verbs_place *places; /* all */
    struct fab_verbs_place *free_places;
    const fab_tm_user_t *user; /* NULL: nobody lists receives */
    void *ctx;
    bool is_failure_reported;
    bool has_rndv; /* the device reads and answers by itself */
};

/* Where the device puts the message for a listed receive. */
typedef struct fab_verbs_place {
    struct fab_verbs_place *next; /* free */
    fab_tm_recv_t *recv;          /* matched, its data is to come */
    /* from there; NULL: it is not matched, all is there, or the sender is not known */
    fab_verbs_conn_t *conn;
    fab_reg_t *reg; /* of the user's memory; NULL: buf */
    fab_verbs_buf_t *buf;
    void *data;
    uint32_t len;
    uint32_t lkey;
    bool is_left; /* the device matched a rendezvous and left it to software */
    /* the user's bytes that an announcement overwrites: it may be longer than its message */
    unsigned char covered[sizeof(fab_rndv_t)];
} fab_verbs_place_t;

/*
 * Make the TM-SRQ and its completion queue, if the device has such and the user wants it.  False:
 * use plain ones.
 */
bool fab_verbs_tm_open(fab_verbs_domain_t *dom);
/* Free the rest, after the queues have been destroyed. */
void fab_verbs_tm_close(fab_verbs_domain_t *dom);
bool fab_verbs_tm_use(fab_domain_t *dom, const fab_tm_user_t *user, void *ctx,
                      fab_tm_device_t *device);
/* May no buffers be given to the device now? */
bool fab_verbs_tm_must_hold(const fab_verbs_domain_t *dom);
/* Has the device begun to receive on this connection what it has not completed? */
bool fab_verbs_tm_is_receiving(const fab_verbs_conn_t *conn);
/*
 * The QPs of the connection are destroyed: what the device began to receive on them and did not
 * complete is lost.
 */
void fab_verbs_tm_conn_gone(fab_verbs_conn_t *conn);
/* Messages may be lost in it: the device is not used any more. */
void fab_verbs_tm_broke(fab_verbs_domain_t *dom, const char *why);

#endif /* FAB_VERBS_TM_H */
