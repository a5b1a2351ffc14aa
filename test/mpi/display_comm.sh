#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# TEST: timeout=60 quick=no
#
# Open MPI 5.0 shows at start or end how its processes reach each other (--mca ompi_display_comm):
# it asks the PML.
. "$TM_SRC/test/lib/script.sh"
ompi_info --all --level 9 --parsable 2>/dev/null |
    grep -qE 'hook_comm_method_display|ompi_display_comm' ||
        skip 'this Open MPI has no ompi_display_comm'
for when in mpi_init mpi_finalize; do
    tm_mpirun 2 --mca ompi_display_comm "$when" "$(tm_mpi_program hello)" ||
        fail "exit status $?, $when"
    require ' host | '
done
