/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The choice of a receiver, for one peer: are the peer's long messages pushed, by the peer through
 * the ring (streams, and gets that the peer gives), or pulled, read by the receiver from the peer's
 * memory?
 *
 * Which is faster depends on the machine, on where the two processes run, on whether the data is
 * new, and on what both do besides.  So the receiver takes the time of whole spells.  A spell
 * begins with a long message while none is under way, and ends when none is, or after 1 MiB or 32
 * messages.  Two times count, both by the receiver's clock:
 *      spell    from its begin to its end
 *      period   from its begin to the begin of the next one.  This contains what a way costs
 *               besides: the sender's next writes, the reading of what came, the other direction
 * Messages of the first class may be pushed whole.  Then what comes while more is awaited is one
 * spell, a block: a window comes in bursts, with gaps in which this process sends its own, and both
 * are its cost.  Of a block, spell is the time of the first message.
 *
 * Messages of similar length are a class, which has a way of its own.  A class uses its way, and
 * now and then tries the other one for a few spells:
 *
 *      USE(way) ──after some spells──> TRY(other) ──slower──> USE(way), for longer than before
 *         ^                                │
 *         │                                ├──much faster, or in the first try──> USE(other)
 *         └──a second try, soon, decides───┴──faster
 *
 * The first spell of a try and the first one after it do not count: the data is still in the caches
 * where the other way left it.  Of the others the median counts, since some are delayed, and one
 * short time may be chance; but a try ends early if all of them take much longer, or the first one
 * that counts more than twice as long, and goes on if they take about as long.  The more a try has
 * cost, the later comes the next one.  If the times of the way in use change for good, the other
 * one is tried at once, unless a try has confirmed the way at such times before: programs return to
 * what they did.  Until the first verdict all classes share one trial; then each begins with that
 * way, and tries the other one soon.
 *
 * Of two processes that send to each other messages of one class, one leads: the other one takes
 * its way, and its tries, for what it receives.  If each chose for itself, both could be better off
 * with pushing, whose work the peer has, though both together are faster by pulling; or they could
 * stay with different ways, which is slower than either: a process that reads does not give.
 *
 * There is no clock in here: the caller says what time it is.  All under the fabric's lock.
 */
#ifndef FAB_SHM_WAYS_H
#define FAB_SHM_WAYS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { FAB_SHM_PUSH = 0, FAB_SHM_PULL = 1 };

enum {
    FAB_SHM_CLASSES = 8,         /* lengths up to 16 KiB, 32 KiB, ... 1 MiB, and more */
    FAB_SHM_TRY = 5,             /* spells of a try; the first one does not count */
    FAB_SHM_BASE = 4,            /* spells before a try that it is compared with */
    FAB_SHM_KNOWN = 4,           /* kinds of traffic for which a class remembers its way */
    FAB_SHM_SPELL_MAX = 1 << 20, /* bytes after which a spell ends */
    FAB_SHM_BLOCK = 32,          /* messages after which a spell ends */
    FAB_SHM_TURN = 8,            /* of so many pushed messages of the first class one is timed */
};

/* Times of a spell, ns per 64 KiB. */
typedef struct fab_shm_times {
    uint32_t period;
    uint32_t spell;
} fab_shm_times_t;

/* Which way a class goes; or, before the first verdict, all classes. */
typedef struct fab_shm_trial {
    fab_shm_times_t seen[FAB_SHM_TRY]; /* the last ones of the way in use, or those of the try */
    fab_shm_times_t of[2];             /* of each way, when the last try began and ended; or 0 */
    /* of the way in use, when tries began that confirmed it; the latest, once it is full */
    fab_shm_times_t known[FAB_SHM_KNOWN];
    uint32_t num_known; /* since the last change */
    uint32_t num_seen;
    uint32_t dice;
    uint16_t left;  /* spells until the next try */
    uint8_t way;    /* the way in use */
    uint8_t skip;   /* spells that do not count */
    uint8_t quiet;  /* spells in which changed times are no reason to try */
    uint8_t odd;    /* spells in a row whose times have changed */
    uint8_t calm;   /* tries that count, in a row, that confirmed the way */
    bool is_trying; /* the other way is tried */
    bool is_long;   /* ... for longer, as both take about the same time */
    bool is_first;  /* there was no verdict yet */
    bool is_second; /* the last try found the other way faster */
} fab_shm_trial_t;

