# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash
# For scripts with device=tmdev that run MPI programs over it; sourced after script.sh. All
# processes communicate by verbs, and nothing else of Open MPI uses an RDMA device.

export OMPI_MCA_pml_tm_providers=^shm,tcp OMPI_MCA_mpi_yield_when_idle=1
export OMPI_MCA_btl=self,vader OMPI_MCA_mtl=^ofi
# Faults are counted in what programs do, not in the self-test of matching by the device.
export OMPI_MCA_pml_tm_verbs_tm=always
[[ $TM_OMPI_SERIES == 4.1 ]] || OMPI_MCA_btl=self,sm

# settings WORD...: the words NAME=VALUE ahead go to the array environment, the others to the array
# words, both the caller's.
settings()
{
    environment=()
    while [[ $1 == *=* ]]; do
        environment+=("$1")
        shift
    done
    # shellcheck disable=SC2034
    words=("$@")
}

# over NP [NAME=VALUE...] PROGRAM [ARGUMENT...]: the program must succeed, in silence.
over()
{
    local np=$1 environment words name
    settings "${@:2}"
    name=${words[0]}
    set -- "${words[@]:1}"
    echo "== $np ranks, ${environment[*]} $name $*"
    (
        export TMDEV_FABRIC=$$.$RANDOM ${environment[@]+"${environment[@]}"}
        tm_mpirun "$np" "$(tm_mpi_program "$name")" "$@"
    ) || fail "$name"
    require "$name: errors=0"
    # the device says of each queue pair that it refuses; pml_tm asks again with less
    ! grep -v ' ibv_create_qp: .* inline ' "$TM_WORK/err" ||
        fail "$name: something on standard error"
}
