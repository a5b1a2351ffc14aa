/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The choice between pushing and pulling long messages (shm_ways.h), on recorded machines.
 *
 * A model of two processes plays traffic; each message costs what machines.h says for the way that
 * the receiver chose, with noise.  Time is played, so each run is the same.  Compared is the cost
 * with that of the better way for each kind of message ("regret").
 *
 * TEST: sources=common/shm/shm_ways.c variants=asan,plain
 */
#include "shm/shm_ways.h"
#include "test_cmocka.h"

enum { SIZES = 7, SEEDS = 24, FIRST = 50, MESSAGES = 600 };

typedef enum traffic {
    PINGPONG_OLD, /* half a round trip of data that does not change */
    PINGPONG_NEW, /* ... that the program writes before and reads after */
    EXCHANGE_NEW, /* both at once */
    WINDOWS_OLD,  /* one way, many at once */
    TRAFFICS,
} traffic_t;

static const char *const traffic_names[] = {"ping-pong, old", "ping-pong, new", "exchange, new",
                                            "windows, old"};

typedef struct machine {
    const char *name;
    double us[TRAFFICS][2][SIZES];
} machine_t;

static const machine_t machines[] = {
#include "machines.h"
};

enum { MACHINES = sizeof(machines) / sizeof(machines[0]) };

/* ---- chance -------------------------------------------------------------- */

static uint64_t chance_state;

static double chance(void)
{
    chance_state = chance_state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (double) (chance_state >> 33) / 2147483648.0;
}

static unsigned chance_of(unsigned n)
{
    return (unsigned) (chance() * n);
}

/* A factor: about normal, around 1; one in fifty is a delay. */
static double noise(double level)
{
    double sum = -6;

    if (chance() < 0.02) {
        return 1.5 + 2.5 * chance();
    }
    for (int i = 0; i < 12; i++) {
        sum += chance();
    }
    return 1 + level * sum;
}

/* The mean of noise(). */
static const double noise_mean = 1 + 0.02 * 1.75;

/* ---- the model ----------------------------------------------------------- */

typedef struct plan {
    traffic_t traffic, other; /* the two in turn, each for so many messages */
    unsigned each;            /* 0: only the first */
    int size;                 /* index; -1: any */
    double noise;
    double computing; /* by the program, in each period; times the message's cost */
    double away;      /* part of the messages whose sender is not in MPI when it could push */
    double busy;      /* the other direction adds so much to what is pushed */
    bool is_drifting; /* the ends begin to try at different times */
    double mixture;   /* in exchanges, if the two ends use different ways: times the mean of both */
} plan_t;

typedef struct end {
    fab_shm_ways_t ways;
    uint64_t now; /* ns */
    unsigned last[SIZES];
    uint32_t peer; /* its word */
} end_t;

typedef struct sums {
    double cost, better;
    double constant[2]; /* by always the same way */
} sums_t;

/*
 * What the receiver's clock sees of a message from its begin to its end: not the sender's writes.
 */
static double spell_of(const double us[2], unsigned way, traffic_t traffic)
{
    const double pushed = 0.6 * us[FAB_SHM_PUSH];
    const double pulled = us[FAB_SHM_PULL] < 1.3 * us[FAB_SHM_PUSH] ? 0.85 * pushed
                                                                    : 0.6 * us[FAB_SHM_PULL];

    if (PINGPONG_OLD == traffic || WINDOWS_OLD == traffic) {
        return us[way];
    }
    return FAB_SHM_PUSH == way ? pushed : pulled < us[way] ? pulled : us[way];
}

static size_t bytes_of(int size)
{
    return (size_t) 16384 << size;
}

typedef struct message {
    unsigned way;
    double cost, spell;
} message_t;

/* One message to this end. */
static message_t play(end_t *end, const plan_t *plan, traffic_t traffic, int size,
                      const double us[2], double absence)
{
    message_t m = {.way = fab_shm_way_of(&end->ways, bytes_of(size))};
    const bool is_old = PINGPONG_OLD == traffic || WINDOWS_OLD == traffic;
    const bool is_fresh = FAB_SHM_PULL == m.way && FAB_SHM_PUSH == end->last[size] && is_old;
    const double factor = is_fresh ? 1.5 : 1; /* the source is not in the receiver's cache */

    m.cost = us[m.way] * factor;
    m.spell = spell_of(us, m.way, traffic) * factor;
    if (FAB_SHM_PUSH == m.way && chance() < plan->away) {
        m.cost = us[FAB_SHM_PULL] + absence;
        m.spell = spell_of(us, FAB_SHM_PULL, traffic) + absence;
    }
    end->last[size] = m.way;
    m.cost *= noise(plan->noise);
    m.spell *= noise(plan->noise / 2);
    return m;
}

