#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# TEST: timeout=240 quick=no
#
# What a debugger sees of the messages that wait, by pml_dump, and from outside by tm_look: all of
# it is one list. Where gdb is installed, the script gdb.py shows it, of a process and of a core
# (dump.c). gdb.py calls nothing: here gdb may neither call a function in the process nor write its
# registers or memory. gdb before 14 cannot restore the registers of processors with AMX after a
# call.
. "$TM_SRC/test/lib/script.sh"
# shellcheck source=/dev/null
. "$TM_BUILD/test/config.sh"
read -ra flags <<<"$TM_OMPI_CPPFLAGS"
mpicc -std=gnu11 -D_GNU_SOURCE -O2 -mcx16 -Wall -I"$TM_SRC/test/mpi" "${flags[@]}" -o dump \
    "$TM_SRC/test/mpi/dump.c" -lopen-pal || fail 'dump.c does not compile'

# check FILE...: both ranks' lists are in the files.
check()
{
    require '  receive from rank 1, tag 7, up to 800 bytes, pairs: no message fits' "$@"
    require '  receive from any rank, tag 8, up to 3 bytes, pairs: no message fits' "$@"
    require '  message from rank 1, tag 5, 11 bytes, pairs: no receive fits' "$@"
    require '  message from rank 1, tag 6, 12 bytes, pairs: no receive fits' "$@"
    require '  message from rank 1, tag 9, 1048576 bytes, pairs: no receive fits' "$@"
    require '  send to rank 0, tag 6, 12 bytes, pairs: the receiver knows of it, no receive' "$@"
    require '  send to rank 0, tag 9, 1048576 bytes, pairs: the receiver knows of it' "$@"
}

# A process lists what waits when its wait has lasted for a while.
listed="until $TM_PREFIX/bin/tm_look %d | grep '^  .* tag 9,' >/dev/null; do sleep 0.1; done"
tm_mpirun 2 "$TM_WORK/dump" "$listed; $TM_PREFIX/bin/tm_look %d >>$TM_WORK/outside" ||
    fail "exit status $?"
require 'errors=0'
check "$TM_WORK/err"
require 'communicator pairs' "$TM_WORK/err"
require '2 receives posted (at most 2), 3 messages unexpected (at most 3)' "$TM_WORK/err"
check "$TM_WORK/outside"

if ! command -v gdb >/dev/null; then
    echo 'gdb is not installed: its script is not tested'
    exit 0
fi
gdb=$TM_PREFIX/share/pml_tm/gdb.py
[[ -r $gdb ]] || fail "no $gdb"
printf 'set may-%s off\n' call-functions write-registers write-memory >"$TM_WORK/only_read"
gdb="gdb -nx -q -batch -x $TM_WORK/only_read -x $gdb"
tm_mpirun 2 "$TM_WORK/dump" \
    "$listed; $gdb -p %d -ex pml-tm -ex 'generate-core-file $TM_WORK/core.%d' >>$TM_WORK/live 2>&1" ||
    fail "exit status $?: $(cat "$TM_WORK/live")"
check "$TM_WORK/live"
for core in "$TM_WORK"/core.*; do
    $gdb -ex "core-file $core" -ex pml-tm "$TM_WORK/dump" >>"$TM_WORK/dead" 2>&1 ||
        fail "$core: $(cat "$TM_WORK/dead")"
    rm "$core"
done
check "$TM_WORK/dead"
