#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# TEST: timeout=600 short=builds
#
# A build for another release of the same series, in which structures have other members, is refused
# before it reads any: the message names both releases. The loader does not notice, as the SONAME is
# the same.
. "$TM_SRC/test/lib/script.sh"
. "$TM_SRC/test/lib/build.sh"

# Headers of that release: ompi_communicator_t has one member more in its middle, as in 5.0.7
# against 5.0.6, and so has opal_convertor_t.
# shellcheck source=/dev/null
. "$TM_BUILD/test/config.sh"
read -ra flags <<<"$TM_OMPI_CPPFLAGS"
real=$(echo '#include "ompi_config.h"' | "$TM_CC" -xc -E "${flags[@]}" - |
    sed -n 's@^# [0-9]* "\(.*\)/ompi_config.h".*@\1@p' | head -n 1)
[[ -n $real ]] || fail "ompi_config.h was not found"
mkdir -p other/ompi/communicator other/opal/datatype

# insert FILE MEMBER: a copy of that header with a pointer before this member.
insert()
{
    sed -E "0,/^ +$2;/s//    void *misfit;\n&/" "$real/$1" >"other/$1"
    ! cmp -s "$real/$1" "other/$1" || fail "$1 has no member $2"
}
insert ompi/communicator/communicator.h 'ompi_group_t +\*c_local_group'
insert opal/datatype/opal_convertor.h 'const opal_datatype_t *\* *pDesc'
release=$TM_OMPI_SERIES.99
sed -E 's/^(#define OPAL_IDENT_STRING).*/\1 "'"$release"'"/' "$real/opal_config.h" \
    >other/opal_config.h
require "\"$release\"" other/opal_config.h
cp "$real/ompi_config.h" other

# configure finds out, too.
mkdir refused
(cd refused && ! "$TM_SRC/configure" CPPFLAGS="-I$TM_WORK/other" >../log 2>&1) ||
    fail "configure accepted headers that are not those of the library"
require "are not those of the library" log
require "ompi_communicator_t has " log

tm_build "$TM_SRC" "$TM_WORK/build" "$TM_WORK/inst" CPPFLAGS="-I$TM_WORK/other" \
    tm_cv_ompi_fits=yes >log 2>&1 || {
    tail -n 30 log
    fail "the build"
}
unset OMPI_MCA_mca_base_component_path
# shellcheck source=/dev/null
. "$TM_WORK/inst/share/pml_tm/env.sh"
running=$(ompi_info --version | sed -n 's/^Open MPI v//p')
program=$(tm_mpi_program hello)

# expect_message COMPONENT CLASS: the last tm_mpirun has refused it, and none of its processes has
# crashed.  One process says so in full, unless another one has ended the job before.
expect_message()
{
    local said
    said=$(cat "$TM_WORK/out" "$TM_WORK/err" | grep -acF "The $1 was built for another" || true)
    ((said <= 1)) || fail "more than one process says it in full"
    if ((said == 1)); then
        require "Built for:  Open MPI $release"
        require "Running:    Open MPI $running ("
        require "Problem:    $2 has "
    else
        require "The $1, built for Open MPI $release, is not used with $running: $2 has "
    fi
    forbid 'signal|[Ss]egmentation|\*\*\* Process received'
}

# Asked for, it ends the job.
rc=0
tm_mpirun 2 "$program" || rc=$?
((rc != 0)) || fail "mpirun --mca pml tm went on with a component for another Open MPI"
expect_message 'PML "tm"' ompi_communicator_t

# Not asked for, it is left out.
TM_TEST_PML=none tm_mpirun 2 "$program" || fail "it keeps jobs from running"
expect_message 'PML "tm"' ompi_communicator_t
require "hello: errors=0"

# Nor is the BTL used.
rc=0
TM_TEST_PML=ob1 TM_TEST_BTL=self,fabric tm_mpirun 1 "$program" || rc=$?
((rc != 0)) || fail "mpirun --mca btl fabric went on with a BTL for another Open MPI"
expect_message 'BTL "fabric"' opal_convertor_t

# ompi_info says so, too, and has no parameters of it.
ompi_info --param pml tm --level 9 >info 2>&1 || true
require 'was built for another Open MPI' info
forbid 'pml_tm_priority' info
