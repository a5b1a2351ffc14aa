/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One message as a row of choices: how it is sent, received and completed, by which pattern, from
 * what to what, and how far. transfer() plays it on all ranks, round a ring, and checks all there
 * is to check: see basic.c, whose sweeps are loops over rows.
 */
#ifndef TM_ROW_H
#define TM_ROW_H

#include "tm_complete.h"
#include "tm_types.h"

/* ---- rows ---- ------------------------------------------------------------------------------- */

typedef enum {
    SEND,
    BSEND,
    SSEND,
    RSEND,
    ISEND,
    IBSEND,
    ISSEND,
    IRSEND,
    SEND_INIT,
    BSEND_INIT,
    SSEND_INIT,
    RSEND_INIT,
    NSENDS
} send_t;

typedef enum {
    POSTED, /* before the message can come */
    IRECV,
    STARTED, /* persistent */
    LATE,    /* when the message is there */
    RECV,
    PROBE,
    IPROBE,
    MPROBE,
    IMPROBE,
    MPROBE_IMRECV,
    IMPROBE_IMRECV,
    SENDRECV,
    SENDRECV_REPLACE,
    NRECVS
} recv_t;

static const char *const send_name[NSENDS] = {
    "Send",   "Bsend",  "Ssend",     "Rsend",      "Isend",      "Ibsend",
    "Issend", "Irsend", "Send_init", "Bsend_init", "Ssend_init", "Rsend_init"};
static const char *const recv_name[NRECVS] = {
    "Irecv, posted",   "Irecv",    "Recv_init",       "Irecv, late", "Recv",
    "Probe",           "Iprobe",   "Mprobe",          "Improbe",     "Mprobe, Imrecv",
    "Improbe, Imrecv", "Sendrecv", "Sendrecv_replace"};

enum { IGNORED = TM_NCALLS, NCOMPLETIONS = 2 * TM_NCALLS }; /* those that ignore the status */

typedef struct row {
    send_t send;
    recv_t recv;
    int complete; /* of a nonblocking receive; + IGNORED: the status of any receive is ignored */
    bool is_any_source, is_any_tag;
    const tm_type_t *from, *to;
    size_t nfrom, nto;
    int distance; /* to the rank that is sent to */
} row_t;

enum { TAG_READY = 32000, NCOMMS = 4, UNTOUCHED = 0xee, GAP = 0x11 };

static MPI_Comm comms[NCOMMS], ctl;
static int next_tag, dst, src;

/* The error handlers of comms: the calls of each. comms[2] has inherited that of comms[1]. */
typedef struct handler_call {
    int times, class;
    MPI_Comm comm;
} handler_call_t;

static handler_call_t called[2];

static void note(handler_call_t *call, const MPI_Comm *comm, const int *code)
{
    call->times++;
    call->class = tm_class(*code);
    call->comm = *comm;
}

static void handler_0(MPI_Comm *comm, int *code, ...)
{
    note(&called[0], comm, code);
}

static void handler_1(MPI_Comm *comm, int *code, ...)
{
    note(&called[1], comm, code);
}

static int mode_of(send_t send)
{
    return (int) send % 4;
}

static bool is_blocking(send_t send)
{
    return send < ISEND;
}

static bool is_persistent(send_t send)
{
    return send >= SEND_INIT;
}

static bool is_posted_first(recv_t recv)
{
    return recv <= STARTED;
}

/* Both sides block until the other one comes: one rank of each ring receives first. */
static bool takes_turns(const row_t *row)
{
    return (SEND == row->send || SSEND == row->send) && !is_posted_first(row->recv);
}

static bool is_valid(const row_t *row)
{
    if (SENDRECV == row->recv) {
        return ISEND == row->send;
    }
    if (RSEND == mode_of(row->send)) {
        return is_posted_first(row->recv);
    }
    return !takes_turns(row) || 0 != row->distance;
}

/*
 * pml/ob1 of 4.1.4 writes behind the buffer when a rendezvous message is truncated, and does not
 * report a truncated message from this process for which the receive was posted; it sends old data
 * when it restarts a completed MPI_Bsend_init of more than 256 bytes.
 */
static bool can_cut(const row_t *row, size_t bytes)
{
    return tm_is_strict() ||
           (bytes <= 2000 &&
            ((!is_posted_first(row->recv) && SENDRECV != row->recv) || 0 != row->distance));
}

