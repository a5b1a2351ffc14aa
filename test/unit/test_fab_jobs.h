/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests of cmocka that are rows of a table: each is a job of test_fab_world.h, for which
 * parameters, limits, variables of the test, or the environment may be set.
 */
#ifndef TEST_FAB_JOBS_H
#define TEST_FAB_JOBS_H

#include "test_fab_world.h"

/* What is not given is as in the rest of the program. */
typedef struct world_job {
    world_fn_t body;
    int (*run)(int size, bool is_threaded, world_fn_t fn, uint64_t killed); /* NULL: usual */
    int ranks;                                                              /* 0: two */
    bool is_threaded;
    uint64_t killed; /* see world_run_some_die() */
    struct {
        char **at;
        char *value;
    } text; /* set for this job */
    struct {
        unsigned *at;
        unsigned value;
    } number[5]; /* likewise */
    struct {
        unsigned *at;
        unsigned num;
    } each;              /* the job is run with each value below num */
    const char *env[10]; /* likewise: a name, its value, ... */
} world_job_t;

/* Exchange what is and what the job sets. */
static inline void world_job_swap(world_job_t *job)
{
    if (NULL != job->text.at) {
        char *old = *job->text.at;
        *job->text.at = job->text.value;
        job->text.value = old;
    }
    for (int i = 0; i < 5 && NULL != job->number[i].at; i++) {
        unsigned old = *job->number[i].at;
        *job->number[i].at = job->number[i].value;
        job->number[i].value = old;
    }
}

static inline void world_job_run(void **state)
{
    world_job_t job = *(const world_job_t *) *state;
    unsigned none, *each = NULL != job.each.at ? job.each.at : &none;
    int wrong = 0;

    for (int i = 0; i < 10 && NULL != job.env[i]; i += 2) {
        setenv(job.env[i], job.env[i + 1], 1);
    }
    world_job_swap(&job);
    for (*each = 0; 0 == wrong && (0 == *each || *each < job.each.num); ++*each) {
        wrong = (NULL != job.run ? job.run : world_run_some_die)(
            0 != job.ranks ? job.ranks : 2, job.is_threaded, job.body, job.killed);
    }
    *each = 0;
    world_job_swap(&job);
    for (int i = 0; i < 10 && NULL != job.env[i]; i += 2) {
        unsetenv(job.env[i]);
    }
    assert_int_equal(wrong, 0);
}

/* A row in a table of struct CMUnitTest: its name, the body, and .what = differs. */
#define WORLD_JOB(title, ...)                                                                      \
    {                                                                                              \
        .name = (title), .test_func = world_job_run,                                               \
        .initial_state = &(world_job_t){.body = __VA_ARGS__},                                      \
    }

#endif /* TEST_FAB_JOBS_H */
