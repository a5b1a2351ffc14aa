/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tm_look: what the processes of this host's jobs do, from outside: what waits in each, how often
 * it polls, its counters, its last events.  They need not cooperate: they may be stuck, stopped, or
 * have left a core dump.
 */
#include "ompi_config.h"

#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "fabric/fab_clock.h"
#include "fabric/fab_counters.h"
#include "fabric/fab_look_read.h"
#include "offload/offload_types.h"
#include "pml_tm/base/pml_tm_counters.h"
#include "pml_tm/base/pml_tm_shared.h"

#include "look_source.h"

enum {
    STATUS_GOOD = 0,
    STATUS_NOTHING = 1,
    STATUS_USAGE = 2,
    MAX_PROCESSES = 4096,
    PAUSE_MS = 200, /* between two looks, to see whether a process polls */
    EVENTS = 20,    /* shown of each process */
    /* after so long without a wait it is outside MPI; less may be for lack of a processor */
    OUTSIDE_MS = 1000,
    TEXT_SIZE = 512,
    MOST_WORDS = 4096, /* of counters that are read at once */
};

#define NS_PER_S 1e9

/* ---- all processes ------------------------------------------------------ */

typedef struct process {
    uint32_t pid;
    fab_look_t first, last; /* two looks, last is as first if it has ended meanwhile */
    bool is_gone;
    uint64_t
        messages[2]; /* a number that differs if it has sent or received meanwhile; 0: unknown */
} process_t;

typedef struct processes {
    process_t *all;
    size_t count;
} processes_t;

static uint32_t rank_of(uint64_t name)
{
    return (uint32_t) name;
}

/* The sum of its counters of messages, and 1; 0: the kernel does not let us read them. */
static uint64_t count_messages(uint32_t pid, const fab_look_t *head)
{
    static const int those[] = {FAB_LOOK_PML, FAB_LOOK_SENT};
    const look_source_t source = {.pid = pid};
    static uint64_t words[MOST_WORDS];
    uint64_t sum = 1;

    for (size_t i = 0; i < sizeof(those) / sizeof(those[0]); i++) {
        const fab_look_counters_t *there = &head->counters[those[i]];

        if (0 == there->at || there->count > MOST_WORDS ||
            !look_source_memory(&source, there->at, words, there->count * sizeof(words[0]))) {
            return 0;
        }
        for (size_t k = 0; k < there->count; k++) {
            sum += words[k];
        }
    }
    return sum;
}

static bool add(void *ctx, uint32_t pid, int fd, const fab_look_t *head)
{
    processes_t *found = ctx;

    (void) fd;
    found->all[found->count++] = (process_t){
        .pid = pid, .first = *head, .last = *head, .messages = {count_messages(pid, head)}};
    return found->count < MAX_PROCESSES;
}

static void pause_ms(long ms)
{
    const struct timespec time = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};

    (void) nanosleep(&time, NULL);
}

static void look_again(processes_t *found)
{
    for (size_t i = 0; i < found->count; i++) {
        process_t *process = &found->all[i];
        const int fd = fab_look_open_process(process->pid, &process->last);

        process->is_gone = fd < 0;
        process->messages[1] = count_messages(process->pid, &process->first);
        if (fd >= 0) {
            close(fd);
        }
    }
}

static int by_name(const void *a, const void *b)
{
    const uint64_t first = ((const process_t *) a)->first.name;
    const uint64_t second = ((const process_t *) b)->first.name;

    return first < second ? -1 : first > second;
}

/* Seconds since then, by this host's clock. */
static double since(uint64_t ns)
{
    const uint64_t now = fab_now_ns();

    return now > ns ? (double) (now - ns) / NS_PER_S : 0;
}

/* Does it wait in MPI? */
static bool is_waiting(const process_t *process)
{
    const uint64_t seen_ns = process->last.status.seen_ns;

    return process->first.status.seen_ns != seen_ns ||
           (0 != seen_ns && since(seen_ns) * 1000 < OUTSIDE_MS);
}

/* Polls in a second, while it waited. */
static double rate(const process_t *process)
{
    const fab_look_status_t *first = &process->first.status, *last = &process->last.status;
    const uint64_t ns = last->seen_ns - first->seen_ns;

    return last->seen_ns > first->seen_ns
               ? (double) (last->polls - first->polls) * NS_PER_S / (double) ns
               : 0;
}

