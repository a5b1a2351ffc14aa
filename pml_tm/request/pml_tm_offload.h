/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A device that matches tags, as the rest of pml_tm sees it: one table of operations.
 *
 *   mca_pml_tm.offload   NULL: there is no such device
 *   tmc->scope           NULL: the device does not match in this communicator; software does, alone
 *
 * In a communicator with a scope these operations replace the matcher's (match/match.h), which has
 * the unexpected messages in any case.  pml_tm_offload_engine.c is what they do: it alone knows the
 * offload engine (offload/offload.h) and the fabric's device (fabric/fab_tm.h).  Lock held.
 */
#ifndef PML_TM_OFFLOAD_H
#define PML_TM_OFFLOAD_H

#include "pml_tm/base/pml_tm.h"

#include "offload/offload_types.h"

struct mca_pml_tm_offload {
    /* The communicator comes and goes.  It gets a scope if the device can match in it. */
    void (*add_comm)(mca_pml_tm_comm_t *tmc);
    void (*del_comm)(mca_pml_tm_comm_t *tmc);
    /* An active receive gets msg; if that is NULL, a message that fits, or it is posted. */
    void (*start)(mca_pml_tm_comm_t *tmc, mca_pml_tm_recv_request_t *req, fab_match_msg_t *msg);
    /* Each receive, of any communicator, when it is complete. */
    void (*leave)(mca_pml_tm_recv_request_t *req);
    /* As fab_match_cancel(). *is_late: the device answers later; until then this says the same. */
    bool (*cancel)(mca_pml_tm_comm_t *tmc, mca_pml_tm_recv_request_t *req, bool *is_late);
    /* As fab_match_arrive(), fab_match_add_msg() and fab_match_withdraw(). */
    fab_match_recv_t *(*arrive)(mca_pml_tm_comm_t *tmc, const fab_peer_t *peer, fab_hdr_t hdr);
    void (*keep)(mca_pml_tm_comm_t *tmc, mca_pml_tm_msg_t *msg);
    fab_match_msg_t *(*withdraw)(fab_offload_scope_t *scope, int32_t source, int32_t tag,
                                 fab_match_is_fn_t is_it, const void *ctx);
    /* Before a look at the posted receives of tmc->match: all are there afterwards. */
    void (*file)(fab_offload_scope_t *scope);
    /* Receives that the device has matched, whose data is still to come. */
    unsigned (*num_matched)(void);
    /* End matching by the device; receives stay posted. */
    void (*close)(void);
};

/* What the device knows of a receive request. */
typedef struct mca_pml_tm_listed {
    fab_offload_recv_t recv; /* its first member is what the matcher knows */
    fab_tm_match_t match;    /* what the device matched, until all data has arrived */
    mca_pml_tm_recv_request_t *memory_next;  /* in a bucket of memory[] */
    mca_pml_tm_recv_request_t **memory_prev; /* NULL: it is in none */
    bool is_memory_shared; /* another receive had the same memory when this one started */
} mca_pml_tm_listed_t;

/* ---- pml_tm_offload_engine.c -------------------------------------------- */

/* Acquire the fabric's device, if there is one: sets mca_pml_tm.offload. */
void mca_pml_tm_offload_open(void);

/* The device's counters (PML_TM_OFFLOAD_COUNTERS); zero if there is none. */
extern fab_offload_counters_t *const mca_pml_tm_offload_counters;

#endif /* PML_TM_OFFLOAD_H */
