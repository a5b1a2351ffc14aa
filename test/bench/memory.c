/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory: what a process grows by over MPI_Init, and by then exchanging small messages with every
 * rank.
 *
 * Results, in KiB per process, mean over the ranks as <median> and the largest rank as <best>:
 *      memory_kib rss-init <ranks>      growth of resident memory (VmRSS) over MPI_Init
 *      memory_kib pss-init <ranks>      the same in Pss: pages shared by n processes count 1/n in
 *                                       each
 *      memory_kib rss-alltoall <ranks>  growth since before MPI_Init, after the exchange
 *      memory_kib pss-alltoall <ranks>
 *
 * Pss is the fair figure: it counts each page of a shared segment once over the job.  Before each
 * sample the ranks wait for each other, so that all of them have mapped what they will map.
 */
#include "bench.h"

enum {
    ROUNDS = 16,
    MESSAGE = 64,
    TAG = 1,
};

typedef struct sample {
    double rss; /* KiB */
    double pss;
} sample_t;

static sample_t sample_take(void)
{
    FILE *file = fopen("/proc/self/smaps_rollup", "r");
    sample_t sample = {0};
    char line[256];

    if (NULL == file) {
        return sample;
    }
    while (NULL != fgets(line, sizeof(line), file)) {
        sscanf(line, "Rss: %lf", &sample.rss);
        sscanf(line, "Pss: %lf", &sample.pss);
    }
    fclose(file);
    return sample;
}

/* ROUNDS messages of MESSAGE bytes from each rank to each other. */
static void all_to_all(int rank, int ranks, char *buffer, MPI_Request *req)
{
    for (int round = 0; round < ROUNDS; round++) {
        int n = 0;

        for (int i = 1; i < ranks; i++) {
            MPI_Irecv(buffer, MESSAGE, MPI_BYTE, (rank + ranks - i) % ranks, TAG, MPI_COMM_WORLD,
                      &req[n++]);
        }
        for (int i = 1; i < ranks; i++) {
            MPI_Isend(buffer + MESSAGE, MESSAGE, MPI_BYTE, (rank + i) % ranks, TAG, MPI_COMM_WORLD,
                      &req[n++]);
        }
        MPI_Waitall(n, req, MPI_STATUSES_IGNORE);
    }
    MPI_Barrier(MPI_COMM_WORLD);
}

static void report(const char *variant, int rank, int ranks, double before, double after)
{
    double grown = after - before, sum = 0, largest = 0;

    MPI_Reduce(&grown, &sum, 1, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
    MPI_Reduce(&grown, &largest, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
    if (0 == rank) {
        bench_result("memory_kib", variant, ranks, sum / ranks, largest);
    }
}

int main(int argc, char **argv)
{
    static char buffer[2 * MESSAGE];
    sample_t before, after_init, after_all;
    MPI_Request *req;
    int rank, ranks;

    before = sample_take();
    MPI_Init(&argc, &argv);
    after_init = sample_take();
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    req = bench_alloc(2 * (size_t) ranks * sizeof(*req));
    all_to_all(rank, ranks, buffer, req);
    after_all = sample_take();
    MPI_Barrier(MPI_COMM_WORLD);
    report("rss-init", rank, ranks, before.rss, after_init.rss);
    report("pss-init", rank, ranks, before.pss, after_init.pss);
    report("rss-alltoall", rank, ranks, before.rss, after_all.rss);
    report("pss-alltoall", rank, ranks, before.pss, after_all.pss);
    free(req);
    MPI_Finalize();
    return 0;
}
