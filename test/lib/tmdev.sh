# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash
# Build test/tmdev, the verbs device in software. Wants TM_SRC and TM_BUILD.

# tm_tmdev_symbols LIBRARY: name, version and kind ("DO": data) of what libibverbs exports under
# its default version.
tm_tmdev_symbols()
{
    objdump -T "$1" | awk '$0 !~ /\*UND\*|\*ABS\*/ {
        for (i = 1; i <= NF; i++) {
            if ($i ~ /^IBVERBS_/) print $NF, $i, ($0 ~ / DO / ? "DO" : "DF")
        }
    }' | LC_ALL=C sort -u
}

# tm_tmdev_generate LIBRARY DIRECTORY: write the version script tmdev.map, and stubs.c with what no
# source defines.
tm_tmdev_generate()
{
    local symbols=$2/symbols defined=$2/defined version previous=
    tm_tmdev_symbols "$1" >"$symbols"
    [[ -s $symbols ]] || {
        echo "tmdev: $1 exports nothing: is it libibverbs?" >&2
        return 1
    }
    sed -nE 's/^TMDEV_PUBLIC [^;]*[ *]([a-z_0-9]+)\(.*$/\1/p' "$TM_SRC"/test/tmdev/*.c |
        LC_ALL=C sort -u >"$defined"
    {
        echo '/* Made by test/lib/tmdev.sh: what the installed libibverbs has and tmdev has not. */'
        echo '#include <stdio.h>'
        echo '#include <stdlib.h>'
        echo '#define STUB(name) void name(void); void name(void) { puts("tmdev: " #name "() is not provided"); abort(); }'
        LC_ALL=C join -v 1 "$symbols" "$defined" | while read -r name _ kind; do
            if [[ $kind == DO ]]; then
                echo "char ${name}[64];"
            elif [[ $name == *register_driver* || $name == __verbs_log ]]; then
                # Called by the constructors of libmlx5 and others: there is nothing to drive.  And
                # by libefa, which libfabric asks about every device, when it is not one of its own.
                echo "void $name(void); void $name(void) {}"
            else
                echo "STUB($name)"
            fi
        done
    } >"$2/stubs.c"
    cut -d ' ' -f 2 "$symbols" | sort -uV | while read -r version; do
        echo "$version {"
        echo "    global:"
        awk -v v="$version" '$2 == v { print "        " $1 ";" }' "$symbols"
        [[ -n $previous ]] || printf '    local:\n        *;\n'
        echo "}${previous:+ $previous};"
        previous=$version
    done >"$2/tmdev.map"
}

# tm_build_tmdev [NAME [FLAG...]]: build $TM_BUILD/NAME/libibverbs.so.1 (NAME: tmdev) unless it is
# up to date, and print its directory, which has a directory sys: for SYSFS_PATH, so that pml_tm
# finds that the host has a device. The flags are the compiler's, in place of -O2.
tm_build_tmdev()
(
    set -euo pipefail
    name=${1:-tmdev}
    shift || true
    out=$TM_BUILD/$name
    cc=${TM_CC:-cc}
    flags=(-std=gnu11 -D_GNU_SOURCE -g -Wall -Wextra -Werror -Wstrict-prototypes
        -Wmissing-prototypes -fPIC -fvisibility=hidden -pthread)
    (($# > 0)) || set -- -O2
    library=$("$cc" -print-file-name=libibverbs.so)
    [[ -e $library ]] || {
        echo "tmdev: libibverbs is not installed (Debian: libibverbs-dev)" >&2
        exit 1
    }
    mkdir -p "$out/sys/class/infiniband_verbs/uverbs0"
    exec 9>"$out/.lock"
    flock 9
    key=$(cat "$TM_SRC"/test/tmdev/[!t]*.[ch] "$TM_SRC"/test/tmdev/t[!e]*.[ch] \
        "$TM_SRC/test/lib/tmdev.sh" "$library" | sha1sum)" $cc $*"
    if [[ ! -e $out/libibverbs.so.1 || $(cat "$out/.key" 2>/dev/null) != "$key" ]]; then
        rm -f "$out/.key"
        tm_tmdev_generate "$library" "$out"
        objects=()
        for source in "$TM_SRC"/test/tmdev/*.c "$out/stubs.c"; do
            [[ $source != */test_*.c ]] || continue
            object=$out/$(basename "$source" .c).o
            extra=()
            [[ $source != "$out/stubs.c" ]] || extra=(-fvisibility=default -fno-builtin)
            "$cc" "${flags[@]}" "$@" ${extra[@]+"${extra[@]}"} -c -o "$object" "$source"
            objects+=("$object")
        done
        "$cc" "$@" -shared -pthread -Wl,-soname,libibverbs.so.1 \
            -Wl,--version-script="$out/tmdev.map" -Wl,-z,now \
            -o "$out/libibverbs.so.1.$$" "${objects[@]}"
        mv -f "$out/libibverbs.so.1.$$" "$out/libibverbs.so.1"
        ln -sf libibverbs.so.1 "$out/libibverbs.so"
        echo "$key" >"$out/.key"
    fi
    echo "$out"
)

# tm_build_tmdev_test DIRECTORY NAME [FLAG...]: build test/tmdev/NAME.c, with a library that
# tm_build_tmdev made with the same flags, as DIRECTORY/NAME. Wants compile.sh.
# shellcheck disable=SC2034 # tm_libs is for tm_cc
tm_build_tmdev_test()
{
    local out=$1 name=$2 tm_libs=("-L$1" "-Wl,-rpath,$1" -libverbs)
    shift 2
    tm_cc "$out/$name" "$TM_SRC"/test/tmdev/{"$name",test_tmdev_world}.c -- \
        "${TM_CC:-cc}" -std=gnu11 -D_GNU_SOURCE -g -Wall -Wextra -Werror "$@" -pthread
}
