#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# TEST: timeout=240 cores=0 device=tmdev short=device
#
# A port of an RDMA device that goes down and comes back costs nothing; one that stays down, and a
# device that fails, end the job with a sentence that says so. With and without receives on the
# device's list.
. "$TM_SRC/test/lib/script.sh"

export OMPI_MCA_pml_tm_providers=^shm,tcp OMPI_MCA_mpi_yield_when_idle=1
# What else in Open MPI would use an RDMA device is not what is tested.
export OMPI_MCA_btl=self,vader OMPI_MCA_mtl=^ofi
[[ $TM_OMPI_SERIES == 4.1 ]] || OMPI_MCA_btl=self,sm

events=$(tm_mpi_program verbs_events)

# job SECONDS NAME=VALUE: three ranks communicate for so many seconds; the device of rank 1 has this
# setting.
job()
{
    local plain="$events $1"
    echo "== verbs_tm=$OMPI_MCA_pml_tm_verbs_tm $2"
    export TMDEV_FABRIC=$$.$RANDOM
    tm_by_rank "$TM_WORK/job" "$plain" "env $2 $plain" "$plain"
    tm_mpirun 3 --mca pml_tm_verbose 1 "$TM_WORK/job"
}

# ends_with SENTENCE LIMIT NAME=VALUE: such a job is over within LIMIT seconds, with the sentence,
# once.
ends_with()
{
    local begin=$SECONDS
    ! job 1000 "$3" || fail "$3: the job did not fail"
    ((SECONDS - begin < $2 * ${TM_TEST_TIMEOUT_SCALE:-1})) ||
        fail "$3: the job took $((SECONDS - begin)) s to end"
    require "$1"
    (($(grep -ac 'lost a process' "$TM_WORK/err") == 1)) || fail "$3: not one message of pml tm"
    forbid 'Segmentation|Signal: |An error occurred in'
}

for tm in none auto; do
    export OMPI_MCA_pml_tm_verbs_tm=$tm
    job 4 TMDEV_PORT_DOWN=500-2500 || fail "a port that comes back ends the job"
    require "tmdev0:1 has gone down"
    require "verbs_events: errors=0"
    ends_with "tmdev0:1 here failed (ibv_devinfo" 15 TMDEV_DEVICE_FATAL=500
    ends_with "tmdev0:1 here is down (ibv_devinfo" 30 TMDEV_PORT_DOWN=500
done
