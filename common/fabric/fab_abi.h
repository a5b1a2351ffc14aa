/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The ABI number tells whether two objects that share the fabric were compiled from the same
 * headers. The library's name contains the release, so only builds of one release can be mixed up.
 */
#ifndef FAB_ABI_H
#define FAB_ABI_H

#include "fabric/fab.h"
#include "fabric/fab_counters.h"
#include "fabric/fab_params.h"
#include "fabric/fab_provider.h"
#include "fabric/fab_reg.h"
#include "fabric/fab_spares.h"
#include "fabric/fab_tm.h"

/* Raise it when the meaning of something shared changes, but no size. */
enum { FAB_ABI_NUMBER = 4 };

/* A hash of the sizes of all shared structures; FAB_SHM_ABI is that of those in shm_inl.h. */
#define FAB_ABI_SIZES                                                                              \
    (3 * sizeof(fab_t) + 5 * sizeof(fab_config_t) + 7 * sizeof(fab_peer_t) +                       \
     11 * sizeof(fab_ops_t) + 13 * sizeof(fab_rma_t) + 17 * sizeof(fab_item_t) +                   \
     19 * sizeof(fab_region_t) + 23 * sizeof(fab_counters_t) + 29 * sizeof(fab_params_t) +         \
     31 * sizeof(fab_provider_t) + 37 * sizeof(fab_tm_user_t) + 41 * sizeof(fab_tm_recv_t) +       \
     71 * sizeof(fab_out_t) + 73 * sizeof(fab_spares_t) + 79 * sizeof(fab_param_t) +               \
     43 * sizeof(fab_tm_cmd_t) + 47 * sizeof(fab_tm_match_t) + 53 * sizeof(fab_tm_device_t) +      \
     59 * sizeof(fab_reg_how_t) + 61 * sizeof(fab_reg_t) + 67 * sizeof(fab_reg_ops_t))

#define FAB_ABI ((uint64_t) FAB_ABI_NUMBER << 32 | FAB_ABI_SIZES)

static inline int fab_open(const fab_config_t *config, fab_t **fab, const char **why)
{
    return fab_open_abi(FAB_ABI, config, fab, why);
}

/* What an object of its own exports: a provider. */
typedef struct fab_object {
    uint64_t abi; /* first, and always of this size */
    /* The part of Open MPI that the provider uses. */
    void (*use_ompi)(void);
    const fab_provider_t *provider;
} fab_object_t;

#endif /* FAB_ABI_H */
