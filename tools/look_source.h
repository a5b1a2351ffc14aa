/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a process shows (fab_look_wire.h), from where it can be had: the process itself, or a core
 * dump.
 */
#ifndef LOOK_SOURCE_H
#define LOOK_SOURCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "fabric/fab_look_read.h"

/* A piece of memory in a core dump. */
typedef struct look_piece {
    uint64_t address;
    uint64_t size;
    uint64_t offset; /* in the file */
} look_piece_t;

typedef struct look_source {
    fab_look_place_t place;
    fab_look_t head;
    uint32_t pid; /* on this host; 0: it is no process */
    look_piece_t *pieces;
    size_t num_pieces;
} look_source_t;

/* Open it: a pid, or the name of a core dump.  NULL, or a sentence why not. */
const char *look_source_open(look_source_t *source, const char *name);
void look_source_close(look_source_t *source);

/* Read memory of the process. False: it cannot be had. */
bool look_source_memory(const look_source_t *source, uint64_t address, void *buf, size_t size);

#endif /* LOOK_SOURCE_H */