/* The message has come; the next one begins after this period. */
static void note(end_t *end, int size, const message_t *m, double spell, double period)
{
    (void) fab_shm_spell_add(&end->ways, bytes_of(size), m->way);
    fab_shm_spell_end(&end->ways, end->now + (uint64_t) (1000 * spell));
    end->now += (uint64_t) (1000 * period);
    fab_shm_spell_begin(&end->ways, end->now, end->peer);
}

static void end_begin_as(end_t *end, uint64_t pair, bool is_leader)
{
    memset(end, 0, sizeof(*end));
    end->now = 1000000;
    fab_shm_ways_init(&end->ways, pair, is_leader);
    fab_shm_spell_begin(&end->ways, end->now, 0);
}

static void end_begin(end_t *end)
{
    end_begin_as(end, 12345, true);
}

/* What each end has published is there for the other one; or not yet. */
static void see(end_t ends[2], bool is_there)
{
    for (int e = 0; is_there && e < 2; e++) {
        ends[e].peer = fab_shm_ways_word(&ends[!e].ways);
    }
}

static void add(sums_t *sums, double cost, double better, const double us[2], double more)
{
    sums->cost += cost;
    sums->better += better;
    for (int way = 0; way < 2; way++) {
        sums->constant[way] += us[way] + more;
    }
}

/* Message number i of this plan. */
static void step(end_t ends[2], const machine_t *machine, const plan_t *plan, unsigned i,
                 sums_t *sums)
{
    const traffic_t traffic = 0 != plan->each && 0 != i / plan->each % 2 ? plan->other
                                                                         : plan->traffic;
    const int size = plan->size >= 0 ? plan->size : (int) chance_of(SIZES);
    const double us[2] = {machine->us[traffic][0][size] * (1 + plan->busy),
                          machine->us[traffic][1][size]};
    const double absence = 1 + (double) bytes_of(size) / 512e3;
    const double pushed = (1 - plan->away) * us[0] + plan->away * (us[1] + absence);
    const double better = pushed < us[1] ? pushed : us[1];
    const double computing = plan->computing * better;
    const double real[2] = {pushed, us[1]};

    see(ends, true);
    const message_t a = play(&ends[0], plan, traffic, size, us, absence);
    message_t b;
    double period;

    if (WINDOWS_OLD == traffic) {
        note(&ends[0], size, &a, a.cost, a.cost + computing);
        add(sums, a.cost + computing, better + computing, real, computing);
        return;
    }
    b = play(&ends[1], plan, traffic, size, us, absence);
    if (EXCHANGE_NEW == traffic) {
        period = (a.cost + b.cost) / 2 * (a.way == b.way ? 1 : plan->mixture) +
                 computing * noise(0.02);
        note(&ends[0], size, &a, 0.9 * period, period);
        see(ends, chance() < 0.5); /* which end begins first is chance */
        note(&ends[1], size, &b, 0.9 * period, period);
        add(sums, period, better + computing, real, computing);
    } else {
        period = a.cost + b.cost + 2 * computing * noise(0.02);
        note(&ends[0], size, &a, a.spell, period);
        see(ends, true);
        note(&ends[1], size, &b, b.spell, period);
        add(sums, period / 2, better + computing, real, computing);
    }
}

typedef struct regret {
    double first;       /* of the first messages */
    double later;       /* of the others */
    double of_constant; /* of the others, by the better constant way */
} regret_t;

