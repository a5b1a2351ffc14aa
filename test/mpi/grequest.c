/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Generalized requests (MPI 4.0, 13.2) among sends and receives in every wait and test call,
 * completed by the program before, and by another thread during the call; their status,
 * cancellation and MPI_Request_free.
 */
/* TEST: np=1,2,3 env="OMPI_MCA_mpi_yield_when_idle=1" timeout=60 quick=yes */
#include "tm_complete.h"
#include "tm_threads.h"

enum { COUNT = 6, NREQ = 3 * COUNT };

typedef struct op {
    int id;
    int queried, freed, cancelled; /* calls of the functions */
    bool was_complete;             /* when it was cancelled */
} op_t;

static MPI_Comm comm;

static int query(void *extra, MPI_Status *st)
{
    op_t *op = extra;

    op->queried++;
    TM_MPI(MPI_Status_set_elements(st, MPI_INT, op->id));
    TM_MPI(MPI_Status_set_cancelled(st, op->cancelled > 0));
    st->MPI_SOURCE = 1000 + op->id;
    st->MPI_TAG = 2000 + op->id;
    return MPI_SUCCESS;
}

static int release(void *extra)
{
    op_t *op = extra;

    op->freed++;
    return MPI_SUCCESS;
}

static int cancel(void *extra, int complete)
{
    op_t *op = extra;

    op->cancelled++;
    op->was_complete = complete;
    return MPI_SUCCESS;
}

static void check_status(const op_t *op, const MPI_Status *st)
{
    int n = -1, cancelled = -1;

    TM_MPI(MPI_Get_count(st, MPI_INT, &n));
    TM_MPI(MPI_Test_cancelled(st, &cancelled));
    TM_CHECK(n == op->id && st->MPI_SOURCE == 1000 + op->id && st->MPI_TAG == 2000 + op->id &&
                 cancelled == (op->cancelled > 0),
             "generalized request %d: count %d source %d tag %d cancelled %d", op->id, n,
             st->MPI_SOURCE, st->MPI_TAG, cancelled);
}

static void *complete_later(void *arg)
{
    const MPI_Request *req = arg; /* COUNT of them */

    for (int i = COUNT - 1; i >= 0; i--) {
        usleep(300);
        TM_MPI(MPI_Grequest_complete(req[i]));
    }
    return NULL;
}

/* Requests in the order receive, generalized, send. */
static void mixed(int call, size_t n, bool by_thread)
{
    unsigned char *in[COUNT], *out = tm_alloc_data(n, tm_key(tm_rank, tm_dst, call, (long) n));
    op_t op[COUNT];
    MPI_Request req[NREQ], generalized[COUNT];
    MPI_Status st[NREQ];
    pthread_t thread;

    for (int i = 0; i < COUNT; i++) {
        in[i] = tm_alloc(n);
        op[i] = (op_t){.id = 10 + i};
        TM_MPI(MPI_Irecv(in[i], tm_int(n), MPI_BYTE, 0 == i % 2 ? tm_src : MPI_ANY_SOURCE, i, comm,
                         &req[3 * i]));
        TM_MPI(MPI_Grequest_start(query, release, cancel, &op[i], &req[3 * i + 1]));
        generalized[i] = req[3 * i + 1];
    }
    for (int i = 0; i < COUNT; i++) {
        TM_MPI(MPI_Isend(out, tm_int(n), MPI_BYTE, tm_dst, i, comm, &req[3 * i + 2]));
        if (!by_thread) {
            TM_MPI(MPI_Grequest_complete(req[3 * i + 1]));
        }
    }
    if (by_thread) {
        thread = tm_thread(complete_later, generalized);
    }
    tm_complete(call, NREQ, req, st, false);
    if (by_thread) {
        pthread_join(thread, NULL);
    }
    for (int i = 0; i < COUNT; i++) {
        tm_expect_status(&st[3 * i], tm_src, i, n);
        tm_expect_data(in[i], n, tm_key(tm_src, tm_rank, call, (long) n),
                       "beside generalized requests");
        check_status(&op[i], &st[3 * i + 1]);
        TM_CHECK(1 == op[i].freed && op[i].queried >= 1,
                 "generalized request: query was called %d times, free %d", op[i].queried,
                 op[i].freed);
        tm_free(in[i]);
    }
    tm_free(out);
    TM_MPI(MPI_Barrier(comm));
}

/* Not complete before it is completed, even while messages come and go. */
static void not_yet(void)
{
    op_t op = {.id = 3};
    MPI_Request req;
    MPI_Status st;
    int flag, x = tm_rank, y = -1;

    TM_MPI(MPI_Grequest_start(query, release, cancel, &op, &req));
    for (int i = 0; i < 20; i++) {
        TM_MPI(MPI_Sendrecv(&x, 1, MPI_INT, tm_dst, 1, &y, 1, MPI_INT, tm_src, 1, comm, &st));
        TM_MPI(MPI_Test(&req, &flag, &st));
        TM_CHECK(!flag, "a generalized request is complete although nobody said so");
        TM_MPI(MPI_Request_get_status(req, &flag, &st));
        TM_CHECK(!flag, "MPI_Request_get_status of a generalized request that is not complete");
    }
    TM_MPI(MPI_Grequest_complete(req));
    TM_MPI(MPI_Request_get_status(req, &flag, &st));
    TM_CHECK(flag && 0 == op.freed, "MPI_Request_get_status: flag %d, free was called %d times",
             flag, op.freed);
    check_status(&op, &st);
    TM_MPI(MPI_Wait(&req, &st));
    check_status(&op, &st);
    TM_CHECK(1 == op.freed, "free was called %d times", op.freed);
}

static void cancelled(void)
{
    op_t op = {.id = 4};
    MPI_Request req;
    MPI_Status st;

    TM_MPI(MPI_Grequest_start(query, release, cancel, &op, &req));
    TM_MPI(MPI_Cancel(&req));
    TM_CHECK(1 == op.cancelled && !op.was_complete, "cancel was called %d times, complete %d",
             op.cancelled, op.was_complete);
    TM_MPI(MPI_Grequest_complete(req));
    TM_MPI(MPI_Wait(&req, &st));
    check_status(&op, &st);
    op = (op_t){.id = 5};
    TM_MPI(MPI_Grequest_start(query, release, cancel, &op, &req));
    TM_MPI(MPI_Grequest_complete(req));
    TM_MPI(MPI_Cancel(&req));
    TM_CHECK(1 == op.cancelled && op.was_complete, "cancel was called %d times, complete %d",
             op.cancelled, op.was_complete);
    TM_MPI(MPI_Wait(&req, &st));
}

static void freed(void)
{
    op_t op = {.id = 6};
    MPI_Request req, copy;

    TM_MPI(MPI_Grequest_start(query, release, cancel, &op, &req));
    copy = req;
    TM_MPI(MPI_Request_free(&req));
    TM_CHECK(0 == op.freed, "the free function was called before the operation was complete");
    TM_MPI(MPI_Grequest_complete(copy));
    TM_CHECK(1 == op.freed, "free was called %d times", op.freed);
}

int main(int argc, char **argv)
{
    tm_init_thread(&argc, &argv, "grequest", MPI_THREAD_MULTIPLE);
    TM_MPI(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
    for (int call = 0; call < TM_NCALLS; call++) {
        for (size_t n = 1; n < 300000; n *= 29) {
            mixed(call, n, false);
            mixed(call, n, true);
        }
    }
    not_yet();
    cancelled();
    freed();
    TM_MPI(MPI_Comm_free(&comm));
    return tm_finish();
}
