/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Rails: long data that this process reads from a peer is divided over several pairs of ports.
 *
 * Messages go over the peer's one connection, in order; so does all that is not said here.  The
 * first long get from the peer, of FAB_VERBS_RAIL_MIN bytes, makes connections by further ports,
 * too: an endpoint for each, in the list ep->rails of the one that is the peer's.  Both sides find
 * the same pairs of ports for them:
 *
 *      rail 1, 2, ...   in the order of verbs_ports.c, those of two further ports that may have a
 *                       share (FAB_VERBS_PORT_SHARE), neither of which an earlier rail has
 *
 * and either side may ask for the connection, whose session then serves both.  A process that has
 * it adds to the key of long memory that the peer may read one key for each port of a rail.  So
 * the reader of that has the first connection and the rails for which there is a key: each reads a
 * share, by the speeds of their ports.
 *
 * A READ can be done again.  What a rail has not read when it fails, its share or what is left of
 * it in the queue, the first connection reads; the rail is not used again.
 *
 *      no rails   where the first connection is not by the first ports of both: the peer has moved
 *                 to others as those failed; with verbs_max_connections; iWARP
 */
#include "verbs/verbs.h"

#include <stdlib.h>

#include "fabric/fab_params.h"

enum {
    FAB_VERBS_SPEED_UNKNOWN = 4000, /* 400 Gbit/s: newer than what is known here */
    FAB_VERBS_SHARE_UNIT = 4096,    /* bytes: shares are multiples of it */
};

/* ---- making ------------------------------------------------------------- */

/* That the peer may have rails now, and this process. */
static bool may_have(const fab_verbs_ep_t *ep)
{
    return 0 == ep->pair && 0 == ep->dom->index && 0 == ep->remote && !ep->ses.is_closed &&
           FAB_SES_CLOSING > ep->ses.state && 0 == ep->late_bye && NULL == ep->failure &&
           0 == fab_params.verbs_max_connections;
}

static bool may_share(const fab_verbs_addr_t *addr, uint8_t port)
{
    return 0 != (addr->ports[port].flags & FAB_VERBS_PORT_SHARE);
}

static bool is_taken(const fab_verbs_ep_t *ep, uint8_t own, uint8_t remote)
{
    const fab_verbs_ep_t *rail = ep->rails;

    while (NULL != rail && rail->dom->index != own && rail->remote != remote) {
        rail = rail->next_rail;
    }
    return NULL != rail;
}

/* Without memory, or if the port cannot be opened, the other side's request is refused. */
static void add_rail(fab_verbs_ep_t *ep, uint32_t pair, uint8_t own, uint8_t remote)
{
    const char *why = "there is not enough memory";
    fab_verbs_domain_t *dom = fab_verbs_port_domain(ep->dom->first, own, &why);
    fab_verbs_ep_t *rail = NULL != dom ? fab_verbs_ep_new(dom, ep->peer, &ep->addr, pair, remote)
                                       : NULL;

    if (NULL == rail) {
        fab_log(ep->dom->fab, 10, "no rail by port %u: %s", own, why);
        return;
    }
    rail->main = ep;
    rail->next_rail = ep->rails;
    ep->rails = rail;
}

static void make_rails(fab_verbs_ep_t *ep)
{
    const fab_verbs_domain_t *first = ep->dom->first;
    uint8_t own, remote;

    if (ep->has_rails) {
        return;
    }
    ep->has_rails = true;
    for (uint32_t pair = 1;
         NULL == fab_verbs_pair_find(first, ep->peer->name, &ep->addr, &pair, &own, &remote);
         pair++) {
        if (may_share(&first->addr, own) && may_share(&ep->addr, remote) &&
            !is_taken(ep, own, remote)) {
            add_rail(ep, pair, own, remote);
        }
    }
}

/* ---- shares ------------------------------------------------------------- */

static uint32_t speed_of(const fab_verbs_addr_t *addr, uint8_t port)
{
    return 0 != addr->ports[port].speed ? addr->ports[port].speed : FAB_VERBS_SPEED_UNKNOWN;
}

static uint32_t speed_by(const fab_verbs_ep_t *ep)
{
    return fab_verbs_min(speed_of(&ep->dom->first->addr, ep->dom->index),
                         speed_of(&ep->addr, ep->remote));
}

/* A rail that is up, and for which there is a key. */
static bool can_share(const fab_verbs_ep_t *rail, const fab_rkey_t *rkey)
{
    return fab_verbs_is_up(rail) && 0 != (fab_verbs_key(rkey).rails >> rail->remote & 1);
}

