/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory files of this process, which others open by its descriptors; and descriptors that the
 * program may have closed.
 */
#ifndef FAB_FILE_H
#define FAB_FILE_H

#include "opal_config.h" /* first: it defines _GNU_SOURCE */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/*
 * A descriptor of this library's.  A program may have closed it, and opened another file that has
 * its number: look before each use (fab_file_is_open()).
 */
typedef struct fab_file {
    int fd;       /* -1: none */
    uint64_t dev; /* with ino: the file, by fstat() */
    uint64_t ino;
} fab_file_t;

/* A memory file of size bytes; flags: MFD_*, besides those that all have. -1, and errno. */
int fab_file_memory(const char *name, unsigned flags, size_t size);

/*
 * Allocate memory for these bytes.  False, with errno, if there is none.  A signal ends fallocate()
 * and undoes what the call did.  Then smaller steps are tried, which are over before the next tick
 * of a profiler's timer.
 */
bool fab_file_back(int fd, off_t at, off_t len);

/* The descriptor is the file's, if it is one; -1 stays -1. */
void fab_file_open(fab_file_t *file, int fd);
bool fab_file_is_open(const fab_file_t *file);
void fab_file_close(fab_file_t *file);

#endif /* FAB_FILE_H */
