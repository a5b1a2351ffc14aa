/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What every provider must do, with and without the lock; and what two users of one process share:
 * references to peers, what is kept, failures.
 *
 * Each test is symmetric: a process sends to its partner, which is itself where it is alone, and
 * expects the same from it.
 */
#ifndef CONFORM_H
#define CONFORM_H

#include "test_fab_world.h"

enum { AM_REPLY = 10, AM_ADDR = 11, AM_DONE = 12, AM_NONE = 15 };

static inline fab_peer_t *conform_partner(world_t *world)
{
    return world_peer(world, world->size > 1 ? world->rank ^ 1 : 0);
}

/*
 * All tests, or that which argv names, over these providers (as the parameter names them; NULL: all
 * that there are); in a short run half of them, unless over all. Returns the exit status.
 */
int conform_main(int argc, char **argv, const char *providers);

/* Which of so many parts a short run (test/run --short) has, by turns of the commit; -1: all. */
int conform_turn(int parts);

/* The tests: what each process of a job does. conform_messages.c */
void conform_order(world_t *world);
void conform_post(world_t *world);
void conform_items(world_t *world);
void conform_outs(world_t *world);
void conform_nested(world_t *world);
void conform_enough(world_t *world);

/* conform_peers.c */
void conform_passive(world_t *world);
void conform_reopen(world_t *world);
void conform_unknown(world_t *world);
void conform_threads(world_t *world);
void conform_many(world_t *world);

/* conform_rma.c */
void conform_rma(world_t *world);
void conform_region(world_t *world);

/* conform_users.c */
void conform_users(world_t *world);
void conform_users_close(world_t *world);
void conform_users_items(world_t *world);
void conform_users_failed(world_t *world);
void conform_users_flood(world_t *world);

#endif /* CONFORM_H */
