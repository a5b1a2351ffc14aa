/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The parts of tm_info, a file each.
 */
#ifndef TM_INFO_H
#define TM_INFO_H

/* ---- tm_info_errors.c: the messages of pml tm ----------------------------- */

/* Print those with these words, in whatever case; "": all.  Returns how many. */
int tm_info_show_errors(const char *words);

/* ---- tm_info_limits.c: limits that pml tm meets in a job ------------------ */

enum { TM_INFO_LIMITS = 6 };

typedef struct tm_info_limit {
    const char *name;
    char value[64];
    const char *advice; /* what it will cost, and what to do; NULL: nothing to say */
} tm_info_limit_t;

void tm_info_find_limits(tm_info_limit_t limits[TM_INFO_LIMITS]);

#endif /* TM_INFO_H */
