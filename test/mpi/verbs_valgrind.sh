#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# TEST: timeout=600 device=tmdev ompi=4.1 needs=valgrind short=memory
#
# As valgrind.sh, with all processes communicating by verbs, over the device in software: matched
# by it and by the CPU.
# shellcheck source-path=SCRIPTDIR source=valgrind.bash
. "$TM_SRC/test/mpi/valgrind.bash"
# shellcheck source-path=SCRIPTDIR source=../lib/verbs.sh
. "$TM_SRC/test/lib/verbs.sh"

# shellcheck disable=SC2031 # over() has one of its own
export TMDEV_FABRIC=$$.$RANDOM
for how in TMDEV_TM_TAGS=4 OMPI_MCA_pml_tm_verbs_tm=none; do
    export "${how?}"
    echo "== $how"
    check basic 2
    check random 2 "$(tm_seed 3)" 10 epochs=4
    check cancel 2
    unset "${how%%=*}"
done
TMDEV_TM_TAGS=1024 check persistent 2
