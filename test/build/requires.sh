#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# TEST: timeout=60 quick=yes needs=dpkg-source
#
# Which releases of Open MPI the packages depend on: those that have the structures of the one that
# they are built for (doc/versions.md).  Open MPI's version is made up, the rest of it is installed.
. "$TM_SRC/test/lib/script.sh"

command -v rpmspec >/dev/null || skip "rpmspec is not installed (package rpm)"
mkdir bin
real=$(command -v ompi_info)
libdir=$(ompi_info --path libdir --parsable | cut -d : -f 3)
library=$(dpkg -S "$(readlink -f "$libdir/libmpi.so")" 2>/dev/null | cut -d : -f 1) ||
    skip "this Open MPI is of no package"
# shellcheck disable=SC2031 # the libraries' subshells keep their settings to themselves
export PATH=$PWD/bin:$PATH

# installed VERSION: the ompi_info in PATH is of that version.
installed()
{
    cat >bin/ompi_info <<END
#!/bin/sh
"$real" "\$@" | sed 's/^\(Open MPI v\|ompi:version:full:\).*/\1$1/'
END
    chmod +x bin/ompi_info
}

# required: what of Open MPI the spec requires.
required()
{
    rpmspec -q --requires "$TM_SRC/packaging/pml-tm.spec" | grep ^openmpi | LC_ALL=C sort |
        paste -sd ,
}

# expect VERSION AT-LEAST BELOW: packages built for that version.
expect()
{
    installed "$1"
    make -n -f "$TM_SRC/debian/rules" override_dh_gencontrol >deb
    require "openmpi-bin, $library (>= $2~), $library (<< $3~)" deb
    [[ $(required) == "openmpi < $3~,openmpi >= $2~" ]] ||
        fail "the RPM for $1 requires $(required)"
}
expect 4.1.0 4.1.0 4.1.99
expect 5.0.6 5.0.6 5.0.7
expect 5.0.7 5.0.7 5.0.99
expect 6.0.0rc1 6.0.0 6.0.99
dpkg --compare-versions 6.0.0~rc1 ge 6.0.0~ || fail "a release candidate would not do"

# RHEL's package of Open MPI has an epoch, without which no release of it would do.
printf '#!/bin/sh\necho 1:\n' >bin/rpm
chmod +x bin/rpm
installed 4.1.1
[[ $(required) == 'openmpi < 1:4.1.99~,openmpi >= 1:4.1.1~' ]] ||
    fail "with an epoch the RPM requires $(required)"
rm bin/rpm

# Where the spec is only read, as for its build dependencies, there may be no Open MPI yet.
printf '#!/bin/sh\nexit 1\n' >bin/ompi_info
[[ $(required) == "openmpi >= 4.1" ]] || fail "without Open MPI the spec requires $(required)"
