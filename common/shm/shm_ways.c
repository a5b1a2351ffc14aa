/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Which way long messages of a peer go: shm_ways.h has the rules.
 */
#include "shm/shm_ways.h"

#include <stdlib.h>
#include <string.h>

enum {
    UNIT = 65536,         /* bytes for which times are noted */
    MESSAGE_COST = 16384, /* bytes that take as long as a message does besides */
    TIME_MAX = 1 << 30,   /* ns; longer ones are as long */
    SPELLS_SKIP = 2,      /* at first: memory is touched for the first time */
    SPELLS_FIRST = 4,     /* before the first try */
    WARM = 262144,        /* bytes: such a spell has touched all of a ring, and is worth two */
    SPELLS_CLASS = 8,     /* ... of a class that has begun with the verdict of another one */
    SPELLS_LEAST = 32,    /* from one try to the next, at least */
    SPELLS_MOST = 192,    /* ... at most, before a way has been confirmed again and again */
    SPELLS_DOUBT = 96,    /* the same, if one spell alone decided */
    TRY_COST = 2,         /* percent of all time that tries may cost */
    SPELLS_CHANGED = 16,  /* from a change on */
    SPELLS_SECOND = 4,    /* from a try that found the other way faster to the second one */
    SPELLS_QUIET = 16,    /* after a try because of changed times */
    SPELLS_LED = 12,      /* since the leader's number of spells was seen to grow */
    CALM_MAX = 3,         /* distances between tries grow up to 2^3 times */
    ODD_MAX = 5,          /* spells in a row whose times have changed for good */
    PERIOD_MAX = 24,      /* spells; in longer periods the program does something else */
    CLOSE = 20,           /* percent by which they differ, if a try is to go on */
    CLEAR = 125,          /* percent of it, at which the first try needs no second one */
    SURE = 85,            /* percent of the time of the way in use: one try is enough */
    BAD = 120,            /* ... of each spell of a try that ends before its time */
    TERRIBLE = 220,       /* ... of the first spell that counts, which ends it at once */
};

/* ---- times --------------------------------------------------------------- */

static uint32_t time_for(uint64_t ns, uint64_t bytes, uint32_t messages)
{
    const uint64_t time = (ns < TIME_MAX ? ns : TIME_MAX) * UNIT /
                          (bytes + (uint64_t) messages * MESSAGE_COST);

    return time < 1 ? 1 : time < TIME_MAX ? (uint32_t) time : TIME_MAX;
}

/* Is a more than so many percent of b? */
static bool is_above(uint32_t a, unsigned percent, uint32_t b)
{
    return 100 * (uint64_t) a > percent * (uint64_t) b;
}

/* Does the program do little between the spells, so that periods can be compared? */
static bool is_near(const fab_shm_times_t *times)
{
    return times->period < PERIOD_MAX * (uint64_t) times->spell;
}

static bool is_other(uint32_t a, uint32_t b)
{
    return is_above(a, 130, b) || is_above(b, 130, a);
}

/* Are they about the same? */
static bool is_like(const fab_shm_times_t *a, const fab_shm_times_t *b)
{
    return !is_other(a->spell, b->spell) &&
           !(is_near(a) && is_near(b) && is_other(a->period, b->period));
}

static int by_value(const void *a, const void *b)
{
    const uint32_t x = *(const uint32_t *) a, y = *(const uint32_t *) b;

    return (x > y) - (x < y);
}

static uint32_t middle(uint32_t *times, uint32_t n)
{
    qsort(times, n, sizeof(*times), by_value);
    return (uint32_t) (((uint64_t) times[(n - 1) / 2] + times[n / 2]) / 2);
}

/* Of each time the median of n. */
static fab_shm_times_t median(const fab_shm_times_t *seen, uint32_t n)
{
    uint32_t period[FAB_SHM_TRY], spell[FAB_SHM_TRY];

    for (uint32_t i = 0; i < n; i++) {
        period[i] = seen[i].period;
        spell[i] = seen[i].spell;
    }
    return (fab_shm_times_t){.period = middle(period, n), .spell = middle(spell, n)};
}

/* ---- a trial ------------------------------------------------------------- */

