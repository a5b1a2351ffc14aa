#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# TEST: timeout=600 quick=no needs=ip,hpcc cores=2 short=turns
#
# HPC Challenge on two hosts with two ranks on each: over TCP alone, and with shared memory inside
# each host.
. "$TM_SRC/test/lib/script.sh"
. "$TM_SRC/test/hosts/hosts.bash"
# shellcheck source-path=SCRIPTDIR source=../apps/hpcc.bash
. "$TM_SRC/test/apps/hpcc.bash"

hosts_enter "$@"
hosts_up 2
hpcc_input
for providers in tcp ''; do
    rm -f hpccoutf.txt
    hosts_run 2 "OMPI_MCA_pml_tm_providers=$providers" "$(command -v hpcc)" ||
        fail "providers $providers"
    hpcc_check
done
