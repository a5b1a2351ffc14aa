/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Descriptors that the program may have closed, and memory for the bytes of a segment's file.
 */
#ifndef FAB_SHM_FILE_H
#define FAB_SHM_FILE_H

#include <sys/types.h>

#include "shm/shm_types.h"

/* The descriptor is the file's, if it is one; -1 stays -1. */
void fab_shm_file_open(fab_shm_file_t *file, int fd);
bool fab_shm_file_is_open(const fab_shm_file_t *file);
void fab_shm_file_close(fab_shm_file_t *file);

/*
 * Allocate memory for these bytes.  False, with errno, if there is none.  A signal ends fallocate()
 * and undoes what the call did.  Then smaller steps are tried, which are over before the next tick
 * of a profiler's timer.
 */
bool fab_shm_back(int fd, off_t at, off_t len);

/*
 * Map a segment of size bytes, of which the first may be accessed at once and the others after
 * mprotect().  Without memory for it: most of a segment is never used.  In a program that called
 * mlockall(MCL_FUTURE) a new mapping gets memory for all of it that is accessible, so the first
 * become accessible only after it was unlocked; mlockall(MCL_CURRENT) leaves the others alone.
 * Core dumps leave out all of it.  MAP_FAILED, and errno.
 */
void *fab_shm_file_map(int fd, size_t size, size_t first);

#endif /* FAB_SHM_FILE_H */
