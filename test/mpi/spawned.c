/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Processes of a spawned job that are on another host take no memory here until they are sent to.
 * A helper of hosts/dynamic.
 *
 * args: [children] [of them on each host]
 */
#include "tm_test.h"

enum { TAG = 3 };

static MPI_T_pvar_session session;

/* The counter pml_tm_peers_opened. */
static unsigned long long opened(void)
{
    static MPI_T_pvar_handle handle;
    unsigned long long value = 0;
    int index, count;

    if (NULL == handle &&
        (MPI_SUCCESS !=
             MPI_T_pvar_get_index("pml_tm_peers_opened", MPI_T_PVAR_CLASS_COUNTER, &index) ||
         MPI_SUCCESS != MPI_T_pvar_handle_alloc(session, index, NULL, &handle, &count))) {
        TM_ERROR("there is no performance variable pml_tm_peers_opened");
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    MPI_T_pvar_read(session, handle, &value);
    return value;
}

/* One message between each process and each of the other group. */
static void exchange(MPI_Comm inter)
{
    int num, rank;

    TM_MPI(MPI_Comm_remote_size(inter, &num));
    for (int i = 0; i < num; i++) {
        TM_MPI(MPI_Sendrecv(&i, 1, MPI_INT, i, TAG, &rank, 1, MPI_INT, i, TAG, inter,
                            MPI_STATUS_IGNORE));
    }
}

int main(int argc, char **argv)
{
    MPI_Comm parent, inter;
    int provided;

    MPI_T_init_thread(MPI_THREAD_SINGLE, &provided);
    MPI_T_pvar_session_create(&session);
    tm_init(&argc, &argv, "spawned");
    TM_MPI(MPI_Comm_get_parent(&parent));
    if (MPI_COMM_NULL != parent) {
        exchange(parent);
        TM_MPI(MPI_Comm_disconnect(&parent));
        MPI_Finalize();
        return 0;
    }
    const int children = (int) tm_arg(argc, argv, 1, 4);
    const unsigned long long on_host = (unsigned long long) tm_arg(argc, argv, 2, 2);
    TM_MPI(MPI_Barrier(MPI_COMM_WORLD)); /* the parents have met */
    const unsigned long long before = opened();
    TM_MPI(MPI_Comm_spawn(argv[0], MPI_ARGV_NULL, children, MPI_INFO_NULL, 0, MPI_COMM_WORLD,
                          &inter, MPI_ERRCODES_IGNORE));
    /* Open MPI's own messages are between the first ranks */
    const unsigned long long spawned = opened() - before;
    TM_CHECK(0 == tm_rank || spawned <= on_host, "%llu of %d children were opened at once", spawned,
             children);
    exchange(inter);
    TM_CHECK((unsigned long long) children <= opened() - before,
             "%llu of %d children were opened in the end", opened() - before, children);
    TM_MPI(MPI_Comm_disconnect(&inter));
    MPI_T_pvar_session_free(&session);
    return tm_finish();
}