/* ---- one row ---- ---------------------------------------------------------------------------- */

typedef struct message {
    const row_t *row;
    MPI_Comm comm;
    int tag, source, source_tag; /* the last two: of the receive */
    tm_layout_t out, in;
    size_t bytes, got; /* of the message; of them, what there is room for */
    MPI_Request sreq, rreq;
    MPI_Status st;
    char name[120];
} message_t;

/* An inactive persistent request is complete with an empty status and stays what it is. */
static void check_inactive(MPI_Request *req)
{
    MPI_Request before = *req;
    MPI_Status st;
    int flag = 0;

    tm_status_reset(&st);
    TM_MPI(MPI_Test(req, &flag, &st));
    TM_CHECK(flag, "MPI_Test of an inactive request gives false");
    tm_expect_empty(&st);
    tm_status_reset(&st);
    TM_MPI(MPI_Wait(req, &st));
    tm_expect_empty(&st);
    TM_CHECK(*req == before, "a wait changed the handle of an inactive persistent request");
}

/* What a status says after bytes have come, for a type. */
static void check_counts(const MPI_Status *st, const tm_type_t *type, size_t bytes,
                         const char *what)
{
    int count = -1, elements = -1, want = MPI_UNDEFINED;

    if (0 == type->size) {
        want = 0; /* whatever the number of bytes, in Open MPI */
    } else if (0 == bytes % type->size) {
        want = tm_int(bytes / type->size);
    }
    MPI_Get_count(st, type->mpi, &count);
    MPI_Get_elements(st, type->mpi, &elements);
    TM_CHECK(count == want, "%s: MPI_Get_count in type %s is %d, expected %d (%zu bytes)", what,
             type->name, count, want, bytes);
    TM_CHECK(0 == type->size || type->is_aligned || elements == tm_int(bytes),
             "%s: MPI_Get_elements in type %s is %d, expected %zu", what, type->name, elements,
             bytes);
}

static void check_status(message_t *m, const MPI_Status *st, const char *call)
{
    char what[160];

    snprintf(what, sizeof(what), "%s: %s", m->name, call);
    if (!tm_expect_single(st, src, m->tag, m->bytes)) {
        TM_ERROR("%s", what);
    }
    check_counts(st, m->row->to, m->bytes, what);
}

static void init_requests(message_t *m)
{
    static int (*const init[])(const void *, int, MPI_Datatype, int, int, MPI_Comm,
                               MPI_Request *) = {MPI_Send_init, MPI_Bsend_init, MPI_Ssend_init,
                                                 MPI_Rsend_init};
    const row_t *row = m->row;

    m->sreq = m->rreq = MPI_REQUEST_NULL;
    if (is_persistent(row->send)) {
        TM_MPI(init[mode_of(row->send)](tm_layout_buf(&m->out), tm_int(row->nfrom), row->from->mpi,
                                        dst, m->tag, m->comm, &m->sreq));
        check_inactive(&m->sreq);
    }
    if (STARTED == row->recv) {
        TM_MPI(MPI_Recv_init(tm_layout_buf(&m->in), tm_int(row->nto), row->to->mpi, m->source,
                             m->source_tag, m->comm, &m->rreq));
        check_inactive(&m->rreq);
    }
}

static void free_persistent(MPI_Request *req)
{
    check_inactive(req);
    TM_MPI(MPI_Request_free(req));
    TM_CHECK(MPI_REQUEST_NULL == *req, "MPI_Request_free did not set the handle to null");
}

static void start_send(message_t *m, send_t send)
{
    static int (*const blocking[])(const void *, int, MPI_Datatype, int, int,
                                   MPI_Comm) = {MPI_Send, MPI_Bsend, MPI_Ssend, MPI_Rsend};
    static int (*const immediate[])(const void *, int, MPI_Datatype, int, int, MPI_Comm,
                                    MPI_Request *) = {MPI_Isend, MPI_Ibsend, MPI_Issend,
                                                      MPI_Irsend};
    const void *buf = tm_layout_buf(&m->out);
    int n = tm_int(m->row->nfrom), mode = mode_of(send);

    if (is_persistent(send)) {
        TM_MPI(MPI_Start(&m->sreq));
    } else if (is_blocking(send)) {
        TM_MPI(blocking[mode](buf, n, m->row->from->mpi, dst, m->tag, m->comm));
    } else {
        TM_MPI(immediate[mode](buf, n, m->row->from->mpi, dst, m->tag, m->comm, &m->sreq));
    }
}

