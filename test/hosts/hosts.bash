# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash
# Several hosts on this one, for test/hosts/*.sh, which source it after script.sh: network
# namespaces, joined by veth pairs and a bridge, each with a host name, process ids and a /dev/shm
# of its own.  All is in a sandbox that goes with the test.  mpirun runs on a further host, tmlogin,
# where no rank does; a launch agent takes the place of ssh.
#
#     hosts_enter "$@"      first: the script starts anew inside the sandbox
#     hosts_up N            tmhost1 to tmhostN; 10.88.0.I and fd88::I on their eth0
#     hosts_run NP-ON-EACH [NAME=VALUE...] PROGRAM [ARGUMENT...]
#                           run PROGRAM, of test/mpi or a path, with so many ranks on each host
#     hosts_in I COMMAND... on tmhostI

# In a chroot nothing is mounted at /, which unshare would make private; the caller has done that.
hosts_propagation=()
mountpoint -q / || hosts_propagation=(--propagation unchanged)

hosts_enter()
{
    local flags=(--net --uts --mount "${hosts_propagation[@]}" --pid --fork --kill-child
        --mount-proc)
    if [[ -z ${HOSTS_INSIDE-} ]]; then
        ((EUID == 0)) || flags+=(--user --map-root-user)
        unshare "${flags[@]}" ip link add hosts0 type bridge 2>/dev/null ||
            skip "no network namespace can be made here"
        HOSTS_INSIDE=1 exec unshare "${flags[@]}" bash "$0" "$@"
    fi
    ! mountpoint -q / || mount --make-rprivate /
    hostname tmlogin
    # Daemons name their session directories by host and process id, both the same in other tests.
    export TMPDIR=$TM_WORK/tmp
    mkdir "$TMPDIR"
    ip link set lo up
    ip link add hosts0 type bridge
    ip addr add 10.88.0.254/24 dev hosts0
    ip -6 addr add fd88::fe/64 dev hosts0 nodad 2>/dev/null || true
    ip link set hosts0 up
    cat >agent <<'END'
#!/bin/bash
# HOST COMMAND...: what ssh is asked to do
host=$1
shift
exec nsenter -t "$(cat "${0%/agent}/$host.pid")" -n -u -m -p -r sh -c "cd '$PWD' && $*"
END
    chmod +x agent
    export OMPI_MCA_plm_rsh_agent=$PWD/agent PRTE_MCA_plm_ssh_agent=$PWD/agent
    export OMPI_MCA_mpi_yield_when_idle=1 OMPI_MCA_mtl=^ofi
    export OMPI_MCA_btl=self,vader,tcp
    [[ $TM_OMPI_SERIES == 4.1 ]] || OMPI_MCA_btl=self,sm,tcp
}

hosts_in()
{
    local pid
    pid=$(cat "$TM_WORK/tmhost$1.pid")
    shift
    nsenter -t "$pid" -n -u -m -p -r "$@"
}

# A host of its own: its first process only sleeps, and takes all others with it when it is killed.
hosts_up_one()
{
    local i=$1 pid=
    unshare --net --uts --mount "${hosts_propagation[@]}" --pid --fork --kill-child \
        --mount-proc sh -c \
        "hostname tmhost$i; mount -t tmpfs tmpfs /dev/shm; ip link set lo up; exec sleep infinity" &
    while [[ -z $pid || $(cat "/proc/$pid/comm" 2>/dev/null) != sleep ]]; do
        read -r pid _ <"/proc/$!/task/$!/children" || true
        sleep 0.01
    done
    echo "$pid" >"$TM_WORK/tmhost$i.pid"
    ip link add "to$i" type veth peer name eth0 netns "$pid"
    ip link set "to$i" master hosts0 up
    hosts_in "$i" ip addr add "10.88.0.$i/24" dev eth0
    hosts_in "$i" ip -6 addr add "fd88::$i/64" dev eth0 nodad 2>/dev/null || true
    hosts_in "$i" ip link set eth0 up
}

hosts_up()
{
    local i
    hosts_num=$1
    {
        echo "127.0.0.1 localhost"
        echo "10.88.0.254 tmlogin"
        for ((i = 1; i <= hosts_num; i++)); do
            echo "10.88.0.$i tmhost$i"
        done
    } >"$TM_WORK/hosts"
    mount --bind "$TM_WORK/hosts" /etc/hosts
    for ((i = 1; i <= hosts_num; i++)); do
        hosts_up_one "$i"
    done
}

# hosts_list NP: what mpirun --host takes.
hosts_list()
{
    local i list=
    for ((i = 1; i <= hosts_num; i++)); do
        list+=${list:+,}tmhost$i:$1
    done
    echo "$list"
}

# The exit status is mpirun's.
hosts_run()
(
    np=$1
    shift
    names=(${LD_LIBRARY_PATH:+-x LD_LIBRARY_PATH} ${SYSFS_PATH:+-x SYSFS_PATH})
    while [[ $1 == *=* ]]; do
        export "${1?}"
        names+=(-x "${1%%=*}")
        shift
    done
    program=$1
    [[ $program == */* ]] || program=$(tm_mpi_program "$program")
    shift
    echo "== $hosts_num hosts, $np ranks on each: ${names[*]-} $program $*"
    tm_mpirun $((np * hosts_num)) --host "$(hosts_list "$np")" --map-by slot "${names[@]}" \
        "$program" "$@"
)

# hosts_check ...: as hosts_run; the program must succeed.
hosts_check()
{
    hosts_run "$@" || fail "$*"
    require 'errors=0'
}
