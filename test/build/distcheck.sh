#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# TEST: timeout=600 short=minutes
#
# The archive holds everything that is needed, builds from a source directory that cannot be written
# to, where make check works, installs below DESTDIR, and uninstalls and cleans without a trace.
. "$TM_SRC/test/lib/script.sh"

"$TM_SRC/configure" >configure.log 2>&1 || fail "configure: $(tail -n 5 configure.log)"
make -j"$(nproc)" distcheck TM_CHECK="unit/test_idmap unit/test_match" >distcheck.log 2>&1 || {
    tail -n 60 distcheck.log
    fail "make distcheck"
}
require "archives ready for distribution" distcheck.log
grep -E '^[0-9]+ passed' distcheck.log || fail "make check ran no tests"

# What a checkout has and quickstart, the tests and the build inside Open MPI need is in the
# archive, too.
tar tzf pml_tm-*.tar.gz | sed 's@^[^/]*/@@' | LC_ALL=C sort >archive
(cd "$TM_SRC" && find common pml_tm test doc -type f ! -name '*.pyc') | LC_ALL=C sort >tree
missing=$(LC_ALL=C comm -13 archive tree)
[[ -z $missing ]] || fail "not in the archive: $missing"
for file in LICENSE autogen.sh configure configure.ac configure.m4 Makefile.am Makefile.in \
    quickstart .ci/run; do
    grep -qx "$file" archive || fail "not in the archive: $file"
done
