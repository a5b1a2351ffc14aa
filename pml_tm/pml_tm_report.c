/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One page for the job at its end (params.report): how its messages went, how long it waited, what
 * was refused, and what could be done about it.
 *
 * Each process of MPI_COMM_WORLD sends the sum of its own numbers and those of its children to its
 * parent in a binomial tree, by active messages: a collective operation may be what hangs.  Who
 * does not send within some seconds is left out, and counted.
 */
#include "pml_tm_entry.h"

#include <stdio.h>

#include "fabric/fab_clock.h"
#include "fabric/fab_counters.h"

#include "pml_tm_advice.h"
#include "pml_tm_comm.h"
#include "pml_tm_idle.h"
#include "pml_tm_peer.h"
#include "pml_tm_progress.h"
#include "pml_tm_sent.h"
#include "pml_tm_text.h"

enum {
    MAX_LINES = 60,
    MAX_TO_DO = 5,
    WAIT_NS = 2000000000, /* for the children */
};

_Static_assert((int) PML_TM_REPORT_REASONS == (int) FAB_OFFLOAD_REASON_MAX,
               "all reasons are in the report");
_Static_assert(PML_TM_REPORT_WORDS * sizeof(uint64_t) <= 256, "fab_post() takes them");

/* Of this process and, later, of those below it in the tree.  Lock: the fabric's. */
static uint64_t total[PML_TM_REPORT_VALUES];

/* ---- the numbers -------------------------------------------------------- */

static const struct {
    unsigned bits; /* messages below 1 << bits bytes */
    const char *name;
    const char *json; /* for programs */
} sizes[PML_TM_REPORT_SIZES] = {
    {6, "below 64 bytes", "below_64"}, {10, "1 KiB", "below_1_KiB"}, {14, "16 KiB", "below_16_KiB"},
    {18, "256 KiB", "below_256_KiB"},  {64, "longer", "longer"},
};

static void add(unsigned which, uint64_t value)
{
    mca_pml_tm_report_add(total, which, value);
}

static void add_messages(void)
{
    const mca_pml_tm_counters_t *c = &mca_pml_tm.counters;

    add(PML_TM_REPORT_EAGER, mca_pml_tm_sent_by(PML_TM_SENT_EAGER) +
                                 mca_pml_tm_sent_by(PML_TM_SENT_EAGER_SYNC) - c->streamed);
    add(PML_TM_REPORT_STREAMED, c->streamed);
    add(PML_TM_REPORT_RNDV, mca_pml_tm_sent_by(PML_TM_SENT_RNDV));
    add(PML_TM_REPORT_GET_BYTES, c->rndv_get_bytes);
    add(PML_TM_REPORT_PIPELINE_BYTES, c->rndv_pipeline_bytes);
    add(PML_TM_REPORT_EXPECTED, c->expected);
    add(PML_TM_REPORT_UNEXPECTED, c->unexpected);
    add(PML_TM_REPORT_QUEUED, c->queued_sends);
    add(PML_TM_REPORT_RING_FULL, fab_counters.shm_ring_full);
    add(PML_TM_REPORT_HELD, c->held_sends);
    add(PML_TM_REPORT_NO_GET, c->pipeline_no_get);
}

static void add_refusals(void)
{
    const fab_counters_t *c = &fab_counters;

    add(PML_TM_REPORT_CMA_REFUSED, c->shm_cma_refused);
    add(PML_TM_REPORT_LOCKED_MEMORY, c->verbs_locked_memory);
    add(PML_TM_REPORT_UNREGISTRABLE, c->verbs_unregistrable + c->ofi_unregistrable);
    add(PML_TM_REPORT_REFUSED, c->verbs_refused + c->ofi_refused + c->tcp_refused);
    add(PML_TM_REPORT_STRANGERS, c->tcp_strangers);
    add(PML_TM_REPORT_LINKS_FAILED, c->tcp_links_failed);
    add(PML_TM_REPORT_MOVED, c->peers_moved);
    add(PML_TM_REPORT_CROWDED, mca_pml_tm_is_crowd_polling());
    for (unsigned i = 0; i < PML_TM_REPORT_REASONS; ++i) {
        add(PML_TM_REPORT_LISTED + i, mca_pml_tm.offload.counters.reason[i]);
    }
}

