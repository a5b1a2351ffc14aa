#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# TEST: timeout=600 depends=common/session,common/fabric/fab.h,common/fabric/fab_provider.h,test/unit/test_session_exhaustive.c
#
# Does the exploration of sessions see a session that is wrong?  Each mutant below is
# common/session/session.c with one error in it, made by sed; unit/test_session_exhaustive, which
# passes without, must fail with it.  A mutant whose sed changes nothing fails the test.
#
# There is no mutant of the clock in asked_while_closing(): the exploration lets both sides hear
# that a path broke, so the last word never fails to come without that.
. "$TM_SRC/test/lib/script.sh"

# NAME, then the sed program.
mutants=(
    # Requests that cross.
    "both park the other's HELLO"
    's/ses->is_out && ses->dom->name < ses->peer->name/ses->is_out/'
    "both answer the other's HELLO"
    's/ses->is_out && ses->dom->name < ses->peer->name/false/'
    "who is asked may send at once"
    '/^    ses->state = FAB_SES_ASKED;$/,/^}/s/has_shape(ses, FAB_SES_FIFO)/true/'
    "an answered HELLO does not void those before it"
    '/^static void answer(/,/^}/s/^    ses->void_ = hello.serial;//'
    "WELCOME does not void the peer's HELLOs"
    's/^        ses->void_ = welcome->other;//'
    "a void HELLO is answered"
    's/if (serial <= ses->void_ || /if (/'
    "an answer does not void the own HELLO"
    '/^static void answer(/,/^}/s/ses->serial = ++ses->dom->serial;/ses->serial = ses->dom->serial;/'
    "HELLO that is sent again has the old number"
    '/^void fab_ses_stamp/,/^}/s/++ses->dom->serial/(ses->is_out ? ses->serial : ++ses->dom->serial)/'
    "WELCOME to any HELLO is taken"
    's/ && ses->is_out && msg->serial == ses->serial) {/) {/'
    "a parked HELLO that is later than WELCOME is forgotten"
    '/^static void on_welcome/,/^}/s/if (NULL != ses->parked &&/if (false \&\& NULL != ses->parked \&\&/'
    "an older HELLO takes the place of a parked one"
    '/^static void park(/,/^}/s/if (NULL != ses->parked &&/if (false \&\& NULL != ses->parked \&\&/'
    "the parked HELLO is not answered when the own attempt has failed"
    's/if (has_via && answer_parked(ses)) {/if (false) {/'
    "without a via, the parked HELLO gets no word when the own attempt has failed"
    's/^        fab_ses_refuse(ses->dom, ses->parked, FAB_SES_REASON_WAY);/        ses->dom->ops->free_via(ses->parked);/'
    "the parked HELLO is not answered when the session is over"
    '/^static void over(/,/^}/s/answer_parked(ses)/false/'
    "WELCOME to a HELLO that was given up is not refused"
    '/^void fab_ses_on_answer/,/^}/s/^        ses->dom->ops->refuse_peer(ses, &refusal);/        (void) refusal;/'
    "REFUSE of the own WELCOME is not heard"
    's/msg->serial == ses->serial && FAB_SES_ASKED == ses->state/false/'
    "REFUSE of an older message counts"
    '/^static void on_refuse/,/^}/s/msg->serial == ses->serial/true/'
    "REFUSE behind WELCOME is not heard"
    's/msg->serial == ses->asked && ses->is_mine/false/'
    "who was asked does not hear that the via broke"
    '/^void fab_ses_via_broke/,/^}/s/FAB_SES_ASKED == ses->state/false/'
    "who asks does not hear that the via broke"
    '/^void fab_ses_via_broke/,/^}/s/FAB_SES_ASKING == ses->state || FAB_SES_TRYING == ses->state/false/'
    "the first word is not heard"
    '/^void fab_ses_first/,/^}/s/FAB_SES_ASKED == ses->state/false/'
    "the path that works is not used"
    '/^void fab_ses_path_works/,/^}/s/FAB_SES_TRYING == ses->state/false/'

    # An attempt that leads to nothing, and the next provider.
    "who was asked and cannot answer owes nothing"
    's/const bool is_owed = ses->is_owed || (FAB_SES_ASKED == ses->state && !has_via);/const bool is_owed = ses->is_owed; (void) has_via;/'
    "a closed peer owes nothing"
    '/^static void cannot(fab_ses_t \*ses, int rc, const char \*why)$/,/^}/s/ses->is_closed && !is_owed/ses->is_closed/'
    "closing forgets what is owed"
    '/^bool fab_ses_close/,/^}/s/if (ses->is_owed) {/if (false) {/'
    "who owes moves only if something is to be sent"
    's/^        fab_peer_owes(ses->peer, rc, why);/        fab_peer_cannot_connect(ses->peer, rc, why);/'
    "who owes does not ask by the next provider"
    '/^void fab_ses_ask_owed/,/^}/s/^    fab_ses_want(ses);//'
    "who owes and is closed is not closed by the next provider"
    '/^void fab_ses_ask_owed/,/^}/s/^    ses->is_closed = .*//'
    "who owes forgets it by the next provider"
    '/^void fab_ses_ask_owed/,/^}/s/^    ses->is_owed = true;//'
    "a session that is over forgets what is owed"
    '/^static void over(/,/^}/s/const bool is_owed = ses->is_owed;/const bool is_owed = false;/'
    "a peer moves although the session was used"
    '/^fab_moves_t fab_ses_asked_by_later/,/^}/s/ses->is_used/false/g'
    "a peer moves before the last word"
    '/^fab_moves_t fab_ses_asked_by_later/,/^}/s/if (FAB_SES_CLOSING == ses->state) {/if (false) {/'
    "a peer that has asked by a later provider is waited for"
    '/^fab_moves_t fab_ses_asked_by_later/,/^}/s/if (0 == ses->num_ticks)/if (false)/'
    "a session that was given up before its first message fails"
    '/^static void asked_while_up/,/^}/s/if (!ses->is_used) {/if (false) {/'
    "a session that was used is given up for another one"
    '/^static void asked_while_up/,/^}/s/if (!ses->is_used) {/if (true) {/'

    # A path that breaks.
    "the path fails before all that came by it is taken"
    '/^void fab_ses_path_broke/,/^}/s/if (ses->dom->ops->is_drained(ses)) {/if (true) {/'
    "HELLO is refused before all that came by a broken path is taken"
    '/^void fab_ses_on_hello/,/^}/s/^        park(ses, via); \/\* the last word.*/        fab_ses_refuse(ses->dom, via, FAB_SES_REASON_PEER);/'
    "the path fails, and it is forgotten"
    '/^void fab_ses_drained/,/^}/s/^        broke(ses, .*//'
    "messages are sent on a broken path"
    '/^void fab_ses_path_broke/,/^}/s/^    ses->window = 0;//'
    "a broken path that was not used fails the peer"
    '/^static void broke(/,/^}/s/ses->is_used) {/true) {/'
    "a closed connection that nobody used fails the peer"
    '/^static void broke(/,/^}/s/!ses->is_used && has_shape/false \&\& has_shape/'
    "a closed peer whose path broke is waited for"
    '/^static void broke(/,/^}/s/FAB_SES_CLOSING == ses->state && ses->is_closed/false/'
    "a broken path is no failure while a pause is agreed on"
    '/^static void broke(/,/^}/s/FAB_SES_CLOSING == ses->state && ses->is_closed/FAB_SES_CLOSING == ses->state/'

    # The end.
    "messages are sent behind BYE" '/^static void say_bye/,/^}/s/^    ses->window = 0;//'
    "BYE is not answered"
    '/^static void bye_while_up/,/^}/s/^        say_bye(ses, .*/        ses->bye = FAB_SES_BYE_CLOSE; ses->state = FAB_SES_CLOSING;/'
    "BYE in answer to BYE is answered by one more"
    '/^static void both_said/,/^}/s/^    if (has_shape(ses, FAB_SES_FIFO)) {/    ses->dom->ops->bye(ses, FAB_SES_BYE_CLOSE);\n&/'
    "the fabric is told that a peer has left whose record is gone"
    '/^static void both_said/,/^}/s/ && !ses->is_closed//'
    "a stream is closed before its end"
    '/^static void both_said/,/^}/s/if (has_shape(ses, FAB_SES_FIFO)) {/if (false) {/'
    "a stream that broke behind both last words has failed"
    '/^static void both_said/,/^}/s/^        forget_failure(ses);.*//'
    "the end of the stream is not the end of the session"
    '/^void fab_ses_path_ended/,/^}/s/^        over(ses);//'
    "a pause is agreed to while messages wait, and refused while none do"
    '/^static void bye_while_up/,/^}/s/!ses->dom->ops->is_idle(ses)/ses->dom->ops->is_idle(ses)/'
    "STAY is not heard" '/^static bool stay(/,/^}/s/^    up(ses);//'
    "STAY leaves the own word said" '/^static bool stay(/,/^}/s/^    ses->bye = FAB_SES_BYE_NONE;//'
    "a declined pause leaves the peer's word said"
    '/^static void bye_while_up/,/^}/s/^        ses->peer_bye = FAB_SES_BYE_NONE;//'
    "a closed peer is not told so when the session is up"
    '/^static void up(/,/^}/s/if (ses->is_closed) {/if (false) {/'
    "closing does not wait for a peer that may have agreed"
    '/^bool fab_ses_close/,/^}/s/ses->state && !ses->is_out/ses->state/'
    "a closed peer's parked HELLO goes with it"
    '/^static void finish(/,/^}/s/^        ses->dom->ops->again(ses->parked);/        ses->dom->ops->free_via(ses->parked);/'
    "a closed peer's parked HELLO is answered by its session"
    '/^static void over(/,/^}/s/if (ses->is_closed && !is_owed) {/if (ses->is_closed \&\& !is_owed \&\& NULL == ses->parked) {/'
    "a closed peer stays" '/^static void over(/,/^}/s/if (ses->is_closed && !is_owed) {/if (false) {/'
    "a session that has ended counts as used" '/^static void reset(/,/^}/s/ses->is_used = //'
    "HELLO does not say which session has ended"
    '/^void fab_ses_stamp/,/^}/s/\.other = ses->ended/.other = 0/'
    "a HELLO behind BYE is taken for a new request at once"
    '/^void fab_ses_on_hello/,/^}/s/FAB_SES_CLOSING == ses->state/false/'
    "a peer that failed here is not told so"
    '/^void fab_ses_drop/,/^}/s/^        say_bye(ses, FAB_SES_BYE_REFUSE);//'
    "a peer that failed here may decline a pause"
    '/^void fab_ses_drop/,/^}/s/FAB_SES_BYE_PAUSE == ses->bye/false/'
    "a peer that failed here waits for its WELCOME's session"
    '/^void fab_ses_drop/,/^}/s/^    refuse_peer(ses);//'
    "a peer that failed here waits for its parked HELLO"
    '/^void fab_ses_drop/,/^}/s/^        fab_ses_refuse(ses->dom, ses->parked, FAB_SES_REASON_PEER);//'
    "BYE refuse is no failure"
    '/^static void bye_while_up/,/^}/s/FAB_SES_BYE_REFUSE == bye/false/'
    "BYE refuse is no failure behind a pause"
    '/^bool fab_ses_on_bye/,/^}/s/FAB_SES_BYE_REFUSE == bye/false/'
)

