/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Probe and matched probe: lookups in the unexpected messages.  A probe that leaves the message
 * where it is also looks at the one that is next in its sender's ring: MPI_Recv can take that from
 * there, by one copy.
 */
#include "pml_tm/calls/pml_tm_calls.h"

#include "pml_tm/arrive/pml_tm_flow.h"
#include "pml_tm/arrive/pml_tm_msg.h"
#include "pml_tm/peer/pml_tm_comm.h"
#include "pml_tm/request/pml_tm_request.h"
#include "pml_tm/wait/pml_tm_progress.h"

/* A message that is still in its sender's ring, for a probe that leaves it there. */
static bool find_in_ring(int src, int tag, ompi_communicator_t *comm, ompi_status_public_t *status)
{
    size_t len;
    int found;

    if (OPAL_UNLIKELY(opal_using_threads()) ||
        !mca_pml_tm_recv_peek(src, tag, comm, &len, &found)) {
        return false;
    }
    mca_pml_tm_set_status(status, src, found, len);
    return true;
}

/*
 * A call that did not find a message at once retains its communicator while it polls: with threads,
 * another one may free it.  Lock held.
 */
static inline void retain(ompi_communicator_t **retained, ompi_communicator_t *comm)
{
    if (OPAL_UNLIKELY(NULL == *retained && fab_is_threaded(mca_pml_tm.fab))) {
        OBJ_RETAIN(comm);
        *retained = comm;
    }
}

/* Lock not held. */
static inline void release(ompi_communicator_t *retained)
{
    if (OPAL_UNLIKELY(NULL != retained)) {
        OBJ_RELEASE(retained);
    }
}

/*
 * Find the oldest matching message and set its status.  If the caller wants the message, it is
 * taken out of the domain, and retains the communicator, which the user may free before the message
 * is received.  Lock held.
 */
static bool find_locked(int src, int tag, ompi_communicator_t *comm, mca_pml_tm_msg_t **taken,
                        ompi_status_public_t *status)
{
    mca_pml_tm_comm_t *tmc = mca_pml_tm_comm(comm);
    fab_match_msg_t *match = fab_match_probe(&tmc->match, src, tag);
    mca_pml_tm_msg_t *msg;

    if (NULL == match) {
        if (OPAL_UNLIKELY(0 != mca_pml_tm.num_throttled)) {
            mca_pml_tm_flow_probe(tmc, src, tag);
        }
        return NULL == taken && find_in_ring(src, tag, comm, status);
    }
    msg = mca_pml_tm_msg_of(match);
    mca_pml_tm_set_status(status, mca_pml_tm_msg_source(msg->hdr), mca_pml_tm_tag_tag(msg->hdr.tag),
                          msg->len);
    if (NULL != taken) {
        fab_match_remove_msg(&tmc->match, match);
        *taken = msg;
        OBJ_RETAIN(comm);
    }
    return true;
}

/* The same, lock not held; what is not found at once will be waited for. */
static bool find(int src, int tag, ompi_communicator_t *comm, mca_pml_tm_msg_t **taken,
                 ompi_status_public_t *status, ompi_communicator_t **retained)
{
    bool is_found;

    fab_lock(mca_pml_tm.fab);
    is_found = find_locked(src, tag, comm, taken, status);
    if (!is_found) {
        retain(retained, comm);
    }
    fab_unlock(mca_pml_tm.fab);
    return is_found;
}

/* Look, progress once, look again: by a light poll all in one critical section. */
static bool find_now(int src, int tag, ompi_communicator_t *comm, mca_pml_tm_msg_t **taken,
                     ompi_status_public_t *status)
{
    ompi_communicator_t *retained = NULL;
    bool is_found, is_over = true;
    int events = 0;

    fab_lock(mca_pml_tm.fab);
    is_found = find_locked(src, tag, comm, taken, status);
    if (!is_found) {
        is_over = mca_pml_tm_poll_light_locked(&events);
        if (!is_over) {
            retain(&retained, comm);
        } else if (0 != events) {
            is_found = find_locked(src, tag, comm, taken, status);
        }
    }
    fab_unlock(mca_pml_tm.fab);
    if (0 != events) {
        mca_pml_tm_complete_done();
    }
    if (!is_over) {
        mca_pml_tm_poll_ompi(
            (mca_pml_tm_waiting_t){.comm = comm, .source = src, .tag = tag, .may_return = true});
        is_found = find(src, tag, comm, taken, status, &retained);
        release(retained);
    }
    return is_found;
}

