#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# TEST: timeout=180 quick=no
#
# The kernel refuses process_vm_readv, as in many containers: large messages go in fragments, every
# byte right; the table says why, the counter counts. Refused on both sides, and on the receiver's
# only.
. "$TM_SRC/test/lib/script.sh"

refused=$(tm_mpi_program refused)
nocma=("$refused" EPERM process_vm_readv "$refused" EPERM process_vm_writev)
basic=$(tm_mpi_program basic)
counters=$(tm_mpi_program counters)
hello=$(tm_mpi_program hello)

tm_mpirun 1 "${nocma[@]}" true || skip "no seccomp here"

tm_mpirun 2 "${nocma[@]}" "$basic" || fail "basic, refused"
require 'basic: errors=0'
require_quiet

# Without this limit all of the program's messages may go through the ring.
tm_mpirun 2 --mca pml_tm_stream_limit 65536 "${nocma[@]}" \
    "$counters" shm_cma_refused pipeline_no_get || fail "counters, refused"
require_quiet

tm_mpirun 2 --mca pml_tm_verbose 10 "${nocma[@]}" "$hello" || fail "hello, refused"
require 'two copies, since process_vm_readv is refused (Operation not permitted'
require_quiet

# One side only: two programs in one job.
tm_by_rank one_side "${nocma[*]} $basic" "$basic"
tm_mpirun 2 "$PWD/one_side" || fail "basic, one side refused"
require 'basic: errors=0'
require_quiet
