/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Events of MPI_T (Open MPI 6.0): a tool hears of messages that come before their receive, and of
 * those that are longer, with their communicator, length, source and tag; after its registration is
 * gone it hears nothing.  With "moved", of processes that another network than the first reaches
 * (move.sh), with "failed", of one that dies (ft.sh).
 *
 * args: [threads|moved|failed]
 */
/* TEST: np=2 ompi=6.0 timeout=60 */
/* TEST: np=2 ompi=6.0 args="threads" timeout=60 */
#include <signal.h>

#include "tm_test.h"

#if OMPI_MAJOR_VERSION >= 6

enum { TAG = 11, LATER = 12 };

/* What a callback was told last, and how often it was called. */
typedef struct heard {
    uint64_t comm, len;
    int32_t source;
    atomic_int times;
} heard_t;

static MPI_T_cb_safety safety = MPI_T_CB_REQUIRE_MPI_RESTRICTED;

static void on_message(MPI_T_event_instance event, MPI_T_event_registration registration,
                       MPI_T_cb_safety level, void *data)
{
    heard_t *heard = data;
    int32_t tag;

    (void) registration, (void) level;
    if (MPI_SUCCESS == MPI_T_event_read(event, 3, &tag) && TAG == tag &&
        MPI_SUCCESS == MPI_T_event_read(event, 0, &heard->comm) &&
        MPI_SUCCESS == MPI_T_event_read(event, 1, &heard->len) &&
        MPI_SUCCESS == MPI_T_event_read(event, 2, &heard->source)) {
        heard->times++;
    }
}

static void on_process(MPI_T_event_instance event, MPI_T_event_registration registration,
                       MPI_T_cb_safety level, void *data)
{
    heard_t *heard = data;
    uint32_t rank = 0;

    (void) registration, (void) level;
    if (MPI_SUCCESS == MPI_T_event_read(event, 1, &rank)) {
        heard->source = (int32_t) rank;
        heard->times++;
    }
}

static MPI_T_event_registration listen_to(const char *name, MPI_T_cb_safety level,
                                          MPI_T_event_cb_function callback, heard_t *heard)
{
    MPI_T_event_registration registration;
    int index;

    if (MPI_SUCCESS != MPI_T_event_get_index(name, &index)) {
        TM_FATAL("there is no event %s", name);
    }
    TM_MPI(MPI_T_event_handle_alloc(index, NULL, MPI_INFO_NULL, &registration));
    TM_MPI(MPI_T_event_register_callback(registration, level, MPI_INFO_NULL, heard, callback));
    return registration;
}

/* Two messages; the first is received after the second. */
static void send_two(MPI_Comm comm, size_t n)
{
    char *data = tm_calloc(1, n);
    MPI_Request req;

    TM_MPI(MPI_Isend(data, tm_int(n), MPI_CHAR, 1, TAG, comm, &req));
    TM_MPI(MPI_Send(data, 1, MPI_CHAR, 1, LATER, comm));
    TM_MPI(MPI_Wait(&req, MPI_STATUS_IGNORE));
    free(data);
}

static void receive_two(MPI_Comm comm, char *data, size_t n, int expected)
{
    MPI_Request req;
    int rc;

    TM_MPI(MPI_Irecv(data, tm_int(n), MPI_CHAR, 0, TAG, comm, &req));
    rc = MPI_Wait(&req, MPI_STATUS_IGNORE);
    TM_CHECK(expected == tm_class(rc), "error class %d, expected %d", tm_class(rc), expected);
}

static void check(const char *what, const heard_t *heard, int times, MPI_Comm comm, size_t n)
{
    TM_CHECK(times == heard->times, "%s of %zu bytes: told %d times, expected %d", what, n,
             heard->times, times);
    TM_CHECK(0 == times || (heard->comm == (uint64_t) (uintptr_t) comm && heard->len == n &&
                            0 == heard->source),
             "%s of %zu bytes: told of communicator %llx, %llu bytes, source %d", what, n,
             (unsigned long long) heard->comm, (unsigned long long) heard->len, heard->source);
}

