#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# TEST: timeout=300 short=failures pml=none
#
# What goes wrong with pml ob1 over btl_fabric: a message that makes no sense ends the job, with a
# message that says which process sent it and what; and with a value that a parameter of the fabric
# cannot take, the BTL says so.
. "$TM_SRC/test/lib/script.sh"
# shellcheck source=/dev/null
. "$TM_BUILD/test/config.sh"

unset TM_TEST_BTL
TM_TEST_PML=none
ob1=(--mca pml ob1 --mca btl 'fabric,self')

read -ra flags <<<"$TM_CFLAGS -I$TM_SRC -I$TM_SRC/common $TM_OMPI_CPPFLAGS"
mpicc "${flags[@]}" -o forge_btl "$TM_SRC/test/mpi/forge_btl.c" \
    -Wl,-rpath,"$TM_PREFIX/lib" "$TM_PREFIX"/lib/libmca_common_tm-*.so ||
    fail 'forge_btl.c does not compile'
kinds=$("$TM_WORK/forge_btl")
(($(wc -w <<<"$kinds") >= 18)) || fail "kinds of forged messages: $kinds"
for kind in $kinds; do
    echo "== $kind"
    if tm_mpirun 2 "${ob1[@]}" "$TM_WORK/forge_btl" "$kind"; then
        fail "$kind: the job goes on"
    fi
    require 'It sent a message that makes no sense'
    grep -aqE 'btl fabric lost process \[\[[0-9]+,1\],1\]' out err ||
        fail "$kind: rank 1 is not named"
    forbid 'Segmentation|Signal: |errors='
done

echo "== pml_tm_shm_ring_size=64"
if tm_mpirun 2 "${ob1[@]}" --mca pml_tm_shm_ring_size 64 "$(tm_mpi_program hello)"; then
    fail "pml_tm_shm_ring_size=64 was accepted"
fi
require 'The BTL "fabric" is not used because one of its parameters has an invalid'
require 'pml_tm_shm_ring_size is 64'
