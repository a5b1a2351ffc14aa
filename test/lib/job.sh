# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash disable=SC2034 # tm_job_* are for the caller
# Run one command under watch: with a time limit, and looking at what it leaves behind.

# tm_marked ID: print the ids of the live processes that were started, however indirectly, under this id.
tm_marked()
{
    local file
    { grep -lszxF "TM_TEST_ID=$1" /proc/[0-9]*/environ || true; } | while read -r file; do
        file=${file#/proc/}
        echo "${file%/environ}"
    done
}

# tm_stacks ID: show where the processes of a test are.
tm_stacks()
{
    local pid
    for pid in $(tm_marked "$1"); do
        echo "--- process $pid: $(tr '\0' ' ' <"/proc/$pid/cmdline" 2>/dev/null)"
        if command -v gdb >/dev/null; then
            timeout 20 gdb -p "$pid" -batch -nx -ex 'set print frame-arguments scalars' -ex 'thread apply all bt 20' \
                </dev/null 2>/dev/null | grep -E '^(#|Thread)' || true
        fi
    done
}

# tm_kill_marked ID
tm_kill_marked()
{
    local pids
    mapfile -t pids < <(tm_marked "$1")
    ((${#pids[@]} == 0)) || kill -KILL "${pids[@]}" 2>/dev/null || true
}

# tm_shm_list: the files in /dev/shm now.
tm_shm_list()
{
    find /dev/shm -mindepth 1 2>/dev/null | LC_ALL=C sort
}

# tm_shm_new BEFORE: print the files in /dev/shm that are not in the list BEFORE, unless a live process has them in use (it
# is not of this test, whose processes are gone by now: someone else runs MPI programs here).  Those of Open MPI's own BTL for
# shared memory (5.0: sm, 4.1: vader) it removes: they are left by whoever is killed, as mpirun does with the other processes of a
# job when one has failed to start.
tm_shm_new()
{
    local file
    LC_ALL=C comm -13 <(echo "$1") <(tm_shm_list) | while read -r file; do
        if [[ -e $file ]] && ! grep -qsF "$file" /proc/[0-9]*/maps &&
            ! find /proc/[0-9]*/fd -lname "$file" -print -quit 2>/dev/null | grep -q .; then
            case ${file##*/} in
                sm_segment.* | vader_segment.*) rm -f "$file" ;;
                *) echo "$file" ;;
            esac
        fi
    done
}

# tm_job OUT ERR SECONDS COMMAND...
# Run the command with its standard output and error in these files.  Sets tm_job_status to its exit status, or 124 when it
# ran past the time limit (the stacks are then in ERR), and tm_job_left to what it left behind, empty if nothing.
tm_job()
{
    local out=$1 err=$2 limit=$3 id shm pid alarm finished=0 i left
    shift 3
    id=$BASHPID-$RANDOM-$SECONDS-$RANDOM
    shm=$(tm_shm_list)
    tm_job_status=0
    tm_job_left=

    env TM_TEST_ID="$id" setsid "$@" </dev/null >"$out" 2>"$err" &
    pid=$!
    sleep "$limit" &
    alarm=$!
    wait -n -p finished "$pid" "$alarm" || tm_job_status=$?
    if [[ $finished == "$alarm" ]]; then
        {
            echo "TIMEOUT: not done after $limit s; where it was:"
            tm_stacks "$id"
        } >>"$err"
        {
            kill -TERM "$pid" || true
            for ((i = 0; i < 30; i++)); do
                kill -0 "$pid" || break
                sleep 0.1
            done
            tm_kill_marked "$id"
            wait "$pid" || true
        } 2>/dev/null
        tm_job_status=124
    else
        kill "$alarm" 2>/dev/null || true
        wait "$alarm" 2>/dev/null || true
    fi

    # A moment of grace: after mpirun has gone, its processes may take one to follow.
    for ((i = 0; i < 20; i++)); do
        left=$(tm_marked "$id")
        [[ -n $left ]] || break
        sleep 0.1
    done
    if [[ -n $left ]]; then
        for pid in $left; do
            tm_job_left+="process left behind: $pid $(tr '\0' ' ' 2>/dev/null <"/proc/$pid/cmdline")"$'\n'
        done
        tm_kill_marked "$id"
    fi
    for ((i = 0; i < 10; i++)); do
        left=$(tm_shm_new "$shm")
        [[ -n $left ]] || break
        sleep 0.1
    done
    for i in $left; do
        tm_job_left+="file left behind: $i"$'\n'
    done
}
