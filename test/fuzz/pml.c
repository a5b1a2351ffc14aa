/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * libFuzzer: the messages of pml tm (pml_tm_wire.h), from the other process of two communicators,
 * between sends and receives of this process. Whatever they are, nothing is read or written outside
 * of the messages and of the buffers, each request ends once, and nothing is left when the peer is
 * gone.
 *
 * pml tm is linked in, with libmpi but without MPI_Init: the process, the group and the
 * communicators are made by hand.
 *
 * Input: steps, one after the other: a byte (the kind, and the bits below), two bytes of app_ctx,
 * two of tag, one with the length of the payload, so many bytes. A step that is a call takes its
 * operation from app_ctx, its MPI tag and communicator from tag, and its length; its payload is
 * ignored.
 */
#include "pml_tm/base/pml_tm_compat.h"

#include "fuzz_tcp.h"
#include "ompi/mca/pml/base/base.h"
#include "pml_tm/arrive/pml_tm_msg.h"
#include "pml_tm/calls/pml_tm_calls.h"
#include "pml_tm/data/pml_tm_deliver.h"
#include "pml_tm/peer/pml_tm_excid.h"
#include "pml_tm/peer/pml_tm_peer.h"
#include "pml_tm/pml_tm_entry.h"
#include "pml_tm/request/pml_tm_failure.h"
#include "pml_tm/wait/pml_tm_progress.h"
#include "test/lib/opal.h"

extern mca_pml_base_component_t mca_pml_tm_component;

enum {
    /* kinds behind the messages' */
    RECV = 13,
    SEND,
    CANCEL,
    COMM, /* make or free the second communicator */
    KINDS,
    /* bits of a message */
    FROM_PEER = 16, /* tag is that of a user's message in the communicator, from the peer's rank */
    OP_ID = 32,     /* app_ctx is the id of that operation */
    BY_RING = 64,   /* it comes through a ring */
    /* bits of a call */
    PACKED = 16, /* the type has gaps */
    SYNCHRONOUS = 32,
    ANY = 64, /* any source, any tag */

    HEAD = 6, /* bytes of the input before a payload */
    OPS = 8,
    EAGER_LIMIT = 64,      /* bytes */
    UNEXPECTED_MAX = 2000, /* bytes, for throttling */
    MAX_POLLS = 100000,
};

/* A send or a receive that is under way, if it has a request. */
typedef struct op {
    ompi_request_t *request;
    const ompi_request_t *last; /* its request, or the one that it had; NULL: none */
    char *buf;
    size_t len; /* bytes of data in buf */
    int comm;
    bool is_send;
} op_t;

static const uint8_t ids[RECV] = {
    FAB_AM_NO_TAG,    FAB_AM_RNDV,         FAB_AM_FIN,      FAB_AM_EAGER,   PML_TM_AM_ACK,
    PML_TM_AM_CTS,    PML_TM_AM_DATA,      PML_TM_AM_NACK,  PML_TM_AM_FLOW, PML_TM_AM_CONTEXT,
    PML_TM_AM_CANCEL, PML_TM_AM_WITHDRAWN, PML_TM_AM_STATE,
};

static fab_tcp_domain_t *dom;
static ompi_proc_t mine, other, *procs[] = {&mine, &other};
static ompi_group_t group = {
    .grp_proc_count = 2, .grp_flags = OMPI_GROUP_DENSE, .grp_proc_pointers = procs};
static ompi_communicator_t comms[2]; /* the second has an extended id of ones */
static ompi_datatype_t *with_gaps;   /* two bytes with a third between them */
static op_t ops[OPS];

static void check(bool is_true, const char *what)
{
    if (!is_true) {
        fuzz_fail(what);
    }
}

/* ---- in place of Open MPI ----------------------------------------------- */

/* There is nobody to publish the address for. */
int __wrap_mca_pml_tm_peer_publish(void);
int __wrap_mca_pml_tm_peer_publish(void)
{
    return OMPI_SUCCESS;
}

