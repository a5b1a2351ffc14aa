#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# TEST: timeout=900 device=tmdev short=no
#
# Memory of a device with Open MPI 4.1, which knows it by CUDA alone.  TM_OMPI_CUDA names an
# installation of 4.1 that was configured --with-cuda=DIR --with-devel-headers, DIR being
# test/mpi/cuda: no GPU is needed, as test/mpi/device_cuda.c plays CUDA's library.
. "$TM_SRC/test/lib/script.sh"
. "$TM_SRC/test/lib/build.sh"
. "$TM_SRC/test/build/openmpi.bash"
. "$TM_SRC/test/mpi/device.bash"
[[ -n ${TM_OMPI_CUDA-} ]] || skip "TM_OMPI_CUDA names no Open MPI 4.1 that was built with CUDA"

# shellcheck source=/dev/null
. "$TM_BUILD/test/config.sh"
"$TM_OMPI_CUDA/bin/ompi_info" --parsable --all >info
require 'mca:mpi:base:param:mpi_built_with_cuda_support:value:true' info
require 'ompi:version:full:4.1.' info
build_for "$TM_OMPI_CUDA" "$TM_WORK/inst"
use_openmpi "$TM_OMPI_CUDA" "$TM_WORK/inst"
"$TM_CC" -std=gnu11 -D_GNU_SOURCE -O2 -Wall -Wextra -Werror -fPIC -shared -fvisibility=hidden \
    -I"$TM_SRC/test/mpi/cuda" -Wl,-soname,libcuda.so.1 -o libcuda.so.1 \
    "$TM_SRC/test/mpi/device_cuda.c" || fail "device_cuda.c does not compile"
program=$TM_WORK/device
compile_for "$TM_OMPI_CUDA" device basic
export OMPI_MCA_mpi_yield_when_idle=1

# Without CUDA's library there is only memory of the host.
OMPI_MCA_btl=fabric,self OMPI_MCA_opal_warn_on_missing_libcuda=0 tm_mpirun 2 ./basic
require "basic: errors=0"
require_quiet

# Nobody else makes Open MPI look for the library.
export LD_PRELOAD=$TM_WORK/libcuda.so.1 OMPI_MCA_btl=fabric,self
check_messages vader
# osc/rdma of 4.1 itself reads the origin of MPI_Accumulate, and takes any window
check_onesided putget
