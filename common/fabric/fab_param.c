/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tables of parameters: defaults, check, help texts.
 */
#include "fabric/fab_param.h"

#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void param_reset(const fab_param_t *row, void *value)
{
    switch (row->type) {
    case FAB_PARAM_INT:
        *(int *) value = (int) row->number;
        break;
    case FAB_PARAM_UINT:
        *(unsigned int *) value = (unsigned int) row->number;
        break;
    case FAB_PARAM_SIZE:
        *(size_t *) value = (size_t) row->number;
        break;
    case FAB_PARAM_STRING:
        *(const char **) value = row->string;
        break;
    }
}

void fab_param_reset(const fab_param_table_t *table, void *values)
{
    for (size_t i = 0; i < table->num; i++) {
        param_reset(&table->rows[i], (char *) values + table->rows[i].offset);
    }
}

/* A size_t beyond LLONG_MAX, as -1 becomes if the user gives it, is negative: out of any range. */
static long long param_number(const fab_param_t *row, const void *value)
{
    switch (row->type) {
    case FAB_PARAM_INT:
        return *(const int *) value;
    case FAB_PARAM_UINT:
        return *(const unsigned int *) value;
    default:
        return (long long) *(const size_t *) value;
    }
}

static bool param_is_allowed_number(const fab_param_t *row, long long value)
{
    if (NULL != row->special_means && row->special == value) {
        return true;
    }
    return row->min <= value && value <= row->max &&
           (!row->is_power_of_two || 0 == (value & (value - 1))) &&
           (!row->is_signal || (SIGKILL != value && SIGSTOP != value));
}

static bool param_is_allowed_string(const fab_param_t *row, const char *value)
{
    if (NULL == value || '\0' == *value) {
        return NULL == row->words[0];
    }
    for (const char *const *word = row->words; NULL != *word; word++) {
        if (0 == strcmp(*word, value)) {
            return true;
        }
    }
    return NULL == row->words[0] && row->is_valid(value);
}

/* What is allowed, without a full stop.  Returns its length, as snprintf. */
static int param_allowed(const fab_param_t *row, char *buf, size_t size)
{
    const char *unit = NULL != row->unit ? row->unit : "";
    const char *space = NULL != row->unit ? " " : "";
    char special[256] = "";
    int len = 0;

    if (FAB_PARAM_STRING != row->type) {
        if (NULL != row->special_means) {
            snprintf(special, sizeof(special), "; %lld: %s", row->special, row->special_means);
        }
        if (LLONG_MAX == row->max) {
            return snprintf(buf, size, "at least %lld%s%s%s", row->min, space, unit, special);
        }
        return snprintf(buf, size, "%lld to %lld%s%s%s%s%s", row->min, row->max, space, unit,
                        row->is_power_of_two ? ", a power of two" : "",
                        row->is_signal ? ", but not SIGKILL and SIGSTOP" : "", special);
    }
    if (NULL == row->words[0]) {
        return snprintf(buf, size, "%s; empty: %s", row->form, row->empty_means);
    }
    for (const char *const *word = row->words; NULL != *word; word++) {
        size_t used = (size_t) len < size ? (size_t) len : size;
        len += snprintf(buf + used, size - used, "%s%s", 0 == len ? "" : ", ", *word);
    }
    return len;
}

int fab_param_help(const fab_param_t *row, char *buf, size_t size)
{
    char allowed[512], number[32];
    const char *standard = NULL != row->string ? row->string : "empty";

    param_allowed(row, allowed, sizeof(allowed));
    if (FAB_PARAM_STRING != row->type) {
        snprintf(number, sizeof(number), "%lld", row->number);
        standard = number;
    }
    return snprintf(buf, size, "%s Allowed: %s. Default: %s.", row->help, allowed, standard);
}

/* MCA takes the default for "abc" and 5 for "5s", without a word. */
bool fab_param_is_number(const char *text)
{
    char *end;

    if ('\0' == *text) {
        return true; /* MCA's 0 */
    }
    errno = 0;
    (void) strtoull(text, &end, 0);
    if (end == text || 0 != errno) {
        return false;
    }
    if ('\0' != *end && NULL != strchr("KkMmGg", *end)) {
        end++;
    }
    return '\0' == *end;
}

static int param_check(const fab_param_t *row, const void *value, const char *prefix, char *buf,
                       size_t size)
{
    char allowed[512], variable[256];
    const char *text;
    const char *string = NULL; /* what the message has, if it is no number */
    long long number = 0;

    snprintf(variable, sizeof(variable), FAB_PARAM_ENVIRONMENT "%s%s", prefix, row->name);
    text = getenv(variable);
    if (FAB_PARAM_STRING == row->type) {
        string = *(const char *const *) value;
        if (param_is_allowed_string(row, string)) {
            return OPAL_SUCCESS;
        }
        string = NULL != string ? string : "";
    } else if (NULL != text && !fab_param_is_number(text)) {
        string = text;
    } else {
        number = param_number(row, value);
        if (param_is_allowed_number(row, number)) {
            return OPAL_SUCCESS;
        }
    }
    param_allowed(row, allowed, sizeof(allowed));
    if (NULL != string) {
        snprintf(buf, size, "%s%s is \"%.64s\"; allowed: %s.", prefix, row->name, string, allowed);
    } else {
        snprintf(buf, size, "%s%s is %lld; allowed: %s.", prefix, row->name, number, allowed);
    }
    return OPAL_ERR_BAD_PARAM;
}

int fab_param_check(const fab_param_table_t *table, const void *values, const char *prefix,
                    char *buf, size_t size)
{
    for (size_t i = 0; i < table->num; i++) {
        const fab_param_t *row = &table->rows[i];
        int rc = param_check(row, (const char *) values + row->offset, prefix, buf, size);
        if (OPAL_SUCCESS != rc) {
            return rc;
        }
    }
    return OPAL_SUCCESS;
}
