/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What this process shows of itself.
 */
#include "fabric/fab_look.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>

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

#define NOEXEC_SEAL 8U /* MFD_NOEXEC_SEAL: a host may forbid memory files without it */

/* ---- open and close ----------------------------------------------------- */

static int open_memory(void)
{
    int fd = memfd_create(FAB_LOOK_NAME, MFD_CLOEXEC | NOEXEC_SEAL);

    return fd < 0 && EINVAL == errno /* Linux before 6.3 */
               ? memfd_create(FAB_LOOK_NAME, MFD_CLOEXEC)
               : fd;
}

/* Give the file this size, and memory for all of it: a write to it must not fail. */
static bool set_size(int fd, size_t size)
{
    struct rlimit limit;

    if (0 == getrlimit(RLIMIT_FSIZE, &limit) && size > limit.rlim_cur) {
        errno = EFBIG; /* the kernel would end the process: SIGXFSZ */
        return false;
    }
    return 0 == ftruncate(fd, (off_t) size) && 0 == fallocate(fd, 0, 0, (off_t) size);
}

static void fill(const fab_t *fab, fab_look_t *look)
{
    look->version = FAB_LOOK_VERSION;
    look->name = fab->config.name;
    look->pid = (uint32_t) getpid();
    look->num_procs = fab->config.num_procs;
    look->opened_ns = fab_now_ns();
    snprintf(look->program, sizeof(look->program), "%.31s", program_invocation_short_name);
    (void) gethostname(look->host, sizeof(look->host) - 1);
    look->magic = FAB_LOOK_MAGIC;
}

/* The descriptor, which others find in /proc, is kept: they open the memory by it. */
static bool open_look(fab_core_t *core)
{
    const size_t size = sizeof(fab_look_memory_t);
    struct stat st;
    void *at = MAP_FAILED;
    int fd = open_memory();

    if (fd >= 0 && 0 == fstat(fd, &st) && set_size(fd, size)) {
        at = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    }
    if (MAP_FAILED == at) {
        const int error = errno;

        if (fd >= 0) {
            close(fd);
        }
        errno = error;
        return false;
    }
    core->look = at;
    core->look_fd = fd;
    core->look_ino = st.st_ino;
    return true;
}

void fab_look_open(fab_t *fab)
{
    fab_core_t *core = fab_core(fab);

    if (fab->config.is_tool) {
        return;
    }
    if (!open_look(core)) {
        fab_log(fab, 1, "nothing is shown to tm_look: memory for it: %s", strerror(errno));
        return;
    }
    fill(fab, &core->look->look);
    fab_look_counters(fab, FAB_LOOK_FABRIC, &fab_counters, sizeof(fab_counters) / sizeof(uint64_t),
                      FAB_COUNTER_NAMES);
}

void fab_look_close(fab_t *fab)
{
    fab_core_t *core = fab_core(fab);
    struct stat st;

    if (NULL == core->look) {
        return;
    }
    /* the program may have closed it, and opened another file that has its number */
    if (0 == fstat(core->look_fd, &st) && st.st_ino == core->look_ino) {
        close(core->look_fd);
    }
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
