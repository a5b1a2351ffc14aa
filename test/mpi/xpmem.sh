#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# TEST: timeout=300 cores=2 short=turns
#
# XPMEM: large messages, and one-sided operations, by memory of the peer that is mapped here.  In
# place of libxpmem there is test/xpmem, which needs no kernel module.
. "$TM_SRC/test/lib/script.sh"

((EUID == 0)) || skip "test/xpmem needs root"
"${TM_CC:-cc}" -O2 -g -D_GNU_SOURCE -fPIC -fno-builtin -fvisibility=hidden -Wall -Wextra -Werror \
    -shared -Wl,-soname,libxpmem.so.0 -o libxpmem.so.0 "$TM_SRC/test/xpmem/xpmem.c" ||
    fail "test/xpmem does not compile"
export LD_PRELOAD_OF_RANKS=$PWD/libxpmem.so.0

# ranks NP OPTION... -- PROGRAM ARGUMENT...: a job whose ranks, but not mpirun, have XPMEM.
ranks()
{
    local np=$1 options=()
    shift
    while [[ $1 != -- ]]; do
        options+=("$1")
        shift
    done
    shift
    tm_mpirun "$np" ${options[@]+"${options[@]}"} env LD_PRELOAD="$LD_PRELOAD_OF_RANKS" "$@"
}

# All of a long message is read, or written, at once; none goes through the ring.
rma=(--mca pml_tm_stream_limit 0 --mca pml_tm_eager_limit 4096)
basic=$(tm_mpi_program basic)
counters=$(tm_mpi_program counters)
hello=$(tm_mpi_program hello)
random=$(tm_mpi_program random)
onesided=$(tm_mpi_program onesided)
mapped=$(tm_mpi_program mapped)

ranks 2 --mca pml_tm_verbose 10 -- "$hello" || fail "hello"
require 'one copy (XPMEM, steps of'
ranks 2 "${rma[@]}" -- "$counters" rndv_get_bytes shm_xpmem_bytes || fail "counters"
ranks 2 "${rma[@]}" -- "$basic" 40000001 || fail "more than one window"
require 'basic: errors=0'
for cooperative in none always; do
    ranks 3 "${rma[@]}" --mca pml_tm_shm_cooperative "$cooperative" -- \
        "$random" "$(tm_seed 31)" "$(tm_seconds 8)" || fail "random traffic, $cooperative"
done
ranks 2 --mca osc rdma --mca btl fabric,self -- "$onesided" 20 || fail "onesided"
ranks 2 --mca osc rdma --mca btl fabric,self -- "$mapped" || fail "mapped"

# The kernel copies instead: if the user wants that, or a call of libxpmem fails.
ranks 2 "${rma[@]}" --mca pml_tm_shm_single_copy cma --mca pml_tm_verbose 10 -- "$basic" ||
    fail "basic, by CMA"
require 'one copy (CMA, steps of'
for call in make get attach; do
    XPMEM_FAILS=$call ranks 2 "${rma[@]}" -- "$basic" || fail "basic, xpmem_$call() fails"
    require 'basic: errors=0'
done
XPMEM_FAILS=attach ranks 2 "${rma[@]}" -- "$counters" shm_xpmem_refused shm_cma_bytes ||
    fail "counters, xpmem_attach() fails"
require_quiet

# With fault tolerance the death of a peer must not end others.
if [[ $TM_OMPI_SERIES != 4.1 ]]; then
    ranks 2 --with-ft ulfm --mca pml_tm_verbose 10 -- "$hello" || fail "hello, fault tolerant"
    require 'one copy (CMA, steps of'
fi
