#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# TEST: timeout=1800 needs=dpkg-source depends=autogen.sh,configure.ac,configure.m4,Makefile.am,packaging/headers,test/build/openmpi.bash,test/lib/script.sh
#
# An Open MPI without the headers of its components: configure says what to do, packaging/headers
# makes them from the release archive, with the same defines, and pml_tm is built with them and
# runs.
# Archives of another version and differences in the options are refused by name.
. "$TM_SRC/test/lib/script.sh"
. "$TM_SRC/test/build/openmpi.bash"

((EUID == 0)) || skip "only root can hide the installed headers"
here=$TM_SRC/build/openmpi-$TM_OMPI_SERIES
mkdir -p "$here"
openmpi_source "$here"
archive=$(find "$here/archives" -name '*.orig.tar.*' ! -name '*.asc' | sed -n 1p)
info=$(command -v ompi_info)
prefix=$(installed_prefix)
version=$(ompi_info --parsable | sed -n 's/^ompi:version:full://p')
installed=$(ompi_info --path pkgincludedir --parsable | sed -n 's/^path:pkgincludedir://p')

# refused TEXT ARGUMENT...: packaging/headers refuses these, with the text.
refused()
{
    local text=$1
    shift
    ! "$TM_SRC/packaging/headers" "$@" >log 2>&1 || fail "packaging/headers accepted $*"
    tail -n 3 log
    require "$text" log
    [[ ! -e headers ]] || fail "a directory was left"
}

mkdir -p openmpi-9.9.9
printf 'major=9\nminor=9\nrelease=9\ngreek=rc1\n' >openmpi-9.9.9/VERSION
touch openmpi-9.9.9/configure
chmod +x openmpi-9.9.9/configure
tar -cf other.tar openmpi-9.9.9
refused "has Open MPI 9.9.9rc1, but the one in $prefix is $version" "$prefix" other.tar headers
refused "there is no $PWD/bin/ompi_info" "$PWD" other.tar headers

# like KEY VALUE: as if the installed one said so; its archive's configure does nothing.
mkdir -p bin openmpi-like/opal/include
like()
{
    cat >bin/ompi_info <<END
#!/bin/sh
ompi_info_of_the_system=$info
\$ompi_info_of_the_system "\$@" | sed 's/^$1:.*/$1:$2/'
END
    chmod +x bin/ompi_info
}
IFS=. read -r major minor release <<<"$version"
printf 'major=%s\nminor=%s\nrelease=%s\ngreek=\n' "$major" "$minor" "$release" >openmpi-like/VERSION
printf '#!/bin/sh\nexit 0\n' >openmpi-like/configure
chmod +x openmpi-like/configure
cp "$installed/opal_config.h" openmpi-like/opal/include
tar -cf like.tar openmpi-like
like option:dlopen no
refused "it loads no components" "$PWD" like.tar headers
like option:debug yes
refused "the installed one has --enable-debug, the headers do not" "$PWD" like.tar headers
like options:heterogeneous yes
refused "the installed one has --enable-heterogeneous, the headers do not" "$PWD" like.tar headers
if [[ $TM_OMPI_SERIES != 4.1 ]]; then
    like options:ft_mpi_support no
    refused "the headers have fault tolerance, the installed one does not" "$PWD" like.tar headers
fi

"$TM_SRC/packaging/headers" "$prefix" "$archive" headers || fail "packaging/headers"

# defines FILE: those of types and options; not of the bindings for Fortran and C++, which are left
# out, of components, and of when and where it was configured.
defines()
{
    grep -E '^#define (OPAL|OMPI|ORTE|SIZEOF)_' "$1" |
        grep -vE '_(FORTRAN|F77|F90|CXX|KIND)_|_ENDPOINT_TAG_|libompitrace|_(CONFIGURE|BUILD)_' |
        grep -vE 'CFLAGS|LDFLAGS|LIBS|_FC|_CXX|PACKAGE_STRING|_USER|_HOST|_DATE|JAVA' |
        sort
}
defines "$installed/opal_config.h" >have
defines headers/opal/include/opal_config.h >made
(($(wc -l <have) > 200)) || fail "found only few defines"
diff have made >differences || true
cat differences
! grep -E 'OPAL_(ENABLE|SIZEOF|ALIGN|WANT|CUDA|MAX)|SIZEOF_|OMPI_(GROUP|WANT|ENABLE)' \
    differences || fail "the headers made are not those installed"
# They are those of an Open MPI --without-ucx, so without a place for a PML (build/without_ucx).
places=$(grep -E '^#define OMPI_PROC_ENDPOINT_TAG_' headers/opal/include/opal_config.h)
[[ $places == *"_BML 0"* && $places == *"_MAX 1"* && $places != *"_PML "* ]] ||
    fail "the places at the end of ompi_proc_t are not those of a build without UCX: $places"

# The build, where the installed headers are hidden.
cat >inside <<'END'
set -euo pipefail
mount -t tmpfs tmpfs "$1"
mkdir build && cd build
! "$TM_SRC/configure" >refused.log 2>&1 || exit 1
"$TM_SRC/configure" --prefix="$TM_WORK/inst" --enable-werror --with-ompi-source="$TM_WORK/headers"
make -j2 install
END
# In a chroot nothing is mounted at /, which unshare would make private; the caller has done that.
propagation=private
mountpoint -q / || propagation=unchanged
unshare --mount --propagation "$propagation" bash inside "$installed" >build.log 2>&1 || {
    tail -n 30 build.log
    fail "the build with these headers"
}
require "Where no package has its headers, its release archive has them" build/refused.log
require "packaging/headers $prefix openmpi-$version.tar.bz2 DIR" build/refused.log
unset OMPI_MCA_mca_base_component_path
# shellcheck source=/dev/null
. inst/share/pml_tm/env.sh
tm_mpirun 2 "$(tm_mpi_program basic)" 70000 || fail "basic, built with these headers"
require 'basic: errors=0'
