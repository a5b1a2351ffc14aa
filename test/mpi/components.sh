#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# TEST: timeout=300 quick=no short=turns
#
# What is built on the PML gives right results with each of Open MPI's components: collectives
# (tuned, basic, libnbc, sync, sm, han, adapt, inter, where present), one-sided communication
# (pt2pt, rdma, sm) and MPI-IO (ompio, romio).
#
# Left out is what Open MPI 4.1.4 does wrong over every PML:
#   coll/tuned    allreduce algorithms 4 and 5 (rings) with an operation that is not commutative
#   coll/basic    before coll/tuned by priority: MPI_Exscan of two ranks crashes; as the only one it
#                 is right
#   osc/rdma      one rank: MPI_ERR_WIN
#   osc/sm        alone it has no windows but allocated ones
#   io/romio321   non-blocking collective access crashes
. "$TM_SRC/test/lib/script.sh"

has_component()
{
    ompi_info --param "$1" "$2" --level 9 --parsable 2>/dev/null | grep "^mca:$1:$2:" >/dev/null
}

# right NP OPTION... PROGRAM ARGUMENT...
right()
{
    local rc=0
    tm_mpirun "$@" >/dev/null 2>&1 || rc=$?
    echo "exit status $rc: ${*##*/}"
    ((rc == 0)) || fail "exit status $rc: $*: $(cat "$TM_WORK/out" "$TM_WORK/err")"
}

collectives=$(tm_mpi_program collectives)
for component in tuned libnbc sync sm han adapt inter; do
    if has_component coll "$component"; then
        for np in 2 4; do
            right "$np" --mca "coll_${component}_priority" 100 "$collectives" 3000
        done
    fi
done
right 2 --mca coll basic,libnbc,self,inter "$collectives" 3000
right 4 --mca coll basic,libnbc,self,inter "$collectives" 3000
right 4 --mca coll '^sm,tuned' "$collectives" 3000
for algorithm in 1 2 3 6; do
    right 4 --mca coll_tuned_use_dynamic_rules 1 --mca coll_tuned_allreduce_algorithm "$algorithm" \
        --mca coll_tuned_bcast_algorithm "$algorithm" --mca coll_tuned_alltoall_algorithm \
        "$((algorithm % 4))" "$collectives" 3000
done
right 4 "$(tm_mpi_program comm_kinds)"

onesided=$(tm_mpi_program onesided)
export OMPI_MCA_mpi_yield_when_idle=1 # its locks are polled for
# Open MPI 5.0 has no pt2pt any more.
case $TM_OMPI_SERIES in
    4.1) choices=(pt2pt rdma 'sm,pt2pt') ;;
    *) choices=(rdma 'sm,rdma') ;;
esac
for np in 1 2 4; do
    for components in "${choices[@]}"; do
        if has_component osc "${components%,*}" && ! [[ $np == 1 && $components == rdma ]]; then
            right "$np" --mca osc "$components" "$onesided" 5 safe
        fi
    done
done

files=$(tm_mpi_program files)
for np in 1 2 4; do
    for component in ompio romio321 romio341; do
        if has_component io "$component"; then
            words=()
            [[ $component == ompio ]] || words=(blocking)
            right "$np" --mca io "$component" "$files" "$TM_WORK/file" ${words[@]+"${words[@]}"}
        fi
    done
done
