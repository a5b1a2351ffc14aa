/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What tools see by MPI_T: a category with the parameters and counters of pml tm; a parameter that
 * may be changed while the program runs is, and one that may not is refused.
 *
 * TEST: np=2
 */
#include "tm_counter.h"

enum { COUNT = 3000, TAG = 1 };

static void check_category(void)
{
    int num = 0, num_cvars = 0, num_pvars = 0, num_categories = 0;
    bool is_found = false;

    TM_MPI(MPI_T_category_get_num(&num));
    for (int i = 0; i < num && !is_found; i++) {
        char name[256] = "", help[2048] = "";
        int name_len = sizeof(name), help_len = sizeof(help);

        /* those of components that were closed are gone */
        is_found = MPI_SUCCESS == MPI_T_category_get_info(i, name, &name_len, help, &help_len,
                                                          &num_cvars, &num_pvars,
                                                          &num_categories) &&
                   0 == strcmp(name, "ompi_pml_tm");
    }
    TM_CHECK(is_found && num_cvars > 10 && num_pvars > 30, "category: %d variables, %d counters",
             num_cvars, num_pvars);
}

static int scope_of(int index)
{
    char name[256], help[4096];
    int name_len = sizeof(name), help_len = sizeof(help), verbosity, binding, scope = -1;
    MPI_T_enum enums;
    MPI_Datatype type;

    TM_MPI(MPI_T_cvar_get_info(index, name, &name_len, &verbosity, &type, &enums, help, &help_len,
                               &binding, &scope));
    return scope;
}

/* Write a variable; returns the error code. */
static int write_cvar(const char *name, const void *value, int scope)
{
    MPI_T_cvar_handle handle;
    int index, count, rc;

    TM_MPI(MPI_T_cvar_get_index(name, &index));
    TM_CHECK(scope == scope_of(index), "%s: scope %d, not %d", name, scope_of(index), scope);
    TM_MPI(MPI_T_cvar_handle_alloc(index, NULL, &handle, &count));
    rc = MPI_T_cvar_write(handle, value);
    MPI_T_cvar_handle_free(&handle);
    return rc;
}

/* More messages than rank 0 now has memory for, while it waits in another communicator. */
static void flood(MPI_Comm comm)
{
    static MPI_Request req[COUNT];
    static char buf[64];

    if (0 == tm_rank) {
        TM_MPI(MPI_Recv(buf, 8, MPI_BYTE, 1, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        for (int i = 0; i < COUNT; i++) {
            TM_MPI(MPI_Recv(buf, 64, MPI_BYTE, 1, TAG, comm, MPI_STATUS_IGNORE));
        }
    } else if (1 == tm_rank) {
        for (int i = 0; i < COUNT; i++) {
            TM_MPI(MPI_Isend(buf, 64, MPI_BYTE, 0, TAG, comm, &req[i]));
        }
        TM_MPI(MPI_Send(buf, 8, MPI_BYTE, 0, TAG, MPI_COMM_WORLD));
        TM_MPI(MPI_Waitall(COUNT, req, MPI_STATUSES_IGNORE));
    }
}

int main(int argc, char **argv)
{
    const size_t little = 65536;
    const int zero = 0, minute = 60;
    tm_counter_t throttled;
    MPI_Comm comm;

    tm_init(&argc, &argv, "tool");
    if (!tm_is_pml_tm()) {
        return tm_skip("the pml is not tm");
    }
    TM_MPI(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
    throttled = tm_counter_open("pml_tm_throttled");
    check_category();
    flood(comm);
    TM_CHECK(0 == tm_counter_read(&throttled), "throttled before");
    TM_CHECK(MPI_SUCCESS == write_cvar("pml_tm_unexpected_max", &little, MPI_T_SCOPE_LOCAL),
             "unexpected_max");
    TM_CHECK(MPI_SUCCESS == write_cvar("pml_tm_close_timeout", &minute, MPI_T_SCOPE_LOCAL),
             "close_timeout");
    TM_CHECK(MPI_SUCCESS == write_cvar("pml_tm_report_after", &minute, MPI_T_SCOPE_LOCAL),
             "report_after");
    TM_CHECK(MPI_SUCCESS != write_cvar("pml_tm_eager_limit", &zero, MPI_T_SCOPE_READONLY),
             "eager_limit was written");
    TM_MPI(MPI_Barrier(MPI_COMM_WORLD));
    flood(comm);
    TM_CHECK(0 != tm_rank || 0 != tm_counter_read(&throttled), "not throttled after");
    tm_counter_close(&throttled);
    TM_MPI(MPI_Comm_free(&comm));
    return tm_finish();
}
