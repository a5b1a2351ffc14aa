/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What reports are written with.
 */
#include "pml_tm_text.h"

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

const char *mca_pml_tm_text_source(char buf[PML_TM_TAG_SIZE], int source)
{
    if (OMPI_ANY_SOURCE == source) {
        return "any";
    }
    snprintf(buf, PML_TM_TAG_SIZE, "%d", source);
    return buf;
}

/* ---- for programs ------------------------------------------------------- */

mca_pml_tm_json_t *mca_pml_tm_json_new(void)
{
    const char *file = mca_pml_tm.params.report_file;
    mca_pml_tm_json_t *json = NULL != file && '\0' != file[0] ? calloc(1, sizeof(*json)) : NULL;

    if (NULL == json) {
        return NULL;
    }
    json->is_first = true;
    json->stream = open_memstream(&json->text, &json->len);
    if (NULL == json->stream) {
        free(json);
        return NULL;
    }
    fputc('{', json->stream);
    return json;
}

/* What stands before a value. */
static void begin(mca_pml_tm_json_t *json, const char *name)
{
    fprintf(json->stream, "%s\n", json->is_first ? "" : ",");
    json->is_first = false;
    if (NULL != name) {
        fprintf(json->stream, "\"%s\": ", name);
    }
}

void mca_pml_tm_json_open(mca_pml_tm_json_t *json, const char *name, const char *brackets)
{
    begin(json, name);
    fprintf(json->stream, "%c", brackets[0]);
    json->is_first = true;
}

void mca_pml_tm_json_close(mca_pml_tm_json_t *json, const char *brackets)
{
    fprintf(json->stream, "%c", brackets[1]);
    json->is_first = false;
}

void mca_pml_tm_json_number(mca_pml_tm_json_t *json, const char *name, long long number)
{
    begin(json, name);
    fprintf(json->stream, "%lld", number);
}

void mca_pml_tm_json_seconds(mca_pml_tm_json_t *json, const char *name, uint64_t ms)
{
    begin(json, name);
    fprintf(json->stream, "%llu.%03u", (unsigned long long) ms / 1000, (unsigned) (ms % 1000));
}

void mca_pml_tm_json_text(mca_pml_tm_json_t *json, const char *name, const char *text)
{
    begin(json, name);
    fputc('"', json->stream);
    for (; '\0' != *text; ++text) {
        if ('"' == *text || '\\' == *text) {
            fprintf(json->stream, "\\%c", *text);
        } else if ('\n' == *text) {
            fprintf(json->stream, "\\n");
        } else {
            fprintf(json->stream, "%c", *text >= ' ' && *text <= '~' ? *text : '?');
        }
    }
    fputc('"', json->stream);
}

static bool write_file(const char *name, const char *text, size_t len)
{
    FILE *file = fopen(name, "we");
    bool is_written = NULL != file && len == fwrite(text, 1, len, file);

    return NULL != file && 0 == fclose(file) && is_written;
}

void mca_pml_tm_json_write(mca_pml_tm_json_t *json, const char *behind)
{
    char name[PATH_MAX], unfinished[PATH_MAX + 16];
    bool is_whole;

    fputs("\n}\n", json->stream);
    is_whole = 0 == fclose(json->stream); /* it had the memory */
    snprintf(name, sizeof(name), "%s.%s.json", mca_pml_tm.params.report_file, behind);
    snprintf(unfinished, sizeof(unfinished), "%s.new", name);
    if (!is_whole || !write_file(unfinished, json->text, json->len) ||
        0 != rename(unfinished, name)) {
        opal_output(0, "pml tm: %s cannot be written: %s", name, strerror(errno));
    }
    free(json->text);
    free(json);
}
