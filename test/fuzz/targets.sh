#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# TEST: timeout=300 needs=clang
#
# libFuzzer over what comes from other processes, with the sanitizers: so many inputs, from a new seed each time, beginning with those
# in corpus/. An input that fails is shown; put it into corpus/. TM_FUZZ_RUNS=10000000 test/run fuzz/targets goes on for longer.
. "$TM_SRC/test/lib/script.sh"

# shellcheck source=/dev/null
. "$TM_BUILD/test/config.sh"
read -ra includes <<<"-I$TM_SRC/common -I$TM_SRC $TM_OMPI_CPPFLAGS"
read -ra libs <<<"$TM_OMPI_LDFLAGS -Wl,--as-needed $TM_PAL_LIBS"

# fuzz NAME RUNS SOURCE...
fuzz()
{
    local name=$1 runs=${TM_FUZZ_RUNS:-$2} sources=("${@:3}") seed rc=0
    seed=$(tm_seed 1)
    clang -std=gnu11 -D_GNU_SOURCE -g -O1 -pthread -fsanitize=fuzzer,address,undefined -fno-sanitize-recover=all "${includes[@]}" \
        -o "$name" "$TM_SRC/test/fuzz/$name.c" "${sources[@]}" "${libs[@]}" >"$name.log" 2>&1 || {
        cat "$name.log"
        fail "$name does not compile"
    }
    mkdir -p "found.$name"
    ASAN_OPTIONS=detect_leaks=0 "./$name" -seed=$((seed % 2147483647)) "-runs=$runs" -max_len=4200 -timeout=$((60 * ${TM_TEST_TIMEOUT_SCALE:-1})) \
        "found.$name" "$TM_SRC/test/fuzz/corpus/$name" >"$name.log" 2>&1 || rc=$?
    tail -n 3 "$name.log"
    ((rc == 0)) || {
        tail -n 40 "$name.log"
        for file in crash-* timeout-* oom-*; do
            [[ ! -e $file ]] || { echo "$file:"; od -An -tx1 "$file"; }
        done
        fail "$name, seed $((seed % 2147483647))"
    }
    grep -q "Done $runs runs" "$name.log" || fail "$name has not done its $runs runs"
}

# The fabric as the unit test of its failures has it.
tm_parse_first "$TM_SRC/test/unit/test_fab_faults.c"
mapfile -t fabric < <(tm_sources "${tm_key[sources]}")
fuzz ring 2000000
fuzz address 20000 "${fabric[@]}"