static regret_t run(const machine_t *machine, const plan_t *plan, unsigned messages)
{
    sums_t first = {0}, later = {0};
    regret_t sum = {0};

    for (unsigned seed = 0; seed < SEEDS; seed++) {
        end_t ends[2];
        memset(&first, 0, sizeof(first));
        memset(&later, 0, sizeof(later));
        chance_state = (seed + 1) * UINT64_C(0x9e3779b97f4a7c15);
        end_begin(&ends[0]);
        end_begin_as(&ends[1], plan->is_drifting ? 54321 + seed : 12345, false);
        for (unsigned i = 0; i < messages; i++) {
            step(ends, machine, plan, i, i < FIRST ? &first : &later);
        }
        sum.first += first.cost / first.better / noise_mean / SEEDS;
        sum.later += later.cost / later.better / noise_mean / SEEDS;
        sum.of_constant += later.cost / noise_mean / SEEDS /
                           (later.constant[0] < later.constant[1] ? later.constant[0]
                                                                  : later.constant[1]);
    }
    return sum;
}

/* ---- recorded machines --------------------------------------------------- */

static bool is_bad(const machine_t *machine, const char *what, const plan_t *plan,
                   const regret_t *regret, bool is_over)
{
    if (is_over) {
        print_error(
            "%s, %s, size %d, noise %.2f%s: the first messages %.3f, later %.3f, of the better "
            "constant way %.3f\n",
            machine->name, what, plan->size, plan->noise, plan->is_drifting ? ", drifting" : "",
            regret->first, regret->later, regret->of_constant);
    }
    return is_over;
}

/* The bounds of steady traffic; one that changes each 200 messages has to be found out again. */
static bool is_over(const machine_t *machine, const char *what, const plan_t *plan,
                    unsigned messages)
{
    const regret_t regret = run(machine, plan, messages);

    return is_bad(machine, what, plan, &regret,
                  regret.first > 1.3 || regret.later > (plan->each > 0 ? 1.15 : 1.1));
}

static int steady_over(double noise_level, bool is_drifting, double mixture)
{
    int over = 0;

    for (int m = 0; m < MACHINES; m++) {
        for (int t = 0; t < TRAFFICS; t++) {
            for (int size = 0; size < SIZES; size++) {
                const plan_t plan = {.traffic = (traffic_t) t,
                                     .size = size,
                                     .noise = noise_level,
                                     .is_drifting = is_drifting,
                                     .mixture = mixture};
                over += is_over(&machines[m], traffic_names[t], &plan, MESSAGES);
            }
        }
    }
    return over;
}

/* Each traffic and size by itself; a second level of noise, as on a machine that is not quiet. */
static void steady_traffic(void **state)
{
    (void) state;
    assert_int_equal(steady_over(0.03, false, 1.05), 0);
    assert_int_equal(steady_over(0.08, false, 2), 0);
}

/* The same if the ends try at different times. */
static void drifting_ends(void **state)
{
    (void) state;
    assert_int_equal(steady_over(0.03, true, 1.05), 0);
    assert_int_equal(steady_over(0.08, true, 2), 0);
}

static const struct {
    const char *what;
    unsigned messages;
    plan_t plan;
} cases[] = {
    {"ping-pong, old and new in turn",
     1000,
     {PINGPONG_OLD, PINGPONG_NEW, 200, 2, 0.03, 0, 0, 0, false, 1.5}},
    {"windows and exchanges in turn",
     1000,
     {WINDOWS_OLD, EXCHANGE_NEW, 200, 4, 0.03, 0, 0, 0, false, 1.5}},
    {"sizes mixed, ping-pong, new", 4000, {PINGPONG_NEW, 0, 0, -1, 0.03, 0, 0, 0, false, 1.5}},
    {"sizes mixed, windows", 4000, {WINDOWS_OLD, 0, 0, -1, 0.03, 0, 0, 0, false, 1.5}},
    {"the program computes five times as long",
     1000,
     {PINGPONG_NEW, 0, 0, 4, 0.03, 5, 0, 0, false, 1.5}},
    {"giver away half of the time", 1000, {PINGPONG_OLD, 0, 0, 2, 0.03, 0, 0.5, 0, false, 1.5}},
    {"giver away half of the time, new",
     1000,
     {PINGPONG_NEW, 0, 0, 4, 0.03, 0, 0.5, 0, false, 1.5}},
    {"other direction busy", 1000, {PINGPONG_OLD, 0, 0, 3, 0.03, 0, 0, 0.25, false, 1.5}},
    {"other direction busy, new", 1000, {EXCHANGE_NEW, 0, 0, 3, 0.03, 0, 0, 0.25, false, 1.5}},
};

