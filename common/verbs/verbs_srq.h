/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The shared receive queue.
 */
#ifndef FAB_VERBS_SRQ_H
#define FAB_VERBS_SRQ_H

#include "verbs/verbs_types.h"

/* NULL, or why there is none. */
const char *fab_verbs_srq_open(fab_verbs_domain_t *dom);
/*
 * There is one more connection: more receive buffers, up to the limit. Returns the window for its
 * peer; 0: none is left, which only iWARP has to know.
 */
uint16_t fab_verbs_srq_grant(fab_verbs_domain_t *dom);
/* Give the collected buffers back to the SRQ, if it may have them now. */
void fab_verbs_srq_repost(fab_verbs_domain_t *dom);

/* Buffers of so many bytes could not be made (errno): the reason. */
const char *fab_verbs_no_bufs(const fab_verbs_domain_t *dom, size_t size);

/* The device is done with a receive buffer, to be posted again. False: it did not have it. */
static inline bool fab_verbs_collect(fab_verbs_domain_t *dom, fab_verbs_buf_t *buf)
{
    if (__builtin_expect(!buf->is_posted, 0)) {
        return false;
    }
    buf->is_posted = false;
    buf->next = dom->to_post;
    dom->to_post = buf;
    return true;
}

#endif /* FAB_VERBS_SRQ_H */
