/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * For surroundings.sh: two ranks exchange messages of all sizes, after a program has changed what
 * is around it between MPI_Init and its first message.
 *
 * args: [what: none, chroot, setuid, undumpable, closed, used, lock, thread [rank; default: all]]
 */
#include "tm_test.h"

#include <errno.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>

enum { NOBODY = 65534, FILES = 200 };

static const int sizes[] = {0, 1, 40, 41, 1000, 5000, 20000, 70000, 300000, 1 << 20, 3 << 20};
static const char *what = "none";
static int args;
static char **arg;

/* The segment's descriptor, as a program that closes whatever it did not open. */
static void close_segment(void)
{
    int num = 0;

    for (int fd = 3; fd < FILES; fd++) {
        char path[64], file[64] = "";
        snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
        if (readlink(path, file, sizeof(file) - 1) > 0 && 0 == strncmp(file, "/memfd:pml_tm", 13)) {
            close(fd);
            num++;
        }
    }
    TM_CHECK(num > 0 || NULL != getenv("TM_NO_SEGMENT"), "the segment has no descriptor");
}

static void use_up_files(void)
{
    struct rlimit limit = {.rlim_cur = FILES, .rlim_max = FILES};

    TM_CHECK(0 == setrlimit(RLIMIT_NOFILE, &limit), "setrlimit: %s", strerror(errno));
    while (dup(1) >= 0) {
    }
    TM_CHECK(EMFILE == errno, "dup: %s", strerror(errno));
}

static void give_back_files(void)
{
    struct stat out, st;

    TM_CHECK(0 == fstat(1, &out), "fstat: %s", strerror(errno));
    for (int fd = 3; fd < FILES; fd++) {
        if (0 == fstat(fd, &st) && st.st_dev == out.st_dev && st.st_ino == out.st_ino) {
            close(fd);
        }
    }
}

static void change(void)
{
    int rc = 0;

    if (0 == strcmp(what, "chroot")) {
        rc = 0 == chroot("/var/empty") || 0 == chroot("/mnt") ? chdir("/") : -1;
    } else if (0 == strcmp(what, "setuid")) {
        rc = setuid(NOBODY);
    } else if (0 == strcmp(what, "undumpable")) {
        rc = prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
    } else if (0 == strcmp(what, "closed")) {
        close_segment();
    } else if (0 == strcmp(what, "used")) {
        use_up_files();
    } else if (0 == strcmp(what, "lock")) {
        rc = mlockall(MCL_CURRENT | MCL_FUTURE);
    }
    TM_CHECK(0 == rc, "%s: %s", what, strerror(errno));
}

static void exchange(int len)
{
    unsigned char *out = tm_calloc((size_t) len + 1, 1), *in = tm_calloc((size_t) len + 1, 1);
    const int other = 1 - tm_rank;
    MPI_Request requests[2];

    tm_fill(out, (size_t) len, tm_key(tm_rank, other, 1, len));
    TM_MPI(MPI_Irecv(in, len, MPI_BYTE, other, 1, MPI_COMM_WORLD, &requests[0]));
    TM_MPI(MPI_Isend(out, len, MPI_BYTE, other, 1, MPI_COMM_WORLD, &requests[1]));
    TM_MPI(MPI_Waitall(2, requests, MPI_STATUSES_IGNORE));
    tm_expect_data(in, (size_t) len, tm_key(other, tm_rank, 1, len), what);
    free(in);
    free(out);
}

static int run(void)
{
    const bool is_changed = args < 3;
    int rc;

    tm_init(&args, &arg, "surroundings");
    if (is_changed || atoi(arg[2]) == tm_rank) {
        change();
    }
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        exchange(sizes[i]);
    }
    if (0 == strcmp(what, "used")) {
        give_back_files();
    }
    if (0 == strcmp(what, "lock")) {
        (void) munlockall();
    }
    rc = tm_finish();
    fflush(NULL);
    return rc;
}

/* The first thread has ended meanwhile, which begins before MPI_Init. */
static void *run_alone(void *first)
{
    char path[64], line[64] = "";

    (void) first;
    snprintf(path, sizeof(path), "/proc/self/task/%d/stat", (int) getpid());
    while (NULL == strstr(line, ") Z")) {
        FILE *file = fopen(path, "r");
        if (NULL == file || NULL == fgets(line, sizeof(line), file)) {
            strcpy(line, ") Z");
        }
        if (NULL != file) {
            fclose(file);
        }
    }
    exit(run());
}

int main(int argc, char **argv)
{
    pthread_t thread;

    args = argc;
    arg = argv;
    what = argc > 1 ? argv[1] : what;
    if (0 == strcmp(what, "thread") && 0 == pthread_create(&thread, NULL, run_alone, NULL)) {
        pthread_exit(NULL);
    }
    return run();
}
