/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Who is stuck, of as many processes as a report asks: circles, ways into them, and ways to one
 * that goes on, which is found last.
 *
 * TEST: sources=pml_tm/report/pml_tm_nodes.c,common/fabric/fab_look_read.c variants=plain,asan ompi=4.1
 */
#include "pml_tm/report/pml_tm_nodes.h"

#include <time.h>

#include "pml_tm/peer/pml_tm_peer.h"
#include "pml_tm/report/pml_tm_state.h"
#include "pml_tm/wait/pml_tm_idle.h"
#include "test_cmocka.h"

enum { RANKS = PML_TM_MAX_NODES };

/* ---- what is asked for elsewhere ---------------------------------------- */

mca_pml_tm_t mca_pml_tm;

fab_peer_t *fab_peer_find(fab_t *fab, uint64_t name)
{
    (void) fab, (void) name;
    return NULL;
}

int fab_post(fab_peer_t *peer, fab_hdr_t hdr, const void *buf, size_t len)
{
    (void) peer, (void) hdr, (void) buf, (void) len;
    return OPAL_SUCCESS;
}

ompi_proc_t *ompi_group_get_proc_ptr_raw(ompi_group_t *group, int rank)
{
    (void) group, (void) rank;
    return NULL;
}

void mca_pml_tm_bad_message(fab_peer_t *peer, const char *what)
{
    (void) peer, (void) what;
}

void mca_pml_tm_hurry_tick(void)
{
}

const mca_pml_tm_comm_t *mca_pml_tm_state_comm(const fab_wait_t *wait)
{
    (void) wait;
    return NULL;
}

/* ---- processes ---------------------------------------------------------- */

/* All have answered; rank i waits for waits_for(i), or, if that is i, goes on. */
static void set(int (*waits_for)(int rank))
{
    assert_true(mca_pml_tm_ask_begin());
    for (int i = 0; i < RANKS; i++) {
        const int other = waits_for(i);

        assert_int_equal(mca_pml_tm_ask_add((uint64_t) i), i);
        mca_pml_tm_node(i)->status = PML_TM_NODE_ANSWERED;
        mca_pml_tm_node(i)->state = (mca_pml_tm_answer_t){
            .num_waits = other != i,
            .flags = other != i ? PML_TM_STATE_WAITS : 0,
            .waits = {{.peer = (uint64_t) other, .what = FAB_LOOK_RECV}}};
    }
}

static void find(const char *what)
{
    struct timespec from, to;

    clock_gettime(CLOCK_MONOTONIC, &from);
    mca_pml_tm_stuck_find();
    clock_gettime(CLOCK_MONOTONIC, &to);
    printf("%s: %.3f s\n", what,
           (double) (to.tv_sec - from.tv_sec) + (double) (to.tv_nsec - from.tv_nsec) * 1e-9);
}

static int next(int rank)
{
    return (rank + 1) % RANKS;
}

static void test_circle(void **state)
{
    (void) state;
    set(next);
    find("a circle");
    for (int i = 0; i < RANKS; i++) {
        assert_true(mca_pml_tm_node(i)->is_stuck);
        assert_true(mca_pml_tm_node(i)->is_circle);
        assert_int_equal(mca_pml_tm_node(i)->next, next(i));
    }
}

static int next_to_last(int rank)
{
    return rank + 1 < RANKS ? rank + 1 : rank;
}

static void test_way(void **state)
{
    (void) state;
    set(next_to_last);
    find("a way to the last");
    for (int i = 0; i < RANKS; i++) {
        assert_false(mca_pml_tm_node(i)->is_stuck);
        assert_false(mca_pml_tm_node(i)->is_circle);
        assert_int_equal(mca_pml_tm_stuck_root(i), RANKS - 1);
    }
}

/* Two circles, of even and of odd ranks. */
static int next_but_one(int rank)
{
    return (rank + 2) % RANKS;
}

static void test_circles(void **state)
{
    (void) state;
    set(next_but_one);
    mca_pml_tm_node(RANKS - 1)->state.flags |= PML_TM_STATE_MOVES; /* data comes to the odd ones */
    find("two circles, one of which goes on");
    for (int i = 0; i < RANKS; i++) {
        assert_int_equal(mca_pml_tm_node(i)->is_stuck, 0 == i % 2);
        assert_true(mca_pml_tm_node(i)->is_circle);
    }
}

static int last(int rank)
{
    (void) rank;
    return RANKS - 1;
}

static void test_star(void **state)
{
    (void) state;
    set(last);
    find("all wait for the last");
    for (int i = 0; i < RANKS; i++) {
        assert_false(mca_pml_tm_node(i)->is_stuck);
        assert_int_equal(mca_pml_tm_stuck_root(i), RANKS - 1);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_circle),
        cmocka_unit_test(test_way),
        cmocka_unit_test(test_circles),
        cmocka_unit_test(test_star),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
