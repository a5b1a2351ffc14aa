# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash
# HPC Challenge at a small size, for apps/hpcc.sh and hosts/hpcc.sh, which source it after
# script.sh: HPL with every broadcast it has, PTRANS, RandomAccess, FFT, and its latency and
# bandwidth part. Each part checks its result; all of them must be there, and right.

# hpcc_input: what 4 ranks of hpcc are to do, in ./hpccinf.txt.
hpcc_input()
{
    cat >hpccinf.txt <<'END'
HPLinpack benchmark input file
of test/apps/hpcc.bash
HPL.out      output file name (if any)
8            device out (6=stdout,7=stderr,file)
2            # of problems sizes (N)
300 700      Ns
2            # of NBs
24 64        NBs
0            PMAP process mapping (0=Row-,1=Column-major)
2            # of process grids (P x Q)
2 1          Ps
2 4          Qs
16.0         threshold
1            # of panel fact
2            PFACTs (0=left, 1=Crout, 2=Right)
1            # of recursive stopping criterium
4            NBMINs (>= 1)
1            # of panels in recursion
2            NDIVs
1            # of recursive panel fact.
1            RFACTs (0=left, 1=Crout, 2=Right)
6            # of broadcast
0 1 2 3 4 5  BCASTs (0=1rg,1=1rM,2=2rg,3=2rM,4=Lng,5=LnM)
2            # of lookahead depth
0 1          DEPTHs (>=0)
2            SWAP (0=bin-exch,1=long,2=mix)
64           swapping threshold
0            L1 in (0=transposed,1=no-transposed) form
0            U  in (0=transposed,1=no-transposed) form
1            Equilibration (0=no,1=yes)
8            memory alignment in double (> 0)
##### This line (no. 32) is ignored (it serves as a separator). ######
2            Number of additional problem sizes for PTRANS
500 333      values of N
2            number of additional blocking sizes for PTRANS
16 40        values of NB
END
}

# The summary is lines KEY=VALUE.
hpcc_summary()
{
    sed -n "s/^$1=//p" hpccoutf.txt
}

# hpcc_none ERE: no line says so.
hpcc_none()
{
    ! grep -E "$1" hpccoutf.txt || fail "HPCC reports a failure: $1"
}

# hpcc_check: of ./hpccoutf.txt.
hpcc_check()
{
    local ptrans key
    cat hpccoutf.txt
    grep -q '^End of HPC Challenge tests' hpccoutf.txt || fail 'HPCC did not come to its end'
    [[ $(hpcc_summary Success) == 1 ]] || fail 'no success by the summary'
    [[ $(hpcc_summary CommWorldProcs) == 4 ]] || fail 'not 4 processes'
    hpcc_none 'FAILED|\(failed\)'
    hpcc_none '^ *[1-9][0-9]* tests completed and failed'
    hpcc_none '^ *[1-9][0-9]* tests skipped'
    hpcc_none '^Node\(s\) with error [1-9]'
    hpcc_none '^Found [1-9][0-9]* errors'
    (($(grep -c '(passed)' hpccoutf.txt) == 4)) || fail 'not all RandomAccess tests passed'
    # HPL: 2 sizes, 2 blockings, 2 grids, 6 broadcasts, 2 depths.
    (($(grep -c '^||Ax-b||.* PASSED' hpccoutf.txt) == 96)) || fail 'not all HPL tests passed'
    grep -Eq '^ +96 tests completed and passed residual checks' hpccoutf.txt ||
        fail 'HPL does not count 96 passes'
    ptrans=$(sed -nE 's/^Finished +([0-9]+) tests, with the following results:/\1/p' hpccoutf.txt)
    ((ptrans > 0)) || fail 'no PTRANS'
    grep -Eq "^ +$ptrans tests completed and passed residual checks" hpccoutf.txt ||
        fail 'not all PTRANS tests passed'
    [[ $(hpcc_summary MPIRandomAccess_Errors) == 0 ]] || fail 'errors in MPIRandomAccess'
    [[ $(hpcc_summary MPIRandomAccess_LCG_Errors) == 0 ]] || fail 'errors in MPIRandomAccess_LCG'
    awk -v e="$(hpcc_summary MPIFFT_maxErr)" \
        'BEGIN { exit !(e != "" && e + 0 >= 0 && e + 0 < 1e-12) }' || fail 'the error of MPIFFT'
    for key in MaxPingPongLatency_usec RandomlyOrderedRingLatency_usec MinPingPongBandwidth_GBytes \
        RandomlyOrderedRingBandwidth_GBytes; do
        awk -v v="$(hpcc_summary $key)" 'BEGIN { exit !(v + 0 > 0) }' || fail "$key"
    done
}
