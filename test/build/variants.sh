#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# TEST: timeout=600 short=builds
#
# Builds with less: without the providers verbs and ofi, and with verbs but without librdmacm. Both
# build without warnings and run MPI programs.
. "$TM_SRC/test/lib/script.sh"
. "$TM_SRC/test/lib/build.sh"

# variant NAME TEXT CONFIGURE-ARGUMENT...: configure says TEXT of libibverbs.
variant()
{
    local name=$1 text=$2
    shift 2
    echo "== $name"
    tm_build "$TM_SRC" "$TM_WORK/$name" "$TM_WORK/$name/inst" \
        --enable-werror "$@" >"$name.log" 2>&1 || {
        tail -n 30 "$name.log"
        fail "the build $name"
    }
    require "$text" "$name.log"
    (
        unset OMPI_MCA_mca_base_component_path
        # shellcheck source=/dev/null
        . "$TM_WORK/$name/inst/share/pml_tm/env.sh"
        tm_mpirun 2 --mca pml_tm_verbose 10 "$(tm_mpi_program basic)" 70000 ||
            fail "basic, with the build $name"
        require 'basic: errors=0'
        ompi_info --param pml tm --level 9 --parsable >info
    ) || exit 1
}

variant without-verbs 'no (--without-verbs): TCP between hosts' --without-verbs --without-libfabric
require 'no (--without-libfabric)' without-verbs.log
! find without-verbs/inst -name '*.so' -exec readelf -dW {} + |
    grep -E 'NEEDED.*(ibverbs|rdmacm|libfabric)' || fail 'verbs or ofi is there after all'
variant without-rdmacm 'without iWARP' ac_cv_lib_rdmacm_rdma_create_id=no
! find without-rdmacm/inst -name '*.so' -exec readelf -dW {} + | grep 'NEEDED.*rdmacm' ||
    fail 'librdmacm is there after all'
find without-rdmacm/inst -name '*.so' -exec readelf -dW {} + | grep 'NEEDED.*ibverbs' ||
    fail 'verbs is not there'
