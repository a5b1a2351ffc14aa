/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * CUDA in Open MPI 4.1; see fab_cuda.h.
 */
#include "fabric/fab_cuda.h"

#include "opal_config.h"

#if 4 == OPAL_MAJOR_VERSION && OPAL_CUDA_SUPPORT

#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>

#include "opal/mca/installdirs/installdirs.h"
#include "opal/runtime/opal_params.h"

/*
 * The function is in a library that Open MPI installs, unless its components are a part of
 * libopen-pal.  Not linked: perhaps nothing else loads that library, and the loader would not look
 * for it where Open MPI is.
 */
static int (*find_look(void))(void)
{
    int (*look)(void);
    char path[PATH_MAX];
    void *library;

    snprintf(path, sizeof(path), "%s/libmca_common_cuda.so.40", opal_install_dirs.libdir);
    library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    *(void **) &look = dlsym(NULL != library ? library : RTLD_DEFAULT,
                             "mca_common_cuda_stage_one_init");
    return look;
}

bool fab_cuda_open(const char **why)
{
    static bool has_looked;
    int (*look)(void);

    if (has_looked || !opal_cuda_support) {
        return true;
    }
    look = find_look();
    if (NULL == look) {
        *why = "Open MPI's libmca_common_cuda.so.40 is missing, without which memory of a GPU "
               "would be taken for the host's (mpi_cuda_support=0: none is used)";
        return false;
    }
    (void) look(); /* without CUDA's library it has turned the support off, and has said so */
    has_looked = true;
    return true;
}

#else

bool fab_cuda_open(const char **why)
{
    (void) why;
    return true;
}

#endif
