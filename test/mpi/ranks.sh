#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# TEST: timeout=900 short=no cores=64
#
# Many ranks on one host: 16 and 64, for which rings have other sizes, in programs where all send to
# all; and the start and end of 128.
. "$TM_SRC/test/lib/script.sh"

# right NP PROGRAM [ARGUMENT...]
right()
{
    local np=$1 name=$2
    shift 2
    echo "== $np ranks: $name $*"
    tm_mpirun "$np" "$(tm_mpi_program "$name")" "$@" || fail "$name with $np ranks"
    require "$name: errors=0"
    require_quiet
}

right 16 basic 65537
right 16 collectives 3000
right 16 ordering 4 100 30000
right 16 storm storm 5 10 70000
right 16 storm incast 4 100 20000
right 64 hello
right 64 basic 20000
right 64 collectives 300
right 64 storm incast 2 20 20000
right 128 hello
