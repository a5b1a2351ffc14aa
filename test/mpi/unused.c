/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Helper of unused.sh: prints what rank 0 has open after MPI_Init, without numbers.
 */
#include <dirent.h>

#include "tm_test.h"

/* What a descriptor is: the link of /proc, up to a number in it. */
static void print_one(const char *name)
{
    char path[64], what[512];
    ssize_t len;

    snprintf(path, sizeof(path), "/proc/self/fd/%.20s", name);
    len = readlink(path, what, sizeof(what) - 1);
    if (len > 0) {
        what[len] = '\0';
        what[strcspn(what, "[0123456789")] = '\0';
        printf("open %s\n", what);
    }
}

int main(int argc, char **argv)
{
    tm_init(&argc, &argv, "unused");
    if (0 == tm_rank) {
        DIR *dir = opendir("/proc/self/fd");
        const struct dirent *entry;

        while (NULL != (entry = readdir(dir))) {
            print_one(entry->d_name);
        }
        closedir(dir);
    }
    return tm_finish();
}
