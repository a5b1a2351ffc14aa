/* SPDX-License-Identifier: BSD-3-Clause */
/* TEST: sources=common/idmap/idmap.c */
/*
 * Ids of pending operations: unique while alive, dead after removal, whatever comes from the wire.
 */
#include "idmap/idmap.h"
#include "test_cmocka.h"

static void finds_what_was_added(void **state)
{
    fab_idmap_t map;
    int object[1000];
    uint32_t id[1000];

    (void) state;
    fab_idmap_init(&map);
    for (int i = 0; i < 1000; ++i) {
        id[i] = fab_idmap_add(&map, &object[i]);
        assert_int_not_equal(0, id[i]);
    }
    for (int i = 0; i < 1000; ++i) {
        assert_ptr_equal(&object[i], fab_idmap_find(&map, id[i]));
    }
    assert_int_equal(1000, map.used);
    fab_idmap_remove(&map, id[500]);
    assert_int_equal(999, map.used);
    fab_idmap_fini(&map);
    assert_int_equal(0, map.used);
}

static void next_finds_all_that_are_alive(void **state)
{
    fab_idmap_t map;
    int object[1000];
    uint32_t id[1000], index = 0, found = 0;

    (void) state;
    fab_idmap_init(&map);
    assert_null(fab_idmap_next(&map, &index));
    for (int i = 0; i < 1000; ++i) {
        id[i] = fab_idmap_add(&map, &object[i]);
    }
    for (int i = 0; i < 1000; i += 2) {
        fab_idmap_remove(&map, id[i]);
    }
    for (const int *next; NULL != (next = fab_idmap_next(&map, &index)); ++found) {
        assert_int_equal(1, (next - object) % 2);
    }
    assert_int_equal(500, found);
    fab_idmap_fini(&map);
}

static void unknown_ids_are_not_found(void **state)
{
    fab_idmap_t map;
    int object;
    uint32_t id;

    (void) state;
    fab_idmap_init(&map);
    assert_null(fab_idmap_find(&map, 0));
    assert_null(fab_idmap_find(&map, UINT32_MAX));
    id = fab_idmap_add(&map, &object);
    assert_null(fab_idmap_find(&map, 0));
    assert_null(fab_idmap_find(&map, id + 1));
    assert_null(fab_idmap_find(&map, id + FAB_ID_MAX));
    assert_null(fab_idmap_find(&map, id ^ 0x80000000u));
    fab_idmap_fini(&map);
}

static void a_removed_id_stays_dead_while_its_slot_lives_on(void **state)
{
    fab_idmap_t map;
    int object;
    uint32_t old;

    (void) state;
    fab_idmap_init(&map);
    old = fab_idmap_add(&map, &object);
    fab_idmap_remove(&map, old);
    for (int generation = 0; generation < 200; ++generation) {
        uint32_t id = fab_idmap_add(&map, &object);
        assert_int_equal(old & (FAB_ID_MAX - 1), id & (FAB_ID_MAX - 1));
        assert_null(fab_idmap_find(&map, old));
        fab_idmap_remove(&map, id);
        assert_null(fab_idmap_find(&map, id));
    }
    fab_idmap_fini(&map);
}

static void zero_is_never_an_id(void **state)
{
    fab_idmap_t map;
    int object;

    (void) state;
    fab_idmap_init(&map);
    for (int generation = 0; generation < 1000; ++generation) {
        uint32_t id = fab_idmap_add(&map, &object);
        assert_int_not_equal(0, id);
        fab_idmap_remove(&map, id);
    }
    fab_idmap_fini(&map);
}

static void random_adds_and_removes(void **state)
{
    enum { MAX = 5000 };
    static uint32_t id[MAX];
    static int object[MAX];
    fab_idmap_t map;
    unsigned seed = 1;

    (void) state;
    fab_idmap_init(&map);
    for (int step = 0; step < 500000; ++step) {
        int i = rand_r(&seed) % MAX;
        if (0 == id[i]) {
            id[i] = fab_idmap_add(&map, &object[i]);
        } else {
            assert_ptr_equal(&object[i], fab_idmap_find(&map, id[i]));
            fab_idmap_remove(&map, id[i]);
            id[i] = 0;
        }
    }
    fab_idmap_fini(&map);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(finds_what_was_added),
        cmocka_unit_test(next_finds_all_that_are_alive),
        cmocka_unit_test(unknown_ids_are_not_found),
        cmocka_unit_test(a_removed_id_stays_dead_while_its_slot_lives_on),
        cmocka_unit_test(zero_is_never_an_id),
        cmocka_unit_test(random_adds_and_removes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
