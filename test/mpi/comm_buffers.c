/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Buffers for buffered sends that belong to a communicator or a session (MPI 4.1), and
 * MPI_BUFFER_AUTOMATIC: a send takes room in the buffer of its communicator, else in that of its
 * session, else in that of the process, and gives it back there; flushing waits for it.
 */
/* TEST: np=1,2,4 ompi=6.0 timeout=60 stderr="Unable to find reachable pairing" */
#include "tm_test.h"

enum { ROOM = 4, TAG = 4 };

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
        tm_fill(out, n, tm_key(tm_rank, tm_dst, TAG, sent));
        rc = MPI_Bsend(out, tm_int(n), MPI_BYTE, tm_dst, TAG, comm);
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
        tm_recv(in, n, tm_src, TAG, comm, tm_key(tm_src, tm_rank, TAG, i), "buffered message");
    }
    tm_free(in);
}

/* What every rank has sent, its neighbour takes; all is sent when the buffer is given up. */
static void exchange(MPI_Comm comm, size_t n, int sent)
{
    take(comm, n, tm_exchange(sent, tm_dst, tm_src, TAG + 1, comm));
    TM_MPI(MPI_Barrier(comm));
}

/* ROOM messages fit, in the buffer that is named.  The number sent. */
static int expect_room(MPI_Comm comm, size_t n, const char *buffer)
{
    int sent = fill_up(comm, n, ROOM);

    TM_CHECK(ROOM == sent, "%d messages of %zu bytes fit %s, expected %d", sent, n, buffer, ROOM);
    return sent;
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

    TM_MPI(MPI_Buffer_attach(global, tm_int(size)));
    TM_MPI(MPI_Comm_attach_buffer(comm, mine, tm_int(size)));
    expect_room(comm, n, "the communicator's buffer");
    if (n > 100000) {
        TM_CHECK(0 == fill_up(comm, n, 1),
                 "more fits the communicator's buffer: the process's is used");
    }
    expect_room(other, n, "the process's buffer");
    exchange(comm, n, ROOM);
    exchange(other, n, ROOM);
    TM_MPI(MPI_Comm_flush_buffer(comm));
    TM_MPI(MPI_Buffer_flush());
    exchange(comm, n, expect_room(comm, n, "the communicator's buffer after a flush"));
    TM_CHECK(mine == detach_comm(comm), "another buffer was detached");
    memset(mine, 0x66, size);
    exchange(comm, n, expect_room(comm, n, "the process's buffer instead"));
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
    exchange(comm, n, expect_room(comm, n, "an automatic buffer"));
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
    int got = 0;

    TM_MPI(MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &session));
    TM_MPI(MPI_Group_from_session_pset(session, "mpi://WORLD", &group));
    TM_MPI(
        MPI_Comm_create_from_group(group, "comm_buffers", MPI_INFO_NULL, MPI_ERRORS_RETURN, &comm));
    TM_MPI(MPI_Group_free(&group));
    TM_MPI(MPI_Session_attach_buffer(session, mine, tm_int(size)));
    exchange(comm, n, expect_room(comm, n, "the session's buffer"));
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
