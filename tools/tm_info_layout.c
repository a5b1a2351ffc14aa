/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a job takes, by calculation: see tm_info.h.
 */
#include "tm_info.h"

#include "fabric/fab_abi.h"
#include "fabric/fab_look_wire.h"

#include <inttypes.h>
#include <stdio.h>
#include <sys/resource.h>

enum { RANKS_MAX = 1 << 24, HOST_RANKS_MAX = 65536 };

/* A number of bytes, for people. */
static const char *text_of(uint64_t bytes, char *text, size_t size)
{
    static const char *const units[] = {"bytes", "KiB", "MiB", "GiB", "TiB", "PiB"};
    double value = (double) bytes;
    int unit = 0;

    while (value >= 1024 && unit < 5) {
        value /= 1024;
        unit++;
    }
    snprintf(text, size, "%.*f %s", 0 == unit || value >= 100 ? 0 : 1, value, units[unit]);
    return text;
}

/* One line: of a process, and of all on its host. */
static void show(const char *provider, const char *what, uint64_t bytes, uint32_t per_host,
                 const char *note)
{
    char one[32], all[32];

    printf("%-9s %-14s %12s %12s%s%s\n", provider, what, text_of(bytes, one, sizeof(one)),
           text_of(bytes * per_host, all, sizeof(all)), '\0' != note[0] ? "   " : "", note);
}

/* Is a process allowed less than it takes?  Then what to do. */
static void show_limit(uint64_t takes, int resource, const char *name)
{
    struct rlimit limit = {.rlim_max = RLIM_INFINITY};

    (void) getrlimit(resource, &limit);
    if (RLIM_INFINITY != limit.rlim_max && takes > limit.rlim_max) {
        printf("%10sThe limit is %llu here: raise it (%s).\n", "",
               (unsigned long long) limit.rlim_max, name);
    }
}

static void show_need(const char *provider, const fab_need_t *need, uint32_t per_host)
{
    show(provider, "memory", need->memory, per_host, need->note);
    if (0 != need->locked) {
        show("", "locked of it", need->locked, per_host, "");
        show_limit(need->locked, RLIMIT_MEMLOCK, "ulimit -l");
    }
    if (0 != need->space) {
        show("", "addresses", need->space, per_host, "");
        show_limit(need->space, RLIMIT_AS, "ulimit -v");
    }
    printf("%-9s %-14s %12" PRIu64 " %12" PRIu64 "\n", "", "open files", need->files,
           need->files * per_host);
    show_limit(need->files, RLIMIT_NOFILE, "ulimit -n");
}

/* Shared memory, and the first other provider that is open: it serves the other hosts. */
static void show_providers(const fab_t *fab, uint32_t hosts, uint32_t per_host)
{
    const uint32_t num_near = per_host - 1, num_far = (hosts - 1) * per_host;
    const char *name;
    bool has_far = false;

    for (unsigned i = 0; NULL != (name = fab_provider_name(i)); i++) {
        const bool is_near = 0 == strcmp("shm", name);
        fab_need_t need;
        if ((is_near ? 0 == num_near : has_far || 0 == num_far) ||
            !fab_need(fab, i, num_near, num_far, &need)) {
            continue;
        }
        has_far = has_far || !is_near;
        show_need(name, &need, per_host);
    }
}

int tm_info_layout(const char *job)
{
    unsigned hosts = 0, per_host = 0;
    char end;
    fab_config_t config = {.user = FAB_USER_PML, .name = 1, .is_tool = true};
    const char *why = "";
    fab_t *fab;

    if (2 != sscanf(job, "%ux%u%c", &hosts, &per_host, &end) || 0 == hosts || 0 == per_host ||
        per_host > HOST_RANKS_MAX || hosts > RANKS_MAX / per_host) {
        fprintf(stderr,
                "tm_info: %s: a number of hosts, x, and ranks on each are wanted, as 8x64, up to "
                "%d ranks on a host and %d in all\n",
                job, HOST_RANKS_MAX, RANKS_MAX);
        return 2;
    }
    config.num_local = per_host;
    config.num_procs = hosts * per_host;
    if (OPAL_SUCCESS != fab_open(&config, &fab, &why)) {
        printf("%s\n", why);
        return 1;
    }
    printf("%u rank%s on %u host%s, if each communicates with all others; less if with fewer\n\n",
           config.num_procs, 1 == config.num_procs ? "" : "s", hosts, 1 == hosts ? "" : "s");
    printf("%24s %12s %12s\n", "", "one process", "its host");
    show_providers(fab, hosts, per_host);
    show("peers", "memory", (uint64_t) config.num_procs * sizeof(fab_peer_t), per_host, "");
    show("tm_look", "memory", sizeof(fab_look_memory_t), per_host, "");
    fab_close(fab, FAB_USER_PML);
    return 0;
}
