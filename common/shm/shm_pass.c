/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Passing a segment's descriptor to a peer that may not open it through /proc: it is in another
 * user namespace (Apptainer without setuid, rootless podman), or one of both programs has changed
 * what it, or others, may look at.  Through /proc no action of the owner is needed; here it answers
 * when it is in MPI.
 *
 *      asker  ──ASK, the owner's nonce──> owner
 *      asker  <──GIVE, the descriptor──── owner
 *
 * By one datagram socket of each process.  No state is kept: an asker asks again until it has the
 * segment.  A process without the nonce, or of another user, gets no answer.
 */
#include "shm/shm.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/socket.h>
#include <sys/un.h>

enum {
    FAB_SHM_PASS_BATCH = 64, /* datagrams that one look takes */
    CONTROL = CMSG_SPACE(sizeof(struct ucred)) + CMSG_SPACE(sizeof(int)),
};

/* What came with a datagram. */
typedef struct {
    fab_shm_pass_t text;
    struct sockaddr_un from;
    socklen_t from_len;
    uid_t user; /* in this process's user namespace; -1: the kernel did not say */
    int fds[2]; /* -1: none. One is sent; the kernel's padding has room for two */
} letter_t;

/* ---- the socket --------------------------------------------------------- */

/* The name that the kernel gave it: five hexadecimal digits. 0: none. */
static uint32_t name_of(int fd)
{
    struct sockaddr_un un = {.sun_family = AF_UNIX};
    socklen_t len = sizeof(un) - 1;

    if (0 != getsockname(fd, (struct sockaddr *) &un, &len) || '\0' != un.sun_path[0]) {
        return 0;
    }
    return (uint32_t) strtoul(un.sun_path + 1, NULL, 16) + 1;
}

void fab_shm_pass_open(fab_shm_domain_t *dom)
{
    const struct sockaddr_un none = {.sun_family = AF_UNIX};
    const int on = 1;
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

    if (fd < 0) {
        return;
    }
    fab_file_open(&dom->socket, fd);
    if (0 == setsockopt(fd, SOL_SOCKET, SO_PASSCRED, &on, sizeof(on)) &&
        0 == bind(fd, (const struct sockaddr *) &none, sizeof(none.sun_family))) {
        dom->addr.socket = name_of(fd);
    }
    if (0 == dom->addr.socket) {
        fab_file_close(&dom->socket);
    }
}

bool fab_shm_pass_is_possible(const fab_shm_domain_t *dom, const fab_shm_addr_t *addr)
{
    return 0 != dom->addr.socket && 0 != addr->socket && addr->net_ns == dom->addr.net_ns;
}

/* ---- datagrams ---------------------------------------------------------- */

/* With a descriptor, or none (-1). Returns 0 or errno. */
static int letter_send(const fab_shm_domain_t *dom, uint32_t magic, const uint8_t *nonce, int fd,
                       const struct sockaddr_un *to, socklen_t to_len)
{
    fab_shm_pass_t text = {.magic = magic, .version = FAB_SHM_VERSION};
    struct iovec iov = {&text, sizeof(text)};
    _Alignas(struct cmsghdr) unsigned char control[CMSG_SPACE(sizeof(int))] = {0};
    struct msghdr msg = {
        .msg_name = (void *) to, .msg_namelen = to_len, .msg_iov = &iov, .msg_iovlen = 1};

    memcpy(text.nonce, nonce, sizeof(text.nonce));
    if (fd >= 0) {
        msg.msg_control = control;
        msg.msg_controllen = sizeof(control);
        struct cmsghdr *cmsg = CMSG_FIRSTHDR(&msg);
        *cmsg = (struct cmsghdr){
            .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS, .cmsg_len = CMSG_LEN(sizeof(int))};
        memcpy(CMSG_DATA(cmsg), &fd, sizeof(fd));
    }
    return sendmsg(dom->socket.fd, &msg, MSG_DONTWAIT | MSG_NOSIGNAL) >= 0 ? 0 : errno;
}

