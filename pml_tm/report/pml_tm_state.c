/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What this process waits for.
 */
#include "pml_tm/report/pml_tm_state.h"

#include <dlfcn.h>
#include <execinfo.h>
#include <stdio.h>
#include <unistd.h>

#include "pml_tm/arrive/pml_tm_msg.h"
#include "pml_tm/peer/pml_tm_peer.h"
#include "pml_tm/report/pml_tm_reports.h"
#include "pml_tm/report/pml_tm_text.h"
#include "pml_tm/request/pml_tm_request.h"

enum {
    FRAMES = 48,
    SHOW_NS = 1000000,   /* time from one look to the next; shorter waits are not recorded */
    LIST_NS = 100000000, /* the same, of the list of all that waits */
};

static _Thread_local mca_pml_tm_watch_t mine;
static uint64_t shown_ns; /* the last time; lock: the fabric's */
static uint32_t numbers;  /* of waits, the last that was given; lock: the fabric's */

mca_pml_tm_watch_t *mca_pml_tm_watch(void)
{
    return &mine;
}

/* ---- is it the same wait? ----------------------------------------------- */

static unsigned long long count_messages(void)
{
    const mca_pml_tm_counters_t *c = &mca_pml_tm.counters;

    return c->expected + c->unexpected + c->cancelled + mca_pml_tm_sent_by(PML_TM_SENT_EAGER) +
           mca_pml_tm_sent_by(PML_TM_SENT_EAGER_SYNC) + mca_pml_tm_sent_by(PML_TM_SENT_RNDV);
}

/* A call that returns if there is nothing: the program calls it, and others, again and again. */
static bool may_return(const mca_pml_tm_waiting_t *what)
{
    return NULL == what->core && (NULL == what->comm || what->may_return);
}

/*
 * A request that was seen before has not ended since.  Another wait is the same only as long as
 * nothing is sent or received; one in calls that return whatever these ask for.
 */
static bool is_same(const mca_pml_tm_watch_t *watch, const mca_pml_tm_waiting_t *what,
                    unsigned long long messages)
{
    if (0 == watch->number || watch->what.core != what->core) {
        return false;
    }
    if (NULL != what->core) {
        return what->core->is_seen;
    }
    if (watch->messages != messages || may_return(&watch->what) != may_return(what)) {
        return false;
    }
    return may_return(what) || (watch->what.comm == what->comm &&
                                watch->what.source == what->source && watch->what.tag == what->tag);
}

bool mca_pml_tm_watch_is_early(const mca_pml_tm_watch_t *watch, uint64_t now_ns)
{
    return now_ns - watch->last_ns < SHOW_NS && may_return(&watch->what) &&
           may_return(mca_pml_tm_waiting());
}

void mca_pml_tm_watch_look(mca_pml_tm_watch_t *watch, uint64_t now_ns)
{
    const mca_pml_tm_waiting_t *what = mca_pml_tm_waiting();
    /* a request says by itself whether it has ended */
    const unsigned long long messages = NULL == what->core ? count_messages() : 0;

    if (!is_same(watch, what, messages)) {
        if (FAB_EVENT_NONE != watch->event.kind) {
            watch->event.ns = watch->last_ns;
            watch->event.bytes = watch->last_ns - watch->since_ns;
            fab_look_event(mca_pml_tm.fab, watch->event);
        }
        *watch = (mca_pml_tm_watch_t){
            .what = *what, .messages = messages, .since_ns = now_ns, .number = ++numbers};
        if (NULL != what->core) {
            what->core->is_seen = true;
        }
    }
    watch->what = *what; /* what a call that returns asks for may be another thing each time */
}

/* ---- records ------------------------------------------------------------- */

static uint64_t name_of_source(const mca_pml_tm_comm_t *tmc, int32_t source)
{
    return source < 0 || source >= tmc->num_sources ? FAB_LOOK_ANY
                                                    : mca_pml_tm_comm_name(tmc, source);
}

