/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A peer's segment in this process: its file is opened, and mapped as far as it is needed.
 */
#ifndef FAB_SHM_MAP_H
#define FAB_SHM_MAP_H

#include "shm/shm_types.h"

/*
 * Map the head of the peer's segment, if its file can be opened.  Done once, when the peer comes:
 * later this process may have no descriptor left or another root directory, and the files of the
 * peer below /proc may be out of reach.
 */
void fab_shm_find(fab_shm_ep_t *ep);

/* The peer has passed its segment's file: map its head.  The caller keeps fd. */
void fab_shm_found(fab_shm_ep_t *ep, int fd);

/* The file of the peer's segment.  On an error *fd is -1. */
int fab_shm_map_open(fab_shm_ep_t *ep, int *fd, const char **why);

/* Map what a claimer needs in any case; its first page may be accessed. */
int fab_shm_map_head(fab_shm_ep_t *ep, int fd, const char **why);

/* All of it may be accessed. */
int fab_shm_map_ahead(fab_shm_ep_t *ep, const char **why);

/*
 * Extend the mapping to len bytes; it may move.  No file is needed for this.  It is unlocked, since
 * a locked one would get memory for all of it.
 */
bool fab_shm_map_more(fab_shm_ep_t *ep, size_t len);

void fab_shm_unmap(fab_shm_ep_t *ep);

/*
 * What errno means for a connection.  OPAL_ERR_OUT_OF_RESOURCE: something is used up, which others
 * may give back; try again later.
 */
int fab_shm_connect_error(int error);

#endif /* FAB_SHM_MAP_H */
