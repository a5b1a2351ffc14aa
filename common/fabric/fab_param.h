/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tables of parameters.  A row has everything about a parameter: registration, range check, help
 * text and the lists in the documentation come from it.  The values are in a struct of the table's
 * owner; a row has the offset of its value.
 *
 *   fabric         fab_params.c, and <provider>_params.c for each provider
 *   pml tm         pml_tm_params.c
 *
 * fab_param.c does not need Open MPI's libraries; fab_param_mca.c registers tables with MCA.
 */
#ifndef FAB_PARAM_H
#define FAB_PARAM_H

#include <stdbool.h>
#include <stddef.h>

#include "fabric/fab.h"

/* Type of the value in the owner's struct. */
typedef enum fab_param_type {
    FAB_PARAM_INT,    /* int */
    FAB_PARAM_UINT,   /* unsigned int */
    FAB_PARAM_SIZE,   /* size_t */
    FAB_PARAM_STRING, /* char *; NULL and "" are the same */
} fab_param_type_t;

enum { FAB_PARAM_WORDS_MAX = 4 };

typedef struct fab_param {
    const char *name; /* without the component's prefix */
    fab_param_type_t type;
    int level; /* of MCA, 1 to 9 */
    /* may be changed by MPI_T while the program runs: any value does no harm, and is read again */
    bool is_live;
    size_t offset; /* of the value in the owner's struct */

    /* of numbers */
    long long number; /* the default */
    long long min;
    long long max;
    const char *unit;     /* "bytes"; NULL: none */
    bool is_power_of_two; /* no other number in the range is allowed */
    bool is_signal;       /* a signal's number: not SIGKILL, SIGSTOP */
    /* meaning of the one special value that is also allowed; NULL: there is none */
    const char *special_means;
    long long special;

    /* of strings: the allowed words; if there are none, is_valid() decides */
    const char *string; /* the default; NULL: empty */
    const char *words[FAB_PARAM_WORDS_MAX + 1];
    bool (*is_valid)(const char *value); /* not called for an empty string */
    const char *form;                    /* description of valid values, for the user */
    const char *empty_means;

    /* The effect, in full sentences. Allowed values and default are appended to it. */
    const char *help;
} fab_param_t;

typedef struct fab_param_table {
    const fab_param_t *rows;
    size_t num;
} fab_param_table_t;

/* The beginning of a row: the value is the member `field` of `owner`, and `kind` its type. */
#define FAB_PARAM(owner, field, kind, mca_level)                                                   \
    .name = #field, .type = FAB_PARAM_##kind, .level = (mca_level), .offset = offsetof(owner, field)

/* Of numbers: the default, and the range. */
#define FAB_PARAM_NUMBER(value, least, most) .number = (value), .min = (least), .max = (most)

#define FAB_PARAM_TABLE(rows)                                                                      \
    {                                                                                              \
        (rows), sizeof(rows) / sizeof((rows)[0])                                                   \
    }

/* Set all values to their defaults.  Strings are those of the table, not copies. */
FAB_EXPORT void fab_param_reset(const fab_param_table_t *table, void *values);

/*
 * Check the values, in the table's order.  OPAL_SUCCESS, or OPAL_ERR_BAD_PARAM with a sentence in
 * buf that names the parameter, with prefix before it, its value and what is allowed.
 */
FAB_EXPORT int fab_param_check(const fab_param_table_t *table, const void *values,
                               const char *prefix, char *buf, size_t size);

/* What MCA's variables of the environment begin with. */
#define FAB_PARAM_ENVIRONMENT "OMPI_MCA_"

/* Is it a number as MCA reads them: in C's notation, K, M or G behind it if need be? */
bool fab_param_is_number(const char *text);

/*
 * The help text: the row's, the allowed values and the default. Returns its length, as snprintf.
 */
FAB_EXPORT int fab_param_help(const fab_param_t *row, char *buf, size_t size);

/*
 * Register the parameters of pml tm, which live as long as that component, and set them to the
 * user's values or their defaults.  OPAL error codes.
 */
FAB_EXPORT int fab_param_register(const fab_param_table_t *table, void *values);

#endif /* FAB_PARAM_H */
