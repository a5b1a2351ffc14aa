/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The messages of pml tm: each says what happened, where, and what to do.
 */
#include "ompi_config.h"

#include "tm_info.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "pml_tm/pml_tm_shared.h"

/* The text of a format: "..." in place of each value. */
static void print_format(const char *format)
{
    while ('\0' != *format) {
        if ('%' != format[0]) {
            putchar(*format++);
            continue;
        }
        format += strcspn(format, "cdiufsx"); /* to its letter */
        format += '\0' != *format;
        fputs("...", stdout);
    }
}

/* Letters and digits of both, one by one: a message that was copied has other line ends. */
static bool has_words(const char *text, const char *words)
{
    const char *t = text, *w = words;

    while ('\0' != *w && '\0' != *t) {
        if (0 == isalnum((unsigned char) *w)) {
            ++w;
        } else if (0 == isalnum((unsigned char) *t)) {
            ++t;
        } else if (tolower((unsigned char) *t) == tolower((unsigned char) *w)) {
            ++t, ++w;
        } else {
            return false;
        }
    }
    w += strspn(w, " \t\n.,:;\"");
    return '\0' == *w;
}

static bool is_in(const char *text, const char *words)
{
    while ('\0' != *text && !has_words(text, words)) {
        ++text;
    }
    return '\0' != *text;
}

int tm_info_show_errors(const char *words)
{
    int count = 0;

    for (const fab_help_topic_t *topic = mca_pml_tm_help; NULL != topic->name; ++topic) {
        if ('\0' == words[0] || is_in(topic->name, words) || is_in(topic->text, words)) {
            printf("%s[%s]\n", 0 == count ? "" : "\n", topic->name);
            print_format(topic->text);
            ++count;
        }
    }
    return count;
}
