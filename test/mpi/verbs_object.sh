#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# TEST: timeout=120 device=tmdev
#
# The provider verbs is an object of its own, loaded only where there is a device.  If the object is
# of another build, misses a library, or is missing itself, a sentence says so, and the job goes on
# without verbs.
. "$TM_SRC/test/lib/script.sh"

export OMPI_MCA_pml_tm_verbose=10 LD_DEBUG=libs LD_DEBUG_OUTPUT=$PWD/loaded
hello=$(tm_mpi_program hello)
object=$(find "$TM_PREFIX" -name 'libmca_common_tm_verbs-*.so')
[[ -n $object ]] || skip "built without verbs"

# is_loaded NAME: did the last job load this library?
is_loaded()
{
    grep -qs "calling init: .*$1" loaded.*
}

tm_mpirun 2 "$hello" || fail "with a device"
is_loaded libmca_common_tm_verbs- || fail "the host has a device, and the provider was not loaded"
rm -f loaded.*
SYSFS_PATH=$PWD/none tm_mpirun 2 "$hello" || fail "without a device"
require 'verbs  not used: This host has no RDMA device'
! is_loaded libmca_common_tm_verbs- || fail "the host has no device, and the provider was loaded"
# Debian 13's Open MPI itself is linked with libfabric, which is linked with librdmacm.
is_loaded libfabric || ! is_loaded librdmacm ||
    fail "the host has no device, and librdmacm was loaded"
unset LD_DEBUG LD_DEBUG_OUTPUT

# with TEXT: a job in a copy of the installation, whose object is no good; TEXT says why.
cp -r "$TM_PREFIX" moved
object=moved/${object#"$TM_PREFIX/"}
with()
{
    (
        unset OMPI_MCA_mca_base_component_path
        # shellcheck source=/dev/null
        . moved/share/pml_tm/env.sh
        tm_mpirun 2 "$hello" || fail "$1"
        require "$1"
    ) || exit 1
}

"${TM_CC:-cc}" -shared -fPIC -o other.so -x c \
    - <<<'struct { unsigned long long abi; } fab_verbs_object = {12345};'
mv -f other.so "$object"
with 'is of another build than the library beside it'
"${TM_CC:-cc}" -shared -fPIC -o other.so -x c - <<<'int nothing;'
mv -f other.so "$object"
with 'undefined symbol: fab_verbs_object'
rm -f "$object"
with 'The provider cannot be loaded: '
