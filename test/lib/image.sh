# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash
# Images for containers.

# tm_image DIRECTORY: makes a root directory.  With /usr and TM_SRC bound to it, it has the programs
# of this system.
tm_image()
{
    local name
    mkdir -p "$1"/{dev,home,proc,run,sys,tmp,usr} "$1$TM_SRC"
    for name in bin lib lib64 sbin; do
        ln -s "usr/$name" "$1/$name"
    done
    cp -a /etc "$1"
}
