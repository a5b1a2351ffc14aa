#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# TEST: timeout=7200 cores=0 ompi=4.1 short=failures
#
# Each call that pml_tm's libraries make to get something of the kernel or of the C library fails
# once, in a short job of two ranks, over shared memory, TCP and libfabric: memory, descriptors,
# room in a socket, mappings (fail_calls.c has the list).  The job is right all the same, or ends
# with a message that says why.  No crash, no hang, no end without a word, nothing left behind.
#
# The place of a call, and which one from there it is, name a fault: the first three of each place.
# A short run plays some, from another one on each time.
. "$TM_SRC/test/lib/script.sh"

library=$TM_WORK/fail_calls.so
gcc -O1 -g -Wall -Wextra -Werror -D_GNU_SOURCE -shared -fPIC -o "$library" \
    "$TM_SRC/test/mpi/fail_calls.c" -ldl ||
    fail 'fail_calls.c does not compile'
program=$(tm_mpi_program faulty)
limit=$((60 * ${TM_TEST_TIMEOUT_SCALE:-1}))
each=3
some=12 # faults of a provider in a short run

# job SITE RANK OPTION...: once more if mpirun has lost what there was to read, which it does every
# third time, or has crashed or hung itself when the job was over.
job()
{
    local rc=0 try
    for ((try = 0; try < 10; try++)); do
        rc=0
        play "$@" || rc=$?
        ((rc == 125)) || tm_lost_message err || tm_mpirun_crashed err || break
    done
    return "$rc"
}

# play SITE RANK OPTION...: returns its status, that of tm_await_mpirun.
play()
{
    local site=$1 rank=$2 rc=0
    shift 2
    tm_mpirun_flags 2
    rm -f sites
    LC_ALL=C mpirun "${tm_mpirun_flags[@]}" --mca pml tm "$@" \
        env LD_PRELOAD="$library" ${site:+TM_FAIL_SITE="$site"} TM_FAIL_RANK="$rank" \
        TM_FAIL_SITES="$TM_WORK/sites" "$program" >out 2>err </dev/null &
    tm_await_mpirun $! "$limit" || rc=$?
    return "$rc"
}

# What pml_tm, or Open MPI where it passes on an error of it, says to the user.
says='The PML "tm"|PML tm cannot be selected|pml tm|provider|no memory|not enough memory|'
says+='MPI_ERR_[A-Z_]+: |OUT_OF_RESOURCE|Out of resource|could not allocate'

# orderly WHAT STATUS
orderly()
{
    if { (($2 == 0)) || tm_crashed_upstream out err; } && grep -q 'faulty: errors=0' out; then
        right=$((right + 1))
    elif (($2 != 124)) && grep -qaE "$says" out err &&
        ! grep -qaE 'Segmentation|Signal: |Assertion|errors=[1-9]' out err; then
        ended=$((ended + 1))
    else
        cat out err
        fail "$1: exit status $2, and neither the right result nor a message that says why"
    fi
}

# all_faults NAME OPTION...
all_faults()
{
    local name=$1 site place calls number faults=() i begin=0 step=1 rc rank
    local right=0 ended=0 missed=0
    shift
    job '' 1 "$@" || fail "$name: the job fails without a fault: $(cat out err)"
    while read -r site place calls; do
        for ((number = 1; number <= each && number <= calls; number++)); do
            faults+=("$site $place $number")
        done
    done <sites
    ((${#faults[@]} > 20)) || fail "$name: only ${#faults[@]} calls"
    if [[ ${TM_TEST_SHORT-} == yes ]]; then
        step=$((${#faults[@]} / some + 1))
        begin=$((TM_TEST_RANDOM % step))
    fi
    for ((i = begin; i < ${#faults[@]}; i += step)); do
        rank=$((i / step % 2))
        rc=0
        job "${faults[i]}" "$rank" "$@" || rc=$?
        orderly "$name, rank $rank: ${faults[i]}" "$rc"
        grep -qsx failed sites || missed=$((missed + 1))
    done
    echo "$name: ${#faults[@]} faults, of which each ${step}. was played from the $((begin + 1)). on:" \
        "$right jobs were right, $ended ended with a message; in $missed the call did not come, or" \
        "the process ended otherwise"
}

all_faults shm --mca pml_tm_providers shm
all_faults tcp --mca pml_tm_providers tcp
if [[ -n $(find "$TM_PREFIX" -name 'libmca_common_tm_ofi-*.so') ]]; then
    all_faults ofi --mca pml_tm_providers ofi --mca pml_tm_ofi_provider net
fi
