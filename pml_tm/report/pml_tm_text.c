/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What reports are written with.
 */
#include "pml_tm/report/pml_tm_text.h"

#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stdlib.h>

/* ---- for people --------------------------------------------------------- */

mca_pml_tm_text_t *mca_pml_tm_text_new(unsigned lines)
{
    mca_pml_tm_text_t *text = malloc(sizeof(*text));

    if (NULL != text) {
        text->len = 0;
        text->lines = lines;
        text->left_out = 0;
        text->buf[0] = '\0';
    }
    return text;
}

void mca_pml_tm_text_line(mca_pml_tm_text_t *text, const char *format, ...)
{
    const size_t room = sizeof(text->buf) - text->len;
    va_list args;
    int len;

    if (0 == text->lines) {
        ++text->left_out;
        return;
    }
    va_start(args, format);
    len = vsnprintf(text->buf + text->len, room, format, args);
    va_end(args);
    if (len < 0 || (size_t) len + 2 > room) {
        text->buf[text->len] = '\0';
        ++text->left_out;
        return;
    }
    --text->lines;
    text->len += (size_t) len;
    text->buf[text->len++] = '\n';
    text->buf[text->len] = '\0';
}

void mca_pml_tm_text_print(mca_pml_tm_text_t *text)
{
    if (text->len > 0) {
        text->buf[text->len - 1] = '\0'; /* opal_output() ends the last line */
    }
    if (0 == text->left_out) {
        opal_output(0, "%s", text->buf);
    } else {
        opal_output(0, "%s\n  ... and %u more", text->buf, text->left_out);
    }
    free(text);
}

/* ---- for programs ------------------------------------------------------- */

bool mca_pml_tm_json_open(mca_pml_tm_json_t *json)
{
    *json = (mca_pml_tm_json_t){.text = NULL};
    json->stream = open_memstream(&json->text, &json->len);
    return NULL != json->stream;
}

static bool write_file(const char *name, const char *text, size_t len)
{
    FILE *file = fopen(name, "we");
    bool is_written = NULL != file && len == fwrite(text, 1, len, file);

    return NULL != file && 0 == fclose(file) && is_written;
}

void mca_pml_tm_json_write(mca_pml_tm_json_t *json, const char *behind)
{
    const char *file = mca_pml_tm.params.report_file;
    char name[PATH_MAX], unfinished[PATH_MAX + 16];
    bool is_whole;

    if (NULL == json->stream) {
        return;
    }
    is_whole = 0 == fclose(json->stream); /* it had the memory */
    snprintf(name, sizeof(name), "%s.%s.json", NULL != file ? file : "", behind);
    snprintf(unfinished, sizeof(unfinished), "%s.new", name);
    if (NULL != file && '\0' != file[0] &&
        (!is_whole || !write_file(unfinished, json->text, json->len) ||
         0 != rename(unfinished, name))) {
        opal_output(0, "pml tm: %s cannot be written: %s", name, strerror(errno));
    }
    free(json->text);
}
