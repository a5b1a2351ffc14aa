#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# TEST: timeout=300 needs=ip,munged,slurmctld,slurmd,srun short=launchers ompi=4.1
#
# Slurm starts the processes, by its own PMIx: on two hosts, each with a slurmd.  Ranks of one host
# use shared memory, others TCP.
. "$TM_SRC/test/lib/script.sh"
. "$TM_SRC/test/hosts/hosts.bash"

((EUID == 0)) || skip "only root can run slurmd"
hosts_enter "$@"
hosts_up 2

mkdir -p munge slurm/{state,{,tmp-}tmhost{1,2}}
chmod 700 munge
(umask 077 && head -c 1024 /dev/urandom >munge/key)
munged --force --foreground --key-file="$PWD/munge/key" --socket="$PWD/slurm/munge.socket" \
    --pid-file="$PWD/munge/pid" --seed-file="$PWD/munge/seed" >munged.log 2>&1 &
cat >slurm/slurm.conf <<END
ClusterName=tm
SlurmctldHost=tmlogin(10.88.0.254)
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket=$PWD/slurm/munge.socket
StateSaveLocation=$PWD/slurm/state
SlurmdSpoolDir=$PWD/slurm/%n
TmpFS=$PWD/slurm/tmp-%n
SlurmctldPidFile=$PWD/slurm/slurmctld.pid
SlurmdPidFile=$PWD/slurm/%n.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/linear
SlurmdParameters=config_overrides
ReturnToService=2
NodeName=tmhost1 NodeAddr=10.88.0.1 CPUs=4
NodeName=tmhost2 NodeAddr=10.88.0.2 CPUs=4
PartitionName=all Nodes=ALL Default=YES
END
export SLURM_CONF=$PWD/slurm/slurm.conf

# wait_until SECONDS COMMAND...
wait_until()
{
    local i
    for ((i = 0; i < $1 * 5; i++)); do
        ! "${@:2}" || return 0
        sleep 0.2
    done
    tail -n 20 ./*.log >&2
    fail "after $1 s still not: ${*:2}"
}

are_idle()
{
    [[ $(sinfo -h -t idle -o %D 2>/dev/null) == 2 ]]
}

wait_until 30 test -S slurm/munge.socket
slurmctld -D -i >slurmctld.log 2>&1 &
for i in 1 2; do
    hosts_in $i slurmd -D >slurmd$i.log 2>&1 &
done
wait_until 60 are_idle

# run NP PROGRAM...: as many of its processes on each host.
run()
{
    local rc=0
    echo "== srun, $1 ranks: ${*:2}"
    srun --mpi=pmix -N 2 -n "$1" "${@:2}" >out 2>err </dev/null || rc=$?
    cat out
    cat err >&2
    ((rc == 0)) || tail -n 20 ./*.log >&2
    return "$rc"
}

export OMPI_MCA_pml=$TM_TEST_PML
OMPI_MCA_pml_tm_verbose=10 run 4 "$(tm_mpi_program hello)" || fail "exit status $?: hello"
require 'hello: errors=0'
run 4 "$(tm_mpi_program basic)" 300000 || fail "exit status $?: basic"
require 'basic: errors=0'
require_quiet
run 4 "$(tm_mpi_program collectives)" 3000 || fail "exit status $?: collectives"
require 'collectives: errors=0'
