#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# TEST: timeout=300 depends=autogen.sh,configure.ac,configure.m4,Makefile.am,test/lib/config.sh.in,test/lib/script.sh
#
# configure names what is missing and which package has it; it refuses other series of Open MPI; it
# installs into the given directories.
. "$TM_SRC/test/lib/script.sh"

# refused OPTION...: configure must fail; its output is then in the file log.
refused()
{
    if "$TM_SRC/configure" "$@" >log 2>&1; then
        fail "configure accepted $*"
    fi
    tail -n 5 log
}

mkdir refused
cd refused
refused --with-ompi="$PWD/nothing"
require "ompi_config.h not found: install libopenmpi-dev, or build Open MPI --with-devel-headers, or pass --with-ompi=PREFIX" log

# headers VERSION: make ompi-VERSION look like that Open MPI, as far as this needs.
headers()
{
    local major minor release
    IFS=. read -r major minor release <<<"$1"
    mkdir -p "ompi-$1/include/openmpi"
    printf '#define OMPI_%s_VERSION %s\n' MAJOR "$major" MINOR "$minor" RELEASE "$release" \
        >"ompi-$1/include/openmpi/ompi_config.h"
}

for version in 3.1.6 4.0.7 5.1.0 6.1.0; do
    headers "$version"
    refused --with-ompi="$PWD/ompi-$version"
    require "Open MPI $version found" log
    require "needs Open MPI 4.1, 5.0 or 6.0" log
done

# Releases whose MPI_Wait lacks a barrier that this processor needs.
for version in 4.1.0 4.1.1; do
    headers "$version"
    refused --with-ompi="$PWD/ompi-$version" --host=aarch64-linux-gnu CC=gcc
    require "Open MPI $version found" log
    require "pml_tm needs Open MPI 4.1.2 or later there" log
done
refused --with-ompi="$PWD/ompi-4.1.1" --host=x86_64-linux-gnu CC=gcc
forbid "4\.1\.2 or later" log
headers 4.1.2
refused --with-ompi="$PWD/ompi-4.1.2" --host=aarch64-linux-gnu CC=gcc
forbid "4\.1\.2 or later" log

# All that is missing comes in one list.
CPPFLAGS="-Dprocess_vm_readv=no_such_function_1 -Dmemfd_create=no_such_function_2"
refused --with-ompi="$PWD/nothing" CPPFLAGS="$CPPFLAGS" ac_cv_func_process_vm_readv=no \
    ac_cv_func_memfd_create=no
require "process_vm_readv not found" log
require "memfd_create not found" log
require "ompi_config.h not found" log
cd ..

# Where things go. LIBDIR/openmpi by default, as Open MPI has it; elsewhere, the component still
# finds its library.
mkdir own
cd own
"$TM_SRC/configure" --prefix=/opt/tm --with-componentdir CFLAGS=-O0 >log 2>&1 ||
    fail "configure --with-componentdir"
make -j"$(nproc)" install DESTDIR="$PWD/root" >>log 2>&1 || fail "make install"
# shellcheck source=/dev/null
. test/config.sh
[[ -f root$TM_OMPI_PKGLIBDIR/mca_pml_tm.so ]] ||
    fail "--with-componentdir did not install into $TM_OMPI_PKGLIBDIR"
readelf -dW "root$TM_OMPI_PKGLIBDIR/mca_pml_tm.so" | grep 'RUNPATH.*:/opt/tm/lib\]' ||
    fail "RUNPATH lacks the library's directory"
find root -type f | sed 's@^root@@' | sort
[[ -z $(find root -name '*.la') ]] || fail "libtool archives are installed"
