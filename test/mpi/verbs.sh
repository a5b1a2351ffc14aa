#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# TEST: timeout=600 device=tmdev
#
# MPI programs with all processes of the host talking by verbs, over the verbs device in software (test/tmdev): as it is, with its
# faults, and with limits that each bring another path. Then a rank is killed.
. "$TM_SRC/test/lib/script.sh"

export OMPI_MCA_pml_tm_providers=^shm OMPI_MCA_pml_tm_verbs_tm=none OMPI_MCA_mpi_yield_when_idle=1
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

tm_mpirun 2 --mca pml_tm_verbose 10 "$(tm_mpi_program hello)" || fail "hello"
require "tmdev0"
for np in 2 4; do
    over "$np" hello
    over "$np" basic
    over "$np" random 21 8
done
over 8 hello
for program in ordering probe truncate cancel persistent comms datatypes intercomm; do
    over 2 "$program"
done
over 4 collectives
over 2 threads all 3 10
over 2 random 22 5 threads=2
over 3 TMDEV_SEED=1 TMDEV_DELAY_US=200 random 23 5
over 3 TMDEV_SEED=2 TMDEV_RNR=100 random 24 5
over 2 TMDEV_MAX_INLINE=0 random 25 5
over 2 TMDEV_LINK=eth random 26 5
over 2 OMPI_MCA_pml_tm_eager_limit=0 random 27 5
