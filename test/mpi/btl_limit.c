/* SPDX-License-Identifier: BSD-3-Clause */
/* TEST: pml=ob1 args=16384 env="OMPI_MCA_btl=fabric,self OMPI_MCA_pml_tm_providers=^verbs" */
/* TEST: pml=ob1 args=65792 env="OMPI_MCA_btl=fabric,self OMPI_MCA_pml_tm_providers=tcp" */
/*
 * Is this the value of btl_fabric_eager_limit in all processes?  It is larger where messages go
 * over a network: on one host without shared memory, and between hosts (hosts/onesided).
 *
 * args: bytes
 */
#include "tm_test.h"

int main(int argc, char **argv)
{
    size_t value;

    tm_init(&argc, &argv, "btl_limit");
    value = tm_cvar_number("btl_fabric_eager_limit");
    TM_CHECK((size_t) tm_arg(argc, argv, 1, 0) == value, "the limit is %zu", value);
    return tm_finish();
}
