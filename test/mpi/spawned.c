/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Processes of a spawned job that are on another host take no memory here until they are sent to.
 * A helper of hosts/dynamic.
 *
 * args: [children] [of them on each host]
 */
#include "tm_counter.h"

enum { TAG = 3 };

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

    TM_MPI(MPI_T_init_thread(MPI_THREAD_SINGLE, &provided)); /* may come before MPI_Init */
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
    const tm_counter_t opened = tm_counter_open("pml_tm_peers_opened");
    TM_MPI(MPI_Comm_spawn(argv[0], MPI_ARGV_NULL, children, MPI_INFO_NULL, 0, MPI_COMM_WORLD,
                          &inter, MPI_ERRCODES_IGNORE));
    /* Open MPI's own messages are between the first ranks */
    const unsigned long long spawned = tm_counter_read(&opened);
    TM_CHECK(0 == tm_rank || spawned <= on_host, "%llu of %d children were opened at once", spawned,
             children);
    exchange(inter);
    TM_CHECK((unsigned long long) children <= tm_counter_read(&opened),
             "%llu of %d children were opened in the end", tm_counter_read(&opened), children);
    TM_MPI(MPI_Comm_disconnect(&inter));
    return tm_finish();
}