static fab_shm_trial_t trial_begin(unsigned way, unsigned left, uint32_t dice)
{
    return (fab_shm_trial_t){.dice = dice,
                             .left = (uint16_t) left,
                             .way = (uint8_t) way,
                             .skip = SPELLS_SKIP,
                             .is_first = true};
}

static unsigned way_now(const fab_shm_trial_t *trial)
{
    return trial->is_trying ? !trial->way : trial->way;
}

/* 0 to 15 */
static unsigned dice(fab_shm_trial_t *trial)
{
    trial->dice = trial->dice * 1103515245 + 12345;
    return (trial->dice >> 16) % 16;
}

/*
 * Spells from a try to the next one, if the try had so many, which took so many percent of the time
 * by the way in use: the more tries cost, the fewer there are.
 */
static unsigned distance(unsigned percent, unsigned spells)
{
    const unsigned most = spells > 2 ? SPELLS_MOST : SPELLS_DOUBT;
    const unsigned paid = percent > 100 ? spells * (percent - 100) / TRY_COST : 0;

    return paid < SPELLS_LEAST ? SPELLS_LEAST : paid < most ? paid : most;
}

/* How long the way b takes, in percent of what a takes, by the same time of both. */
static unsigned compare(const fab_shm_times_t *a, const fab_shm_times_t *b)
{
    const bool by_period = is_near(a) && is_near(b);
    const uint64_t x = by_period ? b->period : b->spell, y = by_period ? a->period : a->spell;

    return (unsigned) (100 * x / y < 10000 ? 100 * x / y : 10000);
}

/* Has a try confirmed the way in use when it took such times? */
static bool is_known(const fab_shm_trial_t *trial, const fab_shm_times_t *times)
{
    unsigned i = 0;

    while (i < FAB_SHM_KNOWN && i < trial->num_known && !is_like(times, &trial->known[i])) {
        i++;
    }
    return i < FAB_SHM_KNOWN && i < trial->num_known;
}

/* The other way is faster: change to it. */
static void change(fab_shm_trial_t *trial, unsigned dots)
{
    trial->way = !trial->way;
    trial->calm = trial->quiet = 0;
    trial->num_known = 0;
    trial->left = (uint16_t) (SPELLS_CHANGED + dots);
    trial->num_seen--; /* the first one does not count */
    memmove(trial->seen, trial->seen + 1, trial->num_seen * sizeof(trial->seen[0]));
}

/*
 * Both take about the same time so far.  In old data each message that goes another way than the
 * ones before it is faster than the last, until the caches have what they need; so the try goes on,
 * once, which costs little.
 */
static bool is_to_go_on(fab_shm_trial_t *trial, unsigned percent)
{
    if (trial->is_long || percent > 100 + CLOSE || percent < 100 - CLOSE) {
        return false;
    }
    trial->is_long = true;
    trial->seen[0] = trial->seen[trial->num_seen - 1];
    trial->num_seen = 1;
    return true;
}

/* The try has ended, or goes on.  False: it leaves a doubt. */
static bool verdict(fab_shm_trial_t *trial)
{
    const fab_shm_times_t *a = &trial->of[trial->way], *b = &trial->of[!trial->way];
    unsigned percent, left, dots, spells;

    trial->of[!trial->way] = median(trial->seen + 1, trial->num_seen - 1);
    percent = compare(a, b);
    if (is_to_go_on(trial, percent)) {
        return false;
    }
    dots = dice(trial);
    spells = trial->num_seen;
    /* a spell that is much shorter is worth a little of the period */
    const bool is_better = percent < 98 || (percent < 104 && is_above(a->spell, 125, b->spell));
    const bool is_sure = trial->is_second || (trial->is_first ? is_better || percent > CLEAR
                                                              : !is_better || percent < SURE);
    trial->is_trying = trial->is_first = false;
    trial->is_second = !is_sure;
    trial->odd = 0;
    if (is_sure && !is_better && !is_known(trial, a)) {
        trial->known[trial->num_known++ % FAB_SHM_KNOWN] = *a;
    }
    if (is_sure && is_better) {
        change(trial, dots);
    } else {
        left = is_sure ? (distance(percent, spells) * (24 + dots) / 32) << trial->calm
                       : SPELLS_SECOND + FAB_SHM_TRY + dots / 2;
        trial->left = (uint16_t) (left - spells);
        trial->num_seen = 0;
        trial->skip = 1;
        trial->calm = (uint8_t) (is_sure && trial->calm < CALM_MAX ? trial->calm + 1 : trial->calm);
    }
    return is_sure;
}

