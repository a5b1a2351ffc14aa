#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# TEST: timeout=600 short=minutes
#
# The RPM, built by rpmbuild from an archive that make dist made, unpacked into an overlay over this
# system and used without env.sh.  Dependencies are not looked at: on Debian rpm knows of no
# packages.
. "$TM_SRC/test/lib/overlay.sh"

command -v rpmbuild >/dev/null || skip "rpmbuild is not installed (package rpm)"
"$TM_SRC/configure" >configure.log 2>&1 || fail "configure: $(tail -n 5 configure.log)"
make dist >dist.log 2>&1 || fail "make dist: $(tail -n 5 dist.log)"
rpmbuild -tb --nodeps --define "_topdir $PWD/rpm" --define "_lib lib" \
    pml_tm-*.tar.gz >rpmbuild.log 2>&1 || {
    tail -n 40 rpmbuild.log
    fail "rpmbuild"
}
rpm -qpl --dbpath "$PWD/db" rpm/RPMS/*/*.rpm
cat >inside <<'END'
set -euo pipefail
cd "$1"
rpm -i --nodeps --dbpath "$1/db" rpm/RPMS/*/*.rpm
mpirun "${@:3}" --mca pml tm "$2"
rpm -e --dbpath "$1/db" pml-tm
END
tm_mpirun_flags 2
in_overlay inside "$TM_WORK" "$(tm_mpi_program hello)" "${tm_mpirun_flags[@]}" | tee out
require "hello: errors=0" out
