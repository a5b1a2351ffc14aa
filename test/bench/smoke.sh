#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# TEST: timeout=180 quick=no needs=gnuplot
#
# The benchmarks run, and leave what they promise: a table, results that parse, plots.  No time is judged.
: "${TM_SRC:=$(cd "$(dirname "$0")/../.." && pwd)}"
# shellcheck source-path=SCRIPTDIR source=../apps/app.bash
. "$TM_SRC/test/apps/app.bash"
app_need gnuplot gnuplot-nox

# ---- the report, over results whose medians are known
cat >known.csv <<'END'
repetition,pml,metric,variant,x,median,best
1,a,latency_us,half,8,3,1
2,a,latency_us,half,8,1,1
3,a,latency_us,half,8,2,1
1,b,latency_us,half,8,4,3
2,b,latency_us,half,8,6,3
1,c,latency_us,half,8,9,3
1,a,bandwidth_mbs,window,64,300,300
1,b,bandwidth_mbs,window,64,100,100
1,c,bandwidth_mbs,window,64,200,200
END
awk -v pmls='a b c' -v subject=a -f "$TM_SRC/test/bench/report.awk" known.csv >known.txt
cat known.txt
grep -qE '^half +8 +2\.000 +5\.000 +9\.000 +0\.40$' known.txt || fail 'the table has not the medians, or not the ratio'
grep -qE '^window +64 +300\.0 +100\.0 +200\.0 +1\.50$' known.txt || fail 'the best peer of a rate is not the largest'
awk -v pmls='a b c' -v subject=a -v statistic=best -f "$TM_SRC/test/bench/report.awk" known.csv >known.txt
grep -qE '^half +8 +1\.000 +3\.000 +3\.000 +0\.33$' known.txt || fail 'the table has not the best'

# ---- the benchmarks
run=("$TM_SRC/test/bench/run" --smoke --out "$TM_WORK/bench")
"${run[@]}" --pml "$TM_TEST_PML,ob1,no_such_pml" || fail 'test/bench/run'
grep -q '^no_such_pml: not available: ' bench/table.txt || fail 'a PML that does not exist is not reported'

for pml in "$TM_TEST_PML" ob1; do
    for metric in latency_us bandwidth_mbs rate_mmps depth_us drain_us overlap_pct memory_kib init_ms; do
        grep -q "^1,$pml,$metric," bench/raw.csv || fail "no $metric of $pml"
    done
done
awk -F, 'NR > 1 && (NF != 7 || $5 !~ /^[0-9]+$/ || $6 !~ /^-?[0-9.]+(e[-+]?[0-9]+)?$/ || $3 != "overlap_pct" && $6 <= 0) {
    print; bad = 1 } END { exit bad }' bench/raw.csv || fail 'raw.csv has values that are none'
[[ -s bench/table.txt ]] || fail 'no table'
for plot in latency bandwidth rate depth; do
    [[ $(head -c 4 "bench/$plot.png" | tail -c 3) == PNG ]] || fail "$plot.png is no PNG"
    (($(stat -c %s "bench/$plot.png") > 5000)) || fail "$plot.png is empty"
done