static void finish_send(message_t *m)
{
    MPI_Request before = m->sreq;
    MPI_Status st;
    int cancelled = 0;

    if (MPI_REQUEST_NULL == m->sreq) {
        return;
    }
    tm_status_reset(&st);
    TM_MPI(MPI_Wait(&m->sreq, &st));
    TM_MPI(MPI_Test_cancelled(&st, &cancelled));
    TM_CHECK(TM_NO_ERROR == st.MPI_ERROR && !cancelled,
             "%s: MPI_Wait of the send: MPI_ERROR %d, cancelled %d", m->name, st.MPI_ERROR,
             cancelled);
    TM_CHECK(m->sreq == (is_persistent(m->row->send) ? before : MPI_REQUEST_NULL),
             "%s: the send's request has a wrong handle after MPI_Wait", m->name);
}

/* By one call. The error of a call that has it in the status is that one. */
static int complete(message_t *m)
{
    int call = m->row->complete % IGNORED, flag = 0, index = -1, some = -1, rc = MPI_SUCCESS;
    bool is_ignored = m->row->complete >= IGNORED;
    MPI_Status *st = is_ignored ? MPI_STATUS_IGNORE : &m->st,
               *all = is_ignored ? MPI_STATUSES_IGNORE : &m->st;
    MPI_Request before = m->rreq;

    if (STARTED == m->row->recv && m->got < m->bytes) {
        call = TM_WAIT; /* Open MPI's others lose the error of a persistent request */
    }
    switch (call) {
    case TM_WAITALL:
        rc = MPI_Waitall(1, &m->rreq, all);
        break;
    case TM_WAITSOME:
        rc = MPI_Waitsome(1, &m->rreq, &some, &index, all);
        TM_CHECK(1 == some && 0 == index, "MPI_Waitsome gave %d, index %d", some, index);
        break;
    case TM_WAITANY:
        rc = MPI_Waitany(1, &m->rreq, &index, st);
        TM_CHECK(0 == index, "MPI_Waitany gave index %d", index);
        break;
    default:
        while (TM_WAIT != call && !flag && MPI_SUCCESS == rc) {
            if (TM_TEST == call) {
                rc = MPI_Test(&m->rreq, &flag, st);
            } else if (TM_TESTALL == call) {
                rc = MPI_Testall(1, &m->rreq, &flag, all);
            } else if (TM_TESTANY == call) {
                rc = MPI_Testany(1, &m->rreq, &index, &flag, st);
                TM_CHECK(index == (flag || MPI_SUCCESS != rc ? 0 : MPI_UNDEFINED),
                         "MPI_Testany gave flag %d, index %d", flag, index);
            } else if (TM_TESTSOME == call) {
                rc = MPI_Testsome(1, &m->rreq, &some, &index, all);
                flag = 0 != some;
            } else {
                TM_MPI(MPI_Request_get_status(m->rreq, &flag, st));
                TM_CHECK(m->rreq == before, "MPI_Request_get_status changed the request");
            }
        }
        if (TM_WAIT == call || TM_GET_STATUS == call) {
            rc = MPI_Wait(&m->rreq, TM_WAIT == call ? st : MPI_STATUS_IGNORE);
        }
        break;
    }
    if (TM_WAITALL == call || TM_WAITSOME == call || TM_TESTALL == call || TM_TESTSOME == call) {
        /* they may set it */
        if (MPI_SUCCESS != rc && !is_ignored) {
            TM_CHECK(MPI_ERR_IN_STATUS == tm_class(rc), "%s: class %d, not MPI_ERR_IN_STATUS",
                     m->name, tm_class(rc));
            rc = m->st.MPI_ERROR;
        }
        m->st.MPI_ERROR = TM_NO_ERROR;
    }
    if (MPI_SUCCESS == rc) {
        TM_CHECK(m->rreq == (STARTED == m->row->recv ? before : MPI_REQUEST_NULL),
                 "%s: the receive's request has a wrong handle", m->name);
    }
    return rc;
}