static void messages(MPI_Comm comm, size_t n)
{
    char *data = tm_calloc(1, n);
    heard_t unexpected = {.times = 0}, truncated = {.times = 0}, never = {.times = 0};
    MPI_T_event_registration handle[3];

    if (0 == tm_rank) {
        for (int i = 0; i < 3; i++) {
            TM_MPI(MPI_Recv(data, 0, MPI_CHAR, 1, TAG, comm, MPI_STATUS_IGNORE));
            send_two(comm, n);
        }
        free(data);
        return;
    }
    handle[0] = listen_to("ompi.pml_tm_message_unexpected", safety, on_message, &unexpected);
    handle[1] = listen_to("ompi.pml_tm_message_truncated", safety, on_message, &truncated);
    /* one that would call MPI is not called, as the lock is held */
    handle[2] = listen_to("ompi.pml_tm_message_unexpected", MPI_T_CB_REQUIRE_NONE, on_message,
                          &never);
    for (int i = 0; i < 3; i++) {
        char byte;
        TM_MPI(MPI_Send(data, 0, MPI_CHAR, 0, TAG, comm)); /* it may begin */
        TM_MPI(MPI_Recv(&byte, 1, MPI_CHAR, 0, LATER, comm, MPI_STATUS_IGNORE));
        receive_two(comm, data, 1 == i ? n - 1 : n, 1 == i ? MPI_ERR_TRUNCATE : MPI_SUCCESS);
        check("unexpected message", &unexpected, i < 2 ? i + 1 : 2, comm, n);
        check("truncated message", &truncated, i < 1 ? 0 : 1, comm, n);
        if (1 == i) {
            for (int k = 0; k < 3; k++) {
                TM_MPI(MPI_T_event_handle_free(handle[k], NULL, NULL));
            }
        }
    }
    TM_CHECK(0 == never.times, "a callback that may call MPI was called");
    free(data);
}

/* The device makes no queue pairs (move.sh): all processes are reached by another network. */
static void moved(void)
{
    heard_t heard = {.times = 0};
    MPI_T_event_registration handle = listen_to("ompi.pml_tm_peer_moved", safety, on_process,
                                                &heard);
    int out = tm_rank, in = -1;

    TM_MPI(MPI_Sendrecv(&out, 1, MPI_INT, 1 - tm_rank, TAG, &in, 1, MPI_INT, 1 - tm_rank, TAG,
                        MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    TM_CHECK(1 - tm_rank == in, "received %d", in);
    TM_CHECK(1 == heard.times && 1 - tm_rank == heard.source,
             "told %d times that a process moved, rank %d", heard.times, heard.source);
    TM_MPI(MPI_T_event_handle_free(handle, NULL, NULL));
}

/* With fault tolerance (ft.sh): rank 1 dies, rank 0 is told. */
static void failed(void)
{
    heard_t heard = {.times = 0};
    double end = tm_now() + 20;
    int value = 0, flag = 0;

    (void) listen_to("ompi.pml_tm_peer_failed", safety, on_process, &heard);
    TM_MPI(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    TM_MPI(MPI_Sendrecv(&value, 1, MPI_INT, 1 - tm_rank, TAG, &flag, 1, MPI_INT, 1 - tm_rank, TAG,
                        MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    if (1 == tm_rank) {
        raise(SIGKILL);
    }
    TM_CHECK(MPI_SUCCESS != MPI_Recv(&value, 1, MPI_INT, 1, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE),
             "received from a process that is dead");
    while (0 == heard.times && tm_now() < end) {
        (void) MPI_Iprobe(0, TAG, MPI_COMM_SELF, &flag, MPI_STATUS_IGNORE);
    }
    TM_CHECK(1 == heard.times && 1 == heard.source, "told %d times that a process failed, rank %d",
             heard.times, heard.source);
    printf("ft: errors=%d\n", tm_errors);
    fflush(stdout);
    MPI_Finalize(); /* may not return (ft.sh) */
    exit(0);
}

int main(int argc, char **argv)
{
    static const size_t sizes[] = {1, 8, 2000, 100000};
    const char *what = argc > 1 ? argv[1] : "";
    bool is_threaded = 0 == strcmp(what, "threads");
    MPI_Comm comm;
    int provided;

    tm_init_thread(&argc, &argv, "tool_events",
                   is_threaded ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE);
    TM_MPI(MPI_T_init_thread(MPI_THREAD_SINGLE, &provided));
    safety = is_threaded ? MPI_T_CB_REQUIRE_THREAD_SAFE : MPI_T_CB_REQUIRE_MPI_RESTRICTED;
    if (0 == strcmp(what, "moved")) {
        moved();
    } else if (0 == strcmp(what, "failed")) {
        failed();
    } else {
        TM_MPI(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
        TM_MPI(MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN));
        for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
            messages(comm, sizes[i]);
        }
        TM_MPI(MPI_Comm_free(&comm));
    }
    TM_MPI(MPI_T_finalize());
    return tm_finish();
}

#else

int main(int argc, char **argv)
{
    tm_init(&argc, &argv, "tool_events");
    return tm_skip("this is for Open MPI 6.0");
}

#endif
