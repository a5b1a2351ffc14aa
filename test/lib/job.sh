# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash disable=SC2034 # tm_job_* are for the caller
# Run one command under watch: with a time limit, and looking at what it leaves behind.

# tm_marked ID: print the ids of the live processes that were started, however indirectly, under
# this id.
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
            timeout 20 gdb -p "$pid" -batch -nx -ex 'set print frame-arguments scalars' \
                -ex 'thread apply all bt 20' </dev/null 2>/dev/null | grep -E '^(#|Thread)' || true
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

# tm_shm_new BEFORE: print the files in /dev/shm that are not in the list BEFORE, unless a live
# process has them in use (it is not of this test, whose processes are gone by now: someone else
# runs MPI programs here).  Those of Open MPI's own BTL for shared memory (5.0: sm, 4.1: vader) it
# removes: they are left by whoever is killed, as mpirun does with the other processes of a job when
# one has failed to start.
tm_shm_new()
{
    local file
    LC_ALL=C comm -13 <(echo "$1") <(tm_shm_list) | while read -r file; do
        if [[ -e $file ]] && ! grep -qsF "$file" /proc/[0-9]*/maps &&
            ! find /proc/[0-9]*/fd -lname "$file" -print -quit 2>/dev/null | grep . >/dev/null; then
            case ${file##*/} in
                sm_segment.* | vader_segment.* | osc_rdma.*) rm -f "$file" ;;
                *) echo "$file" ;;
            esac
        fi
    done
}

# tm_can_isolate: can commands have a /dev/shm of their own here?
tm_can_isolate()
{
    # shellcheck disable=SC2016 # expanded by the inner shell
    ((EUID == 0)) &&
        unshare --mount --propagation private sh -c 'mount -t tmpfs tmpfs /dev/shm' 2>/dev/null
}

# tm_limit SECONDS: returns after that time, in which a second counts less where more processes want
# to run than there are processors: a busy machine must fail no test.
tm_limit()
{
    local left=$(($1 * 1000)) cores running never
    cores=$(nproc)
    exec {never}<> <(:)
    while ((left > 0)); do
        read -rt 1 -u "$never" || true
        read -r _ _ _ running _ </proc/loadavg
        running=${running%/*}
        left=$((left - 1000 * cores / (running > cores ? running : cores)))
    done
}

# tm_job_start ID SHM COMMAND...: become the command, marked, with the file system SHM (if it names
# one) as /dev/shm.
tm_job_start()
{
    local id=$1 shm=$2
    shift 2
    export TM_TEST_ID=$id
    [[ -n $shm ]] || exec setsid "$@"
    # shellcheck disable=SC2016 # expanded by the inner shell
    exec setsid unshare --mount --propagation private sh \
        -c 'mount --bind "$0" /dev/shm && exec "$@"' "$shm" "$@"
}

# tm_left_in_shm SHM BEFORE: the files that a command whose /dev/shm this was has left, or without
# one, those not in the list BEFORE.
tm_left_in_shm()
{
    if [[ -n $1 ]]; then
        find "$1" -mindepth 1 ! -name 'sm_segment.*' ! -name 'vader_segment.*' \
            ! -name 'osc_rdma.*' -printf '/dev/shm/%P\n'
    else
        tm_shm_new "$2"
    fi
}

# tm_job OUT ERR SECONDS COMMAND...
# Run the command with its standard output and error in these files, and with a /dev/shm of its own
# if tm_isolated is yes (then in a mount namespace that the caller has made).  Sets tm_job_status to
# its exit status, or 124 when it ran past the time limit (the stacks are then in ERR), and
# tm_job_left to what it left behind, empty if nothing.
tm_job()
{
    local out=$1 err=$2 limit=$3 id shm='' before='' pid alarm finished=0 i left command
    shift 3
    id=$BASHPID-$RANDOM-$SECONDS-$RANDOM
    if [[ ${tm_isolated-} == yes ]]; then
        shm=$(mktemp -d "${TMPDIR:-/tmp}/tm-shm.XXXXXX")
        mount -t tmpfs -o mode=1777 tmpfs "$shm"
    else
        before=$(tm_shm_list)
    fi
    tm_job_status=0
    tm_job_left=

    tm_job_start "$id" "$shm" "$@" </dev/null >"$out" 2>"$err" &
    pid=$!
    tm_limit "$limit" &
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
            command=$(tr '\0' ' ' 2>/dev/null <"/proc/$pid/cmdline" || true)
            tm_job_left+="process left behind: $pid $command"$'\n'
        done
        tm_kill_marked "$id"
    fi
    for ((i = 0; i < 10; i++)); do
        left=$(tm_left_in_shm "$shm" "$before")
        [[ -n $left ]] || break
        sleep 0.1
    done
    for i in $left; do
        tm_job_left+="file left behind: $i"$'\n'
    done
    if [[ -n $shm ]]; then
        umount --lazy "$shm"
        rmdir "$shm"
    fi
}

# tm_is_upstream REGEX ERR: do the stacks in ERR show the fault of Open MPI that REGEX names, and
# nothing of ours?  A process that is in the component counts against it, unless it is in a call
# that waits for the runtime on behalf of others (a rank that waits in MPI_Comm_spawn for the one
# that spawns).
tm_is_upstream()
{
    awk -v upstream="$1" '
        function end_process()
        {
            if (text ~ upstream)
                seen = 1
            else if (text ~ ours && text !~ calls)
                inside = 1
            text = ""
        }
        BEGIN {
            ours = "(mca_pml_tm|fab)_[a-z_]+ \\(|at [^ ]*(pml_tm|common)/[a-z_/]+[.][ch]:"
            calls = "MPI_Comm_(spawn|spawn_multiple|connect|accept|join|disconnect) "
            calls = calls "|MPI_(Init|Init_thread|Finalize) |ompi_mpi_(init|finalize) "
        }
        /^--- process / { end_process(); next }
        { text = text "\n" $0 }
        END { end_process(); exit !(seen && !inside) }' <(sed -n '/^TIMEOUT: /,$p' "$2")
}