/* The last len bytes of what the operation has.  False: they stay with it. */
static bool share(fab_verbs_ep_t *rail, fab_verbs_op_t *op, size_t len)
{
    fab_rma_t *rma = op->rma;
    size_t from = op->end - len;
    fab_verbs_op_t *part = malloc(sizeof(*part));
    fab_reg_t *reg = NULL != part ? fab_verbs_register(rail->dom, (char *) rma->local + from, len,
                                                       FAB_REG_LOCAL_WRITE)
                                  : NULL;

    if (NULL == reg) {
        free(part);
        return false;
    }
    *part = (fab_verbs_op_t){.dom = rail->dom,
                             .rma = rma,
                             .whole = op,
                             .reg = reg,
                             .from = from,
                             .posted = from,
                             .end = op->end,
                             .rkey = fab_verbs_key(&rma->rkey).rail_rkeys[rail->remote]};
    op->end = from;
    op->num_shares++;
    fab_verbs_op_append(rail, part);
    fab_verbs_ops_list(rail);
    return true;
}

void fab_verbs_rails_share(fab_verbs_ep_t *ep, fab_verbs_op_t *op)
{
    const fab_rkey_t *rkey = &op->rma->rkey;
    uint32_t all = speed_by(ep);

    if (!may_have(ep) || !fab_verbs_is_up(ep)) {
        return;
    }
    make_rails(ep);
    for (fab_verbs_ep_t *rail = ep->rails; NULL != rail; rail = rail->next_rail) {
        if (FAB_SES_KNOWN == rail->ses.state && !rail->has_failed) {
            fab_ses_want(&rail->ses);
        }
        all += can_share(rail, rkey) ? speed_by(rail) : 0;
    }
    for (fab_verbs_ep_t *rail = ep->rails; NULL != rail; rail = rail->next_rail) {
        size_t len = op->rma->len / all * speed_by(rail) & ~(size_t) (FAB_VERBS_SHARE_UNIT - 1);
        if (can_share(rail, rkey) && len > 0) {
            (void) share(rail, op, len);
        }
    }
}

fab_verbs_ep_t *fab_verbs_rail_asked(fab_verbs_ep_t *ep, uint32_t pair)
{
    fab_verbs_ep_t *rail;

    if (!may_have(ep)) {
        return NULL;
    }
    make_rails(ep);
    for (rail = ep->rails; NULL != rail && rail->pair != pair; rail = rail->next_rail) {
    }
    return NULL != rail && !rail->has_failed && NULL == rail->failure ? rail : NULL;
}

/* ---- the end ------------------------------------------------------------ */

/* What waits in its queue; what is in flight is given back if it fails. */
static void give_back(fab_verbs_ep_t *rail)
{
    fab_verbs_ops_unlist(rail);
    while (!STAILQ_EMPTY(&rail->ops)) {
        fab_verbs_op_t *part = fab_verbs_op_take(rail);
        if (0 == part->in_flight) {
            fab_verbs_op_give_back(part, rail->main);
        } else {
            part->status = OPAL_ERR_UNREACH; /* not all of it will be asked for */
        }
    }
}

bool fab_verbs_rail_stop(fab_verbs_ep_t *rail, uint64_t now)
{
    if (NULL != rail->conn && !fab_verbs_conn_drain(rail->conn, now)) {
        return false;
    }
    if (NULL != rail->conn) {
        fab_verbs_conn_destroy(rail->conn, OPAL_ERR_UNREACH);
    }
    give_back(rail);
    return true;
}

void fab_verbs_rail_failed(fab_verbs_ep_t *rail, const char *why)
{
    rail->has_failed = true;
    give_back(rail);
    fab_counters.verbs_rail_failed++;
    fab_log(rail->dom->fab, 1,
            "process 0x%llx: %s here and its port %u read no more shares of long messages: %s",
            (unsigned long long) rail->peer->name, rail->dom->name, rail->remote, why);
}

/* Its session ends with the peer's, without a word of its own. */
static void rail_free(fab_verbs_ep_t *rail)
{
    give_back(rail);
    rail->ses.is_broken = true;
    fab_ses_drop(&rail->ses);
    fab_verbs_connect_cancel(rail);
    fab_verbs_conn_release(rail);
    fab_ses_fini(&rail->ses);
    LIST_REMOVE(rail, link);
    free(rail);
}

void fab_verbs_rails_end(fab_verbs_ep_t *ep)
{
    ep->has_rails = false;
    while (NULL != ep->rails) {
        fab_verbs_ep_t *rail = ep->rails;
        ep->rails = rail->next_rail;
        rail_free(rail);
    }
}

bool fab_verbs_rails_drain(fab_verbs_ep_t *ep, uint64_t now)
{
    bool is_over = true;

    for (fab_verbs_ep_t *rail = ep->rails; NULL != rail; rail = rail->next_rail) {
        is_over = fab_verbs_rail_stop(rail, now) && is_over;
    }
    if (is_over) {
        fab_verbs_rails_end(ep);
    }
    return is_over;
}