/* Of the last spells of the way in use. */
static fab_shm_times_t times_now(const fab_shm_trial_t *trial)
{
    return median(trial->seen, trial->num_seen < FAB_SHM_BASE ? trial->num_seen : FAB_SHM_BASE);
}

/* A spell of the way in use: have its times changed for good, to unknown ones? */
static bool has_changed(fab_shm_trial_t *trial, const fab_shm_times_t *times)
{
    fab_shm_times_t *last = &trial->of[trial->way];

    if (trial->quiet > 0) {
        trial->quiet--;
        return false;
    }
    trial->odd = 0 == last->spell || is_like(times, last) ? 0 : trial->odd + 1;
    if (ODD_MAX != trial->odd) {
        return false;
    }
    *last = times_now(trial);
    trial->odd = 0;
    return !is_known(trial, last);
}

/* Begin to try the other way. */
static void try_other(fab_shm_trial_t *trial)
{
    trial->of[trial->way] = times_now(trial);
    trial->is_trying = true;
    trial->is_long = false;
    trial->num_seen = 0;
}

/* The peer leads: this is its way now. */
static void follow(fab_shm_trial_t *trial, unsigned way)
{
    trial->way = (uint8_t) way;
    trial->is_trying = trial->is_second = false;
    trial->of[0] = trial->of[1] = (fab_shm_times_t){0};
    trial->num_known = trial->num_seen = 0;
    trial->odd = 0;
    trial->skip = 1;
    trial->left = SPELLS_CHANGED;
}

static void use(fab_shm_trial_t *trial, const fab_shm_times_t *times, unsigned spells)
{
    trial->left = (uint16_t) (trial->left > spells ? trial->left - spells : 0);
    if (trial->skip > 0) {
        trial->skip = (uint8_t) (trial->skip > spells ? trial->skip - spells : 0);
        return;
    }
    trial->seen[trial->num_seen++ % FAB_SHM_BASE] = *times;
    if (has_changed(trial, times)) {
        trial->quiet = SPELLS_QUIET;
        try_other(trial);
    } else if (0 == trial->left) {
        try_other(trial);
    }
}

/* Have all spells of the try that count taken so long that it is to end? */
static bool is_bad(const fab_shm_trial_t *trial)
{
    const fab_shm_times_t *a = &trial->of[trial->way];
    const unsigned percent = trial->num_seen > 2 ? BAD : TERRIBLE;
    unsigned i = 1;

    while (i < trial->num_seen && is_above(trial->seen[i].spell, percent, a->spell) &&
           (is_above(trial->seen[i].period, percent, a->period) || !is_near(a))) {
        i++;
    }
    return i == trial->num_seen;
}

/* A spell took these times by this way, and is worth so many.  True: a verdict without a doubt. */
static bool note(fab_shm_trial_t *trial, unsigned way, const fab_shm_times_t *times,
                 unsigned spells)
{
    if (way != way_now(trial)) {
        return false; /* it was sent before its sender knew, or could go no other way */
    }
    if (!trial->is_trying) {
        use(trial, times, spells);
        return false;
    }
    trial->seen[trial->num_seen++] = *times;
    if (trial->num_seen > 1 && (FAB_SHM_TRY == trial->num_seen || is_bad(trial))) {
        return verdict(trial);
    }
    return false;
}

/* ---- all classes --------------------------------------------------------- */

void fab_shm_ways_init(fab_shm_ways_t *ways, uint64_t pair, bool is_leader)
{
    *ways = (fab_shm_ways_t){
        .is_leader = is_leader, .is_young = true, .dice = (uint32_t) (pair ^ pair >> 32)};
    ways->classes[0] = trial_begin(FAB_SHM_PUSH, SPELLS_FIRST, ways->dice);
}

static fab_shm_trial_t *trial_of(fab_shm_ways_t *ways, unsigned class)
{
    return &ways->classes[ways->is_young ? 0 : class];
}

/* The first verdict, by spells of this class: each class goes on by itself, and tries soon. */
static void grow_up(fab_shm_ways_t *ways, unsigned class)
{
    const fab_shm_trial_t first = ways->classes[0];

    for (unsigned c = 0; c < FAB_SHM_CLASSES; c++) {
        ways->classes[c] = trial_begin(first.way, SPELLS_CLASS, ways->dice + c);
    }
    ways->classes[class] = first;
    ways->is_young = false;
}

