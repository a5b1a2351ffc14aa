#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# TEST: timeout=900 ompi=4.1 needs=aarch64-linux-gnu-gcc,qemu-aarch64 short=minutes
#
# Another processor, whose memory order is weaker: all sources compile for aarch64 without warnings,
# and unit tests run under qemu's user emulation. The headers and libraries are those of Debian's
# packages for it, unpacked below build/aarch64. (The emulation orders memory as this host does:
# what only a real one shows is not seen.)
. "$TM_SRC/test/lib/script.sh"

root=$TM_SRC/build/aarch64
triplet=aarch64-linux-gnu
packages=(
    libcmocka-dev libcmocka0 libevent-core-2.1-7 libevent-pthreads-2.1-7 libhwloc-dev libhwloc15
    libibverbs-dev libibverbs1 libnl-3-200 libnl-route-3-200 libopenmpi-dev libopenmpi3 libpmix-dev
    libpmix2 librdmacm-dev librdmacm1 libudev1 zlib1g
)

# fetch: make sure that the packages are there. With lists of apt's own, for this host knows of no
# such architecture.
fetch()
{
    local apt deb
    [[ $(cat "$root/complete" 2>/dev/null) != "${packages[*]}" ]] || return 0
    rm -rf "$root"
    mkdir -p "$root"/{lists/partial,cache,debs}
    apt=(apt-get -q -o "Dir::State::Lists=$root/lists" -o "Dir::Cache=$root/cache"
        -o Dir::State::status=/dev/null
        -o APT::Architecture=arm64 -o APT::Architectures::=arm64 -o Acquire::Retries=0
        -o Acquire::http::Timeout=20)
    (cd "$root/debs" && "${apt[@]}" update &&
        "${apt[@]}" download "${packages[@]}") >fetch.log 2>&1 || {
        tail -n 5 fetch.log
        skip "apt has no packages for arm64 here"
    }
    for deb in "$root"/debs/*.deb; do
        dpkg-deb -x "$deb" "$root/root"
    done
    rm -rf "$root"/{lists,cache,debs}
    echo "${packages[*]}" >"$root/complete"
}

fetch
# shellcheck source=/dev/null
. "$TM_BUILD/test/config.sh"
lib=$root/root/usr/lib/$triplet
includes=(-I"$TM_BUILD" -I"$TM_SRC/common" -I"$TM_SRC" -I"$TM_SRC/test/unit"
    -isystem "$lib/openmpi/include/openmpi"
    -isystem "$lib/openmpi/include" -isystem "$root/root/usr/include"
    -isystem "$root/root/usr/include/$triplet")
read -ra flags <<<"-g -O2 ${TM_CFLAGS/-mcx16/}"

mapfile -t sources < <(find "$TM_SRC/common" "$TM_SRC/pml_tm" "$TM_SRC/btl_fabric" -name '*.c' \
    ! -path '*/ompi5_headers/*')
mkdir objects
(cd objects &&
    "$triplet-gcc" "${flags[@]}" "${includes[@]}" -DHAVE_CONFIG_H -DFAB_HAVE_VERBS=1 \
        -DFAB_HAVE_RDMACM=1 -c "${sources[@]}") ||
    fail 'it does not compile for aarch64'
echo "compiled: ${#sources[@]} sources"

# unit NAME: the unit test of that name, without sanitizers.
unit()
{
    local name=$1 file=$TM_SRC/test/unit/$1.c more cflags ldflags
    tm_parse_first "$file"
    mapfile -t more < <(tm_sources "${tm_key[sources]-}")
    read -ra cflags <<<"${tm_key[cflags]-}"
    # shellcheck disable=SC2031 # it is this function's
    read -ra ldflags <<<"${tm_key[ldflags]-}"
    echo "== $name"
    "$triplet-gcc" "${flags[@]}" "${cflags[@]}" "${includes[@]}" -o "$name" "$file" "${more[@]}" \
        "${ldflags[@]}" -L"$lib" \
        -L"$lib/openmpi/lib" -Wl,-rpath-link,"$lib:$lib/openmpi/lib" -Wl,--as-needed -lopen-pal \
        -lcmocka -lm ||
        fail "$name does not compile for aarch64"
    timeout $((300 * ${TM_TEST_TIMEOUT_SCALE:-1})) qemu-aarch64 -L "/usr/$triplet" \
        -E "LD_LIBRARY_PATH=$lib:$lib/openmpi/lib" \
        -E TM_TEST_OPS=20000 -E TM_TEST_RUNS=50 "./$name" >"$name.log" 2>&1 || {
        tail -n 20 "$name.log"
        fail "$name under qemu-aarch64"
    }
    tail -n 1 "$name.log"
}

for name in test_idmap test_match test_match_cost test_offload_random test_shm_ring \
    test_shm_ring_orders; do
    unit "$name"
done