static void other_traffic(void **state)
{
    int over = 0;

    (void) state;
    for (int m = 0; m < MACHINES; m++) {
        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
            over += is_over(&machines[m], cases[i].what, &cases[i].plan, cases[i].messages);
        }
    }
    assert_int_equal(over, 0);
}

/* Short messages tell this end that this way is the faster one. */
static void tell(end_t *end, unsigned way)
{
    const double us[2] = {10, FAB_SHM_PULL == way ? 5 : 30};

    for (int i = 0; end->ways.is_young; i++) {
        const message_t m = {.way = fab_shm_way_of(&end->ways, bytes_of(0))};
        assert_true(i < 50);
        note(end, 0, &m, us[m.way], 1.2 * us[m.way]);
    }
}

static double told_run(const machine_t *machine, const plan_t *plan, const unsigned told[2])
{
    double regret = 0;

    for (unsigned seed = 0; seed < SEEDS; seed++) {
        sums_t sums = {0};
        end_t ends[2];
        chance_state = (seed + 1) * UINT64_C(0x9e3779b97f4a7c15);
        for (int i = 0; i < 2; i++) {
            end_begin_as(&ends[i], 12345 + seed, 0 == i);
            tell(&ends[i], told[i]);
        }
        for (unsigned i = 0; i < 400; i++) {
            step(ends, machine, plan, i, &sums);
        }
        regret += sums.cost / sums.better / noise_mean / SEEDS;
    }
    return regret;
}

/*
 * Short messages, the first ones, say nothing of long ones; and what they have said to one end, or
 * to both, or in another way to each, is soon forgotten.
 */
static void short_messages_first(void **state)
{
    static const unsigned told[][2] = {{0, 0}, {0, 1}, {1, 0}, {1, 1}};
    int over = 0;

    (void) state;
    for (int m = 0; m < MACHINES; m++) {
        for (int t = 0; t < TRAFFICS; t++) {
            for (int k = 0; k < 4 * (SIZES - 1); k++) {
                const plan_t plan = {
                    .traffic = (traffic_t) t, .size = 1 + k / 4, .noise = 0.05, .mixture = 1.05};
                const double regret = told_run(&machines[m], &plan, told[k % 4]);
                if (regret > 1.15) {
                    print_error("%s, %s, size %d, told %u and %u: %.3f\n", machines[m].name,
                                traffic_names[t], plan.size, told[k % 4][0], told[k % 4][1],
                                regret);
                    over++;
                }
            }
        }
    }
    assert_int_equal(over, 0);
}

/*
 * What a benchmark does: 110 messages of each size, the sizes in order.  Finding out costs so much
 * of the time by the better way.
 */
static void sizes_in_order(void **state)
{
    int over = 0;

    (void) state;
    for (int m = 0; m < MACHINES; m++) {
        for (int t = 0; t < TRAFFICS; t++) {
            double regret = 0;
            for (unsigned seed = 0; seed < SEEDS; seed++) {
                end_t ends[2];
                chance_state = (seed + 1) * UINT64_C(0x9e3779b97f4a7c15);
                end_begin_as(&ends[0], 12345 + seed, true);
                end_begin_as(&ends[1], 54321 + seed, false);
                for (int size = 0; size < SIZES; size++) {
                    const plan_t plan = {
                        .traffic = (traffic_t) t, .size = size, .noise = 0.05, .mixture = 1.5};
                    sums_t sums = {0};
                    for (unsigned i = 0; i < 110; i++) {
                        step(ends, &machines[m], &plan, i, &sums);
                    }
                    regret += sums.cost / sums.better / noise_mean / SEEDS / SIZES;
                }
            }
            if (regret > 1.09) {
                print_error("%s, %s, sizes in order: %.3f\n", machines[m].name, traffic_names[t],
                            regret);
                over++;
            }
        }
    }
    assert_int_equal(over, 0);
}

/*
 * Data that is old and new in turn, faster than can be found out: not much above the better way for
 * all of it.
 */