/* The size that a message of this class (pml_tm_sent.h) counts as. */
static unsigned size_of(unsigned class)
{
    unsigned size = 0;

    while (class >= sizes[size].bits) {
        ++size;
    }
    return size;
}

static void add_way(unsigned provider)
{
    const unsigned first = PML_TM_REPORT_WAYS + provider * (PML_TM_REPORT_SIZES + 1);
    mca_pml_tm_sent_t sent = {.bytes = 0};

    mca_pml_tm_sent_through(provider, &sent);
    for (unsigned i = 0; i < PML_TM_SIZE_CLASSES; ++i) {
        add(first + size_of(i), sent.messages[i]);
    }
    add(first + PML_TM_REPORT_SIZES, sent.bytes);
}

static void add_time(uint32_t rank)
{
    uint64_t for_ns;
    uint32_t for_rank;
    const uint64_t waited_ms = mca_pml_tm_hang_waited(&for_ns, &for_rank) / 1000000;

    add(PML_TM_REPORT_WAITED_MS, waited_ms);
    add(PML_TM_REPORT_RUN_MS, (fab_now_ns() - mca_pml_tm.begin_ns) / 1000000);
    add(PML_TM_REPORT_WAITED_MOST, mca_pml_tm_ranked(waited_ms, rank));
    add(PML_TM_REPORT_WAITED_FOR, mca_pml_tm_ranked(for_ns / 1000000, for_rank));
}

static void add_own(uint32_t rank)
{
    uint32_t posted_max, unexp_max;

    add_messages();
    add_refusals();
    for (unsigned i = 0; NULL != fab_provider_name(i); ++i) {
        add_way(i);
    }
    add_time(rank);
    mca_pml_tm_comm_depths(&posted_max, &unexp_max);
    add(PML_TM_REPORT_POSTED_MAX, mca_pml_tm_ranked(posted_max, rank));
    add(PML_TM_REPORT_UNEXP_MAX, mca_pml_tm_ranked(unexp_max, rank));
    add(PML_TM_REPORT_RANKS, 1);
}

void mca_pml_tm_report_told(void *ctx, fab_peer_t *peer, fab_hdr_t hdr, const void *data,
                            size_t len)
{
    const size_t words = len / sizeof(uint64_t);
    uint64_t values[PML_TM_REPORT_WORDS];

    (void) ctx;
    if (0 != len % sizeof(uint64_t) || words > PML_TM_REPORT_WORDS ||
        hdr.tag > PML_TM_REPORT_VALUES || words > PML_TM_REPORT_VALUES - hdr.tag) {
        mca_pml_tm_bad_message(peer, "report: its length or place");
        return;
    }
    memcpy(values, data, len); /* another process may still write it */
    for (size_t i = 0; i < words; ++i) {
        add((unsigned) hdr.tag + (unsigned) i, values[i]);
    }
}

/* ---- the page ----------------------------------------------------------- */

static double gb(uint64_t bytes)
{
    return (double) bytes / 1e9;
}

static void line_of_way(mca_pml_tm_text_t *text, unsigned provider)
{
    const uint64_t *way = &total[PML_TM_REPORT_WAYS + provider * (PML_TM_REPORT_SIZES + 1)];
    char buf[256] = "";
    uint64_t all = 0;
    size_t len = 0;

    for (unsigned i = 0; i < PML_TM_REPORT_SIZES; ++i) {
        all += way[i];
    }
    for (unsigned i = 0; i < PML_TM_REPORT_SIZES && len < sizeof(buf); ++i) {
        if (0 != way[i]) {
            len += (size_t) snprintf(buf + len, sizeof(buf) - len, "%s %.0f %% %s",
                                     0 == len ? ":" : ",", mca_pml_tm_share(way[i], all),
                                     sizes[i].name);
        }
    }
    if (0 != all) {
        mca_pml_tm_text_line(text, "  by %-11s %llu (%.0f %%), %.3f GB%s",
                             fab_provider_name(provider), (unsigned long long) all,
                             mca_pml_tm_share(all, mca_pml_tm_report_sent(total)),
                             gb(way[PML_TM_REPORT_SIZES]), buf);
    }
}

