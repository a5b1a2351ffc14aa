/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Helper of starved.sh and no_memory.sh: from some point on rank 1 gets no memory, and is sent
 * messages before it receives them, short and long ones; or, with a window, the two access each
 * other's memory.
 *
 * args: KIB ["window"]: rank 1 limits its address space to what it has and so many KiB more; -1: it
 *       uses up what malloc() could reuse, too; "library": only the library that fail_calls.c
 *       watches gets no memory, during puts and gets of rank 1
 */
#include <dlfcn.h>
#include <stdio.h>
#include <sys/resource.h>

#include "tm_test.h"

enum { SHORT = 1000, NUM_SHORT = 3000, LONG = 300000, NUM_LONG = 8, SOME = 7, NUM_PUTS = 20 };

/* By fail_calls.c: the library gets no memory from now on, or does again. */
static void fail_library(bool is_failing)
{
    void (*fail)(bool) = (void (*)(bool)) dlsym(dlopen(NULL, RTLD_NOW), "fail_calls_from_now");

    if (TM_CHECK(NULL != fail, "fail_calls.c is not loaded")) {
        fail(is_failing);
    }
}

/* Let this process get so many bytes more, and no others. */
static void limit(size_t bytes)
{
    unsigned long pages = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    struct rlimit limit;

    TM_CHECK(NULL != file && 1 == fscanf(file, "%lu", &pages), "no /proc/self/statm");
    fclose(file);
    limit.rlim_cur = pages * (size_t) sysconf(_SC_PAGESIZE) + bytes;
    limit.rlim_max = limit.rlim_cur;
    TM_CHECK(0 == setrlimit(RLIMIT_AS, &limit), "setrlimit");
}

/* Use up what malloc() can give. */
static void exhaust(void)
{
    void *volatile block; /* otherwise the compiler leaves malloc() out */

    for (size_t size = 1 << 20; size >= 16; size /= 2) {
        do {
            block = malloc(size);
        } while (NULL != block);
    }
}

static void starve(const char *how)
{
    limit(atoi(how) > 0 ? (size_t) atoi(how) * 1024 : 0);
    if (atoi(how) < 0) {
        exhaust();
    }
}

/* Rank 0 sends num messages of len bytes; rank 1 receives the last one first. */
static void messages(char *buf, int len, int num)
{
    MPI_Request req[NUM_SHORT];

    if (0 == tm_rank) {
        for (int i = 0; i < num; i++) {
            TM_MPI(MPI_Isend(buf, len, MPI_BYTE, 1, i, MPI_COMM_WORLD, &req[i]));
        }
        TM_MPI(MPI_Waitall(num, req, MPI_STATUSES_IGNORE));
    } else {
        for (int i = num; i-- > 0;) {
            buf[0] = buf[len - 1] = 0;
            TM_MPI(MPI_Recv(buf, len, MPI_BYTE, 0, i, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
            TM_CHECK(SOME == buf[0] && SOME == buf[len - 1], "message %d of %d bytes", i, len);
        }
    }
    TM_MPI(MPI_Barrier(MPI_COMM_WORLD));
}

/* Several puts at a time, and a get. The window begins with a counter. */
static void puts_and_gets(MPI_Win win, char *buf)
{
    int peer = 1 - tm_rank;

    for (int len = 1; len <= LONG; len *= 4) {
        memset(buf, SOME, (size_t) len);
        for (int i = 0; i < NUM_PUTS; i++) {
            TM_MPI(MPI_Put(buf, len, MPI_BYTE, peer, sizeof(int64_t), len, MPI_BYTE, win));
        }
        TM_MPI(MPI_Win_flush(peer, win));
        memset(buf, 0, (size_t) len);
        TM_MPI(MPI_Get(buf, len, MPI_BYTE, peer, sizeof(int64_t), len, MPI_BYTE, win));
        TM_MPI(MPI_Win_flush(peer, win));
        TM_CHECK(SOME == buf[0] && SOME == buf[len - 1], "%d bytes put and got", len);
    }
}

static void count(MPI_Win win)
{
    int64_t one = 1, old = -1;
    int peer = 1 - tm_rank;

    for (int i = 0; i < 100; i++) {
        TM_MPI(MPI_Fetch_and_op(&one, &old, MPI_INT64_T, peer, 0, MPI_SUM, win));
        TM_MPI(MPI_Win_flush(peer, win));
        TM_CHECK(i == old, "old value %" PRIi64 " instead of %d", old, i);
    }
}

/* Rank 0 sends nothing until they are done: rank 1 would have no memory for it. */
static void puts_without_memory(MPI_Win win, char *buf)
{
    if (1 == tm_rank) {
        fail_library(true);
        puts_and_gets(win, buf);
        fail_library(false);
        TM_MPI(MPI_Send(NULL, 0, MPI_BYTE, 0, 0, MPI_COMM_WORLD));
    } else {
        TM_MPI(MPI_Recv(NULL, 0, MPI_BYTE, 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    }
}

static void window(const char *how)
{
    int64_t *base = tm_calloc(1, sizeof(*base) + LONG);
    char *buf = tm_calloc(1, LONG);
    MPI_Win win;

    TM_MPI(MPI_Win_create(base, (MPI_Aint) sizeof(*base) + LONG, 1, MPI_INFO_NULL, MPI_COMM_WORLD,
                          &win));
    TM_MPI(MPI_Win_lock_all(0, win));
    if (0 == strcmp("library", how)) {
        puts_without_memory(win, buf);
    } else if (1 == tm_rank) {
        starve(how);
    }
    puts_and_gets(win, buf);
    count(win);
    TM_MPI(MPI_Win_unlock_all(win));
    TM_MPI(MPI_Win_free(&win));
    free(buf);
    free(base);
}

int main(int argc, char **argv)
{
    tm_init(&argc, &argv, "starved");
    if (argc > 2) {
        window(argv[1]);
    } else {
        char *buf = tm_calloc(1, LONG);

        memset(buf, SOME, LONG);
        TM_MPI(MPI_Barrier(MPI_COMM_WORLD));
        if (1 == tm_rank) {
            starve(argv[1]);
        }
        messages(buf, SHORT, NUM_SHORT);
        messages(buf, LONG, NUM_LONG);
        free(buf);
    }
    return tm_finish();
}
