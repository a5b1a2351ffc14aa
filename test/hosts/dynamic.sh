#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# TEST: timeout=180 needs=ip cores=2
#
# Jobs that are spawned, or meet, on two hosts: over TCP alone, and with shared memory inside each
# host.  With Open MPI 5.0.7 only one spawned job: the address of the second one's processes cannot
# be had from PMIx on the other host, and over ob1 the program hangs.
. "$TM_SRC/test/lib/script.sh"
. "$TM_SRC/test/hosts/hosts.bash"

hosts_enter "$@"
hosts_up 2
extra=OMPI_MCA_rmaps_base_oversubscribe=1

hosts_check 1 "$extra" spawned 4 2
[[ $TM_OMPI_SERIES == 4.1 ]] || exit 0
for providers in tcp ''; do
    hosts_check 1 "$extra" "OMPI_MCA_pml_tm_providers=$providers" dynamic 2 2
done
