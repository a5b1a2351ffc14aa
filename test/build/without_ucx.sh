#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# TEST: timeout=600 short=minutes
#
# An Open MPI that was configured --without-ucx: its ompi_proc_t has no place for a PML, which
# pml ucx asks for.  TM_OMPI_WITHOUT_UCX names an installation of one, with the headers of
# components: pml_tm is built for it and runs programs (build/in_tree builds one, and does the
# same).  Without it, pml_tm is built with the headers of the installed Open MPI, whose places are
# those of an Open MPI without UCX, and runs with the installed one.
. "$TM_SRC/test/lib/script.sh"
. "$TM_SRC/test/lib/build.sh"
. "$TM_SRC/test/build/openmpi.bash"

if [[ -n ${TM_OMPI_WITHOUT_UCX-} ]]; then
    run_without_ucx "$TM_OMPI_WITHOUT_UCX"
    exit
fi

real=$(openmpi_headers)
mkdir other
cp "$real/ompi_config.h" other
# What configure --without-ucx writes: build/headers looks that it does.
sed -E -e 's@^#define (OMPI_PROC_ENDPOINT_TAG_(MTL|PML|UCX)) .*@/* #undef \1 */@' \
    -e 's@^(#define OMPI_PROC_ENDPOINT_TAG_MAX) .*@\1 1@' "$real/opal_config.h" >other/opal_config.h
require 'define OMPI_PROC_ENDPOINT_TAG_MAX 1' other/opal_config.h
require 'define OMPI_PROC_ENDPOINT_TAG_BML 0' other/opal_config.h
forbid 'define OMPI_PROC_ENDPOINT_TAG_PML' other/opal_config.h
prefix=$(installed_prefix)
build_for "$prefix" "$TM_WORK/inst" CPPFLAGS="-I$TM_WORK/other"
use_openmpi "$prefix" "$TM_WORK/inst"
run_programs "$prefix"
