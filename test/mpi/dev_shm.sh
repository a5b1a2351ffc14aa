#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# TEST: timeout=120 quick=no
#
# A /dev/shm that is tiny, full or read-only is no obstacle: pml tm does not use it.
. "$TM_SRC/test/lib/script.sh"

basic=$(tm_mpi_program basic)

unshare -m true 2>/dev/null || skip "no mount namespaces here"

# in_shm OPTIONS COMMAND: run the command where /dev/shm is a tmpfs with these options.  Open MPI's
# own segments (vader, loaded beside the PML) live elsewhere then.
in_shm()
{
    local options=$1
    shift
    # shellcheck disable=SC2016 # expanded by the inner shell
    unshare -m bash \
        -c 'mount -t tmpfs -o "$1" tmpfs /dev/shm || exit 77; shift; eval "$1"; shift; exec "$@"' \
        bash "$options" "$@"
}

try()
{
    local options=$1 prepare=$2 rc=0
    echo "== /dev/shm: $options, $prepare"
    tm_mpirun_flags 2
    in_shm "$options" "$prepare" mpirun "${tm_mpirun_flags[@]}" --mca pml tm --mca btl self \
        "$basic" >out 2>err </dev/null || rc=$?
    cat out err
    ((rc != 77)) || skip "cannot mount a tmpfs"
    ((rc == 0)) || fail "exit status $rc"
    require 'basic: errors=0' out
    forbid "$tm_noise" out err
}

try size=8k true
try size=1m 'head -c 1m /dev/zero >/dev/shm/full 2>/dev/null || true'
try ro true
