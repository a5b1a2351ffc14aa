/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What waits in this process: one list of records (fab_wait_t), derived from the requests and
 * queues that exist.  Others see it by tm_look (fab_look.h) and by a question (pml_tm_nodes.h);
 * pml_dump prints it.
 *
 * A call of this PML that blocks says which request it waits for (pml_tm_idle.h): that one wait is
 * what it waits for.  In a wait of Open MPI's own it may be any of the process's active requests.
 */
#ifndef PML_TM_STATE_H
#define PML_TM_STATE_H

#include "fabric/fab_look.h"

#include "pml_tm/peer/pml_tm_comm.h"
#include "pml_tm/wait/pml_tm_idle.h"

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

/* The call of MPI that a thread is in. */
typedef struct mca_pml_tm_call {
    char name[24];  /* "": not known */
    char site[160]; /* where the program calls it, "FUNCTION (FILE)", or "" */
} mca_pml_tm_call_t;

/* That of this thread.  The loader has locks of its own, and takes its time: lock not held. */
void mca_pml_tm_call_find(mca_pml_tm_call_t *call);

/* A list that is being filled. */
typedef struct mca_pml_tm_waits {
    fab_wait_t *wait;
    unsigned count;
    unsigned room; /* for so many */
    bool has_more; /* there was no room for some */
} mca_pml_tm_waits_t;

/* Add all that waits in a communicator, or, with NULL, in all; of each kind some.  Lock held. */
void mca_pml_tm_state_all(mca_pml_tm_waits_t *list, const mca_pml_tm_comm_t *tmc);

/* What this process tells others, from a call of this thread. Lock held. */
void mca_pml_tm_state_get(mca_pml_tm_answer_t *state, const mca_pml_tm_watch_t *watch,
                          const mca_pml_tm_call_t *call, uint64_t now_ns);

/* Show it to tm_look, now and then. Lock held. */
void mca_pml_tm_state_show(mca_pml_tm_watch_t *watch, uint64_t now_ns);

/* The communicator of a wait, if this process is in it, too; NULL: it is not. Lock held. */
const mca_pml_tm_comm_t *mca_pml_tm_state_comm(const fab_wait_t *wait);

#endif /* PML_TM_STATE_H */
