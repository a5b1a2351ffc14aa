/* SPDX-License-Identifier: BSD-3-Clause */
#include "sock/sock_types.h"

#include <errno.h>
#include <netinet/in.h>
#include <string.h>
#include <unistd.h>

enum { FAB_SOCK_PORT_TRIES = 64 }; /* ports that are free at one address, perhaps not at all */

/* ::, which takes IPv4 as well, or 0.0.0.0. */
static fab_sock_ip_t any_ip(bool is_v6)
{
    return (fab_sock_ip_t){.ip = {[10] = is_v6 ? 0 : 0xff, [11] = is_v6 ? 0 : 0xff}};
}

/* An address may be new, and not yet confirmed to be this host's alone: IP_FREEBIND. -1: errno. */
static int open_one(const fab_sock_ip_t *ip, uint32_t timeout_s)
{
    struct sockaddr_storage at;
    socklen_t len = fab_sock_ip_sockaddr(ip, &at);
    fab_sock_ip_t any = any_ip(true);
    int only = 0 != memcmp(ip->ip, any.ip, sizeof(any.ip)), one = 1, error;
    int fd = socket(at.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

    if (fd < 0) {
        return -1;
    }
    fab_sock_set_options(fd, timeout_s);
    (void) setsockopt(fd, IPPROTO_IP, IP_FREEBIND, &one, sizeof(one));
    if (AF_INET6 == at.ss_family) {
        (void) setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &only, sizeof(only));
    }
    if (0 != ip->port) { /* ports of connections that just ended may be used again */
        (void) setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
    }
    if (0 != bind(fd, (struct sockaddr *) &at, len) || 0 != listen(fd, FAB_SOCK_BACKLOG)) {
        error = errno;
        close(fd);
        errno = error;
        return -1;
    }
    return fd;
}

static uint16_t port_of(int fd)
{
    struct sockaddr_storage bound;
    socklen_t len = sizeof(bound);

    if (0 != getsockname(fd, (struct sockaddr *) &bound, &len)) {
        return 0;
    }
    return ntohs(AF_INET6 == bound.ss_family ? ((struct sockaddr_in6 *) &bound)->sin6_port
                                             : ((struct sockaddr_in *) &bound)->sin_port);
}

/* At all these addresses, on this port; 0: on one that the kernel chooses. 0, or errno. */
static int open_all(const fab_sock_ip_t *ips, int num, uint16_t port, uint32_t timeout_s,
                    fab_sock_listeners_t *out)
{
    out->num = 0;
    for (int i = 0; i < num; i++) {
        fab_sock_ip_t ip = ips[i];
        ip.port = port;
        int fd = open_one(&ip, timeout_s);
        if (fd < 0) {
            int error = errno;
            fab_sock_listen_close(out);
            return error;
        }
        out->fds[out->num++] = fd;
        port = port_of(fd);
    }
    out->port = port;
    return 0;
}

/* At all these addresses. 0, or errno. */
static int open_ips(const fab_sock_user_t *user, const fab_sock_ip_t *ips, int num,
                    fab_sock_listeners_t *out)
{
    unsigned count = 0 == user->port_min ? FAB_SOCK_PORT_TRIES
                                         : (unsigned) user->port_max - user->port_min + 1u;
    int error = EADDRINUSE;

    for (unsigned i = 0; i < count && EADDRINUSE == error; i++) {
        unsigned port = user->port_min + (user->fab->config.local_rank + i) % count;
        error = open_all(ips, num, 0 == user->port_min ? 0 : (uint16_t) port, user->timeout_s, out);
    }
    return error;
}

int fab_sock_listen(const fab_sock_user_t *user, fab_sock_listeners_t *out)
{
    const fab_sock_ip_t any[2] = {any_ip(true), any_ip(false)};
    int error;

    if (user->num_ips > 0) {
        return open_ips(user, user->ips, user->num_ips, out);
    }
    error = open_ips(user, &any[0], 1, out);
    return 0 == error ? 0 : open_ips(user, &any[1], 1, out); /* there is no IPv6 */
}

void fab_sock_listen_close(fab_sock_listeners_t *listeners)
{
    while (listeners->num > 0) {
        close(listeners->fds[--listeners->num]);
    }
}