/* False: there is no room for more. */
static bool add(mca_pml_tm_waits_t *list, const ompi_communicator_t *comm, fab_wait_t wait)
{
    if (list->count >= list->room) {
        list->has_more = true;
        return false;
    }
    if (NULL != comm) {
        wait.context = NULL != mca_pml_tm_comm(comm) ? mca_pml_tm_comm(comm)->context : 0;
    }
    snprintf(wait.comm, sizeof(wait.comm), "%.23s", NULL != comm ? comm->c_name : "unknown");
    list->wait[list->count++] = wait;
    return true;
}

static bool add_recv(mca_pml_tm_waits_t *list, const mca_pml_tm_recv_request_t *req)
{
    const mca_pml_base_request_t *base = &req->req_recv.req_base;
    const mca_pml_tm_comm_t *tmc = mca_pml_tm_comm(base->req_comm);
    const bool is_posted = NULL == req->core.peer;

    return NULL == tmc ||
           add(list, base->req_comm,
               (fab_wait_t){.peer = is_posted ? name_of_source(tmc, base->req_peer)
                                              : req->core.peer->name,
                            .bytes = is_posted ? req->capacity : req->wanted,
                            .tag = is_posted ? base->req_tag : base->req_ompi.req_status.MPI_TAG,
                            .what = is_posted ? FAB_LOOK_RECV : FAB_LOOK_ARRIVING});
}

static fab_look_wait_t what_send_waits_for(const mca_pml_tm_core_t *core)
{
    switch (core->phase) {
    case PML_TM_WAIT_ROOM:
        return FAB_LOOK_ROOM;
    case PML_TM_HELD:
        return FAB_LOOK_HELD;
    case PML_TM_WAIT_ACK:
    case PML_TM_WAIT_FIN:
        return FAB_LOOK_MATCH;
    default:
        return FAB_LOOK_SENDING;
    }
}

static bool add_core(mca_pml_tm_waits_t *list, const mca_pml_tm_core_t *core)
{
    const mca_pml_tm_send_request_t *req = (const mca_pml_tm_send_request_t *) core->base;

    if (PML_TM_ACTIVE != core->state) {
        return true;
    }
    if (MCA_PML_REQUEST_SEND != core->base->req_type) {
        return add_recv(list, (const mca_pml_tm_recv_request_t *) core->base);
    }
    return add(list, core->base->req_comm,
               (fab_wait_t){.peer = core->peer->name,
                            .bytes = req->req_send.req_bytes_packed,
                            .tag = core->base->req_tag,
                            .what = (uint8_t) what_send_waits_for(core)});
}

static bool add_msg(mca_pml_tm_waits_t *list, const ompi_communicator_t *comm,
                    const mca_pml_tm_msg_t *msg, fab_near_t near)
{
    return add(list, comm,
               (fab_wait_t){.peer = msg->peer->name,
                            .bytes = msg->len,
                            .tag = mca_pml_tm_tag_tag(msg->hdr.tag),
                            .what = NULL != comm ? FAB_LOOK_MESSAGE : FAB_LOOK_EARLY,
                            .near = (uint8_t) near});
}

/* ---- all that waits ------------------------------------------------------ */

typedef struct walk {
    mca_pml_tm_waits_t *list;
    const mca_pml_tm_comm_t *only; /* NULL: all communicators */
    const ompi_communicator_t *comm;
} walk_t;

static bool visit_recv(void *ctx, const fab_match_recv_t *match)
{
    const walk_t *walk = ctx;

    return add_recv(walk->list, mca_pml_tm_recv_of((fab_match_recv_t *) match));
}

static bool visit_msg(void *ctx, const fab_match_msg_t *match)
{
    const walk_t *walk = ctx;

    return add_msg(walk->list, walk->comm, mca_pml_tm_msg_of((fab_match_msg_t *) match),
                   FAB_NEAR_NOT);
}

