/* SPDX-License-Identifier: BSD-3-Clause */
#include "random.h"

/*
 * The plan of an epoch: its style, its communicators, and all its messages, the same on all ranks.
 *
 * Reserved messages carry tags of their own, and their receiver posts exactly one receive for each
 * before the epoch's first message: those with a named source first, then those with
 * MPI_ANY_SOURCE. So each finds a receive whatever the timing, and may be sent in any mode, ready
 * and blocking ones included.
 */

enum { SMALL, EDGES, LARGE, BURST, NPROFILES };

static size_t rnd_edge[128];
static int rnd_nedges;

/* ---- sizes -------------------------------------------------------------- */

static void add_edge(size_t n)
{
    for (int d = -1; d <= 1 && rnd_nedges < 128; d++) {
        rnd_edge[rnd_nedges++] = n + (size_t) d;
    }
}

/* Sizes where a protocol may change: usual ones, and what the parameters of this run say. */
void rnd_find_edges(void)
{
    static const size_t usual[] = {1,   8,    24,   40,   48,    56,    64,
                                   256, 1024, 4096, 8192, 16384, 32768, 65536};
    static const char *const names[] = {"pml_tm_eager_limit", "pml_tm_shm_copy_step",
                                        "pml_tm_stream_limit"};

    for (size_t i = 0; i < sizeof(usual) / sizeof(usual[0]); i++) {
        add_edge(usual[i]);
    }
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        size_t n = tm_cvar_number(names[i]);

        if (n > 0 && n <= 1 << 20) {
            add_edge(n);
        }
    }
}

size_t rnd_plan_size(const rnd_lane_t *lane, tm_rng_t *rng)
{
    size_t n;

    switch (lane->profile) {
    case SMALL:
        n = rnd_chance(rng, 30) ? rnd_edge[rnd_below(rng, 24)] : tm_below(rng, 300);
        break;
    case BURST:
        n = tm_below(rng, 65);
        break;
    case LARGE:
        n = tm_rand_size(rng, rnd_max);
        break;
    default:
        n = rnd_chance(rng, 80) ? rnd_edge[rnd_below(rng, rnd_nedges)] : tm_below(rng, 70000);
    }
    return n <= rnd_max ? n : rnd_max;
}

static void plan_content(const rnd_lane_t *lane, rnd_msg_t *m, tm_rng_t *rng)
{
    size_t n = rnd_plan_size(lane, rng);

    m->type = rnd_type[rnd_chance(rng, 55) ? 0 : tm_below(rng, (uint64_t) rnd_ntypes)];
    m->count = m->type->size > 0 ? n / m->type->size : n % 4;
    m->n = m->count * m->type->size;
}

/* ---- one message -------------------------------------------------------- */

/* A communicator and a receiver for a message of src; false: drawn in vain. */
static bool plan_peer(const rnd_lane_t *lane, rnd_msg_t *m, int not_slot, tm_rng_t *rng)
{
    const rnd_slot_t *slot;

    m->slot = lane->comm_made >= 0 && rnd_chance(rng, 20) ? lane->comm_made
                                                          : rnd_below(rng, NSLOTS);
    m->dst = lane->hot >= 0 && rnd_chance(rng, 50) ? lane->hot : rnd_below(rng, tm_size);
    slot = &lane->slot[m->slot];
    return m->slot != not_slot && rnd_is_linked(slot, m->src, m->dst);
}

static int reserved_tag(const rnd_lane_t *lane, int group)
{
    return RESERVED_TAG + lane->id * LANE_TAGS + group;
}

int rnd_plain_tag(const rnd_lane_t *lane, const rnd_slot_t *slot, int i)
{
    int n = lane->id * LANE_TAGS + i;

    return slot->tag_base < 0 ? rnd_tag_ub - n : slot->tag_base + n;
}

/*
 * Small ones only where lanes share the attached buffer, which then cannot be emptied between
 * epochs.
 */
static bool may_buffer(const rnd_lane_t *lane, const rnd_msg_t *m)
{
    return 1 == lane->nlanes || m->n <= 300;
}

