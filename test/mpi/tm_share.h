/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the ranks of a host tell each other without MPI.
 */
#ifndef TM_SHARE_H
#define TM_SHARE_H

#include <fcntl.h>
#include <stdatomic.h>
#include <sys/mman.h>

#include "tm_test.h"

/* A word, 0 at first, that all ranks see. */
static inline atomic_int *tm_shared_word(void)
{
    char name[] = "/tmp/tm-shared-XXXXXX";
    int fd = 0 == tm_rank ? mkstemp(name) : -1;
    atomic_int *word;

    TM_CHECK(0 != tm_rank || (fd >= 0 && 0 == ftruncate(fd, sizeof(*word))), "no file %s", name);
    TM_MPI(MPI_Bcast(name, sizeof(name), MPI_CHAR, 0, MPI_COMM_WORLD));
    fd = 0 == tm_rank ? fd : open(name, O_RDWR);
    word = mmap(NULL, sizeof(*word), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (MAP_FAILED == word) {
        TM_FATAL("%s cannot be mapped", name);
    }
    close(fd);
    MPI_Barrier(MPI_COMM_WORLD);
    if (0 == tm_rank) {
        unlink(name);
    }
    return word;
}

#endif /* TM_SHARE_H */
