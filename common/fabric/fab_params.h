/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Parameters of the fabric.  fab_params holds the defaults until fab_params_register() hands them
 * to the MCA variable system.  Each component that calls it has them under its own name
 * (pml_tm_shm_ring_size, btl_fabric_shm_ring_size): whichever is set, holds for all.
 */
#ifndef FAB_PARAMS_H
#define FAB_PARAMS_H

#include "fabric/fab.h"

struct mca_base_component_2_1_0_t;

typedef struct fab_params {
    /* of their names, as the user knows them: "pml_tm_"; empty until registered */
    char prefix[160];
    /* comma separated list of providers to use besides self; NULL or "": all */
    char *providers;
    /* bytes of one ring, a power of two; 0: by the number of local processes */
    unsigned int shm_ring_size;
    /* rings in one process's segment; 0: by the number of local processes */
    unsigned int shm_max_peers;
    /* seconds for which connecting is tried again while memory or file descriptors are used up */
    unsigned int shm_connect_timeout;
    /* bytes; longest message copied through a ring in one piece, if a quarter ring holds it */
    unsigned int shm_eager_limit;
    /* bytes copied by CMA per progress call, and at most per operation in a row */
    unsigned int shm_copy_step;
    /* "auto" (CMA where the kernel allows it, found out by trying) or "none"; NULL: auto */
    char *shm_single_copy;
    /* "auto" (both sides copy if there is a core for each process), "none", "always"; NULL: auto */
    char *shm_cooperative;
    char *verbs_if_include; /* "device[:port],..."; NULL or "": all */
    char *verbs_if_exclude; /* the same, those not to be used; only one of the two */
    int verbs_gid_index;    /* of RoCE; -1: chosen */
    /* bytes; longest message that is sent as it is, and size of a buffer */
    unsigned int verbs_eager_limit;
    unsigned int verbs_window;    /* messages that one peer may have under way */
    unsigned int verbs_buffers;   /* receive buffers at most, and send buffers at most */
    char *verbs_tm;               /* "auto" or "none"; NULL: auto */
    unsigned int verbs_tm_tags;   /* receives on the device's list at most */
    unsigned int verbs_tm_min;    /* bytes; shorter receives are not listed */
    unsigned int verbs_timeout;   /* exponent of the device's time-out: 4.096 us * 2^n */
    char *tcp_if_include;         /* "interface,network/bits,..."; NULL or "": all */
    char *tcp_if_exclude;         /* the same, those not to be used */
    char *tcp_ports;              /* "first-last" to listen on; NULL or "": any */
    unsigned int tcp_eager_limit; /* bytes; longest message, and longest fragment */
    unsigned int tcp_timeout;     /* seconds until a host that does not answer has failed */
} fab_params_t;

FAB_EXPORT extern fab_params_t fab_params;

/*
 * The ports of a range "first-last", or of one port; both 0 for an empty one. False: it is none,
 * nothing is written.
 */
FAB_EXPORT bool fab_params_ports(const char *range, uint16_t *first, uint16_t *last);

/* Is this choice between "auto" and "none" none? */
FAB_EXPORT bool fab_params_is_none(const char *choice);

/*
 * Register all under component, in its register function; again after it was closed. OPAL error
 * codes.
 */
FAB_EXPORT int fab_params_register(const struct mca_base_component_2_1_0_t *component);

/*
 * Check the values against their ranges and against each other. OPAL_SUCCESS, or OPAL_ERR_BAD_PARAM
 * with a sentence that names the parameter, its value and what is allowed in buf.
 */
FAB_EXPORT int fab_params_check(char *buf, size_t size);

#endif /* FAB_PARAMS_H */
