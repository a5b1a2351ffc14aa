#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# TEST: timeout=600 device=tmdev
#
# MPI programs over the verbs device in software (test/tmdev) with receives on its list: as it is, with lists that are too short,
# with the faults that bring device and software to match at the same time, and beside shared memory.
. "$TM_SRC/test/lib/script.sh"

export OMPI_MCA_pml_tm_providers=^shm OMPI_MCA_mpi_yield_when_idle=1
# What else in Open MPI would use an RDMA device is not what is tested.
export OMPI_MCA_btl=self,vader OMPI_MCA_mtl=^ofi
[[ $TM_OMPI_SERIES == 4.1 ]] || OMPI_MCA_btl=self,sm

# over NP [NAME=VALUE...] PROGRAM [ARGUMENT...]: the program must succeed, in silence.
over()
{
    local np=$1 environment=() name
    shift
    while [[ $1 == *=* ]]; do
        environment+=("$1")
        shift
    done
    name=$1
    shift
    echo "== $np ranks, ${environment[*]} $name $*"
    (
        export TMDEV_FABRIC=$$.$RANDOM ${environment[@]+"${environment[@]}"}
        tm_mpirun "$np" "$(tm_mpi_program "$name")" "$@"
    ) || fail "$name"
    require "$name: errors=0"
    # the device says of each queue pair that it refuses; pml_tm asks again with less
    ! grep -v ' ibv_create_qp: .* inline ' "$TM_WORK/err" || fail "$name: something on standard error"
}


# Does the device match, or is it left out?
tm_mpirun 2 --mca pml_tm_verbose 10 "$(tm_mpi_program hello)" || fail "hello"
require "matches tags"
over 2 counters verbs_tm_listed verbs_tm_listed_user verbs_tm_matched verbs_tm_requests verbs_tm_rndv
over 2 overlap
over 2 TMDEV_POLL=0 overlap 300000
over 2 TMDEV_TM_RNDV=0 basic
for tags in 4 1024; do
    for program in basic ordering probe truncate cancel persistent comms datatypes intercomm; do
        over 2 TMDEV_TM_TAGS=$tags "$program"
    done
    over 4 TMDEV_TM_TAGS=$tags collectives
    over 3 TMDEV_TM_TAGS=$tags random 31 5
done
over 3 TMDEV_TM_TAGS=4 TMDEV_SEED=1 TMDEV_DELAY_US=200 TMDEV_HOLD_US=300 random 32 5
over 3 TMDEV_SEED=2 TMDEV_HOLD_US=300 TMDEV_RNR=100 random 33 5
over 2 TMDEV_SEED=3 TMDEV_MTU=1024 TMDEV_DELAY_US=200 random 34 5
over 2 OMPI_MCA_pml_tm_eager_limit=0 random 35 5
over 2 TMDEV_FAIL=srq_tm basic
over 2 random 36 5 threads=2
