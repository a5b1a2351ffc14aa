/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What reports are written with.
 */
#include "pml_tm/report/pml_tm_text.h"

#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stdlib.h>

bool mca_pml_tm_text_open(mca_pml_tm_text_t *text, unsigned lines)
{
    *text = (mca_pml_tm_text_t){.lines = lines};
    text->stream = open_memstream(&text->text, &text->len);
    return NULL != text->stream;
}

void mca_pml_tm_text_line(mca_pml_tm_text_t *text, const char *format, ...)
{
    va_list args;

    if (0 == text->lines) {
        ++text->left_out;
        return;
    }
    --text->lines;
    va_start(args, format);
    (void) vfprintf(text->stream, format, args);
    va_end(args);
    fputc('\n', text->stream);
}

/* True: the stream had the memory. */
static bool end(mca_pml_tm_text_t *text)
{
    const bool is_whole = 0 == fclose(text->stream);

    text->stream = NULL;
    return is_whole;
}

void mca_pml_tm_text_print(mca_pml_tm_text_t *text)
{
    if (NULL == text->stream) {
        return;
    }
    if (0 != text->left_out) {
        fprintf(text->stream, "  ... and %u more\n", text->left_out);
    }
    if (end(text) && text->len > 0) { /* opal_output() ends the last line */
        opal_output(0, "%.*s", (int) (text->len - 1), text->text);
    }
    free(text->text);
}

static bool write_file(const char *name, const char *text, size_t len)
{
    FILE *file = fopen(name, "we");
    bool is_written = NULL != file && len == fwrite(text, 1, len, file);

    return NULL != file && 0 == fclose(file) && is_written;
}

void mca_pml_tm_text_write(mca_pml_tm_text_t *text, const char *behind)
{
    const char *file = mca_pml_tm.params.report_file;
    char name[PATH_MAX], unfinished[PATH_MAX + 16];
    bool is_whole;

    if (NULL == text->stream) {
        return;
    }
    is_whole = end(text);
    snprintf(name, sizeof(name), "%s.%s.json", NULL != file ? file : "", behind);
    snprintf(unfinished, sizeof(unfinished), "%s.new", name);
    if (NULL != file && '\0' != file[0] &&
        (!is_whole || !write_file(unfinished, text->text, text->len) ||
         0 != rename(unfinished, name))) {
        opal_output(0, "pml tm: %s cannot be written: %s", name, strerror(errno));
    }
    free(text->text);
}
