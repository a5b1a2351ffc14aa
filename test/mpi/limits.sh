#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# TEST: timeout=60 quick=no
#
# Limits that batch systems set, on the size of files and on the address space, which a segment with
# room for a thousand processes would exceed: it has room for fewer.
. "$TM_SRC/test/lib/script.sh"
hello=$(tm_mpi_program hello)

for limit in '-f 102400' '-v 1048576'; do
    tm_mpirun 2 --mca pml_tm_verbose 10 bash -c "ulimit $limit && exec $hello" ||
        fail "ulimit $limit: exit status $?"
    require 'hello: errors=0'
    require 'this host      shm '
done
