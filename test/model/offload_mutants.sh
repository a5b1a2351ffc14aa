#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# TEST: timeout=300 depends=common/fabric/fab.h,common/fabric/fab_tm.h,common/offload,common/match,test/unit/offload_dev.c,test/unit/offload_dev.h,test/unit/offload_world.c,test/unit/offload_world.h,test/unit/match_ref.h,test/unit/test_offload_random.c,test/unit/test_offload_exhaustive.c
#
# Do the offload engine's tests see an engine that is wrong? Each mutant below is
# common/offload/offload.c with one error in it, made by sed; the random runs or the exhaustive
# ones must fail with it. A mutant whose sed changes nothing fails the test.
. "$TM_SRC/test/lib/script.sh"

# NAME, then the sed program.
mutants=(
    # The errors of the protocol that the model knows as BUG2 to BUG6.
    "a message through the device is counted while it is parked, not visible"
    's/!by_device \&\& must_park/must_park/; s/by_device || !must_park/!must_park/'
    "the count is taken when a command is handed over, ahead of DELs behind it"
    '/const int rc = engine->config.ops->post(engine->config.device, cmd)/s/.*/    fab_tm_cmd_t late = *cmd; late.count = (uint16_t) engine->handled; const int rc = engine->config.ops->post(engine->config.device, \&late); cmd = \&late;/'
    "the count is one ahead"
    's/engine->handled = config->first_count;/engine->handled = config->first_count + 1;/'
    "listed although an older plain receive overlaps"
    's/if (filter_overlaps(scope->plain, &recv->match) || /if (/'
    "listed although an older waiting receive overlaps"
    's/ || filter_overlaps(scope->late, &recv->match)) {/) {/'
    "MPI_Cancel by an unsignaled DEL"
    's/reclaim(scope, recv, false, FAB_OFFLOAD_CANCELLING)/reclaim(scope, recv, true, FAB_OFFLOAD_CANCELLING)/'
    "a message by another path takes a listed receive with an unsignaled DEL"
    's/reclaim(scope, recv, by_device, FAB_OFFLOAD_UNLISTING)/reclaim(scope, recv, true, FAB_OFFLOAD_UNLISTING)/'
    "the outcome of a DEL is not looked at"
    's/is_success == recv->has_matched/false/; s/    if (recv->has_matched) {/    if (false) {/'

    # Receives that are not in the matcher yet.
    "a message does not see unfiled receives"
    '/^static fab_offload_recv_t \*match_msg/,/^}/s/^    fab_offload_file(scope);//'
    "MPI_Cancel does not see unfiled receives"
    '/^fab_offload_cancel_t fab_offload_cancel/,/^}/s/^    fab_offload_file(scope);//'
    "a receive in software passes unfiled ones"
    '/^void fab_offload_post(/,/^}/s/^    fab_offload_file(scope);//'
    "unfiled receives are filed in reverse order"
    's/container_of(scope->unfiled.next, fab_match_recv_t, order)/container_of(scope->unfiled.prev, fab_match_recv_t, order)/'
    "an unfiled receive that the device matched counts on"
    '/^static inline void unfile/,/^}/s/^        scope->num_unfiled--;//'
    "unfiled receives are forgotten when the device fails"
    's/^            fab_offload_file(recv->scope);//'

    # Filters.
    "the filter overlooks (source, ANY)" 's/(0 != filter->pattern\[1\] .*) ||/false ||/'
    "the filter overlooks (ANY, tag)" 's/(0 != filter->pattern\[2\] .*);/false;/'
    "the filter overlooks (ANY, ANY)" 's/ || (0 != filter->pattern\[3\] \&\& tag >= 0)) {/) {/'
    "the filter takes a wildcard for exact" 's/if (ANY == source || ANY == tag || (/if ((/'
    "a wildcard tag counts as internal" 's/match->tag < 0 \&\& ANY != match->tag/match->tag < 0/'
    "a waiting receive is not counted"
    's/^    filter_add(scope->late, .*//; s/^    filter_remove(scope->late, .*//'
    "a plain receive is counted on after it has gone" 's/^    filter_remove(scope->plain, .*//'

    # Waiting receives.
    "the youngest waiting receive is listed first"
    's/wait_recv(scope, recv, &scope->waiting);/wait_recv(scope, recv, scope->waiting.next);/'
    "a refused receive goes to the end of the line"
    's/wait_recv(scope, recv, scope->waiting.next)/wait_recv(scope, recv, \&scope->waiting)/'
    "receives behind a refused one are listed"
    's/for (uint32_t at = engine->ring_tail; at != /for (uint32_t at = engine->ring_head + 1; at != /'
    "a waiting receive is listed past a plain one"
    's/list_is_empty(&scope->waiting) || filter_overlaps(scope->plain, &recv->match)/list_is_empty(\&scope->waiting)/'
    "nobody looks when a plain receive has gone"
    '/^static void unplain_recv/,/^}/s/^    scope_retry(scope);//'
    "nobody looks when the first waiting receive has gone"
    '/^static void unwait_recv/,/^}/s/^    scope_retry(scope);//'

    # Messages by another path.
    "nothing is parked behind a DEL"
    '/^static inline bool must_park/,/^}/s/return .*/return scope->unlisting != NULL;/'
    "messages pass a parked one"
    '/^static inline bool must_park/,/^}/s/return .*/return false;/; s/^    if (by_device || !must_park(scope)) {/    if (by_device || scope->removing == 0) {/'
    "parked messages are in reverse order"
    's/list_insert(&scope->parked, &msg->order)/list_insert(scope->parked.next, \&msg->order)/'
    "a withdrawal is remembered beyond its message"
    '/^static fab_offload_event_t settle/,/^}/s/^        scope->withdrawn = NULL;.*//'
    "parked messages are forgotten" 's/^    scope_link(&engine->unpark, &scope->unpark);//'

    # Slots, commands, counts.
    "a listed receive that is taken stays on the list"
    's/^        push_del(engine, recv, !is_stale);/        if (!is_stale) { push_del(engine, recv, true); }/'
    "an ADD not yet handed over is not taken back"
    's/^        engine->ring\[recv->at & engine->ring_mask\].op = FAB_TM_NOP;//'
    "a DEL not yet handed over is not taken back" 's/if (!recv->is_del_queued) {/if (true) {/'
    "a matched receive stays in the matcher"
    's/^        unfile(scope, &recv->match);//'
    "a slot is taken for free at the first of two completions"
    '/^    case FAB_OFFLOAD_LISTED:$/,/break;/s/recv->state = FAB_OFFLOAD_MATCHED;/&engine->listed--;/; /^fab_offload_result_t fab_offload_matched/,/^}/s/^    unlist_recv(engine, recv);/    engine->listed++; unlist_recv(engine, recv);/'
    "a slot is taken for free when its DEL is built"
    '/^        scope->removing++;/s/$/ engine->listed--;/; /^static fab_offload_event_t settle/,/^}/s/^    scope->removing--;/& engine->listed++;/'
    "the data's completion is taken for the DEL's"
    '/^static fab_offload_result_t matched_ahead/,/^}/s/^        return FAB_OFFLOAD_NOTHING;/        if (has_data) { recv->is_del_queued = true; } else { return FAB_OFFLOAD_NOTHING; }/'
    "no command is signaled for its room" 's/engine->run_max = .*/engine->run_max = UINT32_MAX;/'
    "commands are handed over without room"
    's/^    if (engine->posted - engine->completed >= engine->config.max_ops) {$/    if (false) {/'
    "unexpected messages are not reported"
    '/^static bool report(/,/^}/s/^    if (!wants_ack/    if (true || !wants_ack/'
    "old commands are not waited for"
    '/^static bool report(/,/^}/s/engine->handled - engine->acked >= every/false/'
    "the age of commands starts at their completion"
    's/engine->acked = engine->tracked_count;/engine->acked = engine->handled;/'
    "commands are handed over while polling"
    's/if (engine->is_polling || engine->is_failed ||/if (engine->is_failed ||/'
    "an empty poll returns though something is to be listed"
    '/^static inline bool is_quiet/,/^}/s/list_is_empty(&engine->ready) \&\&/true \&\&/'
    "an empty poll returns though messages are to be reported"
    's/return engine->handled == engine->reported \&\& /return /'
    "a quiet poll does not end"
    '/^bool fab_offload_poll_end_quiet/,/^}/s/engine->is_polling = false;//'

    # Failure.
    "listed receives stay listed when the device fails"
    's/if (FAB_OFFLOAD_QUEUED == recv->state || FAB_OFFLOAD_LISTED == recv->state) {/if (FAB_OFFLOAD_QUEUED == recv->state) {/'
)

