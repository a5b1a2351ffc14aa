/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One table for the job at its end (params.report): how its messages went, how long it waited, what
 * was refused; and what could be done about it.
 *
 * Each process of MPI_COMM_WORLD sends the numbers of its own and of its children to its parent in
 * a binomial tree, by active messages: a collective operation may be what hangs.  A process that
 * does not send within some seconds is left out, and counted.
 */
#include "pml_tm/report/pml_tm_reports.h"

#include <stdio.h>

#include "fabric/fab_clock.h"
#include "fabric/fab_counters.h"

#include "pml_tm/peer/pml_tm_comm.h"
#include "pml_tm/peer/pml_tm_peer.h"
#include "pml_tm/report/pml_tm_text.h"
#include "pml_tm/wait/pml_tm_idle.h"
#include "pml_tm/wait/pml_tm_progress.h"

enum {
    MAX_LINES = 100,
    WAIT_NS = 2000000000, /* for the children */
    MANY = 1000,          /* below which a share of messages, or of milliseconds, says nothing */
};

/* Rows that others refer to; those before COUNTERS are calculated. */
enum {
    WAITING,   /* ms in calls, without the first 20 us or so of each */
    COMPUTING, /* all other ms */
    SENT,
    ANNOUNCED,
    RECEIVED,
    CROWDED, /* processes poll that share their processors */
    BY,      /* of each provider: messages, bytes */
    COUNTERS = BY + 2 * FAB_NUM_PROVIDERS,
    NO_GET = COUNTERS,
    RING_FULL,
};

/* Advice is due if there is any, or more than `percent` of another row. */
static const struct {
    const char *name;
    const unsigned long long *counter;
    const char *advice;
    unsigned needs; /* another row that must not be 0, or the first */
    unsigned of, percent;
} rows[] = {
    [WAITING] = {.name = "waiting_ms"},
    [COMPUTING] = {.name = "computing_ms",
                   .advice = "one rank computes for far longer than the others, "
                             "which wait: give it less to do (computing_ms)"},
    [SENT] = {.name = "sent"},
    [ANNOUNCED] = {.name = "announced"},
    [RECEIVED] = {.name = "received"},
    [CROWDED] = {.name = "crowded",
                 .advice = "processes poll that share their processors: leave "
                           "pml_tm_wait at auto"},
#define PML(name_) .name = #name_, .counter = &mca_pml_tm.counters.name_
#define FAB(name_) .name = #name_, .counter = &fab_counters.name_
    [NO_GET] = {PML(pipeline_no_get)},
    [RING_FULL] = {FAB(shm_ring_full)},
    {PML(streamed)},
    {PML(rndv_get_bytes)},
    {PML(rndv_pipeline_bytes)},
    {PML(unexpected),
     .advice = "more than a fifth of the messages came before their receive: post receives earlier",
     .of = RECEIVED, .percent = 20},
    {PML(queued_sends),
     .advice = "more than one send in twenty found no room: a larger pml_tm_shm_ring_size takes "
               "longer bursts (queued_sends)",
     .needs = RING_FULL, .of = SENT, .percent = 5},
    {PML(held_sends),
     .advice = "senders were held back, their receivers were short of memory: post "
               "receives earlier, or raise pml_tm_unexpected_max (held_sends)"},
    {FAB(shm_cma_refused),
     .advice = "the kernel does not let ranks of a host read each other's memory, long messages "
               "were copied twice: doc/troubleshooting.md (shm_cma_refused)",
     .needs = NO_GET},
    {FAB(verbs_locked_memory),
     .advice = "locked memory was used up: raise ulimit -l (verbs_locked_memory)"},
    {FAB(tcp_strangers),
     .advice = "a process of no rank connected to the job's TCP ports: name its "
               "network in pml_tm_tcp_if_include (tcp_strangers)"},
    {FAB(tcp_links_failed),
     .advice = "some TCP connections for long messages could not be made: raise ulimit -n "
               "(tcp_links_failed)"},
    {FAB(peers_moved), .advice = "a network could not connect some ranks, which used another: "
                                 "--mca pml_tm_verbose 1 says why (peers_moved)"},
#undef PML
#undef FAB
    {.name = "ranks"}, /* each has 1; travels last */
};

enum { ROWS = sizeof(rows) / sizeof(rows[0]), RANKS = ROWS - 1, WORDS = 2 * ROWS };

