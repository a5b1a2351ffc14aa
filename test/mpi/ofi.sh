#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# TEST: timeout=300 needs=fi_info,libfabric-1.15
#
# MPI programs with all processes of the host communicating by libfabric, over one of its providers
# in software.
. "$TM_SRC/test/lib/script.sh"
# shellcheck source-path=SCRIPTDIR source=../lib/ofi.sh
. "$TM_SRC/test/lib/ofi.sh"

mapfile -t offers < <(ofi_offers tcp net sockets)
((${#offers[@]} > 0)) || skip "libfabric has none of its providers for TCP here"
provider=${offers[0]}

tm_mpirun 2 --mca pml_tm_providers ofi --mca pml_tm_ofi_provider "$provider" \
    --mca pml_tm_verbose 10 "$(tm_mpi_program hello)" || fail hello
require " by $provider ("
# Without a device nothing loads it.
tm_mpirun 2 --mca pml_tm_verbose 10 "$(tm_mpi_program hello)" || fail hello
require 'This host has no Slingshot, EFA or Omni-Path device'
over "$provider" 2 basic
over "$provider" 2 ordering
over "$provider" 2 registered
# A sleep ends by a message where the provider has a descriptor for that.
mapfile -t offers < <(ofi_offers tcp 'tcp;ofi_rxm')
((${#offers[@]} == 0)) ||
    over "${offers[0]}" 2 OMPI_MCA_pml_tm_wait=sleep crowd pml_tm_wait_sleeps pml_tm_wait_wakes
over "$provider" 4 random "$(tm_seed 61)" "$(tm_seconds 5)"
over_btl "$provider" 2 onesided_random 40 0
# Those of libfabric are not used, whatever fi_query_atomic() says (doc/ofi.md).
for other in "$provider" $(ofi_offers 'tcp;ofi_rxm'); do
    over_btl "$other" 2 OMPI_MCA_osc_rdma_acc_single_intrinsic=1 atomics
done
