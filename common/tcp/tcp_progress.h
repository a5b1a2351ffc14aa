/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One progress call.
 */
#ifndef FAB_TCP_PROGRESS_H
#define FAB_TCP_PROGRESS_H

#include "tcp/tcp_types.h"

int fab_tcp_progress(fab_domain_t *dom);

#endif /* FAB_TCP_PROGRESS_H */
