#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# TEST: ompi=5.0,6.0 timeout=400 needs=fi_info,libfabric-1.15 quick=no short=ofi
#
# Fault tolerance (mpirun --with-ft ulfm) over libfabric: a rank is killed while the others wait for
# it in every way; the survivors hear of it, revoke, shrink, agree and go on.  By pml tm, and by ob1
# over btl_fabric.
. "$TM_SRC/test/lib/script.sh"
# shellcheck source-path=SCRIPTDIR source=../lib/ofi.sh
. "$TM_SRC/test/lib/ofi.sh"
# shellcheck source-path=SCRIPTDIR source=../lib/ft.sh
. "$TM_SRC/test/lib/ft.sh"

mapfile -t offers < <(ofi_offers tcp net)
((${#offers[@]} > 0)) || skip "libfabric has none of its providers for TCP here"

# shellcheck disable=SC2031 # over()'s are its own
export OMPI_MCA_pml_tm_ofi_provider=${offers[0]}
ft_check 4 OMPI_MCA_pml_tm_providers=ofi recv any probe rndv fetch ssend matched lost coll revoke
export OMPI_MCA_btl=fabric,self
TM_TEST_PML=ob1 ft_check 4 OMPI_MCA_pml_tm_providers=ofi recv any rndv fetch coll
