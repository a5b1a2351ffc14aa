# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash
# For scripts that kill processes of a job: sourced after script.sh.
#
# Ranks and moments are random; TM_SEED repeats a run's choice.
. "$TM_SRC/test/lib/job.sh"

limit=20 # seconds for a job to end

# A program of a name that only this test's processes have.
prog=$TM_WORK/kill
cp "$(tm_mpi_program kill)" "$prog"

# ranks: print the process ids of this test's ranks.
ranks()
{
    find /proc/[0-9]*/exe -prune -lname "$prog" 2>/dev/null | sed -E 's@/proc/([0-9]+)/exe@\1@' ||
        true
}

# wait_gone SECONDS: until no rank is left; fails if one is.
wait_gone()
{
    local i pid
    for ((i = 0; i < $1 * 10; i++)); do
        [[ -n $(ranks) ]] || return 0
        sleep 0.1
    done
    for pid in $(ranks); do
        echo "left behind: $pid $(tr '\0' ' ' 2>/dev/null <"/proc/$pid/cmdline")" >&2
        timeout 20 gdb -p "$pid" -batch -nx -ex 'thread apply all bt 20' </dev/null 2>/dev/null |
            grep -E '^(#|Thread)' >&2 || true
        kill -KILL "$pid" 2>/dev/null || true
    done
    return 1
}

# Further options of mpirun, for the script to set.
choice=()

# start NP COMMAND...: run it under mpirun with the time limit; output in out and err.
start()
{
    local tm_mpirun_flags
    tm_mpirun_flags "$1"
    shift
    exec timeout -k 5 "$limit" mpirun "${tm_mpirun_flags[@]}" ${choice[@]+"${choice[@]}"} \
        "$@" >out 2>err </dev/null
}

# wrong TEXT...: note a failure; the rest is tried, too.
failures=0
wrong()
{
    echo "FAILED: $*" >&2
    failures=$((failures + 1))
}

# check_shm BEFORE TEXT
check_shm()
{
    local left i
    for ((i = 0; i < 10; i++)); do
        left=$(tm_shm_new "$1")
        [[ -n $left ]] || return 0
        sleep 0.1
    done
    wrong "$2: left in /dev/shm: $left"
}

# Jobs whose mpirun hung by itself.
hung_upstream=0

# kill_one KIND NP: kill a random rank of such a job (kill.c) at a random moment: the job ends in
# time and in error, and leaves nothing. Sets what, and victim.
#
# A process may die while it connects to mpirun, before it knows of any component. Then mpirun of
# Open MPI 4.1 may print an error of PMIx and wait for ever: once, another moment is tried.
kill_one()
{
    local kind=$1 np=$2 delay=$((RANDOM * 30)) rc=0 shm begin
    victim=$((RANDOM % np))
    [[ $kind != finalize ]] || delay=$((RANDOM / 2))
    shm=$(tm_shm_list)
    begin=$SECONDS
    (start "$np" "$prog" "$kind" "$victim" "$delay") || rc=$?
    what="$kind, $np ranks, rank $victim killed after $delay us"
    echo "$what: status $rc, $((SECONDS - begin)) s"
    cat err >&2
    if ((SECONDS - begin >= limit && hung_upstream == 0)) &&
        grep -qa 'PMIX ERROR.*ptl_base_connection_hdlr' err; then
        hung_upstream=1
        wait_gone 2 || true
        kill_one "$@"
        return
    fi
    ((rc != 124 && SECONDS - begin < limit)) || wrong "$what: not over after $limit s"
    ((rc != 0)) || wrong "$what: mpirun's status is 0"
    wait_gone 2 || wrong "$what: processes left behind"
    check_shm "$shm" "$what"
}

seed=${TM_SEED:-$RANDOM}
echo "TM_SEED=$seed"
RANDOM=$seed
