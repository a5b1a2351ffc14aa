#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# TEST: ompi=5.0,6.0 timeout=300 device=tmdev
#
# Fault tolerance as in ft.sh, with receives on the list of a device that matches tags; and one that
# says nothing of what it had begun to receive when a connection breaks.
. "$TM_SRC/test/lib/script.sh"
# shellcheck source-path=SCRIPTDIR source=../lib/verbs.sh
. "$TM_SRC/test/lib/verbs.sh"
# shellcheck source-path=SCRIPTDIR source=../lib/ft.sh
. "$TM_SRC/test/lib/ft.sh"

ft_check 4 TMDEV_TM_TAGS=1024 recv any probe rndv fetch ssend coll revoke
ft_check 3 TMDEV_TM_TAGS=4 recv any rndv fetch coll revoke
ft_check 3 TMDEV_TM_SILENT=1 fetch any
ft_check 3 TMDEV_MTU=256 recv fetch coll
