#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# TEST: cores=0 short=failures timeout=400 quick=no needs=python3
#
# A job that hangs says why (pml_tm_report_after): who waits for whom, what nearly fits, and for
# which rank all wait, by shared memory and by TCP (in a short run by one of them, by turns). A job
# that only is slow hears nothing of a circle, and a report ends no job (hang.c). doc/diagnosis.md
# shows what is printed here.
. "$TM_SRC/test/lib/script.sh"
# shellcheck source-path=SCRIPTDIR source=documented.bash
. "$TM_SRC/test/mpi/documented.bash"
hang=$(tm_mpi_program hang)

# has TEXT...: does the output have all of these?
has()
{
    local text
    for text in "$@"; do
        grep -aqF -e "$text" "$TM_WORK/err" || return 1
    done
}

signal= # that `hangs` sends to the ranks

# hangs NP "OPTION..." "CASE [threads]" TEXT...: run it until its reports have all of these texts,
# and end it.
hangs()
{
    local np=$1 flags what pid i ranks
    read -ra flags <<<"$2"
    read -ra what <<<"$3"
    echo "$np ranks, $2: $3"
    tm_mpirun_flags "$np"
    mpirun "${tm_mpirun_flags[@]}" --mca pml tm "${flags[@]}" "$hang" "${what[@]}" \
        >"$TM_WORK/out" 2>"$TM_WORK/err" </dev/null &
    pid=$!
    shift 3
    for ((i = 0; i < 300; i++)); do
        if has "$@" || ! kill -0 "$pid" 2>"$TM_WORK/gone"; then
            break
        fi
        mapfile -t ranks < <(pgrep -P "$pid" hang)
        if [[ -n $signal ]] && ((i % 10 == 9 && ${#ranks[@]} > 0)); then
            kill -s "$signal" "${ranks[@]}" || true
        fi
        sleep 0.2
    done
    mapfile -t ranks < <(pgrep -P "$pid")
    ((${#ranks[@]} == 0)) || kill -9 "${ranks[@]}" || true
    for ((i = 0; i < 50; i++)); do # mpirun may not end if a rank was in MPI_Finalize
        kill -0 "$pid" 2>"$TM_WORK/gone" || break
        sleep 0.2
    done
    kill -9 "$pid" 2>"$TM_WORK/gone" || true
    wait "$pid" || true
    cat "$TM_WORK/err"
    for text in "$@"; do
        require "$text"
    done
    forbid 'malformed'
}

after='--mca pml_tm_report_after 1' ways=(shm tcp) turn=$(tm_turn 2)
[[ -z $turn ]] || ways=("${ways[turn]}")
for by in "${ways[@]}"; do
    options="$after --mca pml_tm_providers $by,self"
    hangs 2 "$options" cycle '2 ranks wait for each other; rank 0 has waited' \
        'MPI_Send to rank 1, tag 7, 1048576 bytes, MPI_COMM_WORLD: the receiver knows of it' \
        'MPI_Send to rank 0, tag 7, 1048576 bytes, MPI_COMM_WORLD: the receiver knows of it' \
        "Each has the other's message and no receive for it"
    forbid 'nearly'
    documented 'Two ranks send to each other first'
    hangs 2 "$options" wrong_tag 'MPI_Recv from rank 1, tag 12, up to 1048576 bytes' \
        'nearly: from rank 1, tag 11, 800 bytes, MPI_COMM_WORLD: another tag' \
        'For rank 0 a message is there that differs only in the tag: one of the two is wrong'
    forbid 'send first'
    documented 'Another tag'
    hangs 2 "$options" wrong_comm 'MPI_Recv from rank 1, tag 7, up to 1048576 bytes, row' \
        'nearly: from rank 1, tag 7, 800 bytes, MPI_COMM_WORLD: another communicator' \
        'a message is there that differs only in the communicator: one of the two is wrong'
    forbid 'send first'
    documented 'Another communicator'
    # What nearly fits at another rank is in the report, too.
    hangs 4 "$options" wrong_tags '4 ranks wait for each other' \
        'nearly: from rank 3, tag 11, 400 bytes' 'nearly: from rank 0, tag 11, 400 bytes' \
        'nearly: from rank 1, tag 11, 400 bytes' 'nearly: from rank 2, tag 11, 400 bytes' \
        'differs only in the tag'
    forbid 'send first|ranks that wait for each other'
    hangs 2 "$options" orders 'MPI_Recv from any rank, tag 7, up to 8 bytes' \
        'Rank 0 is in MPI_Recv, rank 1 in MPI_Barrier: they call in different orders'
    forbid 'send first'
    documented 'Another order'
    hangs 4 "$options" missing 'MPI_Barrier from ' '(MPI_Barrier)' \
        '3 ranks wait for rank 2, directly or through others' \
        'rank 2    has not answered for 2 s: it does not call MPI'
    forbid 'wait for each other'
    documented 'One rank does not call the collective operation'
done
# The same for programs, a document for each report.
hangs 2 "$after --mca pml_tm_report_file $PWD/job" cycle '2 ranks wait for each other'
hangs 3 "$after --mca pml_tm_report_file $PWD/late" missing '2 ranks wait for rank 2'
python3 - <<'END' || fail 'the documents are not what was printed'
import glob, json
circle = json.load(open("job.wait.0.1.json"))
assert (circle["report"], circle["kind"], circle["circle"]) == ("wait", "circle", 2), circle
assert [rank["rank"] for rank in circle["ranks"]] == [0, 1], circle
for me, rank in enumerate(circle["ranks"]):
    assert rank["status"] == "answers" and rank["call"] == "MPI_Send", circle
    assert rank["waits_for"] == 1 - me and rank["waited_s"] >= 1, circle
    assert rank["waits"] == [{"for": "match", "rank": 1 - me, "tag": 7, "bytes": 1048576,
                              "communicator": "MPI_COMM_WORLD"}], circle
(name,) = glob.glob("late.wait.*.1.json") # whoever waits for it directly
late = json.load(open(name))
assert late["kind"] == "wait" and late["ranks"][0]["call"] == "MPI_Barrier", late
(missing,) = [rank for rank in late["ranks"] if rank["rank"] == 2]
assert missing["status"] == "does not call MPI", late
END
hangs 4 "$after" missing_ends '3 ranks wait for rank 2' \
    'is in MPI_Finalize, and waits for no message'
hangs 4 "$after" tail '3 ranks wait for each other; rank 0' 'MPI_Recv from rank 2, tag 7' \
    'MPI_Recv from rank 0, tag 7'
forbid '^  rank 3 '
hangs 2 "$after" flood 'MPI_Send to rank 0, tag 7, 4096 bytes' 'no room towards' \
    'rank 0    has not answered'
forbid 'wait for each other'
documented 'The sender is faster than the receiver'
hangs 2 "$after --mca pml_tm_shm_single_copy none" halfway \
    'MPI_Recv from rank 0, tag 7, 1048576 bytes, MPI_COMM_WORLD: data is on the way' \
    'rank 0    has not answered'
hangs 4 "$after" any 'ranks wait for each other' 'MPI_Recv from any rank, tag 7, up to 8 bytes'
hangs 4 "$after" any_but_one '3 ranks wait for rank 3'
forbid 'wait for each other'
hangs 1 "$after" myself 'rank 0 has waited for' 'for itself' 'MPI_Ssend to rank 0'
hangs 2 "$after" waitall '2 ranks wait for each other' \
    'MPI_Waitall to rank 1' 'MPI_Probe from rank 0'

# Who asks in a loop shows what it asks for, not the receives that it has posted, and is in no
# circle.
hangs 2 "$after" iprobe 'MPI_Recv from rank 0, tag 7' \
    'MPI_Iprobe from rank 1, tag 12, MPI_COMM_WORLD: no message fits' \
    '(in a loop: the call returns if there is none'
forbid 'tag 16'
forbid 'wait for each other'

# A program may ask for reports while it runs; nothing else needs to be on.
hangs 2 '' by_tool '2 ranks wait for each other; rank 0 has waited'

# With threads another one may go on. With a signal all report, and who does not call MPI shows
# where it is.
hangs 2 "$after" "cycle threads" \
    '2 ranks wait for each other, unless other threads of theirs go on' 'MPI_Send to rank 0'
# Each of two threads in different calls tells its own wait.
hangs 2 "$after" "two_calls threads" 'unless other threads of theirs go on' \
    'rank 0 ' 'MPI_Recv from rank 1, tag 7' 'MPI_Ssend to rank 1, tag 8' \
    'nearly: from rank 0, tag 8, 8 bytes, MPI_COMM_WORLD: another tag'
# No lock is held while it is found out where the call is, and what a silent process does.
hangs 2 "$after" "unlocked threads" 'backtrace: another thread has sent' \
    'opendir: another thread has sent' 'Rank 1 is process '
forbid 'no other thread can send'
signal=USR1
hangs 4 '--mca pml_tm_report_signal 10' missing 'rank 0 has waited for' 'rank 1 has waited for' \
    'rank 3 has waited for' 'this process does not call MPI; its stack:'
signal=

# It moves: each waits for up to two seconds, and the job ends well.
for by in "${ways[@]}"; do
    tm_mpirun 3 --mca pml_tm_report_after 1 --mca pml_tm_providers "$by,self" "$hang" slow ||
        fail "exit status $?"
    require 'hang: done'
    forbid 'wait for each other'
done

# With threads, too, nobody is in a circle whose wait has just begun.
tm_mpirun 2 --mca pml_tm_report_after 1 "$hang" busy_thread threads || fail "exit status $?"
require 'hang: done'
forbid '; 0\.0 s$'

# So does random traffic, of which each wait is short or not.
tm_mpirun 4 --mca pml_tm_report_after 1 "$(tm_mpi_program random)" 0 "$(tm_seconds 10)" ||
    fail "exit status $?"
forbid 'wait for each other'
