/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * libFuzzer: the bytes of a TCP connection (tcp_wire.h). Whatever a peer writes, in pieces of any
 * length, nothing is read or written outside the buffers, and the connection comes to an end.
 *
 * Input: a byte that says how long the pieces are, then the stream; 'L' at its end adds a long
 * message to a place.
 */
#include "fuzz_tcp.h"

#include <errno.h>

enum { AM_PLACED = 9, PLACE_LEN = 100000 };

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

/* Write it in pieces, as far as the other side listens. */
static void write_all(int fd, const uint8_t *bytes, size_t len, size_t piece)
{
    for (size_t at = 0; at < len;) {
        size_t n = piece < len - at ? piece : len - at;
        ssize_t done = send(fd, bytes + at, n, MSG_NOSIGNAL);
        if (done < 0 && EAGAIN != errno) {
            return;
        }
        at += done > 0 ? (size_t) done : 0;
        progress();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size)
{
    static const uint8_t long_payload[PLACE_LEN];
    fab_tcp_hdr_t hdr = {.id_len = AM_PLACED | (PLACE_LEN - 3) << 8};
    fab_peer_t *peer;
    int fd;

    if (size < 2) {
        return 0;
    }
    peer = fuzz_tcp_peer(fab, FAB_USER_PML, &fd);
    write_all(fd, input + 1, size - 1, 1 + input[0]);
    if ('L' == input[size - 1]) {
        write_all(fd, (uint8_t *) &hdr, sizeof(hdr), sizeof(hdr));
        write_all(fd, long_payload, PLACE_LEN, 20000);
    }
    close(fd);
    while (FAB_PEER_UP == peer->state && 0 < dom->num_up) {
        progress();
    }
    while (NULL != peer->ep && FAB_TCP_UP == ((fab_tcp_ep_t *) peer->ep)->state) {
        progress();
    }
    fab_peer_close(peer, FAB_USER_PML);
    fab_progress(fab);
    return 0;
}
