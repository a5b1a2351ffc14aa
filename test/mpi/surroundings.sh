#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# TEST: timeout=300 quick=no short=turns
#
# What may be around a program, of both ranks and of one: namespaces, a /proc that shows nothing,
# limits, and each system call of ours refused. All messages arrive, by shm or else by tcp, and
# where it says so below, by shm.
. "$TM_SRC/test/lib/script.sh"
program=$(tm_mpi_program surroundings)
refused=$(tm_mpi_program refused)
providers=()

# try WHAT PROVIDER COMMAND-OF-RANK-0 COMMAND-OF-RANK-1: they are run with the program behind them.
# PROVIDER: shm, tcp, or any.
try()
{
    local what=$1 provider=$2
    echo "== $what"
    tm_by_rank by_rank "$3" "$4"
    tm_mpirun 2 "${providers[@]}" --mca pml_tm_verbose 1 "$PWD/by_rank" >log 2>&1 ||
        fail "$what: exit status $?: $(cat log)"
    require 'surroundings: errors=0' log
    forbid "$tm_noise" log
    case $provider in
        shm) forbid 'provider shm is not used|is reached by tcp' log ;;
        tcp) ;;
    esac
}

both() { try "$1" "$2" "${*:3}" "${*:3}"; }
one() { try "$1, one rank" "$2" "${*:3}" "$program"; }

# what a program does itself between MPI_Init and its first message
changes=(undumpable closed used lock thread)
((EUID != 0)) || changes+=(chroot setuid)

own_changes()
{
    for change in "${changes[@]}"; do
        both "$1 $change" any "$program" "$change"
        one "$1 $change" any "$program" "$change" 0
    done
}

refused_calls()
{
    for call in "${@:2}"; do
        try "$1 $call refused" any "$refused EPERM $call $program" "$refused ENOSYS $call $program"
    done
}

echo '== shm'
own_changes shm
"$refused" EPERM fallocate true || skip 'no seccomp here'
# not sched_getaffinity, which hwloc calls for ever
refused_calls shm memfd_create process_vm_readv process_vm_writev madvise fallocate getrandom kill \
    epoll_create1 prctl munlock

for space in user ipc uts pid time; do
    options="--$space"
    case $space in
        user) options='--user --map-root-user' ;;
        pid) options='--pid --fork --kill-child' ;;
        time) options='--time --boottime 100000 --fork' ;;
    esac
    # shellcheck disable=SC2086 # options are words
    if unshare $options true 2>/dev/null; then
        both "namespace $space" any unshare $options "$program"
        one "namespace $space" any unshare $options "$program"
    else
        echo "no namespaces of the kind $space here"
    fi
done
if unshare --mount true 2>/dev/null; then
    # shellcheck disable=SC2016 # expanded there
    printf '#!/bin/sh\numount -l /proc; exec "$@"\n' >no_proc
    printf '#!/bin/sh\nmount -o remount,hidepid=2 /proc; exec "$@"\n' >hidepid
    chmod +x no_proc hidepid
    for proc in no_proc hidepid; do
        both "$proc" any unshare --mount "$PWD/$proc" "$program"
        one "$proc" any unshare --mount "$PWD/$proc" "$program"
    done
fi
for limit in '-v 1500000' '-f 100000' '-l 64' '-s 256'; do
    printf '#!/bin/sh\nulimit %s; exec "$@"\n' "$limit" >limited
    chmod +x limited
    both "ulimit $limit" shm "$PWD/limited" "$program"
done

echo '== tcp'
providers=(--mca pml_tm_providers tcp)
export TM_NO_SEGMENT=1
changes=(thread) # a connection needs a descriptor, also by ob1
own_changes tcp
refused_calls tcp getrandom kill prctl

# tcp cannot be without it: that is said
tm_mpirun 2 "${providers[@]}" "$refused" ENOSYS epoll_create1 "$program" >log 2>&1 &&
    fail 'tcp without epoll_create1(): the job has run'
require 'No TCP socket can be opened to listen' log
