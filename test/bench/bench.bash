# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash disable=SC2034 # the variables are for the caller
# What the scripts here share: the build, the environment of the component, and how a PML, or
# another MPI, is selected. Sourced, with set -euo pipefail in force.
#
# A peer is the name of a PML, or one of
#   ofi     pml cm over libfabric, BENCH_OFI_PROVIDER (default tcp)
#   mpich   MPICH, by mpicc.mpich and mpiexec.mpich (or MPICH_CC and MPICH_EXEC)

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

# bench_compile DIRECTORY COMPILER PROGRAM...: compiles what is out of date into DIRECTORY; NAME.so
# is made a library.
bench_compile()
{
    local directory=$1 compiler=$2 program flags
    shift 2
    mkdir -p "$directory"
    for program in "$@"; do
        if [[ ! -x $directory/$program ||
            -n $(find "$bench_source" -name '*.[ch]' -newer "$directory/$program") ]]; then
            flags=()
            [[ $program != *.so ]] || flags=(-shared -fPIC -fno-builtin)
            "$compiler" -O2 -g -Wall -Wextra -Wno-stringop-overflow -pthread "${flags[@]}" \
                -o "$directory/$program.$$" "$bench_source/${program%.so}.c"
            mv -f "$directory/$program.$$" "$directory/$program"
        fi
    done
}

# bench_build PROGRAM...: compiles them into build/bench, or elsewhere where the tree cannot be
# written; sets bench_bin to the place.
bench_build()
{
    bench_bin=$bench_root/build/bench
    if ! mkdir -p "$bench_bin" 2>/dev/null || [[ ! -w $bench_bin ]]; then
        bench_make_temporary
        bench_bin=$bench_directory
    fi
    bench_compile "$bench_bin" "${MPICC:-mpicc}" "$@"
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

# bench_processor: the processor, and how many of them this process has.
bench_processor()
{
    awk -F': *' -v n="$(nproc)" \
        '/^model name/ { model = $2 } END { print (model != "" ? model : "processor unknown") ", " n " cores" }' \
        /proc/cpuinfo
}

# bench_machine: the processor, its caches and the kernel, for the head of a table.
bench_machine()
{
    echo "$(bench_processor), $(getconf -a | awk '
        $1 ~ /^LEVEL(1_D|2_|3_)CACHE_SIZE$/ {
            text = text "L" substr($1, 6, 1) " " $2 / 1024 " KiB, "
        }
        END { print text }')Linux $(uname -r)"
}

# bench_device NAME: tmdev: the verbs device in software stands in for libibverbs; empty: the
# machine's devices are used.
bench_device()
{
    [[ -n $1 ]] || return 0
    [[ $1 == tmdev ]] || bench_die "unknown device $1: tmdev, or none"
    # shellcheck source-path=SCRIPTDIR source=../lib/tmdev.sh
    . "$bench_root/test/lib/tmdev.sh"
    bench_tmdev=$(TM_SRC=$bench_root TM_BUILD=$bench_bin tm_build_tmdev)
    export LD_LIBRARY_PATH=$bench_tmdev${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH} \
        SYSFS_PATH=$bench_tmdev/sys
    # what else in Open MPI would use an RDMA device is not what is measured
    export OMPI_MCA_mtl=^ofi OMPI_MCA_btl=^openib,ofi
}

# bench_select PEER: sets the array bench_selection to the options of mpirun that select it.
bench_select()
{
    case $1 in
        ofi) bench_selection=(--mca pml cm --mca mtl ofi --mca mtl_ofi_provider_include
            "${BENCH_OFI_PROVIDER:-tcp}") ;;
        ucx)
            bench_selection=(--mca pml ucx --mca pml_ucx_tls any --mca pml_ucx_devices any
                -x "UCX_TLS=posix,cma,self")
            ;;
        *) bench_selection=(--mca pml "$1") ;;
    esac
}

# bench_mpirun SECONDS RANKS PEER COMMAND...: one job, a core for each rank while there are enough;
# with bench_binding=none they are not bound. bench_options: further options of Open MPI's mpirun.
bench_binding=core bench_options=()
bench_mpirun()
{
    local seconds=$1 ranks=$2 peer=$3 placement=(--bind-to "$bench_binding")
    shift 3
    ((ranks <= $(nproc))) || placement=(--bind-to none --oversubscribe)
    # In the foreground, so that what ends this script ends the job, too.
    if [[ $peer == mpich ]]; then
        timeout --foreground "$seconds" "${MPICH_EXEC:-mpiexec.mpich}" -bind-to "${placement[1]}" \
            -np "$ranks" "$@" </dev/null
        return
    fi
    bench_select "$peer"
    timeout --foreground "$seconds" mpirun -np "$ranks" "${placement[@]}" "${bench_options[@]}" \
        "${bench_selection[@]}" "$@" </dev/null
}

# bench_first_error [FILE...]: the line of mpirun's output that says best why it failed.
bench_first_error()
{
    awk '
        /ORTE_ERROR_LOG/ || /^[-=]*$/ || /^R / { next }
        /^(It looks like MPI_INIT|likely to abort|fail during MPI_INIT)/ { next }
        /^(problems\.|information \(|developer\))/ { next }
        { gsub(/^[ \t]+|[ \t]+$/, "") }
        /\(\) failed$/ { reason = $0; next }
        reason != "" && /^-->/ { print reason " " $0; found = 1; exit }
        /^\[.*\] \*\*\* / { aborted = aborted == "" ? $0 : aborted; next }
        first == "" { first = $0 }
        END {
            first = first != "" ? first : aborted
            if (!found)
                print reason != "" ? reason : first != "" ? first : "no message"
        }
    ' "$@"
}