static bool visit_request(const walk_t *walk, const mca_pml_tm_core_t *core)
{
    return (NULL != walk->only && walk->only->comm != core->base->req_comm) ||
           add_core(walk->list, core);
}

/* A queued item: a send, with or without an id, or something else. */
static void visit_item(void *ctx, fab_peer_t *peer, const fab_item_t *item)
{
    (void) peer;
    if (mca_pml_tm.send_item == item->fn) {
        (void) visit_request(ctx, &mca_pml_tm_send_of_item((fab_item_t *) item)->core);
    }
}

static bool visit_held(const walk_t *walk, const mca_pml_tm_send_request_t *oldest)
{
    const mca_pml_tm_send_request_t *req = oldest;
    bool has_room = true;

    do {
        has_room = visit_request(walk, &req->core);
        req = req->held_next;
    } while (oldest != req && has_room);
    return has_room;
}

/* Requests that a peer knows, and sends that are queued or held: all but posted receives. */
static void visit_requests(walk_t *walk)
{
    const mca_pml_tm_core_t *core;
    bool has_room = true;

    for (uint32_t i = 0; has_room && NULL != (core = fab_idmap_next(&mca_pml_tm.ids, &i));) {
        if (MCA_PML_REQUEST_SEND != core->base->req_type ||
            (PML_TM_WAIT_ROOM != core->phase && PML_TM_HELD != core->phase)) {
            has_room = visit_request(walk, core);
        }
    }
    fab_visit_items(mca_pml_tm.fab, visit_item, walk);
    for (const mca_pml_tm_peer_t *record = mca_pml_tm.peers; has_room && NULL != record;
         record = record->next) {
        for (const mca_pml_tm_send_request_t *oldest = record->held; has_room && NULL != oldest;
             oldest = oldest->held_other) {
            has_room = visit_held(walk, oldest);
        }
    }
}

static void visit_recvs(walk_t *walk)
{
    for (uint32_t i = 0; i < mca_pml_tm.num_comms; ++i) {
        mca_pml_tm_comm_t *tmc = mca_pml_tm.comms[i];

        if (NULL != tmc && (NULL == walk->only || tmc == walk->only)) {
            if (NULL != tmc->scope) {
                mca_pml_tm.offload->file(tmc->scope);
            }
            fab_match_visit_recvs(&tmc->match, visit_recv, walk);
        }
    }
}

static void visit_msgs(walk_t *walk)
{
    for (uint32_t i = 0; i < mca_pml_tm.num_comms; ++i) {
        const mca_pml_tm_comm_t *tmc = mca_pml_tm.comms[i];

        if (NULL != tmc && (NULL == walk->only || tmc == walk->only)) {
            walk->comm = tmc->comm;
            fab_match_visit_msgs(&tmc->match, visit_msg, walk);
        }
    }
    walk->comm = NULL;
    fab_match_visit_msgs(&mca_pml_tm.early, visit_msg, walk);
}

void mca_pml_tm_state_all(mca_pml_tm_waits_t *list, const mca_pml_tm_comm_t *tmc)
{
    walk_t walk = {.list = list, .only = tmc};
    const unsigned room = list->room;

    list->room = room / 3;
    visit_recvs(&walk);
    list->room = room * 2 / 3;
    visit_msgs(&walk);
    list->room = room;
    visit_requests(&walk);
}

/* ---- what a call waits for ------------------------------------------------ */

static void add_probe(mca_pml_tm_waits_t *list, const mca_pml_tm_waiting_t *what)
{
    const mca_pml_tm_comm_t *tmc = mca_pml_tm_comm(what->comm);

    if (NULL != tmc) {
        (void) add(list, what->comm,
                   (fab_wait_t){.peer = name_of_source(tmc, what->source),
                                .tag = what->tag,
                                .what = FAB_LOOK_PROBE});
    }
}

