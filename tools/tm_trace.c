/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tm_trace: the events of a job's processes in one file, for a viewer of Chrome trace events
 * (ui.perfetto.dev, chrome://tracing), as text, or as an OTF2 archive.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif

#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>

#include "look_text.h"
#include "trace.h"

enum {
    STATUS_GOOD = 0,
    STATUS_BAD = 1,
    STATUS_USAGE = 2,
    MOST_EVENTS = 1000000, /* written, unless the user wants more: 200 MB */
};

/* Rows of a process. */
enum { ROW_WAITS = 1, ROW_SENDS, ROW_RECEIVES, ROW_OTHER };

#define NS_PER_US 1e3
#define NS_PER_S  1e9
#define MARK_US   0.2 /* length of what has none, so that arrows begin and end there */

typedef struct writer {
    FILE *file;
    const trace_t *trace;
    bool has_begun; /* the next element needs a comma */
} writer_t;

/* ---- JSON --------------------------------------------------------------- */

static uint32_t rank_of(const writer_t *writer, const trace_event_t *event)
{
    return look_rank(writer->trace->processes[event->process].head.name);
}

/* A text in quotes. */
static void write_text(FILE *file, const char *text)
{
    fputc('"', file);
    for (; '\0' != *text; text++) {
        if ('"' == *text || '\\' == *text) {
            fputc('\\', file);
        }
        fputc((unsigned char) *text < 0x80 ? *text : '?', file);
    }
    fputc('"', file);
}

/* The members that all have; more may follow. */
static void begin(writer_t *writer, const char *phase, const char *name, uint32_t pid, int tid)
{
    fprintf(writer->file,
            "%s\n{\"ph\":\"%s\",\"pid\":%u,\"tid\":%d,\"name\":", writer->has_begun ? "," : "",
            phase, pid, tid);
    writer->has_begun = true;
    write_text(writer->file, name);
}

static void end(writer_t *writer)
{
    fputc('}', writer->file);
}

static void write_names(writer_t *writer)
{
    static const char *const rows[] = {
        [ROW_WAITS] = "waits",
        [ROW_SENDS] = "sends",
        [ROW_RECEIVES] = "receives",
        [ROW_OTHER] = "other",
    };
    char name[FAB_LOOK_HOST + FAB_LOOK_TEXT + 64];

    for (size_t i = 0; i < writer->trace->num_processes; i++) {
        const fab_look_t *head = &writer->trace->processes[i].head;
        const uint32_t rank = look_rank(head->name);

        snprintf(name, sizeof(name), "rank %u  %s:%u %s", rank, head->host, head->pid,
                 head->program);
        begin(writer, "M", "process_name", rank, 0);
        fprintf(writer->file, ",\"args\":{\"name\":");
        write_text(writer->file, name);
        fputc('}', writer->file);
        end(writer);
        begin(writer, "M", "process_sort_index", rank, 0);
        fprintf(writer->file, ",\"args\":{\"sort_index\":%u}", rank);
        end(writer);
        for (int row = ROW_WAITS; row <= ROW_OTHER; row++) {
            begin(writer, "M", "thread_name", rank, row);
            fprintf(writer->file, ",\"args\":{\"name\":\"%s\"}", rows[row]);
            end(writer);
            begin(writer, "M", "thread_sort_index", rank, row);
            fprintf(writer->file, ",\"args\":{\"sort_index\":%d}", row);
            end(writer);
        }
    }
}

static int row_of(const fab_event_t *event)
{
    switch (event->kind) {
    case FAB_EVENT_WAITED:
        return ROW_WAITS;
    case FAB_EVENT_SENT:
    case FAB_EVENT_ANNOUNCE:
    case FAB_EVENT_FINISHED:
    case FAB_EVENT_QUEUED:
    case FAB_EVENT_HELD:
        return ROW_SENDS;
    case FAB_EVENT_ARRIVED:
    case FAB_EVENT_ANNOUNCED:
    case FAB_EVENT_FETCH:
    case FAB_EVENT_PIECES:
    case FAB_EVENT_RECEIVED:
        return ROW_RECEIVES;
    default:
        return ROW_OTHER;
    }
}

static void write_args(writer_t *writer, const fab_event_t *event)
{
    if (look_text_has_message(event)) {
        fprintf(writer->file,
                ",\"args\":{\"rank\":%u,\"tag\":%d,\"bytes\":%" PRIu64
                ",\"communicator\":%u,\"number\":%u,\"unexpected\":%s}",
                event->rank, event->tag, fab_event_bytes(event), fab_event_context(event),
                event->id, 0 != (event->flags & FAB_EVENT_UNEXPECTED) ? "true" : "false");
    }
}

/* The event itself: as long as it lasted. */
static void write_event(writer_t *writer, const trace_event_t *event)
{
    const uint64_t waited_ns = fab_event_bytes(&event->event);
    double us = (double) event->ns / NS_PER_US, long_us = MARK_US;
    char text[LOOK_TEXT_SIZE];

    look_text_event(text, &event->event);
    if (FAB_EVENT_WAITED == event->event.kind) {
        long_us = (double) waited_ns / NS_PER_US;
        us -= long_us;
    }
    begin(writer, "X", text, rank_of(writer, event), row_of(&event->event));
    fprintf(writer->file, ",\"cat\":\"%s\",\"ts\":%.3f,\"dur\":%.3f",
            look_text_kind(event->event.kind), us, long_us);
    write_args(writer, &event->event);
    end(writer);
}

/* An arrow from a departure to its arrival. */
static void write_arrow(writer_t *writer, const trace_event_t *event, size_t at)
{
    const bool is_start = TRACE_NONE != event->partner && event->message == at;

    if (TRACE_NONE == event->partner) {
        return;
    }
    begin(writer, is_start ? "s" : "f", "message", rank_of(writer, event), row_of(&event->event));
    fprintf(writer->file, ",\"cat\":\"message\",\"id\":%" PRIu32 ",\"ts\":%.3f%s", event->message,
            ((double) event->ns) / NS_PER_US, is_start ? "" : ",\"bp\":\"e\"");
    end(writer);
}

/* From a rendezvous's announcement, or its arrival, to this event, its end on that side. */
static void write_rendezvous(writer_t *writer, const trace_event_t *event)
{
    const trace_event_t *first = &writer->trace->events[event->message];
    const bool is_sender = FAB_EVENT_FINISHED == event->event.kind;
    char name[64];

    if (!is_sender) {
        first = TRACE_NONE != first->partner ? &writer->trace->events[first->partner] : NULL;
    }
    if (NULL == first || first == event || first->process != event->process) {
        return;
    }
    snprintf(name, sizeof(name), "%s %" PRIu64 " bytes %s rank %u", is_sender ? "send" : "receive",
             fab_event_bytes(&event->event), is_sender ? "to" : "from", event->event.rank);
    for (int i = 0; i < 2; i++) {
        begin(writer, 0 == i ? "b" : "e", name, rank_of(writer, event), row_of(&event->event));
        fprintf(writer->file, ",\"cat\":\"rendezvous\",\"id\":\"%u.%u\",\"ts\":%.3f",
                event->message, rank_of(writer, event),
                (double) (0 == i ? first : event)->ns / NS_PER_US);
        end(writer);
    }
}

static void write_json(writer_t *writer, size_t first)
{
    const trace_t *trace = writer->trace;

    fprintf(writer->file, "{\"displayTimeUnit\":\"ns\",\"traceEvents\":[");
    write_names(writer);
    for (size_t i = first; i < trace->num_events; i++) {
        const trace_event_t *event = &trace->events[i];

        write_event(writer, event);
        write_arrow(writer, event, i);
        if (FAB_EVENT_FINISHED == event->event.kind || FAB_EVENT_RECEIVED == event->event.kind) {
            write_rendezvous(writer, event);
        }
    }
    fprintf(writer->file, "\n]}\n");
}

/* ---- text --------------------------------------------------------------- */

static void write_lines(writer_t *writer, size_t first)
{
    char text[LOOK_TEXT_SIZE];

    for (size_t i = first; i < writer->trace->num_events; i++) {
        const trace_event_t *event = &writer->trace->events[i];

        look_text_event(text, &event->event);
        fprintf(writer->file, "%14.6f  rank %-5u %s\n", (double) event->ns / NS_PER_S,
                rank_of(writer, event), text);
    }
}

/* ---- arguments ---------------------------------------------------------- */

static int usage(FILE *out, int rc)
{
    fprintf(
        out,
        "Usage: tm_trace [-t] [-o FILE] [-m EVENTS] DIRECTORY|FILE|PID...\n"
        "       tm_trace -a ARCHIVE [-m EVENTS] DIRECTORY|FILE|PID...\n\n"
        "Puts the events of a job's processes in one order: from the files of\n"
        "pml_tm_recorder_dir, from core dumps, or from processes that run here.  With\n"
        "pml_tm_recorder 2 each message is among them.  Writes Chrome trace events (JSON), for\n"
        "ui.perfetto.dev or chrome://tracing.  Exit status: 0, 1 if something cannot be read\n"
        "or written, 2 for wrong arguments.\n\n"
        "  -a ARCHIVE write an OTF2 archive, for Vampir and others, into this new directory: the\n"
        "             waits, and the messages of which both ends are known\n"
        "  -m EVENTS  write at most so many, the last ones (default: %d)\n"
        "  -o FILE    write to this file (default: standard output)\n"
        "  -t         write text, a line for each event\n",
        MOST_EVENTS);
    return rc;
}

/* What was done with the clocks of several hosts. */
static void show_clocks(const trace_t *trace)
{
    for (size_t i = 1; i < trace->num_hosts; i++) {
        const trace_host_t *host = &trace->hosts[i];
        if (host->is_known) {
            fprintf(stderr, "tm_trace: the clock of %s was %.3f us ahead of that of %s (+- %.3f)\n",
                    host->name, (double) host->ahead_ns / NS_PER_US, trace->hosts[0].name,
                    (double) host->error_ns / NS_PER_US);
        } else {
            fprintf(stderr,
                    "tm_trace: the clock of %s could not be compared with that of %s: no messages "
                    "in both directions\n",
                    host->name, trace->hosts[0].name);
        }
    }
}

typedef enum { AS_JSON, AS_TEXT, AS_OTF2 } format_t;

static bool write_file(const trace_t *trace, const char *path, format_t format, size_t first)
{
    writer_t writer = {.file = NULL != path ? fopen(path, "we") : stdout, .trace = trace};
    bool is_good;

    if (NULL == writer.file) {
        return false;
    }
    (AS_TEXT == format ? write_lines : write_json)(&writer, first);
    is_good = 0 == ferror(writer.file);
    return 0 == (stdout == writer.file ? fflush : fclose)(writer.file) && is_good;
}

static int write_all(const trace_t *trace, const char *path, format_t format, size_t most)
{
    const size_t first = trace->num_events > most ? trace->num_events - most : 0;

    if (!(AS_OTF2 == format ? trace_write_otf2(trace, first, path)
                            : write_file(trace, path, format, first))) {
        fprintf(stderr, "tm_trace: %s: cannot be written\n", NULL != path ? path : "the output");
        return STATUS_BAD;
    }
    fprintf(stderr,
            "tm_trace: %zu events of %zu processes; %zu messages from departure to arrival, %zu "
            "with one of them missing; %" PRIu64 " events had been overwritten\n",
            trace->num_events - first, trace->num_processes, trace->pairs, trace->unpaired,
            trace->lost);
    show_clocks(trace);
    if (0 != first) {
        fprintf(stderr, "tm_trace: the first %zu events are left out (-m)\n", first);
    }
    return STATUS_GOOD;
}

static int convert(char **names, const char *path, format_t format, size_t most)
{
    trace_t trace = {0};
    int rc = STATUS_GOOD;

    for (; NULL != *names; names++) {
        rc = trace_add(&trace, *names) ? rc : STATUS_BAD;
    }
    if (!trace_finish(&trace)) {
        fprintf(stderr, "tm_trace: no memory\n");
        rc = STATUS_BAD;
    } else if (0 != trace.num_processes && STATUS_GOOD != write_all(&trace, path, format, most)) {
        rc = STATUS_BAD;
    }
    trace_free(&trace);
    return rc;
}

int main(int argc, char **argv)
{
    static const struct option options[] = {{"help", no_argument, NULL, 'h'}, {0}};
    size_t most = MOST_EVENTS;
    const char *path = NULL, *archive = NULL;
    format_t format = AS_JSON;
    int option;

    while (-1 != (option = getopt_long(argc, argv, "a:hm:o:t", options, NULL))) {
        switch (option) {
        case 'a':
            archive = optarg;
            break;
        case 'm':
            if (!look_text_number(optarg, &most)) {
                fprintf(stderr, "tm_trace: -m %s: a number is wanted\n", optarg);
                return STATUS_USAGE;
            }
            break;
        case 'o':
            path = optarg;
            break;
        case 't':
            format = AS_TEXT;
            break;
        case 'h':
            return usage(stdout, STATUS_GOOD);
        default:
            return usage(stderr, STATUS_USAGE);
        }
    }
    if (optind == argc || (NULL != archive && (NULL != path || AS_TEXT == format))) {
        return usage(stderr, STATUS_USAGE);
    }
    return NULL != archive ? convert(argv + optind, archive, AS_OTF2, most)
                           : convert(argv + optind, path, format, most);
}
