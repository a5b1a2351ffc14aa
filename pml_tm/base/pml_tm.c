/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The state that all files share, and what any of them may call.
 */
#include "pml_tm/base/pml_tm.h"

#include "fabric/fab_counters.h"

mca_pml_tm_t mca_pml_tm = {.output = -1};

void mca_pml_tm_bad_message(fab_peer_t *peer, const char *what)
{
    char why[200];

    fab_counters.bad_messages++;
    snprintf(why, sizeof(why), "it sent a message that makes no sense (%s)", what);
    fab_peer_fail(peer, OMPI_ERR_BAD_PARAM, why);
}