/* Of a call of this PML; others wait for any of the requests. */
static void add_call(mca_pml_tm_waits_t *list, const mca_pml_tm_watch_t *watch)
{
    if (NULL != watch->what.core) {
        (void) add_core(list, watch->what.core);
    } else if (NULL != watch->what.comm) {
        add_probe(list, &watch->what);
    }
}

static fab_wait_t first_of(const mca_pml_tm_watch_t *watch)
{
    fab_wait_t wait = {.peer = FAB_LOOK_ANY, .what = FAB_LOOK_OTHER};

    add_call(&(mca_pml_tm_waits_t){.wait = &wait, .room = 1}, watch);
    return wait;
}

/* ---- messages that nearly fit -------------------------------------------- */

typedef struct near {
    mca_pml_tm_waits_t *list;
    const fab_wait_t *wait;
    const mca_pml_tm_comm_t *tmc; /* where the messages are */
} near_t;

static fab_near_t nearness(const near_t *near, const mca_pml_tm_msg_t *msg)
{
    const bool is_comm = near->wait->context == near->tmc->context;
    const bool is_source = FAB_LOOK_ANY == near->wait->peer || near->wait->peer == msg->peer->name;
    const int32_t wanted = near->wait->tag, tag = mca_pml_tm_tag_tag(msg->hdr.tag);
    const bool is_tag = OMPI_ANY_TAG == wanted ? tag >= 0 : wanted == tag;
    const bool is_internal = wanted < 0 && OMPI_ANY_TAG != wanted;

    if (is_comm && is_source && !is_tag && is_internal == (tag < 0)) {
        return is_internal ? FAB_NEAR_COLLECTIVE : FAB_NEAR_TAG;
    }
    if (is_comm && !is_source && is_tag && !is_internal) {
        return FAB_NEAR_SOURCE;
    }
    return !is_comm && is_source && is_tag ? FAB_NEAR_COMM : FAB_NEAR_NOT;
}

static bool visit_near(void *ctx, const fab_match_msg_t *match)
{
    const near_t *near = ctx;
    const mca_pml_tm_msg_t *msg = mca_pml_tm_msg_of((fab_match_msg_t *) match);
    const fab_near_t how = nearness(near, msg);

    return FAB_NEAR_NOT == how || add_msg(near->list, near->tmc->comm, msg, how);
}

static void add_near(mca_pml_tm_waits_t *list, const fab_wait_t *wait)
{
    near_t near = {.list = list, .wait = wait};

    for (uint32_t i = 0; i < mca_pml_tm.num_comms; ++i) {
        near.tmc = mca_pml_tm.comms[i];
        if (NULL != near.tmc) {
            fab_match_visit_msgs(&near.tmc->match, visit_near, &near);
        }
    }
}

/* ---- for tm_look --------------------------------------------------------- */

static void show_all(fab_look_t *look, uint64_t now_ns)
{
    mca_pml_tm_waits_t list = {.wait = look->waits, .room = FAB_LOOK_LIST};

    mca_pml_tm_state_all(&list, NULL);
    look->status.listed_ns = now_ns;
    look->status.count = list.count;
    look->status.has_more = list.has_more;
}

void mca_pml_tm_state_show(mca_pml_tm_watch_t *watch, uint64_t now_ns)
{
    const uint64_t waited_ns = now_ns - watch->since_ns;
    fab_wait_t wait;
    fab_look_t *look;

    if (now_ns - shown_ns < SHOW_NS) {
        return;
    }
    shown_ns = now_ns;
    wait = first_of(watch);
    look = fab_look_begin(mca_pml_tm.fab, now_ns);
    if (NULL != look) {
        look->status.since_ns = watch->since_ns;
        look->wait = wait;
        if (waited_ns >= LIST_NS && now_ns - look->status.listed_ns >= LIST_NS) {
            show_all(look, now_ns);
        }
        fab_look_end(look);
    }
    if (waited_ns >= SHOW_NS) {
        watch->event = (fab_event_t){
            .kind = FAB_EVENT_WAITED, .what = wait.what, .peer = wait.peer, .tag = wait.tag};
    }
}

