#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# TEST: ompi=5.0,6.0 timeout=400
#
# Fault tolerance (mpirun --with-ft ulfm): a rank is killed while the others wait for it in every
# way; the survivors hear of it, revoke, shrink, agree and go on.  By pml tm, and by ob1 over
# btl_fabric.
. "$TM_SRC/test/lib/script.sh"
# shellcheck source-path=SCRIPTDIR source=../lib/ft.sh
. "$TM_SRC/test/lib/ft.sh"

ft_check 4 OMPI_MCA_pml_tm_shm_single_copy=auto recv any probe rndv fetch ssend coll revoke
ft_check 2 OMPI_MCA_pml_tm_shm_single_copy=none recv rndv fetch coll
ft_check 4 OMPI_MCA_pml_tm_shm_single_copy=none matched lost
ft_check 4 OMPI_MCA_pml_tm_providers=tcp recv any probe rndv fetch ssend coll revoke

export OMPI_MCA_btl=fabric,self
TM_TEST_PML=ob1 ft_check 4 OMPI_MCA_pml_tm_providers=shm recv any rndv fetch coll
TM_TEST_PML=ob1 ft_check 4 OMPI_MCA_pml_tm_providers=tcp recv any rndv fetch coll
