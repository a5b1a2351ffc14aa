# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash
# For tests that build for an Open MPI: the source package of the installed one, its headers, and
# other installations; after script.sh.

# get_source DIRECTORY: the files, from the repositories that apt knows, whether or not it looks for
# sources there.
get_source()
(
    cd "$1" || exit
    mkdir -p apt/lists/partial apt/cache/archives/partial archives
    state=(-o "Dir::Etc::SourceList=$1/apt/sources.list" -o Dir::Etc::SourceParts=/dev/null
        -o "Dir::State::Lists=$1/apt/lists" -o "Dir::Cache=$1/apt/cache")
    [[ -z $(find archives -name '*.dsc') ]] || exit 0
    # shellcheck disable=SC2016 # apt's variables
    apt-get indextargets --format 'deb-src $(REPO_URI) $(RELEASE) $(COMPONENT)' \
        'Created-By: Packages' | sort -u >apt/sources.list
    apt-get "${state[@]}" -q update &&
        env -C archives apt-get "${state[@]}" -q --download-only source openmpi
    rm -rf apt/lists apt/cache
    [[ -n $(find archives -name '*.dsc') ]]
)

# openmpi_source DIRECTORY: make its directory archives have the source package, once; or skip the
# test.
openmpi_source()
{
    (flock 9 && get_source "$1" >"$1/get.log" 2>&1) 9>"$1/get.lock" || skip_without release \
        "the source package of Open MPI cannot be had: $(grep -a '^[EW]:' "$1/get.log" | sed -n 1p)"
}

# openmpi_headers: the directory of the ompi_config.h that the build under test is compiled with.
openmpi_headers()
{
    local flags header
    # shellcheck source=/dev/null
    . "$TM_BUILD/test/config.sh"
    read -ra flags <<<"$TM_OMPI_CPPFLAGS"
    header=$(echo '#include "ompi_config.h"' | "$TM_CC" -xc -E "${flags[@]}" - |
        sed -n 's@^# [0-9]* "\(.*\)/ompi_config.h".*@\1@p' | sed -n 1p)
    [[ -n $header ]] || fail "ompi_config.h was not found"
    echo "$header"
}

# installed_prefix: of the Open MPI of the build under test.
installed_prefix()
{
    dirname "$(dirname "$(command -v ompi_info)")"
}

# build_for PREFIX DIRECTORY [CONFIGURE-ARGUMENT...]: pml_tm for the Open MPI in PREFIX, installed
# in DIRECTORY; after build.sh.
build_for()
{
    local log=$2.log
    tm_build "$TM_SRC" "$2-build" "$2" --with-ompi="$1" --enable-werror "${@:3}" >"$log" 2>&1 || {
        tail -n 30 "$log"
        fail "the build for the Open MPI in $1"
    }
}

# use_openmpi PREFIX DIRECTORY: from here on mpirun and ompi_info are those in PREFIX, with the
# pml_tm in DIRECTORY.
use_openmpi()
{
    # shellcheck disable=SC2031 # subshells of the libraries keep their settings to themselves
    export PATH=$1/bin:$PATH
    [[ $(command -v mpirun) == "$1/bin/mpirun" ]] || fail "there is no mpirun in $1"
    unset OMPI_MCA_mca_base_component_path PMIX_MCA_mca_base_component_path
    # shellcheck source=/dev/null
    . "$2/share/pml_tm/env.sh"
}

# compile_for PREFIX NAME...: test/mpi/NAME.c, as PREFIX's mpicc does it, to ./NAME.
compile_for()
{
    local name
    for name in "${@:2}"; do
        "$1/bin/mpicc" -std=gnu11 -D_GNU_SOURCE -O2 -I"$TM_SRC/test/mpi" -I"$TM_SRC/common" \
            -o "$name" "$TM_SRC/test/mpi/$name.c" -ldl -lm || fail "$name.c: mpicc"
    done
}

# run_programs PREFIX: messages, by pml tm and by ob1 over btl fabric, of the Open MPI in use.
run_programs()
{
    local name np
    compile_for "$1" basic ordering collectives
    for np in 2 4; do
        for name in basic ordering collectives; do
            tm_mpirun "$np" "./$name" || fail "$name"
            require "$name: errors=0"
            require_quiet
        done
    done
    # not basic: by ob1 4.1.0 and 4.1.1 set MPI_ERROR of a status that is not to have it
    TM_TEST_PML=ob1 TM_TEST_BTL=fabric,self tm_mpirun 2 ./collectives || fail "collectives by ob1"
    require 'collectives: errors=0'
    require_quiet
}

# run_without_ucx PREFIX: build for the Open MPI there, which was configured --without-ucx, and run.
run_without_ucx()
{
    "$1/bin/ompi_info" --all --parsable >info
    forbid '^mca:[a-z]*:ucx:' info
    headers=$(sed -n 's/^path:pkgincludedir://p' info)
    forbid 'define OMPI_PROC_ENDPOINT_TAG_PML' "$headers/opal_config.h"
    build_for "$1" "$TM_WORK/alone"
    use_openmpi "$1" "$TM_WORK/alone"
    run_programs "$1"
}

# expect_message COMPONENT CLASS RELEASE RUNNING: the Open MPI RUNNING has refused it, which was
# built for RELEASE, in the last tm_mpirun, and none of its processes has crashed.  One process says
# so in full, unless another one has ended the job before.
expect_message()
{
    local said
    said=$(cat "$TM_WORK/out" "$TM_WORK/err" | grep -acF "The $1 was built for another" || true)
    ((said <= 1)) || fail "more than one process says it in full"
    if ((said == 1)); then
        require "Built for:  Open MPI $3"
        require "Running:    Open MPI $4 ("
        require "Problem:    $2 has "
    else
        require "The $1, built for Open MPI $3, is not used with $4: $2 has "
    fi
    forbid 'signal|[Ss]egmentation|\*\*\* Process received'
}

# expect_refused PROGRAM RELEASE RUNNING: the Open MPI RUNNING refuses pml tm, which was built for
# RELEASE.
expect_refused()
{
    local rc=0
    # Asked for, it ends the job.
    tm_mpirun 2 "$1" || rc=$?
    ((rc != 0)) || fail "mpirun --mca pml tm went on with a component for another Open MPI"
    expect_message 'PML "tm"' ompi_communicator_t "$2" "$3"

    # Not asked for, it is left out.
    TM_TEST_PML=none tm_mpirun 2 "$1" || fail "it keeps jobs from running"
    expect_message 'PML "tm"' ompi_communicator_t "$2" "$3"
    require "hello: errors=0"
}
