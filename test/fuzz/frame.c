/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * libFuzzer: what a process that connects says to the listeners of tcp and verbs (sock_wire.h):
 * anything, a greeting, or a frame with the job's proof (tcp_wire.h, verbs_wire.h). It is answered
 * or refused, and nothing is left of it when its connection is closed.
 *
 * Input: a byte (1: to verbs, not to tcp; 2: a greeting; 4: a frame that is proved; else raw
 * bytes), then raw bytes, or pairs of a position and a byte that stands there instead.
 */
#include "fuzz.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include "fabric/fab_core.h"
#include "tcp/tcp_types.h"
#include "verbs/verbs.h"

enum { TO_VERBS = 1, GREETING = 2, FRAME = 4, MAX_POLLS = 1000000 };

/* A provider's listener, and what the other process would say to it. */
typedef struct listener {
    fab_sock_set_t *socks;
    uint16_t protocol;
    const uint8_t *key;
    uint64_t name; /* of who connects */
    uint8_t frame[FAB_SOCK_FRAME_MAX];
    size_t frame_len;
} listener_t;

static fab_t *fab;
static fab_tcp_domain_t *tcp;
static fab_verbs_domain_t *verbs;
static listener_t listeners[2];
static uint32_t num_calls;

/* The section of this provider in an address. */
static const void *section(const unsigned char *address, uint16_t provider)
{
    fab_wire_head_t head;
    size_t at = sizeof(head);

    memcpy(&head, address, sizeof(head));
    for (int i = 0; i < head.sections; i++) {
        fab_wire_section_t found;
        memcpy(&found, address + at, sizeof(found));
        at += sizeof(found);
        if (found.provider == provider) {
            return address + at;
        }
        at += (found.len + 7u) & ~7u;
    }
    fuzz_fail("the other process lacks a provider");
    return NULL;
}

static void make_frames(const fuzz_other_t *other)
{
    fab_tcp_frame_t tcp_hello = {.msg = {.kind = FAB_SES_HELLO, .window = FAB_TCP_WINDOW}};
    fab_verbs_frame_t verbs_hello = {
        .msg = {.kind = FAB_SES_HELLO, .window = 8, .serial = 1},
        .qpn = 17,
        .reads = 1,
    };

    memcpy(&tcp_hello.addr, section(other->address, FAB_WIRE_TCP), sizeof(tcp_hello.addr));
    memcpy(&verbs_hello.addr, section(other->address, FAB_WIRE_VERBS), sizeof(verbs_hello.addr));
    listeners[0] = (listener_t){.socks = tcp->socks,
                                .protocol = FAB_WIRE_TCP,
                                .key = tcp->addr.key,
                                .name = fuzz_name(2), /* one that verbs does not reach */
                                .frame_len = sizeof(tcp_hello)};
    listeners[1] = (listener_t){.socks = verbs->socks,
                                .protocol = FAB_WIRE_VERBS,
                                .key = verbs->addr.key,
                                .name = fuzz_name(1),
                                .frame_len = sizeof(verbs_hello)};
    memcpy(listeners[0].frame, &tcp_hello, sizeof(tcp_hello));
    memcpy(listeners[1].frame, &verbs_hello, sizeof(verbs_hello));
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    fuzz_other_t *other;

    (void) argc, (void) argv;
    fab_params.providers = "verbs,tcp";
    other = fuzz_fork_other();
    fab = fuzz_open_fabric(0);
    for (int i = 0; i < FAB_NUM_PROVIDERS; i++) {
        fab_domain_t *dom = fab_core(fab)->slots[i].dom;
        tcp = FAB_WIRE_TCP == fab_providers[i]->id ? (fab_tcp_domain_t *) dom : tcp;
        verbs = FAB_WIRE_VERBS == fab_providers[i]->id ? (fab_verbs_domain_t *) dom : verbs;
    }
    if (NULL == tcp || NULL == verbs) {
        fuzz_fail("a provider is missing");
    }
    make_frames(other);
    return 0;
}

static void progress(void)
{
    fab_tcp_expect(tcp);
    fab_progress(fab);
    fab_verbs_oob_poll(verbs);
}

