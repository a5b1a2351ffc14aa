#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# TEST: timeout=300 cores=0 quick=no short=ends
#
# A process that is killed in the middle of anything ends the job: soon, with one message that names
# it, and with nothing left behind. So does the death of mpirun.
. "$TM_SRC/test/lib/script.sh"
# shellcheck source-path=SCRIPTDIR source=kill.bash
. "$TM_SRC/test/mpi/kill.bash"

[[ $TM_TEST_PML == none ]] || choice=(--mca pml "$TM_TEST_PML")

# one KIND NP: kill a random rank at a random moment.
one()
{
    kill_one "$@"
    # mpirun breaks the line (5.0), and may name no signal for a process that had just started.
    if [[ $1 != init ]]; then
        (($(tr -s '\0\n' '  ' <err | grep -ao 'exited on signal 9' | wc -l) == 1)) ||
            wrong "$what: not one message of mpirun about signal 9"
        grep -qaF "process rank $victim " err || wrong "$what: the rank is not named"
    fi
    (($(grep -ac 'lost a process' err) <= 1)) || wrong "$what: more than one message of pml tm"
    # The survivors have nothing to add.
    ! grep -qaE 'An error occurred in|Segmentation|Signal: ' err ||
        wrong "$what: messages of other ranks"
}

# orphans KIND NP: kill mpirun; the ranks follow.
orphans()
{
    local kind=$1 np=$2 pid i shm begin
    shm=$(tm_shm_list)
    rm -f out
    # mpirun cannot remove its files then: have them where the test's own are removed.
    (TMPDIR=$TM_WORK start "$np" "$prog" "$kind" -1) &
    for ((i = 0; i < 100; i++)); do
        ! grep -qs running out || break
        sleep 0.1
    done
    require running out
    sleep "0.$((RANDOM % 10))"
    pid=$(ranks | sed -n 1p)
    pid=$(sed -n 's/^PPid:[[:space:]]*//p' "/proc/$pid/status")
    [[ $(cat "/proc/$pid/comm") =~ ^(mpirun|orterun|prterun)$ ]] ||
        fail "process $pid is not mpirun"
    begin=$SECONDS
    kill -KILL "$pid"
    wait_gone "$limit" || wrong "$kind, $np ranks: they live on without mpirun"
    wait || true
    echo "$kind, $np ranks, mpirun killed: $((SECONDS - begin)) s"
    cat err >&2
    check_shm "$shm" "$kind, mpirun killed"
}

for np in 2 4; do
    for kind in init finalize eager rndv bulk coll flood init finalize eager rndv bulk; do
        one "$kind" "$np"
    done
    orphans eager "$np"
    orphans rndv "$np"
done
((failures == 0)) || fail "$failures times"
