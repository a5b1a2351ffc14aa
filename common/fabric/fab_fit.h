/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Does the Open MPI that runs have the layout of the one that a component was built for?  Open MPI
 * compares no versions when it loads a component, and the SONAME of its libraries tells only series
 * apart: releases and configurations within one differ in structures that components read
 * (doc/versions.md).
 *
 * What is compared is what the compiler took from the headers with what the libraries say of
 * themselves: the series, and the size of an object of each class that the component uses, which a
 * class descriptor has (opal_class_t, the same in all releases from 4.1.0 on).
 */
#ifndef FAB_FIT_H
#define FAB_FIT_H

#include <stdbool.h>
#include <stddef.h>

#include "fabric/fab_export.h"
#include "fabric/fab_help.h"

/* A class of Open MPI. */
typedef struct fab_fit_class {
    const char *name;
    size_t built;       /* bytes of an object by the headers */
    const size_t *runs; /* and by the library */
} fab_fit_class_t;

/* clang-format off */
#define FAB_FIT_CLASS(type) {#type, sizeof(type), &OBJ_CLASS(type)->cls_sizeof}

/*
 * Those of libopen-pal that the fabric and both components use.  Only classes that Open MPI exports
 * on purpose are here (OPAL_DECLSPEC): a component that needs another symbol is not loaded.
 */
#define FAB_FIT_OPAL_CLASSES                                                                       \
    FAB_FIT_CLASS(opal_object_t),                                                                  \
    FAB_FIT_CLASS(opal_list_item_t),                                                               \
    FAB_FIT_CLASS(opal_bitmap_t),                                                                  \
    FAB_FIT_CLASS(opal_mutex_t),                                                                   \
    FAB_FIT_CLASS(opal_free_list_t),                                                               \
    FAB_FIT_CLASS(opal_free_list_item_t),                                                          \
    FAB_FIT_CLASS(opal_datatype_t),                                                                \
    FAB_FIT_CLASS(opal_convertor_t),                                                               \
    FAB_FIT_CLASS(mca_btl_base_descriptor_t),                                                      \
    FAB_FIT_CLASS(mca_rcache_base_registration_t)
/* clang-format on */

typedef struct fab_fit {
    const char *component; /* as the message names it */
    const char *built;     /* version that the headers have: "5.0.7" */
    const char *runs;      /* and the library; the address of the library's own string */
    const fab_fit_class_t *classes;
    size_t num;
} fab_fit_t;

/*
 * Why the component cannot be used, a sentence; NULL if it can.  `why` has room for size bytes.
 * Reads nothing of Open MPI but what `fit` points to.
 */
FAB_EXPORT const char *fab_fit_why_not(const fab_fit_t *fit, char *why, size_t size);

/*
 * The same as a message on standard error, on each host the whole of it by the first process of the
 * job, and in short by the others.  False: the component must not be used.
 */
FAB_EXPORT bool fab_fit_check(const fab_fit_t *fit);

/* Its messages, by topic. */
FAB_EXPORT extern const fab_help_topic_t fab_fit_help[];

#endif /* FAB_FIT_H */
