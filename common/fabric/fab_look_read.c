/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a process shows of itself: reading it.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif

#include "fabric/fab_look_read.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { TRIES = 8 }; /* to read what is being written */

/* ---- reading ------------------------------------------------------------ */

static bool read_at(fab_look_place_t place, uint64_t at, void *buf, size_t size)
{
    return (ssize_t) size == pread(place.fd, buf, size, (off_t) (place.base + at));
}

void fab_look_clean(char *text, size_t size)
{
    text[size - 1] = '\0';
    for (; '\0' != *text; text++) {
        if ((unsigned char) *text < ' ' || 0x7f == *text) {
            *text = '?';
        }
    }
}

bool fab_look_is_wait(fab_wait_t *wait)
{
    fab_look_clean(wait->comm, sizeof(wait->comm));
    return wait->what > FAB_LOOK_NOTHING && wait->what < FAB_LOOK_WAITS && wait->near < FAB_NEARS;
}

/* Keep what is valid of what waits.  is_whole: it was not written meanwhile. */
static void check_waits(fab_look_t *head, bool is_whole)
{
    uint32_t count = 0;

    if (!is_whole || !fab_look_is_wait(&head->wait)) {
        head->wait = (fab_wait_t){.what = FAB_LOOK_NOTHING};
    }
    if (!is_whole || head->status.count > FAB_LOOK_LIST) {
        head->status.count = 0;
    }
    for (uint32_t i = 0; i < head->status.count; i++) {
        if (fab_look_is_wait(&head->waits[i])) {
            head->waits[count++] = head->waits[i];
        }
    }
    head->status.count = count;
}

bool fab_look_read(fab_look_place_t place, fab_look_t *head)
{
    fab_look_t again;
    bool is_whole = false; /* a process that ended, or was stopped, while it wrote leaves it so */

    for (int i = 0; i < TRIES && !is_whole; i++) {
        if (!read_at(place, 0, head, sizeof(*head)) || !read_at(place, 0, &again, sizeof(again)) ||
            FAB_LOOK_MAGIC != head->magic || FAB_LOOK_VERSION != head->version) {
            return false;
        }
        is_whole = 0 == head->status.number % 2 && head->status.number == again.status.number;
    }
    check_waits(head, is_whole);
    fab_look_clean(head->program, sizeof(head->program));
    fab_look_clean(head->host, sizeof(head->host));
    return true;
}

/* What a core dump that was cut off lacks is nothing. False: nothing can be read. */
static bool read_events(fab_look_place_t place, fab_event_t events[FAB_LOOK_EVENTS])
{
    const ssize_t len = pread(place.fd, events, FAB_LOOK_EVENTS * sizeof(*events),
                              (off_t) (place.base + FAB_LOOK_HEAD));
    const size_t whole = len > 0 ? (size_t) len / sizeof(*events) : 0;

    memset(&events[whole], FAB_EVENT_NONE, (FAB_LOOK_EVENTS - whole) * sizeof(*events));
    return len >= 0;
}

static bool read_next(fab_look_place_t place, uint64_t *next)
{
    return read_at(place, offsetof(fab_look_t, next), next, sizeof(*next));
}

/* Put those that are not overwritten, from number `first` on, to the front. */
static size_t sort_out(fab_event_t events[FAB_LOOK_EVENTS], uint64_t first, uint64_t end)
{
    fab_event_t sorted[FAB_LOOK_EVENTS];
    size_t count = 0;

    for (uint64_t n = first; n < end; n++) {
        const fab_event_t *event = &events[n % FAB_LOOK_EVENTS];

        if (event->kind > FAB_EVENT_NONE && event->kind < FAB_EVENT_KINDS) {
            sorted[count++] = *event;
        }
    }
    memcpy(events, sorted, count * sizeof(*events));
    return count;
}

