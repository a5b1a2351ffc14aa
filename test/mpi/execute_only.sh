#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# TEST: timeout=60 quick=no
#
# Only root may open files below /proc of a process whose program cannot be read: an ordinary user's
# processes use TCP then.
. "$TM_SRC/test/lib/script.sh"
hello=$(tm_mpi_program hello)
user=65534
as_user=(setpriv "--reuid=$user" "--regid=$user" --clear-groups)

((EUID == 0)) || skip 'only root can become another user'
"${as_user[@]}" test -r "$TM_PREFIX/lib/openmpi/mca_pml_tm.so" ||
    skip "another user cannot read $TM_PREFIX"

# mpirun needs a directory for its session
mkdir home
chmod a+x "$TM_WORK"
cp "$hello" home/hello
chown -R "$user:$user" home
chown root home/hello
chmod 711 home/hello
export HOME=$PWD/home TMPDIR=$PWD/home

tm_mpirun_flags 2
"${as_user[@]}" mpirun "${tm_mpirun_flags[@]}" --mca pml tm --mca pml_tm_verbose 10 \
    "$PWD/home/hello" >out 2>err </dev/null || fail "exit status $?: $(cat out err)"
cat out err
require 'hello: errors=0' out
require 'shm    not used: Other processes may not open' err
