#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# TEST: timeout=600 device=tmdev short=device
#
# MPI programs with a bound on the connections of a process (verbs_max_connections), over the verbs
# device in software: more processes than that exchange messages all the time, with and without
# matching by the device, and use each other's memory; then with the device's faults.
. "$TM_SRC/test/lib/script.sh"
# shellcheck source-path=SCRIPTDIR source=../lib/verbs.sh
. "$TM_SRC/test/lib/verbs.sh"

export OMPI_MCA_pml_tm_verbs_max_connections=4

over 6 OMPI_MCA_pml_tm_verbs_max_connections=2 counters verbs_evicted
ways=(none always) turn=$(tm_turn 2)
[[ -z $turn ]] || ways=("${ways[turn]}")
for tm in "${ways[@]}"; do
    export OMPI_MCA_pml_tm_verbs_tm=$tm
    over 8 basic 65537
    over 8 ordering 4 300 300000
    over 6 random "$(tm_seed 81)" "$(tm_seconds 8)"
    over 8 random "$(tm_seed 82)" "$(tm_seconds 8)"
    over 6 OMPI_MCA_pml_tm_eager_limit=0 random "$(tm_seed 83)" "$(tm_seconds 4)"
    over 6 TMDEV_SEED=5 TMDEV_DELAY_US=200 TMDEV_RNR=50 random "$(tm_seed 84)" "$(tm_seconds 4)"
    over 6 collectives
    over 6 OMPI_MCA_pml_tm_verbs_max_connections=2 random "$(tm_seed 85)" "$(tm_seconds 4)" \
        threads=2
    over 6 OMPI_MCA_osc=rdma OMPI_MCA_btl=self,fabric onesided 5
done
over 6 TMDEV_TM_TAGS=4 TMDEV_HOLD_US=300 random "$(tm_seed 86)" "$(tm_seconds 5)"
over 6 TMDEV_FIN_US=2000 random "$(tm_seed 87)" "$(tm_seconds 5)"
over 6 TMDEV_TM_RNDV=0 random "$(tm_seed 88)" "$(tm_seconds 4)"