static void line_of_depth(mca_pml_tm_text_t *text, unsigned which, const char *what)
{
    if (0 != mca_pml_tm_ranked_number(total[which])) {
        mca_pml_tm_text_line(text, "                 at most %llu %s%s at once (rank %u)",
                             (unsigned long long) mca_pml_tm_ranked_number(total[which]), what,
                             1 == mca_pml_tm_ranked_number(total[which]) ? "" : "s",
                             mca_pml_tm_ranked_rank(total[which]));
    }
}

static void lines_of_messages(mca_pml_tm_text_t *text)
{
    const uint64_t sent = mca_pml_tm_report_sent(total);
    const uint64_t received = total[PML_TM_REPORT_EXPECTED] + total[PML_TM_REPORT_UNEXPECTED];

    mca_pml_tm_text_line(text,
                         "  messages sent  %llu: %.0f %% with their data, %.0f %% streamed, "
                         "%.0f %% announced",
                         (unsigned long long) sent,
                         mca_pml_tm_share(total[PML_TM_REPORT_EAGER], sent),
                         mca_pml_tm_share(total[PML_TM_REPORT_STREAMED], sent),
                         mca_pml_tm_share(total[PML_TM_REPORT_RNDV], sent));
    for (unsigned i = 0; NULL != fab_provider_name(i); ++i) {
        line_of_way(text, i);
    }
    mca_pml_tm_text_line(
        text,
        "  announced      %.3f GB read directly (one copy), %.3f GB in fragments (two copies "
        "or more)",
        gb(total[PML_TM_REPORT_GET_BYTES]), gb(total[PML_TM_REPORT_PIPELINE_BYTES]));
    mca_pml_tm_text_line(text, "  unexpected     %.0f %% came before their receive",
                         mca_pml_tm_share(total[PML_TM_REPORT_UNEXPECTED], received));
    line_of_depth(text, PML_TM_REPORT_UNEXP_MAX, "unexpected message");
    line_of_depth(text, PML_TM_REPORT_POSTED_MAX, "posted receive");
}

static void lines_of_time(mca_pml_tm_text_t *text)
{
    const uint64_t waited = total[PML_TM_REPORT_WAITED_MS], run = total[PML_TM_REPORT_RUN_MS];
    const uint64_t most = total[PML_TM_REPORT_WAITED_MOST];
    const uint64_t for_one = total[PML_TM_REPORT_WAITED_FOR];

    mca_pml_tm_text_line(
        text, "  waiting        %.0f %% of the time on average, %.0f %% in rank %u",
        mca_pml_tm_share(waited, run),
        mca_pml_tm_share(mca_pml_tm_ranked_number(most) * total[PML_TM_REPORT_RANKS], run),
        mca_pml_tm_ranked_rank(most));
    if (0 != mca_pml_tm_ranked_number(for_one)) {
        mca_pml_tm_text_line(text, "                 at least %.0f %% of that for rank %u",
                             mca_pml_tm_share(mca_pml_tm_ranked_number(for_one), waited),
                             mca_pml_tm_ranked_rank(for_one));
    }
}

