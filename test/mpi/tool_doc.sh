#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# TEST: timeout=60 quick=no
#
# The program in doc/tuning.md that reads a counter compiles, and counts.
. "$TM_SRC/test/lib/script.sh"
awk '/^```c$/ { on = 1; next } /^```$/ { on = 0 } on' "$TM_SRC/doc/tuning.md" >counter.c
mpicc -Wall -Werror -o counter counter.c || fail 'the program of doc/tuning.md does not compile'
tm_mpirun 3 "$TM_WORK/counter" || fail "exit status $?"
require 'messages sent: '
forbid 'messages sent: 0'
