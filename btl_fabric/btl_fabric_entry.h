/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Entry points: what Open MPI calls (the module's table, btl.h), what the fabric calls (handlers of
 * messages, callbacks), and what the parts of this component do when it polls, opens and closes.
 */
#ifndef BTL_FABRIC_ENTRY_H
#define BTL_FABRIC_ENTRY_H

#include "btl_fabric.h"

/* ---- btl_fabric_module.c ------------------------------------------------ */

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

FAB_FUNCTION(mca_btl_base_module_add_procs_fn_t, mca_btl_fabric_add_procs);
FAB_FUNCTION(mca_btl_base_module_del_procs_fn_t, mca_btl_fabric_del_procs);
int mca_btl_fabric_publish(void);
FAB_FUNCTION(mca_btl_base_module_register_error_fn_t, mca_btl_fabric_register_error);
FAB_FUNCTION(mca_btl_base_module_dump_fn_t, mca_btl_fabric_dump);
FAB_FUNCTION(mca_btl_base_module_finalize_fn_t, mca_btl_fabric_finalize);

/*
 * The endpoint of a process whose entry in the modex is blob, of len bytes.  NULL: it cannot be
 * reached, and *why says why.
 */
mca_btl_fabric_ep_t *mca_btl_fabric_ep_open(opal_proc_t *proc, const void *blob, size_t len,
                                            const char **why);

/* The fabric's callbacks: fab_config_t. */
void mca_btl_fabric_peer_failed(void *ctx, fab_peer_t *peer, int rc, const char *why);
bool mca_btl_fabric_peer_left(void *ctx, fab_peer_t *peer);

/* ---- btl_fabric_send.c -------------------------------------------------- */

FAB_FUNCTION(mca_btl_base_module_alloc_fn_t, mca_btl_fabric_alloc);
FAB_FUNCTION(mca_btl_base_module_free_fn_t, mca_btl_fabric_free);
FAB_FUNCTION(mca_btl_base_module_prepare_fn_t, mca_btl_fabric_prepare_src);
FAB_FUNCTION(mca_btl_base_module_send_fn_t, mca_btl_fabric_send);
FAB_FUNCTION(mca_btl_base_module_sendi_fn_t, mca_btl_fabric_sendi);
int mca_btl_fabric_frags_init(void);
void mca_btl_fabric_frags_fini(void);
void mca_btl_fabric_msg_free(mca_btl_fabric_msg_t *msg);

/*
 * Without threads only: give what the poll left in the ring, mca_btl_fabric.retained, to the layer
 * above.
 */
void mca_btl_fabric_give_retained(void);

/*
 * Without threads only: give messages from the peer that sent the last one, past the handler.
 * Returns their number, at most max.
 */
int mca_btl_fabric_give_more(int max);

/* Handlers of BTL_FABRIC_AM_SEND and PART. */
FAB_FUNCTION(fab_am_fn_t, mca_btl_fabric_on_send);
FAB_FUNCTION(fab_am_fn_t, mca_btl_fabric_on_part);

/* ---- btl_fabric_rma.c, btl_fabric_staged.c ------------------------------ */

FAB_FUNCTION(mca_btl_base_module_put_fn_t, mca_btl_fabric_put);
FAB_FUNCTION(mca_btl_base_module_get_fn_t, mca_btl_fabric_get);
FAB_FUNCTION(mca_btl_base_module_atomic_op64_fn_t, mca_btl_fabric_atomic_op);
FAB_FUNCTION(mca_btl_base_module_atomic_fop64_fn_t, mca_btl_fabric_atomic_fop);
FAB_FUNCTION(mca_btl_base_module_atomic_cswap64_fn_t, mca_btl_fabric_atomic_cswap);

/* Where the data of a get goes. */
FAB_FUNCTION(fab_place_fn_t, mca_btl_fabric_place_data);

/* Handlers of BTL_FABRIC_AM_DATA, DONE and COUNT. */
FAB_FUNCTION(fab_am_fn_t, mca_btl_fabric_on_data);
FAB_FUNCTION(fab_am_fn_t, mca_btl_fabric_on_done);
FAB_FUNCTION(fab_am_fn_t, mca_btl_fabric_on_count);

/*
 * Puts and gets whose local side may be memory of a device: as those above, which they call, with a
 * copy in the host's memory.
 */
FAB_FUNCTION(mca_btl_base_module_put_fn_t, mca_btl_fabric_staged_put);
FAB_FUNCTION(mca_btl_base_module_get_fn_t, mca_btl_fabric_staged_get);

/* ---- btl_fabric_target.c ------------------------------------------------ */

/* The fabric is closed: free the replies that it had not sent. */
void mca_btl_fabric_replies_fini(void);

/* Handlers of BTL_FABRIC_AM_PUT, GET and ATOMIC. */
FAB_FUNCTION(fab_am_fn_t, mca_btl_fabric_on_put);
FAB_FUNCTION(fab_am_fn_t, mca_btl_fabric_on_get);
FAB_FUNCTION(fab_am_fn_t, mca_btl_fabric_on_atomic);

/* ---- btl_fabric_progress.c ---------------------------------------------- */

/* Poll the fabric, and run upcalls. */
int mca_btl_fabric_progress(void);

/*
 * What opal_progress() calls.  The fabric is polled once for each call: not here if the PML does,
 * nor if no process can be reached.
 */
int mca_btl_fabric_opal_progress(void);

/* Wait for operations. */
FAB_FUNCTION(mca_btl_base_module_flush_fn_t, mca_btl_fabric_flush);

#endif /* BTL_FABRIC_ENTRY_H */
