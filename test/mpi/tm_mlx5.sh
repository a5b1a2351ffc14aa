#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# TEST: timeout=600 device=tmdev short=device
#
# What adapters that match tags do, and their drivers, besides what the interface says
# (test/tmdev/README.md), and what programs do to them. tm_faults.sh has what ends a job.
. "$TM_SRC/test/lib/script.sh"
# shellcheck source-path=SCRIPTDIR source=../lib/verbs.sh
. "$TM_SRC/test/lib/verbs.sh"

echo "== many receives have one buffer"
for tags in 4 1024; do
    over 2 TMDEV_TM_TAGS=$tags TMDEV_TM_RNDV=0 window 3
    over 2 TMDEV_TM_TAGS=$tags TMDEV_TM_RNDV=1 window 3
    over 2 TMDEV_TM_TAGS=$tags TMDEV_TM_RNDV=0 TMDEV_MTU=1024 TMDEV_DELAY_US=200 window 2
done

echo "== the first completion of a match names another queue pair"
for tags in 4 1024; do
    over 3 TMDEV_TM_TAGS=$tags TMDEV_TM_QPN=1 TMDEV_MTU=256 PML_TM_TEST_verbs_window=8 \
        random 51 3
done

echo "== a rendezvous that is left to software has two completions"
over 2 TMDEV_TM_LEFT=2 basic cut 4194305
over 3 TMDEV_TM_LEFT=2 random 52 3

echo "== a list operation takes four places in its queue"
TMDEV_TM_TAGS=1024 TMDEV_TM_OPS=512 TMDEV_TM_BLOCKS=4 tm_mpirun 2 --mca pml_tm_verbose 10 \
    "$(tm_mpi_program hello)" || fail "hello"
require "a list of 1024 receives, a queue of 128 operations"
require "matches tags"
over 3 TMDEV_TM_TAGS=1024 TMDEV_TM_OPS=512 TMDEV_TM_BLOCKS=4 random 53 3

echo "== the receiver's device reads less at a time than the sender's"
tm_by_rank by_rank "env TMDEV_MAX_MSG=65536 $(tm_mpi_program random) 54 3" \
    "$(tm_mpi_program random) 54 3" "env TMDEV_MAX_MSG=1000000 $(tm_mpi_program random) 54 3"
TMDEV_FABRIC=$$.$RANDOM tm_mpirun 3 "$PWD/by_rank" || fail "random"
require "random: errors=0"
[[ ! -s $TM_WORK/err ]] || fail "something on standard error"

echo "== no message finds the receiver without a buffer, answers of devices neither"
answers=$(tm_mpi_program answers)
tm_by_rank by_rank "env PML_TM_TEST_verbs_window=8 $answers" \
    "env PML_TM_TEST_verbs_window=1000 $answers"
TMDEV_TM_TAGS=1024 TMDEV_RNR_IS_MISUSE=1 TMDEV_FABRIC=$$.$RANDOM tm_mpirun 2 "$PWD/by_rank" ||
    fail "answers"
require "answers: errors=0"
[[ ! -s $TM_WORK/err ]] || fail "something on standard error"
