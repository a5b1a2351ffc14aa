#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# TEST: timeout=900 short=minutes needs=debootstrap
# The Debian package on Debian 13, with Open MPI 5.0.
. "$TM_SRC/test/build/deb.bash"

package_on trixie