static bool may_block(const rnd_lane_t *lane, const rnd_msg_t *m)
{
    return m->is_reserved ||
           (STYLE_SENDS == lane->style && lane->order[m->src] < lane->order[m->dst]);
}

static bool is_mode_legal(const rnd_lane_t *lane, const rnd_msg_t *m, rnd_mode_t mode)
{
    switch (mode) {
    case MODE_SEND:
    case MODE_SSEND:
        return may_block(lane, m);
    case MODE_RSEND:
    case MODE_IRSEND:
    case MODE_RINIT:
        return m->is_reserved;
    case MODE_BSEND:
    case MODE_IBSEND:
        return may_buffer(lane, m);
    case MODE_BINIT:
        /* pml/ob1 of 4.1.4 sends old data when it restarts one */
        return may_buffer(lane, m) && tm_is_strict();
    default:
        return true;
    }
}

static void plan_mode(const rnd_lane_t *lane, rnd_msg_t *m, tm_rng_t *rng)
{
    int first = m->def >= 0 ? MODE_INIT : 0, n = m->def >= 0 ? NMODES - MODE_INIT : MODE_INIT;

    m->mode = m->def >= 0 ? MODE_INIT : MODE_ISEND;
    if (m->def < 0 && rnd_chance(rng, 30)) {
        m->mode = may_block(lane, m) ? MODE_SEND : MODE_ISEND;
    } else {
        rnd_mode_t mode = (rnd_mode_t) (first + rnd_below(rng, n));

        m->mode = is_mode_legal(lane, m, mode) ? mode : m->mode;
    }
    m->may_cancel = lane->has_cancels && !m->is_reserved &&
                    (MODE_ISEND == m->mode || MODE_ISSEND == m->mode) && rnd_chance(rng, 20);
    m->is_freed = !m->may_cancel &&
                  (MODE_ISEND == m->mode || MODE_ISSEND == m->mode || MODE_IRSEND == m->mode) &&
                  rnd_chance(rng, 5) && !lane->slot[m->slot].is_inter; /* see release_planned() */
}

/* All but its content's key. False: nobody to send it to. */
static bool plan_message(const rnd_lane_t *lane, rnd_msg_t *m, int src, int def, int not_slot,
                         tm_rng_t *rng)
{
    *m = (rnd_msg_t){.src = src, .def = def};
    if (!plan_peer(lane, m, not_slot, rng)) {
        return false;
    }
    m->is_reserved = lane->has_reserved && m->slot != lane->comm_made && rnd_chance(rng, 20);
    m->tag = m->is_reserved ? reserved_tag(lane, rnd_below(rng, NGROUPS))
                            : rnd_plain_tag(lane, &lane->slot[m->slot],
                                            rnd_below(rng, lane->slot[m->slot].ntags));
    plan_content(lane, m, rng);
    plan_mode(lane, m, rng);
    return true;
}

/* ---- all messages ------------------------------------------------------- */

static void plan_keep(rnd_lane_t *lane, const rnd_msg_t *m)
{
    if (m->src == tm_rank) {
        lane->out = rnd_grow(lane->out, lane->nout, &lane->cap_out, sizeof(*m));
        lane->out[lane->nout++] = *m;
    }
    if (m->dst == tm_rank) {
        lane->in = rnd_grow(lane->in, lane->nin, &lane->cap_in, sizeof(*m));
        lane->in[lane->nin++] = *m;
        lane->slot[m->slot].num_expected += !m->is_reserved;
    }
}

static int plan_number(const rnd_lane_t *lane, tm_rng_t *rng)
{
    static const int max[NPROFILES] = {[SMALL] = 200, [EDGES] = 50, [LARGE] = 6, [BURST] = 1200};

    return rnd_below(rng, max[lane->profile] + 1);
}

