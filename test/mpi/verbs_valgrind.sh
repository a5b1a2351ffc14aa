#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# TEST: timeout=600 device=tmdev ompi=4.1 needs=valgrind short=minutes
#
# As valgrind.sh, with all processes communicating by verbs, over the device in software: matched
# by it and by the CPU.
# shellcheck source-path=SCRIPTDIR source=valgrind.bash
. "$TM_SRC/test/mpi/valgrind.bash"
# shellcheck source-path=SCRIPTDIR source=../lib/verbs.sh
. "$TM_SRC/test/lib/verbs.sh"

# in_turn SETTING PROGRAM...: as check, in a short run every second one, by turns.
in_turn()
{
    at=$((at + 1))
    [[ -z $turn ]] || ((at % 2 == turn)) || return 0
    echo "== $1"
    export "${1?}"
    check "${@:2}"
    unset "${1%%=*}"
}

# shellcheck disable=SC2031 # over() has one of its own
export TMDEV_FABRIC=$$.$RANDOM
device=TMDEV_TM_TAGS=4 cpu=OMPI_MCA_pml_tm_verbs_tm=none at=0 turn=$(tm_turn 2)
in_turn $device basic 2 1048577
in_turn $cpu basic 2 1048577
in_turn $cpu random 2 "$(tm_seed 3)" 10 epochs=4
in_turn $device random 2 "$(tm_seed 3)" 10 epochs=4
in_turn $device cancel 2
in_turn TMDEV_TM_TAGS=1024 persistent 2
in_turn TMDEV_TM_TAGS=1024 ending 2 0
in_turn TMDEV_TM_TAGS=1024 ending 2 received
in_turn $cpu cancel 2
