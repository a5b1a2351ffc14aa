# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash
# For the tests that build pml_tm with a sanitizer and run MPI programs over it. Open MPI is not
# built with it, so the runtime is loaded into the programs, not into mpirun.
# shellcheck source-path=SCRIPTDIR source=../lib/script.sh
. "$TM_SRC/test/lib/script.sh"
. "$TM_SRC/test/lib/build.sh"

launcher=()
checks=0 # so far

# sanitizer_build SANITIZERS [HEADER]: build and install that, and have mpirun find it. HEADER is
# included before all else.
sanitizer_build()
{
    sanitizer="-fsanitize=$1"
    local cflags="-O1 -g -fno-omit-frame-pointer $sanitizer"
    # shellcheck source=/dev/null
    . "$TM_BUILD/test/config.sh"
    {
        CC=gcc CFLAGS="$cflags" LDFLAGS=$sanitizer tm_build "$TM_SRC" "$TM_WORK/build" \
            "$TM_WORK/inst" &&
            if (($# > 1)); then
                rm -f "$TM_WORK/build/mca_pml_tm.la" "$TM_WORK"/build/pml_tm/{,*/}*.lo
                make -C "$TM_WORK/build" -j"$(nproc)" install CFLAGS="$cflags -Wno-tsan -include $2"
            fi
    } >build.log 2>&1 || {
        tail -n 30 build.log >&2
        fail "the build with $sanitizer"
    }
    unset OMPI_MCA_mca_base_component_path
    # shellcheck source=/dev/null
    . "$TM_WORK/inst/share/pml_tm/env.sh"
    TM_BIN=$TM_WORK/bin
    mkdir -p "$TM_BIN"
}

# check PROGRAM NP [NAME=VALUE...] [: ARGUMENT...]: no report of the sanitizer, and the program's
# own success.  In a short run every third one, by turns.
check()
{
    local program=$1 np=$2 environment=() rc=0 compiled
    checks=$((checks + 1))
    [[ ${TM_TEST_SHORT-} != yes ]] || (((checks + TM_TEST_CHOICE / 4) % 3 == 0)) || return 0
    shift 2
    while (($# > 0)) && [[ $1 != : ]]; do
        environment+=("$1")
        shift
    done
    (($# == 0)) || shift
    echo "== $program, $np ranks, ${environment[*]} $*"
    compiled=$(sanitizer_program "$program")
    # shellcheck disable=SC2154 # runtime is the caller's
    tm_mpirun "$np" "${launcher[@]}" env "LD_PRELOAD=$runtime" "${environment[@]}" "$compiled" \
        "$@" || rc=$?
    ((rc == 0)) || fail "$program: exit status $rc"
    # shellcheck disable=SC2154 # reports is the caller's
    forbid "$reports"
}

# sanitizer_program NAME: as tm_mpi_program, built with the sanitizer, where its reports would be of
# use.
sanitizer_program()
{
    if [[ $sanitizer == *thread* ]]; then
        mpicc -std=gnu11 -D_GNU_SOURCE -O1 -g "$sanitizer" -I"$TM_SRC/test/mpi" -I"$TM_SRC/common" \
            -I"$TM_SRC" -pthread \
            -o "$TM_BIN/$1" "$TM_SRC/test/mpi/$1.c" -lm || fail "$1 does not compile"
        echo "$TM_BIN/$1"
    else
        tm_mpi_program "$1"
    fi
}