static void fast_turns(void **state)
{
    static const unsigned each[] = {1, 3, 10, 30, 100};
    int over = 0;

    (void) state;
    for (int m = 0; m < MACHINES; m++) {
        for (int size = 0; size < SIZES; size++) {
            for (int e = 0; e < 5; e++) {
                const plan_t plan = {.traffic = PINGPONG_OLD,
                                     .other = PINGPONG_NEW,
                                     .each = each[e],
                                     .size = size,
                                     .noise = 0.03,
                                     .mixture = 1.5};
                const regret_t regret = run(&machines[m], &plan, 1000);
                over += is_bad(&machines[m], "fast turns", &plan, &regret,
                               regret.of_constant > 1.2);
            }
        }
    }
    assert_int_equal(over, 0);
}

/* ---- changes --------------------------------------------------------------- */

/* The cost of a message of 64 KiB in us by each way; the two ends are alike. */
static unsigned messages_until(end_t *end, double push, double pull, unsigned way)
{
    const double us[2] = {push, pull};
    unsigned n = 0, settled = 0;

    while (settled < 10 && n < 1000) {
        const message_t m = {.way = fab_shm_way_of(&end->ways, 65536)};
        note(end, 2, &m, us[m.way], us[m.way] * 1.5);
        settled = way == m.way ? settled + 1 : 0;
        n++;
    }
    return n - settled;
}

/* Which way is faster changes. */
static void changes_are_found(void **state)
{
    end_t end;

    (void) state;
    end_begin(&end);
    assert_int_equal(0, fab_shm_way_of(&end.ways, 65536)); /* pushed, until more is known */
    assert_true(messages_until(&end, 10, 5, FAB_SHM_PULL) <= 10);
    for (int i = 0; i < 20; i++) {
        (void) messages_until(&end, 10, 5, FAB_SHM_PULL);
        assert_true(messages_until(&end, 5, 10, FAB_SHM_PUSH) <= 20);
        for (int k = 0; k < 50 * i; k++) {
            (void) messages_until(&end, 5, 10, FAB_SHM_PUSH); /* the longer, the fewer tries */
        }
        assert_true(messages_until(&end, 10, 5, FAB_SHM_PULL) <= 20);
    }
}

/* The first try begins with the third message of 256 KiB or more, with the fifth shorter one. */
static void first_try(void **state)
{
    (void) state;
    for (int size = 0; size < SIZES; size++) {
        unsigned n = 0;
        end_t end;
        end_begin(&end);
        while (FAB_SHM_PUSH == fab_shm_way_of(&end.ways, bytes_of(size)) && n < 100) {
            note(&end, size, &(message_t){.way = FAB_SHM_PUSH}, 10, 12);
            n++;
        }
        assert_int_equal(n, bytes_of(size) < 262144 ? 4 : 2);
    }
}

/*
 * A machine on which the other way never pays: how many messages go that way?  The second time each
 * message takes twice as long now and then; that is tried once, not at each change.
 */
static void tries_are_few(void **state)
{
    static const double us[2] = {10, 30};

    (void) state;
    for (int kinds = 1; kinds <= 2; kinds++) {
        unsigned pulled = 0;
        end_t end;
        end_begin(&end);
        for (int i = 0; i < 10000; i++) {
            const message_t m = {.way = fab_shm_way_of(&end.ways, 65536)};
            const double took = us[m.way] * (1 + i / 50 % kinds);
            note(&end, 2, &m, took, took);
            pulled += FAB_SHM_PULL == m.way;
        }
        assert_true(pulled >= 10 && pulled <= 60);
    }
}

/*
 * Old data of 4 MiB, recorded: the caches take some messages to get what pulling needs, so the
 * first ones that are pulled take as long as the pushed ones.
 */
static void better_by_and_by(void **state)
{
    static const double pull[] = {53, 19, 10.5, 8.4, 9.7, 7, 5.5};
    const unsigned last = sizeof(pull) / sizeof(pull[0]) - 1;
    unsigned pulled = 0, in_a_row = 0;
    end_t end;

    (void) state;
    end_begin(&end);
    for (int i = 0; i < 400; i++) {
        const message_t m = {.way = fab_shm_way_of(&end.ways, bytes_of(6))};
        const double us = FAB_SHM_PUSH == m.way ? 10 : pull[in_a_row < last ? in_a_row : last];
        note(&end, 6, &m, us, 1.05 * us);
        in_a_row = FAB_SHM_PULL == m.way ? in_a_row + 1 : 0;
        pulled += i >= 200 && FAB_SHM_PULL == m.way;
    }
    assert_true(pulled >= 150);
}

