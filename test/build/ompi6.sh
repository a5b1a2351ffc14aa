#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# TEST: timeout=900
#
# Open MPI 6.0, which no distribution has yet.  TM_OMPI6 names an installation of it that was
# configured --with-devel-headers (and --enable-standard-abi): pml_tm is built for it and runs
# programs, also one that is linked to libmpi_abi instead of libmpi.  Without it, and with the
# headers of 5.0, the components are compiled against these with the differences of 6.0 put in.
. "$TM_SRC/test/lib/script.sh"
. "$TM_SRC/test/lib/build.sh"
. "$TM_SRC/test/build/openmpi.bash"

# The real one.
if [[ -n ${TM_OMPI6-} ]]; then
    build_for "$TM_OMPI6" "$TM_WORK/inst"
    for file in mca_pml_tm.so mca_btl_fabric.so; do
        objdump -p "inst/lib/openmpi/$file" >dynamic
        forbid 'NEEDED .*libmpi\.' dynamic
    done
    use_openmpi "$TM_OMPI6" "$TM_WORK/inst"
    for name in hello basic comm_buffers; do
        compile_for "$TM_OMPI6" "$name"
        tm_mpirun 2 "./$name"
        require "$name: errors=0"
    done
    if [[ -e $TM_OMPI6/lib/libmpi_abi.so ]]; then
        mpicc_abi -o abi "$TM_SRC/test/build/ompi6_abi.c"
        tm_mpirun 2 ./abi
        require 'abi: errors=0'
        require 'abi: libmpi is not loaded'
    else
        echo "Not tested: a program linked to libmpi_abi (no libmpi_abi.so)."
    fi
    exit
fi

[[ $TM_OMPI_SERIES == 5.0 ]] ||
    skip "TM_OMPI6 names no installation of Open MPI 6.0, and there are no headers of 5.0 instead"

# shellcheck source=/dev/null
. "$TM_BUILD/test/config.sh"
read -ra flags <<<"$TM_OMPI_CPPFLAGS"
read -ra cflags <<<"$TM_CFLAGS"
real=$(openmpi_headers)

# change FILE SED-PROGRAM: that header, other than it is.
change()
{
    mkdir -p "other/$(dirname "$1")"
    sed -E "$2" "$real/$1" >"other/$1"
    ! cmp -s "$real/$1" "other/$1" || fail "$1 has nothing like $2"
}
cp_config()
{
    mkdir -p other
    cp "$real/ompi_config.h" other
    change opal_config.h 's/^(#define O(PAL|MPI)_MAJOR_VERSION) .*/\1 6/'
}
cp_config
change opal/datatype/opal_datatype.h 's/^( *uint32_t) loops;/\1 stack_depth;/'
change ompi/mca/pml/base/pml_base_bsend.h \
    's/(bsend_request_alloc_buf|bsend_request_free) *\(/\1(struct ompi_communicator_t *comm, /'
for file in "$TM_SRC"/pml_tm/{,*/}*.c "$TM_SRC"/btl_fabric/*.c; do
    "$TM_CC" -fsyntax-only -Werror "${cflags[@]}" -I"$TM_WORK/other" -I"$TM_BUILD" -I"$TM_SRC" \
        -I"$TM_SRC/common" "${flags[@]}" "$file" || fail "${file##*/} with the differences of 6.0"
done
