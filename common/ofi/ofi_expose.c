/* SPDX-License-Identifier: BSD-3-Clause */
#include "ofi/ofi.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <rdma/fi_errno.h>

/* ---- registering --------------------------------------------------------- */

/* The argument is the domain, the handle a struct fid_mr. */
static void *ofi_add(void *arg, void *buf, size_t len, unsigned *access)
{
    fab_ofi_domain_t *dom = arg;
    const uint64_t allowed = FI_REMOTE_READ |
                             (0 != (*access & FAB_REG_REMOTE_WRITE) ? FI_REMOTE_WRITE : 0);
    struct fid_mr *mr = NULL;
    int rc = fi_mr_reg(dom->domain, buf, len, allowed, 0, dom->next_key++, 0, &mr, NULL);

    if (0 == rc && 0 != (dom->info->domain_attr->mr_mode & FI_MR_ENDPOINT)) {
        rc = fi_mr_bind(mr, &dom->rdm->fid, 0);
        rc = 0 == rc ? fi_mr_enable(mr) : rc;
        if (0 != rc) {
            (void) fi_close(&mr->fid);
        }
    }
    if (0 == rc) {
        return mr;
    }
    errno = -FI_ENOMEM == rc || -FI_EAGAIN == rc || -FI_ENOSPC == rc ? ENOMEM : EFAULT;
    return NULL;
}

static int ofi_remove(void *arg, void *handle)
{
    struct fid_mr *mr = handle;

    (void) arg;
    return fi_close(&mr->fid);
}

const fab_reg_how_t fab_ofi_reg_how = {
    .name = "ofi",
    .add = ofi_add,
    .remove = ofi_remove,
};

/* ---- exposing ------------------------------------------------------------ */

/* NULL: it cannot be. */
static fab_reg_t *get_reg(fab_ofi_domain_t *dom, const void *buf, size_t len, unsigned access)
{
    const unsigned wanted = 0 != (access & FAB_ACCESS_WRITE) ? FAB_REG_REMOTE_WRITE : 0;
    fab_reg_t *reg;

    if (0 == len) { /* one byte, so that it has a key */
        buf = dom->flushed;
        len = 1;
    }
    reg = fab_reg_ops->get(dom->regs, (void *) (uintptr_t) buf, len, wanted);
    fab_counters.unregistrable += NULL == reg;
    return reg;
}

/* False: it cannot be. */
static bool expose(fab_ofi_domain_t *dom, fab_ofi_exposed_list_t *list, const void *buf, size_t len,
                   unsigned access, fab_rkey_t *rkey)
{
    fab_ofi_exposed_t *exposed = malloc(sizeof(*exposed));
    fab_ofi_rkey_t key;

    if (NULL == exposed) {
        return false;
    }
    exposed->reg = get_reg(dom, buf, len, access);
    if (NULL == exposed->reg) {
        free(exposed);
        return false;
    }
    exposed->list = list;
    exposed->key = fi_mr_key(exposed->reg->handle);
    LIST_INSERT_HEAD(list, exposed, link);
    LIST_INSERT_HEAD(&dom->by_key[exposed->key % FAB_OFI_KEYS], exposed, key_link);
    key = (fab_ofi_rkey_t){.key = exposed->key, .base = dom->is_virt ? 0 : exposed->reg->base};
    memcpy(rkey->bytes, &key, sizeof(key));
    return true;
}

static void let_go(fab_ofi_domain_t *dom, fab_ofi_exposed_t *exposed)
{
    LIST_REMOVE(exposed, link);
    LIST_REMOVE(exposed, key_link);
    fab_reg_ops->put(dom->regs, exposed->reg);
    free(exposed);
}

fab_ofi_rkey_t fab_ofi_rkey(const fab_rkey_t *rkey)
{
    fab_ofi_rkey_t key;

    memcpy(&key, rkey->bytes, sizeof(key));
    return key;
}

static void unexpose(fab_ofi_domain_t *dom, const fab_ofi_exposed_list_t *list,
                     const fab_rkey_t *rkey)
{
    const uint64_t key = fab_ofi_rkey(rkey).key;
    fab_ofi_exposed_t *exposed;

    LIST_FOREACH(exposed, &dom->by_key[key % FAB_OFI_KEYS], key_link) {
        if (key == exposed->key && list == exposed->list) {
            let_go(dom, exposed);
            return;
        }
    }
}

void fab_ofi_unexpose_all(fab_ofi_domain_t *dom, fab_ofi_exposed_list_t *list)
{
    while (!LIST_EMPTY(list)) {
        let_go(dom, LIST_FIRST(list));
    }
}

/* ---- the table's functions ----------------------------------------------- */

bool fab_ofi_expose(fab_domain_t *domain, fab_peer_t *peer, const void *buf, size_t len,
                    unsigned access, fab_rkey_t *rkey)
{
    fab_ofi_domain_t *dom = (fab_ofi_domain_t *) domain;
    fab_ofi_ep_t *ep;

    if (NULL == peer) {
        return dom->has_rma && expose(dom, &dom->exposed, buf, len, access, rkey);
    }
    ep = peer->ep;
    return 0 != (peer->caps & FAB_CAP_GET) && expose(ep->dom, &ep->exposed, buf, len, access, rkey);
}

void fab_ofi_unexpose(fab_domain_t *domain, fab_peer_t *peer, const fab_rkey_t *rkey)
{
    fab_ofi_domain_t *dom = (fab_ofi_domain_t *) domain;
    fab_ofi_ep_t *ep = NULL != peer ? peer->ep : NULL;

    unexpose(dom, NULL != ep ? &ep->exposed : &dom->exposed, rkey);
}
