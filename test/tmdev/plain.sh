#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# TEST: timeout=300 short=tmdev
# The unit tests of the verbs device, optimized.
. "$TM_SRC/test/tmdev/tmdev.bash"

run_tests plain tmdev -O2
