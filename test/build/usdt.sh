#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# TEST: timeout=60 quick=yes needs=readelf,sys/sdt.h
#
# The library has the probe for bpftrace and perf, with its four arguments, if <sys/sdt.h> was there
# when it was built.
. "$TM_SRC/test/lib/script.sh"

library=$(find "$TM_PREFIX" -name 'libmca_common_tm-*.so')
readelf -n "$library" >notes
grep -A 3 'Provider: pml_tm' notes | tee found
grep -q 'Name: event' found || fail "there is no probe pml_tm:event"
arguments=$(sed -nE 's/^ *Arguments: //p' found)
(($(wc -w <<<"$arguments") == 4)) || fail "its arguments are $arguments"
