#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# TEST: timeout=600 device=tmdev short=device ompi=5.0
#
# Memory of a device is copied by Open MPI's convertor alone, on all paths: device_play.c is a
# component for Open MPI's accelerator framework whose memory nobody else can touch.  build/cuda is
# the same for Open MPI 4.1.
. "$TM_SRC/test/lib/script.sh"
. "$TM_SRC/test/mpi/device.bash"
# shellcheck source=/dev/null
. "$TM_BUILD/test/config.sh"

mkdir components
read -ra flags <<<"$TM_OMPI_CPPFLAGS"
"$TM_CC" -std=gnu11 -D_GNU_SOURCE -O2 -Wall -fPIC -shared "${flags[@]}" \
    -o components/mca_accelerator_play.so "$TM_SRC/test/mpi/device_play.c" ||
    fail "device_play.c does not compile"
export OMPI_MCA_mca_base_component_path=$TM_WORK/components:$OMPI_MCA_mca_base_component_path
export OMPI_MCA_mpi_yield_when_idle=1
program=$(tm_mpi_program device)

check_messages sm
check_onesided onesided
