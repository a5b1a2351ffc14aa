/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Texts for the user.  They are part of the components: a process that has no descriptor left, or
 * called chroot(), can show them, and every release of Open MPI does.
 */
#ifndef FAB_HELP_H
#define FAB_HELP_H

#include <stdbool.h>

#include "fabric/fab_export.h"

/* A table of these ends with {NULL, NULL}. */
typedef struct fab_help_topic {
    const char *name;
    const char *text; /* a format of printf(); lines, each with its end */
} fab_help_topic_t;

/*
 * Print a topic on this process's standard error, between two lines.  Takes no memory: the message
 * may be that there is none.  opal_show_help() is not used: its path to mpirun loses messages,
 * about half of them in Open MPI 4.1.4 with PMIx 4.2.
 */
FAB_EXPORT void fab_help_show(const fab_help_topic_t *topics, const char *name, ...);

struct mca_base_component_2_1_0_t;

/*
 * Does this process tell the user what is wrong here, and perhaps in others of its host?  Only the
 * lowest rank of those does.  The process asks each lower rank of its host for the address of the
 * component, which a rank publishes where all is well.  The question waits until that rank has
 * initialized its components; if what is wrong ends the job (ends_job), it waits until then.
 * Lower ranks never ask higher ones.
 */
bool fab_help_is_first(const struct mca_base_component_2_1_0_t *component, bool ends_job);

#endif /* FAB_HELP_H */
