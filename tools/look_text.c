/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Waits and events in words: see look_text.h.
 */
#include "look_text.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pml_tm/pml_tm_shared.h"

static const char *wait_name(uint8_t what)
{
    static const char *const names[FAB_LOOK_WAITS] = {
        [FAB_LOOK_NOTHING] = "nothing",
        [FAB_LOOK_RECV] = "receive",
        [FAB_LOOK_PROBE] = "probe",
        [FAB_LOOK_ROOM] = "send, no room,",
        [FAB_LOOK_HELD] = "send, held back,",
        [FAB_LOOK_MATCH] = "send, not received yet,",
        [FAB_LOOK_SENDING] = "send, data on the way,",
        [FAB_LOOK_ARRIVING] = "receive, data on the way,",
        [FAB_LOOK_OTHER] = "any of its requests",
    };

    return what < FAB_LOOK_WAITS ? names[what] : "?";
}

static void text_tag(char *buf, size_t size, int32_t tag)
{
    char text[PML_TM_TAG_SIZE];

    snprintf(buf, size, -1 == tag ? "any tag" : "tag %s", mca_pml_tm_tag_text(text, tag));
}

static void text_rank(char *buf, size_t size, uint64_t name)
{
    if (FAB_LOOK_ANY == name) {
        snprintf(buf, size, "any rank");
    } else {
        snprintf(buf, size, "rank %u", look_rank(name));
    }
}

void look_text_wait(char buf[LOOK_TEXT_SIZE], const fab_look_status_t *status)
{
    const bool is_from = FAB_LOOK_RECV == status->what || FAB_LOOK_PROBE == status->what ||
                         FAB_LOOK_ARRIVING == status->what;
    char rank[32], tag[64], bytes[48] = "";

    if (FAB_LOOK_NOTHING == status->what || FAB_LOOK_OTHER == status->what) {
        snprintf(buf, LOOK_TEXT_SIZE, "%s", wait_name(status->what));
        return;
    }
    text_rank(rank, sizeof(rank), status->peer);
    text_tag(tag, sizeof(tag), status->tag);
    if (FAB_LOOK_PROBE != status->what) {
        snprintf(bytes, sizeof(bytes), "%s%llu bytes, ",
                 FAB_LOOK_RECV == status->what ? "up to " : "", (unsigned long long) status->bytes);
    }
    snprintf(buf, LOOK_TEXT_SIZE, "%s %s %s, %s, %s%s", wait_name(status->what),
             is_from ? "from" : "to", rank, tag, bytes, status->comm);
}

/* ---- events ------------------------------------------------------------- */

typedef struct kind {
    const char *name;
    const char *text; /* before the rank */
    bool has_message;
} kind_t;

static const kind_t kinds[FAB_EVENT_KINDS] = {
    [FAB_EVENT_NONE] = {"none", "nothing", false},
    [FAB_EVENT_WAITED] = {"waited", "waited", false},
    [FAB_EVENT_ANNOUNCE] = {"announce", "message announced to", true},
    [FAB_EVENT_ANNOUNCED] = {"announced", "message announced by", true},
    [FAB_EVENT_FETCH] = {"fetch", "its data is read from", true},
    [FAB_EVENT_PIECES] = {"pieces", "its data comes in pieces from", true},
    [FAB_EVENT_RECEIVED] = {"received", "all of its data has come from", true},
    [FAB_EVENT_FINISHED] = {"finished", "message has been received by", true},
    [FAB_EVENT_QUEUED] = {"queued", "send found no room to", true},
    [FAB_EVENT_HELD] = {"held", "send is held back to", true},
    [FAB_EVENT_HOLD] = {"hold", "asked to hold its messages back:", false},
    [FAB_EVENT_GO_ON] = {"go_on", "asked to go on:", false},
    [FAB_EVENT_TOLD_HOLD] = {"told_hold", "messages are to be held back, says", false},
    [FAB_EVENT_TOLD_GO_ON] = {"told_go_on", "messages may go again, says", false},
    [FAB_EVENT_COMM] = {"comm", "communicator made", false},
    [FAB_EVENT_COMM_FREED] = {"comm_freed", "communicator freed", false},
    [FAB_EVENT_PEER_OPENED] = {"peer_opened", "opened:", false},
    [FAB_EVENT_PEER_MOVED] = {"peer_moved", "reached by another network:", false},
    [FAB_EVENT_PEER_FAILED] = {"peer_failed", "FAILED:", false},
    [FAB_EVENT_SENT] = {"sent", "message sent to", true},
    [FAB_EVENT_ARRIVED] = {"arrived", "message arrived from", true},
};

static const kind_t *kind_of(uint8_t kind)
{
    return &kinds[kind < FAB_EVENT_KINDS ? kind : FAB_EVENT_NONE];
}

const char *look_text_kind(uint8_t kind)
{
    return kind_of(kind)->name;
}

bool look_text_has_message(const fab_event_t *event)
{
    return kind_of(event->kind)->has_message;
}

static uint64_t name_of(const fab_event_t *event)
{
    return 0 != (event->flags & FAB_EVENT_ANY_RANK) ? FAB_LOOK_ANY : event->rank;
}

static void text_waited(char buf[LOOK_TEXT_SIZE], const fab_event_t *event)
{
    char rank[32], tag[64];

    text_rank(rank, sizeof(rank), name_of(event));
    text_tag(tag, sizeof(tag), event->tag);
    if (FAB_LOOK_OTHER == event->what) {
        snprintf(buf, LOOK_TEXT_SIZE, "waited %.3f ms for any of its requests",
                 (double) fab_event_bytes(event) / 1e6);
    } else {
        snprintf(buf, LOOK_TEXT_SIZE, "waited %.3f ms: %s %s, %s",
                 (double) fab_event_bytes(event) / 1e6, wait_name(event->what), rank, tag);
    }
}

void look_text_event(char buf[LOOK_TEXT_SIZE], const fab_event_t *event)
{
    const kind_t *kind = kind_of(event->kind);
    const char *job = 0 != (event->flags & FAB_EVENT_OTHER_JOB) ? " of another job" : "";
    char rank[32], tag[64];

    text_rank(rank, sizeof(rank), name_of(event));
    text_tag(tag, sizeof(tag), event->tag);
    if (FAB_EVENT_WAITED == event->kind) {
        text_waited(buf, event);
    } else if (kind->has_message) {
        snprintf(buf, LOOK_TEXT_SIZE, "%s %s%s, %s, %llu bytes, communicator %u, number %u%s",
                 kind->text, rank, job, tag, (unsigned long long) fab_event_bytes(event),
                 fab_event_context(event), event->id,
                 0 != (event->flags & FAB_EVENT_UNEXPECTED) ? ", unexpected" : "");
    } else if (FAB_EVENT_COMM == event->kind || FAB_EVENT_COMM_FREED == event->kind) {
        snprintf(buf, LOOK_TEXT_SIZE, "%s: %u, of %llu processes", kind->text,
                 fab_event_context(event), (unsigned long long) fab_event_bytes(event));
    } else {
        snprintf(buf, LOOK_TEXT_SIZE, "%s %s%s", kind->text, rank, job);
    }
}

/* ---- arguments ---------------------------------------------------------- */

bool look_text_number(const char *text, size_t *number)
{
    size_t value;

    if ('\0' == *text || strlen(text) != strspn(text, "0123456789")) {
        return false;
    }
    errno = 0;
    value = strtoul(text, NULL, 10);
    if (0 != errno) {
        return false;
    }
    *number = value;
    return true;
}
