#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Make configure.  Needed once in a checkout; a release archive has it.
set -eu
cd "$(dirname "$0")"

missing=
for pair in autoconf:autoconf automake:automake libtoolize:libtool m4:m4; do
    command -v "${pair%%:*}" >/dev/null 2>&1 || missing="$missing ${pair##*:}"
done
if [ -n "$missing" ]; then
    echo "autogen.sh: these packages are needed to make configure:$missing" >&2
    exit 1
fi
mkdir -p m4
exec autoreconf --force --install
