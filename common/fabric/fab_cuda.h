/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * An Open MPI 4.1 that was built with CUDA knows memory of a device from the host's only where a
 * component has had it look for CUDA's library: of its own the BTLs tcp, smcuda and openib do, and
 * pml ucx.  So the components here do, too: a job need not have one of those.
 */
#ifndef FAB_CUDA_H
#define FAB_CUDA_H

#include <stdbool.h>

#include "fabric/fab_export.h"

/*
 * Have it look, once in a process and before the first message: Open MPI's convertor decides then
 * whether it asks CUDA.  Nothing is to be done where the user turned the support off, nor with
 * another Open MPI.  CUDA stays in use until the process ends.
 *
 * False: it cannot look, so memory of a device would be taken for the host's; *why says what is
 * missing.
 */
FAB_EXPORT bool fab_cuda_open(const char **why);

#endif /* FAB_CUDA_H */