/* ---- the call ----------------------------------------------------------- */

/* The MPI function with this symbol, of C or Fortran; NULL: it is none. */
static const char *mpi_name(const char *symbol)
{
    if (NULL == symbol) {
        return NULL;
    }
    if (0 == strcmp(symbol, "ompi_mpi_finalize")) { /* MPI_Finalize jumps there */
        return "MPI_Finalize";
    }
    symbol += 'P' == symbol[0] || 'p' == symbol[0];
    return 0 == strncmp(symbol, "MPI_", 4) || 0 == strncmp(symbol, "mpi_", 4) ? symbol : NULL;
}

/* The frames of this thread; returns which is the outermost in MPI, -1: none. */
static int find_call(void *frames[FRAMES], int *count, Dl_info *info)
{
    int found = -1;
    Dl_info at;

    *count = backtrace(frames, FRAMES);
    for (int i = 0; i < *count; ++i) {
        /* a call may be a function's last instruction: look at that, not behind it */
        if (0 != dladdr((char *) frames[i] - 1, &at) && NULL != mpi_name(at.dli_sname)) {
            found = i;
            *info = at;
        }
    }
    return found;
}

static const char *base_name(const char *path)
{
    const char *slash = NULL != path ? strrchr(path, '/') : NULL;

    return NULL != slash ? slash + 1 : NULL != path ? path : "?";
}

void mca_pml_tm_call_find(mca_pml_tm_call_t *call)
{
    void *frames[FRAMES];
    Dl_info info;
    int count, at = find_call(frames, &count, &info);
    const char *caller;

    *call = (mca_pml_tm_call_t){.name = ""};
    if (at < 0) {
        return;
    }
    snprintf(call->name, sizeof(call->name), "%.23s", mpi_name(info.dli_sname));
    if (at + 1 >= count || 0 == dladdr((char *) frames[at + 1] - 1, &info)) {
        return;
    }
    caller = (char *) frames[at + 1] - 1;
    if (NULL != info.dli_sname) {
        snprintf(call->site, sizeof(call->site), "%s+0x%zx (%s)", info.dli_sname,
                 (size_t) (caller - (char *) info.dli_saddr), base_name(info.dli_fname));
    } else { /* for addr2line -e FILE */
        snprintf(call->site, sizeof(call->site), "%s+0x%zx", base_name(info.dli_fname),
                 (size_t) (caller - (char *) info.dli_fbase));
    }
}

/* ---- what others are told ------------------------------------------------ */

/* Is data on the way, or are messages, that may end a wait of this or another process? */
static bool is_moving(void)
{
    mca_pml_tm_core_t *core;

    for (uint32_t i = 0; NULL != (core = fab_idmap_next(&mca_pml_tm.ids, &i));) {
        if (PML_TM_WAIT_ACK != core->phase && PML_TM_WAIT_FIN != core->phase &&
            PML_TM_HELD != core->phase) {
            return true;
        }
    }
    return 0 != mca_pml_tm.num_gets || NULL != mca_pml_tm.streams || fab_has_queued(mca_pml_tm.fab);
}

/* The waits, and, behind a single one for a message, those that nearly fit. */
static void get_waits(mca_pml_tm_answer_t *state, const mca_pml_tm_watch_t *watch)
{
    mca_pml_tm_waits_t list = {.wait = state->waits, .room = PML_TM_STATE_MAX_WAITS};
    walk_t walk = {.list = &list};

    if (NULL != watch->what.core || NULL != watch->what.comm) {
        add_call(&list, watch);
    } else {
        visit_recvs(&walk);
        visit_requests(&walk);
    }
    state->num_waits = (uint8_t) list.count;
    state->flags |= list.has_more ? PML_TM_STATE_MORE : 0;
    if (1 == list.count &&
        (FAB_LOOK_RECV == state->waits[0].what || FAB_LOOK_PROBE == state->waits[0].what)) {
        add_near(&list, &state->waits[0]);
        state->num_near = (uint8_t) (list.count - 1);
    }
}

