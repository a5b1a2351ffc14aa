/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Peers that fail, and the device that does.
 */
#ifndef FAB_VERBS_FAIL_H
#define FAB_VERBS_FAIL_H

#include "verbs/verbs_types.h"

/* The arguments of a later fab_peer_fail(). */
typedef struct fab_verbs_failure {
    int rc;
    bool is_last; /* other ports are not tried */
    bool is_path; /* a connection broke that can go on by other ports */
    char why[384];
} fab_verbs_failure_t;

/* Fail the peer as soon as all that it sent before is delivered. */
void fab_verbs_ep_defer_failure(fab_verbs_ep_t *ep, int rc, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* That is due now: its reason, which is the caller's to free; NULL: it was not to fail. */
fab_verbs_failure_t *fab_verbs_ep_take_failure(fab_verbs_ep_t *ep);
/* The peer is to fail, if it is: it is not reached by this provider at all. */
void fab_verbs_ep_refused_for_good(fab_verbs_ep_t *ep);
/* The peer is to fail, if it is, because nothing passes between the two ports. */
void fab_verbs_ep_path_failed(fab_verbs_ep_t *ep);
/* Fail it, or give it to the next provider. */
void fab_verbs_ep_fail(fab_verbs_ep_t *ep, const fab_verbs_failure_t *failure);
/* It was to fail, and will not. */
void fab_verbs_ep_forget_failure(fab_verbs_ep_t *ep);
/* All peers fail; what completes the sentence "mlx5_0:1 here ...". */
void fab_verbs_fail_all(fab_verbs_domain_t *dom, const char *what);
/* The port is down, for good: peers go on by other ports, or fail. */
void fab_verbs_port_lost(fab_verbs_domain_t *dom);
/*
 * The device cannot be trusted any more: messages may be lost in it.  It is not used again and all
 * peers fail; what: as above; why: for the log.
 */
void fab_verbs_give_up(fab_verbs_domain_t *dom, const char *what, const char *why);

#endif /* FAB_VERBS_FAIL_H */
