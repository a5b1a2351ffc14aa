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

enum { NAME_MAX_LEN = 128 };

static unsigned least(unsigned a, unsigned b, unsigned c)
{
    const unsigned ab = a < b ? a : b;

    return ab < c ? ab : c;
}

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
            row[i] = least(row[i - 1] + 1, above + 1, before + (one[line - 1] != other[i - 1]));
            before = above;
        }
    }
    return row[width];
}

static void look_in(const fab_param_table_t *table, const char *name, const char **nearest,
                    unsigned *best)
{
    for (size_t i = 0; i < table->num; i++) {
        const unsigned found = distance(name, table->rows[i].name);
        if (found < *best) {
            *best = found;
            *nearest = table->rows[i].name;
        }
    }
}

/* NULL: none is near. */
static const char *nearest_to(const fab_param_table_t *own, const char *name)
{
    unsigned best = (unsigned) strlen(name) / 3 + 2;
    const char *nearest = NULL;

    look_in(own, name, &nearest, &best);
    for (size_t t = 0; t < fab_params_num_tables; t++) {
        look_in(fab_params_tables[t], name, &nearest, &best);
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
        const char *name = *at + head, *nearest;
        char full[2 * NAME_MAX_LEN];
        if (0 != strncmp(*at, ENVIRONMENT, head) || 0 != strncmp(name, prefix, len)) {
            continue;
        }
        snprintf(full, sizeof(full), "%.*s", (int) strcspn(name, "="), name);
        if (is_known(full)) {
            continue;
        }
        nearest = nearest_to(own, full + len);
        count++;
        used += (size_t) snprintf(buf + used, size - used, "%s%s%s%s%s", 1 == count ? "" : "; ",
                                  full, NULL != nearest ? " (perhaps " : "",
                                  NULL != nearest ? prefix : "", NULL != nearest ? nearest : "");
        if (NULL != nearest && used < size) {
            used += (size_t) snprintf(buf + used, size - used, ")");
        }
        if (used >= size) {
            break;
        }
    }
    return count;
}
