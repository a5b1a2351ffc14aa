#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# TEST: timeout=900 short=minutes needs=debootstrap
# The Debian package on Debian 12, with Open MPI 4.1.
. "$TM_SRC/test/build/deb.bash"

package_on bookworm