typedef struct fab_shm_ways {
    fab_shm_trial_t classes[FAB_SHM_CLASSES]; /* the first one is that of all while is_young */
    uint32_t dice;                            /* of the pair */
    bool is_leader;
    bool is_young;        /* there was no verdict yet */
    uint8_t pulled;       /* bit c: messages of class c are to be pulled now */
    uint8_t refused;      /* the same: cannot be pulled */
    uint8_t led;          /* spells for which the peer, which leads, counts as receiving, too */
    uint16_t peer_spells; /* in the peer's word, when last seen */
    uint16_t spells;      /* begun */
    uint16_t short_ones;  /* messages of the first class that were pushed */
    /* the spell under way, or the last one */
    uint8_t class;     /* of the first message that came */
    uint8_t way;       /* that it took */
    uint32_t messages; /* of this class that took this way */
    uint64_t counted;  /* bytes of these */
    uint64_t bytes;    /* of all */
    uint64_t begun_at; /* ns */
    uint64_t took;     /* ns; 0: the spell has not ended */
    uint64_t timed;    /* of counted, what came in that time */
    uint32_t num_timed;
    bool is_open; /* more pushed messages of the first class belong to it: a block */
} fab_shm_ways_t;

/* The class of a message of len bytes, at least 1. */
static inline unsigned fab_shm_class(size_t len)
{
    const int log = 63 - __builtin_clzll((unsigned long long) (len - 1) | 1);

    return log < 14 ? 0 : log < 20 ? (unsigned) (log - 13) : FAB_SHM_CLASSES - 1;
}

/* The way of a message that begins now. */
static inline unsigned fab_shm_way_of(const fab_shm_ways_t *ways, size_t len)
{
    return ways->pulled >> fab_shm_class(len) & 1;
}

/*
 * What the peer has to know: bits 0 to 7 are pulled; of the leader also bits 8 to 15, the class of
 * the last spell, and 16 to 31, a quarter of the number of spells.  So a line goes to the peer with
 * each fourth spell only.
 */
static inline uint32_t fab_shm_ways_word(const fab_shm_ways_t *ways)
{
    return ways->pulled |
           (ways->is_leader ? (uint32_t) ways->class << 8 | (uint32_t) (ways->spells / 4) << 16
                            : 0);
}

/* pair: a number made from that of the pair.  is_leader: true at one end of it. */
void fab_shm_ways_init(fab_shm_ways_t *ways, uint64_t pair, bool is_leader);

/*
 * A spell begins now (ns).  The last one is judged, so ways may change.  peer: the peer's word; any
 * value is one.
 */
void fab_shm_spell_begin(fab_shm_ways_t *ways, uint64_t now, uint32_t peer);

/* A message of the spell has come by this way.  True: the spell is to end, it is long enough. */
bool fab_shm_spell_add(fab_shm_ways_t *ways, size_t len, unsigned way);

/* The spell ends now. */
void fab_shm_spell_end(fab_shm_ways_t *ways, uint64_t now);

/*
 * A message of the first class is being pushed: is its spell to be timed?  Each is while the class
 * has no verdict or tries, then one of FAB_SHM_TURN, since the clock costs some percent.
 */
bool fab_shm_ways_is_turn(fab_shm_ways_t *ways);

/*
 * A message of the first class comes whole, and it is the last one that is awaited, or not.  True:
 * it is of the block under way; false: a spell may begin with it.
 */
bool fab_shm_block_add(fab_shm_ways_t *ways, size_t len, bool is_last);

/* A message of len bytes could not be pulled: others of its class are pushed for long. */
void fab_shm_ways_refuse(fab_shm_ways_t *ways, size_t len);

#endif /* FAB_SHM_WAYS_H */
