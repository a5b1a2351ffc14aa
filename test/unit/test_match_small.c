/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The tests of the matcher with a short list that is soon full and soon at its end: receives come
 * and go between list and index all the time.
 *
 * TEST: sources=common/match/match.c,test/unit/match_check.c,test/unit/match_ref.c cflags=-DFAB_MATCH_SHORT_LEN=8 timeout=120 ldflags=-Wl,--wrap=malloc
 */
#include "test_match.c"
