/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * For hang.sh and doc/diagnosis.md: typical mistakes, after which the job waits for ever, and some
 * programs that only wait for long.
 *
 * args: which (a name of `cases`); `threads`: with MPI_THREAD_MULTIPLE
 * TM_HANG_SECONDS: a signal ends it after so many
 */
#include "tm_test.h"

#include <dirent.h>
#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>

enum { LONG = 1 << 20, TAG = 7 };

static char buf[LONG];

/* Two ranks send to each other a message that is longer than the eager limit, then receive. */
static void cycle(void)
{
    if (tm_rank < 2) {
        MPI_Send(buf, LONG, MPI_BYTE, 1 - tm_rank, TAG, MPI_COMM_WORLD);
        MPI_Recv(buf, LONG, MPI_BYTE, 1 - tm_rank, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
}

/* Each receives from its left before it sends to its right; the last waits for the first. */
static void tail(void)
{
    const int in_circle = tm_size - 1;
    const int left = tm_rank == in_circle ? 0 : (tm_rank + in_circle - 1) % in_circle;

    MPI_Recv(buf, 8, MPI_BYTE, left, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Send(buf, 8, MPI_BYTE, (tm_rank + 1) % in_circle, TAG, MPI_COMM_WORLD);
}

/* The sender uses one tag, the receiver another one. */
static void wrong_tag(void)
{
    if (0 == tm_rank) {
        MPI_Recv(buf, LONG, MPI_BYTE, 1, 12, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Send(buf, 8, MPI_BYTE, 1, 13, MPI_COMM_WORLD);
    } else if (1 == tm_rank) {
        MPI_Send(buf, 800, MPI_BYTE, 0, 11, MPI_COMM_WORLD);
        MPI_Recv(buf, LONG, MPI_BYTE, 0, 13, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
}

/* Each sends with one tag, and waits for another. */
static void wrong_tags(void)
{
    const int right = (tm_rank + 1) % tm_size, left = (tm_rank + tm_size - 1) % tm_size;

    MPI_Send(buf, 400, MPI_BYTE, right, 11, MPI_COMM_WORLD);
    MPI_Recv(buf, 400, MPI_BYTE, left, 12, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

/* One rank receives before a collective operation, the others after it. */
static void orders(void)
{
    if (0 == tm_rank) {
        MPI_Recv(buf, 8, MPI_BYTE, MPI_ANY_SOURCE, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
    MPI_Barrier(MPI_COMM_WORLD);
}

/* The sender uses one communicator, the receiver a duplicate of it. */
static void wrong_comm(void)
{
    MPI_Comm row;

    MPI_Comm_dup(MPI_COMM_WORLD, &row);
    MPI_Comm_set_name(row, "row");
    if (0 == tm_rank) {
        MPI_Recv(buf, LONG, MPI_BYTE, 1, TAG, row, MPI_STATUS_IGNORE);
    } else if (1 == tm_rank) {
        MPI_Send(buf, 800, MPI_BYTE, 0, TAG, MPI_COMM_WORLD);
    }
    MPI_Barrier(row);
}

/* One rank does not call the collective operation of all others. */
static void missing(void)
{
    if (2 != tm_rank) {
        MPI_Barrier(MPI_COMM_WORLD);
    } else {
        tm_spin_us(1000000000);
    }
}

/* The same, and the rank has ended instead. */
static void missing_ends(void)
{
    if (2 != tm_rank) {
        MPI_Barrier(MPI_COMM_WORLD);
    }
}

/* All wait for a message from any. */
static void any(void)
{
    MPI_Recv(buf, 8, MPI_BYTE, MPI_ANY_SOURCE, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

/* The same, but for one that computes. */
static void any_but_one(void)
{
    if (tm_rank == tm_size - 1) {
        tm_spin_us(1000000000);
    }
    any();
}

/* A message to itself, above the eager limit. */
static void myself(void)
{
    if (0 == tm_rank) {
        MPI_Ssend(buf, 8, MPI_BYTE, 0, TAG, MPI_COMM_WORLD);
    }
}

/* Like cycle, by MPI_Waitall of requests and by MPI_Probe. */
static void waitall(void)
{
    MPI_Request req[2];

    if (0 == tm_rank) {
        MPI_Isend(buf, LONG, MPI_BYTE, 1, TAG, MPI_COMM_WORLD, &req[0]);
        MPI_Irecv(buf, 8, MPI_BYTE, 1, TAG, MPI_COMM_WORLD, &req[1]);
        MPI_Waitall(2, req, MPI_STATUSES_IGNORE);
    } else if (1 == tm_rank) {
        MPI_Probe(0, TAG + 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
}

/* One rank asks for a message in a loop, with another receive posted. */
static void iprobe(void)
{
    MPI_Request req;
    int flag = 0;

    if (0 == tm_rank) {
        MPI_Irecv(buf, 8, MPI_BYTE, 1, TAG + 9, MPI_COMM_WORLD, &req);
        while (!flag) {
            MPI_Iprobe(1, TAG + 5, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE);
        }
    } else if (1 == tm_rank) {
        MPI_Recv(buf, 8, MPI_BYTE, 0, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
}

/* One rank sends faster than the other receives, which computes. */
static void flood(void)
{
    if (0 == tm_rank) {
        tm_spin_us(1000000000);
    }
    for (int i = 0; i < 100000; i++) {
        if (0 == tm_rank) {
            MPI_Recv(buf, 4096, MPI_BYTE, 1, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        } else if (1 == tm_rank) {
            MPI_Send(buf, 4096, MPI_BYTE, 0, TAG, MPI_COMM_WORLD);
        }
    }
}

/* A sender that computes, with its message half sent. */
static void halfway(void)
{
    MPI_Request req;

    if (0 == tm_rank) {
        MPI_Isend(buf, LONG, MPI_BYTE, 1, TAG, MPI_COMM_WORLD, &req);
        tm_spin_us(1000000000);
    } else if (1 == tm_rank) {
        MPI_Recv(buf, LONG, MPI_BYTE, 0, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
}

/* Like cycle, with reports that the program itself asks for. */
static void by_tool(void)
{
    const int after = 1;
    MPI_T_cvar_handle handle;
    int provided, index, count;

    TM_MPI(MPI_T_init_thread(MPI_THREAD_SINGLE, &provided));
    TM_MPI(MPI_T_cvar_get_index("pml_tm_report_after", &index));
    TM_MPI(MPI_T_cvar_handle_alloc(index, NULL, &handle, &count));
    TM_MPI(MPI_T_cvar_write(handle, &after));
    cycle();
}

/* Two ranks wait for each other, until another thread of the first sends. */
static void *send_later(void *unused)
{
    (void) unused;
    usleep(3500000);
    MPI_Send(buf, 8, MPI_BYTE, 1, TAG + 1, MPI_COMM_WORLD);
    return NULL;
}

static void cycle_ends(void)
{
    char mine[8];
    pthread_t thread;

    if (0 == tm_rank) {
        pthread_create(&thread, NULL, send_later, NULL);
        MPI_Recv(mine, 8, MPI_BYTE, 1, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        pthread_join(thread, NULL);
    } else if (1 == tm_rank) {
        MPI_Recv(mine, 8, MPI_BYTE, 0, TAG + 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Send(mine, 8, MPI_BYTE, 0, TAG, MPI_COMM_WORLD);
    }
}

/*
 * A thread of rank 0 waits for long for rank 1, which waits for one message after the other of
 * another thread.
 */
static void *send_often(void *unused)
{
    (void) unused;
    for (int i = 0; i < 200; i++) {
        usleep(20000);
        MPI_Send(buf, 8, MPI_BYTE, 1, TAG + 1, MPI_COMM_WORLD);
    }
    return NULL;
}

static void busy_thread(void)
{
    char mine[8];
    pthread_t thread;

    if (0 == tm_rank) {
        pthread_create(&thread, NULL, send_often, NULL);
        MPI_Recv(mine, 8, MPI_BYTE, 1, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        pthread_join(thread, NULL);
    } else if (1 == tm_rank) {
        for (int i = 0; i < 200; i++) {
            MPI_Recv(mine, 8, MPI_BYTE, 0, TAG + 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        }
        MPI_Send(mine, 8, MPI_BYTE, 0, TAG, MPI_COMM_WORLD);
    }
}

/* Two threads of a rank wait in different calls, and another rank waits for a third message. */
static void *send_sync(void *unused)
{
    (void) unused;
    MPI_Ssend(buf, 8, MPI_BYTE, 1, TAG + 1, MPI_COMM_WORLD);
    return NULL;
}

static void two_calls(void)
{
    char mine[8];
    pthread_t thread;

    if (0 == tm_rank) {
        pthread_create(&thread, NULL, send_sync, NULL);
        MPI_Recv(mine, 8, MPI_BYTE, 1, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        pthread_join(thread, NULL);
    } else if (1 == tm_rank) {
        MPI_Recv(mine, 8, MPI_BYTE, 0, TAG + 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
}

/* The wrong tag comes, and after long the right one. */
static void wrong_tag_ends(void)
{
    if (0 == tm_rank) {
        MPI_Recv(buf, 8, MPI_BYTE, 1, 12, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Recv(buf, 8, MPI_BYTE, 1, 11, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    } else if (1 == tm_rank) {
        MPI_Send(buf, 8, MPI_BYTE, 0, 11, MPI_COMM_WORLD);
        usleep(4500000);
        MPI_Send(buf, 8, MPI_BYTE, 0, 12, MPI_COMM_WORLD);
    }
}

/* Ranks in a ring pass a message on, each after a nap: the job moves, slowly, and ends. */
static void slow(void)
{
    const int right = (tm_rank + 1) % tm_size, left = (tm_rank + tm_size - 1) % tm_size;

    for (int lap = 0; lap < 3; lap++) {
        if (0 != tm_rank || 0 != lap) {
            MPI_Recv(buf, LONG, MPI_BYTE, left, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        }
        usleep(700000);
        MPI_Send(buf, 0 == lap ? LONG : 8, MPI_BYTE, right, TAG, MPI_COMM_WORLD);
    }
    if (0 == tm_rank) {
        MPI_Recv(buf, LONG, MPI_BYTE, left, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
}

/* A rank whose calls never wait. */
static void myself_often(void)
{
    char mine[8];

    for (;;) {
        MPI_Sendrecv(buf, 8, MPI_BYTE, 0, TAG, mine, 8, MPI_BYTE, 0, TAG, MPI_COMM_SELF,
                     MPI_STATUS_IGNORE);
    }
}

/*
 * While a report looks for the call of MPI, or through /proc, another thread sends: the lock of the
 * fabric is free.
 */
static atomic_int asked, answered; /* times that the other thread was to send, and has */
static atomic_bool is_watched;

static void wait_for_other(const char *function)
{
    for (int i = 0; atomic_load(&is_watched) && i < 20000; i++) {
        if (0 == i) {
            atomic_fetch_add(&asked, 1);
        }
        if (atomic_load(&asked) == atomic_load(&answered)) {
            fprintf(stderr, "%s: another thread has sent\n", function);
            return;
        }
        usleep(1000);
    }
    if (atomic_load(&is_watched)) {
        fprintf(stderr, "%s: no other thread can send\n", function);
    }
}

/* Called by the report instead of those of the C library. */
int backtrace(void **frames, int size)
{
    int (*real)(void **frames, int size) = (int (*)(void **frames, int size)) dlsym(RTLD_NEXT,
                                                                                    "backtrace");

    wait_for_other("backtrace");
    return real(frames, size);
}

DIR *opendir(const char *name)
{
    DIR *(*real)(const char *name) = (DIR * (*) (const char *name)) dlsym(RTLD_NEXT, "opendir");

    if (0 == strcmp(name, "/proc")) {
        wait_for_other("opendir");
    }
    return real(name);
}

static void *send_when_asked(void *unused)
{
    char out[8] = "", in[8];

    (void) unused;
    for (;;) {
        if (atomic_load(&asked) != atomic_load(&answered)) {
            MPI_Sendrecv(out, 8, MPI_BYTE, 0, TAG, in, 8, MPI_BYTE, 0, TAG, MPI_COMM_SELF,
                         MPI_STATUS_IGNORE);
            atomic_fetch_add(&answered, 1);
        }
        usleep(1000);
    }
    return NULL;
}

static void unlocked(void)
{
    pthread_t thread;

    if (0 == tm_rank) {
        pthread_create(&thread, NULL, send_when_asked, NULL);
        atomic_store(&is_watched, true);
        MPI_Recv(buf, 8, MPI_BYTE, 1, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    } else {
        tm_spin_us(1000000000);
    }
}

static const struct {
    const char *name;
    void (*run)(void);
} cases[] = {
    {"cycle", cycle},
    {"tail", tail},
    {"wrong_tag", wrong_tag},
    {"wrong_tags", wrong_tags},
    {"wrong_comm", wrong_comm},
    {"orders", orders},
    {"missing", missing},
    {"missing_ends", missing_ends},
    {"any", any},
    {"any_but_one", any_but_one},
    {"myself", myself},
    {"waitall", waitall},
    {"iprobe", iprobe},
    {"flood", flood},
    {"halfway", halfway},
    {"slow", slow},
    {"by_tool", by_tool},
    {"cycle_ends", cycle_ends},
    {"busy_thread", busy_thread},
    {"two_calls", two_calls},
    {"wrong_tag_ends", wrong_tag_ends},
    {"myself_often", myself_often},
    {"unlocked", unlocked},
};

int main(int argc, char **argv)
{
    const char *seconds = getenv("TM_HANG_SECONDS");

    if (NULL != seconds) {
        (void) alarm((unsigned) atoi(seconds));
    }
    tm_init_thread(&argc, &argv, "hang", argc > 2 ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        if (argc > 1 && 0 == strcmp(argv[1], cases[i].name)) {
            cases[i].run();
            MPI_Finalize();
            printf("hang: done\n");
            return 0;
        }
    }
    TM_FATAL("no such case");
}