static void post(message_t *m)
{
    if (STARTED == m->row->recv) {
        TM_MPI(MPI_Start(&m->rreq));
    } else {
        TM_MPI(MPI_Irecv(tm_layout_buf(&m->in), tm_int(m->row->nto), m->row->to->mpi, m->source,
                         m->source_tag, m->comm, &m->rreq));
    }
}

static void probe(message_t *m, MPI_Message *msg)
{
    MPI_Status found;
    bool is_ignored = m->row->complete >= IGNORED;
    MPI_Status *st = is_ignored ? MPI_STATUS_IGNORE : &found;
    int flag = 0;

    tm_status_reset(&found);
    switch (m->row->recv) {
    case MPROBE:
    case MPROBE_IMRECV:
        TM_MPI(MPI_Mprobe(m->source, m->source_tag, m->comm, msg, st));
        break;
    case IMPROBE:
    case IMPROBE_IMRECV:
        while (!flag) {
            TM_MPI(MPI_Improbe(m->source, m->source_tag, m->comm, &flag, msg, st));
            TM_CHECK(flag || MPI_MESSAGE_NULL == *msg,
                     "MPI_Improbe found nothing but set a message");
        }
        break;
    case IPROBE:
        tm_iprobe(m->source, m->source_tag, m->comm, st);
        break;
    default:
        TM_MPI(MPI_Probe(m->source, m->source_tag, m->comm, st));
        break;
    }
    TM_CHECK(m->row->recv < MPROBE || (MPI_MESSAGE_NULL != *msg && MPI_MESSAGE_NO_PROC != *msg),
             "%s: the probe gave no message", m->name);
    if (!is_ignored) {
        check_status(m, &found, "probe");
    }
}

/* What is in the receive's buffer goes to the next rank, and comes from the last one. */
static int replace(message_t *m, MPI_Status *st)
{
    const row_t *row = m->row;
    size_t n = row->nto * row->to->size;
    tm_layout_t back = tm_layout_alloc(row->to, row->nto);
    int tag = m->tag + 1, rc;
    MPI_Request req;

    tm_layout_write(&m->in, n, tm_key(tm_rank, dst, tag, 0), UNTOUCHED);
    tm_layout_write(&back, 0, 0, UNTOUCHED);
    TM_MPI(
        MPI_Irecv(tm_layout_buf(&back), tm_int(row->nto), row->to->mpi, src, tag, m->comm, &req));
    rc = MPI_Sendrecv_replace(tm_layout_buf(&m->in), tm_int(row->nto), row->to->mpi, dst, tag,
                              m->source, MPI_ANY_TAG == m->source_tag ? m->tag : m->source_tag,
                              m->comm, st);
    TM_MPI(MPI_Wait(&req, MPI_STATUS_IGNORE));
    tm_expect_layout(&back, n, tm_key(src, tm_rank, tag, 0), UNTOUCHED, m->name);
    tm_layout_free(&back);
    return rc;
}

/*
 * Nobody has posted a receive, since each waits for the rank that sends to it: a synchronous send
 * is not complete.
 */
static void expect_waiting(message_t *m)
{
    int flag = 0;

    if (SSEND != mode_of(m->row->send) || is_blocking(m->row->send)) {
        return;
    }
    for (int i = 0; i < 20 && !flag; i++) {
        TM_MPI(MPI_Test(&m->sreq, &flag, MPI_STATUS_IGNORE));
    }
    TM_CHECK(!flag, "%s: complete before the receive was posted", m->name);
    tm_handshake(dst, src, TAG_READY, ctl);
}

/* Receive what was not received yet; MPI's error. */
static int receive(message_t *m)
{
    const row_t *row = m->row;
    MPI_Status *st = row->complete >= IGNORED ? MPI_STATUS_IGNORE : &m->st;
    void *buf = tm_layout_buf(&m->in);
    MPI_Message msg = MPI_MESSAGE_NULL;
    int n = tm_int(row->nto), rc;

    switch (row->recv) {
    case PROBE:
    case IPROBE:
        probe(m, NULL);
        /* fall through */
    case RECV:
        return MPI_Recv(buf, n, row->to->mpi, m->source, m->source_tag, m->comm, st);
    case MPROBE:
    case IMPROBE:
        probe(m, &msg);
        rc = MPI_Mrecv(buf, n, row->to->mpi, &msg, st);
        TM_CHECK(MPI_MESSAGE_NULL == msg, "the message is not null after MPI_Mrecv");
        return rc;
    case MPROBE_IMRECV:
    case IMPROBE_IMRECV:
        probe(m, &msg);
        TM_MPI(MPI_Imrecv(buf, n, row->to->mpi, &msg, &m->rreq));
        TM_CHECK(MPI_MESSAGE_NULL == msg, "the message is not null after MPI_Imrecv");
        return complete(m);
    case SENDRECV:
        return MPI_Sendrecv(tm_layout_buf(&m->out), tm_int(row->nfrom), row->from->mpi, dst, m->tag,
                            buf, n, row->to->mpi, m->source, m->source_tag, m->comm, st);
    case SENDRECV_REPLACE:
        return replace(m, st);
    case LATE:
        probe(m, NULL);
        expect_waiting(m);
        post(m);
        return complete(m);
    default:
        return complete(m);
    }
}