/* What it does that does not wait in MPI, or not for a millisecond at a time. */
static void text_outside(char buf[TEXT_SIZE], const process_t *process)
{
    const char state = fab_look_process_state(process->pid);
    const char *where = "outside MPI: ";

    if ('T' == state || 't' == state) {
        where = ""; /* one that was stopped may be anywhere */
    } else if (process->messages[0] != process->messages[1]) {
        snprintf(buf, TEXT_SIZE, "sends and receives, and does not wait");
        return;
    } else if (0 == process->messages[0]) {
        where = "outside MPI, or does not wait there: ";
    }
    snprintf(buf, TEXT_SIZE, "%s%s", where, fab_look_what_it_does(state));
}

static void text_state(char buf[TEXT_SIZE], double *for_s, const process_t *process)
{
    const fab_look_status_t *status = &process->last.status;
    char wait[PML_TM_WAIT_SIZE];

    if (process->is_gone) {
        *for_s = 0;
        snprintf(buf, TEXT_SIZE, "has ended");
    } else if (is_waiting(process)) {
        *for_s = since(status->since_ns);
        snprintf(buf, TEXT_SIZE, "%s", mca_pml_tm_wait_text(wait, &process->last.wait, NULL));
    } else {
        *for_s = since(0 != status->seen_ns ? status->seen_ns : process->last.opened_ns);
        text_outside(buf, process);
    }
}

static void print_process(const process_t *process)
{
    char state[TEXT_SIZE];
    double for_s;

    text_state(state, &for_s, process);
    printf("%6u %8u %9.1f s %9.0f  %s\n", rank_of(process->last.name), process->pid, for_s,
           rate(process), state);
}

static size_t count_of_job(const processes_t *found, size_t at)
{
    size_t end = at;

    while (end < found->count &&
           found->all[end].first.name >> 32 == found->all[at].first.name >> 32) {
        end++;
    }
    return end - at;
}

/* " of 4 ranks", where it is known how many the job has. */
static void text_size(char *buf, size_t size, const fab_look_t *head)
{
    if (0 == head->num_procs) {
        snprintf(buf, size, " ranks");
    } else {
        snprintf(buf, size, " of %u ranks", head->num_procs);
    }
}

static void print_jobs(const processes_t *found)
{
    for (size_t at = 0; at < found->count;) {
        const size_t count = count_of_job(found, at);
        const fab_look_t *head = &found->all[at].first;
        char ranks[32];

        text_size(ranks, sizeof(ranks), head);
        printf("job %08" PRIx64 "  %zu%s on %s  %s\n", head->name >> 32, count, ranks, head->host,
               head->program);
        printf("%6s %8s %11s %9s  %s\n", "rank", "pid", "for", "polls/s", "state");
        for (size_t i = at; i < at + count; i++) {
            print_process(&found->all[i]);
        }
        at += count;
    }
}

/* All jobs of this user here; false: there is none. */
static bool show_jobs(void)
{
    processes_t found = {.all = calloc(MAX_PROCESSES, sizeof(process_t))};
    bool is_any;

    if (NULL == found.all) {
        return false;
    }
    fab_look_visit(add, &found);
    pause_ms(PAUSE_MS);
    look_again(&found);
    qsort(found.all, found.count, sizeof(*found.all), by_name);
    print_jobs(&found);
    is_any = found.count > 0;
    free(found.all);
    return is_any;
}

/* ---- one process -------------------------------------------------------- */

typedef struct counter {
    const char *name;
    size_t offset;
} counter_t;

#define FABRIC_COUNTER(name, help)         {#name, offsetof(fab_counters_t, name)},
#define PML_COUNTER(name, help)            {#name, offsetof(mca_pml_tm_counters_t, name)},
#define OFFLOAD_COUNTER(name, field, help) {#name, offsetof(fab_offload_counters_t, field)},
static const counter_t fabric_counters[] = {FAB_COUNTERS(FABRIC_COUNTER)};
static const counter_t pml_counters[] = {PML_TM_COUNTERS(PML_COUNTER)};
static const counter_t offload_counters[] = {PML_TM_OFFLOAD_COUNTERS(OFFLOAD_COUNTER)};
#undef FABRIC_COUNTER
#undef PML_COUNTER
#undef OFFLOAD_COUNTER

typedef struct counters {
    const counter_t *all;
    size_t count;
    const char *names;
} counters_t;

#define COUNTERS(all, names)                                                                       \
    {                                                                                              \
        all, sizeof(all) / sizeof(all[0]), names                                                   \
    }
static const counters_t counters[FAB_LOOK_SENT] = {
    [FAB_LOOK_FABRIC] = COUNTERS(fabric_counters, FAB_COUNTER_NAMES),
    [FAB_LOOK_PML] = COUNTERS(pml_counters, PML_TM_COUNTER_NAMES),
    [FAB_LOOK_OFFLOAD] = COUNTERS(offload_counters, PML_TM_OFFLOAD_NAMES),
};

enum { MOST_COUNTERS = 256 };

