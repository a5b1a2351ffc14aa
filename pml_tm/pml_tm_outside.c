/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a process shows that does not answer.
 */
#include "pml_tm_outside.h"

#include <stdio.h>

#include "fabric/fab_clock.h"
#include "fabric/fab_look_read.h"

typedef struct search {
    uint64_t name;
    uint32_t pid; /* 0: not found */
    fab_look_t look;
} search_t;

/*
 * Names are those of Open MPI, which are unique only for one mpirun: a process of another one, with
 * the same name by chance, is told by its job's size.
 */
static bool is_it(void *ctx, uint32_t pid, int fd, const fab_look_t *look)
{
    search_t *search = ctx;

    (void) fd;
    if (look->name == search->name && look->num_procs == mca_pml_tm_process.num_procs) {
        search->pid = pid;
        search->look = *look;
    }
    return 0 == search->pid;
}

static const char *what_it_does(uint32_t pid)
{
    switch (fab_look_process_state(pid)) {
    case 'R':
        return "computes";
    case 'T':
    case 't':
        return "was stopped, by a signal or a debugger";
    case 'D':
        return "waits in the kernel, as for a disk";
    case 'S':
        return "sleeps in a system call";
    default:
        return "is about to end";
    }
}

void mca_pml_tm_outside_line(mca_pml_tm_text_t *text, uint64_t name)
{
    search_t search = {.name = name};
    char last[64] = "";

    fab_look_visit(is_it, &search);
    if (0 == search.pid) {
        return;
    }
    if (0 != search.look.status.seen_ns) {
        snprintf(last, sizeof(last), "; it last waited in MPI %.1f s ago",
                 (double) (int64_t) (fab_now_ns() - search.look.status.seen_ns) / 1e9);
    }
    mca_pml_tm_text_line(text, "    it is process %u (%s) of this host, which %s%s", search.pid,
                         search.look.program, what_it_does(search.pid), last);
}
