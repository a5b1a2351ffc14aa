/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Posting work requests on a connection, and the provider's own messages.
 */
#ifndef FAB_VERBS_POST_H
#define FAB_VERBS_POST_H

#include "verbs/verbs_types.h"

/*
 * Post wr, whose sg_list and opcode are set.  buf: given back when it is complete.  op: gets the
 * completion. OPAL_ERR_RESOURCE_BUSY: the device has no room now. OPAL_ERR_UNREACH: the peer is
 * about to fail.
 */
int fab_verbs_conn_post(fab_verbs_conn_t *conn, struct ibv_send_wr *wr, fab_verbs_buf_t *buf,
                        fab_verbs_op_t *op);
/* A send buffer; NULL: none now. */
fab_verbs_buf_t *fab_verbs_send_buf(fab_verbs_domain_t *dom);
/*
 * Post a message: tmh, then len bytes of data.  buf: a send buffer of the caller's, which is given
 * back; it has the payload, behind room for tmh, if data is NULL.  NULL: data is copied.
 */
int fab_verbs_conn_send(fab_verbs_conn_t *conn, struct ibv_send_wr *wr, const fab_verbs_tmh_t *tmh,
                        const void *data, size_t len, fab_verbs_buf_t *buf);
/* Begin a chain: work requests may be held back until its end. */
void fab_verbs_chain_begin(fab_verbs_conn_t *conn);
void fab_verbs_chain_end(fab_verbs_domain_t *dom);

/* Send a message of the provider's own (FAB_VERBS_ID_*).  OPAL_ERR_RESOURCE_BUSY: no room. */
int fab_verbs_conn_send_id(fab_verbs_conn_t *conn, uint8_t id);
/* The same, now or when there is room. */
void fab_verbs_conn_send_control(fab_verbs_conn_t *conn, uint8_t id);
void fab_verbs_conn_send_due(fab_verbs_domain_t *dom);
void fab_verbs_conn_schedule_credits(fab_verbs_conn_t *conn);
void fab_verbs_conn_unschedule_credits(fab_verbs_conn_t *conn);

static inline uint32_t fab_verbs_sq_room(const fab_verbs_conn_t *conn)
{
    return conn->sq_depth - (conn->head - conn->tail);
}

static inline bool fab_verbs_has_credit(const fab_verbs_conn_t *conn)
{
    return (uint16_t) (conn->sent - conn->taken) < conn->window;
}

#endif /* FAB_VERBS_POST_H */
