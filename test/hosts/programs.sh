#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# TEST: timeout=180 needs=ip cores=2
#
# MPI programs on several hosts: over TCP alone, and with shared memory inside each host.
. "$TM_SRC/test/lib/script.sh"
. "$TM_SRC/test/hosts/hosts.bash"

hosts_enter "$@"
hosts_up 2
tcp=OMPI_MCA_pml_tm_providers=tcp

hosts_check 1 hello
hosts_check 1 counters tcp_msgs_sent
hosts_check 1 basic
hosts_check 2 "$tcp" random "$RANDOM" "$(tm_seconds 5)"
hosts_check 2 random "$RANDOM" "$(tm_seconds 5)"
hosts_check 2 collectives 3000
hosts_check 1 ordering
hosts_check 1 tcp_calls
