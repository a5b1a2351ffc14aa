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

static size_t eager_limit(void)
{
    MPI_T_cvar_handle handle;
    int provided, index, count;
    size_t value = 0;

    TM_MPI(MPI_T_init_thread(MPI_THREAD_SINGLE, &provided));
    TM_MPI(MPI_T_cvar_get_index("btl_fabric_eager_limit", &index));
    TM_MPI(MPI_T_cvar_handle_alloc(index, NULL, &handle, &count));
    TM_MPI(MPI_T_cvar_read(handle, &value));
    TM_MPI(MPI_T_cvar_handle_free(&handle));
    TM_MPI(MPI_T_finalize()); /* before MPI_Finalize: Open MPI 4.1.4 crashes otherwise */
    return value;
}

int main(int argc, char **argv)
{
    size_t value;

    tm_init(&argc, &argv, "btl_limit");
    value = eager_limit();
    TM_CHECK((size_t) tm_arg(argc, argv, 1, 0) == value, "the limit is %zu", value);
    return tm_finish();
}
