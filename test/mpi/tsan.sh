#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# TEST: timeout=600 ompi=4.1 short=minutes
#
# pml_tm and the test programs, built with the thread sanitizer, under MPI_THREAD_MULTIPLE. Open
# MPI is not built with it, so the sanitizer does not see what Open MPI does: test/lib/tsan.h
# declares what it orders, and races in Open MPI's inline functions with its own code are not
# reported. Likewise the constructors of requests: a free list that grows hands what one thread
# constructed to another.
. "$TM_SRC/test/mpi/sanitizer.bash"

setarch -R true 2>/dev/null || skip "the randomization of addresses cannot be turned off here"
sanitizer_build thread "$TM_SRC/test/lib/tsan.h"
runtime=$(gcc -print-file-name=libtsan.so)
cat >suppressions <<'END'
race_top:opal_read_counted_pointer
race_top:opal_lifo_
race_top:opal_update_counted_pointer
race_top:opal_atomic_
race_top:opal_thread_
race_top:ompi_request_
race_top:wait_sync_update
race_top:opal_obj_
race:recv_request_construct
race:send_request_construct
END
export TSAN_OPTIONS="ignore_noninstrumented_modules=1 halt_on_error=0 history_size=5 suppressions=$TM_WORK/suppressions"
reports='WARNING: ThreadSanitizer'
launcher=(setarch -R)

check threads 2 : all 4 20
check cancel_send 2 : 10 3
check threads 2 OMPI_MCA_pml_tm_progress_thread=1 : all 4 10
check overlap 2 OMPI_MCA_pml_tm_progress_thread=1 OMPI_MCA_pml_tm_providers=tcp : 300000 sender
check threads 2 OMPI_MCA_pml_tm_shm_single_copy=none : all 4 10
check threads 2 OMPI_MCA_pml_tm_eager_limit=0 : all 4 10

# Over libfabric, where pml_tm was built with it: in a short run over one provider, by turns.
library=$(find "$TM_PREFIX" -name 'libmca_common_tm_ofi-*.so')
if [[ -n $library ]] && command -v fi_info >/dev/null; then
    # shellcheck source-path=SCRIPTDIR source=../lib/ofi.sh
    . "$TM_SRC/test/lib/ofi.sh"
    mapfile -t offers < <(ofi_offers tcp net)
    turn=$(tm_turn 2)
    [[ -z $turn || ${#offers[@]} -lt 2 ]] || offers=("${offers[turn]}")
    for provider in "${offers[@]}"; do
        over_it=(OMPI_MCA_pml_tm_providers=ofi "OMPI_MCA_pml_tm_ofi_provider=$provider")
        check threads 2 "${over_it[@]}" : all 4 10
        check onesided_threads 2 "${over_it[@]}" OMPI_MCA_osc=rdma OMPI_MCA_btl=fabric \
            OMPI_MCA_pml_tm_providers=ofi "OMPI_MCA_pml_tm_ofi_provider=$provider" : 3 10
    done
fi
