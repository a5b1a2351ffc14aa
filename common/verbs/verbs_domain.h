/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The domain: one port of one device, with all that is open on it.
 */
#ifndef FAB_VERBS_DOMAIN_H
#define FAB_VERBS_DOMAIN_H

#include "fabric/fab_provider.h"
#include "sock/sock.h"
#include "verbs/verbs_cm.h"
#include "verbs/verbs_conn.h"
#include "verbs/verbs_pool.h"
#include "verbs/verbs_reg.h"
#include "verbs/verbs_types.h"
#include "verbs/verbs_wire.h"

enum {
    FAB_VERBS_SQ_USED_MAX = 8192, /* work requests on all QPs, if the send CQ can be that large */
    FAB_VERBS_HASH = 4096,        /* buckets of the table from QP number to connection */
};

struct fab_verbs_domain {
    fab_t *fab;

    /* polling */
    struct ibv_cq *recv_cq;
    struct ibv_cq *send_cq;
    uint32_t num_conns;    /* those with a QP, lingering ones too */
    uint32_t num_signaled; /* work requests that will complete */
    uint32_t sq_used;      /* work requests posted and not known to be complete */
    uint32_t sq_used_max;
    uint32_t pass;                /* progress calls */
    fab_verbs_conn_t *last_conn;  /* on which the last message came */
    fab_verbs_conn_t *chained;    /* whose work requests go to chain first; NULL: none's */
    fab_verbs_conn_queue_t conns; /* all; the first is looked at next (verbs_alive.c) */
    uint32_t next_id;             /* of the next queue pair */
    fab_verbs_qpn_list_t by_qpn[FAB_VERBS_HASH];
    fab_verbs_conn_list_t due;
    fab_verbs_conn_list_t lingering;
    fab_verbs_ep_queue_t rma; /* with operations to post */
    uint32_t num_rma;
    fab_verbs_ep_queue_t failing; /* when all that they sent is delivered */

    /* device */
    struct ibv_context *ctx;
    struct ibv_pd *pd;
    struct ibv_srq *srq;
    fab_verbs_tm_t *tm;     /* NULL: srq is a plain one */
    uint32_t num_requested; /* requests that peers' devices may still answer */
    uint32_t max_requested; /* receive buffers for the answers */
    uint32_t empty_polls;   /* of recv_cq, modulo 2^32 */
    struct ibv_device_attr device;
    struct ibv_port_attr port;
    uint32_t step; /* bytes of one READ or WRITE at most */
    int access;    /* IBV_ACCESS_*: what the QPs allow peers */
    uint8_t port_num;
    uint8_t gid_index;
    char name[64 + 8]; /* "mlx5_0:1" */
    bool is_dead;      /* the device failed */
    bool is_closed;    /* by fab_close(): operations end without completion */
    /* other providers reach all of the job: started when a process joins that they do not reach */
    bool is_standby;
    bool is_started;          /* queues and buffers are made */
    uint64_t port_down_since; /* us; 0: it is up */

    /* memory */
    fab_verbs_pool_t send_pool;
    fab_verbs_pool_t recv_pool;
    fab_verbs_buf_t *to_post; /* receive buffers to be posted again */
    uint32_t max_recv_bufs;
    fab_verbs_regs_t *regs;
    fab_verbs_exposed_list_t exposed; /* memory that any peer may reach */
    bool is_memlock_logged;

    /* connecting */
    fab_sock_set_t *socks; /* for connection set-up */
    int epoll;             /* of socks, and of the device's events; -1: none */
    const fab_verbs_cm_ops_t *cm_ops;
    fab_verbs_cm_t *cm; /* of rdma_cm */
    uint32_t num_asking;
    uint32_t num_ending; /* endpoints with an end_by */
    fab_verbs_ep_queue_t waiting;
    uint64_t next_oob;  /* us */
    uint64_t next_tick; /* us */

    fab_verbs_ep_list_t eps; /* all */
    fab_verbs_addr_t addr;   /* of this process */
    fab_verbs_chain_t chain;
};

extern const fab_provider_t fab_verbs_provider;

/* Its first buffers could not be made (errno): the reason. */
const char *fab_verbs_no_bufs(const fab_verbs_domain_t *dom, size_t size);

/* Queues and buffers are needed: make them, if that was not done. NULL, or why that cannot be. */
const char *fab_verbs_start(fab_verbs_domain_t *dom);

#endif /* FAB_VERBS_DOMAIN_H */
