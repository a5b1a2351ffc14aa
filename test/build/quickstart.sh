#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# TEST: timeout=600 needs=gnuplot,NPopenmpi short=minutes
#
# ./quickstart in a fresh copy of the sources does what README says it does: tables and plots. Its
# packages are there already.
. "$TM_SRC/test/lib/script.sh"

mkdir copy
tar -C "$TM_SRC" --exclude=./build --exclude=./.git --exclude=./install --exclude=./results -cf - \
    . | tar -C copy -xf -
cd copy
./quickstart | tee said || fail "quickstart"
grep -q -e '--host alice:2,bob:2' said || fail "it does not say how to run on two hosts"
for file in netpipe.txt netpipe.png bench/table.txt bench/latency.png bench/bandwidth.png; do
    [[ -s results/$file ]] || fail "results/$file is missing"
done
for plot in results/*.png results/bench/*.png; do
    [[ $(head -c 4 "$plot" | tail -c 3) == PNG ]] || fail "$plot is no picture"
done
awk 'NR > 2 && NF == 6 && $2 > 0 && $3 > 0 { n++ } END { exit !(n > 20) }' results/netpipe.txt ||
    fail "the table has gaps"