_Static_assert(PML_TM_REPORT_WORDS * sizeof(uint64_t) <= 256, "fab_post() takes them");

/* ---- the numbers -------------------------------------------------------- */

/*
 * Of each row, over this process and, later, those below it in the tree: the sum, and the largest
 * number of a rank, 40 bits, above that rank, 24 bits.  Lock: the fabric's.
 */
static uint64_t total[ROWS][2];

enum { RANK_BITS = 24, RANK_MASK = (1 << RANK_BITS) - 1 };

static void add_word(size_t at, uint64_t word)
{
    uint64_t *to = &total[at / 2][at % 2];

    *to = 0 == at % 2 ? *to + word : *to > word ? *to : word;
}

static void add(size_t row, uint64_t number)
{
    const uint64_t limit = UINT64_MAX >> RANK_BITS;

    add_word(2 * row, number);
    add_word(2 * row + 1, (number < limit ? number : limit) << RANK_BITS |
                              (OMPI_PROC_MY_NAME->vpid & RANK_MASK));
}

static void add_own(void)
{
    const mca_pml_tm_counters_t *c = &mca_pml_tm.counters;
    const uint64_t waited_ms = mca_pml_tm_hang_waited() / 1000000;
    const uint64_t run_ms = (fab_now_ns() - mca_pml_tm.begin_ns) / 1000000;
    const uint64_t announced = mca_pml_tm_sent_by(PML_TM_SENT_RNDV);

    add(WAITING, waited_ms);
    add(COMPUTING, run_ms > waited_ms ? run_ms - waited_ms : 0);
    add(SENT, mca_pml_tm_sent_by(PML_TM_SENT_EAGER) + mca_pml_tm_sent_by(PML_TM_SENT_EAGER_SYNC) +
                  announced);
    add(ANNOUNCED, announced);
    add(RECEIVED, c->expected + c->unexpected);
    add(CROWDED, mca_pml_tm_is_crowd_polling());
    for (unsigned i = 0; NULL != fab_provider_name(i); ++i) {
        mca_pml_tm_sent_t sent = {.bytes = 0};

        add(BY + 2 * i, mca_pml_tm_sent_through(i, &sent));
        add(BY + 2 * i + 1, sent.bytes);
    }
    for (unsigned row = COUNTERS; row < RANKS; ++row) {
        add(row, *rows[row].counter);
    }
    add(RANKS, 1);
}

void mca_pml_tm_report_told(void *ctx, fab_peer_t *peer, fab_hdr_t hdr, const void *data,
                            size_t len)
{
    const size_t words = len / sizeof(uint64_t);
    uint64_t values[PML_TM_REPORT_WORDS];

    (void) ctx;
    if (0 != len % sizeof(uint64_t) || words > PML_TM_REPORT_WORDS || hdr.tag > WORDS ||
        words > WORDS - hdr.tag) {
        mca_pml_tm_bad_message(peer, "report: its length or place");
        return;
    }
    memcpy(values, data, len); /* another process may still write it */
    for (size_t i = 0; i < words; ++i) {
        add_word(hdr.tag + i, values[i]);
    }
}

/* ---- the table, for people and for programs ------------------------------ */

/* One rank computes for twice as long as the others on average, and these wait for a tenth. */
static bool is_one_late(void)
{
    const uint64_t waiting = total[WAITING][0], all = total[COMPUTING][0];
    const uint64_t most = total[COMPUTING][1] >> RANK_BITS;

    return waiting >= MANY && 10 * waiting > all && most * (total[RANKS][0] - 1) > 2 * (all - most);
}

static bool is_advised(unsigned row)
{
    const uint64_t number = total[row][0], all = total[rows[row].of][0];

    if (NULL == rows[row].advice || 0 == number ||
        0 == total[0 == rows[row].needs ? row : rows[row].needs][0]) {
        return false;
    }
    return COMPUTING == row
               ? is_one_late()
               : 0 == rows[row].percent || (all >= MANY && 100 * number > rows[row].percent * all);
}