static void read_control(struct msghdr *msg, letter_t *letter)
{
    for (struct cmsghdr *c = CMSG_FIRSTHDR(msg); NULL != c; c = CMSG_NXTHDR(msg, c)) {
        if (SOL_SOCKET == c->cmsg_level && SCM_CREDENTIALS == c->cmsg_type) {
            struct ucred cred;
            memcpy(&cred, CMSG_DATA(c), sizeof(cred));
            letter->user = cred.uid;
        } else if (SOL_SOCKET == c->cmsg_level && SCM_RIGHTS == c->cmsg_type) {
            size_t len = c->cmsg_len - CMSG_LEN(0);
            memcpy(letter->fds, CMSG_DATA(c),
                   len < sizeof(letter->fds) ? len : sizeof(letter->fds));
        }
    }
}

/* False: there is none. */
static bool letter_take(const fab_shm_domain_t *dom, letter_t *letter)
{
    struct iovec iov = {&letter->text, sizeof(letter->text)};
    _Alignas(struct cmsghdr) unsigned char control[CONTROL];
    struct msghdr msg = {.msg_name = &letter->from,
                         .msg_namelen = sizeof(letter->from),
                         .msg_iov = &iov,
                         .msg_iovlen = 1,
                         .msg_control = control,
                         .msg_controllen = sizeof(control)};

    *letter = (letter_t){.user = (uid_t) -1, .fds = {-1, -1}};
    if (recvmsg(dom->socket.fd, &msg, MSG_DONTWAIT | MSG_CMSG_CLOEXEC) < 0) {
        return false;
    }
    letter->from_len = msg.msg_namelen;
    read_control(&msg, letter);
    return true;
}

static void letter_handle(fab_shm_domain_t *dom, const letter_t *letter)
{
    const fab_shm_pass_t *text = &letter->text;
    fab_shm_ep_t *ep;

    if (FAB_SHM_VERSION != text->version || getuid() != letter->user) {
        return;
    }
    if (FAB_SHM_ASK == text->magic) {
        if (0 == memcmp(text->nonce, dom->addr.nonce, sizeof(text->nonce)) &&
            fab_file_is_open(&dom->file)) {
            (void) letter_send(dom, FAB_SHM_GIVE, text->nonce, dom->file.fd, &letter->from,
                               letter->from_len);
        }
    } else if (FAB_SHM_GIVE == text->magic && letter->fds[0] >= 0) {
        LIST_FOREACH(ep, &dom->eps, link) {
            if (0 == memcmp(text->nonce, ep->addr.nonce, sizeof(text->nonce))) {
                fab_shm_found(ep, letter->fds[0]);
            }
        }
    }
}

void fab_shm_pass_serve(fab_shm_domain_t *dom)
{
    letter_t letter;

    if (dom->socket.fd < 0) {
        return;
    }
    if (!fab_file_is_open(&dom->socket)) {
        dom->socket.fd = -1; /* the program has closed it */
        return;
    }
    for (int n = 0; n < FAB_SHM_PASS_BATCH && letter_take(dom, &letter); n++) {
        letter_handle(dom, &letter);
        for (int i = 0; i < 2; i++) {
            if (letter.fds[i] >= 0) {
                close(letter.fds[i]);
            }
        }
    }
}

/* ---- asking ------------------------------------------------------------- */

int fab_shm_pass_ask(fab_shm_ep_t *ep, const char **why)
{
    fab_shm_domain_t *dom = ep->dom;
    struct sockaddr_un to = {.sun_family = AF_UNIX};
    int len = snprintf(to.sun_path + 1, sizeof(to.sun_path) - 1, "%05x", ep->addr.socket - 1);
    int error = EBADF;

    if (fab_file_is_open(&dom->socket)) {
        error = letter_send(
            dom, FAB_SHM_ASK, ep->addr.nonce, -1, &to,
            (socklen_t) (offsetof(struct sockaddr_un, sun_path) + 1 + (size_t) len));
    }
    switch (error) {
    case 0:
    case EAGAIN: /* it has not taken the former questions yet */
    case ENOBUFS:
    case ENOMEM:
        *why =
            "it was asked for its shared memory, which /proc does not let this process open, and "
            "answers only while it is in MPI.";
        return OPAL_ERR_IN_PROCESS;
    default:
        *why = fab_sentence(dom->fab,
                            "The shared memory of process %u cannot be opened through /proc, nor "
                            "asked for by a Unix socket (%s). Both processes must have the same "
                            "user, and the same user or network namespace.",
                            ep->addr.pid, strerror(error));
        return OPAL_ERR_UNREACH;
    }
}
