#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# TEST: timeout=240 quick=no cores=2
#
# With pml_tm_recorder 2 each message is recorded where it leaves and where it arrives, whatever way
# it takes, and tm_trace finds both ends of each: of trace.c by shared memory and by TCP, with
# threads, with all parameters that choose ways; and of random traffic. It writes JSON that can be
# read, text, and, where it was built with OTF2, an archive. At level 1 only those are there that
# were announced.
. "$TM_SRC/test/lib/script.sh"
trace=$TM_PREFIX/bin/tm_trace
dir=$TM_WORK/look

# traces STATUS ARGUMENT...: what it says is then in the files said and err.
traces()
{
    local rc=0 want=$1
    shift
    "$trace" "$@" >said 2>err.trace || rc=$?
    cat err.trace
    ((rc == want)) || fail "tm_trace $* ended with $rc, not $want"
}

# records NP OPTION... PROGRAM ARGUMENT...: run it, recorded.
records()
{
    local np=$1
    shift
    echo "$np ranks: $*"
    rm -rf "$dir"
    tm_mpirun "$np" --mca pml_tm_recorder_dir "$dir" --mca pml_tm_recorder_size 4194304 "$@" ||
        fail "exit status $?"
}

# has_all: both ends of all messages are there; sets paired to how many.
has_all()
{
    traces 0 -o trace.json "$dir"
    require ' 0 with one of them missing; 0 events had been overwritten' err.trace
    paired=$(sed -nE 's/.* ([0-9]+) messages from departure to arrival.*/\1/p' err.trace)
}

traces 2
traces 2 --no-such-option
traces 0 --help
require 'Usage: tm_trace' said
mkdir none
traces 1 none
traces 1 no_such_file
traces 2 -m many none
traces 2 -t -a archive none

program=$(tm_mpi_program trace)
for options in '--mca pml_tm_providers shm,self' '--mca pml_tm_providers tcp,self' \
    '--mca pml_tm_shm_single_copy none' '--mca pml_tm_wait spin' '--mca pml_tm_eager_limit 0'; do
    read -ra flags <<<"$options"
    for threads in '' threads; do
        records 2 --mca pml_tm_recorder 2 "${flags[@]}" "$program" $threads
        sent=$(sed -n 's/^messages: //p' "$TM_WORK/out")
        has_all
        ((paired >= sent)) || fail "$paired messages are recorded, $sent were sent"
    done
done
records 3 --mca pml_tm_recorder 2 "$program"
has_all
(($(grep -c '"ph":"s"' trace.json) == paired)) || fail 'not an arrow for each message'
(($(grep -c '"ph":"f"' trace.json) == paired)) || fail 'not an arrow for each message'
(($(grep -c '"thread_sort_index"' trace.json) == 3 * 4)) || fail 'rows have no order'
otf2=no
! grep -q '^#define TM_HAVE_OTF2' "$TM_BUILD/tm_config.h" || otf2=yes
if [[ $otf2 == yes ]] && command -v otf2-print >/dev/null; then
    traces 0 -a archive "$dir"
    otf2-print archive/trace.otf2 >printed
    for side in SEND RECV; do
        (($(grep -c "^MPI_$side " printed) == paired)) || fail "not an MPI_$side for each message"
    done
    grep -qE '^MPI_SEND +0 .* Receiver: 1 \("rank 1" <1>\), .* Tag: 3, Length: 41$' printed ||
        fail 'not from rank 0 to rank 1'
    traces 1 -a archive "$dir" # it is there already
elif [[ $otf2 == no ]]; then
    traces 1 -a archive "$dir"
    require 'built without' err.trace
fi
grep -q '"ph":"b","pid":1,"tid":2,"name":"send 300000 bytes to rank 2"' trace.json ||
    fail 'no rendezvous'
if command -v python3 >/dev/null; then
    python3 -m json.tool trace.json >/dev/null || fail 'this is no JSON'
fi
traces 0 -t "$dir"
(($(grep -c 'rank 0     message sent to rank 1, tag 3, 41 bytes' said) == 60)) ||
    fail 'not all of tag 3'
(($(grep -c 'rank 1     message arrived from rank 0, tag 3, 41 bytes' said) == 60)) ||
    fail 'not all of tag 3'
sort -s -c -n -k 1,1 said || fail 'not in the order of time'
traces 0 -m 10 -t "$dir/"*.tmlook
(($(wc -l <said) == 10)) || fail 'not 10 events'

records 3 --mca pml_tm_recorder 2 "$(tm_mpi_program random)" 0 3
has_all

records 2 "$program"
has_all
require 'message announced to' <("$trace" -t "$dir" 2>/dev/null)
forbid 'message sent to' <("$trace" -t "$dir" 2>/dev/null)

if [[ $otf2 == yes ]] && command -v otf2-print >/dev/null; then
    records 2 "$(tm_mpi_program report)" late
    traces 0 -a waits "$dir"
    otf2-print waits/trace.otf2 >printed
    (($(grep -c '^ENTER ' printed) > 0)) || fail 'no waits'
    (($(grep -c '^ENTER ' printed) == $(grep -c '^LEAVE ' printed))) || fail 'not all waits end'
fi

# A file may hold anything.
for ((i = 0; i < 20; i++)); do
    for file in "$dir"/*; do
        printf '%b' "\\x$(printf '%x' $((RANDOM % 256)))" |
            dd of="$file" bs=1 seek=$((64 + RANDOM % 60000)) conv=notrunc status=none
    done
    traces 0 "$dir"
done
# One that cannot be used does not keep the others from being shown.
records 2 "$program"
: >"$dir/0.tmlook"
traces 1 -t "$dir"
require "0.tmlook: this is neither" err.trace
require 'rank 1     message announced by rank 0' said