/* The last spell has this period. */
static void judge(fab_shm_ways_t *ways, uint64_t period)
{
    const fab_shm_times_t times = {.period = time_for(period, ways->counted, ways->messages),
                                   .spell = time_for(ways->took, ways->timed, ways->num_timed)};
    const bool is_sure = note(trial_of(ways, ways->class), ways->way, &times,
                              ways->is_young && ways->counted >= WARM ? 2 : 1);

    if (is_sure && ways->is_young) {
        grow_up(ways, ways->class);
    }
}

static void set_pulled(fab_shm_ways_t *ways)
{
    unsigned pulled = 0;

    for (unsigned c = 0; c < FAB_SHM_CLASSES; c++) {
        pulled |= way_now(trial_of(ways, c)) << c;
    }
    ways->pulled = (uint8_t) pulled;
}

/* Does the peer lead: does it receive messages of the last spell's class, too? */
static bool is_led(fab_shm_ways_t *ways, uint32_t peer)
{
    const uint16_t peer_spells = (uint16_t) (peer >> 16);

    if (ways->is_leader || 0 != (ways->refused >> ways->class & 1)) {
        return false;
    }
    if (peer_spells != ways->peer_spells && (peer >> 8 & 0xff) == ways->class) {
        ways->led = SPELLS_LED;
    } else if (ways->led > 0) {
        ways->led--;
    }
    ways->peer_spells = peer_spells;
    return ways->led > 0;
}

void fab_shm_spell_begin(fab_shm_ways_t *ways, uint64_t now, uint32_t peer)
{
    if (is_led(ways, peer)) {
        follow(trial_of(ways, ways->class), peer >> ways->class & 1);
    } else if (0 != ways->took && 0 != ways->counted &&
               /* a spell of many kinds of message says nothing of one */
               ways->counted >= ways->bytes - ways->bytes / 4) {
        judge(ways, now - ways->begun_at);
    }
    set_pulled(ways);
    ways->spells++;
    ways->begun_at = now;
    ways->took = ways->bytes = ways->counted = ways->messages = 0;
    ways->is_open = false;
}

bool fab_shm_spell_add(fab_shm_ways_t *ways, size_t len, unsigned way)
{
    const unsigned class = fab_shm_class(len);

    if (0 == ways->bytes) {
        ways->class = (uint8_t) class;
        ways->way = (uint8_t) way;
    }
    if (ways->class == class && ways->way == way) {
        ways->counted += len;
        ways->messages++;
    }
    ways->bytes += len;
    return ways->bytes >= FAB_SHM_SPELL_MAX || ways->messages >= FAB_SHM_BLOCK;
}

void fab_shm_spell_end(fab_shm_ways_t *ways, uint64_t now)
{
    ways->took = now > ways->begun_at ? now - ways->begun_at : 1;
    ways->timed = ways->counted;
    ways->num_timed = ways->messages;
}

bool fab_shm_ways_is_turn(fab_shm_ways_t *ways)
{
    const fab_shm_trial_t *trial = &ways->classes[0];
    const bool is_turn = trial->is_first || trial->is_trying || trial->is_second ||
                         0 == ways->short_ones++ % FAB_SHM_TURN;

    ways->spells += is_turn ? 0 : 1; /* the peer is to see that this end receives */
    return is_turn;
}

bool fab_shm_block_add(fab_shm_ways_t *ways, size_t len, bool is_last)
{
    if (!ways->is_open || ways->messages >= FAB_SHM_BLOCK) {
        return false;
    }
    ways->is_open = !is_last;
    (void) fab_shm_spell_add(ways, len, FAB_SHM_PUSH);
    return true;
}

void fab_shm_ways_refuse(fab_shm_ways_t *ways, size_t len)
{
    fab_shm_trial_t *trial = trial_of(ways, fab_shm_class(len));

    ways->refused |= (uint8_t) (1u << fab_shm_class(len));
    *trial = trial_begin(FAB_SHM_PUSH, SPELLS_DOUBT << CALM_MAX, trial->dice);
    trial->calm = CALM_MAX;
    set_pulled(ways);
}
