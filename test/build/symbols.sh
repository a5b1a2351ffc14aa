#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# TEST: timeout=60 quick=yes
#
# Open MPI loads components with RTLD_GLOBAL: what they export, all others see. The libraries
# export what is meant to be exported, name what guards and finds them, and nothing more.
# libibverbs comes with the provider verbs alone, libfabric with ofi.
. "$TM_SRC/test/lib/script.sh"

pml=$(find "$TM_PREFIX" -name mca_pml_tm.so)
common=$(find "$TM_PREFIX" -name 'libmca_common_tm-*.so')
btl=$(find "$TM_PREFIX" -name mca_btl_fabric.so)
[[ -n $pml && -n $btl && -n $common ]] || fail "not installed in $TM_PREFIX"

# exported FILE: its own global symbols.
exported()
{
    nm -D --defined-only "$1" | awk '{ print $3 }' | LC_ALL=C sort
}

verbs=$(find "$TM_PREFIX" -name 'libmca_common_tm_verbs-*.so')
ofi=$(find "$TM_PREFIX" -name 'libmca_common_tm_ofi-*.so')
[[ $(exported "$pml") == mca_pml_tm_component ]] ||
    fail "mca_pml_tm.so exports: $(exported "$pml" | tr '\n' ' ')"
[[ $(exported "$btl") == mca_btl_fabric_component ]] ||
    fail "mca_btl_fabric.so exports: $(exported "$btl" | tr '\n' ' ')"

# Declarations are FAB_EXPORT ... name( or name; or name[ on one line.
cat "$TM_SRC"/common/*/*.h | grep -E '^FAB_EXPORT' |
    sed -E 's/^[^(;[]*[ *]([a-z_0-9]+)[[(;].*/\1/' | LC_ALL=C sort -u >declared
exported "$common" >defined
diff declared defined ||
    fail "libmca_common_tm.so does not export what the headers declare FAB_EXPORT (<), but (>)"
forbid '^(|fab_.*[^a-z0-9_].*|([^f]|f[^a]|fa[^b]).*)$' defined

libopen_pal=$(tm_libopen_pal)
for file in "$pml" "$btl" "$common" $verbs $ofi; do
    readelf -dW "$file" >dynamic
    require "(NEEDED)             Shared library: [$libopen_pal]" dynamic
    forbid 'TEXTREL' dynamic
    ! readelf -lW "$file" | grep -E 'GNU_STACK.*E' || fail "$file wants an executable stack"
done
# It is allocated at each thread's first use; without memory for it the process ends.
! readelf -lW "$btl" | grep -w TLS || fail "$btl has storage of each thread"
# shellcheck source=/dev/null
. "$TM_BUILD/test/config.sh"
for file in "$pml" "$btl"; do
    readelf -dW "$file" >dynamic
    require "[$(basename "$common")]" dynamic
    # An Open MPI with libtool archives adds its own directory.
    sed "s@\[$TM_OMPI_LIBDIR:@[@" dynamic >runpath
    # shellcheck disable=SC2016 # for the loader to expand
    grep -E 'RUNPATH.*\[\$ORIGIN/\.\.' runpath ||
        fail "$file does not look for its library beside itself first"
done
readelf -dW "$common" | grep 'NODELETE' ||
    fail "libmca_common_tm.so may be unmapped while its MCA variables are in use"
# check_provider FILE NAME LIBRARY: the object of a provider, if it was built; it alone needs the
# library.
check_provider()
{
    [[ -n $1 ]] || return 0
    [[ $(exported "$1") == "fab_$2_object" ]] ||
        fail "$1 exports: $(exported "$1" | tr '\n' ' ')"
    readelf -dW "$1" >dynamic
    require "[$3.so" dynamic
    require "[$(basename "$common")]" dynamic
    # shellcheck disable=SC2016 # for the loader to expand
    sed "s@\[$TM_OMPI_LIBDIR:@[@" dynamic | grep -E 'RUNPATH.*\[\$ORIGIN' ||
        fail "$1 does not look for its library beside itself first"
}
check_provider "$verbs" verbs libibverbs
check_provider "$ofi" ofi libfabric
for file in "$pml" "$btl" "$common"; do
    ! readelf -dW "$file" | grep -E 'NEEDED.*(ibverbs|rdmacm|hwloc|fabric\.so)' ||
        fail "$file needs what a provider alone should need"
done
