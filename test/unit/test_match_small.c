/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The tests of the matcher with a short list that is soon full and soon at its end, and few
 * messages unfiled: receives and messages come and go between these and the index all the time.
 *
 * TEST: sources=common/match/match.c,test/unit/match_check.c,test/unit/match_ref.c cflags="-DFAB_MATCH_SHORT_LEN=8 -DFAB_MATCH_UNFILED_MAX=4" timeout=120 quick=no ldflags=-Wl,--wrap=malloc
 */
#include "test_match.c"
