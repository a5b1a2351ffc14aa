/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Registered memory, and the checks of an address in it and of an atomic operation on it.
 */
#ifndef BTL_FABRIC_MEM_H
#define BTL_FABRIC_MEM_H

#include "btl_fabric.h"

/*
 * Registered memory.  Peers get a copy of the first BTL_FABRIC_HANDLE bytes: so ob1's announcement
 * of a long message takes two cache lines.
 */
struct mca_btl_base_registration_handle_t {
    uint32_t key;   /* its id in mca_btl_fabric.mems */
    uint32_t flags; /* MCA_BTL_REG_FLAG_*: what peers may do */
    fab_region_t region;
    uint64_t base;
    uint64_t len;
};

enum { BTL_FABRIC_HANDLE = 48 };

_Static_assert(BTL_FABRIC_HANDLE == offsetof(struct mca_btl_base_registration_handle_t, base) &&
                   8 == offsetof(struct mca_btl_base_registration_handle_t, region),
               "mca_btl_base_registration_handle_t is a wire format");

FAB_FUNCTION(mca_btl_base_module_register_mem_fn_t, mca_btl_fabric_register_mem);
FAB_FUNCTION(mca_btl_base_module_deregister_mem_fn_t, mca_btl_fabric_deregister_mem);
void mca_btl_fabric_mems_fini(void);

/*
 * Do these len bytes lie in the registered memory that the key names, and do its flags allow this
 * access (flag: one of MCA_BTL_REG_FLAG_REMOTE_*)?  Lock held.
 */
bool mca_btl_fabric_mem_allows(uint32_t key, uint64_t address, uint64_t len, uint32_t flag);

/*
 * Is it an atomic operation that the module's flags announce, on a word (len: bytes) that is
 * aligned?
 */
static inline bool mca_btl_fabric_can_apply(unsigned op, size_t len, uint64_t address)
{
    return (4 == len || 8 == len) && 0 == (address & (len - 1)) &&
           (MCA_BTL_ATOMIC_ADD == op || MCA_BTL_ATOMIC_AND == op || MCA_BTL_ATOMIC_OR == op ||
            MCA_BTL_ATOMIC_XOR == op || MCA_BTL_ATOMIC_SWAP == op || BTL_FABRIC_CSWAP == op);
}

#endif /* BTL_FABRIC_MEM_H */
