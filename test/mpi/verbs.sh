#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# TEST: timeout=600 device=tmdev short=device
#
# MPI programs with all processes of the host communicating by verbs, over the verbs device in
# software (test/tmdev): as it is, with its faults, and with limits that each bring another path.
# Then a rank is killed.
. "$TM_SRC/test/lib/script.sh"
# shellcheck source-path=SCRIPTDIR source=../lib/verbs.sh
. "$TM_SRC/test/lib/verbs.sh"

export OMPI_MCA_pml_tm_verbs_tm=none

# Seconds of random traffic; programs besides those that TM_TEST_DEVICE=tmdev test/run has.
seconds=$(tm_seconds 5) programs=()
[[ $TM_OMPI_SERIES == 4.1 ]] ||
    seconds=$(tm_seconds 2) programs=(ordering probe cancel persistent comms comm_kinds)

tm_mpirun 2 --mca pml_tm_verbose 10 "$(tm_mpi_program hello)" || fail "hello"
require "tmdev0"
for np in 2 4; do
    over "$np" hello
    over "$np" basic
    over "$np" random "$(tm_seed 21)" "$seconds"
done
over 8 hello
for program in "${programs[@]}"; do
    over 2 "$program"
done
over 4 collectives
over 2 threads all 3 10
over 2 random "$(tm_seed 22)" "$seconds" threads=2
over 3 TMDEV_SEED=1 TMDEV_DELAY_US=200 random "$(tm_seed 23)" "$seconds"
over 3 TMDEV_SEED=2 TMDEV_RNR=100 random "$(tm_seed 24)" "$seconds"
over 2 TMDEV_MAX_INLINE=0 random "$(tm_seed 25)" "$seconds"
over 2 TMDEV_QP_OPS=0 random "$(tm_seed 29)" "$seconds"
over 2 TMDEV_LINK=eth random "$(tm_seed 26)" "$seconds"
over 4 TMDEV_LINK=eth TMDEV_RTR_MS=50 basic
over 3 TMDEV_LINK=eth TMDEV_RTR_MS=50 OMPI_MCA_pml_tm_wait=sleep collectives
over 2 OMPI_MCA_pml_tm_eager_limit=0 random "$(tm_seed 27)" "$seconds"
