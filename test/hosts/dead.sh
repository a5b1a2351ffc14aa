#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# TEST: timeout=120 needs=ip,pgrep cores=0
#
# A host dies in the middle of a job: the job ends, and no rank is left on the others.
. "$TM_SRC/test/lib/script.sh"
. "$TM_SRC/test/hosts/hosts.bash"

hosts_enter "$@"
hosts_up 3

# The ranks that live: a host's first process does not wait for what has ended.
ranks()
{
    pgrep -x kill -r R,S,D,T || true
}

# dies HOW: the third host, HOW it dies.
dies()
{
    local i
    {
        sleep 5
        [[ $1 == process ]] || ip link set to3 down # nobody hears of it
        kill -KILL "$(cat tmhost3.pid)"
    } &
    if hosts_run 1 OMPI_MCA_pml_tm_tcp_timeout=4 kill coll -1 0; then
        # The mpirun of Open MPI 5.0 that loses its daemon there says so, and that all is well; that
        # of 6.0 says that the daemon never came.
        case $TM_OMPI_SERIES/$1 in
            5.0/process) require 'lost communication with a remote daemon' ;;
            6.0/*) require 'A daemon failed to report back' ;;
            *) fail "the job ended well, on a host that is dead" ;;
        esac
    fi
    wait $!
    for ((i = 0; i < 200; i++)); do
        [[ -n $(ranks) ]] || return 0
        sleep 0.1
    done
    fail "ranks are left: $(ranks | xargs)"
}

dies process
ip link del to3 2>/dev/null || true
hosts_up_one 3
dies silently
