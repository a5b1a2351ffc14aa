/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What this process shows of itself.
 */
#include "fabric/fab_look.h"

#include <errno.h>
#include <stdio.h>
#include <unistd.h>
#include <sys/mman.h>

#include "fabric/fab_clock.h"
#include "fabric/fab_core.h"
#include "fabric/fab_counters.h"
#include "fabric/fab_provider.h"

/*
 * Probes for bpftrace, perf and gdb (USDT): a nop in the code, and a note in the file that says
 * where it is and where its arguments are.  Where <sys/sdt.h> (systemtap-sdt-dev) is missing there
 * are none.
 */
#if __has_include(<sys/sdt.h>)
#include <sys/sdt.h>
#define FAB_PROBE4(name, a, b, c, d) STAP_PROBE4(pml_tm, name, a, b, c, d)
#else
#define FAB_PROBE4(name, a, b, c, d) ((void) 0)
#endif

/* ---- open and close ----------------------------------------------------- */

/* The descriptor, which others find in /proc, is kept: they open the memory by it. */
static bool open_look(fab_core_t *core)
{
    const size_t size = sizeof(fab_look_memory_t);
    int error;
    void *at = MAP_FAILED;

    fab_file_open(&core->look_file, fab_file_memory(FAB_LOOK_NAME, 0, size));
    if (core->look_file.fd >= 0 && fab_file_back(core->look_file.fd, 0, (off_t) size)) {
        at = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, core->look_file.fd, 0);
    }
    if (MAP_FAILED == at) {
        error = errno;
        fab_file_close(&core->look_file);
        errno = error;
        return false;
    }
    core->look = at;
    return true;
}

void fab_look_open(fab_t *fab)
{
    fab_core_t *core = fab_core(fab);
    fab_look_t *look;

    if (fab->config.is_tool) {
        return;
    }
    if (!open_look(core)) {
        fab_log(fab, 1, "nothing is shown to tm_look: memory for it: %s", strerror(errno));
        return;
    }
    look = &core->look->look;
    look->version = FAB_LOOK_VERSION;
    look->name = fab->config.name;
    look->pid = (uint32_t) getpid();
    look->num_procs = fab->config.num_procs;
    look->opened_ns = fab_now_ns();
    snprintf(look->program, sizeof(look->program), "%.31s", program_invocation_short_name);
    (void) gethostname(look->host, sizeof(look->host) - 1);
    look->magic = FAB_LOOK_MAGIC;
    fab_look_counters(fab, FAB_LOOK_FABRIC, &fab_counters, sizeof(fab_counters) / sizeof(uint64_t),
                      FAB_COUNTER_NAMES);
}

void fab_look_close(fab_t *fab)
{
    fab_core_t *core = fab_core(fab);

    if (NULL == core->look) {
        return;
    }
    fab_file_close(&core->look_file);
    munmap(core->look, sizeof(*core->look));
    core->look = NULL;
}

/* ---- writing ------------------------------------------------------------ */

fab_look_t *fab_look_begin(fab_t *fab, uint64_t now_ns)
{
    fab_look_memory_t *memory = fab_core(fab)->look;
    fab_look_status_t *status;
    uint32_t number;

    if (NULL == memory) {
        return NULL;
    }
    status = &memory->look.status;
    number = atomic_load_explicit(&status->number, memory_order_relaxed);
    atomic_store_explicit(&status->number, number + 1, memory_order_relaxed);
    atomic_thread_fence(memory_order_release); /* pairs with the reader's second look at number */
    status->polls = fab->passes;
    status->seen_ns = now_ns;
    return &memory->look;
}

void fab_look_end(fab_look_t *look)
{
    const uint32_t number = atomic_load_explicit(&look->status.number, memory_order_relaxed);

    /* release: all of it is written; pairs with the reader's first look at number */
    atomic_store_explicit(&look->status.number, number + 1, memory_order_release);
}

void fab_look_counters(fab_t *fab, int which, const void *counters, size_t count, const char *names)
{
    fab_look_memory_t *memory = fab_core(fab)->look;

    if (NULL != memory) {
        memory->look.counters[which] = (fab_look_counters_t){
            .at = (uint64_t) (uintptr_t) counters, .count = count, .names = fab_look_hash(names)};
    }
}

void fab_look_event(fab_t *fab, fab_event_t event)
{
    fab_look_memory_t *memory = fab_core(fab)->look;
    uint64_t next;

    FAB_PROBE4(event, event.kind, event.peer, event.tag, event.bytes);
    if (NULL == memory) {
        return;
    }
    if (0 == event.ns) {
        event.ns = fab_now_ns();
    }
    next = atomic_load_explicit(&memory->look.next, memory_order_relaxed);
    memory->events[next % FAB_LOOK_EVENTS] = event;
    /* release: the event is complete; pairs with the reader's second look at next */
    atomic_store_explicit(&memory->look.next, next + 1, memory_order_release);
}
