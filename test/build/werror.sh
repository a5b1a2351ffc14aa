#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# TEST: timeout=300 needs=clang
#
# No warnings, from gcc nor from clang: the latter sees other things, and gcc sees more the more it
# optimizes.
. "$TM_SRC/test/lib/script.sh"

for cc in gcc clang; do
    command -v "$cc" >/dev/null || fail "$cc is not installed"
    mkdir "$cc"
    (
        cd "$cc"
        "$TM_SRC/configure" --enable-werror CC="$cc" CFLAGS="-g -O3" >log 2>&1
        make -k -j"$(nproc)" >>log 2>&1
    ) || {
        grep -E 'error|warning' "$cc/log" || tail -n 20 "$cc/log"
        fail "$cc"
    }
    echo "$cc"
done
