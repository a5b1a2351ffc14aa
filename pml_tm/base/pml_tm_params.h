/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Parameters of pml tm, besides those of the fabric (fab_params.h).  What each does, and its range,
 * is in the table.
 */
#ifndef PML_TM_PARAMS_H
#define PML_TM_PARAMS_H

#include "fabric/fab_param.h"

/*
 * Fast paths for the most common cases; each falls back to the general path in all other cases.
 * Tests choose some by their sum, in the variable PML_TM_TEST_fast_paths of the environment.
 */
enum {
    /* a blocking call mostly polls only for messages, and stops when it has what it waits for */
    PML_TM_FAST_WAIT = 1 << 0,
    /* a receive is posted at the end of the short list; a short message takes the oldest receive */
    PML_TM_FAST_RECV = 1 << 1,
    /* a short message goes straight into the ring of a peer on this host */
    PML_TM_FAST_SEND = 1 << 2,
    /* a request that has no callback and was not freed is completed at once, not through a list */
    PML_TM_FAST_COMPLETE = 1 << 3,
    /* MPI_Wait and MPI_Waitall of pml_tm itself, for its own requests (pml_tm_wait.c) */
    PML_TM_FAST_WAIT_ALL = 1 << 4,
    /*
     * MPI_Recv takes a short message out of the ring, and any that is here whole out of the
     * unexpected ones, without a request
     */
    PML_TM_FAST_TAKE = 1 << 5,
    /* ... and the ways of SEND, RECV and TAKE for longer messages, up to the eager limit */
    PML_TM_FAST_LONGER = 1 << 6,
    /*
     * MPI_Wait and MPI_Waitall of a receive, with WAIT_ALL: its message is taken out of the ring if
     * no other receive is posted in the communicator
     */
    PML_TM_FAST_LOOK = 1 << 7,
    /* data in blocks is copied without the convertor (pml_tm_blocks.h) */
    PML_TM_FAST_BLOCKS = 1 << 8,
    PML_TM_FAST_ALL = (1 << 9) - 1,
    /* those that take the user's memory without asking whether it is a device's */
    PML_TM_FAST_IN_PLACE = PML_TM_FAST_RECV | PML_TM_FAST_SEND | PML_TM_FAST_TAKE |
                           PML_TM_FAST_LONGER | PML_TM_FAST_LOOK | PML_TM_FAST_BLOCKS,
};

typedef struct mca_pml_tm_params {
    char *wait;
    int priority;
    unsigned int stream_limit; /* bytes */
    int tag_source_bits;
    size_t unexpected_max; /* bytes */
    int close_timeout;     /* seconds */
    int progress_thread;   /* 0: no; 1: yes */
    int report;            /* 0: no; 1: yes */
    int report_after;      /* seconds */
    int report_signal;     /* a signal's number */
    char *report_file;     /* beginning of the names of files; NULL or empty: none */
} mca_pml_tm_params_t;

extern const fab_param_table_t mca_pml_tm_param_table;

#endif /* PML_TM_PARAMS_H */
