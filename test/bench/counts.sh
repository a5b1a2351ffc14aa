#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# TEST: timeout=300 needs=valgrind
#
# The fast path costs no more instructions than counts.expected says, with 3 % to spare: a gate that
# does not depend on the machine's speed or load; some rows with 30 %, since what Open MPI and the
# providers do now and then by the clock is in them. Rows of ofi are without libfabric's own. What
# the program's own semaphores cost depends on who comes first and says nothing of the product:
# those rows are shown, and no part of the gate. The counts depend on Open MPI and the compiler, so
# each pair of them has its own; where there are none, the test is skipped (with TM_REQUIRE=counts
# it fails). After a change that is meant to cost more, or costs less: TM_COUNTS_RENEW=yes test/run
# bench/counts
. "$TM_SRC/test/lib/script.sh"

expected=$TM_SRC/test/bench/counts.expected
# shellcheck source=/dev/null
. "$TM_BUILD/test/config.sh"
release=$(ompi_info --parsable | sed -n 's/^ompi:version:full://p')
has_ofi=no
[[ -z $(find "$TM_PREFIX" -name 'libmca_common_tm_ofi-*.so') ]] ||
    ! fi_info -p net -t FI_EP_RDM >/dev/null 2>&1 || has_ofi=yes
key="Open MPI $release, $(basename "$TM_CC") $("$TM_CC" -dumpfullversion), $(uname -m)"

# count FILE [OPTION...]: writes the table.
count()
{
    "$TM_SRC/test/bench/instructions" --pml tm --prefix "$TM_PREFIX" --out counts "${@:2}" \
        >"$1" 2>&1 || {
        cat "$1"
        fail "test/bench/instructions ${*:2}"
    }
    cat "$1"
}

# measure: adds to the file `now` a line for each row, a text and a number, the least of what was
# seen so far.
measure()
{
    count table.tm
    count table.threads --level threads
    sed -i 's/^/threads, /' table.threads # of one thread, with MPI_THREAD_MULTIPLE
    [[ $has_ofi == no ]] || count table.ofi --ofi net
    cat table.* >table
    grep -Ev '^(threads, )?pair-sync' table | sed -nE "s/^(.*[^ ]) {2,}(-?[0-9.]+)\$/\1\t\2/p" |
        awk -F'\t' -v key="$key" '{ print key "\t" $1 "\t" $2 }' >rows
    (($(wc -l <rows) >= 6)) || fail "the table has not the rows that are expected"
    touch now
    awk -F'\t' -v OFS='\t' 'FILENAME == "now" { seen[$2] = $3; next }
        { print $1, $2, ($2 in seen && seen[$2] < $3 ? seen[$2] : $3) }' now rows >least
    mv least now
}

# compare: are all rows of `now` within what is expected?
compare()
{
    awk -F'\t' -v key="$key" -v has_ofi="$has_ofi" '
        NR == FNR { if ($1 == key && (has_ofi == "yes" || $2 !~ /^ofi/)) expected[$2] = $3; next }
        !($2 in expected) { print "no number for this row: " $2; bad = 1; next }
        {
            spare = 0.03 * expected[$2]
            if ($2 ~ /^(threads, )?(self-expected|poll|a failed|ofi: MPI_(Recv|Send))/) spare *= 10
            if (spare < 1) spare = 1
            if ($3 > expected[$2] + spare) {
                printf "%s: %s instructions, not %s\n", $2, $3, expected[$2]
                bad = 1
            }
            if ($3 < expected[$2] - spare)
                printf "%s: %s instructions, no longer %s: renew counts.expected\n", $2, $3,
                    expected[$2]
            seen[$2] = 1
        }
        END {
            for (row in expected)
                if (!(row in seen)) { print "this row is not counted any more: " row; bad = 1 }
            exit bad
        }' "$expected" now
}

measure
if [[ ${TM_COUNTS_RENEW-} == yes ]]; then
    { grep -vF "$key"$'\t' "$expected" || true; cat now; } >new
    cp new "$expected"
    echo "written: $expected"
fi
grep -qF "$key"$'\t' "$expected" ||
    skip_without counts "no counts for $key in test/bench/counts.expected"

# What is done by the clock can only add to a count, so a row that is too high is counted again.
for again in 1 2; do
    compare && exit 0
    echo "counted once more ($again)"
    measure
done
compare ||
    fail "the fast path costs more than test/bench/counts.expected says; if it must, TM_COUNTS_RENEW=yes test/run bench/counts writes the new numbers"
