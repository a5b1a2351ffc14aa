#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# TEST: timeout=300 needs=clang short=minutes
#
# No warnings, from gcc nor from clang: the latter sees other things, and gcc sees more the more it
# optimizes. All of clang's come from reading the source, so it makes no code here; fuzz/targets
# builds the sources with it and runs them.
. "$TM_SRC/test/lib/script.sh"

# shellcheck source=/dev/null
. "$TM_BUILD/test/config.sh"
mapfile -t sources < <(find "$TM_SRC"/{common,pml_tm,btl_fabric} -name '*.c')
((${#sources[@]} > 50)) || fail "found only ${#sources[@]} sources"
read -ra flags <<<"$TM_CFLAGS -Werror -DHAVE_CONFIG_H -I$TM_BUILD -I$TM_SRC/common -I$TM_SRC $TM_OMPI_CPPFLAGS"
flags+=(-DFAB_HAVE_VERBS=1 -DFAB_HAVE_RDMACM=1)

# warnings CC FLAG...
warnings()
{
    command -v "$1" >/dev/null || fail "$1 is not installed"
    "$@" "${flags[@]}" "${sources[@]}" || fail "$1"
    echo "$1: ${#sources[@]} sources"
}

mkdir objects
cd objects
warnings gcc -O3 -fPIC -S
warnings clang -fsyntax-only
