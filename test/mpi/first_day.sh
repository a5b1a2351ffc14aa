#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# TEST: timeout=400 device=tmdev short=device
#
# test/first_day over a device in software: what it says of one that works, and of those that do
# not; its file has all that doc/first-day.md names.
. "$TM_SRC/test/lib/script.sh"

# what else in Open MPI would use an RDMA device is not what is tested
export OMPI_MCA_mtl=^ofi OMPI_MCA_btl=^openib,ofi OMPI_MCA_mpi_yield_when_idle=1

# says PATTERN FILE: an extended regular expression
says()
{
    grep -aqE -- "$1" "$2" || fail "$2 does not say: $1"
}

# day STATUS [NAME=VALUE...]: run it with these settings; its status must be this one.
day()
{
    local wanted=$1 rc=0
    shift
    echo "== $*"
    env TMDEV_FABRIC=$$.$RANDOM "$@" "$TM_SRC/test/first_day" --quick --prefix "$TM_PREFIX" \
        --out report.txt >said 2>&1 || rc=$?
    cat said
    ((rc == wanted)) || fail "status $rc, not $wanted"
    for part in '==== facts' '==== tm providers=^shm' 'microseconds, one way' 'MB/s'; do
        grep -qF -- "$part" report.txt || fail "the report has no '$part'"
    done
    says '^ok +messages 0 of [0-9]+ wrong' said
}

day 0
says '^ok +verbs is used: tmdev0:1 \(InfiniBand, matches tags\)' said
says '^ok +the device matches tags, and its self-test passed; it matched [1-9][0-9]* messages' said
says '^4194304 +[0-9.]+ +[0-9.]+ +[0-9.]+' report.txt
says 'counter 0 pml_tm_verbs_msgs_sent [1-9]' report.txt

day 0 TMDEV_TM_BROKEN=del
says '^note +tmdev0:1 matches no tags: its self-test failed: a receive that was taken off' said

day 0 TMDEV_TM_BROKEN=fin
says '^note +tmdev0:1 does no rendezvous by itself: its self-test failed: a rendezvous' said

day 1 TMDEV_DEVICES=2 TMDEV_PLANES=1,2 OMPI_MCA_pml_tm_verbs_timeout=8 \
    PML_TM_TEST_verbs_ports=1
says '^BAD +verbs was chosen, and not used: .*No packet passes between tmdev0:1' said
says '^note +counter verbs_no_path is [1-9]' said

day 1 TMDEV_DEVICES=0
says '^BAD +verbs is not used: The kernel has an RDMA device, but its file' said

day 1 TMDEV_LINK=eth OMPI_MCA_pml_tm_verbs_networks=10.0.0.0/8
says "^BAD +verbs is not used: .*none of the port's addresses is in " said
