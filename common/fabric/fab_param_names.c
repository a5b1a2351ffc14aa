/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Names that the user gives and no parameter has. They are read from the environment, where "mpirun
 * --mca" puts them; Open MPI does not give away those that it reads from parameter files.
 */
#include "fabric/fab_params.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define ENVIRONMENT FAB_PARAM_ENVIRONMENT
#define CONSTANT    "its default is always used"

enum { NAME_MAX_LEN = 128 };

/* How many letters must be put in, left out or changed to make one of the other (Levenshtein). */
static unsigned distance(const char *one, const char *other)
{
    unsigned row[NAME_MAX_LEN + 1];
    const size_t width = strnlen(other, NAME_MAX_LEN);

    for (size_t i = 0; i <= width; i++) {
        row[i] = (unsigned) i;
    }
    for (size_t line = 1; '\0' != one[line - 1]; line++) {
        unsigned before = row[0]; /* of the line above */
        row[0] = (unsigned) line;
        for (size_t i = 1; i <= width; i++) {
            const unsigned above = row[i];
            const unsigned longer = (row[i - 1] < above ? row[i - 1] : above) + 1;
            const unsigned other_one = before + (one[line - 1] != other[i - 1]);
            row[i] = longer < other_one ? longer : other_one;
            before = above;
        }
    }
    return row[width];
}

/* Parameters of before, and what to do instead. */
static const struct {
    const char *name;
    const char *instead;
} removed[] = {
    {"shm_eager_limit", "set pml_tm_eager_limit"},
    {"ofi_eager_limit", "set pml_tm_eager_limit"},
    {"verbs_eager_limit", "set pml_tm_eager_limit"},
    {"tcp_eager_limit", "set pml_tm_eager_limit"},
    {"verbs_ports", "name the ports in pml_tm_verbs_if_include"},
    {"verbs_rails", "name the ports in pml_tm_verbs_if_include"},
    {"tcp_links", "name the networks in pml_tm_tcp_if_include"},
    {"verbs_window", CONSTANT},
    {"verbs_tm_tags", CONSTANT},
    {"ofi_window", CONSTANT},
    {"ofi_buffers", CONSTANT},
    {"tcp_stripe_min", CONSTANT},
    {"shm_connect_timeout", CONSTANT},
    {"progress_interval", CONSTANT},
    {"fast_paths", CONSTANT},
    {"free_list_num", CONSTANT},
    {"free_list_max", CONSTANT},
    {"free_list_inc", CONSTANT},
    {"offer_max", CONSTANT},
};

/* NULL: it is none of them. */
static const char *instead_of(const char *name)
{
    for (size_t i = 0; i < sizeof(removed) / sizeof(removed[0]); i++) {
        if (0 == strcmp(removed[i].name, name)) {
            return removed[i].instead;
        }
    }
    return NULL;
}

/* NULL: none is near. */
static const char *nearest_to(const fab_param_table_t *own, const char *name)
{
    unsigned best = (unsigned) strlen(name) / 3 + 2;
    const char *nearest = NULL;

    for (size_t t = 0; t <= fab_params_num_tables; t++) {
        const fab_param_table_t *table = 0 == t ? own : fab_params_tables[t - 1];
        for (size_t i = 0; NULL != table && i < table->num; i++) {
            const unsigned found = distance(name, table->rows[i].name);
            if (found < best) {
                best = found;
                nearest = table->rows[i].name;
            }
        }
    }
    return nearest;
}

unsigned fab_params_unknown(const char *prefix, const fab_param_table_t *own,
                            bool (*is_known)(const char *name), char *buf, size_t size)
{
    const size_t head = sizeof(ENVIRONMENT) - 1, len = strlen(prefix);
    unsigned count = 0;
    size_t used = 0;

    buf[0] = '\0';
    for (char *const *at = environ; NULL != *at; at++) {
        const char *name = *at + head, *nearest, *instead;
        char full[2 * NAME_MAX_LEN], advice[NAME_MAX_LEN] = "";
        if (0 != strncmp(*at, ENVIRONMENT, head) || 0 != strncmp(name, prefix, len)) {
            continue;
        }
        snprintf(full, sizeof(full), "%.*s", (int) strcspn(name, "="), name);
        if (is_known(full)) {
            continue;
        }
        instead = instead_of(full + len);
        nearest = NULL == instead ? nearest_to(own, full + len) : NULL;
        if (NULL != instead) {
            snprintf(advice, sizeof(advice), " (removed: %s)", instead);
        } else if (NULL != nearest) {
            snprintf(advice, sizeof(advice), " (perhaps pml_tm_%s)", nearest);
        }
        used += (size_t) snprintf(buf + used, size - used, "%s%s%s", 0 == count++ ? "" : "; ", full,
                                  advice);
        if (used >= size) {
            break;
        }
    }
    return count;
}
