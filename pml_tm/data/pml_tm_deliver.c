/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Delivery: the data of a matched message goes to the user's buffer, and the receive ends.
 */
#include "pml_tm/data/pml_tm_deliver.h"

#include "fabric/fab_copy.h"
#include "opal/datatype/opal_datatype_internal.h"

#include "pml_tm/peer/pml_tm_peer.h"
#include "pml_tm/request/pml_tm_blocks.h"

/* Out of line, so that the common path need not save registers. */
#define NOINLINE __attribute__((noinline))

void mca_pml_tm_recv_matched(mca_pml_tm_recv_request_t *req, fab_peer_t *peer, fab_hdr_t hdr,
                             size_t len)
{
    ompi_status_public_t *status = &req->req_recv.req_base.req_ompi.req_status;

    req->core.peer = peer;
    req->received = 0;
    req->wanted = len;
    status->MPI_SOURCE = mca_pml_tm_tag_source(hdr.tag, mca_pml_tm.source_bits);
    status->MPI_TAG = mca_pml_tm_tag_tag(hdr.tag);
    status->_ucount = len;
    req->req_recv.req_bytes_packed = len;
    if (OPAL_UNLIKELY(len > req->capacity)) {
        req->core.error = MPI_ERR_TRUNCATE;
        req->wanted = req->capacity;
    }
}

/*
 * Unpack to the blocks of memory that the convertor names, one after the other.  For elements of
 * more than 16 bytes: of a part of an element a convertor before 6.0 keeps so many, on its stack,
 * and writes beyond them.  A sender whose data is contiguous does not know where elements end, so
 * the parts of a message end anywhere.
 */
static void unpack_by_blocks(mca_pml_tm_recv_request_t *req, const char *data, size_t len)
{
    struct iovec *block = &req->block;

    while (0 != len) {
        uint32_t count = 1;
        size_t part;
        if (0 == block->iov_len) {
            (void) opal_convertor_raw(&req->req_recv.req_base.req_convertor, block, &count, &part);
            if (0 == count) {
                return; /* all elements have their data */
            }
        }
        part = len < block->iov_len ? len : block->iov_len;
        fab_copy(block->iov_base, data, part);
        block->iov_base = (char *) block->iov_base + part;
        block->iov_len -= part;
        data += part;
        len -= part;
    }
}

/*
 * The next bytes go to memory that is not contiguous.  The convertor unpacks from the start of the
 * buffer, for data from that peer (or any: architectures are equal).
 */
static NOINLINE void unpack(mca_pml_tm_recv_request_t *req, const void *data, size_t len)
{
    mca_pml_base_request_t *base = &req->req_recv.req_base;
    struct iovec iov = {.iov_base = (void *) data, .iov_len = len};
    uint32_t iov_count = 1;
    mca_pml_tm_blocks_t blocks;
    size_t max = len;

    if (mca_pml_tm_blocks_of(base->req_addr, base->req_count, &base->req_datatype->super,
                             &blocks)) {
        mca_pml_tm_blocks_unpack(&blocks, &req->place, req->received, data, len);
        return;
    }
    if (0 == req->received) {
        opal_convertor_copy_and_prepare_for_recv(ompi_mpi_local_convertor,
                                                 &base->req_datatype->super, base->req_count,
                                                 base->req_addr, 0, &base->req_convertor);
        req->block.iov_len = 0;
    }
    if (0 != (base->req_datatype->super.bdt_used & PML_TM_LONG_ELEMENTS) &&
        !mca_pml_tm_is_on_device(&base->req_convertor)) {
        unpack_by_blocks(req, data, len);
        return;
    }
    opal_convertor_unpack(&base->req_convertor, &iov, &iov_count, &max);
}

void mca_pml_tm_recv_put(mca_pml_tm_recv_request_t *req, const void *data, size_t len)
{
    if (OPAL_LIKELY(NULL != req->data)) {
        fab_copy(req->data + req->received, data, len);
    } else if (0 != len) {
        unpack(req, data, len);
    }
    req->received += len;
}

void mca_pml_tm_recv_eager(mca_pml_tm_recv_request_t *req, fab_peer_t *peer, fab_hdr_t hdr,
                           const void *data, size_t len)
{
    if (OPAL_UNLIKELY(0 != hdr.app_ctx)) { /* a synchronous send */
        mca_pml_tm_answer(peer, fab_hdr(PML_TM_AM_ACK, 0, hdr.app_ctx), NULL, 0);
    }
    mca_pml_tm_recv_matched(req, peer, hdr, len);
    if (NULL != data && 0 != req->wanted) {
        mca_pml_tm_recv_put(req, data, req->wanted);
    }
    mca_pml_tm_recv_done(req);
}

void mca_pml_tm_recv_finish(mca_pml_tm_recv_request_t *req, int error)
{
    if (0 != req->core.id) {
        fab_idmap_remove(&mca_pml_tm.ids, req->core.id);
        req->core.id = 0;
    }
    if (MPI_SUCCESS != error) {
        req->core.error = error;
    }
    mca_pml_tm_recv_done(req);
}
