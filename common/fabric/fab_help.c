/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Texts for the user; see fab_help.h.
 */
#include "fabric/fab_help.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "opal/util/show_help.h"

/*
 * Bytes.  Memory that is given back before a text is read: the message may be that there is none.
 * Open MPI's reader takes 85 KiB, and without it ends the process.
 */
enum { RESERVE = 128 << 10 };

static _Atomic(void *) reserve;

void fab_help_add_dir(const char *dir, const void *symbol)
{
    char path[PATH_MAX];
    Dl_info info;
    char *slash;

    free(atomic_exchange(&reserve, malloc(RESERVE)));
    opal_show_help_add_dir(dir);
    if (0 == dladdr(symbol, &info) || strlen(info.dli_fname) >= sizeof(path) - 32) {
        return;
    }
    strcpy(path, info.dli_fname);
    slash = strrchr(path, '/');
    if (NULL != slash) {
        strcpy(slash, "/../../share/openmpi");
        opal_show_help_add_dir(path);
    }
}

void fab_help_show(const char *file, const char *topic, va_list args)
{
    char *text;

    free(atomic_exchange(&reserve, NULL));
    text = opal_show_help_vstring(file, topic, true, args);
    if (NULL != text) {
        fputs(text, stderr);
        fflush(stderr);
        free(text);
    }
}
