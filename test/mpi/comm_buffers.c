/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Buffers for buffered sends that belong to a communicator or a session (MPI 4.1), and
 * MPI_BUFFER_AUTOMATIC: a send takes room in the buffer of its communicator, else in that of its
 * session, else in that of the process, and gives it back there; flushing waits for it.
 */
/* TEST: np=1,2,4 ompi=6.0 timeout=60 stderr="Unable to find reachable pairing" */
#include "tm_test.h"

#if OMPI_MAJOR_VERSION >= 6

enum { ROOM = 4, TAG = 4 };

static int dst, src;

static size_t size_for(size_t n)
{
    return ROOM * (n + MPI_BSEND_OVERHEAD + 64);
}

/* Send until it does not fit, at most `max`.  The number sent. */
static int fill_up(MPI_Comm comm, size_t n, int max)
{
    unsigned char *out = tm_alloc(n);
    int sent = 0, rc = MPI_SUCCESS;

    while (sent < max) {
        tm_fill(out, n, tm_key(tm_rank, dst, TAG, sent));
        rc = MPI_Bsend(out, tm_int(n), MPI_BYTE, dst, TAG, comm);
        memset(out, 0x55, n);
        if (MPI_SUCCESS != rc) {
            TM_CHECK(MPI_ERR_BUFFER == tm_class(rc), "MPI_Bsend: error class %d", tm_class(rc));
            break;
        }
        sent++;
    }
    tm_free(out);
    return sent;
}

static void take(MPI_Comm comm, size_t n, int count)
{
    unsigned char *in = tm_alloc(n);

    for (int i = 0; i < count; i++) {
        MPI_Status st;
        tm_status_reset(&st);
        TM_MPI(MPI_Recv(in, tm_int(n), MPI_BYTE, src, TAG, comm, &st));
        tm_expect_single(&st, src, TAG, n);
        tm_expect_data(in, n, tm_key(src, tm_rank, TAG, i), "buffered message");
    }
    tm_free(in);
}

/* What every rank has sent, its neighbour takes; all is sent when the buffer is given up. */
static void exchange(MPI_Comm comm, size_t n, int sent)
{
    MPI_Request req;
    int theirs = 0;

    TM_MPI(MPI_Irecv(&theirs, 1, MPI_INT, src, TAG + 1, comm, &req));
    TM_MPI(MPI_Send(&sent, 1, MPI_INT, dst, TAG + 1, comm));
    TM_MPI(MPI_Wait(&req, MPI_STATUS_IGNORE));
    take(comm, n, theirs);
    TM_MPI(MPI_Barrier(comm));
}

static void *detach_comm(MPI_Comm comm)
{
    void *buf = NULL;
    int size = 0;

    TM_MPI(MPI_Comm_detach_buffer(comm, &buf, &size));
    return buf;
}

/* A message longer than the eager limit stays with its sender: so few fit, and no more. */
static void of_communicator(MPI_Comm comm, MPI_Comm other, size_t n)
{
    size_t size = size_for(n);
    char *mine = tm_alloc(size), *global = tm_alloc(size);
    int sent;

    TM_MPI(MPI_Buffer_attach(global, tm_int(size)));
    TM_MPI(MPI_Comm_attach_buffer(comm, mine, tm_int(size)));
    sent = fill_up(comm, n, ROOM);
    TM_CHECK(ROOM == sent, "%d messages of %zu bytes fit the communicator's buffer, expected %d",
             sent, n, ROOM);
    if (n > 100000) {
        sent = fill_up(comm, n, 1);
        TM_CHECK(0 == sent, "more fits the communicator's buffer: the process's is used");
    }
    sent = fill_up(other, n, ROOM);
    TM_CHECK(ROOM == sent, "%d messages of %zu bytes fit the process's buffer, expected %d", sent,
             n, ROOM);
    exchange(comm, n, ROOM);
    exchange(other, n, ROOM);
    TM_MPI(MPI_Comm_flush_buffer(comm));
    TM_MPI(MPI_Buffer_flush());
    sent = fill_up(comm, n, ROOM);
    TM_CHECK(ROOM == sent, "%d messages of %zu bytes fit after a flush, expected %d", sent, n,
             ROOM);
    exchange(comm, n, sent);
    TM_CHECK(mine == detach_comm(comm), "another buffer was detached");
    memset(mine, 0x66, size);
    sent = fill_up(comm, n, ROOM);
    TM_CHECK(ROOM == sent, "%d messages of %zu bytes fit the process's buffer, expected %d", sent,
             n, ROOM);
    exchange(comm, n, sent);
    TM_MPI(MPI_Buffer_detach(&global, &(int){0}));
    tm_free(mine);
    tm_free(global);
}