# shellcheck source=/dev/null
. "$TM_BUILD/test/config.sh"
random_flags=(-DWORLD_RECVS=12 -DWORLD_MSGS=14 -DWORLD_SCOPES=2 -DHW_SLOTS=8)
exhaustive_flags=(-DWORLD_RECVS=5 -DWORLD_MSGS=6)
read -ra includes <<<"-I$TM_SRC/common -I$TM_SRC/common/offload -I$TM_SRC/test/unit $TM_OMPI_CPPFLAGS"

# compile OUTPUT SOURCE... -- [FLAG...]: an object file for each source, linked to OUTPUT.o
compile()
{
    local output=$1 sources=()
    shift
    while [[ $1 != -- ]]; do
        sources+=("$TM_SRC/$1")
        shift
    done
    shift
    mkdir -p "$output.d"
    (cd "$output.d" && "$TM_CC" -std=gnu11 -O1 "${includes[@]}" "$@" -c "${sources[@]}")
}

helpers=(common/match/match.c test/unit/offload_dev.c test/unit/offload_world.c)
compile random "${helpers[@]}" test/unit/test_offload_random.c -- "${random_flags[@]}" ||
    fail "does not compile"
compile exhaustive "${helpers[@]}" test/unit/test_offload_exhaustive.c \
    -- "${exhaustive_flags[@]}" || fail "does not compile"

