# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash disable=SC2034 # the variables are for the caller
# What run, instructions and offload_share share: the build, the environment of the component, and how a PML is selected.  Sourced, with
# set -euo pipefail in force.

bench_source=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
bench_root=$(cd "$bench_source/../.." && pwd)

bench_die()
{
    printf '%s: %s\n' "${0##*/}" "$*" >&2
    exit 2
}

bench_temporary=()
trap 'rm -rf "${bench_temporary[@]}"' EXIT

# Sets bench_directory to a new directory that goes when the script ends.
bench_make_temporary()
{
    bench_directory=$(mktemp -d)
    bench_temporary+=("$bench_directory")
}

# bench_build PROGRAM...: compiles what is out of date into build/bench, or elsewhere where the tree cannot be written; sets
# bench_bin to the place.
bench_build()
{
    local program
    bench_bin=$bench_root/build/bench
    if ! mkdir -p "$bench_bin" 2>/dev/null || [[ ! -w $bench_bin ]]; then
        bench_make_temporary
        bench_bin=$bench_directory
    fi
    for program in "$@"; do
        if [[ ! -x $bench_bin/$program ||
            -n $(find "$bench_source" -name '*.[ch]' -newer "$bench_bin/$program" -print -quit) ]]; then
            "${MPICC:-mpicc}" -O2 -g -Wall -Wextra -o "$bench_bin/$program.$$" "$bench_source/$program.c"
            mv -f "$bench_bin/$program.$$" "$bench_bin/$program"
        fi
    done
}

bench_source_env()
{
    set +u
    # shellcheck source=/dev/null
    . "$1"
    set -u
}

# bench_environment [PREFIX]: makes pml_tm visible, unless it is already and no prefix is given.
bench_environment()
{
    local prefix=${1-}
    if [[ -n $prefix ]]; then
        [[ -f $prefix/share/pml_tm/env.sh ]] || bench_die "no share/pml_tm/env.sh in $prefix"
        bench_source_env "$prefix/share/pml_tm/env.sh"
    elif [[ -f $bench_root/install/share/pml_tm/env.sh ]] &&
        ! ompi_info --parsable 2>/dev/null | grep '^mca:pml:tm:' >/dev/null; then
        bench_source_env "$bench_root/install/share/pml_tm/env.sh"
    fi
}

# bench_device NAME: tmdev: the verbs device in software stands in for libibverbs; empty: the machine's devices are used.
bench_device()
{
    [[ -n $1 ]] || return 0
    [[ $1 == tmdev ]] || bench_die "unknown device $1: tmdev, or none"
    # shellcheck source-path=SCRIPTDIR source=../lib/tmdev.sh
    . "$bench_root/test/lib/tmdev.sh"
    bench_tmdev=$(TM_SRC=$bench_root TM_BUILD=$bench_bin tm_build_tmdev)
    export LD_LIBRARY_PATH=$bench_tmdev${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
    # what else in Open MPI would use an RDMA device is not what is measured
    export OMPI_MCA_mtl=^ofi OMPI_MCA_btl=^openib,ofi
}

# bench_select PML: sets the array bench_selection to the options of mpirun that select it.
bench_select()
{
    bench_selection=(--mca pml "$1")
    if [[ $1 == ucx ]]; then
        bench_selection+=(--mca pml_ucx_tls any --mca pml_ucx_devices any -x "UCX_TLS=posix,cma,self")
    fi
}

# bench_mpirun SECONDS RANKS PML COMMAND...: one job, a core for each rank while there are enough.
bench_mpirun()
{
    local seconds=$1 ranks=$2 pml=$3 placement=(--bind-to core)
    shift 3
    if ((ranks > $(nproc))); then
        placement=(--bind-to none --oversubscribe --mca mpi_yield_when_idle 1)
    fi
    bench_select "$pml"
    # In the foreground, so that what ends this script ends the job, too.
    timeout --foreground "$seconds" mpirun -np "$ranks" "${placement[@]}" "${bench_selection[@]}" "$@" </dev/null
}

# bench_first_error [FILE...]: the line of mpirun's output that says best why it failed.
bench_first_error()
{
    awk '
        /ORTE_ERROR_LOG/ || /^[-=]*$/ || /^R / { next }
        /^(It looks like MPI_INIT|likely to abort|fail during MPI_INIT|problems\.|information \(|developer\))/ { next }
        { gsub(/^[ \t]+|[ \t]+$/, "") }
        /\(\) failed$/ { reason = $0; next }
        reason != "" && /^-->/ { print reason " " $0; found = 1; exit }
        /^\[.*\] \*\*\* / { aborted = aborted == "" ? $0 : aborted; next }
        first == "" { first = $0 }
        END { if (!found) print (reason != "" ? reason : first != "" ? first : aborted != "" ? aborted : "no message") }
    ' "$@"
}
