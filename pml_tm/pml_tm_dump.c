/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What waits in this process, as text: posted receives, unexpected messages, receives whose data
 * is on the way, sends that are not complete, flow control.  Nothing is recorded for it: the queues
 * and requests that exist are read when it is asked for.
 */
#include "pml_tm_entry.h"

#include "pml_tm_msg.h"
#include "pml_tm_peer.h"
#include "pml_tm_request.h"
#include "pml_tm_state.h"
#include "pml_tm_text.h"

enum { DUMP_LINES = 100 };

/* One walk over a communicator's queues. */
typedef struct walk {
    mca_pml_tm_text_t *text;
    const mca_pml_tm_comm_t *tmc;
} walk_t;

static bool line_of_recv(void *ctx, const fab_match_recv_t *match)
{
    const walk_t *walk = ctx;
    const mca_pml_tm_recv_request_t *req = mca_pml_tm_recv_of((fab_offload_recv_t *) match);
    const mca_pml_base_request_t *base = &req->req_recv.req_base;
    char source[PML_TM_TAG_SIZE], tag[PML_TM_TAG_SIZE];

    mca_pml_tm_text_line(
        walk->text, "  receive     from %-6s tag %-8s up to %zu bytes, %s at %p",
        mca_pml_tm_text_source(source, match->source), mca_pml_tm_tag_text(tag, match->tag),
        req->capacity, NULL != base->req_datatype ? base->req_datatype->name : "", base->req_addr);
    return true;
}

/* How a message that waits for its receive was sent. */
static const char *protocol_of(const mca_pml_tm_msg_t *msg)
{
    if (FAB_AM_RNDV == msg->hdr.id) {
        return "announced";
    }
    return 0 != msg->hdr.app_ctx ? "synchronous" : "here";
}

static void line_of_message(mca_pml_tm_text_t *text, const char *what, const mca_pml_tm_msg_t *msg)
{
    char tag[PML_TM_TAG_SIZE];

    mca_pml_tm_text_line(
        text, "  %-11s from %-6d tag %-8s %zu bytes, %s", what, mca_pml_tm_msg_source(msg->hdr),
        mca_pml_tm_tag_text(tag, mca_pml_tm_tag_tag(msg->hdr.tag)), msg->len, protocol_of(msg));
}

static bool line_of_msg(void *ctx, const fab_match_msg_t *match)
{
    const walk_t *walk = ctx;

    line_of_message(walk->text, "unexpected", mca_pml_tm_msg_of((fab_match_msg_t *) match));
    return true;
}

/* What a request waits for. */
static const char *phase_of(const mca_pml_tm_core_t *core)
{
    static const char *const names[] = {
        [PML_TM_WAIT_ROOM] = "waits for room towards the receiver",
        [PML_TM_HELD] = "held back: the receiver is short of memory for unexpected messages",
        [PML_TM_WAIT_ACK] = "synchronous, not matched yet",
        [PML_TM_WAIT_FIN] = "announced, the receiver has not fetched it",
        [PML_TM_SEND_DATA] = "its data is being sent",
        [PML_TM_WAIT_MATCH] = "posted",
        [PML_TM_FETCH] = "fetched from the sender's memory",
        [PML_TM_STREAMED] = "arrives in fragments",
        [PML_TM_WAIT_AGAIN] = "to be announced again",
        [PML_TM_WAIT_DATA] = "its data comes as messages",
    };

    return core->phase < sizeof(names) / sizeof(names[0]) ? names[core->phase] : "unknown";
}

