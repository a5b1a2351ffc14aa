/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Traces: which departure and which arrival belong together, in files of two ranks; what is found
 * in a core dump; and damaged files and dumps.
 *
 * TEST: sources=tools/trace_load.c,tools/trace_clock.c,tools/look_source.c,tools/look_text.c,common/fabric/fab_look_read.c,pml_tm/pml_tm_tags.c cflags=-Itools variants=asan
 */
#include "trace.h"

#include <elf.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "look_source.h"
#include "look_text.h"

enum { EVENTS = FAB_LOOK_EVENTS_MIN, RANKS = 2, FUZZ = 400 };

typedef struct look_file {
    fab_look_t head;
    uint8_t pad[FAB_LOOK_HEAD - sizeof(fab_look_t)];
    fab_event_t events[EVENTS];
} look_file_t;

_Static_assert(FAB_LOOK_HEAD == offsetof(look_file_t, events), "as the process writes it");

static look_file_t files[RANKS];
static char dir[] = "/tmp/tm_trace_XXXXXX";

static void begin(void)
{
    for (uint32_t rank = 0; rank < RANKS; rank++) {
        memset(&files[rank], 0, sizeof(files[rank]));
        files[rank].head = (fab_look_t){
            .magic = FAB_LOOK_MAGIC,
            .version = FAB_LOOK_VERSION,
            .num_events = EVENTS,
            .name = UINT64_C(5) << 32 | rank,
            .opened_ns = 1000,
            .opened_at_ns = 1000,
        };
    }
}

static void add(uint32_t rank, fab_event_kind_t kind, uint32_t id, uint64_t ns)
{
    const uint64_t next = files[rank].head.next++;

    files[rank].events[next % EVENTS] = (fab_event_t){
        .ns = ns, .kind = (uint8_t) kind, .rank = 1 - rank, .id = id, .bytes_context = 100};
}

static void path_of(char path[64], uint32_t rank)
{
    snprintf(path, 64, "%s/00000005.%u.tmlook", dir, rank);
}

static void write_file(const char *path, const void *data, size_t size)
{
    FILE *file = fopen(path, "we");

    assert_non_null(file);
    assert_int_equal(fwrite(data, 1, size, file), size);
    assert_int_equal(fclose(file), 0);
}

static void load(trace_t *trace)
{
    char path[64];

    *trace = (trace_t){0};
    for (uint32_t rank = 0; rank < RANKS; rank++) {
        path_of(path, rank);
        write_file(path, &files[rank], sizeof(files[rank]));
    }
    assert_true(trace_add(trace, dir));
    assert_true(trace_finish(trace));
}

/* The event of this kind and time. */
static uint32_t at(const trace_t *trace, fab_event_kind_t kind, uint64_t ns)
{
    for (uint32_t i = 0; i < trace->num_events; i++) {
        if (kind == trace->events[i].event.kind && ns == trace->events[i].event.ns) {
            return i;
        }
    }
    fail_msg("no such event: %d at %u", kind, (unsigned) ns);
    return 0;
}

/* By their number, in whatever order, and in both directions. */
static void test_numbers(void **state)
{
    trace_t trace;

    (void) state;
    begin();
    add(0, FAB_EVENT_SENT, 0, 10);
    add(0, FAB_EVENT_SENT, 1, 20);
    add(1, FAB_EVENT_SENT, 0, 15);
    add(1, FAB_EVENT_ARRIVED, 1, 31);
    add(1, FAB_EVENT_ARRIVED, 0, 30);
    add(0, FAB_EVENT_ARRIVED, 0, 40);
    add(0, FAB_EVENT_SENT, 7, 50);
    load(&trace);
    assert_int_equal(trace.num_events, 7);
    assert_int_equal(trace.pairs, 3);
    assert_int_equal(trace.unpaired, 1);
    assert_int_equal(trace.events[at(&trace, FAB_EVENT_SENT, 10)].partner,
                     at(&trace, FAB_EVENT_ARRIVED, 30));
    assert_int_equal(trace.events[at(&trace, FAB_EVENT_ARRIVED, 31)].partner,
                     at(&trace, FAB_EVENT_SENT, 20));
    assert_int_equal(trace.events[at(&trace, FAB_EVENT_ARRIVED, 40)].message,
                     at(&trace, FAB_EVENT_SENT, 15));
    assert_int_equal(trace.events[at(&trace, FAB_EVENT_SENT, 50)].partner, TRACE_NONE);
    for (size_t i = 1; i < trace.num_events; i++) {
        assert_true(trace.events[i].ns >= trace.events[i - 1].ns);
    }
    trace_free(&trace);
}

