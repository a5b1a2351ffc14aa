/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The messages of pml tm and btl fabric: each says what happened, where, and what to do, and has a
 * section in doc/troubleshooting.md.  That file is searched, too: it has messages of Open MPI.
 */
#include "ompi_config.h"

#include "tm_info.h"

#include <ctype.h>
#include <stdbool.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "btl_fabric/btl_fabric_help.h"
#include "pml_tm/base/pml_tm_shared.h"

enum { DOCUMENT_MAX = 1 << 20 };

static const fab_help_topic_t *const tables[] = {mca_pml_tm_help, mca_btl_fabric_help,
                                                 fab_fit_help};

/* Sections of doc/troubleshooting.md (build/tm_info checks that they are there). */
static const struct {
    const char *topic;
    const char *section;
} sections[] = {
    {"bad-parameter", "\"a parameter has a value it cannot take\""},
    {"bad-value", "\"a parameter has a value it cannot take\""},
    {"unknown-parameter", "\"A parameter was given that the PML \"tm\" does not have\""},
    {"unknown-name", "\"A parameter was given that the PML \"tm\" does not have\""},
    {"no-fabric", "\"cannot exchange messages on this host\""},
    {"several-hosts", "\"no provider for other hosts (ofi, verbs, tcp) can be used here\""},
    {"unreachable", "\"cannot reach a process of this job\""},
    {"peer-failed", "\"lost a process that this job needs; the job ends\""},
    {"not-complete", "\"A process ends with messages of the PML \"tm\" that are not complete\""},
    {"tag-fields", "\"a new communicator does not fit\", \"could not set up MPI_COMM_WORLD\""},
    {"no-memory", "\"could not allocate memory to keep a message\""},
    {"no-communicator", "\"a new communicator does not fit\", \"could not set up MPI_COMM_WORLD\""},
    {"misfit", "\"was built for another Open MPI than the one that runs\""},
    {"misfit-short", "\"was built for another Open MPI than the one that runs\""},
};

static const char *section_of(const char *topic)
{
    for (size_t i = 0; i < sizeof(sections) / sizeof(sections[0]); i++) {
        if (0 == strcmp(topic, sections[i].topic)) {
            return sections[i].section;
        }
    }
    return NULL;
}

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

static int show_topics(const char *words)
{
    int count = 0;

    for (size_t t = 0; t < sizeof(tables) / sizeof(tables[0]); t++) {
        for (const fab_help_topic_t *topic = tables[t]; NULL != topic->name; ++topic) {
            const char *section = section_of(topic->name);
            if ('\0' == words[0] || is_in(topic->name, words) || is_in(topic->text, words)) {
                printf("%s[%s]\n", 0 == count ? "" : "\n", topic->name);
                print_format(topic->text);
                if (NULL != section) {
                    printf("doc/troubleshooting.md: %s\n", section);
                }
                ++count;
            }
        }
    }
    return count;
}

/* The installed file, also of an installation that was moved: beside the directory of this one. */
static FILE *open_document(char path[PATH_MAX])
{
    static const char own[] = TM_BINDIR, docs[] = TM_DOCDIR "/troubleshooting.md";
    const size_t prefix = sizeof(TM_PREFIX) - 1;
    char program[PATH_MAX];
    ssize_t len = readlink("/proc/self/exe", program, sizeof(program) - 1);
    const char *slash;

    if (len > 0 && 0 == strncmp(own, TM_PREFIX, prefix) && 0 == strncmp(docs, TM_PREFIX, prefix)) {
        const size_t tail = sizeof(own) - 1 - prefix; /* of "/bin" */
        program[len] = '\0';
        slash = strrchr(program, '/');
        if (NULL != slash && (size_t) (slash - program) >= tail) {
            snprintf(path, PATH_MAX, "%.*s%s", (int) ((size_t) (slash - program) - tail), program,
                     docs + prefix);
            if (0 == access(path, R_OK)) {
                return fopen(path, "re");
            }
        }
    }
    snprintf(path, PATH_MAX, "%s", docs);
    return fopen(path, "re");
}

/* All of it, to be freed; NULL: it is not there. */
static char *read_document(char path[PATH_MAX])
{
    FILE *file = open_document(path);
    char *text = calloc(1, DOCUMENT_MAX);

    if (NULL == file || NULL == text || 0 == fread(text, 1, DOCUMENT_MAX - 1, file)) {
        free(text);
        text = NULL;
    }
    if (NULL != file) {
        fclose(file);
    }
    return text;
}

/* The headings of the sections that have the words. */
static int show_sections(const char *words)
{
    static const char mark[] = "\n## ";
    char path[PATH_MAX], *text = read_document(path);
    char *next = NULL != text ? strstr(text, mark) : NULL;
    int count = 0;

    while (NULL != next) {
        char *section = next + sizeof(mark) - 1;
        next = strstr(section, mark);
        if (NULL != next) {
            *next = '\0';
        }
        if (is_in(section, words)) {
            printf("%s%s: %.*s\n", 0 == count++ ? "\n" : "", path, (int) strcspn(section, "\n"),
                   section);
        }
    }
    free(text);
    return count;
}

int tm_info_show_errors(const char *words)
{
    int count = show_topics(words);

    return '\0' == words[0] ? count : count + show_sections(words);
}
