#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# TEST: timeout=600 short=turns
#
# The Debian package, built from debian/, installed, used without env.sh, and purged: what stays behind fails.  All of it happens
# in an overlay over this system, which the test throws away.
. "$TM_SRC/test/lib/overlay.sh"

copy_tree "$TM_WORK/pml-tm"
cp "$TM_WORK/pml-tm/.commit" commit
cat >inside <<'END'
set -euo pipefail
cd "$1/pml-tm"
dpkg-buildpackage -b -us -uc >"$1/build.log" 2>&1 || { tail -n 40 "$1/build.log"; echo "FAILED: dpkg-buildpackage"; exit 1; }
rm -rf "$1/pml-tm"
cd "$1"
find /usr /etc /opt /var ! -path '/var/lib/dpkg/*' ! -path '/var/log/*' ! -path '/var/cache/*' | LC_ALL=C sort >before
dpkg -i openmpi-pml-tm_*.deb || { echo "FAILED: dpkg -i"; exit 1; }
dpkg -L openmpi-pml-tm
mpirun "${@:3}" --mca pml tm "$2"
ompi_info --param pml tm --level 2 --parsable | grep 'param:pml_tm_commit:value:'
dpkg --purge openmpi-pml-tm
find /usr /etc /opt /var ! -path '/var/lib/dpkg/*' ! -path '/var/log/*' ! -path '/var/cache/*' | LC_ALL=C sort >after
LC_ALL=C comm -13 before after >left
END
tm_mpirun_flags 2
in_overlay inside "$TM_WORK" "$(tm_mpi_program hello)" "${tm_mpirun_flags[@]}" | tee out
require "hello: errors=0" out
require "pml_tm_commit:value:$(cat "$TM_WORK/commit")" out
[[ ! -s left ]] || fail "after dpkg --purge there is still: $(cat left)"
if command -v lintian >/dev/null; then
    # The names of Open MPI's directories, and a maintainer's address that is none yet.
    lintian --suppress-tags custom-library-search-path,bogus-mail-host --fail-on error openmpi-pml-tm_*.deb || fail "lintian"
fi
