/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Texts for the user, which tm_info has, too.
 */
#ifndef BTL_FABRIC_HELP_H
#define BTL_FABRIC_HELP_H

#include "fabric/fab_help.h"

extern const fab_help_topic_t mca_btl_fabric_help[];

#endif /* BTL_FABRIC_HELP_H */