/* Open MPI 5.0: no BTLs. */
bool __wrap_mca_bml_base_inited(void);
bool __wrap_mca_bml_base_inited(void)
{
    return true;
}

static void init_comm(int i)
{
    ompi_communicator_t *comm = &comms[i];

    ((opal_object_t *) comm)->obj_reference_count = 1; /* it is never freed */
    comm->c_local_group = comm->c_remote_group = &group;
#if OMPI_MAJOR_VERSION >= 5
    comm->c_index = (uint32_t) i;
    comm->c_flags = OMPI_COMM_GLOBAL_INDEX;
#else
    comm->c_contextid = (uint32_t) i;
#endif
}

static void init_mpi(void)
{
    setenv("OMPI_MCA_opal_signal", "", 1); /* libFuzzer reports signals, with the input */
    check(OPAL_SUCCESS == test_opal_init() && OMPI_SUCCESS == ompi_datatype_init(),
          "Open MPI cannot be initialised");
    ompi_mpi_local_convertor = opal_convertor_create(opal_local_arch, 0);
    OBJ_CONSTRUCT(&mca_pml_base_send_requests, opal_free_list_t);
    OBJ_CONSTRUCT(&mca_pml_base_recv_requests, opal_free_list_t);
    ompi_datatype_create_vector(2, 1, 2, &ompi_mpi_byte.dt, &with_gaps);
    ompi_datatype_commit(&with_gaps);
    fab_process.my_name = (opal_process_name_t){.jobid = 7, .vpid = 0};
    mine.super.proc_name = fab_process.my_name;
    ((opal_object_t *) &other)->obj_reference_count = 1; /* never the last: it is not destroyed */
    init_comm(0);
    init_comm(1);
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    int priority = 0;

    (void) argc, (void) argv;
    init_mpi();
    mca_pml_tm_component.pmlm_version.mca_register_component_params();
    fab_params.providers = "tcp";
    check(NULL != mca_pml_tm_component.pmlm_init(&priority, false, false) &&
              OMPI_SUCCESS == mca_pml_tm_module.pml_enable(true),
          "pml tm cannot be opened");
    mca_pml_tm.eager_limit = EAGER_LIMIT;
    mca_pml_tm.params.unexpected_max = UNEXPECTED_MAX;
    dom = fuzz_tcp_domain(mca_pml_tm.fab);
    return 0;
}

/* ---- requests ----------------------------------------------------------- */

static mca_pml_tm_core_t *core_of(const ompi_request_t *request, bool is_send)
{
    return is_send ? &((mca_pml_tm_send_request_t *) request)->core
                   : &((mca_pml_tm_recv_request_t *) request)->core;
}

static void check_status(const op_t *op)
{
    const ompi_status_public_t *status = &op->request->req_status;

    if (!op->is_send && !status->_cancelled && MPI_ERR_OTHER != status->MPI_ERROR) {
        check(1 == status->MPI_SOURCE && status->MPI_TAG >= 0, "a receive of what nobody sent");
        check((MPI_ERR_TRUNCATE == status->MPI_ERROR) == (status->_ucount > op->len),
              "a receive of more than it takes, or cut off for nothing");
    }
}

/* Free the requests that are complete. What is free stays so. */
static void reap(void)
{
    for (op_t *op = ops; op < ops + OPS; op++) {
        if (NULL != op->request && REQUEST_COMPLETE(op->request)) {
            check_status(op);
            op->request->req_free(&op->request);
            op->request = NULL;
            free(op->buf);
        }
    }
    for (const op_t *op = ops; op < ops + OPS; op++) {
        bool is_used = NULL == op->last;
        for (const op_t *user = ops; user < ops + OPS; user++) {
            is_used |= user->request == op->last;
        }
        check(is_used || PML_TM_INACTIVE == core_of(op->last, op->is_send)->state,
              "a request ended twice");
    }
}

