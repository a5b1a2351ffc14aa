/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Strangers: which of them may stay, and the descriptors that they get.
 *
 * A process that has used up its descriptors has one in reserve.  The connection that takes it must
 * go or prove itself before the next one is accepted.
 */
#include "sock/sock_types.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "fabric/fab_provider.h"

void fab_sock_count_stranger(const fab_sock_set_t *set, int fd)
{
    char from[64];

    if (0 == (*set->user.strangers)++) {
        fab_log(set->user.fab, 1,
                "A connection was dropped (%s): it did not prove that it belongs to this job. "
                "Others like it are only counted.",
                fab_sock_peer_text(fd, from, sizeof(from)));
    }
}

void fab_sock_drop_stranger(fab_sock_t *sock)
{
    fab_sock_count_stranger(sock->set, sock->fd);
    fab_sock_kill(sock);
}

/* The oldest stranger that has been silent for long; the list has the latest first. */
static fab_sock_t *silent_stranger(const fab_sock_set_t *set)
{
    fab_sock_t *oldest = NULL, *sock;

    LIST_FOREACH(sock, &set->socks, link) {
        oldest = sock->is_silent ? sock : oldest;
    }
    return oldest;
}

bool fab_sock_make_room_for_file(fab_sock_set_t *set, bool may_raise)
{
    if (may_raise && fab_sock_raise_max_files()) {
        return true;
    }
    if (set->num_silent > 0) {
        fab_sock_drop_stranger(silent_stranger(set));
        return true;
    }
    if (!set->has_complained) {
        set->has_complained = true;
        fab_log(set->user.fab, 0,
                "Connections with other processes wait until this one closes a file: it may have "
                "%lu files open (ulimit -n).",
                fab_sock_max_files());
    }
    return false;
}

static unsigned num_strangers_from(const fab_sock_set_t *set, const uint8_t *ip)
{
    const fab_sock_t *sock;
    unsigned num = 0;

    LIST_FOREACH(sock, &set->socks, link) {
        num += !sock->is_dead && fab_sock_is_stranger(sock) &&
               0 == memcmp(sock->from, ip, sizeof(sock->from));
    }
    return num;
}

/*
 * The stranger that gives its place to one of an address which has own of them: of an address that
 * has more even then, or has as many and this one is silent.  Of the address with the most, the
 * oldest; the list has the latest first.
 */
static fab_sock_t *stranger_to_go(const fab_sock_set_t *set, unsigned own)
{
    fab_sock_t *best = NULL, *sock;
    unsigned most = 0;

    LIST_FOREACH(sock, &set->socks, link) {
        unsigned num = !sock->is_dead && fab_sock_is_stranger(sock)
                           ? num_strangers_from(set, sock->from)
                           : 0;
        if (num >= most && (num > own + 1 || (sock->is_silent && num >= own))) {
            best = sock;
            most = num;
        }
    }
    return best;
}

bool fab_sock_make_place(fab_sock_set_t *set, const uint8_t *from)
{
    fab_sock_t *other;

    if (set->num_strangers < FAB_SOCK_STRANGERS) {
        return true;
    }
    other = stranger_to_go(set, num_strangers_from(set, from));
    if (NULL == other) {
        return false;
    }
    fab_sock_drop_stranger(other);
    return true;
}

bool fab_sock_has_spare(fab_sock_set_t *set)
{
    while (set->spare < 0) {
        set->spare = fcntl(set->epoll, F_DUPFD_CLOEXEC, 0);
        if (set->spare < 0 && !(EMFILE == errno && fab_sock_make_room_for_file(set, false))) {
            return false;
        }
    }
    return true;
}

int fab_sock_accept_next(fab_sock_set_t *set, int listener, uint8_t *from)
{
    struct sockaddr_storage sa;
    socklen_t len;
    int fd = -1;

    while (fab_sock_has_spare(set)) {
        len = sizeof(sa);
        fd = accept4(listener, (struct sockaddr *) &sa, &len, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd < 0 && EMFILE == errno) {
            close(set->spare); /* what comes first may prove that it belongs to the job */
            set->spare = -1;
            fd = accept4(listener, (struct sockaddr *) &sa, &len, SOCK_NONBLOCK | SOCK_CLOEXEC);
        }
        if (fd >= 0 || (EINTR != errno && ECONNABORTED != errno)) {
            break;
        }
    }
    if (fd >= 0 && !fab_sock_ip_of((struct sockaddr *) &sa, from)) {
        memset(from, 0, 16);
    }
    return fd;
}
