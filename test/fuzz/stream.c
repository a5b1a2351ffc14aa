/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * libFuzzer: the bytes of a TCP connection (tcp_wire.h). Whatever a peer writes, in pieces of any
 * length, nothing is read or written outside the buffers, and the connection comes to an end.
 *
 * Input: a byte that says how long the pieces are, then the stream; 'L' at its end adds a long
 * message to a place. From 128 on there is a link, too, and the stream is in pieces that begin with
 * their length, plus 128 if they are for the link; 'S' at its end adds a message striped over both.
 */
#include "fuzz_tcp.h"

#include <errno.h>

#include "tcp/tcp.h"

enum { AM_PLACED = 9, PLACE_LEN = 200000, END_LEN = 1000, TRIES = 1000 };

static fab_t *fab;
static fab_tcp_domain_t *dom;

static void *place(void *ctx, fab_peer_t *peer, fab_hdr_t hdr, size_t len)
{
    static unsigned char *at;

    (void) ctx, (void) peer, (void) hdr;
    if (len > PLACE_LEN) {
        return NULL;
    }
    free(at); /* of its length to the byte: what is written beyond it shows */
    at = malloc(len);
    return at;
}

static void take(void *ctx, fab_peer_t *peer, fab_hdr_t hdr, const void *data, size_t len)
{
    (void) ctx, (void) peer, (void) hdr;
    fuzz_read(data, len);
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    (void) argc, (void) argv;
    fab_params.providers = "tcp";
    fab = fuzz_open_fabric(0);
    dom = fuzz_tcp_domain(fab);
    for (uint8_t id = 0; id < FAB_AM_MAX; id++) {
        fab_set_handler(fab, id, take, NULL);
    }
    fab_set_place(fab, AM_PLACED, place, NULL);
    return 0;
}

static void progress(void)
{
    fab_tcp_expect(dom);
    fab_progress(fab);
}

/* Write it in pieces, as far as the other side listens: a link may wait for good. */
static void write_all(int fd, const uint8_t *bytes, size_t len, size_t piece)
{
    int tries = 0;

    for (size_t at = 0; at < len && tries < TRIES;) {
        size_t n = piece < len - at ? piece : len - at;
        ssize_t done = send(fd, bytes + at, n, MSG_NOSIGNAL);
        if (done < 0 && EAGAIN != errno) {
            return;
        }
        at += done > 0 ? (size_t) done : 0;
        tries = done > 0 ? 0 : tries + 1;
        progress();
    }
}

static const uint8_t long_payload[PLACE_LEN];

/* The other end of a new link. */
static int open_link(fab_peer_t *peer)
{
    fab_tcp_ep_t *link = fab_tcp_link_accept(peer->ep, 1);
    int ends[2];

    if (NULL == link || 0 != socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends)) {
        fuzz_fail("no link");
    }
    fab_tcp_stream_open(link, ends[0], NULL, 0);
    return ends[1];
}

static void write_both(int fd, int link, const uint8_t *bytes, size_t len)
{
    const fab_tcp_hdr_t hdrs[2] = {
        {.id_len = FAB_TCP_ID_STRIPE, .app_ctx = 1 << 1, .tag = PLACE_LEN},
        {.id_len = AM_PLACED | END_LEN << 8},
    };
    const fab_tcp_hdr_t piece = {.id_len = FAB_TCP_ID_PIECE | (PLACE_LEN - END_LEN) << 8};
    bool is_whole = len > 0 && 'S' == bytes[len - 1];

    while (len > 1) {
        size_t n = 1 + (bytes[0] & 127u) < len ? 1 + (bytes[0] & 127u) : len;
        write_all(0 != (bytes[0] & 128) ? link : fd, bytes + 1, n - 1, n);
        bytes += n;
        len -= n;
    }
    if (is_whole) {
        write_all(fd, (const uint8_t *) hdrs, sizeof(hdrs), 20);
        write_all(fd, long_payload, (END_LEN + 7) / 8 * 8, 500);
        write_all(link, (const uint8_t *) &piece, sizeof(piece), 10);
        write_all(link, long_payload, piece.id_len >> 8, 20000);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size)
{
    fab_tcp_hdr_t hdr = {.id_len = AM_PLACED | (PLACE_LEN - 3) << 8};
    fab_peer_t *peer;
    int fd, link = -1;

    if (size < 2) {
        return 0;
    }
    peer = fuzz_tcp_peer(fab, FAB_USER_PML, &fd);
    if (input[0] >= 128) {
        link = open_link(peer);
        write_both(fd, link, input + 1, size - 1);
    } else {
        write_all(fd, input + 1, size - 1, 1 + input[0]);
    }
    if (input[0] < 128 && 'L' == input[size - 1]) {
        write_all(fd, (uint8_t *) &hdr, sizeof(hdr), sizeof(hdr));
        write_all(fd, long_payload, PLACE_LEN, 20000);
    }
    close(fd);
    if (link >= 0) {
        close(link);
    }
    while (FAB_PEER_UP == peer->state && 0 < dom->num_up) {
        progress();
    }
    while (NULL != peer->ep && fab_tcp_is_up(peer->ep)) {
        progress();
    }
    fab_peer_close(peer, FAB_USER_PML);
    fab_progress(fab);
    return 0;
}