_Static_assert(sizeof(fabric_counters) / sizeof(fabric_counters[0]) <= MOST_COUNTERS, "room");

/* Those that are not 0. Returns NULL, or why they cannot be shown. */
static const char *print_counters(const look_source_t *source, int which)
{
    const fab_look_counters_t *there = &source->head.counters[which];
    const counters_t *known = &counters[which];
    uint64_t values[MOST_COUNTERS];

    if (0 == there->at) {
        return NULL;
    }
    if (there->count != known->count || there->names != fab_look_hash(known->names)) {
        return "the process runs another build than this program";
    }
    if (!look_source_memory(source, there->at, values, known->count * sizeof(values[0]))) {
        return 0 != source->pid ? "the kernel does not let us read its memory (ptrace_scope)"
                                : "they are not in the core dump";
    }
    for (size_t i = 0; i < known->count; i++) {
        const uint64_t value = values[known->all[i].offset / sizeof(values[0])];

        if (0 != value) {
            printf("  %-24s %" PRIu64 "\n", known->all[i].name, value);
        }
    }
    return NULL;
}

static void print_all_counters(const look_source_t *source)
{
    const char *why = NULL;

    printf("counters that are not 0\n");
    for (int i = 0; i < FAB_LOOK_SENT && NULL == why; i++) {
        why = print_counters(source, i);
    }
    if (NULL != why) {
        printf("  none: %s\n", why);
    }
}

/* ---- events -------------------------------------------------------------- */

/* Before the rank. */
static const char *const kinds[FAB_EVENT_KINDS] = {
    [FAB_EVENT_NONE] = "nothing",
    [FAB_EVENT_WAITED] = "waited",
    [FAB_EVENT_ANNOUNCED] = "message announced by",
    [FAB_EVENT_QUEUED] = "send found no room to",
    [FAB_EVENT_HOLD] = "asked to hold its messages back:",
    [FAB_EVENT_GO_ON] = "asked to go on:",
    [FAB_EVENT_TOLD_HOLD] = "messages are to be held back, says",
    [FAB_EVENT_TOLD_GO_ON] = "messages may go again, says",
    [FAB_EVENT_PEER_OPENED] = "opened:",
    [FAB_EVENT_PEER_MOVED] = "reached by another network:",
    [FAB_EVENT_PEER_FAILED] = "FAILED:",
};

/* What happened to the process with this name. */
static void print_event(const fab_event_t *event, uint64_t name)
{
    const fab_wait_t wait = {.what = event->what, .peer = event->peer, .tag = event->tag};
    char text[PML_TM_WAIT_SIZE], tag[PML_TM_TAG_SIZE];

    if (FAB_EVENT_WAITED == event->kind) {
        printf("waited %.3f ms: %s\n", (double) event->bytes / 1e6,
               mca_pml_tm_wait_text(text, &wait, NULL));
        return;
    }
    printf("%s rank %u%s", kinds[event->kind], rank_of(event->peer),
           event->peer >> 32 == name >> 32 ? "" : " of another job");
    if (FAB_EVENT_ANNOUNCED == event->kind || FAB_EVENT_QUEUED == event->kind) {
        printf(", tag %s, %" PRIu64 " bytes", mca_pml_tm_tag_text(tag, event->tag), event->bytes);
    }
    putchar('\n');
}

/* A wait is recorded when the next one begins, with the time when it ended. */
static int by_time(const void *a, const void *b)
{
    const uint64_t first = ((const fab_event_t *) a)->ns;
    const uint64_t second = ((const fab_event_t *) b)->ns;

    return first < second ? -1 : first > second;
}

static void print_events(const look_source_t *source, size_t most)
{
    fab_event_t events[FAB_LOOK_EVENTS];
    uint64_t lost = 0;
    const size_t count = fab_look_read_events(source->place, events, &lost);

    qsort(events, count, sizeof(*events), by_time);
    printf("last events, of %" PRIu64 "; seconds since the process began\n", lost + count);
    for (size_t i = count > most ? count - most : 0; i < count; i++) {
        printf("  %14.6f  ", (double) (int64_t) (events[i].ns - source->head.opened_ns) / NS_PER_S);
        print_event(&events[i], source->head.name);
    }
}

static double begin_to(const fab_look_t *head, uint64_t ns)
{
    return (double) (int64_t) (ns - head->opened_ns) / NS_PER_S;
}

static void print_last_wait(const fab_look_t *head)
{
    char text[PML_TM_WAIT_SIZE];

    if (FAB_LOOK_NOTHING == head->wait.what) {
        printf("has not waited in MPI\n");
        return;
    }
    printf("last waited at %.3f s, since %.3f s: %s\n", begin_to(head, head->status.seen_ns),
           begin_to(head, head->status.since_ns), mca_pml_tm_wait_text(text, &head->wait, NULL));
}