void mca_pml_tm_state_get(mca_pml_tm_answer_t *state, const mca_pml_tm_watch_t *watch,
                          const mca_pml_tm_call_t *call, uint64_t now_ns)
{
    *state = (mca_pml_tm_answer_t){
        .wait = watch->number,
        .waited_ms = (uint32_t) ((now_ns - watch->since_ns) / 1000000),
        .pid = (uint32_t) getpid(),
        .flags = (uint8_t) ((is_moving() ? PML_TM_STATE_MOVES : 0) |
                            (fab_is_threaded(mca_pml_tm.fab) ? PML_TM_STATE_THREADS : 0)),
    };
    snprintf(state->host, sizeof(state->host), "%.23s", fab_process.nodename);
    memcpy(state->call, call->name, sizeof(state->call));
    get_waits(state, watch);
    /* MPI_Wait and its like end only when one of the requests has */
    if (state->num_waits > 0 &&
        (!may_return(&watch->what) || 0 == strncasecmp(state->call, "MPI_Wait", 8))) {
        state->flags |= PML_TM_STATE_WAITS;
    }
}

const mca_pml_tm_comm_t *mca_pml_tm_state_comm(const fab_wait_t *wait)
{
    const mca_pml_tm_comm_t *tmc = mca_pml_tm_comm_find(wait->context);

    return NULL != tmc && NULL == tmc->excid &&
                   0 == strncmp(tmc->comm->c_name, wait->comm, sizeof(wait->comm) - 1)
               ? tmc
               : NULL;
}

/* ---- for debuggers ------------------------------------------------------- */

enum { DUMP_WAITS = 99, DUMP_LINES = 200 };

static void line_of_comm(mca_pml_tm_text_t *text, const mca_pml_tm_comm_t *tmc)
{
    mca_pml_tm_text_line(text,
                         "pml tm: communicator %s [context %u, rank %u]: %u receives posted (at "
                         "most %u), %u messages unexpected (at most %u)",
                         tmc->comm->c_name, tmc->context, tmc->my_rank, tmc->match.posted_count,
                         tmc->match.posted_max, tmc->match.unexp_count, tmc->match.unexp_max);
}

int mca_pml_tm_dump(ompi_communicator_t *comm, int verbose)
{
    const mca_pml_tm_comm_t *only = verbose > 1 ? NULL : mca_pml_tm_comm(comm);
    mca_pml_tm_text_t text;
    fab_wait_t waits[DUMP_WAITS];
    mca_pml_tm_waits_t list = {.wait = waits, .room = verbose > 0 ? DUMP_WAITS : 0};
    char line[PML_TM_WAIT_SIZE];

    if (!mca_pml_tm_text_open(&text, DUMP_LINES)) {
        return OMPI_ERR_OUT_OF_RESOURCE;
    }
    fab_lock(mca_pml_tm.fab);
    mca_pml_tm_state_all(&list, only);
    for (uint32_t i = 0; i < mca_pml_tm.num_comms; ++i) {
        if (NULL != mca_pml_tm.comms[i] && (NULL == only || only == mca_pml_tm.comms[i])) {
            line_of_comm(&text, mca_pml_tm.comms[i]);
        }
    }
    fab_unlock(mca_pml_tm.fab);
    for (unsigned i = 0; i < list.count; ++i) {
        mca_pml_tm_text_line(&text, "  %s", mca_pml_tm_wait_text(line, &waits[i], NULL));
    }
    if (list.has_more && verbose > 0) {
        mca_pml_tm_text_line(&text, "  ... and more");
    }
    mca_pml_tm_text_print(&text);
    return OMPI_SUCCESS;
}
