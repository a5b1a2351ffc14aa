#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# TEST: timeout=300 device=tmdev short=failures
#
# Reports of jobs that hang (hang.c) over the verbs device in software, without and with matching by
# the device: a circle, and a message with another tag.
. "$TM_SRC/test/lib/script.sh"
# shellcheck source-path=SCRIPTDIR source=../lib/verbs.sh
. "$TM_SRC/test/lib/verbs.sh"
hang=$(tm_mpi_program hang)
export OMPI_MCA_pml_tm_report_after=1 TM_HANG_SECONDS=20

# hangs CASE TEXT...: its reports, until a signal ends it, have all of these texts.
hangs()
{
    local text
    TMDEV_FABRIC=$$.$RANDOM tm_mpirun 2 "$hang" "$1" && fail "$1 has ended by itself"
    for text in "${@:2}"; do
        require "$text"
    done
}

for tags in none always; do
    export OMPI_MCA_pml_tm_verbs_tm=$tags
    [[ $tags == none ]] || export TMDEV_TM_TAGS=4
    hangs cycle '2 ranks wait for each other; rank 0 has waited' \
        'MPI_Send to rank 1, tag 7, 1048576 bytes, MPI_COMM_WORLD: the receiver knows of it' \
        'MPI_Send to rank 0, tag 7, 1048576 bytes, MPI_COMM_WORLD: the receiver knows of it'
    hangs wrong_tag 'MPI_Recv from rank 1, tag 12, up to 1048576 bytes' \
        'nearly: from rank 1, tag 11, 800 bytes, MPI_COMM_WORLD: another tag'
done
