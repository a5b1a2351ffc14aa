/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Texts for the user; see fab_help.h.
 */
#include "fabric/fab_help.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum {
    TEXT_MAX = 8192, /* bytes */
    RULE = 75,       /* bytes of a line as Open MPI draws it, with its end */
};

static size_t rule(char *at)
{
    memset(at, '-', RULE - 1);
    at[RULE - 1] = '\n';
    return RULE;
}

void fab_help_show(const fab_help_topic_t *topics, const char *name, ...)
{
    char text[TEXT_MAX];
    size_t len = rule(text), max = sizeof(text) - 2 * RULE, done = 0;
    va_list args;
    int n;

    while (NULL != topics->name && 0 != strcmp(name, topics->name)) {
        topics++;
    }
    va_start(args, name);
    n = NULL != topics->name ? vsnprintf(text + len, max, topics->text, args)
                             : snprintf(text + len, max, "%s\n", name);
    va_end(args);
    len += n < 0 ? 0 : (size_t) n < max ? (size_t) n : max - 1;
    len += rule(text + len);
    while (done < len) {
        ssize_t out = write(STDERR_FILENO, text + done, len - done);
        if (out <= 0) {
            return;
        }
        done += (size_t) out;
    }
}
