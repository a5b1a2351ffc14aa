# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash
# For the tests of tmdev: build the library and the test programs in one way, and run them.

. "$TM_SRC/test/lib/script.sh"
. "$TM_SRC/test/lib/tmdev.sh"
# shellcheck source=/dev/null
. "$TM_BUILD/test/config.sh"

export TMDEV_FABRIC=$$ # other tests, at the same time, have other devices

tmdev_tests=(test_verbs test_objects test_tm test_tm_rendezvous test_tm_protocol)

# run_tests NAME [FLAG...]
run_tests()
{
    local out test run=()
    out=$(tm_build_tmdev "$@")
    shift
    # The thread sanitizer's shadow memory wants the old, lesser randomization of addresses.
    if [[ $* == *=thread* ]] && setarch -R true 2>/dev/null; then
        run=(setarch -R)
    fi
    export TSAN_OPTIONS=halt_on_error=1:second_deadlock_stack=1 UBSAN_OPTIONS=print_stacktrace=1
    for test in "${tmdev_tests[@]}"; do
        tm_build_tmdev_test "$out" "$test" "$@"
        ${run[@]+"${run[@]}"} "$out/$test" || fail "$test, built with $*"
    done
}
