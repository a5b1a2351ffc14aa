/* SPDX-License-Identifier: BSD-3-Clause */
/* Sockets that listen, all on the same port. */
#ifndef FAB_SOCK_LISTEN_H
#define FAB_SOCK_LISTEN_H

#include "sock/sock_ip.h"

/* connections that the kernel keeps while this process computes; it takes less if it must */
enum { FAB_SOCK_BACKLOG = 4096 };

typedef struct fab_sock_listeners {
    int fds[FAB_SOCK_IPS];
    int num;
    uint16_t port;
} fab_sock_listeners_t;

/* Where to listen. */
typedef struct fab_sock_place {
    const fab_sock_ip_t *ips; /* at these addresses only */
    int num_ips;              /* 0: at all addresses of the host */
    uint16_t port_min;        /* on one of these ports; 0: on any */
    uint16_t port_max;
    unsigned first; /* of the range, the port that is tried first: differs on a host */
} fab_sock_place_t;

/* 0, or errno. */
int fab_sock_listen(const fab_sock_place_t *place, fab_sock_listeners_t *out);
void fab_sock_listen_close(fab_sock_listeners_t *listeners);

/* The greatest backlog that the kernel allows here (net.core.somaxconn); 0: not known. */
unsigned fab_sock_max_backlog(void);

#endif /* FAB_SOCK_LISTEN_H */