size_t fab_look_read_events(fab_look_place_t place, fab_event_t events[FAB_LOOK_EVENTS],
                            uint64_t *lost)
{
    const uint32_t num = FAB_LOOK_EVENTS;
    uint64_t before, after;

    *lost = 0;
    for (int i = 0; i < TRIES; i++) {
        if (!read_next(place, &before) || !read_events(place, events) ||
            !read_next(place, &after)) {
            return 0;
        }
        if (after - before < num - 1) {
            /* what the owner writes next goes where the oldest is */
            *lost = after < num ? 0 : after - num + 1;
            return *lost < before ? sort_out(events, *lost, before) : 0;
        }
    }
    return 0;
}

/* ---- processes ---------------------------------------------------------- */

/* The pid that a process has for itself, which differs in a container; 0: not known. */
static uint32_t own_pid(uint32_t pid)
{
    char path[64], line[256];
    unsigned own = pid;
    FILE *file;

    snprintf(path, sizeof(path), "/proc/%u/status", pid);
    file = fopen(path, "re");
    if (NULL == file) {
        return 0;
    }
    while (NULL != fgets(line, sizeof(line), file)) {
        if (0 == strncmp(line, "NSpid:", 6)) {
            own = (unsigned) strtoul(strrchr(line, '\t') + 1, NULL, 10);
        }
    }
    fclose(file);
    return own;
}

static bool is_look(int dir, const char *name)
{
    static const char memory[] = "/memfd:" FAB_LOOK_NAME;
    char target[sizeof(memory)];
    const ssize_t len = readlinkat(dir, name, target, sizeof(target));

    return len >= (ssize_t) sizeof(memory) - 1 && 0 == memcmp(target, memory, sizeof(memory) - 1);
}

/* The first of the process's descriptors in this directory that is one, opened again; -1: none. */
static int open_in(DIR *dir, uint32_t pid, fab_look_t *head)
{
    struct dirent *entry;

    while (NULL != (entry = readdir(dir))) {
        int fd;

        if (!is_look(dirfd(dir), entry->d_name)) {
            continue;
        }
        /* it may be another file by now: a pipe or a terminal must not block */
        fd = openat(dirfd(dir), entry->d_name, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
        if (fd >= 0 && fab_look_read((fab_look_place_t){.fd = fd}, head) &&
            own_pid(pid) == head->pid) { /* otherwise a child that inherited it */
            return fd;
        }
        if (fd >= 0) {
            close(fd);
        }
    }
    return -1;
}

int fab_look_open_process(uint32_t pid, fab_look_t *head)
{
    char path[64];
    DIR *dir;
    int fd = -1;

    snprintf(path, sizeof(path), "/proc/%u/fd", pid);
    dir = opendir(path);
    if (NULL != dir) {
        fd = open_in(dir, pid, head);
        closedir(dir);
    }
    return fd;
}

void fab_look_visit(fab_look_fn_t fn, void *ctx)
{
    DIR *dir = opendir("/proc");
    struct dirent *entry;
    fab_look_t head;
    bool goes_on = true;

    while (NULL != dir && goes_on && NULL != (entry = readdir(dir))) {
        const unsigned long pid = strtoul(entry->d_name, NULL, 10);
        int fd;

        if (0 == pid || pid > INT32_MAX) {
            continue;
        }
        fd = fab_look_open_process((uint32_t) pid, &head);
        if (fd >= 0) {
            goes_on = fn(ctx, (uint32_t) pid, fd, &head);
            close(fd);
        }
    }
    if (NULL != dir) {
        closedir(dir);
    }
}

char fab_look_process_state(uint32_t pid)
{
    char path[64], line[512];
    const char *end;
    FILE *file;

    snprintf(path, sizeof(path), "/proc/%u/stat", pid);
    file = fopen(path, "re");
    if (NULL == file) {
        return 0;
    }
    end = NULL != fgets(line, sizeof(line), file) ? strrchr(line, ')') : NULL;
    fclose(file);
    return NULL != end && ' ' == end[1] ? end[2] : 0;
}

const char *fab_look_what_it_does(char state)
{
    switch (state) {
    case 'R':
        return "computes";
    case 'T':
    case 't':
        return "was stopped by a signal or a debugger";
    case 'D':
        return "waits in the kernel, as for a disk";
    case 'S':
        return "sleeps in a system call";
    default:
        return "is about to end";
    }
}
