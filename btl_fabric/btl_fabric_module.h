/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The module: what Open MPI calls (btl.h), but for messages, memory and operations; and processes,
 * which come, go and fail.
 */
#ifndef BTL_FABRIC_MODULE_H
#define BTL_FABRIC_MODULE_H

#include "btl_fabric.h"

/*
 * Defaults of btl_fabric_eager_limit and max_send_size, bytes: on one host, and on several.  ob1's
 * header takes 32 bytes, and 32 is a multiple of the lengths of all basic types: so no fragment
 * ends inside an element, unless several lengths are mixed.
 */
#define BTL_FABRIC_EAGER_LIMIT       16384
#define BTL_FABRIC_MAX_SEND_SIZE     32768
#define BTL_FABRIC_NET_EAGER_LIMIT   65792 /* 64 KiB and ob1's header */
#define BTL_FABRIC_NET_MAX_SEND_SIZE 131072

/* Fill the module's table, whose limits parameters may then change. */
void mca_btl_fabric_module_init(mca_btl_base_component_t *component);

int mca_btl_fabric_add_procs(struct mca_btl_base_module_t *btl, size_t nprocs,
                             struct opal_proc_t **procs, mca_btl_fabric_ep_t **eps,
                             opal_bitmap_t *reachable);
int mca_btl_fabric_del_procs(struct mca_btl_base_module_t *btl, size_t nprocs,
                             struct opal_proc_t **procs, mca_btl_fabric_ep_t **eps);
int mca_btl_fabric_publish(void);
int mca_btl_fabric_register_error(struct mca_btl_base_module_t *btl,
                                  mca_btl_base_module_error_cb_fn_t cbfunc);
void mca_btl_fabric_dump(struct mca_btl_base_module_t *btl, mca_btl_fabric_ep_t *ep, int verbose);
int mca_btl_fabric_finalize(struct mca_btl_base_module_t *btl);

/*
 * The endpoint of a process whose entry in the modex is blob, of len bytes.  NULL: it cannot be
 * reached, and *why says why.
 */
mca_btl_fabric_ep_t *mca_btl_fabric_ep_open(opal_proc_t *proc, const void *blob, size_t len,
                                            const char **why);

/* The fabric's callbacks: fab_config_t. */
void mca_btl_fabric_peer_failed(void *ctx, fab_peer_t *peer, int rc, const char *why);
bool mca_btl_fabric_peer_left(void *ctx, fab_peer_t *peer);

#endif /* BTL_FABRIC_MODULE_H */
