#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# TEST: timeout=600 device=tmdev short=device ompi=5.0
#
# Memory of a device is copied by Open MPI's convertor alone, on all paths: device_play.c is a
# component for Open MPI's accelerator framework whose memory nobody else can touch.  Open MPI 4.1
# has that interface only where it was built with CUDA, which needs a driver to run.
. "$TM_SRC/test/lib/script.sh"
# shellcheck source=/dev/null
. "$TM_BUILD/test/config.sh"

mkdir components
read -ra flags <<<"$TM_OMPI_CPPFLAGS"
"$TM_CC" -std=gnu11 -D_GNU_SOURCE -O2 -Wall -fPIC -shared "${flags[@]}" \
    -o components/mca_accelerator_play.so "$TM_SRC/test/mpi/device_play.c" ||
    fail "device_play.c does not compile"
export OMPI_MCA_mca_base_component_path=$TM_WORK/components:$OMPI_MCA_mca_base_component_path
export OMPI_MCA_mpi_yield_when_idle=1
program=$(tm_mpi_program device)

# check NP [NAME=VALUE...] -- ARGUMENT...
check()
{
    local np=$1 environment=()
    shift
    while [[ $1 != -- ]]; do
        environment+=("$1")
        shift
    done
    shift
    echo "== $np ranks, ${environment[*]-} $*"
    (
        export LC_ALL=C ${environment[@]+"${environment[@]}"}
        tm_mpirun "$np" "$program" "$@"
    ) || fail "exit status $?: ${environment[*]-} $*"
    require "device: errors=0"
    require_quiet
}

tcp=(OMPI_MCA_pml_tm_providers=tcp)
verbs=("OMPI_MCA_pml_tm_providers=^shm,tcp" OMPI_MCA_pml_tm_verbs_tm=always
    "OMPI_MCA_btl=self,sm")
ob1=(TM_TEST_PML=ob1 "OMPI_MCA_btl=fabric,self")
osc=(OMPI_MCA_osc=rdma OMPI_MCA_btl=fabric)

check 1 --
check 2 --
check 3 -- 70000
check 2 OMPI_MCA_pml_tm_shm_single_copy=none OMPI_MCA_pml_tm_stream_limit=0 -- 1048576
check 2 OMPI_MCA_pml_tm_eager_limit=0 -- 70000
check 2 "${tcp[@]}" -- 1048576
check 2 "${verbs[@]}" "TMDEV_FABRIC=$$.1" -- 1048576
# Open MPI's own btl self copies to memory of a device
check 2 "${ob1[@]}" -- 1048576 others
check 2 "${osc[@]}" -- 8388608 onesided
check 2 "${osc[@]}" OMPI_MCA_btl_fabric_shm_single_copy=none -- 1048576 onesided
check 2 "${osc[@]}" OMPI_MCA_btl_fabric_providers=tcp -- 1048576 onesided