/* There is always room. */
static void automatic(MPI_Comm comm, size_t n)
{
    void *buf;

    TM_MPI(MPI_Comm_attach_buffer(comm, MPI_BUFFER_AUTOMATIC, 0));
    exchange(comm, n, fill_up(comm, n, 10 * ROOM));
    TM_MPI(MPI_Comm_flush_buffer(comm));
    buf = detach_comm(comm);
    TM_CHECK(MPI_BUFFER_AUTOMATIC == buf, "MPI_Comm_detach_buffer gave %p", buf);
}

/* The communicator is freed while its messages are in the buffer. */
static void freed(MPI_Comm parent, size_t n)
{
    MPI_Comm comm;

    TM_MPI(MPI_Comm_dup(parent, &comm));
    TM_MPI(MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN));
    TM_MPI(MPI_Comm_attach_buffer(comm, MPI_BUFFER_AUTOMATIC, 0));
    TM_CHECK(ROOM == fill_up(comm, n, ROOM), "MPI_Bsend into an automatic buffer");
    exchange(comm, n, ROOM);
    (void) detach_comm(comm);
    TM_MPI(MPI_Comm_free(&comm));
    TM_MPI(MPI_Barrier(parent));
}

static void of_session(size_t n)
{
    size_t size = size_for(n);
    char *mine = tm_alloc(size);
    void *buf = NULL;
    MPI_Session session;
    MPI_Group group;
    MPI_Comm comm;
    int sent, got = 0;

    TM_MPI(MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &session));
    TM_MPI(MPI_Group_from_session_pset(session, "mpi://WORLD", &group));
    TM_MPI(
        MPI_Comm_create_from_group(group, "comm_buffers", MPI_INFO_NULL, MPI_ERRORS_RETURN, &comm));
    TM_MPI(MPI_Group_free(&group));
    TM_MPI(MPI_Session_attach_buffer(session, mine, tm_int(size)));
    sent = fill_up(comm, n, ROOM);
    TM_CHECK(ROOM == sent, "%d messages of %zu bytes fit the session's buffer, expected %d", sent,
             n, ROOM);
    exchange(comm, n, sent);
    TM_MPI(MPI_Session_flush_buffer(session));
    TM_MPI(MPI_Session_detach_buffer(session, &buf, &got));
    TM_CHECK(mine == buf && (int) size == got, "another buffer was detached");
    TM_MPI(MPI_Comm_free(&comm));
    TM_MPI(MPI_Session_finalize(&session));
    tm_free(mine);
}

int main(int argc, char **argv)
{
    static const size_t sizes[] = {1, 100, 5000, 300000};
    MPI_Comm comm, other;

    tm_init(&argc, &argv, "comm_buffers");
    dst = (tm_rank + 1) % tm_size;
    src = (tm_rank + tm_size - 1) % tm_size;
    TM_MPI(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
    TM_MPI(MPI_Comm_dup(MPI_COMM_WORLD, &other));
    TM_MPI(MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN));
    TM_MPI(MPI_Comm_set_errhandler(other, MPI_ERRORS_RETURN));
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        of_communicator(comm, other, sizes[i]);
        automatic(comm, sizes[i]);
        freed(comm, sizes[i]);
        of_session(sizes[i]);
    }
    TM_MPI(MPI_Comm_free(&comm));
    TM_MPI(MPI_Comm_free(&other));
    return tm_finish();
}

#else

int main(int argc, char **argv)
{
    tm_init(&argc, &argv, "comm_buffers");
    return tm_skip("this is for Open MPI 6.0");
}

#endif
