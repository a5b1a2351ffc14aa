#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# TEST: timeout=300 quick=no short=tmdev
# The same with the thread sanitizer: the device thread against clients.
. "$TM_SRC/test/tmdev/tmdev.bash"

run_tests tsan tmdev-tsan -O1 -fno-omit-frame-pointer -fsanitize=thread -Wno-tsan
