# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash
# Configure, build and install, doing only what is left to do.  For quickstart and test/run.

# tm_build SOURCE BUILD PREFIX [CONFIGURE-ARGUMENT...]
# One at a time per build directory.  What it prints is for a log; the caller says what is going on.
tm_build()
(
    set -euo pipefail
    src=$1 build=$2 prefix=$3
    shift 3
    mkdir -p "$build"
    exec 9>"$build/.lock"
    flock 9

    if [[ ! -x $src/configure || $src/configure.m4 -nt $src/configure ||
        $src/configure.ac -nt $src/configure ]]; then
        (exec 9>"$src/.autogen.lock" && flock 9 && "$src/autogen.sh") 9>&-
        rm -f "$src/.autogen.lock"
        # What was linked with other flags is not linked anew by itself.
        rm -f "$build/.configured"
    fi
    configuration="--prefix=$prefix $* CC=${CC-} CFLAGS=${CFLAGS-} LDFLAGS=${LDFLAGS-}"
    if [[ ! -f $build/config.status ||
        $(cat "$build/.configured" 2>/dev/null) != "$configuration" ]]; then
        rm -f "$build/.configured"
        (cd "$build" && exec 9>&- && "$src/configure" --prefix="$prefix" "$@")
        if [[ -f $build/.built ]]; then
            make -C "$build" clean 9>&-
        fi
        echo "$configuration" >"$build/.configured"
    fi
    touch "$build/.built"
    make -C "$build" -j"$(nproc)" 9>&-
    # Installed over a library in use, the old file must go, not be written into: install(1) removes
    # it first.
    make -C "$build" install 9>&-
)
