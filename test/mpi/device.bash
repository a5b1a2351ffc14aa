# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash disable=SC2154 # the program is the caller's
# Messages and one-sided operations with memory of a device, by all protocols, for mpi/device and
# build/cuda; after script.sh.

# check NP [NAME=VALUE...] -- ARGUMENT...: run $program.
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

# check_messages NAME: all protocols of pml tm, and ob1 over btl fabric; NAME is that of Open MPI's
# BTL for shared memory.
check_messages()
{
    local tcp=(OMPI_MCA_pml_tm_providers=tcp)
    local verbs=("OMPI_MCA_pml_tm_providers=^shm,tcp" OMPI_MCA_pml_tm_verbs_tm=always
        "OMPI_MCA_btl=self,$1")
    check 1 --
    check 2 --
    check 3 -- 70000
    check 2 OMPI_MCA_pml_tm_shm_single_copy=none OMPI_MCA_pml_tm_stream_limit=0 -- 1048576
    check 2 OMPI_MCA_pml_tm_eager_limit=0 -- 70000
    check 2 "${tcp[@]}" -- 1048576
    check 2 "${verbs[@]}" "TMDEV_FABRIC=$$.1" -- 1048576
    # Open MPI's own btl self copies to memory of a device
    check 2 TM_TEST_PML=ob1 "OMPI_MCA_btl=fabric,self" -- 1048576 others
}

# check_onesided WHAT: the program's argument.
check_onesided()
{
    local osc=(OMPI_MCA_osc=rdma OMPI_MCA_btl=fabric)
    check 2 "${osc[@]}" -- 8388608 "$1"
    check 2 "${osc[@]}" OMPI_MCA_pml_tm_shm_single_copy=none -- 1048576 "$1"
    check 2 "${osc[@]}" OMPI_MCA_pml_tm_providers=tcp -- 1048576 "$1"
}