static void write_row(mca_pml_tm_text_t *text, FILE *json, unsigned row)
{
    const unsigned long long sum = total[row][0], most = total[row][1] >> RANK_BITS;
    const unsigned rank = (unsigned) (total[row][1] & RANK_MASK);
    char name[64];

    if (row < BY || row >= COUNTERS) {
        snprintf(name, sizeof(name), "%s", rows[row].name);
    } else {
        snprintf(name, sizeof(name), "%s_%s", fab_provider_name((row - BY) / 2),
                 0 == (row - BY) % 2 ? "messages" : "bytes");
    }
    mca_pml_tm_text_line(text, "  %-20s %16llu %16llu  (rank %u)", name, sum, most, rank);
    fprintf(json, "\"%s\": {\"sum\": %llu, \"most\": %llu, \"rank\": %u},\n", name, sum, most,
            rank);
}

/* Rows that are 0 in all ranks are left out. */
static void write_all(mca_pml_tm_text_t *text, FILE *json, uint32_t size)
{
    const unsigned ranks = (unsigned) total[RANKS][0];
    const double run_ms = (double) (total[WAITING][0] + total[COMPUTING][0]) + 1e-3;
    int count = 0;

    mca_pml_tm_text_line(text, "pml tm: %u ranks, %.1f s, %.0f %% of it waiting (pml_tm_report)",
                         ranks, run_ms / ranks / 1e3, 100.0 * (double) total[WAITING][0] / run_ms);
    if (ranks != size) {
        mca_pml_tm_text_line(text, "  (%u ranks did not send their numbers in time)", size - ranks);
    }
    mca_pml_tm_text_line(text, "  %-20s %16s %16s", "", "all ranks", "most in a rank");
    fprintf(json, "{\"report\": \"end\", \"ranks\": %u, \"ranks_in_it\": %u,\n", size, ranks);
    for (unsigned row = 0; row < RANKS; ++row) {
        if (0 != total[row][0]) {
            write_row(text, json, row);
        }
    }
    fputs("\"to_do\": [", json);
    for (unsigned row = 0; row < RANKS; ++row) {
        if (is_advised(row)) {
            mca_pml_tm_text_line(text, "  Advice: %s", rows[row].advice);
            fprintf(json, "%s\"%s\"", 0 == count++ ? "" : ", ", rows[row].advice);
        }
    }
    fputs("]}\n", json);
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

static void print(uint32_t size)
{
    mca_pml_tm_text_t text, json;

    if (mca_pml_tm_text_open(&text, MAX_LINES) && mca_pml_tm_text_open(&json, 0)) {
        write_all(&text, json.stream, size);
        lines_of_paths(&text);
        mca_pml_tm_text_write(&json, "end");
    }
    mca_pml_tm_text_print(&text);
}

/* ---- the tree ----------------------------------------------------------- */

static void send_up(ompi_communicator_t *world, uint32_t rank)
{
    int rc = OMPI_SUCCESS;
    fab_peer_t *peer = mca_pml_tm_comm_connect(world, (int) (rank & (rank - 1)), &rc);

    if (NULL != peer) {
        fab_lock(mca_pml_tm.fab);
        for (unsigned i = 0; i < WORDS; i += PML_TM_REPORT_WORDS) {
            const size_t left = WORDS - i;

            mca_pml_tm_answer(peer, fab_hdr(PML_TM_AM_REPORT, i, 0), &total[0][0] + i,
                              (left < PML_TM_REPORT_WORDS ? left : PML_TM_REPORT_WORDS) *
                                  sizeof(uint64_t));
        }
        fab_unlock(mca_pml_tm.fab);
    }
}

void mca_pml_tm_report_end(ompi_communicator_t *world)
{
    const uint32_t size = (uint32_t) ompi_comm_size(world);
    const uint32_t rank = (uint32_t) ompi_comm_rank(world);
    const uint32_t low = 0 == rank ? size : rank & -rank; /* its lowest bit: ranks below it */
    const uint32_t wanted = size - rank < low ? size - rank : low;
    const uint64_t end_ns = fab_now_ns() + WAIT_NS;
    bool has_all;

    fab_lock(mca_pml_tm.fab);
    add_own();
    fab_unlock(mca_pml_tm.fab);
    do {
        (void) mca_pml_tm_progress();
        fab_lock(mca_pml_tm.fab);
        has_all = total[RANKS][0] >= wanted;
        fab_unlock(mca_pml_tm.fab);
    } while (!has_all && fab_now_ns() < end_ns);
    if (0 == rank) {
        print(size);
    } else {
        send_up(world, rank);
    }
    fab_lock(mca_pml_tm.fab);
    memset(total, 0, sizeof(total)); /* another session may follow */
    fab_unlock(mca_pml_tm.fab);
}
