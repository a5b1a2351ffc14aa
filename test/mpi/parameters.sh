#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# TEST: timeout=180 quick=no short=said
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

refused pml_tm_eager_limit -7 'is -7; allowed: 0 to 2147483647 bytes; -1: '
refused pml_tm_unexpected_max 1 'is 1; allowed: at least 65536 bytes.'
refused pml_tm_tag_source_bits 25 'is 25; allowed: 8 to 24 bits; 0: '
refused pml_tm_wait nosuch 'is "nosuch"; allowed: auto, spin, yield, sleep.'
refused pml_tm_providers shm,nosuch 'is "shm,nosuch"; allowed: a list of self, shm'
refused pml_tm_shm_ring_size 5000 'is 5000; allowed: 4096 to 16777216 bytes, a power of two; 0: '
refused pml_tm_shm_cooperative nosuch 'is "nosuch"; allowed: auto, none, always.'
refused pml_tm_verbs_gid_index 256 'is 256; allowed: 0 to 255; -1: '
refused pml_tm_verbs_if_include a:b 'is "a:b"; allowed: devices, or ports as device:port'
refused pml_tm_verbs_networks 10.0.0.0/33 'is "10.0.0.0/33"; allowed: interfaces, or networks'
refused pml_tm_tcp_ports 0-7 'is "0-7"; allowed: a port, or a range'

export TM_TEST_PML=ob1 TM_TEST_BTL=fabric,self
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
accepted pml_tm_shm_copy_step 4096
accepted pml_tm_shm_cooperative always
accepted pml_tm_eager_limit 32K

# What is no number, which Open MPI takes for the default, or for what it begins with.
refused pml_tm_eager_limit abc 'is "abc"; allowed: 0 to 2147483647 bytes; -1: '
refused pml_tm_report_signal 9 'is 9; allowed: 1 to 64, but not SIGKILL and SIGSTOP; 0: none'
refused pml_tm_report_after 5s 'is "5s"; allowed: 1 to 1000000 seconds; 0: '

# One box, of one process of the host, with the name that the user gave; and not Open MPI's, which
# says that no component could be opened.
one_box()
{
    local lines mpirun
    lines=$(grep -acE '^-{40,}$' "$TM_WORK/err") || true
    mpirun=$(grep -ac '^prterun has exited due to' "$TM_WORK/err") || true # Open MPI 5.0's
    ((lines == 2 + 2 * mpirun)) || fail "it is not one message"
    forbid 'No components|cannot be selected'
}
if tm_mpirun 4 --mca pml_tm_wait fast "$hello"; then fail "pml_tm_wait=fast was accepted"; fi
one_box
if tm_mpirun 4 --mca pml_tm_shm_ring_size 100000 "$hello"; then fail "accepted"; fi
one_box
require 'pml_tm_shm_ring_size is 100000'
# The name of before, of which Open MPI warns.
if tm_mpirun 4 --mca btl_fabric_shm_ring_size 100000 "$hello"; then fail "accepted"; fi
require 'pml_tm_shm_ring_size is 100000'
require 'btl_fabric_shm_ring_size'
require 'deprecated'
# In the environment of the higher ranks alone: the lowest of those that have it.
cat >higher <<'END'
#!/bin/sh
# NAME=VALUE PROGRAM
[ "$OMPI_COMM_WORLD_RANK" -lt 2 ] || export "$1"
shift
exec "$@"
END
chmod +x higher
if tm_mpirun 4 "$PWD/higher" OMPI_MCA_pml_tm_wait=fast "$hello"; then fail "accepted"; fi
one_box
require 'pml_tm_wait is "fast"'
export TM_TEST_PML=ob1 TM_TEST_BTL=fabric,vader,self
tm_mpirun 4 "$PWD/higher" OMPI_MCA_btl_fabric_max_send_size=1 "$hello" ||
    fail "a job ends that needs no fabric"
one_box
require 'btl_fabric_max_send_size is 1'
export TM_TEST_PML=tm TM_TEST_BTL=

# warned TEXT MPIRUN-OPTION...: the job runs, with one warning on this host.
warned()
{
    local text=$1
    shift
    tm_mpirun 4 "$@" "$hello" || fail "a job ends for $*"
    require 'hello: errors=0'
    (($(grep -acF -e "$text" "$TM_WORK/err") == 1)) || fail "not once: $text"
}
warned 'pml_tm_eager_limt (perhaps pml_tm_eager_limit)' --mca pml_tm_eager_limt 5
one_box
warned 'pml_tm_verbs_rails (removed: name the ports in pml_tm_verbs_if_include)' \
    --mca pml_tm_verbs_rails 1
one_box
warned 'pml_tm_fast_paths (removed: ' --mca pml_tm_fast_paths 0
warned 'pml_tm_wholly_other' --mca pml_tm_wholly_other 5
forbid 'perhaps'
warned 'btl_fabric_tcp_port (perhaps pml_tm_tcp_ports)' --mca btl_fabric_tcp_port 5
warned 'pml_tm_tcp_if_include names nosuch0; this host has lo' \
    --mca pml_tm_tcp_if_include lo,nosuch0
forbid '^-{40,}$'
require_quiet

# The few that a user asks for first are there without --level.
ompi_info --param pml tm >first
for name in providers verbose report_after tcp_if_include; do
    require "\"pml_tm_$name\"" first
done
(($(grep -c 'parameter "pml_tm_' first) <= 12)) || fail "too many parameters of level 1"

# The example of a file for all jobs: Open MPI takes it, and has each parameter that it names.
OMPI_MCA_mca_base_param_files=$TM_SRC/packaging/openmpi-mca-params.conf \
    ompi_info --param pml tm --level 9 --parsable >site
grep -q 'pml_tm_priority"\?:value:"\?60' site || fail "Open MPI does not take the example"
ompi_info --all --level 9 --parsable >all
while read -r name; do
    grep -q "param:\"\?$name\"\?:value" all ||
        fail "packaging/openmpi-mca-params.conf: no parameter $name"
done < <(sed -nE 's/^(# )?([a-z_]+) = .*/\2/p' "$TM_SRC/packaging/openmpi-mca-params.conf")
