#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# TEST: timeout=120 device=tmdev
#
# tm_info where there is an RDMA device (test/tmdev), and with a provider of libfabric that is
# software: what a job would use. Open MPI's cache of registrations, which these have in a job, is
# not there.
. "$TM_SRC/test/lib/script.sh"

# What it says is then in the file said.
info()
{
    "$TM_PREFIX/bin/tm_info" >said 2>&1 || fail "tm_info ended with $?: $(cat said)"
    cat said
}

info
grep -qE '^any host +verbs  0 to [0-9]+ ' said || fail 'verbs is not used'
# libfabric's own provider of verbs is not for the device in software
unset SYSFS_PATH LD_LIBRARY_PATH
# shellcheck source-path=SCRIPTDIR source=../lib/ofi.sh
. "$TM_SRC/test/lib/ofi.sh"
OMPI_MCA_pml_tm_ofi_provider=$(ofi_offers tcp net | sed -n 1p) info
grep -qE '^any host +ofi +0 to [0-9]+ ' said || fail 'ofi is not used'
