/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Buffers that are allocated for each exchange, written, and freed: the C library keeps their
 * memory (page faults are counted), unless the user has limited what it keeps.
 *
 * args: "kept", or "limited" by the environment
 */
/* TEST: np=2,4 args="kept" quick=yes */
/* TEST: np=2 args="limited" env="MALLOC_TRIM_THRESHOLD_=131072" */
#include "tm_test.h"

#include <sys/resource.h>

enum {
    BUFFERS = 4,
    LEN = 300000 /* bytes */,
    BEFORE = 10,
    ROUNDS = 100,
    /* of which memory that is given back costs each, and a ring that grows some */
    FRESH = ROUNDS * BUFFERS * (LEN / 4096)
};

static long page_faults(void)
{
    struct rusage usage;

    TM_CHECK(0 == getrusage(RUSAGE_SELF, &usage), "getrusage() failed");
    return usage.ru_minflt;
}

static void exchange(int round)
{
    char *buf[BUFFERS];

    for (int i = 0; i < BUFFERS; i++) {
        buf[i] = malloc(LEN);
        TM_CHECK(NULL != buf[i], "no memory");
        memset(buf[i], round + i, LEN);
    }
    for (int i = 0; i < BUFFERS; i += 2) {
        TM_MPI(MPI_Sendrecv(buf[i], LEN, MPI_BYTE, tm_rank ^ 1, i, buf[i + 1], LEN, MPI_BYTE,
                            tm_rank ^ 1, i, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        TM_CHECK((char) (round + i) == buf[i + 1][LEN - 1], "round %d: wrong data", round);
    }
    for (int i = BUFFERS; i-- > 0;) {
        free(buf[i]);
    }
}

int main(int argc, char **argv)
{
    long before, faults;

    tm_init(&argc, &argv, "fresh_buffers");
    for (int round = 0; round < BEFORE; round++) {
        exchange(round);
    }
    before = page_faults();
    for (int round = 0; round < ROUNDS; round++) {
        exchange(round);
    }
    faults = page_faults() - before;
    if (0 == strcmp("kept", argv[1])) {
        TM_CHECK(faults < FRESH / 10, "%ld page faults in %d rounds", faults, ROUNDS);
    } else {
        TM_CHECK(faults >= FRESH / 2, "%ld page faults in %d rounds", faults, ROUNDS);
    }
    return tm_finish();
}
