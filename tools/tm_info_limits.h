/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Limits of this host and process that pml tm meets in a job.
 */
#ifndef TM_INFO_LIMITS_H
#define TM_INFO_LIMITS_H

enum { TM_INFO_LIMITS = 6 };

typedef struct tm_info_limit {
    const char *name;
    char value[64];
    const char *advice; /* what it will cost, and what to do; NULL: nothing to say */
} tm_info_limit_t;

void tm_info_find_limits(tm_info_limit_t limits[TM_INFO_LIMITS]);

#endif /* TM_INFO_LIMITS_H */