/* A connection, from an address of its own: ports of one would be used up. */
static int call(const listener_t *to)
{
    struct sockaddr_in from = {.sin_family = AF_INET,
                               .sin_addr.s_addr = htonl(0x7f000002 + num_calls++ % 60000)};
    struct sockaddr_in sa = {.sin_family = AF_INET,
                             .sin_port = htons(fab_sock_set_port(to->socks)),
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct linger linger = {.l_onoff = 1};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (fd < 0 || 0 != setsockopt(fd, SOL_SOCKET, SO_LINGER, &linger, sizeof(linger)) ||
        0 != bind(fd, (struct sockaddr *) &from, sizeof(from)) ||
        0 != connect(fd, (struct sockaddr *) &sa, sizeof(sa))) {
        fuzz_fail(strerror(errno));
    }
    return fd;
}

/* Read so many bytes. False: the other side closed the connection. */
static bool await(int fd, void *buf, size_t len)
{
    for (int i = 0; i < MAX_POLLS; i++) {
        ssize_t n = recv(fd, buf, len, MSG_DONTWAIT | MSG_PEEK);
        if (n == (ssize_t) len) {
            return true;
        }
        if (0 == n || (n < 0 && EAGAIN != errno)) {
            return false;
        }
        progress();
    }
    fuzz_fail("no answer");
    return false;
}

/* Put the input's bytes at their positions. */
static void change(void *bytes, size_t len, const uint8_t *input, size_t size)
{
    for (size_t i = 0; i + 1 < size; i += 2) {
        ((uint8_t *) bytes)[input[i] % len] = input[i + 1];
    }
}

static void say(int fd, const listener_t *to, const uint8_t *input, size_t size)
{
    fab_sock_greeting_t greeting = {.magic = FAB_SOCK_MAGIC,
                                    .version = FAB_SOCK_VERSION,
                                    .protocol = to->protocol,
                                    .name = to->name,
                                    .target = fuzz_name(0)};
    uint8_t frame[FAB_SOCK_FRAME_MAX];
    uint64_t serial = num_calls; /* questions with an old one are void */
    fab_sock_challenge_t challenge;
    fab_sock_session_t session;
    fab_sock_sealed_t sealed;

    if (0 != (input[0] & GREETING)) {
        change(&greeting, sizeof(greeting), input + 1, size - 1);
    }
    (void) send(fd, &greeting, sizeof(greeting), MSG_NOSIGNAL);
    if (!await(fd, &challenge, sizeof(challenge))) {
        return;
    }
    (void) recv(fd, &challenge, sizeof(challenge), 0);
    memcpy(frame, to->frame, to->frame_len);
    if (0 == (input[0] & TO_VERBS)) {
        memcpy(frame + offsetof(fab_tcp_frame_t, msg.serial), &serial, sizeof(serial));
    }
    if (0 == (input[0] & GREETING)) {
        change(frame, to->frame_len, input + 1, size - 1);
    }
    fab_sock_session(to->key, &greeting, challenge.nonce, &session);
    fab_sock_seal(&session, FAB_SOCK_ASKING, 0, frame, to->frame_len, &sealed);
    (void) send(fd, &sealed, offsetof(fab_sock_sealed_t, frame) + to->frame_len, MSG_NOSIGNAL);
    (void) await(fd, &sealed, offsetof(fab_sock_sealed_t, frame) + to->frame_len);
}

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size)
{
    const listener_t *to;
    uint8_t byte;
    int fd;

    if (0 == size) {
        return 0;
    }
    to = &listeners[input[0] & TO_VERBS];
    fd = call(to);
    if (0 != (input[0] & (GREETING | FRAME))) {
        say(fd, to, input, size);
    } else {
        (void) send(fd, input + 1, size - 1, MSG_NOSIGNAL);
        shutdown(fd, SHUT_WR);
        (void) await(fd, &byte, 1);
    }
    close(fd);
    for (int i = 0; i < MAX_POLLS && (fab_sock_set_is_busy(to->socks) || tcp->num_up > 0); i++) {
        progress();
    }
    return 0;
}