# Seen by one of the larger configurations only.
declare -A deep=(["a session that is over forgets what is owed"]="none+via 1201200")

# shellcheck source=/dev/null
. "$TM_BUILD/test/config.sh"
read -ra flags <<<"-std=gnu11 -D_GNU_SOURCE -O2 -I$TM_SRC/common -I$TM_SRC -I$TM_SRC/test/unit $TM_OMPI_CPPFLAGS -Dmalloc=explore_malloc -Dfree=explore_free"
"$TM_CC" "${flags[@]}" -c -o explorer.o "$TM_SRC/test/unit/test_session_exhaustive.c" ||
    fail "does not compile"

# is_seen NAME: does the exploration fail with mutant.c?  Running out of time is no answer.
is_seen()
{
    local rc=0 only=${deep[$1]:-}
    "$TM_CC" "${flags[@]}" -O0 -c -o session.o mutant.c || fail "does not compile: $1"
    "$TM_CC" -o explorer explorer.o session.o -lcmocka
    timeout $((60 * ${TM_TEST_TIMEOUT_SCALE:-1})) env ${only:+TM_TEST_ONLY="$only"} ./explorer \
        >out 2>&1 || rc=$?
    ((rc != 124)) || fail "the exploration did not end"
    ((rc != 0)) || return 1
    echo "    $(grep -ahoE 'ERROR: .*' out | sed -n 1p)"
}

survivors=0
for ((i = 0; i < ${#mutants[@]}; i += 2)); do
    echo "${mutants[i]}"
    sed "${mutants[i + 1]}" "$TM_SRC/common/session/session.c" >mutant.c
    ! cmp -s mutant.c "$TM_SRC/common/session/session.c" || fail "the mutation changes nothing"
    if ! is_seen "${mutants[i]}"; then
        echo "    SURVIVED"
        survivors=$((survivors + 1))
    fi
done
((survivors == 0)) || fail "$survivors mutants survived"
echo "$((${#mutants[@]} / 2)) mutants, all seen"