static void start(op_t *op, const uint8_t *input)
{
    uint8_t kind = input[0];
    ompi_datatype_t *type = 0 != (kind & PACKED) ? with_gaps : &ompi_mpi_byte.dt;
    int tag = input[3];
    size_t count = input[HEAD - 1];

    op->comm = 0 != (input[4] & 1) && NULL != comms[1].c_pml_comm;
    op->is_send = SEND == kind % KINDS;
    op->len = count * (with_gaps == type ? 2 : 1);
    op->buf = calloc(1, count * (with_gaps == type ? 3 : 1));
    if (op->is_send) {
        mca_pml_tm_isend(op->buf, count, type, 1, tag,
                         0 != (kind & SYNCHRONOUS) ? MCA_PML_BASE_SEND_SYNCHRONOUS
                                                   : MCA_PML_BASE_SEND_STANDARD,
                         &comms[op->comm], &op->request);
    } else {
        mca_pml_tm_irecv(op->buf, count, type, 0 != (kind & ANY) ? MPI_ANY_SOURCE : 1,
                         0 != (kind & ANY) ? MPI_ANY_TAG : tag, &comms[op->comm], &op->request);
    }
    if (&ompi_request_empty == op->request) {
        op->request = NULL;
        free(op->buf);
    }
    op->last = op->request;
}

/* ---- communicators ------------------------------------------------------ */

/* Give it an extended id of ones, as pml_tm_excid.c would if it were of an MPI session. */
static void extend(mca_pml_tm_comm_t *tmc)
{
    mca_pml_tm_excid_t *excid = malloc(sizeof(*excid) + 2 * sizeof(excid->contexts[0]));

    memset(excid->id, 1, sizeof(excid->id));
    excid->contexts[0] = excid->contexts[1] = PML_TM_CONTEXT_UNKNOWN;
    excid->next = mca_pml_tm.excid_comms;
    mca_pml_tm.excid_comms = tmc;
    tmc->excid = excid;
    tmc->fast &= ~PML_TM_FAST_SEND;
    mca_pml_tm_msg_join(tmc);
}

static void add_comm(int i)
{
    check(OMPI_SUCCESS == mca_pml_tm_module.pml_add_comm(&comms[i]),
          "a communicator cannot be made");
    if (1 == i) {
        extend(mca_pml_tm_comm(&comms[i]));
    }
}

static void del_comm(int i)
{
    const mca_pml_tm_comm_t *tmc = mca_pml_tm_comm(&comms[i]);

    check(NULL == tmc || 0 == tmc->match.posted_count, "a receive is posted that was cancelled");
    (void) mca_pml_tm_module.pml_del_comm(&comms[i]);
}

static void add_or_del_comm(void)
{
    if (NULL == comms[1].c_pml_comm) {
        add_comm(1);
        return;
    }
    for (const op_t *op = ops; op < ops + OPS; op++) {
        if (NULL != op->request && 1 == op->comm) {
            return;
        }
    }
    del_comm(1);
}

/* ---- steps -------------------------------------------------------------- */

static fab_hdr_t read_hdr(const uint8_t *input)
{
    uint8_t kind = input[0];
    fab_hdr_t hdr = fab_hdr(ids[kind % KINDS], input[3] | (uint64_t) input[4] << 32,
                            input[1] | (uint32_t) input[2] << 8);
    const op_t *op = &ops[input[1] % OPS];

    if (0 != (kind & FROM_PEER)) {
        hdr.tag = mca_pml_tm_tag(input[4], 1, (int8_t) input[3], mca_pml_tm.source_bits);
    }
    if (0 != (kind & OP_ID)) {
        hdr.app_ctx = NULL != op->request ? core_of(op->request, op->is_send)->id : 0;
    }
    return hdr;
}

/* As a provider: to its place, if it has one and does not come through a ring. */
static void receive(fab_peer_t *peer, const uint8_t *input, size_t len)
{
    bool is_by_ring = 0 != (input[0] & BY_RING);
    fab_hdr_t hdr = read_hdr(input);
    uint8_t *payload = malloc(len); /* of its length to the byte: what is read beyond it shows */
    void *place = !is_by_ring && len > 0 ? fab_place(mca_pml_tm.fab, peer, hdr, len) : NULL;

    memcpy(NULL != place ? place : payload, input + HEAD, len);
    peer->caps |= is_by_ring ? FAB_CAP_RING : 0;
    fab_deliver(mca_pml_tm.fab, peer, hdr, NULL != place ? place : payload, len);
    peer->caps &= (uint8_t) ~FAB_CAP_RING; /* it has none to send to */
    free(payload);
}

