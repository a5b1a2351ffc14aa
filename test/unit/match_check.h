/* SPDX-License-Identifier: BSD-3-Clause */
/* The invariants of a matching domain, for the tests. */
#ifndef TM_MATCH_CHECK_H
#define TM_MATCH_CHECK_H

#include "match/match_inl.h"

/*
 * Walk all of the domain; fail the running cmocka test where something is not as match_types.h and
 * match.c say.
 */
void match_check_dom(const fab_match_dom_t *dom);

/* A receive begins: the message that it takes; NULL: it is posted. */
static inline fab_match_msg_t *match_post(fab_match_dom_t *dom, fab_match_recv_t *recv,
                                          int32_t source, int32_t tag)
{
    fab_match_msg_t *msg = fab_match_take(dom, source, tag);

    if (NULL == msg) {
        fab_match_post(dom, recv, source, tag);
    }
    return msg;
}

static inline bool match_keep_first(void *ctx, const fab_match_recv_t *recv)
{
    *(fab_match_recv_t **) ctx = (fab_match_recv_t *) recv;
    return false;
}

/* The oldest posted receive; NULL: none. */
static inline fab_match_recv_t *match_first_recv(const fab_match_dom_t *dom)
{
    fab_match_recv_t *recv = NULL;

    fab_match_visit_recvs(dom, match_keep_first, &recv);
    return recv;
}

#endif /* TM_MATCH_CHECK_H */
