# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash
# For scripts that run MPI programs over libfabric; sourced after script.sh.

[[ -n $(find "$TM_PREFIX" -name 'libmca_common_tm_ofi-*.so') ]] ||
    skip "pml_tm was built without libfabric"

# ofi_offers PROVIDER...: those that libfabric has here, in that order, one a line.
ofi_offers()
{
    local provider
    for provider in "$@"; do
        fi_info -p "$provider" -t FI_EP_RDM 2>/dev/null |
            grep -xF -m 1 "provider: $provider" || true
    done | sed 's/^provider: //'
}

# Nothing else of Open MPI uses libfabric.
export OMPI_MCA_mpi_yield_when_idle=1 OMPI_MCA_mtl=^ofi OMPI_MCA_btl=self,vader
[[ $TM_OMPI_SERIES == 4.1 ]] || OMPI_MCA_btl=self,sm
# Its buffers are made at the start, 80 MiB of them otherwise.
export FI_OFI_RXM_BUFFER_SIZE=1024

# is_turn OF: in a short run true once in so many calls, by turns of the commit; else always.
calls=0
is_turn()
{
    calls=$((calls + 1))
    [[ ${TM_TEST_SHORT-} != yes ]] || (((calls + TM_TEST_CHOICE / 100) % $1 == 0))
}

# over PROVIDER NP [NAME=VALUE...] PROGRAM [ARGUMENT...]: the program must succeed.  $ofidev is
# preloaded, if it is set.  Only if is_turn $one_of.
one_of=1
over()
{
    local provider=$1 np=$2 name preload=()
    is_turn "$one_of" || return 0
    [[ -z ${ofidev-} ]] || preload=(-x "LD_PRELOAD=$ofidev")
    shift 2
    (
        export OMPI_MCA_pml_tm_ofi_provider=$provider OMPI_MCA_pml_tm_providers=ofi
        while [[ $1 == *=* ]]; do
            export "${1?}"
            shift
        done
        name=$1
        shift
        echo "== $provider, $np ranks: $name $*"
        tm_mpirun "$np" ${preload[@]+"${preload[@]}"} "$(tm_mpi_program "$name")" "$@" ||
            fail "$provider: $name"
        require "$name: errors=0"
    ) || exit 1
}

# over_btl PROVIDER NP [NAME=VALUE...] PROGRAM [ARGUMENT...]: the same with one-sided communication
# by btl fabric.
over_btl()
{
    over "$1" "$2" OMPI_MCA_osc=rdma OMPI_MCA_btl=fabric OMPI_MCA_pml_tm_providers=ofi \
        "OMPI_MCA_pml_tm_ofi_provider=$1" "${@:3}"
}
