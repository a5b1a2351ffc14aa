#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# TEST: timeout=120
#
# A child that leaves the job in order, but owes its parent answers for which there was no room within pml_tm_close_timeout: both say so,
# and the parent ends instead of waiting for ever.  MPI_Finalize asks three times for what is queued to be sent: it waits, and says so, once.
. "$TM_SRC/test/lib/script.sh"
export OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_MCA_pml_tm_shm_ring_size=4096 OMPI_MCA_pml_tm_close_timeout=1 OMPI_MCA_orte_base_help_aggregate=0

program=$(tm_mpi_program leave)
if tm_mpirun 1 "$program" owes; then
    fail 'the parent goes on'
fi
require 'A process ends with messages of the PML "tm" that a peer did not take'
[[ $(grep -c 'A process ends with messages' "$TM_WORK/err") == 1 ]] || fail 'it has waited more than once'
require 'It has left the job, and messages between it and this process are not complete.'
forbid 'leave: errors'
