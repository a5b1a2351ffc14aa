#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# TEST: timeout=1800 needs=ip cores=2 short=no
#
# 64 ranks on 8 hosts, whose links are down in turn at random, for a moment or some seconds, while
# they exchange messages: none is lost, doubled or wrong, since TCP repairs it, and no rank fails.
# TM_CUT_SECONDS=600 test/run hosts/cuts lasts that long.
. "$TM_SRC/test/lib/script.sh"
. "$TM_SRC/test/hosts/hosts.bash"

hosts_enter "$@"
hosts_up 8
export OMPI_MCA_btl=self,sm
[[ $TM_OMPI_SERIES != 4.1 ]] || export OMPI_MCA_btl=self,vader OMPI_MCA_osc=pt2pt
RANDOM=$(($(tm_seed 1) % 32768))

# cut: one link after the other, until the file "over" is there; a line for each.
cut()
{
    local i
    while [[ ! -e over ]]; do
        i=$((1 + RANDOM % 8))
        ip link set "to$i" down
        sleep "$((RANDOM % 3)).$((RANDOM % 10))"
        ip link set "to$i" up
        echo "$i" >>cuts
        sleep "0.$((RANDOM % 10))"
    done
}

for providers in tcp ''; do
    : >cuts
    {
        sleep 5
        cut
    } &
    hosts_check 8 "OMPI_MCA_pml_tm_providers=$providers" storm storm 4 2 20000 \
        "${TM_CUT_SECONDS:-$(tm_seconds 20)}"
    touch over
    wait $!
    rm over
    echo "cuts: $(wc -l <cuts)"
    (($(wc -l <cuts) > 0)) || fail "no link was cut"
done
