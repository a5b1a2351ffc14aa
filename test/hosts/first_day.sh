#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# TEST: timeout=400 device=tmdev needs=ip,nsenter,unshare short=device
#
# test/first_day --hosts between two hosts, over the device in software.
. "$TM_SRC/test/lib/script.sh"
# shellcheck source-path=SCRIPTDIR source=hosts.bash
. "$TM_SRC/test/hosts/hosts.bash"
hosts_enter "$@"
hosts_up 2

# Both hosts see the same device; Open MPI's other components have none.
export TMDEV_DIR=$TM_WORK TMDEV_FABRIC=1 OMPI_MCA_btl=self,vader,tcp
# Its pml ucx wants a device that it knows, unless it is told that any will do.
export OMPI_MCA_pml_ucx_tls=any OMPI_MCA_pml_ucx_devices=any
"$TM_SRC/test/first_day" --quick --hosts tmhost1,tmhost2 --prefix "$TM_PREFIX" --out report.txt \
    --mpirun "-x LD_LIBRARY_PATH -x SYSFS_PATH -x TMDEV_DIR -x TMDEV_FABRIC" >said 2>&1 || {
    cat said report.txt
    fail "first_day"
}
cat said report.txt
require 'verbs is used: tmdev0:1' said
