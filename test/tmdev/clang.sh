#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# TEST: timeout=120 needs=clang
# The verbs device compiles without warnings with clang, too.
. "$TM_SRC/test/tmdev/tmdev.bash"

TM_CC=clang
out=$(tm_build_tmdev tmdev-clang)
tm_build_tmdev_test "$out" test_verbs
tm_build_tmdev_test "$out" test_tm
"$out/test_tm" eager rendezvous || fail "built by clang"
