/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The channel for connection set-up: fixed-size frames over short-lived TCP connections, out of
 * band.
 *
 * Each process listens on one port; a peer finds its addresses in the process's address.  All
 * sockets are nonblocking and stand in one epoll set, which fab_verbs_oob_poll() looks at.  A
 * socket tries the peer's IP addresses one after the other until one gives an answer: a private
 * address (of a bridge, of a container) may lead to another host.
 *
 * Nothing here is trusted; who reads a frame checks it.
 */
#ifndef FAB_VERBS_OOB_H
#define FAB_VERBS_OOB_H

#include <sys/socket.h>

#include "verbs/verbs_types.h"

struct fab_verbs_sock {
    int fd;
    fab_verbs_domain_t *dom;
    fab_verbs_ep_t *ep; /* connection.c's: whom it is for; NULL: accepted, not introduced yet */
    bool is_connecting; /* waits for TCP */
    /* made by fab_verbs_oob_connect(), no frame came yet: the next IP address may do */
    bool is_asking;
    bool is_closing;  /* goes when all is written */
    bool is_dead;     /* to be freed */
    bool is_deferred; /* its frame is to be handed over again */
    uint8_t num_ips;
    uint8_t ip_at;
    uint8_t ips[FAB_VERBS_IPS + 1][16];
    uint16_t port;
    int error;         /* errno of the last attempt */
    uint64_t deadline; /* us: of the attempt; of a deferred frame */
    size_t out_len;
    size_t out_done;
    size_t in_len;
    fab_verbs_frame_t out;
    fab_verbs_frame_t in;
    fab_verbs_sock_t *next;
    fab_verbs_sock_t **prev;
};

/* Listen; fills ips, num_ips, port of dom->addr. Also watches the device's events. */
int fab_verbs_oob_open(fab_verbs_domain_t *dom, const char **why);
void fab_verbs_oob_close(fab_verbs_domain_t *dom);

/*
 * Start to connect to the peer of ep and send it the frame. NULL: no file descriptor or memory now.
 */
fab_verbs_sock_t *fab_verbs_oob_connect(fab_verbs_ep_t *ep, const fab_verbs_frame_t *frame);
/* Send a frame; what was sent before on this socket has been answered. */
void fab_verbs_oob_send(fab_verbs_sock_t *sock, const fab_verbs_frame_t *frame);
/* Done with it; what is not written yet still is. */
void fab_verbs_oob_release(fab_verbs_sock_t *sock);
/* Does the other side still wait for an answer? */
bool fab_verbs_oob_is_open(const fab_verbs_sock_t *sock);
/* The answer was none of this peer: try the next address, if there is one; else it is broken. */
void fab_verbs_oob_try_next(fab_verbs_sock_t *sock);

int fab_verbs_oob_poll(fab_verbs_domain_t *dom);

/* From an IP address as frames have it, and to one.  False: of another family, or link-local. */
socklen_t fab_verbs_sockaddr(const uint8_t *ip, uint16_t port, struct sockaddr_storage *out);
bool fab_verbs_ip_of(const struct sockaddr *sa, uint8_t *ip);

/* Upcalls, in verbs_connect.c.  They may release the socket. */
void fab_verbs_on_frame(fab_verbs_sock_t *sock, const fab_verbs_frame_t *frame);
/* It is broken: all addresses failed, or the other side closed it. why is a sentence. */
void fab_verbs_on_broken(fab_verbs_sock_t *sock, const char *why);

#endif /* FAB_VERBS_OOB_H */
