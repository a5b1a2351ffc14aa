#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# TEST: timeout=300 needs=fi_info,libfabric-1.15 quick=no short=ofi
#
# A process that is killed while it communicates by libfabric ends the job: soon, with one message
# that names it, and with nothing left behind.
. "$TM_SRC/test/lib/script.sh"
# shellcheck source-path=SCRIPTDIR source=../lib/ofi.sh
. "$TM_SRC/test/lib/ofi.sh"
# shellcheck source-path=SCRIPTDIR source=kill.bash
. "$TM_SRC/test/mpi/kill.bash"

mapfile -t offers < <(ofi_offers tcp net)
((${#offers[@]} > 0)) || skip "libfabric has none of its providers for TCP here"

# one PROVIDER KIND NP
one()
{
    choice=(--mca pml tm --mca pml_tm_providers ofi --mca pml_tm_ofi_provider "$1")
    kill_one "$2" "$3"
    what="$1: $what"
    if [[ $2 != init ]]; then
        tr -s '\0\n' '  ' <err |
            grep -aqE "process rank $victim .* exited on signal 9|pml tm lost a process" ||
            wrong "$what: the process is not named"
    fi
    (($(grep -ac 'lost a process' err) <= 1)) || wrong "$what: more than one message of pml tm"
    ! grep -qaE 'An error occurred in|Segmentation|Signal: ' err ||
        wrong "$what: messages of other ranks"
}

for provider in "${offers[@]}"; do
    for kind in init finalize eager rndv bulk coll flood; do
        one "$provider" "$kind" 3
    done
done
((failures == 0)) || fail "$failures times"
