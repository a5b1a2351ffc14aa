/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * OTF2 archives: see trace.h.  The library is there if configure found it.
 */
#include "trace.h"

#include "tm_config.h"

#include <stdio.h>

#ifdef TM_HAVE_OTF2

#include <stdlib.h>

#include <otf2/otf2.h>

#include "look_text.h"

enum { EVENT_CHUNK = 1 << 20, DEFINITION_CHUNK = 4 << 20 }; /* bytes that the library collects */
enum { REGION_WAIT };

/* Something to write: an event of the trace, or the begin of the wait that the event ends. */
typedef struct record {
    uint64_t ns;
    uint32_t process;
    uint32_t event;
    bool is_begin;
} record_t;

typedef struct writer {
    const trace_t *trace;
    OTF2_Archive *archive;
    OTF2_GlobalDefWriter *definitions;
    OTF2_StringRef strings; /* defined so far */
    uint64_t *counts;       /* events written of each process */
    uint64_t *members;      /* 0, 1, ...: all processes */
    bool is_bad;
} writer_t;

static void check(writer_t *writer, OTF2_ErrorCode rc)
{
    writer->is_bad |= OTF2_SUCCESS != rc;
}

/* ---- events ------------------------------------------------------------- */

/* By process; in it by time. */
static int compare_records(const void *a, const void *b)
{
    const record_t *x = a, *y = b;

    if (x->process != y->process) {
        return x->process < y->process ? -1 : 1;
    }
    if (x->ns != y->ns) {
        return x->ns < y->ns ? -1 : 1;
    }
    return x->event < y->event ? -1 : x->event > y->event;
}

/* What is to be written of all processes; returns how many. */
static size_t collect(const trace_t *trace, size_t first, record_t *records)
{
    size_t count = 0;

    for (size_t i = first; i < trace->num_events; i++) {
        const trace_event_t *event = &trace->events[i];
        const uint64_t waited_ns = fab_event_bytes(&event->event);
        record_t record = {.ns = event->ns, .process = event->process, .event = (uint32_t) i};

        if (FAB_EVENT_WAITED == event->event.kind) {
            records[count++] = record;
            record.ns -= waited_ns < record.ns ? waited_ns : record.ns;
            record.is_begin = true;
            records[count++] = record;
        } else if (TRACE_NONE != event->partner && event->partner >= first) {
            records[count++] = record;
        }
    }
    qsort(records, count, sizeof(*records), compare_records);
    return count;
}

static OTF2_ErrorCode write_record(const writer_t *writer, OTF2_EvtWriter *to,
                                   const record_t *record)
{
    const trace_event_t *event = &writer->trace->events[record->event];
    uint32_t other;

    if (FAB_EVENT_WAITED == event->event.kind) {
        return (record->is_begin ? OTF2_EvtWriter_Enter
                                 : OTF2_EvtWriter_Leave)(to, NULL, record->ns, REGION_WAIT);
    }
    other = writer->trace->events[event->partner].process;
    return (event->message == record->event ? OTF2_EvtWriter_MpiSend : OTF2_EvtWriter_MpiRecv)(
        to, NULL, record->ns, other, 0, (uint32_t) event->event.tag,
        fab_event_bytes(&event->event));
}

/* All waits are one region: those of several threads may overlap, and so are nested. */
static void write_process(writer_t *writer, uint32_t process, const record_t *records, size_t count)
{
    OTF2_EvtWriter *to = OTF2_Archive_GetEvtWriter(writer->archive, process);

    for (size_t i = 0; NULL != to && i < count; i++) {
        check(writer, write_record(writer, to, &records[i]));
    }
    writer->counts[process] = count;
    check(writer, OTF2_Archive_CloseEvtWriter(writer->archive, to));
}

static void write_events(writer_t *writer, size_t first)
{
    const trace_t *trace = writer->trace;
    record_t *records = calloc(2 * (trace->num_events - first) + 1, sizeof(*records));
    size_t count, end, at = 0;

    if (NULL == records) {
        writer->is_bad = true;
        return;
    }
    count = collect(trace, first, records);
    check(writer, OTF2_Archive_OpenEvtFiles(writer->archive));
    for (uint32_t process = 0; process < trace->num_processes; process++) {
        for (end = at; end < count && process == records[end].process; end++) {
        }
        write_process(writer, process, &records[at], end - at);
        at = end;
    }
    check(writer, OTF2_Archive_CloseEvtFiles(writer->archive));
    free(records);
}

/* ---- definitions -------------------------------------------------------- */

static OTF2_StringRef define_string(writer_t *writer, const char *text)
{
    check(writer, OTF2_GlobalDefWriter_WriteString(writer->definitions, writer->strings, text));
    return writer->strings++;
}

/* A process is a location. */
static void define_process(writer_t *writer, uint32_t process)
{
    const trace_process_t *of = &writer->trace->processes[process];
    char text[32];
    OTF2_StringRef name;

    snprintf(text, sizeof(text), "rank %u", look_rank(of->head.name));
    name = define_string(writer, text);
    check(writer, OTF2_GlobalDefWriter_WriteLocationGroup(writer->definitions, process, name,
                                                          OTF2_LOCATION_GROUP_TYPE_PROCESS,
                                                          of->host, OTF2_UNDEFINED_LOCATION_GROUP));
    check(writer, OTF2_GlobalDefWriter_WriteLocation(writer->definitions, process, name,
                                                     OTF2_LOCATION_TYPE_CPU_THREAD,
                                                     writer->counts[process], process));
}

