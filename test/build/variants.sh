#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# TEST: timeout=600 short=minutes
#
# Builds with less: without the providers verbs and ofi, with verbs but without librdmacm, and for
# an Open MPI without the slot for a PML in its records of processes, as it is built without UCX,
# and without a macro that came with 4.1.2.  All build without warnings and run MPI programs.  A
# short run has one of them, by turns.
. "$TM_SRC/test/lib/script.sh"
. "$TM_SRC/test/lib/build.sh"

turn=$(tm_turn 3)

# is_turn NUMBER NAME: has this variant its turn?
is_turn()
{
    [[ -z $turn || $turn == "$1" ]] || ! echo "left to other turns: $2"
}

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

# needs NAME: the libraries that this variant needs.
needs()
{
    find "$1/inst" -name '*.so' -exec readelf -dW {} + | grep NEEDED >libraries
}

if is_turn 0 without-verbs; then
    variant without-verbs 'no (--without-verbs): TCP between hosts' --without-verbs \
        --without-libfabric
    require 'no (--without-libfabric)' without-verbs.log
    needs without-verbs
    forbid 'ibverbs|rdmacm|libfabric' libraries
fi
if is_turn 1 without-rdmacm; then
    variant without-rdmacm 'without iWARP' ac_cv_lib_rdmacm_rdma_create_id=no
    needs without-rdmacm
    forbid rdmacm libraries
    require ibverbs libraries
fi

# Open MPI's headers, without what later releases or other components bring.
mkdir -p headers/ompi/request
cat >headers/opal_config.h <<'END'
#include_next "opal_config.h"
#undef OMPI_PROC_ENDPOINT_TAG_PML
END
cat >headers/ompi_config.h <<'END'
#include "opal_config.h"
#include_next "ompi_config.h"
END
cat >headers/ompi/request/request.h <<'END'
#include_next "ompi/request/request.h"
#if OMPI_MAJOR_VERSION == 4
#undef OMPI_COPY_STATUS
#endif
END
if is_turn 2 old-headers; then
    variant old-headers 'checking for the version of Open MPI' --without-verbs \
        CPPFLAGS="-I$TM_WORK/headers"
fi
