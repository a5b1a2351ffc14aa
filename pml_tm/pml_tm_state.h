/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What this process waits for, as it tells others (mca_pml_tm_answer_t).  It is derived from the
 * requests and queues that exist.
 *
 * A call of this PML that blocks says which request it waits for (pml_tm_idle.h): that one wait
 * is the state.  In a wait of Open MPI's own it may be any of the process's active requests, so all
 * of them are in it, as far as there is room.
 */
#ifndef PML_TM_STATE_H
#define PML_TM_STATE_H

#include "fabric/fab_look.h"

#include "pml_tm_comm.h"
#include "pml_tm_idle.h"

/* A wait of one thread, from tick to tick. */
typedef struct mca_pml_tm_watch {
    mca_pml_tm_waiting_t what;
    unsigned long long
        messages; /* sent and received by this process when the wait was first seen */
    uint64_t since_ns;
    uint64_t last_ns;  /* the last tick in it; 0: none yet */
    uint32_t number;   /* differs from wait to wait in this process; 0: none was seen yet */
    unsigned reports;  /* of this wait, so far */
    uint64_t quiet_ns; /* no more of them before it has lasted for so long */
    fab_event_t event; /* the wait as it is recorded when it has ended; kind 0: it was short */
} mca_pml_tm_watch_t;

/* The thread's. */
mca_pml_tm_watch_t *mca_pml_tm_watch(void);

/*
 * Is it too early for the next look?  In calls that return, which are many, nothing is looked at
 * but each SHOW_NS.
 */
bool mca_pml_tm_watch_is_early(const mca_pml_tm_watch_t *watch, uint64_t now_ns);

/* Is it still the same wait?  If not, a new one begins.  Lock held. */
void mca_pml_tm_watch_look(mca_pml_tm_watch_t *watch, uint64_t now_ns);

/*
 * Visit the requests that a peer knows, and sends that are queued or held: all but posted receives.
 * Lock held.
 */
typedef void (*mca_pml_tm_visit_fn_t)(void *ctx, const mca_pml_tm_core_t *core);
void mca_pml_tm_state_visit(mca_pml_tm_visit_fn_t fn, void *ctx);

/* The state of this process, in a call of this thread. Lock held. */
void mca_pml_tm_state_get(mca_pml_tm_answer_t *state, const mca_pml_tm_watch_t *watch,
                          uint64_t now_ns);

/* Show it to those who look from outside (fab_look.h), now and then. Lock held. */
void mca_pml_tm_state_show(mca_pml_tm_watch_t *watch, uint64_t now_ns);

/* Name of the process that a wait is for; FAB_LOOK_ANY: any, or it is not known. Lock held. */
uint64_t mca_pml_tm_state_peer(const mca_pml_tm_watch_t *watch);

/* Where the program calls MPI in this thread: "FUNCTION (FILE)", or "" if that is not known. */
enum { PML_TM_PLACE_SIZE = 160 };
void mca_pml_tm_state_place(char place[PML_TM_PLACE_SIZE]);

/* The communicator of a wait, if this process is in it, too; NULL: it is not. Lock held. */
const mca_pml_tm_comm_t *mca_pml_tm_state_comm(const mca_pml_tm_wait_t *wait);

#endif /* PML_TM_STATE_H */
