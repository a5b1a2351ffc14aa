/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Does pml ob1 send by btl fabric? Only where it is named: in a host vader (sm) is before it.
 *
 * args: "yes" or "no": what is expected
 */
/* TEST: np=2 pml=ob1 args="no" stderr="Unable to find reachable pairing" */
/* TEST: np=2 pml=ob1 args="yes" env="OMPI_MCA_btl=fabric" */
#include "tm_test.h"

static MPI_T_pvar_session session;
static MPI_T_pvar_handle handle;

/* The counter counts from here on. */
static void counter_open(const char *name)
{
    int provided, index, count;

    TM_MPI(MPI_T_init_thread(MPI_THREAD_SINGLE, &provided));
    TM_MPI(MPI_T_pvar_get_index(name, MPI_T_PVAR_CLASS_COUNTER, &index));
    TM_MPI(MPI_T_pvar_session_create(&session));
    TM_MPI(MPI_T_pvar_handle_alloc(session, index, NULL, &handle, &count));
}

static unsigned long long counter_close(void)
{
    unsigned long long value = 0;

    TM_MPI(MPI_T_pvar_read(session, handle, &value));
    TM_MPI(MPI_T_pvar_handle_free(session, &handle));
    TM_MPI(MPI_T_pvar_session_free(&session));
    TM_MPI(MPI_T_finalize());
    return value;
}

int main(int argc, char **argv)
{
    static char buf[100000];
    unsigned long long sent;
    bool is_expected;

    tm_init(&argc, &argv, "btl_choice");
    is_expected = argc > 1 && 0 == strcmp(argv[1], "yes");
    counter_open("btl_fabric_sends");
    for (int len = 1; len <= (int) sizeof(buf); len *= 10) {
        TM_MPI(MPI_Sendrecv_replace(buf, len, MPI_BYTE, 1 - tm_rank, 1, 1 - tm_rank, 1,
                                    MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    }
    sent = counter_close();
    TM_CHECK(is_expected == (0 != sent), "btl fabric has sent %llu messages", sent);
    return tm_finish();
}
