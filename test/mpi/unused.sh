#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# TEST: timeout=120 needs=strace ompi=4.1
#
# A job that uses neither pml tm nor btl fabric does not pay for their installation: with them
# installed MPI_Init opens the same descriptors, and makes the same system calls that make some, as
# with an Open MPI that does not know them.
. "$TM_SRC/test/lib/script.sh"
program=$(tm_mpi_program unused)
calls=memfd_create,socket,socketpair,listen,epoll_create1,eventfd2,pipe,pipe2,timerfd_create
known=$OMPI_MCA_mca_base_component_path

# opened NAME OPTION...: what is open then, and the calls, in the file NAME.
opened()
{
    local name=$1
    shift
    tm_mpirun_flags 2
    tm_by_rank by_rank "strace -f -qq -e signal=none -e trace=$calls -o trace $program" "$program"
    mpirun "${tm_mpirun_flags[@]}" "$@" "$PWD/by_rank" >out 2>err </dev/null ||
        fail "$*: exit status $?: $(cat out err)"
    { grep '^open ' out; sed -nE 's/^[0-9]+ +([a-z_0-9]+)\(.*/\1/p' trace; } | LC_ALL=C sort |
        uniq -c >"$name"
}

# same OPTION...: the job opens no more than without pml_tm.
same()
{
    export OMPI_MCA_mca_base_component_path=$known
    opened with "$@"
    export OMPI_MCA_mca_base_component_path=SYS_DEFAULT
    opened without "$@"
    export OMPI_MCA_mca_base_component_path=$known
    echo "== $*: $(awk '{ n += $1 } END { print n }' without) descriptors and calls"
    diff without with || fail "$*: what MPI_Init opens without pml_tm (<) and with it (>)"
}

same --mca pml ob1
same
same --mca pml '^tm'
same --mca pml ob1 --mca btl 'vader,self'

# A job that wants one of them gets it.
for options in '--mca pml tm' '--mca pml_tm_priority 100' '--mca pml ^ob1,ucx,cm' \
    '--mca pml ob1 --mca btl fabric,self'; do
    # shellcheck disable=SC2086 # options are words
    opened used $options
    require 'open /memfd:pml_tm' used
done
