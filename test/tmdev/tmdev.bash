# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash
# For the tests of tmdev: build the library and the test programs in one way, and run them.

. "$TM_SRC/test/lib/script.sh"
. "$TM_SRC/test/lib/tmdev.sh"
# shellcheck source=/dev/null
. "$TM_BUILD/test/config.sh"

export TMDEV_FABRIC=$$ # other tests, at the same time, have other devices

tmdev_tests=(test_objects test_tm)

# run_tests VARIANT NAME [FLAG...]: these, and where the variant is one of a sanitizer a part of the
# fabric's conformance test, too, over a library that is built with it.
run_tests()
{
    local variant=$1 out test part run=()
    shift
    out=$(tm_build_tmdev "$@")
    shift
    # The thread sanitizer's shadow memory wants the old, lesser randomization of addresses.
    if [[ $variant == tsan ]] && setarch -R true 2>/dev/null; then
        run=(setarch -R)
    fi
    export TSAN_OPTIONS=halt_on_error=1:second_deadlock_stack=1 UBSAN_OPTIONS=print_stacktrace=1
    for test in "${tmdev_tests[@]}"; do
        tm_build_tmdev_test "$out" "$test" "$@"
        ${run[@]+"${run[@]}"} "$out/$test" || fail "$test, built with $*"
    done
    [[ $variant != plain ]] || return 0
    test=test_verbs_conformance
    tm_compile_unit "$TM_SRC/test/unit/$test.c" "$variant"
    for part in order rma threads; do
        LD_LIBRARY_PATH=$out SYSFS_PATH=$out/sys ${run[@]+"${run[@]}"} \
            "$(tm_binary "unit/$test" "$variant")" "test_$part" ||
            fail "$test, over a device built with $*"
    done
}
