/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Is this the value of btl_fabric_eager_limit in all processes?  For hosts/onesided.
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
