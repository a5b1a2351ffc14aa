#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# TEST: timeout=600 device=tmdev ompi=4.1 short=minutes
#
# As asan.sh, with all processes communicating by verbs, over the device in software: matched by it
# and by the CPU (in a short run one of three ways, by turns), and with its faults.
# shellcheck source-path=SCRIPTDIR source=sanitizer.bash
. "$TM_SRC/test/mpi/sanitizer.bash"
# shellcheck source-path=SCRIPTDIR source=../lib/verbs.sh
. "$TM_SRC/test/lib/verbs.sh"

sanitizer_build address,undefined
runtime=$(gcc -print-file-name=libasan.so)
export ASAN_OPTIONS=detect_leaks=0:detect_stack_use_after_return=1 UBSAN_OPTIONS=print_stacktrace=1
reports='ERROR: AddressSanitizer|runtime error:'

ways=(TMDEV_TM_TAGS=4 TMDEV_TM_TAGS=1024 OMPI_MCA_pml_tm_verbs_tm=none) turn=$(tm_turn 3)
[[ -z $turn ]] || ways=("${ways[turn]}")
for how in "${ways[@]}"; do
    # shellcheck disable=SC2031 # over() has one of its own
    export TMDEV_FABRIC=$$.$RANDOM
    check basic 2 "$how"
    check random 3 "$how" : 61 "$(tm_seconds 5)"
    check basic 2 "$how" : cut 1048577
    check cancel 2 "$how"
    check persistent 2 "$how"
    check comms 4 "$how"
    check ending 2 "$how" : 0
done
check random 3 TMDEV_TM_TAGS=4 TMDEV_MTU=256 TMDEV_HOLD_US=100 TMDEV_RNR=100 : 62 "$(tm_seconds 5)"
check random 3 TMDEV_TM_RNDV=0 TMDEV_TM_QPN=1 TMDEV_MTU=1024 : 63 "$(tm_seconds 5)"
check window 2 TMDEV_TM_RNDV=0 : 2
check random 2 : 64 "$(tm_seconds 5)" threads=2
check random 2 TMDEV_LINK=eth OMPI_MCA_pml_tm_eager_limit=0 : 65 "$(tm_seconds 5)"
# the end of a job that lost its device: no report on the way there
for fault in TMDEV_TM_ERROR=general:100 TMDEV_TM_ERROR=command:100 TMDEV_POLL_ERROR=start:200 \
    TMDEV_DEVICE_FATAL=300; do
    echo "== tm_faults traffic, $fault"
    ! tm_mpirun 3 env "LD_PRELOAD=$runtime" "$fault" "$(sanitizer_program tm_faults)" traffic ||
        fail "$fault: the job did not fail"
    require "lost a process"
    forbid "$reports"
done
