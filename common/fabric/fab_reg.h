/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Registered memory of the user: a small interface to a cache of registrations, so that one file
 * alone needs Open MPI's.
 *
 * Two implementations: fab_reg.c registers each time (unit tests), fab_reg_rcache.c keeps
 * registrations in OPAL's cache grdma, which drops those whose memory is unmapped.
 *
 * Lock: the caller's. The cache has its own against memory hooks.
 */
#ifndef FAB_REG_H
#define FAB_REG_H

#include <stddef.h>
#include <stdint.h>

#include "fabric/fab_export.h"

/* What may be done with memory, besides reading it, from here or by peers. */
enum {
    FAB_REG_LOCAL_WRITE = 1,
    FAB_REG_REMOTE_WRITE = 2, /* includes the former */
};

/* How a provider registers memory. */
typedef struct fab_reg_how {
    const char *name; /* of the cache */
    /*
     * Register len > 0 bytes at buf for *access, to which it may add what is allowed as well.
     * Returns what the provider knows it by.  NULL: errno says why: ENOMEM, EAGAIN: not now, or not
     * so much; others: it cannot be registered.
     */
    void *(*add)(void *arg, void *buf, size_t len, unsigned *access);
    /* Returns 0, or an error. */
    int (*remove)(void *arg, void *handle);
} fab_reg_how_t;

typedef struct fab_regs fab_regs_t; /* a cache */

/* A registration, in use. */
typedef struct fab_reg {
    void *handle;  /* what add() returned */
    uint64_t base; /* the address of its first byte: the buffer's, or before it */
} fab_reg_t;

typedef struct fab_reg_ops {
    /* *how must outlive it.  NULL: cannot be had. */
    fab_regs_t *(*open)(const fab_reg_how_t *how, void *arg);
    /* All registrations have been put back. */
    void (*close)(fab_regs_t *regs);
    /* A registration of these bytes for this access.  NULL: errno, as add() says. */
    fab_reg_t *(*get)(fab_regs_t *regs, void *buf, size_t len, unsigned access);
    void (*put)(fab_regs_t *regs, fab_reg_t *reg);
} fab_reg_ops_t;

/* the one that is used; at first that without a cache */
FAB_EXPORT extern const fab_reg_ops_t *fab_reg_ops;

/* Use OPAL's cache from the next fab_open() on. */
FAB_EXPORT void fab_reg_use_rcache(void);

#endif /* FAB_REG_H */