/* One communicator, in which each process has the rank of its location. */
static void define_communicator(writer_t *writer)
{
    static const OTF2_GroupType types[] = {OTF2_GROUP_TYPE_COMM_LOCATIONS,
                                           OTF2_GROUP_TYPE_COMM_GROUP};
    const OTF2_StringRef name = define_string(writer, "job");

    for (uint32_t i = 0; i < 2; i++) {
        check(writer, OTF2_GlobalDefWriter_WriteGroup(writer->definitions, i, name, types[i],
                                                      OTF2_PARADIGM_MPI, OTF2_GROUP_FLAG_NONE,
                                                      (uint32_t) writer->trace->num_processes,
                                                      writer->members));
    }
    check(writer, OTF2_GlobalDefWriter_WriteComm(writer->definitions, 0, name, 1,
                                                 OTF2_UNDEFINED_COMM, OTF2_COMM_FLAG_NONE));
}

static void define_all(writer_t *writer)
{
    const trace_t *trace = writer->trace;
    const uint64_t end_ns = 0 != trace->num_events ? trace->events[trace->num_events - 1].ns : 0;
    OTF2_StringRef name;

    writer->definitions = OTF2_Archive_GetGlobalDefWriter(writer->archive);
    check(writer, OTF2_GlobalDefWriter_WriteClockProperties(writer->definitions, 1000000000, 0,
                                                            end_ns + 1, OTF2_UNDEFINED_TIMESTAMP));
    name = define_string(writer, "wait for messages");
    check(writer, OTF2_GlobalDefWriter_WriteRegion(
                      writer->definitions, REGION_WAIT, name, name, name, OTF2_REGION_ROLE_UNKNOWN,
                      OTF2_PARADIGM_MPI, OTF2_REGION_FLAG_NONE, OTF2_UNDEFINED_STRING, 0, 0));
    for (uint32_t i = 0; i < trace->num_hosts; i++) {
        name = define_string(writer, trace->hosts[i].name);
        check(writer, OTF2_GlobalDefWriter_WriteSystemTreeNode(writer->definitions, i, name, name,
                                                               OTF2_UNDEFINED_SYSTEM_TREE_NODE));
    }
    for (uint32_t i = 0; i < trace->num_processes; i++) {
        define_process(writer, i);
    }
    define_communicator(writer);
}

/* ---- all of it ---------------------------------------------------------- */

static OTF2_FlushType flush(void *ctx, OTF2_FileType type, OTF2_LocationRef location, void *caller,
                            bool is_final)
{
    (void) ctx, (void) type, (void) location, (void) caller, (void) is_final;
    return OTF2_FLUSH; /* to its file, when a chunk is full */
}

/* Each process has a file of definitions of its own, if it is empty. */
static void write_all(writer_t *writer, size_t first)
{
    static const OTF2_FlushCallbacks callbacks = {.otf2_pre_flush = flush};

    check(writer, OTF2_Archive_SetFlushCallbacks(writer->archive, &callbacks, NULL));
    check(writer, OTF2_Archive_SetSerialCollectiveCallbacks(writer->archive));
    write_events(writer, first);
    check(writer, OTF2_Archive_OpenDefFiles(writer->archive));
    for (uint32_t i = 0; i < writer->trace->num_processes; i++) {
        OTF2_DefWriter *own = OTF2_Archive_GetDefWriter(writer->archive, i);

        writer->members[i] = i;
        check(writer, OTF2_Archive_CloseDefWriter(writer->archive, own));
    }
    check(writer, OTF2_Archive_CloseDefFiles(writer->archive));
    define_all(writer);
}

bool trace_write_otf2(const trace_t *trace, size_t first, const char *directory)
{
    writer_t writer = {.trace = trace};

    writer.counts = calloc(trace->num_processes + 1, sizeof(*writer.counts));
    writer.members = calloc(trace->num_processes + 1, sizeof(*writer.members));
    writer.archive = OTF2_Archive_Open(directory, "trace", OTF2_FILEMODE_WRITE, EVENT_CHUNK,
                                       DEFINITION_CHUNK, OTF2_SUBSTRATE_POSIX,
                                       OTF2_COMPRESSION_NONE);
    writer.is_bad = NULL == writer.counts || NULL == writer.members || NULL == writer.archive;
    if (!writer.is_bad) {
        write_all(&writer, first);
    }
    if (NULL != writer.archive) {
        check(&writer, OTF2_Archive_Close(writer.archive));
    }
    free(writer.counts);
    free(writer.members);
    return !writer.is_bad;
}

#else

bool trace_write_otf2(const trace_t *trace, size_t first, const char *directory)
{
    (void) trace, (void) first, (void) directory;
    fprintf(stderr, "tm_trace: built without OTF2's library (libotf2-trace-dev)\n");
    return false;
}

#endif
