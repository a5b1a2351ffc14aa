#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# TEST: timeout=600 device=tmdev
#
# MPI programs over the verbs device in software (test/tmdev) with receives on its list: random
# traffic with lists that are long and too short, and with the faults that bring device and software
# to match at the same time. TM_TEST_DEVICE=tmdev test/run has the other programs, which are here a
# few for an Open MPI that it is not run with.
. "$TM_SRC/test/lib/script.sh"
# shellcheck source-path=SCRIPTDIR source=../lib/verbs.sh
. "$TM_SRC/test/lib/verbs.sh"

lists=(4 1024) seeds=(1 2 3 4 5 6 7 8 9 10) programs=(basic) turn=$(tm_turn 2)
[[ -z $turn ]] || seeds=("${seeds[@]:5*turn:5}") # each kind of faults with one of the lists
if [[ $TM_OMPI_SERIES != 4.1 ]]; then # the same code under another Open MPI
    lists=(4) seeds=(1 2) programs=(basic ordering probe cancel cancel_send persistent comms
        comm_kinds)
    over 2 TMDEV_TM_TAGS=4 basic cut,types 1100000
fi

# Does the device match, or is it left out?
tm_mpirun 2 --mca pml_tm_verbose 10 "$(tm_mpi_program hello)" || fail "hello"
require "matches tags"
require "the driver takes no locks"
over 2 counters listed verbs_tm_listed_user listed_matched verbs_tm_rndv
over 2 overlap
over 2 TMDEV_POLL=0 overlap 300000
over 2 TMDEV_TM_RNDV=0 basic
for tags in "${lists[@]}"; do
    for program in "${programs[@]}"; do
        over 2 "TMDEV_TM_TAGS=$tags" "$program"
    done
    over 4 "TMDEV_TM_TAGS=$tags" collectives
    over 3 "TMDEV_TM_TAGS=$tags" random "$(tm_seed 31)" "$(tm_seconds 5)"
done
# Both at once: what is late comes apart, overtakes and is refused; commands are held back.
for seed in "${seeds[@]}"; do
    case $((seed % 5)) in
        0) faults=(TMDEV_DELAY_US=200 TMDEV_HOLD_US=300) ;;
        1) faults=(TMDEV_HOLD_US=300 TMDEV_RNR=100) ;;
        2) faults=(TMDEV_MTU=1024 TMDEV_DELAY_US=200) ;;
        3) faults=(TMDEV_MTU=256 TMDEV_HOLD_US=100 OMPI_MCA_pml_tm_unexpected_max=65536) ;;
        4) faults=(TMDEV_RNR=100 TMDEV_DELAY_US=400 OMPI_MCA_pml_tm_eager_limit=300) ;;
    esac
    over 3 TMDEV_TM_TAGS=$((seed % 2 ? 4 : 1024)) "TMDEV_SEED=$seed" "${faults[@]}" random \
        "$(tm_seed $((40 + seed)))" "$(tm_seconds 3)"
done
over 2 OMPI_MCA_pml_tm_eager_limit=0 random "$(tm_seed 35)" "$(tm_seconds 5)"
over 2 TMDEV_FAIL=srq_tm basic
over 2 TMDEV_FAIL=td basic

echo "== each process with another eager limit, one without the list"
random=$(tm_mpi_program random)
tm_by_rank by_rank "env PML_TM_TEST_verbs_eager=512 $random 37 3" \
    "env PML_TM_TEST_verbs_eager=65536 $random 37 3" \
    "env PML_TM_TEST_verbs_eager=1000 TMDEV_TM_TAGS=0 $random 37 3" "$random 37 3"
TMDEV_FABRIC=$$.$RANDOM tm_mpirun 4 "$PWD/by_rank" || fail "random"
require "random: errors=0"
[[ ! -s $TM_WORK/err ]] || fail "something on standard error"
over 2 random "$(tm_seed 36)" "$(tm_seconds 5)" threads=2
