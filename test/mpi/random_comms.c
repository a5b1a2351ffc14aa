/* SPDX-License-Identifier: BSD-3-Clause */
#include "random.h"

/*
 * Communicators of a lane: duplicated, split, merged, created, freed; groups in any order of ranks,
 * and intercommunicators. rnd_comm_plan() keeps the book of who is in which, also of those that
 * this rank is not in itself; rnd_comm_begin() and rnd_comm_end() make them.
 */

#include "tm_slow.h"

static void comm_reset(rnd_slot_t *slot)
{
    memset(slot, 0, sizeof(*slot));
    slot->comm = MPI_COMM_NULL;
    slot->req = MPI_REQUEST_NULL;
    slot->is_live = true;
}

/* ---- who will be in it -------------------------------------------------- */

/* Number the groups from 0 again, so that splits of splits have small colors. */
static void comm_compress(rnd_slot_t *slot)
{
    int seen[MAX_RANKS], n = 0;

    for (int i = 0; i < tm_size; i++) {
        int k = 0;

        while (k < n && seen[k] != slot->color[i]) {
            k++;
        }
        if (k == n && slot->color[i] >= 0) {
            seen[n++] = slot->color[i];
        }
        slot->color[i] = slot->color[i] < 0 ? -1 : k;
    }
}

/* Some ranks are left out now and then. */
static void comm_plan_split(rnd_slot_t *slot, const rnd_slot_t *from, tm_rng_t *rng)
{
    int ncolors = 1 + rnd_below(rng, 3);

    for (int i = 0; i < tm_size; i++) {
        int color = rnd_chance(rng, 10) ? -1 : rnd_below(rng, ncolors), key = rnd_below(rng, 5);

        slot->color[i] = color < 0 || from->color[i] < 0 ? -1 : from->color[i] * 3 + color;
        slot->key = i == tm_rank ? key : slot->key;
    }
    comm_compress(slot);
}

/* Two sides, at least one rank in each. */
static void comm_plan_inter(rnd_slot_t *slot, tm_rng_t *rng)
{
    int turn = rnd_below(rng, tm_size);

    slot->is_inter = true;
    for (int i = 0; i < tm_size; i++) {
        slot->color[(i + turn) % tm_size] = i < 2 ? i : rnd_below(rng, 2);
    }
}

static void comm_plan_merge(rnd_slot_t *slot, const rnd_slot_t *from, tm_rng_t *rng)
{
    int low = rnd_below(rng, 2);

    slot->key = from->color[tm_rank] == low;
    for (int i = 0; i < tm_size; i++) {
        slot->color[i] = from->color[i] < 0 ? -1 : 0;
    }
}

static void comm_plan_group(rnd_slot_t *slot, tm_rng_t *rng)
{
    for (int i = 0; i < tm_size; i++) {
        slot->color[i] = rnd_chance(rng, 70) ? 0 : -1;
    }
}

/* What can be made of that one? */
static rnd_make_t comm_choose(const rnd_slot_t *from, tm_rng_t *rng)
{
    rnd_make_t make = (rnd_make_t) rnd_below(rng, NMAKES);

    if (!from->is_inter && rnd_chance(rng, 30)) {
        return MAKE_IDUP;
    }
    if ((MAKE_MERGE == make) != from->is_inter || (MAKE_INTER == make && tm_size < 2)) {
        make = from->is_inter && rnd_chance(rng, 50) ? MAKE_MERGE : MAKE_DUP;
    }
    return make;
}

/* Communicator number s anew, from another one. */
void rnd_comm_plan(rnd_lane_t *lane, int s, tm_rng_t rng)
{
    rnd_slot_t *slot = &lane->slot[s];
    const rnd_slot_t *from = &lane->slot[rnd_below(&rng, NSLOTS)];

    comm_reset(slot);
    if (from == slot || !from->is_live || from->is_common) {
        from = &lane->slot[SLOT_BASE];
    }
    slot->from = (int) (from - lane->slot);
    slot->make = comm_choose(from, &rng);
    switch (slot->make) {
    case MAKE_SPLIT:
        comm_plan_split(slot, from, &rng);
        break;
    case MAKE_INTER:
        comm_plan_inter(slot, &rng);
        break;
    case MAKE_MERGE:
        comm_plan_merge(slot, from, &rng);
        break;
    case MAKE_GROUP:
        comm_plan_group(slot, &rng);
        break;
    default:
        memcpy(slot->color, from->color, sizeof(slot->color));
        slot->is_inter = from->is_inter;
    }
}

/* ---- making it ---------------------------------------------------------- */

/* Its ranks and those of MPI_COMM_WORLD. */
static void comm_map(rnd_slot_t *slot)
{
    MPI_Group world, group;
    int all[MAX_RANKS];

    if (MPI_COMM_NULL == slot->comm) {
        return;
    }
    TM_MPI(MPI_Comm_set_errhandler(slot->comm, MPI_ERRORS_RETURN));
    TM_MPI(MPI_Comm_group(MPI_COMM_WORLD, &world));
    TM_MPI((slot->is_inter ? MPI_Comm_remote_group : MPI_Comm_group)(slot->comm, &group));
    TM_MPI(MPI_Group_size(group, &slot->nlocal));
    for (int i = 0; i < tm_size; i++) {
        all[i] = i;
    }
    TM_MPI(MPI_Group_translate_ranks(world, tm_size, all, group, slot->local));
    TM_MPI(MPI_Group_translate_ranks(group, slot->nlocal, all, world, slot->world));
    TM_MPI(MPI_Group_free(&world));
    TM_MPI(MPI_Group_free(&group));
    for (int i = 0; i < tm_size; i++) {
        TM_CHECK(rnd_is_linked(slot, tm_rank, i) == (MPI_UNDEFINED != slot->local[i]),
                 "made a communicator in way %d: is rank %d in it?", (int) slot->make, i);
    }
}

