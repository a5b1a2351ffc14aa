#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# TEST: timeout=300 device=tmdev short=between
#
# Jobs on two hosts: shared memory inside each, the verbs device in software (test/tmdev) between
# them. The second host is this one under another name, in a UTS namespace, where mpirun's daemon is
# started by a script in the place of ssh.
. "$TM_SRC/test/lib/script.sh"

unshare --uts true 2>/dev/null || skip "no UTS namespace can be made here"

cat >agent <<'END'
#!/bin/sh
# HOST COMMAND...: what ssh is asked to do
host=$1
shift
exec unshare --uts sh -c "hostname $host && exec sh -c '$*'"
END
chmod +x agent
export OMPI_MCA_plm_rsh_agent=$PWD/agent PRTE_MCA_plm_ssh_agent=$PWD/agent
export OMPI_MCA_mpi_yield_when_idle=1
# What else in Open MPI would use an RDMA device is not what is tested.
export OMPI_MCA_btl=self,vader OMPI_MCA_mtl=^ofi
[[ $TM_OMPI_SERIES == 4.1 ]] || OMPI_MCA_btl=self,sm

# over NP-ON-EACH [NAME=VALUE...] PROGRAM [ARGUMENT...]: the program must succeed.
over()
{
    local np=$1 name
    shift
    (
        export TMDEV_FABRIC=$$.$RANDOM
        while [[ $1 == *=* ]]; do
            export "${1?}"
            shift
        done
        name=$1
        shift
        echo "== $np ranks on each host: $name $*"
        tm_mpirun "$((2 * np))" --host "$(hostname):$np,tmhost2:$np" --map-by slot \
            -x LD_LIBRARY_PATH -x SYSFS_PATH -x TMDEV_FABRIC \
            "$(tm_mpi_program "$name")" "$@" || fail "$name"
        require "$name: errors=0"
    )
}

over 2 hello
over 1 counters verbs_msgs_sent listed_matched # not by shared memory
over 1 overlap
# its two ranks are on the first host
over 2 counters shm_msgs_sent not_listed_other_path not_listed_any_source
for tags in 4 1024; do
    over 2 TMDEV_TM_TAGS=$tags random "$(tm_seed $((40 + tags)))" "$(tm_seconds 5)"
    over 2 TMDEV_TM_TAGS=$tags collectives 3000
done
over 2 TMDEV_TM_TAGS=4 TMDEV_SEED=7 TMDEV_HOLD_US=300 TMDEV_DELAY_US=200 random "$(tm_seed 46)" \
    "$(tm_seconds 5)"
over 2 OMPI_MCA_pml_tm_verbs_tm=none random "$(tm_seed 47)" "$(tm_seconds 5)"
over 2 ordering
over 2 comm_kinds
over 2 comms
