#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# TEST: timeout=600 device=tmdev short=device
#
# Processes between which verbs cannot connect communicate by other ports, or by TCP: MPI programs
# over the verbs device in software (test/tmdev), which makes no queue pair in some of them, or has
# ports that do not reach each other, while it matches tags in all.
. "$TM_SRC/test/lib/script.sh"
# shellcheck source-path=SCRIPTDIR source=../lib/verbs.sh
. "$TM_SRC/test/lib/verbs.sh"

export OMPI_MCA_pml_tm_providers=^shm

# moved NP RANKS [NAME=VALUE...] PROGRAM [ARGUMENT...]: with a device that makes no queue pair in
# these ranks (a pattern).
moved()
{
    local ranks=$2 environment words name
    settings "${@:3}"
    name=${words[0]}
    cat >by_rank <<END
#!/bin/bash
case \$OMPI_COMM_WORLD_RANK in
    $ranks) export TMDEV_FAIL=qp:1-100000 ;;
esac
exec "\$@"
END
    chmod +x by_rank
    echo "== $1 ranks, of which $ranks have no queue pairs, ${environment[*]} ${words[*]}"
    (
        # shellcheck disable=SC2030,SC2031 # each has a subshell of its own
        export TMDEV_FABRIC=$$.$RANDOM ${environment[@]+"${environment[@]}"}
        tm_mpirun "$1" --mca pml_tm_verbose 1 ./by_rank "$(tm_mpi_program "$name")" "${words[@]:1}"
    ) || fail "$name"
    require "$name: errors=0"
    require "is reached by tcp, not by verbs"
}

# by_other_ports NP [NAME=VALUE...] PROGRAM [ARGUMENT...]: by verbs, but not by the first ports.
by_other_ports()
{
    local environment words name
    settings "${@:2}"
    name=${words[0]}
    echo "== $1 ranks by other ports, ${environment[*]} ${words[*]}"
    (
        # shellcheck disable=SC2030,SC2031 # each has a subshell of its own
        export TMDEV_FABRIC=$$.$RANDOM ${environment[@]+"${environment[@]}"}
        tm_mpirun "$1" --mca pml_tm_verbose 1 "$(tm_mpi_program "$name")" "${words[@]:1}"
    ) || fail "$name"
    require "$name: errors=0"
    require "is tried by tmdev"
    forbid "is reached by tcp"
}

moved 2 1 hello
require "cannot make a queue pair" # where it was found out; the other side says which was first
grep -aqE 'The other process could not connect|It refused the connection' "$TM_WORK"/{out,err} ||
    fail "the other process does not say why"
for ranks in 0 1 '*'; do
    moved 2 "$ranks" counters peers_moved tcp_msgs_sent
    moved 2 "$ranks" basic
    moved 2 "$ranks" ordering
    moved 3 "$ranks" TMDEV_TM_TAGS=4 random "$(tm_seed 71)" "$(tm_seconds 3)"
    moved 4 "$ranks" collectives
done
moved 3 1 TMDEV_TM_TAGS=1024 TMDEV_HOLD_US=300 random "$(tm_seed 72)" "$(tm_seconds 3)"
moved 3 1 OMPI_MCA_pml_tm_verbs_tm=none random "$(tm_seed 73)" "$(tm_seconds 3)"
moved 3 1 PML_TM_TEST_tcp_eager=304 random "$(tm_seed 74)" "$(tm_seconds 3)"
moved 2 1 random "$(tm_seed 75)" "$(tm_seconds 2)" threads=2
moved 2 1 OMPI_MCA_btl=self,fabric onesided

# Two networks, between which no packet passes: none (a pattern that no rank has) lacks queue pairs.
planes=(TMDEV_DEVICES=2 "TMDEV_PLANES=1,2" OMPI_MCA_pml_tm_verbs_timeout=8)
by_other_ports 2 "${planes[@]}" hello
require "here and its port (transport retry counter exceeded)" # of whichever side asked first
by_other_ports 3 "${planes[@]}" basic
by_other_ports 2 "${planes[@]}" counters verbs_other_ports rma_bytes
by_other_ports 4 "${planes[@]}" random "$(tm_seed 77)" "$(tm_seconds 3)"
by_other_ports 3 "${planes[@]}" OMPI_MCA_btl=self,fabric onesided
planes+=(PML_TM_TEST_verbs_ports=1)
moved 2 none "${planes[@]}" hello
require "here and its port (transport retry counter exceeded)"
moved 4 none "${planes[@]}" basic
moved 4 none "${planes[@]}" random "$(tm_seed 76)" "$(tm_seconds 3)"
moved 2 none "${planes[@]}" OMPI_MCA_btl=self,fabric onesided

# A port fails in the middle of messages and READs of the one pair that there is (a pair that was
# not connected yet would rightly try the other port): the job ends, and says why.
: >"$TM_WORK/out"
head -c 256 /dev/zero >cuts
{
    for _ in {1..600}; do
        ! grep -qs seed "$TM_WORK/out" || break # it has begun
        sleep 0.1
    done
    sleep 1
    printf '\1' | dd of=cuts bs=1 seek=1 conv=notrunc status=none
} &
(
    # shellcheck disable=SC2030,SC2031 # each has a subshell of its own
    export TMDEV_FABRIC=$$.$RANDOM TMDEV_DEVICES=2 "TMDEV_CUT=$PWD/cuts"
    ! tm_mpirun 2 --mca pml_tm_verbose 1 --mca pml_tm_verbs_timeout 8 --mca pml_tm_verbs_tm none \
        "$(tm_mpi_program random)" "$(tm_seed 78)" 60
) || fail "random does not end"
wait
# the port that failed is tmdev0:1 of one side; each side names its own, and either may be first
grep -aqE 'It does not answer any more \(tmdev[01]:1: ' "$TM_WORK"/{out,err} ||
    fail "the job does not say why it ends"
forbid "is tried by|is reached by tcp"

# One of several ports that read long messages fails in the middle of them: by LID 3 of both.
: >"$TM_WORK/out"
head -c 256 /dev/zero >cuts
{
    for _ in {1..600}; do
        ! grep -qs 'come by several ports' "$TM_WORK/out" || break
        sleep 0.1
    done
    printf '\1' | dd of=cuts bs=1 seek=3 conv=notrunc status=none
} &
(
    # shellcheck disable=SC2031 # each has a subshell of its own
    export TMDEV_FABRIC=$$.$RANDOM TMDEV_DEVICES=3 TMDEV_CUT=$PWD/cuts
    tm_mpirun 2 --mca pml_tm_verbose 1 --mca pml_tm_verbs_timeout 8 --mca pml_tm_verbs_tm none \
        "$(tm_mpi_program rails)" fails
) || fail "rails"
wait
require "rails: errors=0"
require "read no more shares of long messages"
forbid "is tried by"
