# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash
# For the tests of the Debian package.
. "$TM_SRC/test/lib/script.sh"

# The package is built on a Debian that has its build dependencies and nothing else.
cat >build <<'END_BUILD'
set -euo pipefail
apt-get -q update
(cd /src && apt-get -q -y build-dep --no-install-recommends ./)
cp -a /src /build
cd /build
dpkg-buildpackage -b -us -uc
mpicc -std=gnu11 -D_GNU_SOURCE -Itest/mpi -o /out/hello test/mpi/hello.c
cp ../openmpi-pml-tm_*.deb /out/
cp .commit /out/commit
END_BUILD

# On another, which has Open MPI, an ordinary user uses it without env.sh, and it is purged.
cat >use <<'END_USE'
set -euo pipefail
files()
{
    find / -xdev ! -path '/var/lib/dpkg/*' ! -path '/var/lib/apt/*' ! -path '/var/log/*' \
        ! -path '/var/cache/*' | LC_ALL=C sort
}
as_user()
{
    (cd /home/somebody && runuser -u somebody -- "$@")
}
apt-get -q update
apt-get -q -y install --no-install-recommends openmpi-bin openssh-client
useradd --create-home somebody
install -m 755 /out/hello /usr/local/bin/pml_tm_hello
touch /out/{before,after}
files >/out/before
apt-get -q -y install --no-install-recommends /out/openmpi-pml-tm_*.deb
dpkg -L openmpi-pml-tm
run=(mpirun -np 2 --oversubscribe)
as_user "${run[@]}" --mca pml tm --mca pml_tm_verbose 10 pml_tm_hello 2>&1 | tee /out/tm
as_user "${run[@]}" --mca pml ob1 --mca btl self,fabric pml_tm_hello 2>&1 | tee /out/btl
as_user ompi_info --param pml tm --level 2 --parsable | tee /out/info
apt-get -q -y purge openmpi-pml-tm
apt-get -q -y autoremove --purge
files >/out/after
END_USE

# package_on RELEASE: all of that there. What stays behind fails.
package_on()
{
    local step rc
    for step in build use; do
        rc=0
        "$TM_SRC/test/release" "$1" --bare bash "/out/$step" >"$step.log" 2>&1 || rc=$?
        ((rc != 77)) || skip_without release "$(grep -a SKIPPED "$step.log")"
        ((rc == 0)) || {
            tail -n 40 "$step.log"
            fail "Debian $1: $step"
        }
    done
    cat use.log
    require 'hello: errors=0' tm
    require 'hello: errors=0' btl
    require 'this host      shm ' tm # the table that pml tm shows of its ways
    forbid "$tm_noise|bad prefix" tm btl
    require "pml_tm_commit:value:$(cat commit)" info
    LC_ALL=C comm -13 before after >left
    [[ ! -s left ]] || fail "after the purge there is still: $(cat left)"
    if command -v lintian >/dev/null; then
        # The names of Open MPI's directories, and a maintainer's address that is none yet.
        lintian --suppress-tags custom-library-search-path,bogus-mail-host --fail-on error \
            openmpi-pml-tm_*.deb || fail "lintian"
    fi
}
