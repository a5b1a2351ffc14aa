#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# TEST: timeout=120 needs=shellcheck depends=.ci,autogen.sh,quickstart,packaging/headers,packaging/into_openmpi,test/all,test/coverage,test/first_day,test/release,test/run,test/lib,test/vm,test/*/*.sh,test/*/*.bash,test/bench/*[elnst]
#
# All scripts pass shellcheck, and no pipe ends before all is read. shellcheck reads with each
# script what that sources, and takes its time: a short run has a part of them (tm_due).
. "$TM_SRC/test/lib/script.sh"
. "$TM_SRC/test/lib/compile.sh"
. "$TM_SRC/test/lib/due.sh"

cd "$TM_SRC"
mapfile -t scripts < <(find autogen.sh quickstart packaging/headers packaging/into_openmpi .ci \
    test -type f -exec grep -lE '^#!.*sh$|^# shellcheck shell=' {} + | LC_ALL=C sort)
((${#scripts[@]} > 100)) || fail "found only ${#scripts[@]} scripts"

# No script may change without this test.
tm_parse_first test/build/scripts.sh
tm_depends "${tm_key[depends]}" >"$TM_WORK/depends"
printf '%s\n' "${scripts[@]}" | LC_ALL=C comm -23 - "$TM_WORK/depends" >"$TM_WORK/unknown"
[[ ! -s $TM_WORK/unknown ]] || fail "not in depends=: $(paste -sd ' ' "$TM_WORK/unknown")"

# Under pipefail a pipe fails if its last command ends before the first one has written all.
! grep -nE '[^|]\| (head|grep -[a-zA-Z]*q)' "${scripts[@]}" ||
    fail "a pipe that ends early: sed -n 1p and grep >/dev/null read all"

mapfile -t due < <(tm_due "${scripts[@]}")
shellcheck -x "${due[@]}" || fail "shellcheck"
echo "shellcheck: ${#due[@]} of ${#scripts[@]} scripts"