/* A failed peer would end the job, some seconds later. */
static void poll(void)
{
    (void) mca_pml_tm_poll_all();
    mca_pml_tm_failure_fini();
    reap();
}

/* One step of the input, at most size bytes. Returns the bytes that it takes. */
static size_t step(fab_peer_t *peer, const uint8_t *input, size_t size)
{
    size_t len = input[HEAD - 1] < size - HEAD ? input[HEAD - 1] : size - HEAD;
    op_t *op = &ops[input[1] % OPS];

    switch (input[0] % KINDS) {
    case RECV:
    case SEND:
        if (NULL == op->request) {
            start(op, input);
        }
        return HEAD;
    case CANCEL:
        if (NULL != op->request) {
            op->request->req_cancel(op->request, true);
        }
        return HEAD;
    case COMM:
        add_or_del_comm();
        return HEAD;
    default:
        receive(peer, input, len);
        return HEAD + len;
    }
}

/* Has the fabric nothing to do any more for the peer, which failed? */
static bool is_over(const fab_peer_t *peer)
{
    bool is_out = NULL != fab_drop_of(fab_core(mca_pml_tm.fab), peer) || NULL != peer->pending ||
                  0 != mca_pml_tm.num_gets;

    for (const op_t *op = ops; op < ops + OPS; op++) {
        is_out |= NULL != op->request && op->is_send &&
                  ((mca_pml_tm_send_request_t *) op->request)->is_out;
    }
    return !is_out;
}

/* As Open MPI with fault tolerance does: cancel what can be, and end the rest when it may end. */
static void end_requests(fab_peer_t *peer)
{
    for (const op_t *op = ops; op < ops + OPS; op++) {
        if (NULL != op->request) {
            op->request->req_cancel(op->request, true);
        }
    }
    poll();
    fab_peer_fail(peer, OPAL_ERR_UNREACH, "The input is at its end.");
    for (int i = 0; !is_over(peer); i++) {
        check(i < MAX_POLLS, "something of the peer is left");
        fab_tcp_expect(dom);
        poll();
    }
    for (const op_t *op = ops; op < ops + OPS; op++) {
        if (NULL != op->request && op->is_send) {
            mca_pml_tm_send_finish((mca_pml_tm_send_request_t *) op->request, MPI_ERR_OTHER);
        } else if (NULL != op->request) {
            mca_pml_tm_recv_finish((mca_pml_tm_recv_request_t *) op->request, MPI_ERR_OTHER);
        }
    }
    poll();
}

static void end_comms(void)
{
    del_comm(0);
    del_comm(1);
    mca_pml_tm_msg_drop(&mca_pml_tm.early, true);
}

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size)
{
    int fd;
    fab_peer_t *peer = fuzz_tcp_peer(mca_pml_tm.fab, FAB_USER_PML, &fd);
    ompi_proc_t *proc = &other;

    other.super.proc_name = (opal_process_name_t){.jobid = (opal_jobid_t) (peer->name >> 32),
                                                  .vpid = (opal_vpid_t) peer->name};
    add_comm(0);
    for (size_t at = 0; at + HEAD <= size && FAB_PEER_UP == peer->state;) {
        at += step(peer, input + at, size - at);
        poll();
    }
    close(fd);
    end_requests(peer);
    end_comms();
    check(0 == mca_pml_tm.unexpected_bytes && 0 == mca_pml_tm.ids.used &&
              NULL == mca_pml_tm.streams,
          "something of the messages is left");
    (void) mca_pml_tm_module.pml_del_procs(&proc, 1);
    check(0 == mca_pml_tm.num_throttled && NULL == mca_pml_tm.peers, "a peer's record is left");
    fab_progress(mca_pml_tm.fab);
    return 0;
}
