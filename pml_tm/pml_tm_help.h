/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Texts for the user.
 */
#ifndef PML_TM_HELP_H
#define PML_TM_HELP_H

#include "fabric/fab_help.h"

extern const fab_help_topic_t mca_pml_tm_help[];

#endif /* PML_TM_HELP_H */
