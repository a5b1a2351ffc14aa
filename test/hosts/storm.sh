#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# TEST: timeout=400 needs=ip cores=2 short=no
#
# Everybody connects to everybody at once: 64 ranks on 8 hosts. Nothing is lost, and no queue of a
# listener has overflowed: a connection that was dropped there would be tried again by the kernel
# after a second.
. "$TM_SRC/test/lib/script.sh"
. "$TM_SRC/test/hosts/hosts.bash"

# Times that the queue of a listener on a host was full, or that it dropped a connection.
overflows()
{
    # shellcheck disable=SC2016 # awk's, not the shell's
    hosts_in "$1" awk '$1 == "TcpExt:" && !n { n = split($0, name); next }
        $1 == "TcpExt:" {
            for (i = 1; i <= n; i++)
                if (name[i] ~ /^Listen(Overflows|Drops)$/) sum += $i
        }
        END { print sum + 0 }' /proc/net/netstat
}

hosts_enter "$@"
hosts_up 8
hosts_check 8 OMPI_MCA_pml_tm_providers=tcp storm storm 2 2 5000
hosts_check 8 storm storm 2 2 5000
for ((i = 1; i <= 8; i++)); do
    n=$(overflows "$i")
    ((n == 0)) || fail "tmhost$i: $n connections did not fit the queue of a listener"
done
