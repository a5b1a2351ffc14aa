#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# TEST: timeout=900 needs=clang short=minutes
#
# libFuzzer over what comes from other processes, with the sanitizers, from a new seed each time,
# beginning with the inputs in corpus/: in a short run so many inputs, in a deep one a minute of
# each target. An input that fails is shown; put it into corpus/. TM_FUZZ_SECONDS=3600 test/run
# fuzz/targets goes on for longer.
. "$TM_SRC/test/lib/script.sh"
. "$TM_SRC/test/lib/tmdev.sh"

# shellcheck source=/dev/null
. "$TM_BUILD/test/config.sh"
read -ra flags <<<"-I$TM_SRC/common -I$TM_SRC -I$TM_BUILD $TM_OMPI_CPPFLAGS -DFAB_HAVE_VERBS=1"
# shellcheck disable=SC2054 # the sanitizers stand between commas
flags+=(-std=gnu11 -D_GNU_SOURCE -g -O1 -pthread
    -fsanitize=fuzzer,address,undefined -fno-sanitize-recover=all)
# shellcheck disable=SC2034 # for tm_cc
read -ra tm_libs <<<"$TM_OMPI_LDFLAGS -Wl,--as-needed $TM_PAL_LIBS -libverbs"
mapfile -t fabric < <(tm_sources @fabric,@verbs)
device=$(tm_build_tmdev)
library_path=${LD_LIBRARY_PATH-}
export LD_LIBRARY_PATH=$device${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH} ASAN_OPTIONS=detect_leaks=0
seed=$(($(tm_seed 1) % 2147483647))
tm_objects=$TM_WORK/objects # for tm_cc: six targets have nearly the same sources
mkdir -p "$tm_objects"

# fuzz NAME RUNS SOURCE...
fuzz()
{
    local name=$1 limit=("-runs=$2") sources=("${@:3}") rc=0 done="Done $2 runs"
    if [[ -n ${TM_FUZZ_SECONDS-} || ${TM_TEST_SHORT:-yes} != yes ]]; then
        limit=("-max_total_time=${TM_FUZZ_SECONDS:-60}") done='Done [0-9]+ runs'
    fi
    tm_cc "$TM_BIN/fuzz/$name" "$TM_SRC/test/fuzz/$name.c" "${sources[@]}" -- clang \
        "${flags[@]}" >"$name.log" 2>&1 || {
        cat "$name.log"
        fail "$name does not compile"
    }
    mkdir -p "found.$name"
    TMDEV_FABRIC=$$.$RANDOM "$TM_BIN/fuzz/$name" "-seed=$seed" "${limit[@]}" -max_len=4200 \
        "-timeout=$((60 * ${TM_TEST_TIMEOUT_SCALE:-1}))" "found.$name" \
        "$TM_SRC/test/fuzz/corpus/$name" >"$name.log" 2>&1 || rc=$?
    tail -n 3 "$name.log"
    ((rc == 0)) || {
        tail -n 40 "$name.log"
        for file in crash-* timeout-* oom-*; do
            [[ ! -e $file ]] || { echo "$file:"; od -An -tx1 "$file"; }
        done
        fail "$name, seed $seed"
    }
    grep -qE "$done" "$name.log" || fail "$name has not done its runs"
}

# fuzz_ofi RUNS: with libfabric, which is not to find the device, and whose library for psm would
# take signals from the fuzzer.
fuzz_ofi()
{
    local -x LD_LIBRARY_PATH=$library_path IPATH_NO_BACKTRACE=1
    local flags=("${flags[@]/-DFAB_HAVE_VERBS=1/-DFAB_HAVE_OFI=1}")
    local tm_libs=("${tm_libs[@]}" -lfabric) sources
    mapfile -t sources < <(tm_sources @fabric,@ofi)
    fuzz session "$1" "${sources[@]}"
}

fuzz ring 1000000
fuzz address 5000 "${fabric[@]}"
fuzz stream 10000 "${fabric[@]}"
fuzz frame 1000 "${fabric[@]}"
fuzz message 10000 "${fabric[@]}"
[[ -z $(find "$TM_PREFIX" -name 'libmca_common_tm_ofi-*.so') ]] || fuzz_ofi 10000
if [[ $TM_OMPI_SERIES != 4.1 ]]; then
    tm_libs+=(-lpmix)
else
    tm_libs+=(-lopen-rte)
fi
[[ $(uname -m) != x86_64 ]] || flags+=(-mcx16) # what Open MPI's headers take for given, as gcc does
tm_libs+=(-lmpi)
mapfile -t btl < <(tm_sources @btl)
fuzz btl 10000 "${fabric[@]}" "${btl[@]}"
tm_libs+=("-Wl,--wrap=mca_pml_tm_peer_publish,--wrap=mca_bml_base_inited")
fuzz pml 10000 "${fabric[@]}" "$TM_SRC"/pml_tm/{,*/}*.c \
    "$TM_SRC"/common/{match/match,offload/offload}.c \
    "$TM_SRC"/common/fabric/{fab_cuda,fab_fit,fab_help,fab_help_first,fab_param_mca}.c
