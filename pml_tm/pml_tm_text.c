/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Text for people.
 */
#include "pml_tm_text.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "pml_tm_tags.h"

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

const char *mca_pml_tm_text_source(char buf[PML_TM_NAME_SIZE], int source)
{
    if (OMPI_ANY_SOURCE == source) {
        return "any";
    }
    snprintf(buf, PML_TM_NAME_SIZE, "%d", source);
    return buf;
}

const char *mca_pml_tm_text_tag(char buf[PML_TM_NAME_SIZE], int tag)
{
    const char *name = mca_pml_tm_tag_name(tag);

    if (OMPI_ANY_TAG == tag) {
        return "any";
    }
    if (NULL == name) {
        snprintf(buf, PML_TM_NAME_SIZE, "%d", tag);
    } else {
        snprintf(buf, PML_TM_NAME_SIZE, "%d (%s)", tag, name);
    }
    return buf;
}
