/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tm_info --layout: what a job of a given size takes.
 */
#ifndef TM_INFO_LAYOUT_H
#define TM_INFO_LAYOUT_H

/* job: "8x64", hosts and ranks on each.  Returns the exit status: 2 if it is not of that form. */
int tm_info_layout(const char *job);

#endif /* TM_INFO_LAYOUT_H */
