/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * After MPI_Finalize no component of Open MPI is polled any more: one-sided MPI makes it poll the
 * BTLs, which are unloaded then, and it is for the PML to end that. What libmpi and libopen-pal
 * themselves leave registered (5.0 does, now and then) stays loaded.
 *
 * opal_progress_register() and opal_progress_unregister() of this program are used instead of Open
 * MPI's: they note what is registered.
 *
 * args: number of rounds of MPI_Put
 */
/* TEST: np=2 args="3" ldflags=-rdynamic timeout=60 stderr="Unable to find reachable pairing" */
#include <dlfcn.h>

#include "tm_test.h"

typedef int (*callback_t)(void);

enum { MAX = 64 };

static callback_t registered[MAX];

static int pass_on(const char *name, callback_t callback)
{
    int (*next)(callback_t) = NULL;

    *(void **) &next = dlsym(RTLD_NEXT, name);
    return next(callback);
}

static int change(callback_t from, callback_t to)
{
    for (int i = 0; i < MAX; i++) {
        if (from == registered[i]) {
            registered[i] = to;
            return 1;
        }
    }
    return 0;
}

int opal_progress_register(callback_t callback);
int opal_progress_register_lp(callback_t callback);
int opal_progress_unregister(callback_t callback);

int opal_progress_register(callback_t callback)
{
    (void) (change(callback, callback) || change(NULL, callback)); /* only once is it called */
    return pass_on("opal_progress_register", callback);
}

int opal_progress_register_lp(callback_t callback)
{
    (void) (change(callback, callback) || change(NULL, callback));
    return pass_on("opal_progress_register_lp", callback);
}

int opal_progress_unregister(callback_t callback)
{
    (void) change(callback, NULL);
    return pass_on("opal_progress_unregister", callback);
}

static int count(void)
{
    int sum = 0;

    for (int i = 0; i < MAX; i++) {
        sum += NULL != registered[i];
    }
    return sum;
}

int main(int argc, char **argv)
{
    int rounds, before, value = 0;
    static int memory[2];
    MPI_Win window;

    tm_init(&argc, &argv, "polled");
    rounds = (int) tm_arg(argc, argv, 1, 1);
    before = count();
    TM_CHECK(before > 0, "this program does not see what is registered");
    TM_MPI(MPI_Win_create(memory, sizeof(memory), sizeof(memory[0]), MPI_INFO_NULL, MPI_COMM_WORLD,
                          &window));
    for (int i = 0; i < rounds; i++) {
        TM_MPI(MPI_Win_fence(0, window));
        value++;
        TM_MPI(MPI_Put(&value, 1, MPI_INT, (tm_rank + 1) % tm_size, 0, 1, MPI_INT, window));
        TM_MPI(MPI_Win_fence(0, window));
    }
    TM_CHECK(value == memory[0], "%d was put, %d is there", value, memory[0]);
    TM_MPI(MPI_Win_free(&window));
    value = tm_finish();
    for (int i = 0; i < MAX; i++) {
        Dl_info info = {.dli_fname = "?"};
        if (NULL == registered[i]) {
            continue;
        }
        (void) dladdr(*(void **) &registered[i], &info);
        if (NULL == strstr(info.dli_fname, "/libmpi.so") &&
            NULL == strstr(info.dli_fname, "/libopen-pal.so")) {
            fprintf(stderr, "polled: still registered after MPI_Finalize: a function of %s\n",
                    info.dli_fname);
            value = 1;
        }
    }
    return value;
}
