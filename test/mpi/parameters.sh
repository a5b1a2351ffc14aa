#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# TEST: timeout=240 quick=no
#
# A value that a parameter cannot take ends mpirun with one message that names the parameter, the value and what is allowed.
# Every integer parameter there is gets tried, with values out of range; and one at each end of its range works.
. "$TM_SRC/test/lib/script.sh"

hello=$(tm_mpi_program hello)

# refused NAME VALUE
refused()
{
    echo "== $1=$2"
    if tm_mpirun 2 --mca "$1" "$2" "$hello"; then
        fail "$1=$2 was accepted"
    fi
    forbid 'Segmentation|Signal:|core dumped|hello: errors'
    require "$1"
}

accepted()
{
    echo "== $1=$2"
    tm_mpirun 2 --mca "$1" "$2" "$hello" || fail "$1=$2 was not accepted"
    require 'hello: errors=0'
}

# Names of all parameters of tm that are numbers.
numbers=$(ompi_info --param pml tm --level 9 --parsable | sed -nE 's/^mca:pml:tm:param:(pml_tm_[a-z_]+):type:(int|unsigned_int|size_t)$/\1/p')
(($(wc -l <<<"$numbers") >= 10)) || fail "fewer parameters than expected: $numbers"

for name in $numbers; do
    case $name in
        pml_tm_free_list_max | pml_tm_priority | pml_tm_verbose | pml_tm_eager_limit | pml_tm_free_list_num | pml_tm_fast_paths | pml_tm_close_timeout) refused "$name" -7 ;;
        pml_tm_unexpected_max) refused "$name" 1 ;;
        pml_tm_tag_source_bits) refused "$name" 3 && refused "$name" 25 ;;
        pml_tm_shm_connect_timeout) refused "$name" 86401 ;;
        pml_tm_shm_max_peers) refused "$name" 1000000 ;;
        pml_tm_shm_ring_size) refused "$name" 5000 && refused "$name" 64 ;;
        pml_tm_shm_single_copy | pml_tm_shm_cooperative) ;; # names, below
        pml_tm_verbs_tm_min) ;; # any number
        pml_tm_verbs_gid_index) refused "$name" 256 && refused "$name" -2 ;;
        *) refused "$name" 0 ;;
    esac
done
refused pml_tm_verbose 1000
refused pml_tm_shm_eager_limit 1000000000
refused pml_tm_providers nosuch
refused pml_tm_providers ^nosuch
refused pml_tm_shm_single_copy nosuch
refused pml_tm_shm_cooperative nosuch
refused pml_tm_wait nosuch
refused pml_tm_verbs_tm nosuch

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