/* Numbers that stand as they are in the report for programs. */
static const struct {
    unsigned which;
    const char *name;
    const char *refused; /* what was refused, for people; NULL: nothing was */
} sums[] = {
    {PML_TM_REPORT_EAGER, "eager", NULL},
    {PML_TM_REPORT_STREAMED, "streamed", NULL},
    {PML_TM_REPORT_RNDV, "announced", NULL},
    {PML_TM_REPORT_GET_BYTES, "bytes_read", NULL},
    {PML_TM_REPORT_PIPELINE_BYTES, "bytes_in_pieces", NULL},
    {PML_TM_REPORT_EXPECTED, "expected", NULL},
    {PML_TM_REPORT_UNEXPECTED, "unexpected", NULL},
    {PML_TM_REPORT_QUEUED, "queued_sends", NULL},
    {PML_TM_REPORT_HELD, "held_sends", NULL},
    {PML_TM_REPORT_CMA_REFUSED, "shm_cma_refused",
     "ranks whose memory the kernel did not let another read"},
    {PML_TM_REPORT_LOCKED_MEMORY, "verbs_locked_memory",
     "registrations: locked memory was used up"},
    {PML_TM_REPORT_UNREGISTRABLE, "unregistrable", "registrations that the device did not make"},
    {PML_TM_REPORT_REFUSED, "refused", "requests to connect"},
    {PML_TM_REPORT_STRANGERS, "tcp_strangers", "connections of processes that are not of the job"},
    {PML_TM_REPORT_LINKS_FAILED, "tcp_links_failed", "further connections by TCP"},
    {PML_TM_REPORT_MOVED, "peers_moved", "ranks that the first network did not reach"},
};

/* What was refused, and why, as far as there is a counter; the table of paths says the rest. */
static void lines_of_refusals(mca_pml_tm_text_t *text)
{
    const char *name = "refused";

    for (size_t i = 0; i < sizeof(sums) / sizeof(sums[0]); ++i) {
        if (NULL != sums[i].refused && 0 != total[sums[i].which]) {
            mca_pml_tm_text_line(text, "  %-14s %s: %llu", name, sums[i].refused,
                                 (unsigned long long) total[sums[i].which]);
            name = "";
        }
    }
}

/* The table of paths, as it is now that they were used. */
static void lines_of_paths(mca_pml_tm_text_t *text)
{
    char paths[4096], *save = NULL;

    fab_lock(mca_pml_tm.fab);
    fab_describe(mca_pml_tm.fab, paths, sizeof(paths));
    fab_unlock(mca_pml_tm.fab);
    mca_pml_tm_text_line(text, "  The paths of rank 0, on %s:", fab_process.nodename);
    for (char *line = strtok_r(paths, "\n", &save); NULL != line;
         line = strtok_r(NULL, "\n", &save)) {
        mca_pml_tm_text_line(text, "    %s", line);
    }
}

static void lines_to_do(mca_pml_tm_text_t *text)
{
    char advice[MAX_TO_DO][PML_TM_ADVICE_SIZE];
    const int count = mca_pml_tm_advise(total, MAX_TO_DO, advice);

    for (int i = 0; i < count; ++i) {
        mca_pml_tm_text_line(text, "  %-14s %s", 0 == i ? "Advice" : "", advice[i]);
    }
    if (0 == count) {
        mca_pml_tm_text_line(text, "  Advice         none");
    }
}

/* ---- the same for programs ---------------------------------------------- */

static void add_json_ways(mca_pml_tm_json_t *json)
{
    mca_pml_tm_json_open(json, "by", "{}");
    for (unsigned p = 0; NULL != fab_provider_name(p); ++p) {
        const uint64_t *way = &total[PML_TM_REPORT_WAYS + p * (PML_TM_REPORT_SIZES + 1)];

        mca_pml_tm_json_open(json, fab_provider_name(p), "{}");
        for (unsigned i = 0; i < PML_TM_REPORT_SIZES; ++i) {
            mca_pml_tm_json_number(json, sizes[i].json, (long long) way[i]);
        }
        mca_pml_tm_json_number(json, "bytes", (long long) way[PML_TM_REPORT_SIZES]);
        mca_pml_tm_json_close(json, "{}");
    }
    mca_pml_tm_json_close(json, "{}");
}

/* A number and its rank. */
static void add_json_ranked(mca_pml_tm_json_t *json, const char *name, unsigned which)
{
    mca_pml_tm_json_open(json, name, "{}");
    mca_pml_tm_json_number(json, "number", (long long) mca_pml_tm_ranked_number(total[which]));
    mca_pml_tm_json_number(json, "rank", mca_pml_tm_ranked_rank(total[which]));
    mca_pml_tm_json_close(json, "{}");
}

