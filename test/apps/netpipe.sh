#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# TEST: timeout=300 quick=no needs=NPopenmpi short=turns
#
# NetPIPE: its integrity check in every way it can exchange messages, and its measurement.  The
# check is of all sizes around the powers of two; over ob1 the same options must lead to the same
# sizes.
: "${TM_SRC:=$(cd "$(dirname "$0")/../.." && pwd)}"
# shellcheck source-path=SCRIPTDIR source=app.bash
. "$TM_SRC/test/apps/app.bash"
app_need NPopenmpi netpipe-openmpi

# It reports on standard error, of which the mpirun of Open MPI 5.0 loses parts of lines.
cat >netpipe <<'END'
#!/bin/sh
exec NPopenmpi "$@" 2>"$TM_WORK/netpipe.err.$OMPI_COMM_WORLD_RANK"
END
chmod +x netpipe
export TM_WORK

# sizes PML OPTION...: prints the sizes for which the integrity check passed.
sizes()
{
    local pml=$1
    shift
    app_over "$pml" 2 "$TM_WORK/netpipe" -i -n 12 "$@" -o "$TM_WORK/np.$pml" >&2
    cat netpipe.err.* >&2
    forbid 'Integrity check failed|[Ee]rror' netpipe.err.*
    sed -nE 's/^ *[0-9]+: +([0-9]+) bytes .*Integrity check passed$/\1/p' netpipe.err.*
}

# check OPTION...
check()
{
    local expected actual
    echo "== integrity: $*"
    expected=$(sizes ob1 "$@")
    actual=$(sizes "$TM_TEST_PML" "$@")
    (($(wc -l <<<"$actual") > 20)) || fail "fewer sizes than expected: $*"
    [[ $actual == "$expected" ]] || fail "not the sizes that are checked over ob1: $*"
}

check -u 4194304
check -u 1048576 -a             # receives posted ahead
check -u 1048576 -z             # MPI_ANY_SOURCE
check -u 1048576 -S             # synchronous sends
check -u 1048576 -s             # one way only
check -u 1048576 -a -2          # both ways at once
check -u 1048576 -a -z -S -2
check -u 1048576 -O 1,3         # buffers at odd addresses

echo "== measurement"
app_over "$TM_TEST_PML" 2 NPopenmpi -u 4194304 -n 12 -o "$TM_WORK/np.out"
awk 'NF != 3 || $1 < last || $2 <= 0 || $3 <= 0 { print "bad line: " $0; bad = 1 } { last = $1 }
    END { if (NR < 100) { print NR " lines"; bad = 1 } exit bad }' "$TM_WORK/np.out" ||
    fail 'the results do not make sense'
