#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# TEST: timeout=300
#
# No warnings, from gcc nor from clang, with and without optimization.
. "$TM_SRC/test/lib/script.sh"

for cc in gcc clang; do
    command -v "$cc" >/dev/null || fail "$cc is not installed"
    for optimization in -O0 -O3; do
        echo "$cc $optimization"
        mkdir "$cc$optimization"
        (
            cd "$cc$optimization"
            "$TM_SRC/configure" --enable-werror CC="$cc" CFLAGS="-g $optimization" >log 2>&1
            make -k -j"$(nproc)" >>log 2>&1
        ) || {
            grep -E 'error|warning' "$cc$optimization/log" || tail -n 20 "$cc$optimization/log"
            fail "$cc $optimization"
        }
    done
done
