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

static void text_waited(char buf[LOOK_TEXT_SIZE], const fab_event_t *event)
{
    char rank[32], tag[64];

    text_rank(rank, sizeof(rank), event->peer);
    text_tag(tag, sizeof(tag), event->tag);
    if (FAB_LOOK_OTHER == event->what) {
        snprintf(buf, LOOK_TEXT_SIZE, "waited %.3f ms for any of its requests",
                 (double) event->bytes / 1e6);
    } else {
        snprintf(buf, LOOK_TEXT_SIZE, "waited %.3f ms: %s %s, %s", (double) event->bytes / 1e6,
                 wait_name(event->what), rank, tag);
    }
}

void look_text_event(char buf[LOOK_TEXT_SIZE], const fab_event_t *event, uint64_t name)
{
    const char *text = kinds[event->kind < FAB_EVENT_KINDS ? event->kind : FAB_EVENT_NONE];
    const char *job = event->peer >> 32 == name >> 32 ? "" : " of another job";
    char rank[32], tag[64];

    text_rank(rank, sizeof(rank), event->peer);
    text_tag(tag, sizeof(tag), event->tag);
    if (FAB_EVENT_WAITED == event->kind) {
        text_waited(buf, event);
    } else if (FAB_EVENT_ANNOUNCED == event->kind || FAB_EVENT_QUEUED == event->kind) {
        snprintf(buf, LOOK_TEXT_SIZE, "%s %s%s, %s, %llu bytes", text, rank, job, tag,
                 (unsigned long long) event->bytes);
    } else {
        snprintf(buf, LOOK_TEXT_SIZE, "%s %s%s", text, rank, job);
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
