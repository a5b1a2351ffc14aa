#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# TEST: timeout=240 device=tmdev short=between
#
# One job that uses all providers at once: two ranks with shared memory between them, a third that
# is reached by verbs, and a fourth without queue pairs, which is reached by TCP.
. "$TM_SRC/test/lib/script.sh"
# shellcheck source-path=SCRIPTDIR source=../lib/verbs.sh
. "$TM_SRC/test/lib/verbs.sh"

cat >by_rank <<'END'
#!/bin/bash
case $OMPI_COMM_WORLD_RANK in
    2) export OMPI_MCA_pml_tm_providers=^shm ;;
    3) export OMPI_MCA_pml_tm_providers=^shm TMDEV_FAIL=qp:1-100000 ;;
esac
exec "$@"
END
chmod +x by_rank
export OMPI_MCA_pml_tm_providers=

# mixed [NAME=VALUE...] PROGRAM [ARGUMENT...]
mixed()
{
    local environment words
    settings "$@"
    echo "== ${environment[*]} ${words[*]}"
    (
        # shellcheck disable=SC2031 # verbs.sh has a subshell of its own
        export TMDEV_FABRIC=$$.$RANDOM ${environment[@]+"${environment[@]}"}
        tm_mpirun 4 ./by_rank "$(tm_mpi_program "${words[0]}")" "${words[@]:1}"
    ) || fail "${words[0]}"
    require "${words[0]}: errors=0"
}

mixed counters shm_msgs_sent verbs_msgs_sent tcp_msgs_sent peers_moved
mixed ordering
mixed collectives
mixed random "$(tm_seed 81)" "$(tm_seconds 4)"
mixed TMDEV_TM_TAGS=4 random "$(tm_seed 82)" "$(tm_seconds 4)"
mixed OMPI_MCA_pml_tm_verbs_tm=none random "$(tm_seed 83)" "$(tm_seconds 4)"
