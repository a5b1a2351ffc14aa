/* SPDX-License-Identifier: BSD-3-Clause */
/* The invariants of a matching domain, for the tests. */
#ifndef TM_MATCH_CHECK_H
#define TM_MATCH_CHECK_H

#include "match/match_inl.h"

/*
 * Walk all of the domain; fail the running cmocka test where something is not as match_types.h and
 * match.c say.
 */
void match_check_dom(const fab_match_dom_t *dom);

#endif /* TM_MATCH_CHECK_H */
