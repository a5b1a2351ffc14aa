#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# TEST: timeout=120 needs=ip,pkg-config
#
# A process of another version, or of the other byte order, is refused: the message names both hosts
# and says why.
. "$TM_SRC/test/lib/script.sh"
. "$TM_SRC/test/hosts/hosts.bash"
# shellcheck source=/dev/null
. "$TM_BUILD/test/config.sh"

hosts_enter "$@"
hosts_up 2
read -ra flags <<<"$(pkg-config --cflags pmix) -I$TM_SRC -I$TM_SRC/common $TM_OMPI_CPPFLAGS"
"$TM_CC" -shared -fPIC -O2 -Wall -Wextra -Werror "${flags[@]}" -o other.so \
    "$TM_SRC/test/hosts/other_version.c" -ldl

# refused WHAT TEXT: rank 1, on tmhost2, has another WHAT.
refused()
{
    rm -f other.got
    if hosts_run 1 "LD_PRELOAD=$PWD/other.so" "OTHER=$1" hello; then
        fail "$1: the job runs"
    fi
    require 'cannot reach a process of this job'
    require 'From host:   tmhost1'
    require '... on host: tmhost2'
    require "$2"
}

hosts_check 1 "LD_PRELOAD=$PWD/other.so" OTHER=nothing hello
refused byte-order 'another byte order'
refused fabric-byte-order 'another byte order'
refused pml 'another version of pml tm'
refused component 'did not select pml tm, or has another version of it'
version=$(sed -n 's/^#define FAB_WIRE_VERSION //p' "$TM_SRC/common/fabric/fab_wire.h")
refused fabric "version $((version + 1)); this process knows 0x41424146, $version: install the same"
version=$(sed -n 's/^#define FAB_TCP_VERSION //p' "$TM_SRC/common/tcp/tcp_wire.h")
refused tcp "its tcp has version $((version + 1)), this process knows $version"
