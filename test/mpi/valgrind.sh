#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# TEST: timeout=600 ompi=4.1 needs=valgrind short=minutes
#
# MPI programs under valgrind. (Not truncate: after an error MPI_Sendrecv keeps its request, with
# what belongs to it.)
# shellcheck source-path=SCRIPTDIR source=valgrind.bash
. "$TM_SRC/test/mpi/valgrind.bash"

check basic 2 65537
check random 2 "$(tm_seed 3)" 10 epochs=6
check cancel 2
check cancel_send 2 5
check waits 2
check ending 2 0
check persistent 2
check comms 2
check probe 2 65537
