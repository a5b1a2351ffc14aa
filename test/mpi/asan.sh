#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# TEST: timeout=600 short=minutes
#
# pml_tm, built with the address and undefined behaviour sanitizers, under MPI programs.
. "$TM_SRC/test/mpi/sanitizer.bash"

sanitizer_build address,undefined
runtime=$(gcc -print-file-name=libasan.so)
export ASAN_OPTIONS=detect_leaks=0:detect_stack_use_after_return=1 UBSAN_OPTIONS=print_stacktrace=1
reports='ERROR: AddressSanitizer|runtime error:'

if [[ $TM_OMPI_SERIES != 4.1 ]]; then
    # what 4.1 lacks
    check basic 2
    check sessions 4 : 3
    check sessions 2 OMPI_MCA_pml_tm_eager_limit=0 : 3
    check partitioned 2
    check mpi4 2
    exit
fi
check basic 2
check basic 2 OMPI_MCA_pml_tm_shm_single_copy=none
check random 3 : "$(tm_seed 11)" "$(tm_seconds 8)"
check probe 2
check cancel 2
check cancel_send 2 : 20
check flood_small 2 OMPI_MCA_pml_tm_unexpected_max=65536 : 10000 0
check persistent 2
check buffered 2
check basic 2 : cut,types 1100000
check comms 4
check waits 2
check early 4
check ending 2 : 0
check ending 2 OMPI_MCA_pml_tm_providers=tcp,self : 0
check ending 2 OMPI_MCA_pml_tm_shm_single_copy=none : 3
check threads 2 : all 4 10
# Reports: of waits that end after all, by thread or late, and at the end.
hang_reports=(OMPI_MCA_pml_tm_report_after=1 "OMPI_MCA_pml_tm_report_file=$PWD/hang")
check hang 2 "${hang_reports[@]}" : wrong_tag_ends
check hang 2 "${hang_reports[@]}" OMPI_MCA_pml_tm_providers=tcp,self : cycle_ends threads
check hang 3 "${hang_reports[@]}" : slow
check report 4 OMPI_MCA_pml_tm_report=1 "OMPI_MCA_pml_tm_report_file=$PWD/end" : late

# One-sided, by btl_fabric: under pml tm, and under ob1.  MPI_(R)get_accumulate of Open MPI 4.1's
# osc/rdma unpacks beyond the end of a buffer of its own.
echo 'interceptor_via_fun:*get_accumulate' >suppressions
ASAN_OPTIONS+=:suppressions=$TM_WORK/suppressions
export OMPI_MCA_mpi_yield_when_idle=1 OMPI_MCA_osc=rdma OMPI_MCA_btl=fabric,self
check onesided 2 : 5
check onesided_random 3 : 20 1
check onesided_random 2 OMPI_MCA_pml_tm_shm_single_copy=none : 20 0
check onesided_threads 2 : 3 10
TM_TEST_PML=ob1
check basic 2
check onesided_random 2 : 20 0