/* All that waits, as of the last look of the process itself, in a wait that was long. */
static void print_waits(const fab_look_t *head)
{
    char text[PML_TM_WAIT_SIZE];

    if (0 == head->status.listed_ns) {
        return;
    }
    printf("what waits, at %.3f s\n", begin_to(head, head->status.listed_ns));
    for (uint32_t i = 0; i < head->status.count; i++) {
        printf("  %s\n", mca_pml_tm_wait_text(text, &head->waits[i], NULL));
    }
    if (0 != head->status.has_more) {
        printf("  ... and more\n");
    }
}

/* A process or core dump. False: it cannot be opened. */
static bool show_one(const char *name, size_t most_events)
{
    look_source_t source;
    process_t process = {0};
    const char *why = look_source_open(&source, name);

    if (NULL != why) {
        fprintf(stderr, "tm_look: %s: %s\n", name, why);
        return false;
    }
    printf("job %08" PRIx64 "  rank %u of %u  %s:%u  %s\n", source.head.name >> 32,
           rank_of(source.head.name), source.head.num_procs, source.head.host, source.head.pid,
           source.head.program);
    if (0 != source.pid) {
        process = (process_t){.pid = source.pid,
                              .first = source.head,
                              .messages = {count_messages(source.pid, &source.head)}};
        pause_ms(PAUSE_MS);
        process.is_gone = !fab_look_read(source.place, &process.last);
        process.messages[1] = count_messages(source.pid, &source.head);
        print_process(&process);
    } else {
        print_last_wait(&source.head);
    }
    print_waits(0 != source.pid && !process.is_gone ? &process.last : &source.head);
    print_all_counters(&source);
    print_events(&source, most_events);
    look_source_close(&source);
    return true;
}

/* ---- arguments ---------------------------------------------------------- */

/* A whole number, and nothing else. */
static bool is_number(const char *text, size_t *number)
{
    if ('\0' == *text || strlen(text) != strspn(text, "0123456789")) {
        return false;
    }
    errno = 0;
    *number = strtoul(text, NULL, 10);
    return 0 == errno;
}

static int usage(FILE *out, int rc)
{
    fprintf(out,
            "Usage: tm_look [-w]\n"
            "       tm_look [-n EVENTS] PID|CORE...\n\n"
            "Shows what the processes of this user's jobs on this host that use pml tm do: what\n"
            "each waits for, or that it is outside MPI, for how long, and how often it polls.\n"
            "Of a process or a core dump it shows all receives, sends and messages that wait,\n"
            "the counters and the last events, too.\n"
            "Exit status: 0, or 1 if there is nothing to show, 2 for wrong arguments.\n\n"
            "  -n EVENTS  show the last EVENTS events (default: %d)\n"
            "  -w         repeat every second, until it is interrupted\n"
            "  --version  print the version\n",
            EVENTS);
    return rc;
}

static _Noreturn void watch(void)
{
    for (;;) {
        printf("\033[H\033[J"); /* clear the terminal */
        (void) show_jobs();
        fflush(stdout);
        pause_ms(1000 - PAUSE_MS);
    }
}

int main(int argc, char **argv)
{
    static const struct option options[] = {
        {"help", no_argument, NULL, 'h'}, {"version", no_argument, NULL, 'V'}, {0}};
    size_t most_events = EVENTS;
    bool is_watch = false;
    int option, rc = STATUS_GOOD;

    while (-1 != (option = getopt_long(argc, argv, "hn:w", options, NULL))) {
        switch (option) {
        case 'n':
            if (!is_number(optarg, &most_events)) {
                fprintf(stderr, "tm_look: -n %s: a number is wanted\n", optarg);
                return STATUS_USAGE;
            }
            break;
        case 'w':
            is_watch = true;
            break;
        case 'h':
            return usage(stdout, STATUS_GOOD);
        case 'V':
            printf("tm_look (pml_tm) %s\n", TM_VERSION);
            return STATUS_GOOD;
        default:
            return usage(stderr, STATUS_USAGE);
        }
    }
    if (is_watch && optind < argc) {
        return usage(stderr, STATUS_USAGE);
    }
    if (is_watch) {
        watch();
    }
    for (int i = optind; i < argc; i++) {
        rc = show_one(argv[i], most_events) ? rc : STATUS_NOTHING;
    }
    if (optind == argc && !show_jobs()) {
        fprintf(stderr, "tm_look: there is no process of this user that uses pml tm\n");
        return STATUS_NOTHING;
    }
    return rc;
}
