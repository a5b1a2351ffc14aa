/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Registered memory of the user: a small interface to a cache of registrations, so that one file
 * alone needs Open MPI's.
 *
 * Two implementations: verbs_reg.c registers each time (unit tests), verbs_reg_rcache.c keeps
 * registrations in OPAL's cache grdma, which drops those whose memory is unmapped.
 *
 * Lock: the caller's. The cache has its own against memory hooks.
 */
#ifndef FAB_VERBS_REG_H
#define FAB_VERBS_REG_H

#include <stdbool.h>
#include <stddef.h>

struct ibv_pd;
struct ibv_mr;

typedef struct fab_verbs_regs fab_verbs_regs_t; /* a cache, of one PD */
typedef struct fab_verbs_reg fab_verbs_reg_t;   /* a registration, in use */

typedef struct fab_verbs_reg_ops {
    /* NULL: cannot be had. */
    fab_verbs_regs_t *(*open)(struct ibv_pd *pd);
    /* All registrations have been put back. */
    void (*close)(fab_verbs_regs_t *regs);
    /*
     * Register len > 0 bytes at buf for reading, local and remote, and what access says
     * (IBV_ACCESS_LOCAL_WRITE, which IBV_ACCESS_REMOTE_* include). NULL: errno says why: ENOMEM,
     * EAGAIN: it cannot be locked; others: it cannot be registered.
     */
    fab_verbs_reg_t *(*get)(fab_verbs_regs_t *regs, void *buf, size_t len, int access);
    void (*put)(fab_verbs_regs_t *regs, fab_verbs_reg_t *reg);
    struct ibv_mr *(*mr)(const fab_verbs_reg_t *reg);
} fab_verbs_reg_ops_t;

extern const fab_verbs_reg_ops_t fab_verbs_reg_plain;
/* the one that is used; at first fab_verbs_reg_plain */
extern const fab_verbs_reg_ops_t *fab_verbs_reg_ops;

/* Use OPAL's cache from the next fab_open() on. */
void fab_verbs_reg_use_rcache(void);

/*
 * ibv_reg_mr() as get() describes it, for local writing, too, if that can be: *is_writable. Memory
 * that is only read need not be writable: constants of the program, or what is mapped read only.
 */
struct ibv_mr *fab_verbs_reg_mr(struct ibv_pd *pd, void *buf, size_t len, int access,
                                bool *is_writable);

#endif /* FAB_VERBS_REG_H */
