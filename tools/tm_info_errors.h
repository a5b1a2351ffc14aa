/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The messages of pml tm.
 */
#ifndef TM_INFO_ERRORS_H
#define TM_INFO_ERRORS_H

/* Print those with these words, in whatever case; "": all.  Returns how many. */
int tm_info_show_errors(const char *words);

#endif /* TM_INFO_ERRORS_H */
