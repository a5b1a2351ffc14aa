#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# TEST: timeout=120 needs=ch-run short=launchers ompi=4.1
#
# Charliecloud: mpirun of the host starts each rank in a container. Each in its own: shared memory,
# where a process cannot read the other's. All of a host in one (ch-run --join): as without.
. "$TM_SRC/test/lib/script.sh"
. "$TM_SRC/test/lib/image.sh"

image=$TM_WORK/image
tm_image "$image"
export USER=${USER:-$(id -un)}
ch-run -b /usr "$image" -- true || skip "ch-run can make no container here"

# contained PROGRAM...: each rank in a container. OPTION is one of ch-run's, if it is not empty.
contained()
{
    echo "== ch-run $option $*"
    # shellcheck disable=SC2086 # nothing, if it is empty
    tm_mpirun 2 --mca pml_tm_verbose 10 ch-run $option -b /usr -b "$TM_SRC" "$image" -- "$@" ||
        fail "exit status $?: ch-run $option: $*"
    require 'errors=0'
    forbid 'not to 1 process'
}

for program in "hello" "basic 300000"; do
    read -ra words <<<"$program"
    words[0]=$(tm_mpi_program "${words[0]}")
    option=
    contained "${words[@]}"
    require 'since process_vm_readv is refused'
    option=--join
    contained "${words[@]}"
    require 'one copy (CMA'
done
