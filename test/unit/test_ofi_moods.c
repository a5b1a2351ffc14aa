/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests of the conformance suite over libfabric in the moods of test/ofidev: what providers for
 * hardware do and those in software do not.
 *
 *     test_ofi_moods [MOOD [TEST]]
 *
 * A short run (test/run --short) has a third of the moods, by turns.
 *
 * TEST: sources=@fabric,@ofi,test/ofidev/ofidev.c,test/unit/conform.c,test/unit/conform_messages.c,test/unit/conform_peers.c,test/unit/conform_rma.c,test/unit/conform_users.c variants=asan cflags=-DFAB_HAVE_OFI=1 ldflags=-lfabric needs=libfabric-1.15 timeout=900 quick=no short=ofi
 */
#include "conform_ofi.h"

#define SETTINGS 4

/* Settings, and the tests that they concern. */
static const struct {
    const char *settings[SETTINGS + 1];
    const char *tests[8];
} moods[] = {
    {{"OFIDEV_AGAIN=200"}, {"test_order", "test_reopen", "test_rma", "test_many"}},
    {{"OFIDEV_RELEASE=1", "OFIDEV_DELAY=5"}, {"test_tight"}},
    {{"OFIDEV_RELEASE=1", "OFIDEV_DELAY=5"}, {"test_order", "test_reopen"}},
    {{"OFIDEV_RELEASE=2", "OFIDEV_DELAY=20"},
     {"test_order", "test_reopen", "test_post", "test_users_items"}},
    {{"OFIDEV_UNALIGNED=4"}, {"test_order", "test_users"}},
    {{"OFIDEV_LOST=50", "OFIDEV_ROOM=2"}, {"test_order", "test_rma", "test_items"}},
    {{"OFIDEV_CONTEXT2=1", "OFIDEV_MR_ENDPOINT=1"}, {"test_order", "test_rma", "test_region"}},
    {{"OFIDEV_NO_RMA=1"}, {"test_order", "test_rma", "test_region"}},
    {{"OFIDEV_AGAIN=300", "OFIDEV_RELEASE=2", "OFIDEV_DELAY=7", "OFIDEV_CONTEXT2=1"},
     {"test_order", "test_rma", "test_unknown", "test_users_failed"}},
};

enum { MOODS = sizeof(moods) / sizeof(moods[0]) };

/* The test in a process of its own: cmocka's filter is kept. Returns its exit status. */
static int run(const char *test)
{
    char *argv[] = {NULL, (char *) (uintptr_t) test, NULL};
    int status = 0;

    fflush(NULL);
    pid_t pid = fork();
    if (0 == pid) {
        exit(conform_main(2, argv, "ofi"));
    }
    waitpid(pid, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

static int run_mood(int mood, const char *only)
{
    int rc = 0;

    for (int i = 0; NULL != moods[mood].settings[i]; i++) {
        printf("== %s\n", moods[mood].settings[i]);
        putenv((char *) (uintptr_t) moods[mood].settings[i]);
    }
    for (int i = 0; 0 == rc && NULL != moods[mood].tests[i]; i++) {
        if (NULL == only || 0 == strcmp(only, moods[mood].tests[i])) {
            rc = run(moods[mood].tests[i]);
        }
    }
    for (int i = 0; NULL != moods[mood].settings[i]; i++) {
        char name[64];
        snprintf(name, sizeof(name), "%.*s", (int) strcspn(moods[mood].settings[i], "="),
                 moods[mood].settings[i]);
        unsetenv(name);
    }
    return rc;
}

int main(int argc, char **argv)
{
    int first = argc > 1 ? atoi(argv[1]) : 0;
    const int turn = conform_turn(3);
    int rc = 0;

    fab_params.ofi_provider = (char *) (uintptr_t) "net,tcp";
    for (int mood = first; 0 == rc && mood < (argc > 1 ? first + 1 : MOODS); mood++) {
        if (argc > 1 || turn < 0 || turn == mood % 3) {
            rc = run_mood(mood, argc > 2 ? argv[2] : NULL);
        }
    }
    return rc;
}