/* What one rank sends. The slot made in the middle of the epoch is used in its second half. */
static void plan_rank(rnd_lane_t *lane, int src)
{
    tm_rng_t rng = rnd_rng(lane, 100 + src);
    rnd_msg_t def[MAX_DEFS], m;
    int n = plan_number(lane, &rng), ndefs = 0;

    while (ndefs < MAX_DEFS && plan_message(lane, &def[ndefs], src, ndefs, lane->comm_made, &rng)) {
        ndefs++;
    }
    for (int i = 0; i < n; i++) {
        if (ndefs > 0 && rnd_chance(&rng, 12)) {
            m = def[rnd_below(&rng, ndefs)];
        } else if (!plan_message(lane, &m, src, -1, i < n / 2 ? lane->comm_made : -1, &rng)) {
            continue;
        }
        m.index = i;
        m.key = tm_key(src, m.dst, m.tag,
                       ((lane->epoch * MAX_LANES + lane->id) << 20) + (long) m.slot * 65536 + i);
        plan_keep(lane, &m);
    }
}

/* ---- the epoch ---------------------------------------------------------- */

static void plan_order(rnd_lane_t *lane, tm_rng_t *rng)
{
    for (int i = 0; i < tm_size; i++) {
        int j = rnd_below(rng, i + 1);

        lane->order[i] = lane->order[j];
        lane->order[j] = i;
    }
}

static void plan_tags(rnd_lane_t *lane, tm_rng_t *rng)
{
    static const int base[] = {0, 0, 0, 1, 10000, 20000, -1};

    for (int s = 0; s < NSLOTS; s++) {
        rnd_slot_t *slot = &lane->slot[s];

        slot->tag_base = base[rnd_below(rng, (int) (sizeof(base) / sizeof(base[0])))];
        slot->ntags = 1 + rnd_below(rng, 4);
        slot->num_expected = slot->num_received = 0;
    }
}

/* One communicator comes or goes. */
static void plan_comms(rnd_lane_t *lane, tm_rng_t *rng, int *make_now)
{
    int s = FIRST_DYNAMIC + rnd_below(rng, NSLOTS - FIRST_DYNAMIC);

    lane->comm_made = lane->comm_freed = *make_now = -1;
    if (rnd_chance(rng, 20)) {
        return;
    }
    if (lane->slot[s].is_live) {
        lane->comm_freed = rnd_chance(rng, 80) ? s : -1;
    } else if (STYLE_FREE == lane->style && rnd_chance(rng, 80)) {
        lane->comm_made = s;
    } else {
        *make_now = s;
    }
}

/*
 * Other PMLs do not cancel sends: MPI_Wait for one that nobody receives before the drain would wait
 * for ever.
 */
static bool can_cancel_sends(void)
{
    const char *pml = getenv("OMPI_MCA_pml");

    return NULL != pml && 0 == strcmp(pml, "tm");
}

/* What kind of epoch it is; the value is the communicator to make first, or -1. */
int rnd_plan_epoch(rnd_lane_t *lane)
{
    static const int profiles[] = {SMALL, SMALL, SMALL, SMALL, EDGES, EDGES,
                                   EDGES, EDGES, EDGES, LARGE, BURST};
    tm_rng_t rng = rnd_rng(lane, 1);
    int make_now, style = rnd_below(&rng, 10);

    lane->style = style < 6 ? STYLE_FREE : style < 8 ? STYLE_SENDS : STYLE_RECVS;
    lane->profile = profiles[rnd_below(&rng, (int) (sizeof(profiles) / sizeof(profiles[0])))];
    lane->hot = rnd_chance(&rng, 25) ? rnd_below(&rng, tm_size) : -1;
    lane->nexchanges = STYLE_FREE == lane->style && rnd_chance(&rng, 25) ? 1 + rnd_below(&rng, 3)
                                                                         : 0;
    lane->has_reserved = rnd_chance(&rng, 60);
    lane->has_cancels = STYLE_FREE == lane->style && rnd_chance(&rng, 40) && can_cancel_sends();
    plan_order(lane, &rng);
    plan_comms(lane, &rng, &make_now);
    lane->mine = rnd_rng(lane, 1000 + tm_rank);
    return make_now;
}

/* The messages; the members of the communicator made in the middle must be known by now. */
void rnd_plan_messages(rnd_lane_t *lane)
{
    tm_rng_t rng = rnd_rng(lane, 2);

    lane->nin = lane->nout = lane->nops = 0;
    plan_tags(lane, &rng);
    for (int src = 0; src < tm_size; src++) {
        plan_rank(lane, src);
    }
}
