/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One page for the job at its end.
 */
#include "pml_tm_report.h"

#include <stdio.h>

#include "fabric/fab_clock.h"
#include "fabric/fab_counters.h"

#include "pml_tm_comm.h"
#include "pml_tm_hang.h"
#include "pml_tm_peer.h"
#include "pml_tm_progress.h"
#include "pml_tm_sent.h"
#include "pml_tm_text.h"

enum {
    MAX_LINES = 40,
    MAX_TO_DO = 5,
    WAIT_NS = 2000000000, /* for the children */
};

/* Of this process and, later, of those below it in the tree. */
static mca_pml_tm_report_t total;
static uint64_t begin_ns;

/* ---- the numbers -------------------------------------------------------- */

static const char *const ways[PML_TM_REPORT_WAYS] = {"shm", "ofi", "verbs", "tcp"};

static void add_own(void)
{
    const mca_pml_tm_counters_t *c = &mca_pml_tm.counters;
    const uint64_t waited_us = mca_pml_tm_hang_waited_ns() / 1000;
    const uint64_t own[PML_TM_REPORT_SUMS] = {
        [PML_TM_SUM_EAGER] = mca_pml_tm_sent_by(PML_TM_SENT_EAGER) +
                             mca_pml_tm_sent_by(PML_TM_SENT_EAGER_SYNC) - c->streamed,
        [PML_TM_SUM_STREAMED] = c->streamed,
        [PML_TM_SUM_RNDV] = mca_pml_tm_sent_by(PML_TM_SENT_RNDV),
        [PML_TM_SUM_GET_BYTES] = c->rndv_get_bytes,
        [PML_TM_SUM_PIPELINE_BYTES] = c->rndv_pipeline_bytes,
        [PML_TM_SUM_EXPECTED] = c->expected,
        [PML_TM_SUM_UNEXPECTED] = c->unexpected,
        [PML_TM_SUM_QUEUED] = c->queued_sends,
        [PML_TM_SUM_RING_FULL] = fab_counters.shm_ring_full,
        [PML_TM_SUM_HELD] = c->held_sends,
        [PML_TM_SUM_NO_GET] = c->pipeline_no_get,
        [PML_TM_SUM_CMA_REFUSED] = fab_counters.shm_cma_refused,
        [PML_TM_SUM_LOCKED_MEMORY] = fab_counters.verbs_locked_memory,
        [PML_TM_SUM_MOVED] = fab_counters.peers_moved,
        [PML_TM_SUM_WAITED_US] = waited_us,
        [PML_TM_SUM_RUN_US] = (fab_now_ns() - begin_ns) / 1000,
        [PML_TM_SUM_WAYS] = fab_counters.shm_msgs_sent,
        [PML_TM_SUM_WAYS + 1] = fab_counters.ofi_msgs_sent,
        [PML_TM_SUM_WAYS + 2] = fab_counters.verbs_msgs_sent,
        [PML_TM_SUM_WAYS + 3] = fab_counters.tcp_msgs_sent,
    };

    for (int i = 0; i < PML_TM_REPORT_SUMS; ++i) {
        total.sums[i] += own[i];
    }
    if (0 == total.ranks || waited_us > total.waited_max_us) {
        total.waited_max_us = waited_us;
        total.waited_max_rank = OMPI_PROC_MY_NAME->vpid;
    }
    ++total.ranks;
}

/* Add those of a child.  Lock held. */
static void add(const mca_pml_tm_report_t *other)
{
    for (int i = 0; i < PML_TM_REPORT_SUMS; ++i) {
        total.sums[i] += other->sums[i];
    }
    if (0 == total.ranks || other->waited_max_us > total.waited_max_us) {
        total.waited_max_us = other->waited_max_us;
        total.waited_max_rank = other->waited_max_rank;
    }
    total.ranks += other->ranks;
}

