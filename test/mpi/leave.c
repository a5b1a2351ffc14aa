/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A process completes what it has begun before it ends: a child sends more than a ring holds, with
 * requests that it frees, takes a long and a synchronous message of its parent's, so that its
 * answers stand behind what is queued, and finalizes. No barrier holds it: the parent calls nothing
 * of MPI until the child has left MPI, or has had seconds to do so. All messages arrive, and the
 * parent's sends complete.
 *
 * args: unsent, for leave_unsent.sh: the child ends long before the parent calls MPI, by a short
 * pml_tm_close_timeout, and drops its answers; the parent's sends must not complete.
 *
 * taken, for leave_unsent.sh: the child finalizes as soon as it has a long message, which a device
 * may have read and not answered yet.
 */
/* TEST: np=1 env="OMPI_MCA_rmaps_base_oversubscribe=1" timeout=60 upstream="PMIx_(Init|Connect|Disconnect|Fence)" */
/* TEST: np=1 env="OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_MCA_pml_tm_shm_ring_size=4096" timeout=60 upstream="PMIx_(Init|Connect|Disconnect|Fence)" */
/* TEST: np=1 env="OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_MCA_pml_tm_shm_single_copy=none" timeout=60 upstream="PMIx_(Init|Connect|Disconnect|Fence)" */
#include "tm_test.h"

#include <signal.h>

enum { MANY = 5000, BYTES = 300000, LEAVE_MS = 3000, OWES_MS = 30000 };

enum { NUMBER = 1, LONG, SYNCHRONOUS };

static int child(MPI_Comm parent)
{
    unsigned char *buf = tm_alloc(BYTES);
    int numbers[MANY], pid = (int) getpid(), word = -1;
    MPI_Request req;

    TM_MPI(MPI_Send(&pid, 1, MPI_INT, 0, NUMBER, parent));
    TM_MPI(MPI_Recv(&word, 1, MPI_INT, 0, NUMBER, parent, MPI_STATUS_IGNORE));
    for (int i = 0; i < MANY; i++) {
        numbers[i] = i;
        TM_MPI(MPI_Isend(&numbers[i], 1, MPI_INT, 0, NUMBER, parent, &req));
        TM_MPI(MPI_Request_free(&req));
    }
    TM_MPI(MPI_Recv(buf, BYTES, MPI_BYTE, 0, LONG, parent, MPI_STATUS_IGNORE));
    tm_expect_data(buf, BYTES, tm_key(0, 1, LONG, 0), "message of the parent");
    TM_MPI(MPI_Recv(&word, 1, MPI_INT, 0, SYNCHRONOUS, parent, MPI_STATUS_IGNORE));
    tm_free(buf);
    MPI_Finalize();
    return 0 != atomic_load(&tm_errors);
}

/* Both sides of "taken". */
static int take(MPI_Comm other, bool is_parent)
{
    unsigned char *buf = tm_alloc(BYTES);
    MPI_Request req;

    if (is_parent) {
        tm_fill(buf, BYTES, tm_key(0, 1, LONG, 0));
        TM_MPI(MPI_Recv(NULL, 0, MPI_BYTE, 0, NUMBER, other, MPI_STATUS_IGNORE));
        TM_MPI(MPI_Send(buf, BYTES, MPI_BYTE, 0, LONG, other));
        TM_MPI(MPI_Comm_free(&other));
    } else {
        TM_MPI(MPI_Irecv(buf, BYTES, MPI_BYTE, 0, LONG, other, &req));
        TM_MPI(MPI_Send(NULL, 0, MPI_BYTE, 0, NUMBER, other));
        TM_MPI(MPI_Wait(&req, MPI_STATUS_IGNORE));
        tm_expect_data(buf, BYTES, tm_key(0, 1, LONG, 0), "message of the parent");
        MPI_Finalize();
    }
    tm_free(buf);
    return 0 != atomic_load(&tm_errors);
}

/*
 * Without MPI, until the process has ended. One that cannot leave before we look is not waited for.
 */
static void wait_for_end(int pid, int max_ms)
{
    for (int ms = 0; ms < max_ms && 0 == kill(pid, 0); ms += 10) {
        usleep(10000);
    }
}

static void parent(MPI_Comm inter, bool is_owed)
{
    unsigned char *buf = tm_alloc(BYTES);
    MPI_Request req[2];
    int pid = 0, word = 0, got;

    TM_MPI(MPI_Recv(&pid, 1, MPI_INT, 0, NUMBER, inter, MPI_STATUS_IGNORE));
    tm_fill(buf, BYTES, tm_key(0, 1, LONG, 0));
    TM_MPI(MPI_Isend(buf, BYTES, MPI_BYTE, 0, LONG, inter, &req[0]));
    TM_MPI(MPI_Issend(&word, 1, MPI_INT, 0, SYNCHRONOUS, inter, &req[1]));
    TM_MPI(MPI_Send(&word, 1, MPI_INT, 0, NUMBER, inter));
    wait_for_end(pid, is_owed ? OWES_MS : LEAVE_MS);
    for (int i = 0; i < MANY && !is_owed; i++) {
        TM_MPI(MPI_Recv(&got, 1, MPI_INT, 0, NUMBER, inter, MPI_STATUS_IGNORE));
        TM_CHECK(i == got, "number %d instead of %d", got, i);
    }
    TM_MPI(MPI_Waitall(2, req, MPI_STATUSES_IGNORE));
    TM_MPI(MPI_Comm_free(&inter));
    tm_free(buf);
}

int main(int argc, char **argv)
{
    MPI_Comm comm;

    tm_init(&argc, &argv, "leave");
    bool is_taken = argc > 1 && 0 == strcmp(argv[1], "taken");
    TM_MPI(MPI_Comm_get_parent(&comm));
    if (MPI_COMM_NULL != comm) {
        tm_name = "leave (child)";
        return is_taken ? take(comm, false) : child(comm);
    }
    TM_MPI(MPI_Comm_spawn(argv[0], is_taken ? argv + 1 : MPI_ARGV_NULL, 1, MPI_INFO_NULL, 0,
                          MPI_COMM_SELF, &comm, MPI_ERRCODES_IGNORE));
    if (is_taken) {
        (void) take(comm, true);
    } else {
        parent(comm, argc > 1 && 0 == strcmp(argv[1], "unsent"));
    }
    return tm_finish();
}
