#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# TEST: timeout=600 needs=spin depends=test/model/tm.pml
#
# The protocol of split tag matching (doc/offload.md), checked by SPIN: model/tm.pml has no error
# in any order of events for the sizes below, and each error seeded into it (BUG) is found.
. "$TM_SRC/test/lib/script.sh"

# check NAME DEFINITION...: print what SPIN says; succeed if it finds no error.
check()
{
    local name=$1 dir
    shift
    dir=$(mktemp -d -p "$TM_WORK")
    cp "$TM_SRC/test/model/tm.pml" "$dir"
    (
        cd "$dir"
        spin -a "${@/#/-D}" tm.pml >spin.out || fail "$(cat spin.out)"
        cc -O2 -w -DSAFETY -DCOLLAPSE -DMEMLIM=3000 -o pan pan.c
        ./pan -m100000 -n >pan.out 2>&1 || true
    )
    printf '%-58s %s\n' "$name" \
        "$(grep -aoE 'errors: [0-9]+|[0-9.e+]+ states, stored' "$dir/pan.out" | paste -sd ' ')"
    ! grep -aqE 'error: max search depth|out of memory|memory limit|hash table full' \
        "$dir/pan.out" || fail "the search is not complete"
    rm -f "$dir"/pan "$dir"/pan.[bchmpt]
    grep -aqE 'errors: [0-9]+' "$dir/pan.out" ||
        fail "SPIN ended without a result: $(tail -n 3 "$dir/pan.out")"
    grep -aqE 'errors: 0$' "$dir/pan.out"
}

running=0 failed=0

# end_one: until one more of them has ended.
end_one()
{
    wait -n || failed=1
    running=$((running - 1))
}

# later COMMAND...: run it beside as many others as there are processors.
later()
{
    ((running < $(nproc))) || end_one
    "$@" &
    running=$((running + 1))
}

right()
{
    check "$@" || fail "an error in the protocol: $1"
}

wrong()
{
    ! check "$@" NM=3 NR=2 SPLIT=1 || fail "not found: $1"
}

later right "three messages, two receives" NM=3 NR=2
later right "two messages, three receives, no cancel" NM=2 NR=3 NCANCEL=0
later right "three each, no other path, no cancel" NM=3 NR=3 NOTHER=0 NCANCEL=0
later right "two sources" NM=3 NR=2 NSRC=2 NCANCEL=0
later right "matches in two steps" NM=2 NR=2 SPLIT=1
later right "two messages by the other path" NM=3 NR=2 NOTHER=2 NCANCEL=0
later right "one slot" NM=2 NR=3 NS=1 NCANCEL=0
later right "five messages, two receives, counters modulo 8" NM=5 NR=2 NOTHER=0 NCANCEL=0 MOD=8

later wrong "1 the device enables a receive whose ADD has an old count" BUG=1
later wrong "2 a message is counted before it is visible to matching" BUG=2
later wrong "3 a message is counted before the DEL of its receive" BUG=3
later wrong "4 listed although an older overlapping receive is not" BUG=4
later wrong "5 MPI_Cancel by an unsignaled DEL" BUG=5
later wrong "6 the outcome of a DEL is not looked at" BUG=6
later wrong "7 the other path takes a receive by an unsignaled DEL" BUG=7
later wrong "8 messages pass a parked one" BUG=8
later wrong "9 a waiting receive is listed past an older one" BUG=9
later wrong "10 a slot is free before the data is in" BUG=10
later wrong "11 the youngest waiting receive is listed first" BUG=11
! check "12 a command older than the counters' modulus" NM=5 NR=2 NOTHER=0 NCANCEL=0 MOD=4 ||
    fail "not found: old counts"

while ((running > 0)); do
    end_one
done
((failed == 0)) || fail "see above"
