/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Parameters of the fabric and of its providers.  Their names are those of pml tm
 * (pml_tm_shm_ring_size), also where btl fabric alone uses the fabric.
 * What each does, and its range, is in the tables: fab_params.c, and <provider>_params.c.
 */
#ifndef FAB_PARAMS_H
#define FAB_PARAMS_H

#include "fabric/fab.h"
#include "fabric/fab_param.h"

/* Strings may be NULL, which is the same as empty. */
typedef struct fab_params {
    int verbose;
    char *providers;
    int eager_limit; /* bytes; -1: PML_TM_EAGER_LIMIT, and less where a provider takes less */

    unsigned int shm_ring_size; /* bytes */
    unsigned int shm_max_peers; /* rings in one process's segment */
    unsigned int shm_copy_step; /* bytes, also of one operation in a row */
    char *shm_single_copy;
    char *shm_cooperative;

    char *ofi_provider; /* names in libfabric */
    char *ofi_if_include;
    char *ofi_if_exclude;
    unsigned int ofi_timeout; /* seconds */

    char *verbs_if_include;
    char *verbs_if_exclude;
    char *verbs_networks;
    int verbs_gid_index;
    unsigned int verbs_buffers; /* receive buffers, and as many send buffers */
    unsigned int verbs_max_connections;
    int verbs_traffic_class;
    unsigned int verbs_sl;
    unsigned int verbs_pkey;
    unsigned int verbs_mtu;     /* bytes */
    unsigned int verbs_timeout; /* exponent n of 4.096 us * 2^n */
    char *verbs_tm;
    unsigned int verbs_tm_min; /* bytes */

    char *tcp_if_include;
    char *tcp_if_exclude;
    char *tcp_ports;
    unsigned int tcp_timeout; /* seconds */
} fab_params_t;

/* Zero until fab_params_register() or fab_params_reset(). */
FAB_EXPORT extern fab_params_t fab_params;

/*
 * Constants that no user has a reason to change: X(name, value).  Tests change them, or set
 * PML_TM_TEST_name in the environment.
 */
#define FAB_LIMITS(X)                                                                              \
    /* bytes of a message's payload, by provider; more if eager_limit is more */                   \
    X(shm_eager, 16384)                                                                            \
    X(ofi_eager, 8192)                                                                             \
    X(verbs_eager, 8192)                                                                           \
    X(tcp_eager, 65536)                                                                            \
    /* seconds that a first message waits for memory, or until the user is told why it waits */    \
    X(shm_connect_timeout, 30)                                                                     \
    /* messages that one peer may have in flight to this process before it waits for credits */    \
    X(ofi_window, 256)                                                                             \
    X(verbs_window, 64)                                                                            \
    /* receive buffers of ofi in this process, of FAB_OFI_RECV_BYTES each */                       \
    X(ofi_buffers, 8)                                                                              \
    /* ports of this host that verbs uses in a process, and those that share a long read */        \
    X(verbs_ports, 4)                                                                              \
    X(verbs_rails, 4)                                                                              \
    /* most receives that a device lists: each takes one of verbs' buffers */                      \
    X(verbs_tm_tags, 1024)                                                                         \
    /* TCP connections to a peer, with the first, each in a network of its own */                  \
    X(tcp_links, 8)

#define FAB_LIMIT(name, value) unsigned int name;
typedef struct fab_limits {
    FAB_LIMITS(FAB_LIMIT)
} fab_limits_t;
#undef FAB_LIMIT

FAB_EXPORT extern fab_limits_t fab_limits;

/* A number that a test sets, as PML_TM_TEST_name in the environment. */
FAB_EXPORT unsigned int fab_set_by_test(const char *name, unsigned int standard);

/* Longest payload that a provider takes: its constant, or eager_limit if that is more. */
static inline uint32_t fab_params_eager(uint32_t constant, uint32_t max)
{
    const uint32_t wanted = fab_params.eager_limit > (int) constant
                                ? (uint32_t) fab_params.eager_limit
                                : constant;

    return wanted < max ? wanted : max;
}

/* The fabric's own table and those of the providers, built or not. */
FAB_EXPORT extern const fab_param_table_t *const fab_params_tables[];
FAB_EXPORT extern const size_t fab_params_num_tables;
extern const fab_param_table_t fab_shm_params;
extern const fab_param_table_t fab_ofi_params;
extern const fab_param_table_t fab_verbs_params;
extern const fab_param_table_t fab_tcp_params;

/*
 * Register all, in a component's register function, and again after it was closed.  The storage is
 * fab_params in the common library, which stays loaded (-z nodelete) as long as the variables
 * exist.  OPAL error codes.
 */
FAB_EXPORT int fab_params_register(void);

/* Set all to their defaults, and fab_limits, without Open MPI: for unit tests. */
void fab_params_reset(void);

/*
 * Check the values against their ranges and against each other. OPAL_SUCCESS, or OPAL_ERR_BAD_PARAM
 * with a sentence that names the parameter, its value and what is allowed in buf.
 */
FAB_EXPORT int fab_params_check(char *buf, size_t size);

/*
 * Names that the user gives, which begin with prefix and no parameter has, in buf, with the nearest
 * of own (NULL: none) or of the fabric's behind each.  Returns how many.  is_known: is there such a
 * variable?
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
