# SPDX-License-Identifier: BSD-3-Clause
#
# All checks of pml_tm, as macros that serve in two places: the stand-alone configure.ac beside this
# file, and the configure of Open MPI when packaging/into_openmpi has copied this tree to
# ompi/mca/pml/tm of its source (MCA_ompi_pml_tm_CONFIG at the end).
#
# What a check does not find goes to TM_MISSING with the package that has it; TM_REPORT_MISSING ends
# configure with the whole list, so that one run names everything there is to install.

# Also in common/fabric/fab_ompi.h; test/build/sources.sh compares.
m4_define([TM_VERSION_STRING], [0.1.0])

# TM_MISSING(text)
AC_DEFUN([TM_MISSING], [tm_missing="$tm_missing
  - $1"])

# TM_REPORT_MISSING
AC_DEFUN([TM_REPORT_MISSING], [
    AS_IF([test -n "$tm_missing"],
          [AC_MSG_ERROR([pml_tm cannot be built here:$tm_missing])])
])

# TM_TRY_CFLAG(flag, [if accepted: append to TM_CFLAGS], [if not])
AC_DEFUN([TM_TRY_CFLAG], [
    tm_save_CFLAGS=$CFLAGS
    CFLAGS="$CFLAGS -Werror $1"
    AC_MSG_CHECKING([whether $CC accepts $1])
    AC_COMPILE_IFELSE([AC_LANG_PROGRAM([], [])], [tm_ok=yes], [tm_ok=no])
    AC_MSG_RESULT([$tm_ok])
    CFLAGS=$tm_save_CFLAGS
    AS_IF([test $tm_ok = yes], [TM_CFLAGS="$TM_CFLAGS $1"], [$2])
])

# TM_CHECK_SYSTEM
# What the system must have whatever Open MPI is: sets TM_CFLAGS.
AC_DEFUN([TM_CHECK_SYSTEM], [
    AC_REQUIRE([AC_CANONICAL_HOST])

    AC_CHECK_FUNC([process_vm_readv], [],
                  [TM_MISSING([process_vm_readv not found: pml_tm needs Linux and glibc 2.15 or later (package libc6-dev)])])
    AC_CHECK_FUNC([memfd_create], [],
                  [TM_MISSING([memfd_create not found: pml_tm needs Linux and glibc 2.27 or later (package libc6-dev)])])

    TM_CFLAGS=-D_GNU_SOURCE
    m4_foreach_w([tm_flag], [-std=gnu11 -fno-strict-aliasing -fvisibility=hidden -pthread],
                 [TM_TRY_CFLAG(tm_flag, [TM_MISSING([$CC does not accept tm_flag: use gcc 9 or clang 11 or later])])])
    TM_TRY_CFLAG([-fno-lto])
    # Open MPI's atomics use the 16-byte compare and swap there.
    AS_CASE([$host_cpu], [x86_64],
            [TM_TRY_CFLAG([-mcx16], [TM_MISSING([$CC does not accept -mcx16: use gcc or clang])])])
])

# TM_CHECK_VERBS
# The provider verbs: built where there is libibverbs of rdma-core 35 (2021) or later, unless
# --without-verbs.  Sets TM_VERBS_CPPFLAGS, TM_VERBS_LIBS and tm_have_verbs.  With librdmacm, iWARP
# as well.
AC_DEFUN([TM_CHECK_VERBS], [
    AC_ARG_WITH([verbs],
        [AS_HELP_STRING([--without-verbs], [leave the provider verbs (InfiniBand, RoCE, iWARP) out; --with-verbs: fail without it])],
        [tm_with_verbs=$withval], [tm_with_verbs=check])
    tm_have_verbs=no
    AS_IF([test "$tm_with_verbs" != no],
          [AC_CHECK_HEADER([infiniband/verbs.h],
               [AC_CHECK_LIB([ibverbs], [ibv_is_fork_initialized], [tm_have_verbs=yes], [])])])
    AS_CASE([$tm_with_verbs/$tm_have_verbs],
        [no/no], [tm_verbs="no (--without-verbs): TCP between hosts"],
        [*/yes], [tm_verbs=yes
                  AC_CHECK_TYPE([struct ibv_tmh], [tm_verbs="yes, with tag matching"], [],
                                [[#include <infiniband/verbs.h>
                                  #include <infiniband/tm_types.h>]])],
        [check/no], [tm_verbs="no: TCP between hosts (package libibverbs-dev, version 35 or later)"],
        [TM_MISSING([libibverbs not found, asked for by --with-verbs: install libibverbs-dev, version 35 or later])])
    AS_IF([test $tm_have_verbs = yes],
          [TM_VERBS_CPPFLAGS=-DFAB_HAVE_VERBS=1 TM_VERBS_LIBS=-libverbs
           AC_CHECK_HEADER([rdma/rdma_cma.h],
               [AC_CHECK_LIB([rdmacm], [rdma_create_id], [tm_rdmacm=yes], [tm_rdmacm=no], [-libverbs])],
               [tm_rdmacm=no])
           AS_CASE([$tm_rdmacm],
               [yes], [TM_VERBS_CPPFLAGS="$TM_VERBS_CPPFLAGS -DFAB_HAVE_RDMACM=1" TM_VERBS_LIBS="-lrdmacm $TM_VERBS_LIBS"],
               [tm_verbs="$tm_verbs; without iWARP (package librdmacm-dev)"])],
          [TM_VERBS_CPPFLAGS= TM_VERBS_LIBS=])
])

# TM_CHECK_OFI
# The provider ofi: built where there is libfabric 1.15 (2022) or later, unless --without-libfabric.
# Sets TM_OFI_CPPFLAGS, TM_OFI_LDFLAGS, TM_OFI_LIBS and tm_have_ofi.
AC_DEFUN([TM_CHECK_OFI], [
    AC_ARG_WITH([libfabric],
        [AS_HELP_STRING([--without-libfabric], [leave the provider ofi (Slingshot, EFA, Omni-Path) out; --with-libfabric@<:@=DIR@:>@: fail without it])],
        [tm_with_ofi=$withval], [tm_with_ofi=check])
    tm_have_ofi=no TM_OFI_CPPFLAGS= TM_OFI_LDFLAGS=
    AS_CASE([$tm_with_ofi],
        [no|yes|check], [],
        [TM_OFI_CPPFLAGS="-I$tm_with_ofi/include"
         AS_IF([test -d "$tm_with_ofi/lib64"], [TM_OFI_LDFLAGS="-L$tm_with_ofi/lib64"], [TM_OFI_LDFLAGS="-L$tm_with_ofi/lib"])])
    tm_save_CPPFLAGS=$CPPFLAGS tm_save_LDFLAGS=$LDFLAGS tm_save_LIBS=$LIBS
    CPPFLAGS="$CPPFLAGS $TM_OFI_CPPFLAGS" LDFLAGS="$LDFLAGS $TM_OFI_LDFLAGS" LIBS="-lfabric $LIBS"
    AS_IF([test "$tm_with_ofi" != no],
          [AC_MSG_CHECKING([for libfabric])
           AC_LINK_IFELSE([AC_LANG_PROGRAM([[
               #include <rdma/fabric.h>
               #include <rdma/fi_endpoint.h>
               #if FI_VERSION_LT(FI_VERSION(FI_MAJOR_VERSION, FI_MINOR_VERSION), FI_VERSION(1, 15))
               #error too old
               #endif]], [[return 0 == (int) fi_version();]])],
               [tm_have_ofi=yes], [])
           AC_MSG_RESULT([$tm_have_ofi])])
    CPPFLAGS=$tm_save_CPPFLAGS LDFLAGS=$tm_save_LDFLAGS LIBS=$tm_save_LIBS
    AS_CASE([$tm_with_ofi/$tm_have_ofi],
        [no/no], [tm_ofi="no (--without-libfabric)"],
        [*/yes], [tm_ofi=yes TM_OFI_CPPFLAGS="-DFAB_HAVE_OFI=1 $TM_OFI_CPPFLAGS" TM_OFI_LIBS=-lfabric],
        [check/no], [tm_ofi="no: no Slingshot, EFA, Omni-Path (package libfabric-dev, version 1.15 or later)"],
        [TM_MISSING([libfabric not found, asked for by --with-libfabric: install libfabric-dev, version 1.15 or later])])
    AS_IF([test $tm_have_ofi = no], [TM_OFI_CPPFLAGS= TM_OFI_LDFLAGS= TM_OFI_LIBS=])
])

# TM_PKG_CPPFLAGS(module, variable)
# The module's include flags; variable is unset if there is no such module.
AC_DEFUN([TM_PKG_CPPFLAGS], [
    AC_MSG_CHECKING([for $1])
    AS_UNSET([$2])
    AS_IF([test -n "$PKG_CONFIG" && $PKG_CONFIG --exists $1 2>/dev/null],
          [$2=`$PKG_CONFIG --cflags-only-I $1`
           tm_$1=`$PKG_CONFIG --modversion $1`],
          [tm_$1=no])
    AC_MSG_RESULT([$tm_$1])
])

# TM_OMPI_PATH(name, variable, default)
AC_DEFUN([TM_OMPI_PATH], [
    $2=
    AS_IF([test -n "$tm_ompi_info"],
          [$2=`"$tm_ompi_info" --path $1 --parsable 2>/dev/null | sed -n 's/^path:$1://p'`])
    AS_IF([test -z "$$2"], [$2=$3])
])

# TM_CHECK_OMPI
# Find an installed Open MPI with its developer headers.  Sets TM_OMPI_CPPFLAGS, TM_OMPI_LDFLAGS,
# TM_MPI_LIBS, TM_PAL_LIBS and tm_ompi_pkglibdir.
AC_DEFUN([TM_CHECK_OMPI], [
    AC_ARG_WITH([ompi],
        [AS_HELP_STRING([--with-ompi=PREFIX],
                        [build for the Open MPI installed in PREFIX (default: that of the ompi_info in PATH)])],
        [], [with_ompi=])
    AS_CASE([$with_ompi],
        [no], [AC_MSG_ERROR([pml_tm is a component of Open MPI and cannot be built without it])],
        [yes], [with_ompi=])
    AC_ARG_WITH([ompi-source],
        [AS_HELP_STRING([--with-ompi-source=DIR],
                        [take the headers from DIR, where packaging/headers has made them, or which is the source of that very
                         Open MPI, configured there with the same options (default: the installed headers)])],
        [], [with_ompi_source=no])
    AC_ARG_VAR([PKG_CONFIG], [path of pkg-config])
    AC_PATH_TOOL([PKG_CONFIG], [pkg-config])
    AC_PATH_PROG([tm_ompi_info], [ompi_info], [], [${with_ompi:+$with_ompi/bin:}${with_ompi:-$PATH}])

    tm_ompi_version=
    tm_ompi_prefix=${with_ompi:-/usr}
    AS_IF([test -z "$tm_ompi_info" && test -z "$with_ompi"],
          [TM_MISSING([ompi_info not found: install openmpi-bin, or pass --with-ompi=PREFIX])])
    TM_OMPI_PATH([incdir], [tm_ompi_incdir], [$tm_ompi_prefix/include])
    TM_OMPI_PATH([pkgincludedir], [tm_ompi_pkgincludedir], [$tm_ompi_incdir/openmpi])
    TM_OMPI_PATH([libdir], [tm_ompi_libdir], [$tm_ompi_prefix/lib])
    TM_OMPI_PATH([pkglibdir], [tm_ompi_pkglibdir], [$tm_ompi_libdir/openmpi])
    TM_OMPI_PATH([bindir], [tm_ompi_bindir], [$tm_ompi_prefix/bin])

    # Warnings inside Open MPI's headers are not ours to mend: they are system headers to the
    # compiler.
    TM_OMPI_CPPFLAGS=
    tm_ompi_headers_dir=$tm_ompi_pkgincludedir
    AS_CASE([$with_ompi_source],
        [no], [TM_OMPI_CPPFLAGS="-isystem $tm_ompi_pkgincludedir"
               AS_IF([test "$tm_ompi_incdir" != /usr/include],
                     [TM_OMPI_CPPFLAGS="$TM_OMPI_CPPFLAGS -isystem $tm_ompi_incdir"])],
        [/*], [tm_ompi_headers_dir=$with_ompi_source
               for tm_dir in "" /opal/include /ompi/include /orte/include /3rd-party/openpmix/include; do
                   AS_IF([test -d "$with_ompi_source$tm_dir"],
                         [TM_OMPI_CPPFLAGS="$TM_OMPI_CPPFLAGS -isystem $with_ompi_source$tm_dir"])
               done],
        [AC_MSG_ERROR([--with-ompi-source needs the full path of a directory])])
    TM_OMPI_LDFLAGS="-L$tm_ompi_libdir"

    TM_PKG_CPPFLAGS([hwloc], [tm_hwloc_CPPFLAGS])
    TM_PKG_CPPFLAGS([pmix], [tm_pmix_CPPFLAGS])
    tm_pmix_LDFLAGS=
    tm_pmix_componentdir=
    AS_CASE([$tm_pmix], [no], [],
            [tm_pmix_LDFLAGS=`$PKG_CONFIG --libs-only-L pmix`
             tm_pmix_componentdir=`$PKG_CONFIG --variable=libdir pmix`/pmix])
    AS_IF([test -z "$PKG_CONFIG"],
          [tm_hwloc="unknown (no pkg-config)" tm_pmix="unknown (no pkg-config)"])

    tm_save_CPPFLAGS=$CPPFLAGS
    tm_save_LDFLAGS=$LDFLAGS
    tm_save_LIBS=$LIBS
    tm_save_CFLAGS=$CFLAGS
    CPPFLAGS="$CPPFLAGS $TM_OMPI_CPPFLAGS"
    CFLAGS="$CFLAGS $TM_CFLAGS"
    LDFLAGS="$LDFLAGS $TM_OMPI_LDFLAGS"

    AC_MSG_CHECKING([for Open MPI's developer headers in $tm_ompi_headers_dir])
    AC_PREPROC_IFELSE([AC_LANG_SOURCE([[#include "ompi_config.h"]])], [tm_ompi_headers=yes], [tm_ompi_headers=no])
    AC_MSG_RESULT([$tm_ompi_headers])
    AS_IF([test $tm_ompi_headers = no],
          [TM_MISSING_HEADERS],
          [TM_CHECK_OMPI_VERSION
           AS_CASE([$tm_ompi_series], [4.1|5.0|6.0], [TM_CHECK_OMPI_HEADERS
                                                  TM_CHECK_OMPI_USABLE])
           AS_IF([test -z "$tm_missing"], [TM_CHECK_OMPI_FIT])])

    CPPFLAGS=$tm_save_CPPFLAGS
    LDFLAGS=$tm_save_LDFLAGS
    LIBS=$tm_save_LIBS
    CFLAGS=$tm_save_CFLAGS
])

# TM_MISSING_HEADERS
AC_DEFUN([TM_MISSING_HEADERS], [
    AS_IF([test "$with_ompi_source" != no],
          [TM_MISSING([ompi_config.h not found: $with_ompi_source is no source of Open MPI that was configured there; packaging/headers makes one from a release archive])],
          [test -n "$tm_ompi_info"],
          [tm_ompi_version=`"$tm_ompi_info" --parsable 2>/dev/null | sed -n 's/^ompi:version:full://p'`
           TM_MISSING([ompi_config.h not found: install libopenmpi-dev, or build Open MPI --with-devel-headers, or pass --with-ompi=PREFIX
    This Open MPI is version $tm_ompi_version. Where no package has its headers, its release archive has them
    (https://www.open-mpi.org/software, openmpi-$tm_ompi_version.tar.bz2):
        packaging/headers `dirname "$tm_ompi_bindir"` openmpi-$tm_ompi_version.tar.bz2 DIR
        ./configure --with-ompi-source=DIR ...])],
          [TM_MISSING([ompi_config.h not found: install libopenmpi-dev, or build Open MPI --with-devel-headers, or pass --with-ompi=PREFIX])])
])

# TM_CHECK_OMPI_FIT
# The headers must be those of the installed library: the guard at run time (fab_fit.h), asked here.
AC_DEFUN([TM_CHECK_OMPI_FIT], [
    tm_abs_srcdir=`cd "$srcdir" && pwd`
    tm_save_LD_LIBRARY_PATH=$LD_LIBRARY_PATH
    CPPFLAGS="$CPPFLAGS -I$tm_abs_srcdir -I$tm_abs_srcdir/common"
    LIBS="$TM_MPI_LIBS $TM_PAL_LIBS -ldl $tm_save_LIBS"
    LD_LIBRARY_PATH=$tm_ompi_libdir${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
    export LD_LIBRARY_PATH
    AC_CACHE_CHECK([whether the headers are those of the library], [tm_cv_ompi_fits], [
        AC_RUN_IFELSE([AC_LANG_SOURCE([[
            #include "pml_tm/base/pml_tm_fit.c"
            #include "fabric/fab_fit.c"
            #include "fabric/fab_help.c"
            #include <stdio.h>

            int main(void)
            {
                char why[256];
                FILE *out = fopen("conftest.why", "w");
                const char *misfit = fab_fit_why_not(&mca_pml_tm_fit, why, sizeof(why));

                if (NULL != misfit && NULL != out) {
                    fprintf(out, "the library says that it is %s: %s", mca_pml_tm_fit.runs, misfit);
                }
                return NULL != misfit;
            }]])],
            [tm_cv_ompi_fits=yes],
            [tm_cv_ompi_fits="no, `cat conftest.why 2>/dev/null || echo see config.log`"],
            [tm_cv_ompi_fits=unknown])
        rm -f conftest.why])
    LD_LIBRARY_PATH=$tm_save_LD_LIBRARY_PATH
    AS_CASE([$tm_cv_ompi_fits],
        [no*], [TM_MISSING([the headers in $tm_ompi_headers_dir (Open MPI $tm_ompi_version) are not those of the library in $tm_ompi_libdir: $tm_cv_ompi_fits])])
])

# TM_CHECK_OMPI_VERSION
# A build for the wrong series would load and crash, or not load at all: refuse it here.
AC_DEFUN([TM_CHECK_OMPI_VERSION], [
    m4_foreach_w([tm_part], [MAJOR MINOR RELEASE],
        [AC_COMPUTE_INT([tm_ompi_]tm_part, [OMPI_]tm_part[_VERSION], [[#include "ompi_config.h"]], [[tm_ompi_]]tm_part[=0])])
    tm_ompi_series=$tm_ompi_MAJOR.$tm_ompi_MINOR
    tm_ompi_version=$tm_ompi_series.$tm_ompi_RELEASE
    AC_MSG_CHECKING([for the version of Open MPI])
    AC_MSG_RESULT([$tm_ompi_version])
    # There MPI_Wait of one thread may return before it can see the data that another one received:
    # the library lacks a read barrier, which only processors that reorder loads need.
    AS_CASE([$tm_ompi_version/$host_cpu],
        [4.1.[[01]]/x86_64|4.1.[[01]]/i?86], [],
        [4.1.[[01]]/*], [TM_MISSING([Open MPI $tm_ompi_version found in $tm_ompi_incdir, whose MPI_Wait lacks a memory barrier that $host_cpu needs: pml_tm needs Open MPI 4.1.2 or later there])])
    AS_CASE([$tm_ompi_series],
        [4.1|5.0|6.0], [],
        [0.0], [TM_MISSING([the version of Open MPI cannot be read from ompi_config.h: see config.log])],
        [TM_MISSING([Open MPI $tm_ompi_version found in $tm_ompi_incdir, but pml_tm needs Open MPI 4.1, 5.0 or 6.0])])
])

# TM_CHECK_OMPI_HEADERS
# An installed Open MPI 5.0 or 6.0 lacks headers that its others include: common/ompi5_headers/ has
# them.
AC_DEFUN([TM_CHECK_OMPI_HEADERS], [
    AS_IF([test $tm_ompi_series != 4.1], [
        AC_MSG_CHECKING([for Open MPI's thread headers])
        AC_PREPROC_IFELSE([AC_LANG_SOURCE([[#include "opal_config.h"
                                            #include MCA_threads_mutex_base_include_HEADER]])],
                          [tm_ok=yes], [tm_ok="no, using those of pml_tm"])
        AC_MSG_RESULT([$tm_ok])
        AS_CASE([$tm_ok], [no*], [
            tm_abs_srcdir=`cd "$srcdir" && pwd`
            TM_OMPI_CPPFLAGS="$TM_OMPI_CPPFLAGS -I$tm_abs_srcdir/common/ompi5_headers"
            CPPFLAGS="$CPPFLAGS -I$tm_abs_srcdir/common/ompi5_headers"])])
])

# TM_CHECK_OMPI_USABLE
# The headers must compile, which takes those of hwloc (and PMIx) if Open MPI was built with
# external ones, and the libraries must link.
AC_DEFUN([TM_CHECK_OMPI_USABLE], [
    AC_MSG_CHECKING([whether Open MPI's developer headers compile])
    AC_LANG_CONFTEST([AC_LANG_PROGRAM([[
        #include "ompi_config.h"
        #include "ompi/communicator/communicator.h"
        #include "ompi/proc/proc.h"
        #include "ompi/mca/pml/pml.h"
        #include "opal/mca/hwloc/base/base.h"
        #if OMPI_MAJOR_VERSION < 5
        #include "opal/mca/pmix/pmix.h"
        #else
        #include "opal/mca/pmix/pmix-internal.h"
        #endif
        #include "opal/runtime/opal_progress.h"]], [[]])])
    tm_ok=no
    tm_bare_CPPFLAGS=$CPPFLAGS
    for tm_extra in "" "$tm_hwloc_CPPFLAGS $tm_pmix_CPPFLAGS"; do
        CPPFLAGS="$tm_bare_CPPFLAGS $tm_extra"
        AS_IF([test $tm_ok = no], [AC_COMPILE_IFELSE([], [tm_ok=yes; TM_OMPI_CPPFLAGS="$TM_OMPI_CPPFLAGS $tm_extra"])])
    done
    rm -f conftest.$ac_ext
    AC_MSG_RESULT([$tm_ok])
    AS_IF([test $tm_ok = no],
          [AC_CHECK_HEADER([hwloc.h], [tm_have_hwloc=yes], [tm_have_hwloc=no])
           AS_CASE([$tm_have_hwloc/$tm_pmix],
               [no/*], [TM_MISSING([hwloc.h not found, which Open MPI's headers include: install libhwloc-dev])],
               [*/no], [TM_MISSING([PMIx not found, which Open MPI's headers include: install libpmix-dev and pkg-config])],
               [TM_MISSING([Open MPI's developer headers do not compile: see config.log; is --with-ompi=PREFIX the right one?])])])

    # Named one by one, libopen-pal above all: the loader checks no version, but the SONAME of
    # libopen-pal differs between the series, and so a component of one is not loaded by the other.
    # From 6.0 on libmpi is one of two libraries of bindings; a program may have the other one.
    TM_PAL_LIBS="-lopen-pal"
    AS_CASE([$tm_ompi_series],
        [4.1], [TM_MPI_LIBS="-lmpi -lopen-rte"],
        [5.0], [TM_MPI_LIBS="-lmpi $tm_pmix_LDFLAGS -lpmix"],
        [TM_MPI_LIBS="-lopen_mpi $tm_pmix_LDFLAGS -lpmix"])
    LIBS="$TM_PAL_LIBS $tm_save_LIBS"
    AC_MSG_CHECKING([for $TM_PAL_LIBS $TM_MPI_LIBS in $tm_ompi_libdir])
    AC_LINK_IFELSE([AC_LANG_PROGRAM([[int opal_progress(void);]], [[opal_progress();]])],
                   [LIBS="$TM_MPI_LIBS $TM_PAL_LIBS $tm_save_LIBS"
                    AC_LINK_IFELSE([AC_LANG_PROGRAM([[int ompi_request_default_wait_all(void);]],
                                                    [[ompi_request_default_wait_all();]])],
                                   [tm_ok=yes], [tm_ok=no])],
                   [tm_ok=no])
    AC_MSG_RESULT([$tm_ok])
    AS_IF([test $tm_ok = no],
          [TM_MISSING([one of $TM_PAL_LIBS $TM_MPI_LIBS cannot be linked from $tm_ompi_libdir: install libopenmpi-dev and libpmix-dev, or see config.log])])
])

# TM_CHECK_HWLOC
# The provider verbs asks hwloc which device is near: Open MPI's own copy, which is in libopen-pal,
# or the one that it was built with.  Sets TM_HWLOC_LIBS.
AC_DEFUN([TM_CHECK_HWLOC], [
    TM_HWLOC_LIBS=
    tm_save_CPPFLAGS=$CPPFLAGS
    tm_save_LIBS=$LIBS
    CPPFLAGS="$CPPFLAGS $TM_OMPI_CPPFLAGS"
    AC_LANG_CONFTEST([AC_LANG_PROGRAM([[
        #include "opal_config.h"
        #include "opal/mca/hwloc/base/base.h"]], [[hwloc_bitmap_free(hwloc_bitmap_alloc());]])])
    AC_MSG_CHECKING([for hwloc's library])
    tm_ok=no
    for tm_libs in " " "-lhwloc" "`test -n "$PKG_CONFIG" && $PKG_CONFIG --libs hwloc 2>/dev/null`"; do
        LIBS="$TM_OMPI_LDFLAGS $TM_PAL_LIBS $tm_libs $tm_save_LIBS"
        AS_IF([test $tm_ok = no], [AC_LINK_IFELSE([], [tm_ok=yes TM_HWLOC_LIBS=$tm_libs])])
    done
    rm -f conftest.$ac_ext
    AS_IF([test $tm_ok = yes], [AC_MSG_RESULT([${TM_HWLOC_LIBS:-yes}])],
          [AC_MSG_RESULT([no])
           TM_MISSING([hwloc's library cannot be linked: install libhwloc-dev, or see config.log])])
    CPPFLAGS=$tm_save_CPPFLAGS
    LIBS=$tm_save_LIBS
])

# TM_STANDALONE_CONFIG
# The whole of configure.ac between its initialisation and its output.
AC_DEFUN([TM_STANDALONE_CONFIG], [
    AC_ARG_WITH([componentdir],
        [AS_HELP_STRING([--with-componentdir@<:@=DIR@:>@],
                        [install mca_pml_tm.so in DIR; without DIR, where that Open MPI keeps its own components, which then
                         finds it with no setting (default: LIBDIR/openmpi)])],
        [], [with_componentdir=no])
    AC_ARG_ENABLE([werror],
        [AS_HELP_STRING([--enable-werror], [make compiler warnings errors])],
        [], [enable_werror=no])

    TM_CHECK_SYSTEM
    TM_CHECK_OMPI
    TM_CHECK_OFI
    TM_CHECK_VERBS
    AS_IF([test $tm_have_verbs = yes && test -z "$tm_missing"], [TM_CHECK_HWLOC])
    TM_REPORT_MISSING

    # What env.sh sets beside Open MPI's own path, which the mpirun of 5.0 and later hands to PMIx:
    # the directory of the PMIx that is Open MPI's own copy, or of the system's.
    TM_PMIX_COMPONENTDIR=
    AS_IF([test -e "$tm_ompi_libdir/libpmix.so"], [tm_pmix_componentdir=$tm_ompi_libdir/pmix])
    AS_IF([test $tm_ompi_series != 4.1 && test -d "$tm_pmix_componentdir"], [TM_PMIX_COMPONENTDIR=$tm_pmix_componentdir])
    AC_SUBST([TM_PMIX_COMPONENTDIR])

    TM_CFLAGS="$TM_CFLAGS -Wall -Wextra"
    AS_IF([test "$enable_werror" = yes], [TM_CFLAGS="$TM_CFLAGS -Werror"])

    TM_RUNPATH=
    AS_CASE([$with_componentdir],
        [no], [TM_COMPONENTDIR='${libdir}/openmpi'],
        [yes], [TM_COMPONENTDIR=$tm_ompi_pkglibdir],
        [TM_COMPONENTDIR=$with_componentdir])
    AS_IF([test "$with_componentdir" != no], [TM_RUNPATH='-Wl,-rpath,$(libdir)'])
    TM_SUBST
    AC_SUBST([tm_ompi_bindir])
    AC_SUBST([tm_ompi_series])
    AC_SUBST([tm_ompi_libdir])
    AC_SUBST([tm_ompi_pkglibdir])
])

# TM_SUBST
AC_DEFUN([TM_SUBST], [
    AC_SUBST([TM_CFLAGS])
    AC_SUBST([TM_OMPI_CPPFLAGS])
    AC_SUBST([TM_OMPI_LDFLAGS])
    AC_SUBST([TM_PAL_LIBS])
    AC_SUBST([TM_MPI_LIBS])
    AC_SUBST([TM_COMPONENTDIR])
    AC_SUBST([TM_RUNPATH])
    AC_SUBST([TM_OFI_CPPFLAGS])
    AC_SUBST([TM_OFI_LDFLAGS])
    AC_SUBST([TM_OFI_LIBS])
    AC_SUBST([TM_VERBS_CPPFLAGS])
    AC_SUBST([TM_VERBS_LIBS])
    AC_SUBST([TM_HWLOC_LIBS])
    AC_SUBST([TM_VERSION], [TM_VERSION_STRING])
    AC_ARG_VAR([TM_MODULE_PREREQ], [module of Open MPI that the module file asks for])
])

# TM_SUMMARY
AC_DEFUN([TM_SUMMARY], [
    tm_where=$TM_COMPONENTDIR
    for tm_part in libdir exec_prefix prefix; do
        eval tm_where=\"$tm_where\"
    done
    AS_ECHO(["
pml_tm TM_VERSION_STRING
  Open MPI       $tm_ompi_version ($tm_ompi_libdir)
  hwloc          $tm_hwloc
  PMIx           $tm_pmix
  libibverbs     $tm_verbs
  libfabric      $tm_ofi
  compiler       $CC $CFLAGS
  component in   $tm_where
"])
])

# ---- inside the Open MPI tree --------------------------------------------------------------------

# MCA_ompi_pml_tm_CONFIG([action-if-can-build], [action-if-not])
AC_DEFUN([MCA_ompi_pml_tm_CONFIG], [
    AC_CONFIG_FILES([ompi/mca/pml/tm/Makefile])

    tm_missing=
    TM_CHECK_SYSTEM
    # The component and the library it shares with others are files of their own.  Open MPI's
    # --enable-mca-dso machinery offers a macro for that (..._COMPILE_MODE), which yields an empty
    # mode in 5.0; setting the variable works in all.
    AS_IF([test "$OPAL_ENABLE_DLOPEN_SUPPORT/$enable_shared" = 1/yes],
          [compile_mode=dso],
          [TM_MISSING([Open MPI is configured without dlopen support or shared libraries, and pml_tm can only be built as a plug-in])])
    TM_OMPI_CPPFLAGS=
    TM_OMPI_LDFLAGS=
    TM_MPI_LIBS='$(top_builddir)/ompi/lib$(OMPI_LIBMPI_NAME).la'
    TM_PAL_LIBS='$(top_builddir)/opal/lib$(OPAL_LIB_NAME).la'
    AS_CASE([$OMPI_MAJOR_VERSION.$OMPI_MINOR_VERSION],
            [4.1], [TM_PAL_LIBS='$(top_builddir)/opal/lib$(OPAL_LIB_PREFIX)open-pal.la'
                    TM_MPI_LIBS="$TM_MPI_LIBS "'$(top_builddir)/orte/lib$(ORTE_LIB_PREFIX)open-rte.la'],
            [5.0], [TM_MPI_LIBS="$TM_MPI_LIBS $opal_pmix_BUILD_LIBS"],
            [6.0], [TM_MPI_LIBS='$(top_builddir)/ompi/libopen_mpi.la '"$opal_pmix_BUILD_LIBS"],
            [TM_MISSING([pml_tm needs Open MPI 4.1, 5.0 or 6.0, this is $OMPI_MAJOR_VERSION.$OMPI_MINOR_VERSION])])
    TM_COMPONENTDIR='$(ompilibdir)'
    # from 5.0 on, and with its own copy, Open MPI's LIBS and libopen-pal have hwloc
    TM_HWLOC_LIBS=
    AS_IF([test $OMPI_MAJOR_VERSION = 4], [TM_HWLOC_LIBS='$(opal_hwloc_external_LIBS)'])
    TM_RUNPATH=
    TM_CHECK_OFI
    TM_CHECK_VERBS
    TM_SUBST

    AS_IF([test -z "$tm_missing"],
          [$1],
          [AC_MSG_WARN([pml tm is not built:$tm_missing])
           $2])
])

# MCA_ompi_pml_tm_POST_CONFIG(should_build)
# On every path: the conditionals.
AC_DEFUN([MCA_ompi_pml_tm_POST_CONFIG], [
    AM_CONDITIONAL([TM_STANDALONE], [false])
    AM_CONDITIONAL([TM_OFI], [test "$tm_have_ofi" = yes])
    AM_CONDITIONAL([TM_VERBS], [test "$tm_have_verbs" = yes])
])
