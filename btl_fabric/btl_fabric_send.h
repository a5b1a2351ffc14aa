/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Messages: descriptors, sending, receiving.
 */
#ifndef BTL_FABRIC_SEND_H
#define BTL_FABRIC_SEND_H

#include "btl_fabric.h"

mca_btl_base_descriptor_t *mca_btl_fabric_alloc(struct mca_btl_base_module_t *btl,
                                                mca_btl_fabric_ep_t *ep, uint8_t order, size_t size,
                                                uint32_t flags);
int mca_btl_fabric_free(struct mca_btl_base_module_t *btl, mca_btl_base_descriptor_t *des);
mca_btl_base_descriptor_t *mca_btl_fabric_prepare_src(struct mca_btl_base_module_t *btl,
                                                      mca_btl_fabric_ep_t *ep,
                                                      opal_convertor_t *convertor, uint8_t order,
                                                      size_t reserve, size_t *size, uint32_t flags);
int mca_btl_fabric_send(struct mca_btl_base_module_t *btl, mca_btl_fabric_ep_t *ep,
                        mca_btl_base_descriptor_t *des, mca_btl_base_tag_t tag);
int mca_btl_fabric_sendi(struct mca_btl_base_module_t *btl, mca_btl_fabric_ep_t *ep,
                         opal_convertor_t *convertor, void *header, size_t header_size,
                         size_t payload_size, uint8_t order, uint32_t flags, mca_btl_base_tag_t tag,
                         mca_btl_base_descriptor_t **des);
int mca_btl_fabric_frags_init(void);
void mca_btl_fabric_frags_fini(void);
void mca_btl_fabric_msg_free(mca_btl_fabric_msg_t *msg);

/*
 * Without threads only: give the message that the poll left in the ring (mca_btl_fabric.held) to
 * the layer above.
 */
void mca_btl_fabric_give_held(void);

/*
 * Without threads only: give messages from the peer that sent the last one, past the handler.
 * Returns their number, at most max.
 */
int mca_btl_fabric_give_more(int max);

/* Handlers of BTL_FABRIC_AM_SEND and PART. */
void mca_btl_fabric_on_send(void *ctx, fab_peer_t *peer, fab_hdr_t hdr, const void *data,
                            size_t len);
void mca_btl_fabric_on_part(void *ctx, fab_peer_t *peer, fab_hdr_t hdr, const void *data,
                            size_t len);

#endif /* BTL_FABRIC_SEND_H */
