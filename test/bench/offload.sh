#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# TEST: timeout=120
#
# offload_share accounts for every receive: each message that found one found a receive that was
# listed or counted with its reason.
: "${TM_SRC:=$(cd "$(dirname "$0")/../.." && pwd)}"
. "$TM_SRC/test/lib/script.sh"

# row TEXT: the numbers of a row, zeros if it is not there.
row()
{
    awk -v text="$1" \
        'index($0, text "  ") == 1 { print substr($0, 41); found = 1 } END { if (!found) print "0 0 0 0" }' table
}

# share [NAME=VALUE...]: the table, checked.
share()
{
    local found listed late kind
    env "$@" "$TM_SRC/test/bench/offload_share" --device tmdev --prefix "$TM_PREFIX" --ranks 3 \
        --rounds 8 >table ||
        fail "offload_share"
    cat table
    read -ra found < <(row 'messages that found a receive')
    read -ra listed < <(row 'receives listed when posted')
    for kind in 0 1 3; do # two receives of workers are cancelled
        late=$(awk -v field=$((kind + 1)) '/^not listed: / { $0 = substr($0, 41); sum += $field } END { print sum + 0 }' table)
        ((found[kind] > 0 && found[kind] == listed[kind] + late)) ||
            fail "${found[kind]} receives, ${listed[kind]} + $late counted"
    done
}

share
read -ra matched < <(row 'matched by the device')
((matched[0] > 0 && matched[3] > 0)) || fail "the device matched nothing"
share TMDEV_TM_TAGS=4
grep -q '^not listed: the list is full' table || fail "a list of 4 was never full"
