#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# TEST: timeout=120 device=tmdev
#
# tm_info where there is an RDMA device (test/tmdev), and with a provider of libfabric that is
# software: the page, what it measures, and what a job would use. Open MPI's cache of registrations,
# which these have in a job, is not there.
. "$TM_SRC/test/lib/script.sh"

# info ARGUMENT...: what it says is then in the file said.
info()
{
    "$TM_PREFIX/bin/tm_info" "$@" >said 2>&1 || fail "tm_info $* ended with $?: $(cat said)"
    cat said
}

number='[0-9]+\.[0-9]+'
measured="+$number us +$number M/s +$number GB/s, +[0-9]+ at once +$number GB/s"

info
grep -qE '^any host +verbs  0 to [0-9]+ ' said || fail 'verbs is not used'
info --layout 2x2
grep -qE '^verbs +memory ' said || fail 'no memory of verbs'
info --measure
grep -qE "^verbs $measured" said || fail 'verbs was not measured'
# libfabric's own provider of verbs is not for the device in software
unset SYSFS_PATH LD_LIBRARY_PATH
# shellcheck source-path=SCRIPTDIR source=../lib/ofi.sh
. "$TM_SRC/test/lib/ofi.sh"
OMPI_MCA_pml_tm_ofi_provider=$(ofi_offers tcp net | sed -n 1p) info --measure
grep -qE "^ofi $measured" said || fail 'ofi was not measured'
