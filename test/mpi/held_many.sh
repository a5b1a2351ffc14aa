#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# TEST: timeout=120 needs=valgrind
#
# Many sends that are held back, or wait for room, cost no other message and no MPI_Cancel more than
# a few would: the instructions of the functions that look for one of them are counted.  Walking
# through 10000 of them, once for each of 100 messages or 10000 cancels, takes some 10^7 to 10^9.
. "$TM_SRC/test/lib/script.sh"

program=$(tm_mpi_program held_many)
# shellcheck disable=SC2016 # expanded in the ranks
OMPI_MCA_pml_tm_unexpected_max=65536 tm_mpirun 2 bash -c '
    if [[ $OMPI_COMM_WORLD_RANK == 0 ]]; then
        exec valgrind -q --tool=callgrind --callgrind-out-file=counted --toggle-collect=held_item \
            --toggle-collect=mca_pml_tm_flow_unhold --toggle-collect="fab_unqueue*" "$1"
    fi
    exec "$1"' bash "$program" || fail "held_many: exit status $?"
require 'held_many: errors=0'
count=$(sed -n 's/^totals: //p' counted)
echo "instructions: $count"
((count > 0 && count < 2000000)) || fail "to find sends takes $count instructions"
