/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Waits and events in words.
 */
#ifndef LOOK_TEXT_H
#define LOOK_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "fabric/fab_look_wire.h"

enum { LOOK_TEXT_SIZE = 200 };

/* Rank in a process's name. */
static inline uint32_t look_rank(uint64_t name)
{
    return (uint32_t) name;
}

/* What the process waits, or last waited, for: "receive from rank 3, tag 12, up to 8 bytes, row" */
void look_text_wait(char buf[LOOK_TEXT_SIZE], const fab_look_status_t *status);

/* What happened, without its time, to the process with this name. */
void look_text_event(char buf[LOOK_TEXT_SIZE], const fab_event_t *event, uint64_t name);

/* An argument that is a whole number, and nothing else. */
bool look_text_number(const char *text, size_t *number);

#endif /* LOOK_TEXT_H */