/*
 * Two hosts, of which one's clock is 5 ms ahead: messages both ways tell so, as exactly as the
 * fastest of them takes as long there as back.
 */
static void test_clocks(void **state)
{
    enum { AHEAD = 5000000 };
    trace_t trace;

    (void) state;
    begin();
    snprintf(files[0].head.host, sizeof(files[0].head.host), "one");
    snprintf(files[1].head.host, sizeof(files[1].head.host), "two");
    add(0, FAB_EVENT_SENT, 0, 1000);
    add(1, FAB_EVENT_ARRIVED, 0, AHEAD + 1900); /* slow */
    add(0, FAB_EVENT_SENT, 1, 2000);
    add(1, FAB_EVENT_ARRIVED, 1, AHEAD + 2300);
    add(1, FAB_EVENT_SENT, 0, AHEAD + 3000);
    add(0, FAB_EVENT_ARRIVED, 0, 3500);
    add(1, FAB_EVENT_ANNOUNCE, 9, AHEAD + 4000);
    add(0, FAB_EVENT_ANNOUNCED, 9, 4600);
    load(&trace);
    assert_int_equal(trace.pairs, 4);
    assert_int_equal(trace.unpaired, 0);
    assert_int_equal(trace.num_hosts, 2);
    for (size_t i = 0; i < 2; i++) { /* in the order of the directory */
        const trace_host_t *host = &trace.hosts[i];
        const int64_t ahead = 0 == i ? 0 : 't' == host->name[0] ? AHEAD - 100 : -(AHEAD - 100);
        assert_true(host->is_known);
        assert_int_equal(host->ahead_ns, ahead);
        assert_int_equal(host->error_ns, 0 == i ? 0 : 400);
    }
    for (size_t i = 0; i < trace.num_events; i++) {
        const trace_event_t *event = &trace.events[i];
        if (event->message == i) {
            assert_true(trace.events[event->partner].ns >= event->ns + 400);
        }
        assert_true(0 == i || event->ns >= trace.events[i - 1].ns);
    }
    assert_int_equal(trace.events[0].ns, 0);
    trace_free(&trace);

    begin(); /* messages one way only: nothing is known */
    snprintf(files[0].head.host, sizeof(files[0].head.host), "one");
    snprintf(files[1].head.host, sizeof(files[1].head.host), "two");
    add(0, FAB_EVENT_SENT, 0, 1000);
    add(1, FAB_EVENT_ARRIVED, 0, AHEAD);
    load(&trace);
    assert_int_equal(trace.pairs, 1);
    assert_false(trace.hosts[1].is_known);
    assert_int_equal(trace.hosts[1].ahead_ns, 0);
    trace_free(&trace);
}

/* Announced messages use the same id again; a number that is the same is another message. */
static void test_ids(void **state)
{
    trace_t trace;

    (void) state;
    begin();
    for (uint64_t ns = 100; ns <= 300; ns += 100) {
        add(0, FAB_EVENT_ANNOUNCE, 9, ns);
        add(1, FAB_EVENT_ANNOUNCED, 9, ns + 10);
        add(1, FAB_EVENT_FETCH, 9, ns + 20);
        add(1, FAB_EVENT_RECEIVED, 9, ns + 30);
        add(0, FAB_EVENT_FINISHED, 9, ns + 40);
    }
    add(0, FAB_EVENT_SENT, 9, 150);
    add(1, FAB_EVENT_RECEIVED, 8, 50); /* of one whose beginning is lost */
    load(&trace);
    assert_int_equal(trace.pairs, 3);
    assert_int_equal(trace.unpaired, 1);
    for (uint64_t ns = 100; ns <= 300; ns += 100) {
        const uint32_t first = at(&trace, FAB_EVENT_ANNOUNCE, ns);

        assert_int_equal(trace.events[first].partner, at(&trace, FAB_EVENT_ANNOUNCED, ns + 10));
        assert_int_equal(trace.events[at(&trace, FAB_EVENT_FETCH, ns + 20)].message, first);
        assert_int_equal(trace.events[at(&trace, FAB_EVENT_RECEIVED, ns + 30)].message, first);
        assert_int_equal(trace.events[at(&trace, FAB_EVENT_FINISHED, ns + 40)].message, first);
    }
    trace_free(&trace);
}

