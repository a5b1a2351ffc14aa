#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# TEST: timeout=180 quick=no needs=gnuplot short=turns
#
# The benchmarks run, and leave what they promise: a table, results that parse, plots. No time is
# judged.
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
1,a,rate_mmps,window,8,9,9
2,a,rate_mmps,window,8,3,9
3,a,rate_mmps,window,8,5,9
1,b,rate_mmps,window,8,4,4
1,a,osu_bibw,np2,64,30,30
1,b,osu_bibw,np2,64,20,20
END
report()
{
    awk -v pmls='a b c' -v subject=a "$@" -f "$TM_SRC/test/bench/report.awk" known.csv |
        tee known.txt
}
report
grep -qE '^half +8 +2\.000 ±50% +5\.000 ±20% +9\.000 +~0\.40$' known.txt ||
    fail 'the table has not the medians, not the spread, or not the ratio'
grep -qE '^window +64 +300\.0 +100\.0 +200\.0 +1\.50$' known.txt ||
    fail 'the best peer of a rate is not the largest'
grep -qE '^np2 +64 +30\.00 +20\.00 +- +1\.50$' known.txt ||
    fail 'of a bandwidth of OSU the best is not the largest'
grep -qE '^window +8 +5\.000 ±60% +4\.000 +- +noise$' known.txt ||
    fail 'a ratio stands beside rounds that differ by more than the value'
[[ $(report -v metric=rate_mmps -v variant=window -v pml=a) == '8 5 3 9' ]] ||
    fail 'a plot does not get the least and the greatest round'
report -v statistic=best
grep -qE '^half +8 +1\.000 +3\.000 +3\.000 +0\.33$' known.txt || fail 'the table has not the best'
report -v format=html
grep -q '^<tr><td>window</td><td>64</td><td>300.0</td>' known.txt || fail 'no row in HTML'

# ---- programs of OSU and IMB, played by scripts
mkdir -p osu imb
cat >osu/osu_latency <<'END'
#!/bin/sh
[ "${OMPI_COMM_WORLD_RANK:-0}" = 0 ] || exit 0
printf '# OSU MPI Latency Test v7\n# Size          Latency (us)\n'
printf '8                       0.25\n64                      0.50\n'
END
cat >imb/IMB-MPI1 <<'END'
#!/bin/sh
[ "${OMPI_COMM_WORLD_RANK:-0}" = 0 ] || exit 0
cat <<'OUT'
# Benchmarking Exchange
       #bytes #repetitions  t_min[usec]  t_max[usec]  t_avg[usec]   Mbytes/sec
            8         1000         1.00         3.00         2.00         9.00
# All processes entering MPI_Finalize
OUT
END
chmod +x osu/osu_latency imb/IMB-MPI1

# ---- the benchmarks
compare=("$TM_SRC/test/bench/compare" --smoke --out "$TM_WORK/bench")
"${compare[@]}" --peers "$TM_TEST_PML,ob1,no_such_pml" || fail 'test/bench/compare'
grep -q '^no_such_pml: not available: ' bench/table.txt ||
    fail 'a PML that does not exist is not reported'
"${compare[@]}" --add --peers "$TM_TEST_PML,ob1" --osu osu --imb imb/IMB-MPI1 osu_latency \
    imb:Exchange counts halo cold crowded programs ||
    fail 'test/bench/compare --osu'
grep -q "^1,$TM_TEST_PML,osu_latency,np2,64,0.50,0.50$" bench/raw.csv ||
    fail 'the result of OSU is not taken'
grep -q '^1,ob1,imb:Exchange,np2,8,2.00,2.00$' bench/raw.csv ||
    fail 'the result of IMB is not taken'

metrics=(latency_us bandwidth_mbs rate_mmps written_us depth_us drain_us halo_us face_us
    memory_kib init_ms threads_mmps copies cold_us regret_us crowded_ms crowded_us)
! command -v strace >/dev/null || metrics+=(calls)
! command -v lmp >/dev/null || metrics+=(program_s)
for pml in "$TM_TEST_PML" ob1; do
    for metric in "${metrics[@]}"; do
        grep -q "^1,$pml,$metric," bench/raw.csv || fail "no $metric of $pml"
    done
done
awk -F, 'NR > 1 && (NF != 7 || $5 !~ /^[0-9]+$/ || $6 !~ /^-?[0-9.]+(e[-+]?[0-9]+)?$/ ||
    $3 !~ /^(calls|threads_mmps|crowded_switches)$/ && $6 <= 0) { print; bad = 1 }
    END { exit bad }' bench/raw.csv ||
    fail 'raw.csv has values that are none'
# 4 KiB: into the ring, out of it
awk -F, -v pml="$TM_TEST_PML" \
    '$2 == pml && $3 == "copies" { seen = 1; if ($6 < 0.9 || $6 > 4) { print; bad = 1 } }
    END { exit bad || !seen }' bench/raw.csv || fail 'the copies are not counted'
[[ -s bench/table.txt ]] || fail 'no table'
grep -q '^pml_tm [0-9].* rounds, ' bench/heading.txt || fail 'what was measured is not said'
(($(nproc) < 2)) || grep -qE '^A cache line takes [0-9]+, later [0-9]+ ns' bench/heading.txt ||
    fail 'the heading has not the time of a cache line'
for pattern in pingpong exchange pingpong-same exchange-same; do
    grep -q "^1,$TM_TEST_PML,written_us,$pattern,65536," bench/raw.csv || fail "no $pattern"
done

# ---- what is not part of it
"${MPICC:-mpicc}" -O2 -Wall -Wextra -o beside "$TM_SRC/test/bench/beside.c"
tm_mpirun 2 ./beside -b 1 -t 1 -l 0,100000 || fail 'test/bench/beside'
grep -q '^R beside_MB/s large 100000 ' out || fail 'test/bench/beside has no result'

# ---- the thresholds: a file that Open MPI takes
"$TM_SRC/test/bench/tune" --smoke --out tuned.conf || fail 'test/bench/tune'
for parameter in pml_tm_eager_limit pml_tm_stream_limit pml_tm_shm_cooperative \
    pml_tm_shm_copy_step pml_tm_wait; do
    grep -qE "^# $parameter: time against the default .*: 1\.00, .*: [0-9]+\.[0-9]+$" tuned.conf ||
        fail "no costs of $parameter"
done
echo 'pml_tm_eager_limit = 4096' >>tuned.conf
OMPI_MCA_mca_base_param_files=$PWD/tuned.conf ompi_info --parsable --param pml tm --level 9 |
    grep -q 'pml_tm_eager_limit:value:"\?4096' || fail 'Open MPI does not take the file'

# ---- the machine, as a row of test/unit/machines.h: seven sizes, four kinds, two ways
if (($(nproc) >= 2)); then
    "$TM_SRC/test/bench/machine" --smoke >machine || fail 'test/bench/machine'
    tail -n 6 machine
    (($(tail -n 4 machine | tr -cs '0-9.' '\n' | grep -c .) == 56)) ||
        fail 'test/bench/machine has not all times'
fi

for plot in latency bandwidth rate depth threads; do
    [[ $(head -c 4 "bench/$plot.png" | tail -c 3) == PNG ]] || fail "$plot.png is no PNG"
    (($(stat -c %s "bench/$plot.png") > 5000)) || fail "$plot.png is empty"
done
(($(grep -c 'src="data:image/png;base64,' bench/index.html) == 5)) ||
    fail 'index.html has not the five plots'
! grep -E 'src="[^d]|href=' bench/index.html || fail 'index.html needs other files'
