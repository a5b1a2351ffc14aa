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
static fab_verbs_exposed_t *hold(fab_verbs_domain_t *dom, fab_verbs_exposed_list_t *list,
                                 const void *buf, size_t len, unsigned access)
{
    const bool is_remote = 0 != (access & FAB_ACCESS_WRITE);
    const unsigned wanted = is_remote ? FAB_REG_REMOTE_WRITE : 0;
    fab_verbs_exposed_t *exposed;

    if (is_remote && !fab_verbs_conns_allow(dom, IBV_ACCESS_REMOTE_WRITE)) {
        return NULL;
    }
    exposed = calloc(1, sizeof(*exposed));
    if (NULL == exposed) {
        return NULL;
    }
    exposed->dom = dom;
    exposed->reg = len > 0 ? fab_verbs_register(dom, buf, len, wanted) : NULL;
    if (NULL == exposed->reg && len > 0) {
        free(exposed);
        return NULL;
    }
    LIST_INSERT_HEAD(list, exposed, link);
    return exposed;
}

void fab_verbs_let_go(fab_verbs_exposed_t *exposed)
{
    fab_verbs_domain_t *dom = exposed->dom;

    LIST_REMOVE(exposed, link);
    if (NULL != exposed->reg) {
        fab_reg_ops->put(dom->regs, exposed->reg);
    }
    for (fab_verbs_domain_t *rail = dom->first->next; NULL != rail; rail = rail->next) {
        if (NULL != exposed->rail_regs[rail->index]) {
            fab_reg_ops->put(rail->regs, exposed->rail_regs[rail->index]);
        }
    }
    dom->num_requested -= exposed->is_requested;
    free(exposed);
}

/* Of a key that this process made. */
static fab_verbs_exposed_t *exposed_of(const fab_rkey_t *rkey)
{
    return (fab_verbs_exposed_t *) (uintptr_t) fab_verbs_key(rkey).exposed;
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

static fab_verbs_key_t key_of(const fab_verbs_exposed_t *exposed)
{
    return (fab_verbs_key_t){
        .rkey = NULL != exposed->reg ? fab_verbs_mr(exposed->reg)->rkey : 0,
        .port = exposed->dom->index,
        .exposed = (uintptr_t) exposed,
    };
}

/* Memory that the peer may read in shares: a key for each port of a rail. */
static void add_rail_keys(const fab_verbs_ep_t *ep, const void *buf, size_t len,
                          fab_verbs_exposed_t *exposed, fab_verbs_key_t *key)
{
    for (const fab_verbs_ep_t *rail = ep->rails; NULL != rail; rail = rail->next_rail) {
        const uint8_t port = rail->dom->index;
        fab_reg_t *reg = fab_verbs_is_up(rail) ? fab_verbs_register(rail->dom, buf, len, 0) : NULL;
        if (NULL != reg) {
            exposed->rail_regs[port] = reg;
            key->rails |= (uint16_t) (1u << port);
            key->rail_rkeys[port] = fab_verbs_mr(reg)->rkey;
        }
    }
}

/* For any only once it is started: before that no process of the job needs it. */
bool fab_verbs_expose(fab_domain_t *domain, fab_peer_t *peer, const void *buf, size_t len,
                      unsigned access, fab_rkey_t *rkey)
{
    fab_verbs_domain_t *dom = (fab_verbs_domain_t *) domain;
    fab_verbs_ep_t *ep = NULL != peer ? peer->ep : NULL;
    fab_verbs_exposed_t *exposed = NULL;
    fab_verbs_key_t key;

    if (NULL != ep) {
        exposed = hold(ep->dom, &ep->exposed, buf, len, access);
    } else if (dom->is_started) {
        exposed = hold(dom, &dom->exposed, buf, len, access);
    }
    if (NULL == exposed) {
        return false;
    }
    key = key_of(exposed);
    if (NULL != ep && len >= FAB_VERBS_RAIL_MIN && FAB_ACCESS_READ == access) {
        add_rail_keys(ep, buf, len, exposed, &key);
    }
    memcpy(rkey->bytes, &key, NULL != ep ? sizeof(key) : FAB_VERBS_KEY_ANY);
    return true;
}

void fab_verbs_unexpose(fab_domain_t *domain, fab_peer_t *peer, const fab_rkey_t *rkey)
{
    (void) domain, (void) peer;
    fab_verbs_let_go(exposed_of(rkey));
}

fab_verbs_rvh_t fab_verbs_rvh(const fab_rndv_t *rndv)
{
    return (fab_verbs_rvh_t){.addr = htobe64(rndv->addr),
                             .rkey = htobe32(fab_verbs_key(&rndv->rkey).rkey),
                             .len = htobe32((uint32_t) rndv->len)};
}

fab_rndv_t fab_verbs_rndv(const fab_verbs_rvh_t *rvh)
{
    fab_verbs_key_t key = {.rkey = be32toh(rvh->rkey)};
    fab_rndv_t rndv = {.addr = be64toh(rvh->addr), .len = be32toh(rvh->len)};

    memcpy(rndv.rkey.bytes, &key, sizeof(key));
    return rndv;
}
