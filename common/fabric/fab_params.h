/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Parameters of the fabric and of its providers.  Each component registers them under its own name
 * (pml_tm_shm_ring_size, btl_fabric_shm_ring_size); a value set under either name holds for all.
 * What each does, and its range, is in the tables: fab_params.c, and <provider>_params.c.
 */
#ifndef FAB_PARAMS_H
#define FAB_PARAMS_H

#include "fabric/fab.h"
#include "fabric/fab_param.h"

/* Strings may be NULL, which is the same as empty. */
typedef struct fab_params {
    char prefix[160]; /* of their names in messages: "pml_tm_"; empty until registered */

    char *providers;

    unsigned int shm_ring_size;       /* bytes */
    unsigned int shm_max_peers;       /* rings in one process's segment */
    unsigned int shm_connect_timeout; /* seconds */
    unsigned int shm_eager_limit;     /* bytes */
    unsigned int shm_copy_step;       /* bytes, also of one operation in a row */
    char *shm_single_copy;
    char *shm_cooperative;

    char *ofi_provider; /* names in libfabric */
    char *ofi_if_include;
    char *ofi_if_exclude;
    unsigned int ofi_eager_limit; /* bytes */
    unsigned int ofi_window;      /* messages */
    unsigned int ofi_buffers;     /* of FAB_OFI_RECV_BYTES each */
    unsigned int ofi_timeout;     /* seconds */

    char *verbs_if_include;
    char *verbs_if_exclude;
    char *verbs_networks;
    int verbs_gid_index;
    unsigned int verbs_ports;
    unsigned int verbs_rails;
    unsigned int verbs_eager_limit; /* bytes; also the size of a buffer */
    unsigned int verbs_window;      /* messages */
    unsigned int verbs_buffers;     /* receive buffers, and as many send buffers */
    unsigned int verbs_max_connections;
    int verbs_traffic_class;
    unsigned int verbs_sl;
    unsigned int verbs_pkey;
    unsigned int verbs_mtu;     /* bytes */
    unsigned int verbs_timeout; /* exponent n of 4.096 us * 2^n */
    char *verbs_tm;
    unsigned int verbs_tm_tags; /* receives */
    unsigned int verbs_tm_min;  /* bytes */

    char *tcp_if_include;
    char *tcp_if_exclude;
    char *tcp_ports;
    unsigned int tcp_eager_limit; /* bytes; also of a fragment */
    unsigned int tcp_timeout;     /* seconds */
    unsigned int tcp_links;       /* connections, with the first */
    unsigned int tcp_stripe_min;  /* bytes of a fragment */
} fab_params_t;

/* Zero until fab_params_register() or fab_params_reset(). */
FAB_EXPORT extern fab_params_t fab_params;

/* The fabric's own table and those of the providers, built or not. */
FAB_EXPORT extern const fab_param_table_t *const fab_params_tables[];
FAB_EXPORT extern const size_t fab_params_num_tables;
extern const fab_param_table_t fab_shm_params;
extern const fab_param_table_t fab_ofi_params;
extern const fab_param_table_t fab_verbs_params;
extern const fab_param_table_t fab_tcp_params;

/*
 * Register all for a component, in its register function, and again after it was closed.  The
 * storage is fab_params in the common library, which stays loaded (-z nodelete) as long as the
 * variables exist.  OPAL error codes.
 */
FAB_EXPORT int fab_params_register(const struct mca_base_component_2_1_0_t *component);

/* Set all to their defaults, without Open MPI: for unit tests. */
void fab_params_reset(void);

/*
 * Check the values against their ranges and against each other. OPAL_SUCCESS, or OPAL_ERR_BAD_PARAM
 * with a sentence that names the parameter, its value and what is allowed in buf.
 */
FAB_EXPORT int fab_params_check(char *buf, size_t size);

/*
 * Names that the user gives, which begin with prefix and no parameter has, in buf, with the nearest
 * of own or of the fabric's behind each. Returns how many. is_known: is there such a variable?
 */
FAB_EXPORT unsigned fab_params_unknown(const char *prefix, const fab_param_table_t *own,
                                       bool (*is_known)(const char *name), char *buf, size_t size);

/* Is there an MCA variable of this full name? */
FAB_EXPORT bool fab_params_is_known(const char *name);

/* Does the user ask for pml tm ("--mca pml tm")? *is_only: nothing else is allowed. */
FAB_EXPORT bool fab_params_pml_is_tm(bool *is_only);

/* Is this value, of a parameter with the words "auto" and "none", "none"? */
FAB_EXPORT bool fab_params_is_none(const char *choice);

/*
 * Parse a range of ports "first-last", or one port; both results are 0 for an empty string.  False:
 * it is malformed, and nothing is written.
 */
FAB_EXPORT bool fab_params_ports(const char *range, uint16_t *first, uint16_t *last);

#endif /* FAB_PARAMS_H */
