/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What many peers cost the ofi provider: memory of a hundred thousand that are known, and of what
 * is made at the first message, their entries in libfabric's address vector; that each is found
 * again; what a look at them all costs.
 *
 * TEST: sources=@fabric,@ofi variants=plain cflags=-DFAB_HAVE_OFI=1 ldflags=-lfabric needs=libfabric-1.15 timeout=120 quick=no
 */
#include "conform_ofi.h"
#include "test_fab_jobs.h"
#include "test_scale.h"

#include <netinet/in.h>
#include <sys/mman.h>

#include "ofi/ofi.h"

enum {
    KNOWN = 100000,
    KNOWN_BYTES = 1024, /* of one, with the fabric's record and its table */
};

/* On another host. */
static void address_of(const world_t *world, uint32_t i, unsigned char *address)
{
    fab_ofi_addr_t addr = {0};
    struct sockaddr_in in;
    size_t len;
    unsigned char *ofi = address_begin(world, i, FAB_WIRE_OFI, address, &addr, &len);

    memcpy(&in, addr.name, sizeof(in));
    in.sin_addr.s_addr = htonl(0x0a000000 + i);
    memcpy(addr.name, &in, sizeof(in));
    addr.host += 1 + (uint64_t) i;
    memcpy(addr.key, &i, sizeof(i));
    memcpy(ofi, &addr, len);
}

/* In a tick a thousand peers are looked at, and memory of no other is touched. */
static void tick(world_t *world, fab_ofi_domain_t *dom, fab_peer_t **peer)
{
    void *nothing = mmap(NULL, sizeof(fab_ofi_ep_t), PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    double start;

    CHECK(NULL == dom->sessions.slots && MAP_FAILED != nothing);
    dom->sessions.slots = calloc(KNOWN, sizeof(*dom->sessions.slots));
    dom->sessions.size = KNOWN;
    for (uint32_t i = 0; i < KNOWN; i++) {
        dom->sessions.slots[i].object = i < 1000 ? NULL : nothing;
    }
    fab_ofi_alive_tick(dom);
    for (uint32_t i = 0; i < KNOWN; i++) {
        dom->sessions.slots[i].object = peer[i]->ep;
    }
    start = world_now();
    for (int i = 0; i < 8; i++) {
        fab_ofi_alive_tick(dom);
    }
    printf("a tick of %d sessions: %.0f us\n", KNOWN, 1e6 * (world_now() - start) / 8);
    free(dom->sessions.slots);
    dom->sessions.slots = NULL;
    dom->sessions.size = 0;
    munmap(nothing, sizeof(fab_ofi_ep_t));
}

static void known_body(world_t *world)
{
    fab_peer_t **peer = open_many(world, KNOWN, address_of, KNOWN_BYTES);
    fab_ofi_domain_t *dom = ((fab_ofi_ep_t *) peer[0]->ep)->dom;
    const size_t before = memory();
    const double start = world_now();

    for (int i = 0; i < KNOWN; i++) {
        fab_ofi_ep_t *ep = peer[i]->ep;
        CHECK(1 == fi_av_insert(dom->av, ep->addr.name, 1, &ep->to, 0, NULL));
    }
    printf("their entries in the address vector: %.0f bytes each, %.2f us to insert one\n",
           (double) (memory() - before) / KNOWN, 1e6 * (world_now() - start) / KNOWN);
    tick(world, dom, peer);
    fflush(stdout);
    /* of none is anything else there, and the receive buffers are as many as before */
    CHECK(0 == dom->sessions.used && dom->recv.num == fab_limits.ofi_buffers);
    free(peer);
}

/* No sanitizer: its memory would be counted too. */
int main(void)
{
    const struct CMUnitTest tests[] = {
        WORLD_JOB("test_known", known_body, .ranks = 1),
    };

    fab_params.ofi_provider = (char *) (uintptr_t) "net,tcp";
    world_use_providers("ofi");
    return cmocka_run_group_tests(tests, NULL, NULL);
}