/* A send; or a receive that has its message, but not all of the data. */
static void line_of_request(void *ctx, const mca_pml_tm_core_t *core)
{
    const walk_t *walk = ctx;
    const mca_pml_base_request_t *base = core->base;
    const ompi_status_public_t *status = &base->req_ompi.req_status;
    char tag[PML_TM_TAG_SIZE];

    if (base->req_comm != walk->tmc->comm) {
        return;
    }
    if (MCA_PML_REQUEST_SEND == base->req_type) {
        mca_pml_tm_text_line(walk->text, "  send        to   %-6d tag %-8s %zu bytes, %s",
                             base->req_peer, mca_pml_tm_tag_text(tag, base->req_tag),
                             ((const mca_pml_base_send_request_t *) base)->req_bytes_packed,
                             phase_of(core));
    } else {
        const mca_pml_tm_recv_request_t *req = (const mca_pml_tm_recv_request_t *) base;

        mca_pml_tm_text_line(walk->text, "  arriving    from %-6d tag %-8s %zu of %zu bytes, %s",
                             status->MPI_SOURCE, mca_pml_tm_tag_text(tag, status->MPI_TAG),
                             PML_TM_FETCH == core->phase ? req->rma.done : req->received,
                             req->wanted, phase_of(core));
    }
}

/* The flow state of peers in the communicator that have one. */
static void lines_of_flow(const walk_t *walk)
{
    for (int32_t rank = 0; rank < walk->tmc->num_sources && NULL != mca_pml_tm.peers; ++rank) {
        const fab_peer_t *peer = mca_pml_tm_comm_peer(walk->tmc, rank);
        const mca_pml_tm_peer_t *record = NULL != peer ? peer->user[FAB_USER_PML] : NULL;

        if (NULL == record) {
            continue;
        }
        if (record->is_throttled) {
            mca_pml_tm_text_line(walk->text,
                                 "  flow        %-11d was asked to hold its messages back: this "
                                 "process is short of memory for unexpected ones",
                                 rank);
        }
        if (record->must_hold) {
            mca_pml_tm_text_line(walk->text,
                                 "  flow        %-11d has asked this process to hold messages back",
                                 rank);
        }
        if (record->has_left) {
            mca_pml_tm_text_line(walk->text, "  flow        %-11d has left the job", rank);
        }
    }
}

static void line_of_comm(mca_pml_tm_text_t *text, const mca_pml_tm_comm_t *tmc)
{
    mca_pml_tm_text_line(text,
                         "pml tm: communicator %s [context %u, rank %u]: %u receives posted (at "
                         "most %u), %u messages unexpected (at most %u)",
                         tmc->comm->c_name, tmc->context, tmc->my_rank, tmc->match.posted_count,
                         tmc->match.posted_max, tmc->match.unexp_count, tmc->match.unexp_max);
}

/* Add the lists of a communicator to the text. Lock held. */
static void dump_comm(mca_pml_tm_text_t *text, mca_pml_tm_comm_t *tmc)
{
    walk_t walk = {.text = text, .tmc = tmc};

    fab_match_visit_recvs(&tmc->match, line_of_recv, &walk);
    fab_match_visit_msgs(&tmc->match, line_of_msg, &walk);
    mca_pml_tm_state_visit(line_of_request, &walk);
    lines_of_flow(&walk);
}

static bool line_of_early(void *text, const fab_match_msg_t *match)
{
    line_of_message(text, "early", mca_pml_tm_msg_of((fab_match_msg_t *) match));
    return true;
}

int mca_pml_tm_dump(ompi_communicator_t *comm, int verbose)
{
    const mca_pml_tm_comm_t *only = mca_pml_tm_comm(comm);
    mca_pml_tm_text_t *text = mca_pml_tm_text_new(DUMP_LINES);

    if (NULL == text) {
        return OMPI_ERR_OUT_OF_RESOURCE;
    }
    fab_lock(mca_pml_tm.fab);
    for (uint32_t i = 0; i < mca_pml_tm.num_comms; ++i) {
        mca_pml_tm_comm_t *tmc = mca_pml_tm.comms[i];

        if (NULL != tmc && (tmc == only || verbose > 1)) {
            fab_offload_file(&tmc->scope);
            line_of_comm(text, tmc);
            if (verbose > 0) {
                dump_comm(text, tmc);
            }
        }
    }
    /* messages for communicators that this process has not made yet */
    if (verbose > 0) {
        fab_match_visit_msgs(&mca_pml_tm.early, line_of_early, text);
    }
    fab_unlock(mca_pml_tm.fab);
    mca_pml_tm_text_print(text);
    return OMPI_SUCCESS;
}
