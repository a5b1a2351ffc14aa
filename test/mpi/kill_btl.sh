#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# TEST: timeout=300 cores=0 quick=no pml=none short=ends
#
# A process that is killed in the middle of one-sided operations or of messages by btl_fabric ends
# the job: soon, with a message that names it, and with nothing left behind.
. "$TM_SRC/test/lib/script.sh"
# shellcheck source-path=SCRIPTDIR source=kill.bash
. "$TM_SRC/test/mpi/kill.bash"

unset TM_TEST_BTL

# one PML BTL PROVIDER KIND NP
one()
{
    choice=(--mca pml "$1" --mca btl "$2" --mca osc rdma --mca pml_tm_providers "$3")
    kill_one "$4" "$5"
    what="$1, $2, $3: $what"
    # mpirun is the first to tell, or the survivors are: all of them, as pml ob1 does.
    tr -s '\0\n' '  ' <err |
        grep -aE "process rank $victim .* exited on signal 9|btl fabric lost process \[\[[0-9]+,1\],$victim\]" >/dev/null ||
        wrong "$what: the process is not named"
    ! grep -aE 'An error occurred in|ERROR_LOG|Segmentation|Signal: ' err |
        grep -v 'btl fabric lost process' ||
        wrong "$what: other messages"
}

for provider in shm tcp; do
    for kind in onesided eager rndv; do
        one ob1 fabric,self "$provider" "$kind" 3
    done
    one ob1 fabric,self "$provider" coll 2
    one tm fabric "$provider" onesided 3
    one tm fabric "$provider" onesided 2
done
((failures == 0)) || fail "$failures times"
