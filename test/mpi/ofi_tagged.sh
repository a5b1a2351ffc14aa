#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# TEST: timeout=400 needs=fi_info,libfabric-1.15 short=ofi
#
# MPI programs over libfabric with receives offered to their senders (pml_tm_ofi_tagged), over its
# providers in software and in the moods of test/ofidev.
. "$TM_SRC/test/lib/script.sh"
# shellcheck source-path=SCRIPTDIR source=../lib/ofi.sh
. "$TM_SRC/test/lib/ofi.sh"

mapfile -t offers < <(ofi_offers tcp net)
((${#offers[@]} > 0)) || skip "libfabric has none of its providers for TCP here"
provider=${offers[0]}
export OMPI_MCA_pml_tm_ofi_tagged=always

for other in "$provider" $(ofi_offers 'tcp;ofi_rxm'); do
    over "$other" 2 offered counted
    over "$other" 2 basic
    over "$other" 3 random "$(tm_seed 91)" "$(tm_seconds 5)"
done
over "$provider" 2 ordering
over "$provider" 2 cancel
over "$provider" 2 truncate

"${TM_CC:-cc}" -std=gnu11 -D_GNU_SOURCE -g -O2 -Wall -Wextra -Werror -fPIC -shared \
    -o ofidev.so "$TM_SRC/test/ofidev/ofidev.c" -lfabric -ldl || fail "ofidev does not build"
ofidev=$TM_WORK/ofidev.so
over "$provider" 2 OFIDEV_AGAIN=200 OFIDEV_CONTEXT2=1 offered
over "$provider" 2 OFIDEV_RELEASE=2 OFIDEV_DELAY=20 offered
over "$provider" 2 OFIDEV_RELEASE=2 OFIDEV_DELAY=20 cancel
over "$provider" 3 OFIDEV_RELEASE=2 OFIDEV_DELAY=7 OFIDEV_AGAIN=50 random "$(tm_seed 92)" \
    "$(tm_seconds 5)"
over "$provider" 3 OFIDEV_NO_RMA=1 OFIDEV_DELAY=3 random "$(tm_seed 93)" "$(tm_seconds 5)"
