#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# TEST: timeout=300 cores=0 device=tmdev ompi=4.1 short=failures
#
# What fails while receives are on the list of a device that matches tags: a rank that is killed, in
# the middle of anything, and a queue pair. The job ends, with a message that says why; test/run
# sees to it that nothing is left.
. "$TM_SRC/test/lib/script.sh"
# shellcheck source-path=SCRIPTDIR source=../lib/verbs.sh
. "$TM_SRC/test/lib/verbs.sh"

export OMPI_MCA_btl=self # others leave files in /dev/shm when they are killed
limit=$((25 * ${TM_TEST_TIMEOUT_SCALE:-1})) # seconds for a job to end

# ends NP [NAME=VALUE...] PROGRAM ARGUMENT...: the job is over within the limit, in failure. With
# recovery=yes mpirun leaves it to pml tm to notice, and says nothing by its status.
recovery=no
ends()
{
    local np=$1 environment words name begin=$SECONDS flags=() rc=0
    settings "${@:2}"
    name=${words[0]}
    set -- "${words[@]:1}"
    echo "== $np ranks, recovery $recovery, ${environment[*]} $name $*"
    [[ $recovery == no ]] || flags=(--enable-recovery)
    tm_mpirun_flags "$np"
    (
        # shellcheck disable=SC2031
        export TMDEV_FABRIC=$$.$RANDOM ${environment[@]+"${environment[@]}"}
        timeout -k 5 "$limit" mpirun "${tm_mpirun_flags[@]}" --mca pml "$TM_TEST_PML" \
            ${flags[@]+"${flags[@]}"} \
            "$(tm_mpi_program "$name")" "$@" >"$TM_WORK/out" 2>"$TM_WORK/err" </dev/null
    ) || rc=$?
    cat "$TM_WORK/out"
    cat "$TM_WORK/err" >&2
    [[ $rc != 0 || $recovery == yes ]] || fail "$name: the job did not fail"
    ((rc != 124 && SECONDS - begin < limit)) || fail "$name: not over after $limit s"
    forbid 'Segmentation|Signal: |An error occurred in|is complete and not|this shows nothing'
}

RANDOM=${TM_SEED:-1}
for tags in 4 1024; do
    for kind in eager rndv coll flood finalize; do
        victim=$((RANDOM % 3))
        ends 3 TMDEV_TM_TAGS=$tags kill "$kind" "$victim" $((RANDOM * 10))
        require "process rank $victim "
    done
    # messages that are half there: their packets are late
    ends 3 TMDEV_TM_TAGS=$tags TMDEV_MTU=256 TMDEV_DELAY_US=500 kill eager 1 300000
    require "process rank 1 "
done

# pml_tm itself notices
recovery=yes
for tags in 4 1024; do
    ends 3 TMDEV_TM_TAGS=$tags kill eager 1 300000
    require "lost a process"
    ends 3 TMDEV_TM_TAGS=$tags TMDEV_MTU=256 TMDEV_DELAY_US=500 kill eager 2 300000
    require "lost a process"
    ends 3 TMDEV_TM_TAGS=$tags tm_faults cancel
    require "lost a process"
    (($(grep -ac 'cancelled, 0 errors' "$TM_WORK/out") == 2)) ||
        fail "receives from a rank that died are not cancelled"
done

# Another process than the one whose device fails may be the first to end the job: that one took no
# more messages, or gave it up while its memory was read.
by_another='It takes no more messages|It has left'

# a queue pair fails at one of its ends, or everywhere
recovery=no
for which in 2 0; do # 2: the one that takes the messages of the first peer
    for faults in TMDEV_TM_TAGS=4 TMDEV_TM_TAGS=1024 TMDEV_MTU=256; do
        ends 3 "$faults" TMDEV_QP_ERROR=400 "TMDEV_QP_ERROR_QP=$which" tm_faults traffic
        require "running"
        require "lost a process"
        grep -aqE "The connection to it broke|A message from it was lost|$by_another" \
            "$TM_WORK/err" || fail "no reason"
    done
done

# What the device reports cannot be, or it cannot be polled: it is given up, and with it the job.
named=0
for fault in TMDEV_TM_ERROR=general:100 TMDEV_TM_ERROR=command:100 TMDEV_POLL_ERROR=start:200 \
    TMDEV_POLL_ERROR=next:50; do
    ends 3 "$fault" tm_faults traffic
    require "lost a process"
    grep -aqE "broke in matching tags|$by_another" "$TM_WORK/err" || fail "no reason"
    named=$((named + $(grep -ac 'broke in matching tags' "$TM_WORK/err" || true)))
done
((named > 0)) || fail "no process says that the device broke"
ends 3 OMPI_MCA_pml_tm_verbs_tm=none TMDEV_POLL_ERROR=poll:300 verbs_events 1000
grep -aqE "cannot be polled|$by_another" "$TM_WORK/err" || fail "no reason"
