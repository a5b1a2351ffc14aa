#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# TEST: timeout=600 short=minutes
#
# A build for another release of the same series, in which structures have other members, is refused
# before it reads any: the message names both releases. The loader does not notice, as the SONAME is
# the same.
. "$TM_SRC/test/lib/script.sh"
. "$TM_SRC/test/lib/build.sh"
. "$TM_SRC/test/build/openmpi.bash"

# Headers of that release: ompi_communicator_t has one member more in its middle, as in 5.0.7
# against 5.0.6, and so has opal_convertor_t.
real=$(openmpi_headers)
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

prefix=$(installed_prefix)
build_for "$prefix" "$TM_WORK/inst" CPPFLAGS="-I$TM_WORK/other" tm_cv_ompi_fits=yes
use_openmpi "$prefix" "$TM_WORK/inst"
running=$(ompi_info --version | sed -n 's/^Open MPI v//p')
program=$(tm_mpi_program hello)

expect_refused "$program" "$release" "$running"

# Nor is the BTL used.
rc=0
TM_TEST_PML=ob1 TM_TEST_BTL=self,fabric tm_mpirun 1 "$program" || rc=$?
((rc != 0)) || fail "mpirun --mca btl fabric went on with a BTL for another Open MPI"
expect_message 'BTL "fabric"' opal_convertor_t "$release" "$running"

# ompi_info says so, too, and has no parameters of it.
ompi_info --param pml tm --level 9 >info 2>&1 || true
require 'was built for another Open MPI' info
forbid 'pml_tm_priority' info
