#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# TEST: timeout=60 quick=no
#
# Debuggers see pending receives and sends: Open MPI's library for message queues lists those of
# each rank (msgq.c).
. "$TM_SRC/test/lib/script.sh"
# shellcheck source=/dev/null
. "$TM_BUILD/test/config.sh"
library=$TM_OMPI_PKGLIBDIR/libompi_dbg_msgq.so
[[ -r $library ]] || skip "this Open MPI has no $library"
read -ra flags <<<"$TM_OMPI_CPPFLAGS"
mpicc -std=gnu11 -D_GNU_SOURCE -O2 -mcx16 -Wall -I"$TM_SRC/test/mpi" "${flags[@]}" -o msgq \
    "$TM_SRC/test/mpi/msgq.c" -ldl ||
    fail 'msgq.c does not compile'
for np in 1 2 3; do
    tm_mpirun "$np" "$TM_WORK/msgq" "$library" || fail "exit status $?, $np ranks"
    require 'errors=0'
done
