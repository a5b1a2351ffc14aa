#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# TEST: timeout=300 quick=no short=tmdev
# The same with the address and undefined-behaviour sanitizers.
. "$TM_SRC/test/tmdev/tmdev.bash"

run_tests asan tmdev-asan -O1 -fno-omit-frame-pointer -fsanitize=address,undefined \
    -fno-sanitize-recover=all