static void write_json(uint32_t size)
{
    mca_pml_tm_json_t *json = mca_pml_tm_json_new();
    char advice[MAX_TO_DO][PML_TM_ADVICE_SIZE];
    const int count = mca_pml_tm_advise(total, MAX_TO_DO, advice);

    if (NULL == json) {
        return;
    }
    mca_pml_tm_json_text(json, "report", "end");
    mca_pml_tm_json_number(json, "ranks", size);
    mca_pml_tm_json_number(json, "ranks_in_it", (long long) total[PML_TM_REPORT_RANKS]);
    mca_pml_tm_json_seconds(json, "run_s", total[PML_TM_REPORT_RUN_MS]);
    mca_pml_tm_json_seconds(json, "waited_s", total[PML_TM_REPORT_WAITED_MS]);
    add_json_ranked(json, "waited_most_ms", PML_TM_REPORT_WAITED_MOST);
    add_json_ranked(json, "waited_for_ms", PML_TM_REPORT_WAITED_FOR);
    add_json_ranked(json, "posted_max", PML_TM_REPORT_POSTED_MAX);
    add_json_ranked(json, "unexpected_max", PML_TM_REPORT_UNEXP_MAX);
    for (size_t i = 0; i < sizeof(sums) / sizeof(sums[0]); ++i) {
        mca_pml_tm_json_number(json, sums[i].name, (long long) total[sums[i].which]);
    }
    add_json_ways(json);
    mca_pml_tm_json_open(json, "to_do", "[]");
    for (int i = 0; i < count; ++i) {
        mca_pml_tm_json_text(json, NULL, advice[i]);
    }
    mca_pml_tm_json_close(json, "[]");
    mca_pml_tm_json_write(json, "end");
}

static void print(uint32_t size)
{
    const unsigned ranks = (unsigned) total[PML_TM_REPORT_RANKS];
    mca_pml_tm_text_t *text = mca_pml_tm_text_new(MAX_LINES);

    if (NULL == text) {
        return;
    }
    mca_pml_tm_text_line(text, "pml tm: %u ranks, %.1f s (pml_tm_report)", ranks,
                         (double) total[PML_TM_REPORT_RUN_MS] / ranks / 1e3);
    if (ranks != size) {
        mca_pml_tm_text_line(text, "  (%u ranks did not send their numbers in time)", size - ranks);
    }
    lines_of_time(text);
    lines_of_messages(text);
    lines_of_refusals(text);
    lines_to_do(text);
    lines_of_paths(text);
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
        for (unsigned i = 0; i < PML_TM_REPORT_VALUES; i += PML_TM_REPORT_WORDS) {
            const size_t left = PML_TM_REPORT_VALUES - i;

            mca_pml_tm_answer(peer, fab_hdr(PML_TM_AM_REPORT, i, 0), &total[i],
                              (left < PML_TM_REPORT_WORDS ? left : PML_TM_REPORT_WORDS) *
                                  sizeof(total[0]));
        }
        fab_unlock(mca_pml_tm.fab);
    }
}

static bool has_all(uint32_t wanted)
{
    bool has;

    fab_lock(mca_pml_tm.fab);
    has = total[PML_TM_REPORT_RANKS] >= wanted;
    fab_unlock(mca_pml_tm.fab);
    return has;
}

void mca_pml_tm_report_end(ompi_communicator_t *world)
{
    const uint32_t size = (uint32_t) ompi_comm_size(world);
    const uint32_t rank = (uint32_t) ompi_comm_rank(world);
    const uint32_t wanted = subtree(rank, size);
    const uint64_t end_ns = fab_now_ns() + WAIT_NS;

    fab_lock(mca_pml_tm.fab);
    add_own(rank);
    fab_unlock(mca_pml_tm.fab);
    while (!has_all(wanted) && fab_now_ns() < end_ns) {
        (void) mca_pml_tm_progress();
    }
    if (0 == rank) {
        write_json(size);
        print(size);
    } else {
        send_up(world, rank);
    }
}
