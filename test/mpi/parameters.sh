#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# TEST: timeout=180 quick=no
#
# A value that a parameter cannot take ends mpirun with one message that names the parameter, the
# value and what is allowed: here one of each kind; unit/test_params has the ranges of all. And
# values at the ends of ranges, with which a job works.
. "$TM_SRC/test/lib/script.sh"

hello=$(tm_mpi_program hello)

# refused NAME VALUE TEXT-AFTER-NAME
refused()
{
    echo "== $1=$2"
    if tm_mpirun 2 --mca "$1" "$2" "$hello"; then
        fail "$1=$2 was accepted"
    fi
    forbid 'Segmentation|Signal:|core dumped|hello: errors'
    require "$1 $3"
}

accepted()
{
    echo "== $1=$2"
    tm_mpirun 2 --mca "$1" "$2" "$hello" || fail "$1=$2 was not accepted"
    require 'hello: errors=0'
}

refused pml_tm_eager_limit -7 'is -7; allowed: 0 to 2147483647 bytes.'
refused pml_tm_unexpected_max 1 'is 1; allowed: at least 65536 bytes.'
refused pml_tm_tag_source_bits 25 'is 25; allowed: 8 to 24 bits; 0: '
refused pml_tm_free_list_max 5 'is 5; it must be -1, or at least pml_tm_free_list_num'
refused pml_tm_wait nosuch 'is "nosuch"; allowed: auto, spin, yield, sleep.'
refused pml_tm_providers shm,nosuch 'is "shm,nosuch"; allowed: a list of self, shm'
refused pml_tm_shm_ring_size 5000 'is 5000; allowed: 4096 to 16777216 bytes, a power of two; 0: '
refused pml_tm_shm_cooperative nosuch 'is "nosuch"; allowed: auto, none, always.'
refused pml_tm_verbs_gid_index 256 'is 256; allowed: 0 to 255; -1: '
refused pml_tm_verbs_if_include a:b 'is "a:b"; allowed: devices, or ports as device:port'
refused pml_tm_verbs_networks 10.0.0.0/33 'is "10.0.0.0/33"; allowed: interfaces, or networks'
refused pml_tm_tcp_ports 0-7 'is "0-7"; allowed: a port, or a range'

export TM_TEST_PML=ob1 TM_TEST_BTL=fabric,self
refused btl_fabric_free_list_num -7 'is -7; allowed: 1 to 1000000 descriptors.'
refused btl_fabric_max_send_size 1 'is 1; allowed: '
refused btl_fabric_rndv_eager_limit 32769 'is 32769; it must not be above btl_fabric_max_send_size'
export TM_TEST_PML=tm TM_TEST_BTL=

accepted pml_tm_eager_limit 0
accepted pml_tm_eager_limit 2147483647
accepted pml_tm_tag_source_bits 8
accepted pml_tm_tag_source_bits 24
accepted pml_tm_shm_ring_size 4096
accepted pml_tm_shm_ring_size 16777216
accepted pml_tm_shm_max_peers 2
accepted pml_tm_unexpected_max 65536
accepted pml_tm_free_list_max 64
accepted pml_tm_shm_copy_step 4096
accepted pml_tm_shm_cooperative always
