/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the tcp provider does for one peer, and one progress call.
 */
#ifndef FAB_TCP_PEER_H
#define FAB_TCP_PEER_H

#include "tcp/tcp_types.h"

extern const fab_ops_t fab_tcp_ops;

int fab_tcp_attach(fab_domain_t *dom, fab_peer_t *peer, const void *address, const char **why);
void fab_tcp_detach(fab_domain_t *dom, fab_peer_t *peer);
bool fab_tcp_drop(fab_domain_t *dom, fab_peer_t *peer);

/* tcp_progress.c */
int fab_tcp_progress(fab_domain_t *dom);

#endif /* FAB_TCP_PEER_H */
