#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# TEST: timeout=300 needs=fi_info,libfabric-1.15 short=ofi
#
# MPI programs over libfabric in the moods of test/ofidev, and over others of its providers; in a
# short run every second one, by turns.
. "$TM_SRC/test/lib/script.sh"
# shellcheck source-path=SCRIPTDIR source=../lib/ofi.sh
. "$TM_SRC/test/lib/ofi.sh"

mapfile -t offers < <(ofi_offers tcp net)
((${#offers[@]} > 0)) || skip "libfabric has none of its providers for TCP here"
provider=${offers[0]}
one_of=2

for other in $(ofi_offers 'tcp;ofi_rxm' sockets); do
    over "$other" 2 basic
    over "$other" 2 ordering
    over "$other" 3 random "$(tm_seed 81)" "$(tm_seconds 5)"
    over_btl "$other" 2 onesided 20
done

# day STATUS PATTERN [NAME=VALUE...]: what test/first_day says of an adapter for libfabric.
day()
{
    local rc=0
    is_turn 2 || return 0
    env "${@:3}" "$TM_SRC/test/first_day" --ofi --quick --prefix "$TM_PREFIX" --out report >said \
        2>&1 || rc=$?
    cat said
    ((rc == $1)) || fail "first_day: status $rc, not $1"
    grep -qE -- "$2" said || fail "first_day does not say: $2"
}

day 0 "^ok +ofi is used: $provider \\(" "OMPI_MCA_pml_tm_ofi_provider=$provider"
day 1 '^BAD +ofi is not used: This host has no Slingshot, EFA or Omni-Path device'

"${TM_CC:-cc}" -std=gnu11 -D_GNU_SOURCE -g -O2 -Wall -Wextra -Werror -fPIC -shared \
    -o ofidev.so "$TM_SRC/test/ofidev/ofidev.c" -lfabric -ldl || fail "ofidev does not build"
ofidev=$TM_WORK/ofidev.so
# The moods show.
over "$provider" 2 OFIDEV_AGAIN=200 counters ofi_again
over "$provider" 2 OFIDEV_RELEASE=2 OFIDEV_DELAY=20 counters ofi_early
over "$provider" 2 OFIDEV_UNALIGNED=4 OFIDEV_LOST=100 counters ofi_unaligned ofi_lost_errors
over "$provider" 2 registered # a cache of libfabric's is told, too
over "$provider" 2 OFIDEV_NO_WAIT=1 OMPI_MCA_pml_tm_wait=sleep crowd pml_tm_wait_sleeps \
    '!pml_tm_wait_wakes'
over "$provider" 2 OFIDEV_DELAY=5 OMPI_MCA_pml_tm_wait=sleep crowd pml_tm_wait_sleeps

over "$provider" 2 OFIDEV_AGAIN=200 OFIDEV_CONTEXT2=1 basic
over "$provider" 2 OFIDEV_RELEASE=2 OFIDEV_DELAY=20 ordering
over "$provider" 3 OFIDEV_RELEASE=2 OFIDEV_DELAY=7 OFIDEV_MR_ENDPOINT=1 random "$(tm_seed 82)" \
    "$(tm_seconds 5)"
over "$provider" 3 OFIDEV_NO_RMA=1 OFIDEV_UNALIGNED=4 OFIDEV_ROOM=4 OFIDEV_LOST=10 \
    random "$(tm_seed 83)" "$(tm_seconds 5)"
over_btl "$provider" 2 OFIDEV_AGAIN=200 OFIDEV_CONTEXT2=1 OFIDEV_MR_ENDPOINT=1 onesided 20
