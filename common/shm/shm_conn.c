/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The list of the connected endpoints: their processes are checked.
 */
#include "shm/shm_conn.h"

#include <stdlib.h>

int fab_shm_conn_add(fab_shm_ep_t *ep)
{
    fab_shm_domain_t *dom = ep->dom;

    if (FAB_SHM_COLD != ep->conn_at) {
        return OPAL_SUCCESS;
    }
    if (dom->num_conns == dom->max_conns) {
        uint32_t max = dom->max_conns > 0 ? 2 * dom->max_conns : 64;
        fab_shm_ep_t **conns = realloc(dom->conns, max * sizeof(*conns));
        if (NULL == conns) {
            return OPAL_ERR_OUT_OF_RESOURCE;
        }
        dom->conns = conns;
        dom->max_conns = max;
    }
    ep->conn_at = dom->num_conns;
    dom->conns[dom->num_conns++] = ep;
    return OPAL_SUCCESS;
}

void fab_shm_conn_remove(fab_shm_ep_t *ep)
{
    fab_shm_domain_t *dom = ep->dom;
    fab_shm_ep_t *last;

    if (FAB_SHM_COLD == ep->conn_at || NULL != ep->in || NULL != ep->entry) {
        return;
    }
    last = dom->conns[--dom->num_conns];
    dom->conns[ep->conn_at] = last;
    last->conn_at = ep->conn_at;
    ep->conn_at = FAB_SHM_COLD;
}
