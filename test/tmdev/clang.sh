#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# TEST: timeout=120 needs=clang short=tmdev
# The verbs device compiles without warnings with clang, too.
. "$TM_SRC/test/tmdev/tmdev.bash"

TM_CC=clang
out=$(tm_build_tmdev tmdev-clang)
for test in "${tmdev_tests[@]}"; do
    tm_build_tmdev_test "$out" "$test"
done
"$out/test_tm" phases || fail "built by clang"
