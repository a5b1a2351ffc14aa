#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# TEST: timeout=240 cores=0 device=tmdev short=device
#
# Hosts with several RDMA devices and ports: which ones the ranks take, in turn and as the user
# wants it, traffic between ranks with different ones, and lists that name what is not there.
. "$TM_SRC/test/lib/script.sh"

export OMPI_MCA_pml_tm_providers=^shm,tcp OMPI_MCA_mpi_yield_when_idle=1 TMDEV_DEVICES=2
# What else in Open MPI would use an RDMA device is not what is tested.
export OMPI_MCA_btl=self,vader OMPI_MCA_mtl=^ofi
[[ $TM_OMPI_SERIES == 4.1 ]] || OMPI_MCA_btl=self,sm

hello=$(tm_mpi_program hello)

# ranks_on PORT NUMBER: so many ranks said that they use this port.
ranks_on()
{
    local n
    n=$(cat "$TM_WORK/out" "$TM_WORK/err" | grep -ac "by SEND on $1 ") || true
    ((n == $2)) || fail "$n ranks use $1, not $2"
}

# over NP PROGRAM [ARGUMENT...]
over()
{
    local np=$1 name=$2
    shift 2
    export TMDEV_FABRIC=$$.$RANDOM
    tm_mpirun "$np" "$(tm_mpi_program "$name")" "$@" || fail "$name"
    require "$name: errors=0"
}

echo "== in turn"
tm_mpirun 4 --mca pml_tm_verbose 20 "$hello" || fail "hello"
ranks_on tmdev0:1 2
ranks_on tmdev1:1 2
over 4 verbs_events 1
over 4 random "$(tm_seed 41)" "$(tm_seconds 5)"
TMDEV_PORTS=2 tm_mpirun 4 --mca pml_tm_verbose 20 "$hello" || fail "hello with two ports"
for port in tmdev0:1 tmdev0:2 tmdev1:1 tmdev1:2; do
    ranks_on "$port" 1
done
TMDEV_PORTS=2 over 4 verbs_events 1
TMDEV_PORTS=2 TMDEV_LINK=eth over 4 verbs_events 1

echo "== as wanted"
tm_mpirun 4 --mca pml_tm_verbose 20 --mca pml_tm_verbs_if_exclude tmdev0 "$hello" ||
    fail "without tmdev0"
ranks_on tmdev1:1 4
tm_mpirun 4 --mca pml_tm_verbose 20 --mca pml_tm_verbs_if_include tmdev0:1,mlx5_9 "$hello" ||
    fail "with tmdev0"
ranks_on tmdev0:1 4
require "pml_tm_verbs_if_include names mlx5_9, which this host does not have"
include=OMPI_MCA_pml_tm_verbs_if_include
events="$(tm_mpi_program verbs_events) 1"
tm_by_rank by_rank "env $include=tmdev1 $events" "env $include=tmdev0 $events" \
    "env $include=tmdev1 $events" "$events"
tm_mpirun 4 --mca pml_tm_verbose 20 "$PWD/by_rank" || fail "each rank its own list"
require "verbs_events: errors=0"
ranks_on tmdev1:1 3
ranks_on tmdev0:1 1

# refused NAME=VALUE TEXT...: such a job does not start, and says so.
refused()
{
    local parameter=$1 text
    shift
    ! tm_mpirun 2 --mca "${parameter%%=*}" "${parameter#*=}" "$hello" ||
        fail "$parameter was accepted"
    forbid 'Segmentation|Signal: '
    # the lines of help texts are broken
    for text in "$@"; do
        tr -s '\n ' '  ' <"$TM_WORK/err" >joined
        require "$text" joined
    done
}

echo "== lists that leave nothing"
refused pml_tm_verbs_if_include=mlx5_9 \
    "pml_tm_verbs_if_include names mlx5_9, which this host does not have"
refused pml_tm_verbs_if_include=tmdev1:2 \
    "pml_tm_verbs_if_include names tmdev1:2, which this host does not have"
refused pml_tm_verbs_if_exclude=tmdev0,tmdev1:1 "not wanted by pml_tm_verbs_if_exclude"
refused pml_tm_verbs_if_include=tmdev0:x 'pml_tm_verbs_if_include is "tmdev0:x"; allowed:'
refused "pml_tm_verbs_if_exclude=tmdev0, tmdev1" \
    'pml_tm_verbs_if_exclude is "tmdev0, tmdev1"; allowed:'

echo "== in reserve"
unset OMPI_MCA_pml_tm_providers
tm_mpirun 2 --mca pml_tm_verbose 20 "$hello" || fail "with shm"
(($(cat "$TM_WORK/out" "$TM_WORK/err" | grep -ac 'by SEND on .*, not in use') == 2)) ||
    fail "the device is not kept in reserve"
# Ranks 2 and 3 do without shm, as if they were elsewhere: the others fetch the device from the
# reserve.
far="env OMPI_MCA_pml_tm_providers=^shm,tcp $events"
tm_by_rank by_rank "$events" "$events" "$far" "$far"
tm_mpirun 4 --mca pml_tm_verbose 20 "$PWD/by_rank" || fail "from the reserve"
require "verbs_events: errors=0"
(($(cat "$TM_WORK/out" "$TM_WORK/err" | grep -ac 'by SEND on .*, matches tags') == 2)) ||
    fail "not two ranks list receives"
