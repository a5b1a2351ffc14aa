#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# TEST: timeout=300 quick=no needs=hpcc short=turns
#
# HPC Challenge at a small size on 4 ranks (hpcc.bash).
: "${TM_SRC:=$(cd "$(dirname "$0")/../.." && pwd)}"
# shellcheck source-path=SCRIPTDIR source=app.bash
. "$TM_SRC/test/apps/app.bash"
# shellcheck source-path=SCRIPTDIR source=hpcc.bash
. "$TM_SRC/test/apps/hpcc.bash"
app_need hpcc hpcc

hpcc_input
app_over "$TM_TEST_PML" 4 hpcc
hpcc_check
