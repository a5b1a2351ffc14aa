#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# TEST: timeout=240 cores=0 quick=no short=said
#
# tm_look shows from outside what the ranks of a job do that hangs: what each waits for, and which
# is not in MPI, by shared memory and by TCP; of one rank its counters and events, of a stopped one,
# and of a core dump, which may be anything. The hang report says of a rank that does not answer
# what it does.
. "$TM_SRC/test/lib/script.sh"
hang=$(tm_mpi_program hang)
tm_look=$TM_PREFIX/bin/tm_look

# look STATUS ARGUMENT...: what it says is then in the files said and err.
look()
{
    local rc=0 want=$1
    shift
    "$tm_look" "$@" >said 2>err || rc=$?
    cat said err
    ((rc == want)) || fail "tm_look $* ended with $rc, not $want"
}

# begin NP CASE OPTION...: start a job that hangs; job is its mpirun.
begin()
{
    local np=$1 case=$2
    shift 2
    echo "$np ranks, $case: $*"
    tm_mpirun_flags "$np"
    # shellcheck disable=SC2086 # the case and its option
    mpirun "${tm_mpirun_flags[@]}" --mca pml tm "$@" "$hang" $case >out 2>err.job </dev/null &
    job=$!
}

# mine: what tm_look says of this job's ranks, among other jobs that may run here; sets ranks.
mine()
{
    mapfile -t ranks < <(pgrep -P "$job" hang)
    "$tm_look" >all 2>err || true
    awk -v pids=" ${ranks[*]} " 'index(pids, " " $2 " ")' all >said
}

# until_said TEXT: until a line of tm_look has the text.
until_said()
{
    local i
    for ((i = 0; i < 150; i++)); do
        mine
        ! grep -qF -e "$1" said || break
        sleep 0.2
    done
    cat said
    require "$1" said
}

# until_one_outside: until tm_look shows one rank outside MPI.
until_one_outside()
{
    local i
    for ((i = 0; i < 150; i++)); do
        mine
        (($(grep -c 'outside MPI' said) != 1)) || break
        sleep 0.2
    done
    cat said
    (($(grep -c 'outside MPI' said) == 1)) || fail 'not one rank is outside MPI'
}

end()
{
    kill -9 "${ranks[@]}" || true
    for ((i = 0; i < 50; i++)); do
        kill -0 "$job" 2>gone || break
        sleep 0.2
    done
    kill -9 "$job" 2>gone || true
    wait "$job" || true
}

look 0 --help
require 'Usage: tm_look' said
look 2 --no-such-option
look 1 1 # not one of ours
look 1 "$TM_SRC/README.md"
require 'this is no core dump' err
look 1 "$TM_WORK"
require 'this is a directory' err
look 2 -n many 1
require 'a number is wanted' err

# One rank computes, the others wait for it; and it is stopped.
for by in shm tcp; do
    begin 3 missing --mca pml_tm_providers "$by,self"
    until_said 'receive from rank 0, tag -16 (MPI_Barrier), up to 0 bytes, MPI_COMM_WORLD: no'
    until_one_outside
    (($(wc -l <said) == 3)) || fail 'not all ranks are shown'
    require "3 of 3 ranks on $(hostname)  hang" all
    missing=$(awk '/outside MPI/ && $1 == 2 { print $2 }' said)
    [[ -n $missing ]] || fail 'not rank 2 is outside MPI'
    waiting=$(awk '/receive from rank 0/ { print $2; exit }' said)
    kill -STOP "$missing"
    until_said 'stopped by a signal'
    look 0 "$missing" "$waiting"
    require 'peers_opened ' said
    require 'what waits, at ' said
    require 'receive from rank 0, tag -16' said
    if command -v gdb >/dev/null; then
        gdb -nx -q -batch -p "$waiting" -ex "generate-core-file $TM_WORK/core" >gdb.out 2>&1 ||
            fail "$(cat gdb.out)"
        look 0 core
        require 'last waited at ' said
        require 'receive from rank 0, tag -16' said
        require 'peers_opened ' said
        rm core
    fi
    end
done

# With threads; a message was announced to both.
begin 2 'cycle threads'
until_said 'send to rank 1, tag 7, 1048576 bytes, MPI_COMM_WORLD: the receiver knows of it'
look 0 "${ranks[0]}"
require 'opened: rank ' said
require 'message announced by rank ' said
require ', tag 7, 1048576 bytes' said
end

# A rank that sends and receives, and never waits, is not outside MPI.
begin 1 myself_often
until_said 'sends and receives, and does not wait'
look 0 "${ranks[0]}"
require 'sends and receives, and does not wait' said
end

# What is no process may be anything.
head -c 100000 /dev/urandom >random
look 1 random
{ head -c 64 /proc/self/exe && head -c 100000 /dev/urandom; } >random
printf '\x04' | dd of=random bs=1 seek=16 conv=notrunc status=none # a core dump, it says
look 1 random

# The hang report.
begin 3 missing --mca pml_tm_report_after 1
for ((i = 0; i < 100; i++)); do
    ! grep -aqF 'of this host, which' err.job || break
    sleep 0.2
done
cat err.job
mine
end
require 'Rank 2 is process ' err.job
require ' (hang) of this host, which ' err.job