void mca_pml_tm_report_told(void *ctx, fab_peer_t *peer, fab_hdr_t hdr, const void *data,
                            size_t len)
{
    mca_pml_tm_report_t other;

    (void) ctx, (void) hdr;
    if (sizeof(other) != len) {
        mca_pml_tm_bad_message(peer, "report: its length");
        return;
    }
    memcpy(&other, data, sizeof(other));
    add(&other);
}

/* ---- the page ----------------------------------------------------------- */

static double share(uint64_t part, uint64_t whole)
{
    return 0 == whole ? 0 : 100.0 * (double) part / (double) whole;
}

static uint64_t sum(mca_pml_tm_report_sum_t which)
{
    return total.sums[which];
}

static uint64_t messages_sent(void)
{
    return sum(PML_TM_SUM_EAGER) + sum(PML_TM_SUM_STREAMED) + sum(PML_TM_SUM_RNDV);
}

static void lines_of_messages(mca_pml_tm_text_t *text)
{
    const uint64_t sent = messages_sent();
    const uint64_t received = sum(PML_TM_SUM_EXPECTED) + sum(PML_TM_SUM_UNEXPECTED);

    mca_pml_tm_text_line(text,
                         "  messages sent  %llu: %.0f %% with their data, %.0f %% streamed, "
                         "%.0f %% announced",
                         (unsigned long long) sent, share(sum(PML_TM_SUM_EAGER), sent),
                         share(sum(PML_TM_SUM_STREAMED), sent), share(sum(PML_TM_SUM_RNDV), sent));
    mca_pml_tm_text_line(text,
                         "  of announced ones, %.3f GB were read from the sender's memory, %.3f GB "
                         "came in pieces",
                         (double) sum(PML_TM_SUM_GET_BYTES) / 1e9,
                         (double) sum(PML_TM_SUM_PIPELINE_BYTES) / 1e9);
    mca_pml_tm_text_line(text, "  unexpected     %.0f %% came before their receive",
                         share(sum(PML_TM_SUM_UNEXPECTED), received));
    for (int i = 0; i < PML_TM_REPORT_WAYS; ++i) {
        const uint64_t by_way = total.sums[PML_TM_SUM_WAYS + i];

        if (0 != by_way) {
            mca_pml_tm_text_line(text, "  by %-11s %llu messages of the network, answers included",
                                 ways[i], (unsigned long long) by_way);
        }
    }
}

static void lines_of_time(mca_pml_tm_text_t *text)
{
    mca_pml_tm_text_line(text, "  waiting        %.0f %% of the time in mean, %.0f %% in rank %u",
                         share(sum(PML_TM_SUM_WAITED_US), sum(PML_TM_SUM_RUN_US)),
                         share(total.waited_max_us * total.ranks, sum(PML_TM_SUM_RUN_US)),
                         total.waited_max_rank);
}

/* ---- what to do --------------------------------------------------------- */

typedef struct rule {
    bool (*is_it)(void);
    const char *text;
} rule_t;

static bool is_cma_refused(void)
{
    return 0 != sum(PML_TM_SUM_CMA_REFUSED) && 0 != sum(PML_TM_SUM_NO_GET);
}

static bool is_held(void)
{
    return 0 != sum(PML_TM_SUM_HELD);
}

static bool is_unexpected(void)
{
    const uint64_t received = sum(PML_TM_SUM_EXPECTED) + sum(PML_TM_SUM_UNEXPECTED);

    return received >= 1000 && share(sum(PML_TM_SUM_UNEXPECTED), received) > 20;
}

static bool is_queued(void)
{
    /* by other ways than shared memory they are queued, too, and no ring is too short */
    return messages_sent() >= 1000 && 0 != sum(PML_TM_SUM_RING_FULL) &&
           share(sum(PML_TM_SUM_QUEUED), messages_sent()) > 5;
}

static bool is_locked_memory(void)
{
    return 0 != sum(PML_TM_SUM_LOCKED_MEMORY);
}

static bool is_moved(void)
{
    return 0 != sum(PML_TM_SUM_MOVED);
}

