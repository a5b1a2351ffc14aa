/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What this process waits for.
 */
#include "pml_tm_state.h"

#include <dlfcn.h>
#include <execinfo.h>
#include <stdio.h>
#include <unistd.h>

#include "pml_tm_peer.h"
#include "pml_tm_request.h"
#include "pml_tm_sent.h"

enum {
    FRAMES = 48,
    SHOW_NS = 1000000, /* time from one look to the next; shorter waits are not recorded */
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

    return c->expected + c->unexpected + c->cancelled + c->cancelled_sends +
           mca_pml_tm_sent_by(PML_TM_SENT_EAGER) + mca_pml_tm_sent_by(PML_TM_SENT_EAGER_SYNC) +
           mca_pml_tm_sent_by(PML_TM_SENT_RNDV);
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

/* ---- the requests ------------------------------------------------------- */

typedef struct visit {
    mca_pml_tm_visit_fn_t fn;
    void *ctx;
} visit_t;

/* A queued item: a send, with or without an id, or something else. */
static void visit_item(void *ctx, fab_peer_t *peer, const fab_item_t *item)
{
    const visit_t *visit = ctx;

    (void) peer;
    if (mca_pml_tm.send_item == item->fn) {
        visit->fn(visit->ctx, &mca_pml_tm_send_of_item((fab_item_t *) item)->core);
    }
}

void mca_pml_tm_state_visit(mca_pml_tm_visit_fn_t fn, void *ctx)
{
    visit_t visit = {fn, ctx};
    const mca_pml_tm_core_t *core;

    for (uint32_t i = 0; NULL != (core = fab_idmap_next(&mca_pml_tm.ids, &i));) {
        if (MCA_PML_REQUEST_SEND != core->base->req_type ||
            (PML_TM_WAIT_ROOM != core->phase && PML_TM_HELD != core->phase)) {
            fn(ctx, core);
        }
    }
    fab_visit_items(mca_pml_tm.fab, visit_item, &visit);
    for (const mca_pml_tm_peer_t *record = mca_pml_tm.peers; NULL != record;
         record = record->next) {
        for (const mca_pml_tm_send_request_t *oldest = record->held; NULL != oldest;
             oldest = oldest->held_other) {
            const mca_pml_tm_send_request_t *req = oldest;

            do {
                fn(ctx, &req->core);
                req = req->held_next;
            } while (oldest != req);
        }
    }
}

/* ---- the waits ---------------------------------------------------------- */

static uint64_t name_of_source(const mca_pml_tm_comm_t *tmc, int32_t source)
{
    opal_process_name_t name;

    if (source < 0 || source >= tmc->num_sources) {
        return FAB_LOOK_ANY;
    }
    name = ompi_group_get_proc_name(tmc->comm->c_remote_group, source);
    return mca_pml_tm_peer_name(&name);
}

static void add_wait(mca_pml_tm_answer_t *state, const ompi_communicator_t *comm,
                     mca_pml_tm_wait_t wait)
{
    if (PML_TM_STATE_MAX_WAITS == state->num_waits) {
        state->more += UINT16_MAX != state->more;
        return;
    }
    wait.context = NULL != mca_pml_tm_comm(comm) ? mca_pml_tm_comm(comm)->context : 0;
    snprintf(wait.comm, sizeof(wait.comm), "%.23s", comm->c_name);
    state->waits[state->num_waits++] = wait;
}

static void add_recv(mca_pml_tm_answer_t *state, const mca_pml_tm_recv_request_t *req)
{
    const mca_pml_base_request_t *base = &req->req_recv.req_base;
    const mca_pml_tm_comm_t *tmc = mca_pml_tm_comm(base->req_comm);
    const bool is_posted = NULL == req->core.peer;

    if (NULL != tmc) {
        add_wait(state, base->req_comm,
                 (mca_pml_tm_wait_t){
                     .peer = is_posted ? name_of_source(tmc, base->req_peer) : req->core.peer->name,
                     .bytes = is_posted ? req->capacity : req->wanted,
                     .tag = is_posted ? base->req_tag : base->req_ompi.req_status.MPI_TAG,
                     .what = is_posted ? FAB_LOOK_RECV : FAB_LOOK_ARRIVING});
    }
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

static void add_send(mca_pml_tm_answer_t *state, const mca_pml_tm_send_request_t *req)
{
    const mca_pml_base_request_t *base = &req->req_send.req_base;

    add_wait(state, base->req_comm,
             (mca_pml_tm_wait_t){.peer = req->core.peer->name,
                                 .bytes = req->req_send.req_bytes_packed,
                                 .tag = base->req_tag,
                                 .what = (uint8_t) what_send_waits_for(&req->core)});
}

static void add_core(void *state, const mca_pml_tm_core_t *core)
{
    if (PML_TM_ACTIVE != core->state) {
        return;
    }
    if (MCA_PML_REQUEST_SEND == core->base->req_type) {
        add_send(state, (const mca_pml_tm_send_request_t *) core->base);
    } else {
        add_recv(state, (const mca_pml_tm_recv_request_t *) core->base);
    }
}

static void add_probe(mca_pml_tm_answer_t *state, const mca_pml_tm_waiting_t *what)
{
    const mca_pml_tm_comm_t *tmc = mca_pml_tm_comm(what->comm);

    if (NULL != tmc) {
        add_wait(state, what->comm,
                 (mca_pml_tm_wait_t){.peer = name_of_source(tmc, what->source),
                                     .tag = what->tag,
                                     .what = FAB_LOOK_PROBE});
    }
}

static bool add_posted(void *ctx, const fab_match_recv_t *match)
{
    add_recv(ctx, mca_pml_tm_recv_of((fab_offload_recv_t *) match));
    return true;
}

/* All that is active. */
static void add_all(mca_pml_tm_answer_t *state)
{
    for (uint32_t i = 0; i < mca_pml_tm.num_comms; ++i) {
        if (NULL != mca_pml_tm.comms[i]) {
            fab_offload_file(&mca_pml_tm.comms[i]->scope);
            fab_match_visit_recvs(&mca_pml_tm.comms[i]->match, add_posted, state);
        }
    }
    mca_pml_tm_state_visit(add_core, state);
}

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

/* ---- for those who look from outside ------------------------------------ */

/* What a call of this PML waits for; in others it may be much, so only that it is there. */
static void get_first(mca_pml_tm_answer_t *state, const mca_pml_tm_watch_t *watch)
{
    if (NULL != watch->what.core) {
        add_core(state, watch->what.core);
    } else if (NULL != watch->what.comm) {
        add_probe(state, &watch->what);
    }
    if (0 == state->num_waits) {
        state->waits[0] = (mca_pml_tm_wait_t){.peer = FAB_LOOK_ANY, .what = FAB_LOOK_OTHER};
    }
}

void mca_pml_tm_state_show(mca_pml_tm_watch_t *watch, uint64_t now_ns)
{
    mca_pml_tm_answer_t state = {0};
    const mca_pml_tm_wait_t *wait = &state.waits[0];

    if (now_ns - shown_ns < SHOW_NS) {
        return;
    }
    shown_ns = now_ns;
    get_first(&state, watch);
    fab_look_show(mca_pml_tm.fab, now_ns,
                  &(fab_look_state_t){.what = (fab_look_wait_t) wait->what,
                                      .since_ns = watch->since_ns,
                                      .peer = wait->peer,
                                      .bytes = wait->bytes,
                                      .tag = wait->tag,
                                      .context = wait->context,
                                      .comm = wait->comm});
    if (now_ns - watch->since_ns >= SHOW_NS) {
        watch->event = (fab_event_t){
            .kind = FAB_EVENT_WAITED, .what = wait->what, .peer = wait->peer, .tag = wait->tag};
    }
}

uint64_t mca_pml_tm_state_peer(const mca_pml_tm_watch_t *watch)
{
    mca_pml_tm_answer_t state = {.num_waits = 0};

    get_first(&state, watch);
    return state.waits[0].peer;
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

static void get_call(char *call, size_t size)
{
    void *frames[FRAMES];
    Dl_info info;
    int count;

    call[0] = '\0';
    if (find_call(frames, &count, &info) >= 0) {
        snprintf(call, size, "%s", mpi_name(info.dli_sname));
    }
}

static const char *base_name(const char *path)
{
    const char *slash = NULL != path ? strrchr(path, '/') : NULL;

    return NULL != slash ? slash + 1 : NULL != path ? path : "?";
}

void mca_pml_tm_state_place(char place[PML_TM_PLACE_SIZE])
{
    void *frames[FRAMES];
    Dl_info info;
    int count, at = find_call(frames, &count, &info);
    const char *caller;

    place[0] = '\0';
    if (at < 0 || at + 1 >= count || 0 == dladdr((char *) frames[at + 1] - 1, &info)) {
        return;
    }
    caller = (char *) frames[at + 1] - 1;
    if (NULL != info.dli_sname) {
        snprintf(place, PML_TM_PLACE_SIZE, "%s+0x%zx (%s)", info.dli_sname,
                 (size_t) (caller - (char *) info.dli_saddr), base_name(info.dli_fname));
    } else { /* for addr2line -e FILE */
        snprintf(place, PML_TM_PLACE_SIZE, "%s+0x%zx", base_name(info.dli_fname),
                 (size_t) (caller - (char *) info.dli_fbase));
    }
}

/* ---- all of it ---------------------------------------------------------- */

void mca_pml_tm_state_get(mca_pml_tm_answer_t *state, const mca_pml_tm_watch_t *watch,
                          uint64_t now_ns)
{
    const bool is_known = !may_return(&watch->what);

    *state = (mca_pml_tm_answer_t){
        .wait = watch->number,
        .waited_ms = (uint32_t) ((now_ns - watch->since_ns) / 1000000),
        .pid = (uint32_t) getpid(),
        .flags = (uint8_t) ((is_moving() ? PML_TM_STATE_MOVES : 0) |
                            (fab_is_threaded(mca_pml_tm.fab) ? PML_TM_STATE_THREADS : 0)),
    };
    snprintf(state->host, sizeof(state->host), "%.23s", fab_process.nodename);
    get_call(state->call, sizeof(state->call));
    if (NULL != watch->what.core) {
        add_core(state, watch->what.core);
    } else if (NULL != watch->what.comm) {
        add_probe(state, &watch->what);
    } else {
        add_all(state);
    }
    /* MPI_Wait and its like end only when one of the requests has */
    if (state->num_waits > 0 && (is_known || 0 == strncasecmp(state->call, "MPI_Wait", 8))) {
        state->flags |= PML_TM_STATE_WAITS;
    }
}

const mca_pml_tm_comm_t *mca_pml_tm_state_comm(const mca_pml_tm_wait_t *wait)
{
    const mca_pml_tm_comm_t *tmc = mca_pml_tm_comm_find(wait->context);

    return NULL != tmc && NULL == tmc->excid &&
                   0 == strncmp(tmc->comm->c_name, wait->comm, sizeof(wait->comm) - 1)
               ? tmc
               : NULL;
}
