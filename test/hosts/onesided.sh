#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# TEST: timeout=120 needs=ip cores=2 short=turns
#
# One-sided MPI on several hosts, with pml tm and no other parameter.
#
# The first twelve epochs of the random test are without dynamic windows.  Of these osc/rdma of Open
# MPI 4.1.4 hangs on several hosts: it waits for a lock that it holds (4.1.5 does not).
. "$TM_SRC/test/lib/script.sh"
. "$TM_SRC/test/hosts/hosts.bash"

hosts_enter "$@"
unset OMPI_MCA_btl
hosts_up 2
epochs=20
[[ $TM_OMPI_SERIES != 4.1 ]] || epochs=12

hosts_check 1 onesided 5
hosts_check 1 onesided_random "$epochs" "$RANDOM"
hosts_check 2 onesided 5
hosts_check 2 onesided_random "$epochs" "$RANDOM"
hosts_check 1 onesided_threads 2 10

# Between hosts more is sent eagerly, unless the user has set the limit, to whatever value.
hosts_check 1 OMPI_MCA_btl=fabric,self btl_limit 65792
hosts_check 1 OMPI_MCA_btl=fabric,self OMPI_MCA_btl_fabric_eager_limit=16384 \
    btl_limit 16384