/* ---- edges ----------------------------------------------------------------- */

static void classes(void **state)
{
    static const size_t last[] = {16384, 32768, 65536, 131072, 262144, 524288, 1048576};

    (void) state;
    assert_int_equal(0, fab_shm_class(1));
    for (unsigned c = 0; c < FAB_SHM_CLASSES - 1; c++) {
        assert_int_equal(c, fab_shm_class(last[c]));
        assert_int_equal(c + 1, fab_shm_class(last[c] + 1));
    }
    assert_int_equal(FAB_SHM_CLASSES - 1, fab_shm_class(SIZE_MAX));
}

/* Peers are chosen for one by one. */
static void peers_differ(void **state)
{
    end_t a, b;

    (void) state;
    end_begin(&a);
    end_begin(&b);
    for (int i = 0; i < 20; i++) {
        (void) messages_until(&a, 10, 5, FAB_SHM_PULL);
        (void) messages_until(&b, 5, 10, FAB_SHM_PUSH);
    }
    assert_int_equal(FAB_SHM_PULL, fab_shm_way_of(&a.ways, 65536));
    assert_int_equal(FAB_SHM_PUSH, fab_shm_way_of(&b.ways, 65536));
}

/* A spell of messages of several classes says nothing, nor do messages that went another way. */
static void what_does_not_count(void **state)
{
    end_t end;

    (void) state;
    end_begin(&end);
    for (int i = 0; i < 100; i++) {
        (void) fab_shm_spell_add(&end.ways, 40000, FAB_SHM_PUSH);
        (void) fab_shm_spell_add(&end.ways, 80000, FAB_SHM_PUSH);
        fab_shm_spell_end(&end.ways, end.now += 1000);
        fab_shm_spell_begin(&end.ways, end.now, 0);
        assert_int_equal(0, end.ways.pulled);
    }
    for (int i = 0; i < 100; i++) {
        const message_t m = {.way = FAB_SHM_PUSH};
        note(&end, 2, &m, 10, 10);
    }
    assert_int_equal(0xff, end.ways.pulled); /* is tried, but the sender goes on to push */
    assert_true(end.ways.is_young);
}

/*
 * Windows both ways, so many that spells follow each other.  By pushing an end receives sooner, but
 * its peer has the work: the window ends when both have all.  Both ends find what is better for
 * both.
 */
static void not_at_the_peers_cost(void **state)
{
    static const struct {
        double pull, push, give; /* us */
    } all[] = {{8, 5, 8}, {8, 7, 3}, {12, 5, 4}, {20, 6, 6}, {6, 6, 6}};

    (void) state;
    for (size_t k = 0; k < sizeof(all) / sizeof(all[0]); k++) {
        const double us[2] = {all[k].push + all[k].give, all[k].pull};
        const double better = us[0] < us[1] ? us[0] : us[1];
        double sum = 0;
        end_t ends[2];
        chance_state = k + 1;
        end_begin(&ends[0]);
        end_begin_as(&ends[1], 12345, false);
        for (unsigned i = 0; i < FIRST + MESSAGES; i++) {
            message_t m[2];
            double took[2];
            see(ends, true);
            for (int e = 0; e < 2; e++) {
                m[e].way = fab_shm_way_of(&ends[e].ways, bytes_of(4));
            }
            for (int e = 0; e < 2; e++) {
                took[e] = noise(0.05) * ((FAB_SHM_PUSH == m[e].way ? all[k].push : all[k].pull) +
                                         (FAB_SHM_PUSH == m[!e].way ? all[k].give : 0));
                note(&ends[e], 4, &m[e], took[e], took[e]);
            }
            sum += i < FIRST ? 0 : took[0] > took[1] ? took[0] : took[1];
        }
        if (sum / MESSAGES > 1.2 * better) {
            print_error("pushed %.0f, pulled %.0f us: %.1f\n", us[0], us[1], sum / MESSAGES);
        }
        assert_true(sum / MESSAGES < 1.2 * better);
    }
}

