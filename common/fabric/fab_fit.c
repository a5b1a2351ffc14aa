/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The guard against another Open MPI than that of the build; see fab_fit.h.
 */
#include "fabric/fab_fit.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fabric/fab_help.h"

/* clang-format off */
const fab_help_topic_t fab_fit_help[] = {
    {"misfit",
     "The %s was built for another Open MPI than the one that runs, and is\n"
     "not used: it would read that one's memory at wrong places.\n"
     "\n"
     "  Built for:  Open MPI %s\n"
     "  Running:    Open MPI %s (%s)\n"
     "  Problem:    %s\n"
     "\n"
     "Build pml_tm again for the Open MPI that runs (configure --with-ompi=PREFIX),\n"
     "or start the program with the Open MPI that pml_tm was built for.\n"},
    /* by the other processes: the first may be ended before it says anything */
    {"misfit-short", "The %s, built for Open MPI %s, is not used with %s: %s.\n"},
    {NULL, NULL},
};
/* clang-format on */

/* Is it the same series: "5.0" of "5.0.7" and "5.0.10"? */
static bool is_same_series(const char *one, const char *other)
{
    const char *dot = strchr(one, '.');
    size_t len;

    dot = NULL != dot ? strchr(dot + 1, '.') : NULL;
    len = NULL != dot ? (size_t) (dot - one) + 1 : strlen(one);
    return 0 == strncmp(one, other, len);
}

const char *fab_fit_why_not(const fab_fit_t *fit, char *why, size_t size)
{
    if (!is_same_series(fit->built, fit->runs)) {
        snprintf(why, size, "they are of different series");
        return why;
    }
    for (size_t i = 0; i < fit->num; i++) {
        const fab_fit_class_t *class = &fit->classes[i];
        if (*class->runs != class->built) {
            snprintf(why, size, "%s has %zu bytes; it had %zu in the build", class->name,
                     *class->runs, class->built);
            return why;
        }
    }
    return NULL;
}

bool fab_fit_check(const fab_fit_t *fit)
{
    /* the launcher's variable: nothing of Open MPI may be read to find out who is the first */
    const char *rank = getenv("OMPI_COMM_WORLD_LOCAL_RANK");
    char why[256];
    Dl_info info = {.dli_fname = NULL};

    if (NULL == fab_fit_why_not(fit, why, sizeof(why))) {
        return true;
    }
    if (NULL == rank || 0 == strcmp("0", rank)) {
        (void) dladdr(fit->runs, &info);
        fab_help_show(fab_fit_help, "misfit", fit->component, fit->built, fit->runs,
                      NULL != info.dli_fname ? info.dli_fname : "unknown library", why);
    } else {
        fab_help_show(fab_fit_help, "misfit-short", fit->component, fit->built, fit->runs, why);
    }
    return false;
}
