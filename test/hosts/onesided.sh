#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# TEST: timeout=120 needs=ip cores=2 short=turns
#
# One-sided MPI on several hosts, with pml tm and no other parameter.
. "$TM_SRC/test/lib/script.sh"
. "$TM_SRC/test/hosts/hosts.bash"

hosts_enter "$@"
unset OMPI_MCA_btl
hosts_up 2

hosts_check 1 onesided 5
hosts_check 1 onesided_random 20 "$RANDOM"
hosts_check 2 onesided 5
hosts_check 2 onesided_random 20 "$RANDOM"
hosts_check 1 onesided_threads 2 10