/* The worst first. */
static const rule_t rules[] = {
    {is_moved, "a network could not connect some ranks, which used another: --mca pml_tm_verbose 1 "
               "says why (peers_moved)"},
    {is_cma_refused, "the kernel does not let ranks of a host read each other's memory, long "
                     "messages were copied twice: doc/troubleshooting.md (shm_cma_refused)"},
    {is_locked_memory, "locked memory was used up: raise ulimit -l (verbs_locked_memory)"},
    {is_held, "senders were held back, as receivers had too many messages that they had not asked "
              "for: post receives earlier, or raise pml_tm_unexpected_max (held_sends)"},
    {is_unexpected, "more than a fifth of the messages came before their receive, and were copied "
                    "once more: post receives earlier (unexpected)"},
    {is_queued, "more than one send in twenty found no room: a larger pml_tm_shm_ring_size takes "
                "longer bursts (queued_sends)"},
};

static void lines_to_do(mca_pml_tm_text_t *text)
{
    int count = 0;

    for (size_t i = 0; i < sizeof(rules) / sizeof(rules[0]) && count < MAX_TO_DO; ++i) {
        if (rules[i].is_it()) {
            mca_pml_tm_text_line(text, "  %-14s %s", 0 == count ? "To do" : "", rules[i].text);
            ++count;
        }
    }
    if (0 == count) {
        mca_pml_tm_text_line(text, "  To do          nothing that pml tm can see");
    }
}

static void print(uint32_t size)
{
    mca_pml_tm_text_t *text = mca_pml_tm_text_new(MAX_LINES);

    if (NULL == text) {
        return;
    }
    mca_pml_tm_text_line(text, "pml tm: %u ranks, %.1f s (pml_tm_report)", total.ranks,
                         (double) sum(PML_TM_SUM_RUN_US) / total.ranks / 1e6);
    if (total.ranks != size) {
        mca_pml_tm_text_line(text, "  (%u ranks did not send their numbers in time)",
                             size - total.ranks);
    }
    lines_of_time(text);
    lines_of_messages(text);
    lines_to_do(text);
    mca_pml_tm_text_print(text);
}

/* ---- the tree ----------------------------------------------------------- */

/* The number of ranks in the subtree of a rank of `size`, itself included. */
static uint32_t subtree(uint32_t rank, uint32_t size)
{
    const uint32_t low = 0 == rank ? size : rank & -rank; /* its lowest bit */

    return size - rank < low ? size - rank : low;
}

static void send_up(ompi_communicator_t *world, uint32_t rank)
{
    int rc = OMPI_SUCCESS;
    fab_peer_t *peer = mca_pml_tm_comm_connect(world, (int) (rank & (rank - 1)), &rc);

    if (NULL != peer) {
        fab_lock(mca_pml_tm.fab);
        mca_pml_tm_answer(peer, fab_hdr(PML_TM_AM_REPORT, 0, 0), &total, sizeof(total));
        fab_unlock(mca_pml_tm.fab);
    }
}

static bool has_all(uint32_t wanted)
{
    bool has;

    fab_lock(mca_pml_tm.fab);
    has = total.ranks >= wanted;
    fab_unlock(mca_pml_tm.fab);
    return has;
}

void mca_pml_tm_report_open(void)
{
    begin_ns = fab_now_ns();
}

void mca_pml_tm_report_end(ompi_communicator_t *world)
{
    const uint32_t size = (uint32_t) ompi_comm_size(world);
    const uint32_t rank = (uint32_t) ompi_comm_rank(world);
    const uint32_t wanted = subtree(rank, size);
    const uint64_t end_ns = fab_now_ns() + WAIT_NS;

    fab_lock(mca_pml_tm.fab);
    add_own();
    fab_unlock(mca_pml_tm.fab);
    while (!has_all(wanted) && fab_now_ns() < end_ns) {
        (void) mca_pml_tm_progress();
    }
    if (0 == rank) {
        print(size);
    } else {
        send_up(world, rank);
    }
}