/* The receive has ended with this error. */
static void check_received(message_t *m, int rc, int round)
{
    const row_t *row = m->row;
    bool is_cut = m->got < m->bytes;
    int which = m->comm == comms[0] ? 0 : m->comm == comms[3] ? -1 : 1;

    TM_CHECK((is_cut ? MPI_ERR_TRUNCATE : MPI_SUCCESS) == tm_class(rc) ||
                 (is_cut && row->complete >= IGNORED && MPI_ERR_IN_STATUS == tm_class(rc)),
             "%s: %zu bytes into %zu of type %s: error class %d", m->name, m->bytes, m->got,
             row->to->name, tm_class(rc));
    for (int i = 0; i < 2; i++) {
        /* To the handler Open MPI passes the error of the first request that failed. */
        TM_CHECK(called[i].times == (is_cut && i == which), "%s: handler %d was called %d times",
                 m->name, i, called[i].times);
        TM_CHECK(0 == called[i].times ||
                     (called[i].comm == m->comm && (MPI_ERR_TRUNCATE == called[i].class ||
                                                    MPI_ERR_IN_STATUS == called[i].class)),
                 "%s: handler %d was called with class %d%s", m->name, i, called[i].class,
                 called[i].comm == m->comm ? "" : " of another communicator");
    }
    if (row->complete < IGNORED && is_cut) {
        TM_CHECK(m->st.MPI_SOURCE == src && m->st.MPI_TAG == m->tag,
                 "%s: truncated: source %d tag %d, expected %d %d", m->name, m->st.MPI_SOURCE,
                 m->st.MPI_TAG, src, m->tag);
    } else if (row->complete < IGNORED) {
        check_status(m, &m->st, "status");
    }
    /* What fits is there, what is between and beside it is as before. */
    if (SENDRECV_REPLACE != row->recv || m->got == row->nto * row->to->size) {
        tm_expect_layout(&m->in, m->got, tm_key(src, tm_rank, m->tag, round), UNTOUCHED, m->name);
    }
    if (MPI_REQUEST_NULL != m->rreq && is_cut) {
        /* Open MPI has freed it already when the error handler returns */
        TM_MPI(MPI_Request_free(&m->rreq));
    }
}

/* The same data once more, into a buffer for all of it. */
static void check_next(message_t *m, int round)
{
    tm_layout_t in = tm_layout_alloc(m->row->from, m->row->nfrom);

    tm_layout_write(&in, 0, 0, UNTOUCHED);
    TM_MPI(MPI_Recv(tm_layout_buf(&in), tm_int(m->row->nfrom), m->row->from->mpi, src, m->tag,
                    m->comm, MPI_STATUS_IGNORE));
    tm_expect_layout(&in, m->bytes, tm_key(src, tm_rank, m->tag, round), UNTOUCHED,
                     "message after a truncated one");
    tm_layout_free(&in);
}

static int ring_starts(int distance)
{
    int a = tm_size, b = distance;

    while (0 != b) {
        int rest = a % b;

        a = b;
        b = rest;
    }
    return a;
}

