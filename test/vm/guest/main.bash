# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash
# In a machine, on the host's root with a tmpfs above it: set it up, run the command if it is the
# first one, switch off.
#
#     bash main HOST DIR
#
# HOST is the machine's number.  DIR is test/vm/run's scratch directory, as the host has it, read
# only:
#     main            this file
#     settings        shell assignments: hosts, rdma (rxe or siw), links, siw (a module), mtu, share
#                     (a directory, or empty), agent (the path of guest/agent)
#     environment     shell commands: the environment and the working directory of test/vm/run
#     command         shell commands: what to run
# Standard output and error are the console.  The first machine has the virtio ports out, err and
# status, the ways to test/vm/run's standard output and error, and for the exit status.

set -u
host=$1 dir=$2
PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
hosts='' rdma='' links='' siw='' mtu='' share='' agent=''
# shellcheck source=/dev/null
. "$dir/settings"

power_off()
{
    sync
    busybox poweroff -f
}

die()
{
    echo "vm$host: $*"
    power_off
}

# What a Linux system has beside its root.  The host's own mounts are not seen here.
file_systems()
{
    local place
    mkdir -p /dev/shm /dev/pts
    mount -t tmpfs -o mode=1777 shm /dev/shm
    mount -t devpts -o mode=620,ptmxmode=666 pts /dev/pts
    mount -t tmpfs -o mode=755 run /run
    ln -sf /proc/self/fd /dev/fd
    for place in 0:stdin 1:stdout 2:stderr; do
        ln -sf "/proc/self/fd/${place%:*}" "/dev/${place#*:}"
    done
    if [[ -n $share ]]; then
        mkdir -p "$share"
        mount -t 9p -o trans=virtio,version=9p2000.L,msize=512000,cache=none share "$share" ||
            die "cannot mount $share"
    fi
}

network()
{
    local i
    hostname "vm$host"
    {
        echo "127.0.0.1 localhost"
        for ((i = 0; i < hosts; i++)); do
            echo "10.77.0.$((i + 1)) vm$i"
        done
    } >/etc/hosts
    ip link set lo up
    [[ $rdma != siw ]] || busybox insmod "$siw" || die "the module $siw does not load"
    for ((i = 0; i < links; i++)); do
        ip link set "eth$i" mtu "$mtu" up || die "no network device eth$i"
        ip address add "10.77.$i.$((host + 1))/24" dev "eth$i"
        rdma link add "$rdma$i" type "$rdma" netdev "eth$i" || die "no device $rdma$i"
    done
}

# For all commands.
environment()
{
    # shellcheck source=/dev/null
    . "$dir/environment"
    export VM_AGENT=$agent VM_HOST=$host VM_HOSTS=$hosts
    export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
    export OMPI_MCA_plm_rsh_agent=$agent PRTE_MCA_plm_ssh_agent=$agent
    ulimit -l unlimited
}

# port NAME: the device of this virtio port.
port()
{
    local file
    for file in /sys/class/virtio-ports/*/name; do
        if [[ $(<"$file") == "$1" ]]; then
            file=${file%/name}
            echo "/dev/${file##*/}"
        fi
    done
}

# Other machines have to be up before the command starts.
wait_for_others()
{
    local i tries
    for ((i = 1; i < hosts; i++)); do
        for ((tries = 0; tries < 600; tries++)); do
            ! "$agent" "vm$i" true 2>/dev/null || continue 2
            sleep 0.1
        done
        die "vm$i does not answer"
    done
}

file_systems
network
environment
"$agent" --serve &
if ((host == 0)); then
    out=$(port out) err=$(port err) status=$(port status)
    wait_for_others
    echo "vm$host: up after $(cut -d ' ' -f 1 /proc/uptime) s"
    bash "$dir/command" </dev/null >"$out" 2>"$err"
    echo $? >"$status"
    power_off
fi
wait
die "the agent has ended"