static void comm_build_inter(rnd_slot_t *slot, MPI_Comm parent)
{
    int leader = 0;
    MPI_Comm side;

    while (slot->color[leader] == slot->color[tm_rank]) {
        leader++;
    }
    TM_MPI(MPI_Comm_split(parent, slot->color[tm_rank], tm_rank, &side));
    TM_MPI(MPI_Intercomm_create(side, 0, parent, leader, 77, &slot->comm));
    TM_MPI(MPI_Comm_free(&side));
}

/* Only its members call. */
static void comm_build_group(rnd_slot_t *slot, MPI_Comm parent)
{
    int members[MAX_RANKS], n = 0;
    MPI_Group world, group;

    for (int i = tm_size - 1; i >= 0; i--) {
        if (0 == slot->color[i]) {
            members[n++] = i;
        }
    }
    if (0 == slot->color[tm_rank]) {
        TM_MPI(MPI_Comm_group(MPI_COMM_WORLD, &world));
        TM_MPI(MPI_Group_incl(world, n, members, &group));
        TM_MPI(MPI_Comm_create_group(parent, group, 78, &slot->comm));
        TM_MPI(MPI_Group_free(&group));
        TM_MPI(MPI_Group_free(&world));
    }
}

static void comm_build_from(rnd_slot_t *slot, MPI_Comm from)
{
    int color = slot->color[tm_rank] < 0 ? MPI_UNDEFINED : slot->color[tm_rank];

    switch (slot->make) {
    case MAKE_SPLIT:
        TM_MPI(MPI_Comm_split(from, color, slot->key, &slot->comm));
        break;
    case MAKE_MERGE:
        TM_MPI(MPI_Intercomm_merge(from, slot->key, &slot->comm));
        break;
    case MAKE_IDUP:
        TM_MPI(MPI_Comm_idup(from, &slot->coming, &slot->req));
        break;
    default:
        TM_MPI(MPI_Comm_dup(from, &slot->comm));
    }
}

/* Makes progress once or twice, so that the others can finish, and then none for a while. */
static void look_away(rnd_lane_t *lane)
{
    int flag;

    for (int i = rnd_below(&lane->mine, 4); i > 0; i--) {
        TM_MPI(MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, lane->ctl, &flag, MPI_STATUS_IGNORE));
        usleep(1000);
    }
}

/* All ranks of the lane call. MPI_Comm_idup is only begun; rnd_comm_end() ends it. */
void rnd_comm_begin(rnd_lane_t *lane, int s)
{
    rnd_slot_t *slot = &lane->slot[s];
    MPI_Comm from = lane->slot[slot->from].comm;
    bool is_slow = rnd_chance(&lane->mine, 30);

    rnd_step(lane, "makes a communicator");
    tm_slow(is_slow ? 500 + rnd_below(&lane->mine, 1500) : 0);
    if (MAKE_INTER == slot->make) {
        comm_build_inter(slot, lane->ctl);
    } else if (MAKE_GROUP == slot->make) {
        comm_build_group(slot, lane->ctl);
    } else if (MPI_COMM_NULL != from) {
        comm_build_from(slot, from);
    }
    tm_slow(0);
    comm_map(slot);
    if (is_slow && MPI_REQUEST_NULL != slot->req) {
        look_away(lane);
    }
}

void rnd_comm_end(rnd_lane_t *lane, int s)
{
    rnd_slot_t *slot = &lane->slot[s];

    if (MPI_REQUEST_NULL != slot->req) {
        rnd_step(lane, "MPI_Wait for MPI_Comm_idup");
        TM_MPI(MPI_Wait(&slot->req, MPI_STATUS_IGNORE));
        slot->comm = slot->coming;
        comm_map(slot);
    }
}

void rnd_comm_release(rnd_slot_t *slot)
{
    if (MPI_COMM_NULL != slot->comm) {
        TM_MPI(MPI_Comm_free(&slot->comm));
    }
    slot->is_live = false;
}

void rnd_comm_open_first(rnd_lane_t *lane)
{
    rnd_slot_t *base = &lane->slot[SLOT_BASE], *common = &lane->slot[SLOT_COMMON];

    for (int s = 0; s < NSLOTS; s++) {
        lane->slot[s].comm = MPI_COMM_NULL;
    }
    comm_reset(base);
    TM_MPI(MPI_Comm_dup(MPI_COMM_WORLD, &base->comm));
    comm_map(base);
    comm_reset(common);
    common->comm = MPI_COMM_WORLD;
    common->is_common = lane->nlanes > 1;
    comm_map(common);
    TM_MPI(MPI_Comm_dup(MPI_COMM_WORLD, &lane->ctl));
}

void rnd_comm_close_all(rnd_lane_t *lane)
{
    for (int s = 0; s < NSLOTS; s++) {
        if (SLOT_COMMON != s && lane->slot[s].is_live) {
            rnd_comm_release(&lane->slot[s]);
        }
    }
    TM_MPI(MPI_Comm_free(&lane->ctl));
}