/* A word of the peer, of so many spells of this class; the leader heeds none. */
static void led(void **state)
{
    const unsigned class = fab_shm_class(40000);
    end_t ends[2];

    (void) state;
    end_begin(&ends[0]);
    end_begin_as(&ends[1], 12345, false);
    for (int i = 0; i < 2 * 12 + 4; i++) {
        const uint32_t spells = i < 12 ? (uint32_t) i / 4 : 3;
        for (int e = 0; e < 2; e++) {
            (void) fab_shm_spell_add(&ends[e].ways, 40000, FAB_SHM_PUSH);
            fab_shm_spell_end(&ends[e].ways, ends[e].now += 1000);
            fab_shm_spell_begin(&ends[e].ways, ends[e].now,
                                1u << class | class << 8 | spells << 16);
        }
        if (i < 3) { /* the leader has not tried yet */
            assert_int_equal(0, ends[0].ways.pulled);
        }
        if (i < 24 && 3 != i) { /* led until 12 spells after the last one; at 3 it tries itself */
            assert_int_equal(i >= 4, ends[1].ways.pulled >> class & 1);
        }
    }
    assert_int_equal(0, ends[1].ways.led); /* the peer has received nothing since */
    assert_int_equal(0, ends[0].ways.led);
    /* what the peer receives is of another class */
    end_begin_as(&ends[1], 12345, false);
    for (uint32_t i = 1; i < 4; i++) {
        (void) fab_shm_spell_add(&ends[1].ways, 40000, FAB_SHM_PUSH);
        fab_shm_spell_end(&ends[1].ways, ends[1].now += 1000);
        fab_shm_spell_begin(&ends[1].ways, ends[1].now, 0xff | (class + 1) << 8 | i << 16);
        assert_int_equal(0, ends[1].ways.pulled);
    }
}

/*
 * Messages of the first class, in turn with shm_coop.c: all are timed until there is a verdict, and
 * while the class tries; then one of eight, which is enough to find a change, and the peer sees
 * that others come, too.
 */
static void short_ones(void **state)
{
    double us[2] = {10, 30};
    unsigned timed = 0, changed = 0, spells;
    end_t end;

    (void) state;
    end_begin(&end);
    for (int i = 0; i < 4000; i++) {
        const unsigned way = fab_shm_way_of(&end.ways, 12000);
        const bool is_turn = FAB_SHM_PULL == way || fab_shm_ways_is_turn(&end.ways);
        if (end.ways.is_young) {
            assert_true(is_turn);
        }
        if (2000 == i) {
            assert_true(timed > 250 && timed < 400);
            us[FAB_SHM_PULL] = 3;
            us[FAB_SHM_PUSH] = 14;
            spells = fab_shm_ways_word(&end.ways) >> 16;
            assert_true(spells >= 480 && spells <= 640);
        }
        if (is_turn || end.ways.took > 0) {
            fab_shm_spell_begin(&end.ways, end.now, 0);
        }
        if (is_turn) {
            (void) fab_shm_spell_add(&end.ways, 12000, way);
            fab_shm_spell_end(&end.ways, end.now + (uint64_t) (1000 * us[way]));
        }
        timed += is_turn;
        end.now += (uint64_t) (1200 * us[way]);
        changed += i >= 2000 && FAB_SHM_PULL == way;
    }
    assert_true(changed > 1700);
}

/*
 * Windows of short messages, in turn with shm_coop.c.  What is pushed comes in bursts, between
 * which this process sends its own: most messages take little, and the gaps are what pushing costs.
 */
