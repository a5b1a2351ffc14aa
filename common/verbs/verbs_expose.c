/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Registered memory: what peers, or the device for a listed receive, may reach.
 *
 * What cannot be registered is refused: the caller sends messages instead.
 */
#include "verbs/verbs.h"

#include <endian.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* What this provider writes into fab_rkey_t. */
typedef struct fab_verbs_rkey {
    uint32_t rkey;
    uint16_t port;    /* of the exposing process: the first, 0, or another */
    uint16_t rails;   /* bit n: fab_verbs_rail_keys_t follows, and has one for its port n */
    uint64_t exposed; /* for the exposing process: fab_verbs_exposed_t */
} fab_verbs_rkey_t;

_Static_assert(16 == sizeof(fab_verbs_rkey_t), "the rest is shm's: fab_shm_rkey_t");

/* Behind it in the key of memory that one peer may read; that for any peer has none. */
typedef struct fab_verbs_rail_keys {
    uint32_t rkeys[FAB_VERBS_PORTS - 1]; /* of the further ports */
    uint32_t reserved;
} fab_verbs_rail_keys_t;

_Static_assert(sizeof(fab_verbs_rkey_t) + sizeof(fab_verbs_rail_keys_t) == sizeof(fab_rkey_t),
               "it fits");

/* ---- registering -------------------------------------------------------- */

fab_reg_t *fab_verbs_register(fab_verbs_domain_t *dom, const void *buf, size_t len, unsigned access)
{
    fab_reg_t *reg = fab_reg_ops->get(dom->regs, (void *) (uintptr_t) buf, len, access);
    int error = errno;

    if (NULL != reg) {
        return reg;
    }
    if (ENOMEM != error && EAGAIN != error) {
        fab_counters.unregistrable++;
        return NULL;
    }
    fab_counters.verbs_locked_memory++;
    if (!dom->is_memlock_logged) {
        dom->is_memlock_logged = true;
        fab_log(dom->fab, 1,
                "%s: memory cannot be locked (%s): large messages are copied. Raise RLIMIT_MEMLOCK "
                "(ulimit -l unlimited, "
                "/etc/security/limits.d).",
                dom->name, strerror(error));
    }
    return NULL;
}

/*
 * Register memory until it is let go; peers that know its key may read it, and do what access
 * (FAB_ACCESS_*) says.  NULL: it cannot be.
 */
static fab_verbs_exposed_t *hold(fab_verbs_domain_t *dom, const void *buf, size_t len,
                                 unsigned access)
{
    const bool is_remote = 0 != (access & FAB_ACCESS_WRITE);
    const unsigned wanted = is_remote ? FAB_REG_REMOTE_WRITE : 0;
    fab_verbs_exposed_t *exposed;

    if (is_remote && !fab_verbs_conns_allow(dom, IBV_ACCESS_REMOTE_WRITE)) {
        return NULL;
    }
    exposed = malloc(sizeof(*exposed));
    if (NULL == exposed) {
        return NULL;
    }
    exposed->reg = len > 0 ? fab_verbs_register(dom, buf, len, wanted) : NULL;
    if (NULL == exposed->reg && len > 0) {
        free(exposed);
        return NULL;
    }
    exposed->dom = dom;
    exposed->more = NULL;
    exposed->is_requested = false;
    return exposed;
}

static void release(fab_verbs_exposed_t *exposed)
{
    if (NULL != exposed->reg) {
        fab_reg_ops->put(exposed->dom->regs, exposed->reg);
    }
    exposed->dom->num_requested -= exposed->is_requested;
    free(exposed);
}

void fab_verbs_let_go(fab_verbs_exposed_t *exposed)
{
    LIST_REMOVE(exposed, link);
    while (NULL != exposed->more) {
        fab_verbs_exposed_t *more = exposed->more;
        exposed->more = more->more;
        release(more);
    }
    release(exposed);
}

static fab_verbs_rkey_t key_of(const fab_rkey_t *rkey)
{
    fab_verbs_rkey_t key;

    memcpy(&key, rkey->bytes, sizeof(key));
    return key;
}

uint32_t fab_verbs_rkey(const fab_rkey_t *rkey)
{
    return key_of(rkey).rkey;
}

bool fab_verbs_is_key_of(const fab_rkey_t *rkey, uint8_t port)
{
    return port == key_of(rkey).port;
}

bool fab_verbs_has_rail_key(const fab_rkey_t *rkey, uint8_t port)
{
    return port > 0 && 0 != (key_of(rkey).rails >> port & 1);
}

uint32_t fab_verbs_rail_key(const fab_rkey_t *rkey, uint8_t port)
{
    fab_verbs_rail_keys_t keys;

    memcpy(&keys, rkey->bytes + sizeof(fab_verbs_rkey_t), sizeof(keys));
    return keys.rkeys[port - 1];
}

