#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# TEST: timeout=300 quick=no short=minutes cores=1
#
# What test/vm/run says when all does not go well: the command's exit status, a command that does
# not end, a machine that crashes.
# shellcheck source-path=SCRIPTDIR source=vm.bash
. "$TM_SRC/test/vm/vm.bash"

# ends STATUS OPTION... -- COMMAND...: test/vm/run must end with this status.
ends()
{
    local wanted=$1 status=0
    shift
    "$TM_SRC/test/vm/run" "$@" >out 2>err || status=$?
    ((status != 77)) || skip_without vm "$(tail -n 1 err)"
    cat out
    cat err >&2
    ((status == wanted)) || fail "exit status $status, not $wanted: test/vm/run $*"
}

# The first run of all fetches the kernel, and says so.
ends 0 -- true
# shellcheck disable=SC2016 # expanded in the machine
ends 3 -- bash -c 'echo out; echo err >&2; exit 3'
[[ $(<out) == out && $(<err) == err ]] ||
    fail 'standard output and error are not what the command wrote'
ends 124 --timeout $((20 * ${TM_TEST_TIMEOUT_SCALE:-1})) -- sleep 1000
require 'switched off (--timeout)' err
ends 125 -- bash -c 'echo c >/proc/sysrq-trigger'
require 'a machine ended before the command did' err
