#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# TEST: timeout=60 quick=yes
#
# How quickstart gets packages where dnf has them (RHEL, Fedora), with an rpm and a dnf that only
# write down how they are called: what is missing is installed by one call, nothing is called if
# all is there, and a user who may not install packages gets the command for an administrator.
. "$TM_SRC/test/lib/script.sh"

mkdir bin
for program in cat sh; do
    ln -s "$(command -v $program)" bin/
done
cat >bin/rpm <<'END'
#!/bin/sh
# rpm -q --whatprovides PACKAGE
case " $(cat installed) " in
    *" $3 "*) exit 0 ;;
esac
exit 1
END
cat >bin/dnf <<'END'
#!/bin/sh
echo "dnf $*" >>calls
END
chmod +x bin/rpm bin/dnf

# install PACKAGE...: on such a system.
install()
{
    : >calls
    (
        . "$TM_SRC/test/lib/packages.sh"
        # shellcheck disable=SC2123 # nothing of this system
        PATH=$PWD/bin
        [[ $(tm_package_system) == rpm ]] || fail "this is taken for a system without dnf"
        tm_install_packages "$@"
    )
}

echo "gcc make" >installed
install gcc openmpi-devel make pmix-devel || fail "packages were not installed"
[[ $(cat calls) == "dnf install -q -y openmpi-devel pmix-devel" ]] ||
    fail "dnf was called otherwise: $(cat calls)"

install gcc make || fail "all is there, and it fails"
[[ ! -s calls ]] || fail "all is there, and dnf is called: $(cat calls)"

printf '#!/bin/sh\nexit 1\n' >bin/dnf
if install openmpi-devel 2>err; then
    fail "dnf failed, and nothing is said"
fi
require 'could not be installed: openmpi-devel' err

rm bin/dnf
if (
    . "$TM_SRC/test/lib/packages.sh"
    # shellcheck disable=SC2123
    PATH=$PWD/bin
    tm_install_packages gcc
) 2>err; then
    fail "there is neither dnf nor apt-get, and nothing is said"
fi
require 'neither apt-get nor dnf' err
