#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# TEST: timeout=240 cores=0 device=tmdev short=ends
#
# A child leaves the job in order, but there was no room for its answers to its parent within
# pml_tm_close_timeout: both say so, and the parent ends instead of waiting for ever.  MPI_Finalize
# asks three times for what is queued to be sent: it waits, and says so, once.
. "$TM_SRC/test/lib/script.sh"
export OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_MCA_pml_tm_shm_ring_size=4096 \
    OMPI_MCA_pml_tm_close_timeout=1 OMPI_MCA_orte_base_help_aggregate=0

program=$(tm_mpi_program leave)
answers_unsent()
{
    echo "== $1"
    if tm_mpirun 1 "$program" unsent; then
        fail "$1: the parent goes on"
    fi
    require 'A process ends with messages of the PML "tm" that are not complete'
    [[ $(grep -c 'A process ends with messages' "$TM_WORK/err") == 1 ]] ||
        fail "$1: it has waited more than once"
    require 'It has left the job, and messages between it and this process are not complete.'
    forbid 'leave: errors'
}

answers_unsent 'shared memory'

# shellcheck source-path=SCRIPTDIR source=../lib/verbs.sh
. "$TM_SRC/test/lib/verbs.sh"
TMDEV_FABRIC=$$.$RANDOM answers_unsent 'verbs'

# A device that has read a message for its process answers the sender on a queue pair of its own:
# what closes the connection may overtake that.
echo '== the answer of the device comes late'
TMDEV_FABRIC=$$.$RANDOM OMPI_MCA_pml_tm_close_timeout=60 TMDEV_FIN_US=200000 tm_mpirun 1 \
    "$program" taken || fail 'the answer of the device is lost'
require 'leave: errors=0'
