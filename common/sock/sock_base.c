/* SPDX-License-Identifier: BSD-3-Clause */
/* One socket: its place in the set, its state, its descriptor. */
#include "sock/sock_types.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <unistd.h>

#include "fabric/fab_clock.h"

/* Bytes that the kernel keeps unsent: what follows waits less. */
enum { FAB_SOCK_NOTSENT = 131072 };

fab_sock_t *fab_sock_new(fab_sock_set_t *set)
{
    fab_sock_t *sock = calloc(1, sizeof(*sock));

    if (NULL == sock) {
        return NULL;
    }
    sock->set = set;
    sock->fd = sock->probe = -1;
    LIST_INSERT_HEAD(&set->socks, sock, link);
    set->num_socks++;
    return sock;
}

void fab_sock_close(fab_sock_t *sock)
{
    if (sock->fd >= 0) {
        close(sock->fd); /* and out of the epoll set */
        sock->fd = -1;
        sock->watched = 0;
    }
}

void fab_sock_close_probe(fab_sock_t *sock)
{
    if (sock->probe >= 0) {
        close(sock->probe);
        sock->probe = -1;
    }
}

void fab_sock_free(fab_sock_t *sock)
{
    LIST_REMOVE(sock, link);
    fab_sock_close(sock);
    fab_sock_close_probe(sock);
    sock->set->num_socks--;
    free(sock);
}

void fab_sock_set_silent(fab_sock_t *sock, bool is_silent)
{
    sock->set->num_silent -= sock->is_silent;
    sock->is_silent = is_silent;
    sock->set->num_silent += is_silent;
}

void fab_sock_set_state(fab_sock_t *sock, fab_sock_state_t state)
{
    fab_sock_set_silent(sock, false);
    sock->set->num_strangers -= fab_sock_is_stranger(sock);
    sock->state = state;
    sock->set->num_strangers += fab_sock_is_stranger(sock);
    if (fab_sock_is_stranger(sock)) {
        sock->deadline = fab_now_us() + FAB_SOCK_STRANGER_US;
    }
}

void fab_sock_kill(fab_sock_t *sock)
{
    if (!sock->is_dead) {
        fab_sock_close(sock);
        fab_sock_set_silent(sock, false);
        sock->set->num_strangers -= fab_sock_is_stranger(sock);
        sock->is_dead = true;
        sock->set->has_dead = true;
    }
}

int fab_sock_watch(fab_sock_t *sock, int op)
{
    bool wants_out = FAB_SOCK_CONNECTING == sock->state || sock->out_done < sock->out_len;
    struct epoll_event event = {.events = EPOLLIN | (wants_out ? EPOLLOUT : 0), .data.ptr = sock};

    if (event.events == sock->watched) {
        return 0;
    }
    sock->watched = event.events;
    return 0 == epoll_ctl(sock->set->epoll, op, sock->fd, &event) ? 0 : errno;
}

unsigned long fab_sock_max_files(void)
{
    struct rlimit files;

    return 0 == getrlimit(RLIMIT_NOFILE, &files) ? files.rlim_cur : 0;
}

bool fab_sock_raise_max_files(void)
{
    struct rlimit files;

    if (0 != getrlimit(RLIMIT_NOFILE, &files) || files.rlim_cur == files.rlim_max) {
        return false;
    }
    files.rlim_cur = files.rlim_max;
    return 0 == setrlimit(RLIMIT_NOFILE, &files);
}

void fab_sock_set_options(int fd, uint32_t timeout_s)
{
    int one = 1, period = (int) (timeout_s + FAB_SOCK_CHECKS - 1) / FAB_SOCK_CHECKS;
    int probes = ((int) timeout_s + period - 1) / period, unsent = FAB_SOCK_NOTSENT;

    (void) setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    (void) setsockopt(fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, &unsent, sizeof(unsent));
    (void) setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &one, sizeof(one));
    (void) setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &period, sizeof(period));
    (void) setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &period, sizeof(period));
    (void) setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &probes, sizeof(probes));
}