/*
 * Should this poll cover all of Open MPI?  As in mca_pml_tm_wait(), polls of all calls count
 * together; with threads those of each call, and where several communicate, each poll does.
 */
static bool is_others_turn(unsigned *polls)
{
    if (fab_is_threaded(mca_pml_tm.fab)) {
        return 0 == ++*polls % PML_TM_POLLS_PER_PROGRESS || !mca_pml_tm_is_only_thread();
    }
    if (0 != --mca_pml_tm.polls_left) {
        return false;
    }
    mca_pml_tm.polls_left = mca_pml_tm.progress_interval;
    return true;
}

/*
 * MPI_SUCCESS, or the error why waiting is pointless: a process failed, or the communicator was
 * revoked.
 */
static int find_wait(int src, int tag, ompi_communicator_t *comm, mca_pml_tm_msg_t **taken,
                     ompi_status_public_t *status)
{
    ompi_communicator_t *retained = NULL;
    unsigned polls = 0;
    int rc = MPI_SUCCESS;

    while (MPI_SUCCESS == rc && !find(src, tag, comm, taken, status, &retained)) {
        if (!is_others_turn(&polls)) {
            mca_pml_tm_poll();
            continue;
        }
        rc = mca_pml_tm_check_source(comm, src);
        if (OPAL_LIKELY(MPI_SUCCESS == rc)) {
            mca_pml_tm_poll_ompi((mca_pml_tm_waiting_t){.comm = comm, .source = src, .tag = tag});
        }
    }
    release(retained);
    return rc;
}

/* Fill in the handle.  It was allocated before the message was taken, so nothing can fail now. */
static int make_message(mca_pml_tm_msg_t *msg, ompi_communicator_t *comm, ompi_message_t *message,
                        ompi_message_t **out)
{
    message->comm = comm;
    message->req_ptr = msg;
    message->peer = mca_pml_tm_msg_source(msg->hdr);
    message->count = msg->len;
    *out = message;
    return OMPI_SUCCESS;
}

int mca_pml_tm_iprobe(int src, int tag, ompi_communicator_t *comm, int *matched,
                      ompi_status_public_t *status)
{
    *matched = find_now(src, tag, comm, NULL, status);
    return OMPI_SUCCESS;
}

int mca_pml_tm_probe(int src, int tag, ompi_communicator_t *comm, ompi_status_public_t *status)
{
    return find_wait(src, tag, comm, NULL, status);
}

int mca_pml_tm_improbe(int src, int tag, ompi_communicator_t *comm, int *matched,
                       ompi_message_t **message, ompi_status_public_t *status)
{
    mca_pml_tm_msg_t *msg;
    ompi_message_t *handle = ompi_message_alloc();

    if (NULL == handle) {
        return OMPI_ERR_OUT_OF_RESOURCE;
    }
    *matched = find_now(src, tag, comm, &msg, status);
    if (!*matched) {
        ompi_message_return(handle);
        *message = MPI_MESSAGE_NULL;
        return OMPI_SUCCESS;
    }
    return make_message(msg, comm, handle, message);
}

int mca_pml_tm_mprobe(int src, int tag, ompi_communicator_t *comm, ompi_message_t **message,
                      ompi_status_public_t *status)
{
    mca_pml_tm_msg_t *msg;
    ompi_message_t *handle = ompi_message_alloc();
    int rc;

    if (NULL == handle) {
        return OMPI_ERR_OUT_OF_RESOURCE;
    }
    rc = find_wait(src, tag, comm, &msg, status);
    if (MPI_SUCCESS != rc) {
        ompi_message_return(handle);
        return rc;
    }
    return make_message(msg, comm, handle, message);
}
