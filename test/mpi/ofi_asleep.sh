#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# TEST: timeout=100 device=tmdev needs=fi_info,libfabric-1.15
#
# A process that computes for longer than pml_tm_ofi_timeout before it answers by libfabric is
# waited for: nothing moves to the next provider.
. "$TM_SRC/test/lib/script.sh"
# shellcheck source-path=SCRIPTDIR source=../lib/ofi.sh
. "$TM_SRC/test/lib/ofi.sh"

mapfile -t offers < <(ofi_offers net tcp)
((${#offers[@]} > 0)) || skip "libfabric has none of its providers for TCP here"

for tm in none auto; do
    tm_mpirun 2 --mca pml_tm_providers self,ofi,verbs --mca pml_tm_ofi_provider "${offers[0]}" \
        --mca pml_tm_ofi_timeout 2 --mca pml_tm_verbs_tm "$tm" "$(tm_mpi_program asleep)" 5 0 ||
        fail "asleep, verbs_tm $tm"
    require 'errors=0'
done
