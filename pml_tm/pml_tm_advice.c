/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the numbers of a job say.
 */
#include "pml_tm_advice.h"

#include <stdbool.h>
#include <stdio.h>

enum {
    MANY = 1000,      /* messages, below which shares of them say nothing */
    UNEXPECTED = 20,  /* percent of the messages received */
    QUEUED = 5,       /* percent of the messages sent */
    LISTED = 50,      /* percent of the receives, where a device matches tags */
    WAITED = 10,      /* percent of the time, in mean */
    WAITED_FOR = 33,  /* percent of that, for one rank */
    WAITED_MS = 1000, /* below which waiting says nothing, in all ranks */
};

double mca_pml_tm_share(uint64_t part, uint64_t whole)
{
    return 0 == whole ? 0 : 100.0 * (double) part / (double) whole;
}

uint64_t mca_pml_tm_report_sent(const uint64_t *v)
{
    return v[PML_TM_REPORT_EAGER] + v[PML_TM_REPORT_STREAMED] + v[PML_TM_REPORT_RNDV];
}

/* ---- adding up ---------------------------------------------------------- */

static uint64_t max(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

uint64_t mca_pml_tm_vote(uint64_t a, uint64_t b)
{
    const uint64_t more = max(a, b), less = a < b ? a : b;
    const uint32_t rank = mca_pml_tm_ranked_rank(more);
    const bool is_same = rank == mca_pml_tm_ranked_rank(less);

    return mca_pml_tm_ranked(is_same
                                 ? mca_pml_tm_ranked_number(more) + mca_pml_tm_ranked_number(less)
                                 : mca_pml_tm_ranked_number(more) - mca_pml_tm_ranked_number(less),
                             rank);
}

void mca_pml_tm_report_add(uint64_t *values, unsigned which, uint64_t value)
{
    if (PML_TM_REPORT_WAITED_FOR == which) {
        values[which] = mca_pml_tm_vote(values[which], value);
    } else if (which <= PML_TM_REPORT_LAST_SUM || PML_TM_REPORT_RANKS == which) {
        values[which] += value;
    } else {
        values[which] = max(values[which], value);
    }
}

/* ---- what to do --------------------------------------------------------- */

/* Writes the sentence. False: it is not due, and buf is unchanged or nonsense. */
typedef bool (*rule_t)(const uint64_t *v, char *buf, size_t size);

static bool say(char *buf, size_t size, const char *sentence)
{
    snprintf(buf, size, "%s", sentence);
    return true;
}

static bool is_cma_refused(const uint64_t *v, char *buf, size_t size)
{
    return 0 != v[PML_TM_REPORT_CMA_REFUSED] && 0 != v[PML_TM_REPORT_NO_GET] &&
           say(buf, size,
               "the kernel does not let ranks of a host read each other's memory, long messages "
               "were copied twice: doc/troubleshooting.md (shm_cma_refused)");
}

static bool is_waiting(const uint64_t *v, char *buf, size_t size)
{
    const uint64_t waited = v[PML_TM_REPORT_WAITED_MS];
    const uint64_t for_one = v[PML_TM_REPORT_WAITED_FOR];
    const double share = mca_pml_tm_share(mca_pml_tm_ranked_number(for_one), waited);

    if (waited < WAITED_MS || mca_pml_tm_share(waited, v[PML_TM_REPORT_RUN_MS]) < WAITED ||
        share < WAITED_FOR) {
        return false;
    }
    snprintf(
        buf, size,
        "ranks waited for rank %u in at least %.0f %% of all waiting: it is late; give it less "
        "to do",
        mca_pml_tm_ranked_rank(for_one), share);
    return true;
}

static bool is_unexpected(const uint64_t *v, char *buf, size_t size)
{
    const uint64_t received = v[PML_TM_REPORT_EXPECTED] + v[PML_TM_REPORT_UNEXPECTED];

    return received >= MANY &&
           mca_pml_tm_share(v[PML_TM_REPORT_UNEXPECTED], received) > UNEXPECTED &&
           say(buf, size,
               "more than a fifth of the messages came before their receive, and were copied once "
               "more: post receives earlier (unexpected)");
}

/* By other ways than shared memory they are queued, too, and no ring is too short. */
static bool is_queued(const uint64_t *v, char *buf, size_t size)
{
    const uint64_t sent = mca_pml_tm_report_sent(v);

    return sent >= MANY && 0 != v[PML_TM_REPORT_RING_FULL] &&
           mca_pml_tm_share(v[PML_TM_REPORT_QUEUED], sent) > QUEUED &&
           say(buf, size,
               "more than one send in twenty found no room: a larger pml_tm_shm_ring_size takes "
               "longer bursts (queued_sends)");
}

/* A device matches tags, but most receives were not on its list. */
static bool is_not_listed(const uint64_t *v, char *buf, size_t size)
{
    static const char *const counters[PML_TM_REPORT_REASONS] = {
        "listed",           "not_listed_other_path", "not_listed_any_source", "not_listed_unknown",
        "not_listed_short", "not_listed_blocked",    "not_listed_full",       "not_listed_commands",
        "not_listed_failed"};
    const uint64_t *reasons = &v[PML_TM_REPORT_LISTED];
    uint64_t all = 0;
    int top = 1;

    for (int i = 0; i < PML_TM_REPORT_REASONS; ++i) {
        all += reasons[i];
        top = i > 0 && reasons[i] > reasons[top] ? i : top;
    }
    /* those by another path have nothing to do with the device */
    if (0 == reasons[0] || all < MANY || mca_pml_tm_share(reasons[0], all - reasons[1]) >= LISTED) {
        return false;
    }
    snprintf(buf, size,
             "the device matched the tags of %.0f %% of the receives only: doc/tuning.md has the "
             "reason and what to do (%s)",
             mca_pml_tm_share(reasons[0], all), counters[top]);
    return true;
}

/* The worst first.  Without a rule: the sentence, if the number is not 0. */
static const struct {
    rule_t rule;
    unsigned which;
    const char *sentence;
} rules[] = {
    {.which = PML_TM_REPORT_MOVED,
     .sentence = "a network could not connect some ranks, which used another: --mca pml_tm_verbose "
                 "1 says why (peers_moved)"},
    {.rule = is_cma_refused},
    {.which = PML_TM_REPORT_LOCKED_MEMORY,
     .sentence = "locked memory was used up: raise ulimit -l (verbs_locked_memory)"},
    {.which = PML_TM_REPORT_CROWDED,
     .sentence = "processes poll that share their processors: leave pml_tm_wait at auto"},
    {.which = PML_TM_REPORT_HELD,
     .sentence = "senders were held back, as receivers had too many messages that they had not "
                 "asked for: post receives earlier, or raise pml_tm_unexpected_max (held_sends)"},
    {.rule = is_waiting},
    {.rule = is_unexpected},
    {.rule = is_queued},
    {.rule = is_not_listed},
    {.which = PML_TM_REPORT_STRANGERS,
     .sentence = "a process that is not of the job connected to its TCP ports: name the job's "
                 "network in pml_tm_tcp_if_include (tcp_strangers)"},
    {.which = PML_TM_REPORT_LINKS_FAILED,
     .sentence = "some of the connections for long messages by TCP could not be made: raise ulimit "
                 "-n, or lower pml_tm_tcp_links (tcp_links_failed)"},
};

int mca_pml_tm_advise(const uint64_t *values, int max_advice, char advice[][PML_TM_ADVICE_SIZE])
{
    int count = 0;

    for (size_t i = 0; i < sizeof(rules) / sizeof(rules[0]) && count < max_advice; ++i) {
        count += NULL != rules[i].rule
                     ? rules[i].rule(values, advice[count], PML_TM_ADVICE_SIZE)
                     : 0 != values[rules[i].which] &&
                           say(advice[count], PML_TM_ADVICE_SIZE, rules[i].sentence);
    }
    return count;
}
