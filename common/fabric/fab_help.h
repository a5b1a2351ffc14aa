/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Texts for the user, from the help files of the components.
 */
#ifndef FAB_HELP_H
#define FAB_HELP_H

#include <stdarg.h>

#include "fabric/fab.h"

/*
 * Look for help files in dir, where they were installed, and, if the installation was moved, in
 * <folder of the DSO that symbol is in>/../../share/openmpi.
 */
FAB_EXPORT void fab_help_add_dir(const char *dir, const void *symbol);

/*
 * Print a topic of a help file on this process's standard error. opal_show_help() is not used: its
 * path to mpirun loses messages, about half of them in Open MPI 4.1.4 with PMIx 4.2.
 */
FAB_EXPORT void fab_help_show(const char *file, const char *topic, va_list args);

#endif /* FAB_HELP_H */