/* A core dump with what the process shows, and memory of it. */
static void test_core(void **state)
{
    struct {
        Elf64_Ehdr head;
        Elf64_Phdr pieces[2];
        uint8_t pad[256];
        look_file_t look;
        uint64_t counter;
    } core = {
        .head = {.e_ident = {0x7f, 'E', 'L', 'F', ELFCLASS64},
                 .e_type = ET_CORE,
                 .e_phoff = sizeof(Elf64_Ehdr),
                 .e_phnum = 2,
                 .e_phentsize = sizeof(Elf64_Phdr)},
        .pieces = {{.p_type = PT_LOAD, .p_vaddr = 0x7000, .p_filesz = sizeof(uint64_t)},
                   {.p_type = PT_LOAD, .p_vaddr = 0x8000, .p_filesz = sizeof(look_file_t)}},
        .counter = 77,
    };
    char path[64], text[LOOK_TEXT_SIZE];
    look_source_t source;
    uint64_t value = 0;

    (void) state;
    begin();
    files[1].head.status = (fab_look_status_t){.what = FAB_LOOK_RECV, .peer = 3, .comm = "row"};
    core.look = files[1];
    core.pieces[0].p_offset = (uint64_t) ((char *) &core.counter - (char *) &core);
    core.pieces[1].p_offset = (uint64_t) ((char *) &core.look - (char *) &core);
    snprintf(path, sizeof(path), "%s/core", dir);
    write_file(path, &core, sizeof(core));
    assert_null(look_source_open(&source, path));
    assert_int_equal(look_rank(source.head.name), 1);
    look_text_wait(text, &source.head.status);
    assert_string_equal(text, "receive from rank 3, tag 0, up to 0 bytes, row");
    assert_true(look_source_memory(&source, 0x7000, &value, sizeof(value)));
    assert_int_equal(value, 77);
    assert_false(look_source_memory(&source, 0x7001, &value, sizeof(value)));
    assert_false(look_source_memory(&source, 0x6fff, &value, sizeof(value)));
    assert_false(look_source_memory(&source, UINT64_MAX, &value, sizeof(value)));
    look_source_close(&source);

    for (int i = 0; i < FUZZ; i++) {
        unsigned char *bytes = (unsigned char *) &core;

        for (int k = 0; k < 4; k++) {
            bytes[18 + rand() % (sizeof(core.head) + sizeof(core.pieces) - 18)] = (unsigned char)
                rand();
        }
        core.head.e_phentsize = sizeof(Elf64_Phdr);
        write_file(path, &core, sizeof(core));
        if (NULL == look_source_open(&source, path)) {
            (void) look_source_memory(&source, (uint64_t) rand(), &value, sizeof(value));
            look_source_close(&source);
        }
    }
    unlink(path);
}

static void test_anything(void **state)
{
    char path[64], text[LOOK_TEXT_SIZE];

    (void) state;
    test_ids(state);
    for (int i = 0; i < FUZZ; i++) {
        const uint32_t rank = (uint32_t) rand() % RANKS;
        trace_t trace = {0};

        for (int k = 0; k < 8; k++) {
            const size_t offset = 0 == rand() % 4 ? 16 + (size_t) rand() % 240
                                                  : FAB_LOOK_HEAD + (size_t) rand() % (EVENTS * 32);
            ((unsigned char *) &files[rank])[offset] = (unsigned char) rand();
        }
        path_of(path, rank);
        write_file(path, &files[rank], sizeof(files[rank]));
        assert_true(trace_add(&trace, dir));
        assert_true(trace_finish(&trace));
        for (size_t e = 0; e < trace.num_events; e++) {
            look_text_event(text, &trace.events[e].event);
            assert_true(strlen(text) < sizeof(text));
            assert_true(trace.events[e].message < trace.num_events);
            assert_true(TRACE_NONE == trace.events[e].partner ||
                        e == trace.events[trace.events[e].partner].partner);
        }
        trace_free(&trace);
    }
}

static int make_dir(void **state)
{
    (void) state;
    return NULL != mkdtemp(dir) ? 0 : -1;
}

static int remove_dir(void **state)
{
    char path[64];

    (void) state;
    for (uint32_t rank = 0; rank < RANKS; rank++) {
        path_of(path, rank);
        unlink(path);
    }
    return rmdir(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_numbers), cmocka_unit_test(test_clocks),   cmocka_unit_test(test_ids),
        cmocka_unit_test(test_core),    cmocka_unit_test(test_anything),
    };

    return cmocka_run_group_tests(tests, make_dir, remove_dir);
}
