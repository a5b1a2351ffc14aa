/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What btl fabric tells the user, by topic (fab_help.h).
 */
#include "btl_fabric_help.h"

#include <stddef.h>

/* clang-format off */
const fab_help_topic_t mca_btl_fabric_help[] = {
    {"bad-value",
     "The BTL \"fabric\" is not used because one of its parameters has an invalid\n"
     "value.\n"
     "\n"
     "  Host:      %s\n"
     "  Problem:   %s\n"
     "\n"
     "\"ompi_info --param pml tm --level 9\" explains those that begin with pml_tm_,\n"
     "\"ompi_info --param btl fabric --level 9\" the others.\n"},
    {"unknown-name",
     "A parameter was given that the BTL \"fabric\" does not have. It has no effect.\n"
     "\n"
     "  Host:      %s\n"
     "  Given:     %s\n"
     "\n"
     "\"ompi_info --param btl fabric --level 9\" lists all parameters.\n"},
    {NULL, NULL},
};
/* clang-format on */
