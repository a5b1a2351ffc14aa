#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# TEST: timeout=1800 cores=0 ompi=4.1 short=failures
#
# The n-th allocation of pml_tm in a whole job fails, for each n, or in a short run for some of one
# program: the program is right all the same, or ends with a message. No crash, no hang, nothing
# left behind.  The same with those of btl_fabric, under ob1 and osc/rdma.
. "$TM_SRC/test/lib/script.sh"

library=$TM_WORK/fail_calls.so
gcc -O1 -g -Wall -Wextra -Werror -D_GNU_SOURCE -shared -fPIC -o "$library" \
    "$TM_SRC/test/mpi/fail_calls.c" -ldl ||
    fail 'fail_calls.c does not compile'
limit=$((60 * ${TM_TEST_TIMEOUT_SCALE:-1}))
choice=(--mca pml "$TM_TEST_PML")

# job CALL RANK PROGRAM [ARGUMENT...]: returns its status, 125 if mpirun did not notice that the
# ranks had ended, 124 if they hang; the output is in out and err.
job()
{
    local call=$1 rank=$2 program rc=0
    program=$(tm_mpi_program "$3")
    shift 3
    tm_mpirun_flags 2
    mpirun "${tm_mpirun_flags[@]}" "${choice[@]}" \
        env LD_PRELOAD="$library" TM_FAIL_CALL="$call" TM_FAIL_RANK="$rank" \
        TM_FAIL_COUNT="$TM_WORK/count" "$program" "$@" >out 2>err </dev/null &
    tm_await_mpirun $! "$limit" || rc=$?
    return "$rc"
}

# orderly WHAT STATUS NAME: what came of it is right, or an error that says why. After a job that
# failed, mpirun itself hangs or crashes now and then, in PMIx_server_finalize(); it loses messages
# of Open MPI's own, too, and says so.  An MPI_Comm_idup that found no memory fails in MPI_Wait,
# which knows neither the communicator nor what Open MPI's own code means.
orderly()
{
    local idup='on a NULL communicator'
    local crash='Segmentation|Signal: |Assertion|AddressSanitizer|errors=[1-9]'
    ! grep -qaF 'PMIx_server_finalize+0x' out err || crash='Assertion|AddressSanitizer|errors=[1-9]'
    if { (($2 == 0)) || tm_crashed_upstream out err; } && grep -q "$3: errors=0" out; then
        return
    fi
    if (($2 != 124)) && ! grep -qaE "$crash" out err && { tm_lost_message err ||
        grep -qaiE "memory|OUT_OF_RESOURCE|resource|PML .* cannot be selected|unable to reach each other|MPI_ERR_[A-Z]+: |$idup" out err; }; then
        stopped=$((stopped + 1))
        return
    fi
    cat out err
    fail "$1: exit status $2, and neither the right result nor a message that memory is short"
}

# all_calls PROGRAM [ARGUMENT...]
all_calls()
{
    local calls call rank rc step=1 stopped=0 begin=1
    job 0 1 "$@" || fail "$1 fails without a failure: $(cat out err)"
    calls=$(<count)
    ((calls > 0)) || fail "pml_tm allocates nothing in $1"
    if [[ ${TM_TEST_SHORT-} == yes ]]; then
        step=$((calls / 12 + 1))
        begin=$((1 + TM_TEST_RANDOM % step))
    fi
    for ((call = begin; call <= calls; call += step)); do
        rank=$((call % 2))
        rc=0
        job "$call" "$rank" "$@" || rc=$?
        orderly "$1, allocation $call of rank $rank" "$rc" "$1"
    done
    echo "$1: $calls allocations, every ${step}. failed from the ${begin}. on; $stopped jobs ended with a message"
}

# all_posts: an answer for which there is no memory, for each, ends the job with a message of its
# own.
all_posts()
{
    local call posts
    export TM_FAIL_IN=fab_post OMPI_MCA_pml_tm_shm_ring_size=4096
    job 0 1 unsent || fail "unsent fails without a failure: $(cat out err)"
    posts=$(<count)
    ((posts > 0)) || fail 'no answer of unsent waits for room'
    for ((call = 1; call <= posts; call++)); do
        ! job "$call" 1 unsent || fail "unsent, answer $call: the job goes on"
        require 'has no memory for a message without which' out err
    done
    echo "unsent: each of $posts answers failed"
    unset TM_FAIL_IN OMPI_MCA_pml_tm_shm_ring_size
}

all_posts
all_calls hello
if [[ ${TM_TEST_SHORT-} != yes ]]; then
    all_calls probe 70000
    all_calls comms 20 5
fi

choice=(--mca pml ob1 --mca btl 'fabric,self' --mca osc rdma)
export TM_FAIL_LIBRARY=mca_btl_fabric
all_calls onesided 1

# puts and gets by messages, one at a time if there is memory for no more
export OMPI_MCA_pml_tm_shm_single_copy=none
job 0 1 starved library window || fail "starved: exit status $?: $(cat out err)"
require 'starved: errors=0' out