/* Of a key that this process made. */
static fab_verbs_exposed_t *exposed_of(const fab_rkey_t *rkey)
{
    return (fab_verbs_exposed_t *) (uintptr_t) key_of(rkey).exposed;
}

void fab_verbs_requested(fab_verbs_domain_t *dom, const fab_rndv_t *rndv)
{
    fab_verbs_exposed_t *exposed = exposed_of(&rndv->rkey);

    dom->num_requested += !exposed->is_requested;
    exposed->is_requested = true;
}

bool fab_verbs_is_answer_due(const fab_verbs_ep_t *ep)
{
    const fab_verbs_exposed_t *exposed = LIST_FIRST(&ep->exposed);

    while (NULL != exposed && !exposed->is_requested) {
        exposed = LIST_NEXT(exposed, link);
    }
    return NULL != exposed && NULL != ep->conn && !ep->conn->is_broken;
}

/* ---- the table's functions ---------------------------------------------- */

/* As hold(); false: it cannot be. */
static bool expose(fab_verbs_domain_t *dom, fab_verbs_exposed_list_t *list, const void *buf,
                   size_t len, unsigned access, fab_rkey_t *rkey)
{
    fab_verbs_exposed_t *exposed = hold(dom, buf, len, access);
    fab_verbs_rkey_t key = {.port = dom->index, .exposed = (uintptr_t) exposed};

    if (NULL == exposed) {
        return false;
    }
    LIST_INSERT_HEAD(list, exposed, link);
    key.rkey = len > 0 ? fab_verbs_mr(exposed->reg)->rkey : 0;
    memcpy(rkey->bytes, &key, sizeof(key));
    return true;
}

/* One more key, for this port. */
static void add_rail_key(const fab_verbs_ep_t *rail, const void *buf, size_t len, fab_rkey_t *rkey)
{
    fab_verbs_rkey_t key = key_of(rkey);
    fab_verbs_exposed_t *exposed = exposed_of(rkey), *more;
    uint8_t port = rail->dom->index;
    uint32_t its_key;

    more = hold(rail->dom, buf, len, 0);
    if (NULL == more) {
        return;
    }
    more->more = exposed->more;
    exposed->more = more;
    its_key = fab_verbs_mr(more->reg)->rkey;
    key.rails |= (uint16_t) (1u << port);
    memcpy(rkey->bytes, &key, sizeof(key));
    memcpy(rkey->bytes + sizeof(key) + (port - 1u) * sizeof(its_key), &its_key, sizeof(its_key));
}

/* Memory that the peer may read in shares. */
static void add_rail_keys(const fab_verbs_ep_t *ep, const void *buf, size_t len, fab_rkey_t *rkey)
{
    for (const fab_verbs_ep_t *rail = ep->rails; NULL != rail; rail = rail->next_rail) {
        if (fab_verbs_is_up(rail)) {
            add_rail_key(rail, buf, len, rkey);
        }
    }
}

int fab_verbs_expose(fab_peer_t *peer, const void *buf, size_t len, unsigned access,
                     fab_rkey_t *rkey)
{
    fab_verbs_ep_t *ep = peer->ep;

    *rkey = (fab_rkey_t){{0}};
    if (!expose(ep->dom, &ep->exposed, buf, len, access, rkey)) {
        return OPAL_ERR_NOT_SUPPORTED;
    }
    if (NULL != ep->rails && len >= FAB_VERBS_RAIL_MIN && FAB_ACCESS_READ == access) {
        add_rail_keys(ep, buf, len, rkey);
    }
    return OPAL_SUCCESS;
}

void fab_verbs_unexpose(fab_peer_t *peer, fab_rkey_t *rkey)
{
    (void) peer;
    fab_verbs_let_go(exposed_of(rkey));
}

bool fab_verbs_expose_any(fab_domain_t *domain, const void *buf, size_t len, unsigned access,
                          fab_rkey_t *rkey)
{
    fab_verbs_domain_t *dom = (fab_verbs_domain_t *) domain;

    /* before it is started no process of the job needs it */
    return dom->is_started && expose(dom, &dom->exposed, buf, len, access, rkey);
}

void fab_verbs_unexpose_any(fab_domain_t *domain, const fab_rkey_t *rkey)
{
    (void) domain;
    fab_verbs_let_go(exposed_of(rkey));
}

fab_verbs_rvh_t fab_verbs_rvh(const fab_rndv_t *rndv)
{
    return (fab_verbs_rvh_t){.addr = htobe64(rndv->addr),
                             .rkey = htobe32(key_of(&rndv->rkey).rkey),
                             .len = htobe32((uint32_t) rndv->len)};
}

fab_rndv_t fab_verbs_rndv(const fab_verbs_rvh_t *rvh)
{
    fab_verbs_rkey_t key = {.rkey = be32toh(rvh->rkey)};
    fab_rndv_t rndv = {.addr = be64toh(rvh->addr), .len = be32toh(rvh->len)};

    memcpy(rndv.rkey.bytes, &key, sizeof(key));
    return rndv;
}
