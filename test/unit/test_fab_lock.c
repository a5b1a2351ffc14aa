/* SPDX-License-Identifier: BSD-3-Clause */
/* TEST: sources=common/fabric/fab_lock.c variants=asan,tsan,plain timeout=60 */
/*
 * The fabric's lock: one holder at a time, nobody sleeps for ever, a thread that does not hold it
 * cannot give it back, who waits is seen.
 */
#include <sched.h>
#include <unistd.h>

#include "fabric/fab_lock.h"
#include "test_cmocka.h"

enum { THREADS = 4, ROUNDS = 20000 };

static fab_mutex_t mutex;
static long count; /* under the mutex */

/*
 * More threads than processors. Some yield with the lock in their hands, so that others go to sleep
 * on it; some take it only if it is free.
 */
static void *add(void *arg)
{
    for (int i = 0; i < ROUNDS; i++) {
        if (NULL != arg) {
            while (!fab_mutex_trylock(&mutex)) {
                sched_yield();
            }
        } else {
            fab_mutex_lock(&mutex);
        }
        ++count;
        if (0 == i % 64) {
            usleep(0 == i % 4096 ? 1000 : 0);
        }
        fab_mutex_unlock(&mutex);
    }
    return NULL;
}

static void test_one_at_a_time(void **state)
{
    pthread_t thread[THREADS];

    (void) state;
    fab_mutex_init(&mutex);
    count = 0;
    for (intptr_t i = 0; i < THREADS; i++) {
        assert_int_equal(0, pthread_create(&thread[i], NULL, add, 3 == i ? &mutex : NULL));
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(thread[i], NULL);
    }
    assert_int_equal(THREADS * ROUNDS, count);
    assert_false(fab_mutex_is_wanted(&mutex));
    assert_true(fab_mutex_trylock(&mutex));
    fab_mutex_unlock(&mutex);
}

/* Gives back what another holds, which has no effect; then waits for it. */
static void *other(void *arg)
{
    (void) arg;
    fab_mutex_unlock(&mutex);
    assert_false(fab_mutex_trylock(&mutex));
    fab_mutex_lock(&mutex);
    ++count;
    fab_mutex_unlock(&mutex);
    return NULL;
}

static void test_not_the_holder(void **state)
{
    pthread_t thread;

    (void) state;
    fab_mutex_init(&mutex);
    count = 0;
    fab_mutex_unlock(&mutex); /* nobody holds it */
    fab_mutex_lock(&mutex);
    assert_int_equal(0, pthread_create(&thread, NULL, other, NULL));
    while (!fab_mutex_is_wanted(&mutex)) {
        sched_yield();
    }
    usleep(10000); /* it sleeps by now, most likely */
    assert_int_equal(0, count);
    fab_mutex_unlock(&mutex);
    pthread_join(thread, NULL);
    assert_int_equal(1, count);
    assert_false(fab_mutex_is_wanted(&mutex));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_at_a_time),
        cmocka_unit_test(test_not_the_holder),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
