#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# TEST: timeout=200 cores=0 short=ends
#
# A message must come from the process that its source rank names: one that names another ends the
# job, with a message that says which process sent it, whether a receive is posted for it or not,
# and is given to nobody.  So does a malformed message about context ids.
. "$TM_SRC/test/lib/script.sh"
# shellcheck source=/dev/null
. "$TM_BUILD/test/config.sh"

read -ra flags <<<"$TM_CFLAGS -I$TM_SRC -I$TM_SRC/common $TM_OMPI_CPPFLAGS"
mpicc "${flags[@]}" -o forge "$TM_SRC/test/mpi/forge.c" \
    -Wl,-rpath,"$TM_PREFIX/lib" "$TM_PREFIX"/lib/libmca_common_tm-*.so ||
    fail 'forge.c does not compile'

# forged KIND TEXT: the job ends, and rank 0 says this of rank 2's message.
forged()
{
    # The program stands in the place of btl_fabric.
    if tm_mpirun 3 --mca btl ^fabric --mca pml_tm_tag_source_bits 8 "$TM_WORK/forge" "$1"; then
        fail "$1: the job goes on"
    fi
    require 'lost a process'
    require "it sent a message that makes no sense ($2"
    grep -aE 'Lost process: +\[\[[0-9]+,1\],2\]' err || fail "$1: rank 2 is not named"
    forbid 'forge: rank|errors='
}

for kind in eager synchronous unexpected announced early; do
    forged "$kind" 'not its rank'
done
forged untagged 'untagged: length, kind or context id'
forged context 'context id: length'
if [[ $TM_OMPI_SERIES != 4.1 ]]; then
    forged untagged_rank 'untagged: not its rank'
    forged context_rank 'context id: not its rank'
fi