static void one_round(message_t *m, int round)
{
    const row_t *row = m->row;
    message_t next = *m;
    bool is_first = takes_turns(row) && tm_rank < ring_starts(row->distance);
    int rc = MPI_SUCCESS;

    tm_layout_write(&m->out, m->bytes, tm_key(tm_rank, dst, m->tag, round), GAP);
    tm_layout_write(&m->in, 0, 0, UNTOUCHED);
    tm_status_reset(&m->st);
    memset(called, 0, sizeof(called));
    if (is_posted_first(row->recv)) {
        post(m);
        if (POSTED == row->recv || RSEND == mode_of(row->send)) {
            tm_handshake(src, dst, TAG_READY, ctl); /* the receive is posted */
        }
    }
    if (is_first) {
        rc = receive(m);
    }
    if (SENDRECV != row->recv) {
        start_send(m, row->send);
    }
    if (m->got < m->bytes && SENDRECV != row->recv) {
        start_send(&next, ISEND);
    }
    if (!is_first) {
        rc = receive(m);
    }
    check_received(m, rc, round);
    if (m->got < m->bytes) {
        if (SENDRECV == row->recv) {
            start_send(&next, ISEND);
        }
        check_next(m, round);
        TM_MPI(MPI_Wait(&next.sreq, MPI_STATUS_IGNORE));
    }
    finish_send(m);
    tm_expect_layout(&m->out, m->bytes, tm_key(tm_rank, dst, m->tag, round), GAP, "send buffer");
}

static void transfer(const row_t *row)
{
    message_t m = {.row = row,
                   .tag = next_tag,
                   .source = row->is_any_source ? MPI_ANY_SOURCE : src,
                   .source_tag = row->is_any_tag ? MPI_ANY_TAG : next_tag,
                   .comm = comms[next_tag / 2 % NCOMMS],
                   .bytes = row->nfrom * row->from->size};
    size_t room = row->nto * row->to->size, attached = m.bytes + MPI_BSEND_OVERHEAD;
    bool is_cut = room < m.bytes;
    int rounds = !is_cut && (is_persistent(row->send) || STARTED == row->recv)
                     ? (m.bytes < 5000 ? 3 : 2)
                     : 1;
    void *buffer = NULL;

    if (!is_valid(row) || (is_cut && !can_cut(row, m.bytes))) {
        return;
    }
    m.got = is_cut ? room : m.bytes;
    snprintf(m.name, sizeof(m.name), "MPI_%s to MPI_%s, completion %d", send_name[row->send],
             recv_name[row->recv], row->complete);
    next_tag = (next_tag + 2) % 30000;
    m.out = tm_layout_alloc(row->from, row->nfrom);
    m.in = tm_layout_alloc(row->to, row->nto);
    init_requests(&m);
    if (BSEND_INIT == row->send && !tm_is_strict()) {
        rounds = 1;
    }
    for (int round = 0; round < rounds; round++) {
        if (BSEND == mode_of(row->send)) {
            buffer = tm_buffer_attach(attached);
        }
        one_round(&m, round);
        if (NULL != buffer) {
            tm_buffer_detach(buffer, attached);
        }
    }
    if (is_persistent(row->send)) {
        free_persistent(&m.sreq);
    }
    if (MPI_REQUEST_NULL != m.rreq) {
        free_persistent(&m.rreq);
    }
    tm_layout_free(&m.out);
    tm_layout_free(&m.in);
}

static void rows_open(void)
{
    MPI_Errhandler handlers[2];

    TM_MPI(MPI_Comm_create_errhandler(handler_0, &handlers[0]));
    TM_MPI(MPI_Comm_create_errhandler(handler_1, &handlers[1]));
    TM_MPI(MPI_Comm_dup(MPI_COMM_WORLD, &ctl));
    for (int i = 0; i < NCOMMS; i++) {
        TM_MPI(MPI_Comm_dup(2 == i ? comms[1] : MPI_COMM_WORLD, &comms[i]));
        if (i < 2) {
            TM_MPI(MPI_Comm_set_errhandler(comms[i], handlers[i]));
            TM_MPI(MPI_Errhandler_free(&handlers[i]));
        }
    }
    TM_MPI(MPI_Comm_set_errhandler(comms[3], MPI_ERRORS_RETURN));
}

static void rows_close(void)
{
    for (int i = 0; i < NCOMMS; i++) {
        TM_MPI(MPI_Comm_free(&comms[i]));
    }
    TM_MPI(MPI_Comm_free(&ctl));
}

static void set_distance(int distance)
{
    dst = (tm_rank + distance) % tm_size;
    src = (tm_rank + tm_size - distance) % tm_size;
    TM_MPI(MPI_Barrier(ctl)); /* nobody's message is for a wild receive of the ring before */
}

#endif /* TM_ROW_H */
