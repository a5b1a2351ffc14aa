/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Registered memory.  It is exposed to any peer on all providers, or, if the layer above names one,
 * on the provider of that peer.  It also has a key: a message that accesses the memory names it by
 * this key, so its address can be checked.
 */
#include "btl_fabric_mem.h"

/*
 * Bytes.  Registered memory is extended to whole words, since osc/rdma accesses an element that is
 * shorter than a word by a get or compare-and-swap of the word around it.
 */
enum { WORD = 8 };

/* To this peer, or any (NULL).  NULL: there is no memory.  Lock held. */
static struct mca_btl_base_registration_handle_t *expose(const fab_peer_t *peer, void *base,
                                                         size_t size, uint32_t flags)
{
    struct mca_btl_base_registration_handle_t *handle = malloc(sizeof(*handle));
    /* atomic operations need none: this process's own CPU does them */
    unsigned access = (0 != (flags & MCA_BTL_REG_FLAG_REMOTE_READ) ? FAB_ACCESS_READ : 0) |
                      (0 != (flags & MCA_BTL_REG_FLAG_REMOTE_WRITE) ? FAB_ACCESS_WRITE : 0);

    if (NULL == handle) {
        return NULL;
    }
    handle->flags = flags;
    handle->base = (uintptr_t) base & ~(uint64_t) (WORD - 1);
    handle->len = (((uintptr_t) base + size + WORD - 1) & ~(uint64_t) (WORD - 1)) - handle->base;
    handle->key = fab_idmap_add(&mca_btl_fabric.mems, handle);
    if (0 == handle->key) {
        free(handle);
        return NULL;
    }
    fab_expose_any(mca_btl_fabric.fab, peer, (void *) (uintptr_t) handle->base, handle->len, access,
                   &handle->region);
    return handle;
}

struct mca_btl_base_registration_handle_t *
mca_btl_fabric_register_mem(struct mca_btl_base_module_t *btl, mca_btl_fabric_ep_t *ep, void *base,
                            size_t size, uint32_t flags)
{
    const bool is_for_any = NULL == ep || MCA_BTL_ENDPOINT_ANY == ep;
    struct mca_btl_base_registration_handle_t *handle;

    (void) btl;
    fab_lock(mca_btl_fabric.fab);
    handle = expose(is_for_any ? NULL : ep->peer, base, size, flags);
    fab_unlock(mca_btl_fabric.fab);
    return handle;
}

int mca_btl_fabric_deregister_mem(struct mca_btl_base_module_t *btl,
                                  struct mca_btl_base_registration_handle_t *handle)
{
    (void) btl;
    if (NULL == mca_btl_fabric.fab) {
        return OPAL_SUCCESS; /* mca_btl_fabric_mems_fini() freed it */
    }
    fab_lock(mca_btl_fabric.fab);
    fab_unexpose_any(mca_btl_fabric.fab, &handle->region);
    fab_idmap_remove(&mca_btl_fabric.mems, handle->key);
    fab_unlock(mca_btl_fabric.fab);
    free(handle);
    return OPAL_SUCCESS;
}

/* The fabric is closed and has released what it held for them. */
void mca_btl_fabric_mems_fini(void)
{
    for (uint32_t i = 0; i < mca_btl_fabric.mems.size; ++i) {
        free(mca_btl_fabric.mems.slots[i].object);
    }
    fab_idmap_fini(&mca_btl_fabric.mems);
}

bool mca_btl_fabric_mem_allows(uint32_t key, uint64_t address, uint64_t len, uint32_t flag)
{
    const struct mca_btl_base_registration_handle_t *handle = fab_idmap_find(&mca_btl_fabric.mems,
                                                                             key);

    return NULL != handle && 0 != (handle->flags & flag) && address >= handle->base &&
           len <= handle->len && address - handle->base <= handle->len - len;
}