static void bursts(void **state)
{
    enum { WINDOW = 64, WINDOWS = 200, BURST = 16, LENGTH = 16384 };
    static const double pulls[] = {1, 3}; /* us; pushed ones take 2 with their part of the gap */

    (void) state;
    for (int k = 0; k < 2; k++) {
        unsigned pulled = 0;
        end_t end;
        end_begin(&end);
        for (int i = 0; i < WINDOW * WINDOWS; i++) {
            const bool is_first = 0 == i % WINDOW, is_last = WINDOW - 1 == i % WINDOW;
            fab_shm_ways_t *ways = &end.ways;
            const unsigned way = fab_shm_way_of(ways, LENGTH);
            if (FAB_SHM_PULL == way) {
                if (is_first || end.last[0] != way) {
                    fab_shm_spell_begin(ways, end.now, 0);
                }
                end.now += (uint64_t) (1000 * pulls[k]);
                if (fab_shm_spell_add(ways, LENGTH, way) || is_last) {
                    fab_shm_spell_end(ways, end.now);
                }
                if (ways->took > 0 && !is_last) {
                    fab_shm_spell_begin(ways, end.now, 0);
                }
            } else {
                if (!fab_shm_block_add(ways, LENGTH, is_last) &&
                    (fab_shm_ways_is_turn(ways) || ways->took > 0)) {
                    fab_shm_spell_begin(ways, end.now, 0);
                    (void) fab_shm_spell_add(ways, LENGTH, way);
                    fab_shm_spell_end(ways, end.now + 500);
                    ways->is_open = !is_last;
                }
                end.now += BURST - 1 == i % BURST ? 24500 : 500;
            }
            end.last[0] = way;
            pulled += FAB_SHM_PULL == way;
        }
        if (0 == k) {
            assert_true(pulled > 9 * WINDOW * WINDOWS / 10);
        } else {
            assert_true(pulled < WINDOW * WINDOWS / 10);
        }
    }
}

/* A spell ends after 1 MiB, or 32 messages. */
static void spells_are_short(void **state)
{
    end_t end;

    (void) state;
    end_begin(&end);
    for (int i = 1; i < 16; i++) {
        assert_false(fab_shm_spell_add(&end.ways, 65536, FAB_SHM_PUSH));
    }
    assert_true(fab_shm_spell_add(&end.ways, 65536, FAB_SHM_PUSH));
    fab_shm_spell_end(&end.ways, end.now);
    fab_shm_spell_begin(&end.ways, end.now, 0);
    for (int i = 1; i < FAB_SHM_BLOCK; i++) {
        assert_false(fab_shm_spell_add(&end.ways, 10000, FAB_SHM_PUSH));
    }
    assert_true(fab_shm_spell_add(&end.ways, 10000, FAB_SHM_PUSH));
}

/* Memory that cannot be read is not tried for long; other lengths are. */
static void refused(void **state)
{
    end_t end;

    (void) state;
    end_begin(&end);
    (void) messages_until(&end, 10, 5, FAB_SHM_PULL);
    assert_int_equal(FAB_SHM_PULL, fab_shm_way_of(&end.ways, 65536));
    fab_shm_ways_refuse(&end.ways, 65536);
    assert_int_equal(FAB_SHM_PUSH, fab_shm_way_of(&end.ways, 65536));
    assert_int_equal(FAB_SHM_PULL, fab_shm_way_of(&end.ways, 100000));
    assert_true(messages_until(&end, 10, 5, FAB_SHM_PULL) > 500);
}

/* Times that no clock shows: none, and centuries. */
static void extreme_times(void **state)
{
    end_t end;

    (void) state;
    end_begin(&end);
    for (int i = 0; i < 1000; i++) {
        const uint64_t took = 0 == i % 3 ? 0 : UINT64_MAX / 4;
        (void) fab_shm_spell_add(&end.ways, 0 == i % 2 ? 1 : SIZE_MAX / 2,
                                 fab_shm_way_of(&end.ways, 0 == i % 2 ? 1 : SIZE_MAX / 2));
        fab_shm_spell_end(&end.ways, end.now + took);
        end.now += took;
        fab_shm_spell_begin(&end.ways, end.now, 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(steady_traffic),
        cmocka_unit_test(drifting_ends),
        cmocka_unit_test(other_traffic),
        cmocka_unit_test(short_messages_first),
        cmocka_unit_test(sizes_in_order),
        cmocka_unit_test(fast_turns),
        cmocka_unit_test(changes_are_found),
        cmocka_unit_test(first_try),
        cmocka_unit_test(tries_are_few),
        cmocka_unit_test(better_by_and_by),
        cmocka_unit_test(classes),
        cmocka_unit_test(peers_differ),
        cmocka_unit_test(what_does_not_count),
        cmocka_unit_test(not_at_the_peers_cost),
        cmocka_unit_test(led),
        cmocka_unit_test(short_ones),
        cmocka_unit_test(bursts),
        cmocka_unit_test(spells_are_short),
        cmocka_unit_test(refused),
        cmocka_unit_test(extreme_times),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
