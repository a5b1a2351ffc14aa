#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# TEST: timeout=300 depends=common/fabric/fab.h,common/fabric/fab_tm.h,common/offload,common/match,common/ofi/ofi_offers.c,common/ofi/ofi_offers.h,common/ofi/ofi_places.c,common/ofi/ofi_places.h,test/unit/offers_world.c,test/unit/offers_world.h,test/unit/test_offload_offers.c
#
# Do the tests of offers see offers that are wrong?  Each mutant below is ofi_places.c or
# ofi_offers.c with one error in it, made by sed; the random runs must fail with it. A mutant whose
# sed changes nothing fails the test.
. "$TM_SRC/test/lib/script.sh"

# NAME, file, then the sed program.
mutants=(
    # At the sender.
    "an offer is usable though a message that fits it was under way" offers
    's/added->is_usable \&\& !(msg->is_tagged/true || !(msg->is_tagged/'
    "an offer is usable after a message that named none" offers
    's/^        offers->offer\[at\].is_usable &= .*/        (void) tag;/'
    "an offer that is not usable is passed over" offers
    's/while (offer < end \&\& !fits(/while (offer < end \&\& !(offer->is_usable \&\& fits)(/; s/\&\& fits)(offer, tag)) {/\&\& fits(offer, tag))) {/'
    "a message names an offer that is too short" offers
    's/ \&\& len <= offer->len ? / ? /'

    # At the receiver: offers.
    "offered while an answer is awaited" places
    's/return 0 == source->num_gone \&\& /return /'
    "offered while memory is being taken back" places
    's/ 0 == source->num_cancelling \&\&//'
    "offered past an older receive that is not" places
    's/    if (0 != source->num_unoffered || !offer(places, place)) {/    if (!offer(places, place)) {/'
    "offered though a message may have passed over it" places
    's/if (places->handled != places->reported || /if (/'

    # Cancels.
    "a signaled DEL takes only its own memory back" places
    's/        if (!other->is_matched \&\& !other->is_junk) {/        if (other == place) {/'
    "memory is taken back the oldest first" places
    's/TAILQ_FOREACH_REVERSE(other, &place->source->places, fab_ofi_place_queue, link)/TAILQ_FOREACH(other, \&place->source->places, link)/'
    "a DEL succeeds before all memory is back" places
    's/if (NULL == source || 0 != source->num_cancelling) {/if (NULL == source) {/'
    "offers without memory stay" places
    's/} else if (place->is_offered \&\& place->is_listed) {/} else if (false) {/'
    "a DEL that is not signaled leaves the memory to libfabric" places
    '/^    if (!is_signaled) {/,/^    }/s/        take_back(places, place);//'
    "the data of a message that named in vain is left in libfabric" places
    's/^        place->is_junk = FAB_OFI_IO_LANDED != place->io;/        place->is_junk = false;/; /place->is_junk = false;/,/return FAB_OFI_NAMED_NONE/s/            fetch(places, place);//'
    "a withdrawn offer is matched" places
    's/    if (place->is_gone || NULL == place->recv) {/    if (NULL == place->recv) {/'
    "data that was to be fetched is not" places
    's/    if (!is_over \&\& (place->is_junk || place->is_matched)) {/    if (!is_over \&\& place->is_junk) {/'
    "a place is free while its memory is libfabric'\''s" places
    's/        FAB_OFI_IO_POSTED == place->io || FAB_OFI_IO_CANCELLING == place->io) {/        false) {/'
    "signals are completed out of order" places
    's/^                break;/                places->signals_head++; continue;/'
)

# shellcheck source=/dev/null
. "$TM_BUILD/test/config.sh"
read -ra includes <<<"-I$TM_SRC/common -I$TM_SRC/test/unit $TM_OMPI_CPPFLAGS"
flags=(-std=gnu11 -D_GNU_SOURCE -O1 -w "${includes[@]}" -DFAB_MATCH_SHORT_LEN=8 -DOFFERS_RECVS=8
    -DOFFERS_MSGS=8 -DOFFERS_SOURCES=2 -DOFFERS_PLACES=32)
mkdir helpers
(cd helpers && "$TM_CC" "${flags[@]}" -c "$TM_SRC/common/offload/offload.c" \
    "$TM_SRC/common/match/match.c" "$TM_SRC/test/unit/offers_world.c" \
    "$TM_SRC/test/unit/test_offload_offers.c") || fail "does not compile"

# is_seen OFFERS PLACES: do the random runs fail with these files? Running out of time is no answer.
is_seen()
{
    local rc=0
    "$TM_CC" "${flags[@]}" -o random "$1" "$2" helpers/*.o -lcmocka || fail "does not compile"
    TM_TEST_RANDOM=0 TM_TEST_RUNS=2000 timeout 100 ./random >random.out 2>&1 || rc=$?
    ((rc != 124)) || fail "the random runs did not end"
    ((rc != 0)) || return 1
    echo "    $(grep -ahoE 'ERROR: .*' random.out | sed -n 1p)"
}

ofi=$TM_SRC/common/ofi
! is_seen "$ofi/ofi_offers.c" "$ofi/ofi_places.c" || fail "offers themselves fail"
survivors=0
for ((i = 0; i < ${#mutants[@]}; i += 3)); do
    echo "${mutants[i]}"
    cp "$ofi/ofi_offers.c" "$ofi/ofi_places.c" .
    sed -i "${mutants[i + 2]}" "ofi_${mutants[i + 1]}.c"
    ! cmp -s "ofi_${mutants[i + 1]}.c" "$ofi/ofi_${mutants[i + 1]}.c" ||
        fail "the mutation changes nothing"
    if ! is_seen ofi_offers.c ofi_places.c; then
        echo "    SURVIVED"
        survivors=$((survivors + 1))
    fi
done
((survivors == 0)) || fail "$survivors mutants survived"
echo "$((${#mutants[@]} / 3)) mutants, all seen"
