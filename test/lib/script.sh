# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash disable=SC2153 # TM_TEST_PML is that of test/run
# For test scripts (test/*/*.sh), which source it first:
#
#     #!/usr/bin/env bash
#     # SPDX-License-Identifier: BSD-3-Clause
#     # TEST: timeout=60 quick=no
#     . "$TM_SRC/test/lib/script.sh"
#
# They are started by test/run, in a scratch directory of their own ($TM_WORK, which is also the
# working directory), with
#     TM_SRC        the source tree
#     TM_BUILD      the build directory of the build under test
#     TM_PREFIX     where that build is installed; env.sh has been sourced, so mpirun and ompi_info
#                   find the component
#     TM_TEST_PML   the pml that tm_mpirun chooses: tm, unless the user of test/run wants another
# and under set -euo pipefail.  Exit status 0 is a pass, 77 a skip, everything else a failure.
# Files left in /dev/shm and processes left behind fail the test, too.

set -euo pipefail
. "$TM_SRC/test/lib/mpi.sh"
. "$TM_SRC/test/lib/compile.sh"

# fail TEXT...: end the test as failed.
fail()
{
    echo "FAILED: $*" >&2
    exit 1
}

# skip TEXT...: end the test as skipped.
skip()
{
    echo "SKIPPED: $*"
    exit 77
}

# skip_without WHAT TEXT...: end it as skipped, or failed if TM_REQUIRE forbids that this is
# missing.
skip_without()
{
    ! tm_is_required "$1" || fail "$1 is required here (TM_REQUIRE): ${*:2}"
    skip "${@:2}"
}

# tm_mpirun NP [MPIRUN-OPTION...] PROGRAM [ARGUMENT...]
# Run it; its output is shown, and kept in $TM_WORK/out and $TM_WORK/err for require and forbid.
# Returns mpirun's status.  A job that has ended well, and then crashed in Open MPI, runs once more,
# as does one whose mpirun crashed.
tm_mpirun()
{
    local rc=0 choice=()
    if [[ $TM_TEST_PML != none ]]; then
        choice=(--mca pml "$TM_TEST_PML")
    fi
    [[ -z ${TM_TEST_BTL-} ]] || choice+=(--mca btl "$TM_TEST_BTL")
    tm_mpirun_flags "$1"
    shift
    run_mpirun "${tm_mpirun_flags[@]}" "${choice[@]}" "$@" || rc=$?
    if ((rc != 0)) && { tm_crashed_upstream "$TM_WORK/out" "$TM_WORK/err" ||
        tm_mpirun_crashed "$TM_WORK/err"; }; then
        rc=0
        run_mpirun "${tm_mpirun_flags[@]}" "${choice[@]}" "$@" || rc=$?
        echo "run again: it crashed in Open MPI's orte_finalize() when it was done" >&2
    fi
    cat "$TM_WORK/out"
    cat "$TM_WORK/err" >&2
    return "$rc"
}

# run_mpirun ARGUMENT...: mpirun, its output in $TM_WORK/out and $TM_WORK/err.
run_mpirun()
{
    local rc=0
    mpirun "$@" >"$TM_WORK/out" 2>"$TM_WORK/err" </dev/null || rc=$?
    # what Open MPI 5.0 forwards it mixes with null bytes
    sed -i 's/\x0//g' "$TM_WORK/out" "$TM_WORK/err"
    return "$rc"
}

# tm_by_rank FILE COMMAND-OF-RANK-0 COMMAND-OF-RANK-1...: make FILE a program that runs as each rank
# another command (a shell word list).  The way of mpirun, program : program, crashes in Open MPI
# 5.0.7's.
tm_by_rank()
{
    local file=$1 rank=0
    shift
    echo '#!/bin/sh' >"$file"
    # shellcheck disable=SC2016 # expanded there
    echo 'case $OMPI_COMM_WORLD_RANK in' >>"$file"
    for command in "$@"; do
        echo "$rank) exec $command ;;" >>"$file"
        rank=$((rank + 1))
    done
    echo 'esac' >>"$file"
    chmod +x "$file"
}

# require TEXT [FILE...]: fail unless a line of the last tm_mpirun's output (or of the files) has
# this text, a fixed string.
require()
{
    local text=$1
    shift
    if (($# == 0)); then
        set -- "$TM_WORK/out" "$TM_WORK/err"
    fi
    grep -aqsF -e "$text" -- "$@" || fail "not found in the output: $text"
}

# forbid REGEX [FILE...]: fail if a line matches this extended regular expression.
forbid()
{
    local regex=$1
    shift
    if (($# == 0)); then
        set -- "$TM_WORK/out" "$TM_WORK/err"
    fi
    if grep -asE -e "$regex" -- "$@"; then
        fail "unwanted in the output: $regex"
    fi
}

# require_quiet: fail if the last tm_mpirun brought a warning or a help message of Open MPI.
require_quiet()
{
    forbid "$tm_noise"
}

# tm_libopen_pal: prints the SONAME of the installed Open MPI's libopen-pal.
tm_libopen_pal()
{
    readelf -dW "$(ompi_info --path libdir --parsable | cut -d : -f 3)/libopen-pal.so" |
        sed -n 's/.*(SONAME).*\[\(.*\)\]/\1/p'
}

# tm_mpi_program NAME: compile test/mpi/NAME.c if needed; prints the program's path.
tm_mpi_program()
{
    tm_compile_mpi "$TM_SRC/test/mpi/$1.c" >&2 || fail "test/mpi/$1.c does not compile"
    tm_binary "mpi/$1"
}