# is_seen FILE TEST...: does one of the tests fail with this engine? Running out of time is no
# answer.
is_seen()
{
    local test rc
    "$TM_CC" -std=gnu11 -O1 "${includes[@]}" -c -o engine.o "$1" || fail "does not compile: $1"
    shift
    for test in "$@"; do
        rc=0
        "$TM_CC" -o "$test" "$test.d"/*.o engine.o -lcmocka
        TM_TEST_RANDOM=0 TM_TEST_RUNS=200 timeout 200 "./$test" >"$test.out" 2>&1 || rc=$?
        ((rc != 124)) || fail "$test did not end"
        if ((rc != 0)); then
            echo "    $test: $(grep -ahoE 'ERROR: .*' "$test.out" | sed -n 1p)"
            return 0
        fi
    done
    return 1
}

! is_seen "$TM_SRC/common/offload/offload.c" random || fail "the engine itself fails"
survivors=0
for ((i = 0; i < ${#mutants[@]}; i += 2)); do
    echo "${mutants[i]}"
    sed "${mutants[i + 1]}" "$TM_SRC/common/offload/offload.c" >mutant.c
    ! cmp -s mutant.c "$TM_SRC/common/offload/offload.c" || fail "the mutation changes nothing"
    if ! is_seen mutant.c random exhaustive; then
        echo "    SURVIVED"
        survivors=$((survivors + 1))
    fi
done
((survivors == 0)) || fail "$survivors mutants survived"
echo "$((${#mutants[@]} / 2)) mutants, all seen"
