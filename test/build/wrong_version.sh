#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# TEST: timeout=60
#
# A build for another series of Open MPI is refused with a message that names the library it misses,
# and does no harm.  The guard is the SONAME of a library, here libopen-pal: Open MPI itself
# compares no versions.
. "$TM_SRC/test/lib/script.sh"

cp -R "$TM_PREFIX" moved
pml=$(find moved -name mca_pml_tm.so)
common=$(find moved -name 'libmca_common_tm-*.so')
needed=$(tm_libopen_pal) missing=libopen-pal.so.80
[[ $needed != "$missing" ]] || missing=libopen-pal.so.40
patchelf --replace-needed "$needed" "$missing" "$pml" "$common"
unset OMPI_MCA_mca_base_component_path
# shellcheck source=/dev/null
. moved/share/pml_tm/env.sh

# Asked for, it ends the job, with no crash.
program=$(tm_mpi_program hello)
rc=0
tm_mpirun 2 "$program" || rc=$?
((rc != 0)) || fail "mpirun --mca pml tm went on with a component for another Open MPI"
require "$missing: cannot open shared object file"
forbid 'signal|[Ss]egmentation|\*\*\* Process received'

# Not asked for, it is left out.
export TM_TEST_PML=none
tm_mpirun 2 "$program" || fail "a component for another Open MPI keeps jobs from running"
require "$missing: cannot open shared object file"
require "hello: errors=0"
