#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# TEST: timeout=120 needs=bwrap short=launchers ompi=4.1
#
# Processes of one host in sandboxes (bubblewrap; Apptainer makes the same namespaces): in user
# namespaces of their own they use shared memory; with process ids of their own they do not see each
# other and use TCP, and the table says so.
. "$TM_SRC/test/lib/script.sh"

bwrap --dev-bind / / --unshare-user --unshare-pid --proc /proc true 2>/dev/null ||
    skip "bwrap can make no sandbox here"

# sandboxed OPTION... -- PROGRAM...: each rank in a sandbox of its own.
sandboxed()
{
    local options=()
    while [[ $1 != -- ]]; do
        options+=("$1")
        shift
    done
    shift
    echo "== each rank in a sandbox: ${options[*]}: $*"
    tm_mpirun 2 --mca pml_tm_verbose 10 bwrap --dev-bind / / --die-with-parent "${options[@]}" \
        "$@" || fail "exit status $?: ${options[*]}: $*"
}

others="not to 1 process: it is on another host, or in a container with process ids of its own"
for program in "hello" "basic 300000"; do
    read -ra words <<<"$program"
    words[0]=$(tm_mpi_program "${words[0]}")
    sandboxed --unshare-user -- "${words[@]}"
    require 'errors=0'
    forbid "not to 1 process"
    sandboxed --unshare-user --unshare-pid --proc /proc -- "${words[@]}"
    require 'errors=0'
    require "$others"
done
