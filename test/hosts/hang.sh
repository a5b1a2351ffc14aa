#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# TEST: timeout=240 needs=ip short=failures
#
# Reports of jobs that hang (test/mpi/hang.c) on two hosts: a circle between them, and a rank that
# all others wait for; and what tm_look says on each host meanwhile, started by mpirun.
. "$TM_SRC/test/lib/script.sh"
. "$TM_SRC/test/hosts/hosts.bash"

hosts_enter "$@"
hosts_up 2

# hangs NP-ON-EACH CASE TEXT...: its reports, until a signal ends it, have all of these texts.
hangs()
{
    local text
    hosts_run "$1" OMPI_MCA_pml_tm_report_after=1 TM_HANG_SECONDS=20 hang "$2" &&
        fail "$2 has ended by itself"
    for text in "${@:3}"; do
        require "$text"
    done
}

# looks_on_all: until both ranks are seen; what tm_look said is in the file looked.
looks_on_all()
{
    local i
    for ((i = 0; i < 50; i++)); do
        mpirun --host "$(hosts_list 1)" -N 1 "$TM_PREFIX/bin/tm_look" >looked 2>&1 || true
        (($(grep -c 'send to rank [01], tag 7, 1048576 bytes, MPI_COMM_WORLD: the' looked) != 2)) ||
            return 0
        sleep 0.2
    done
    cat looked
    return 1
}

looks_on_all &
hangs 1 cycle '2 ranks wait for each other; rank 0 has waited' \
    'MPI_Send to rank 1, tag 7, 1048576 bytes, MPI_COMM_WORLD: the receiver knows of it' \
    'MPI_Send to rank 0, tag 7, 1048576 bytes, MPI_COMM_WORLD: the receiver knows of it'
grep -qaE '^  rank 0 +tmhost1:[0-9]+ ' "$TM_WORK/err" || fail "rank 0 is not on tmhost1"
grep -qaE '^  rank 1 +tmhost2:[0-9]+ ' "$TM_WORK/err" || fail "rank 1 is not on tmhost2"
wait "$!" || fail 'tm_look does not show both ranks'
cat looked
for host in tmhost1 tmhost2; do
    require "1 of 2 ranks on $host  hang" looked
done

hangs 2 missing 'ranks wait for rank 2, directly or through others'
forbid 'wait for each other'
# A question opens no connection: in Open MPI 4.1's barrier rank 0 has sent nothing to rank 2
# of the other host yet.
if [[ $TM_OMPI_SERIES == 4.1 ]]; then
    require '3 ranks wait for rank 2, directly or through others'
    require 'rank 2    was never in contact with this process, and was not asked'
fi
