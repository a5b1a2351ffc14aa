/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Long messages between two processes that have several ports of RDMA devices each, in both
 * directions: they come by all ports.  With the argument "fails" a port is to fail then, which
 * a script (mpi/move, vm/rails) sees to when this program says so: what comes is right, before and
 * after.
 */
/* TEST: np=2 device=tmdev env="OMPI_MCA_pml_tm_providers=^shm,tcp OMPI_MCA_mtl=^ofi TMDEV_DEVICES=3 OMPI_MCA_pml_tm_verbs_tm=none" timeout=120 */
/* TEST: np=2 device=tmdev env="OMPI_MCA_pml_tm_providers=^shm,tcp OMPI_MCA_mtl=^ofi TMDEV_DEVICES=4 TMDEV_LINK=eth TMDEV_SPEED=200,100,200 OMPI_MCA_pml_tm_verbs_tm=none" timeout=120 */
#include <string.h>

#include "tm_counter.h"

enum { MIN = 1 << 20, MAX = 4 << 20, MORE = 20, LIMIT = 20000 };

static unsigned char *out, *in;
static int round_num;

/* A message each way. */
static void exchange(tm_rng_t *rng)
{
    int peer = 1 - tm_rank, len = MIN + (int) tm_below(rng, MAX - MIN + 1);
    MPI_Status status;

    tm_fill(out, (size_t) len, tm_key(tm_rank, peer, 0, round_num));
    TM_MPI(MPI_Sendrecv(out, len, MPI_BYTE, peer, 0, in, len, MPI_BYTE, peer, 0, MPI_COMM_WORLD,
                        &status));
    tm_expect_data(in, (size_t) len, tm_key(peer, tm_rank, 0, round_num), "message");
    round_num++;
}

/* Of all ranks. */
static unsigned long long most(const tm_counter_t *counter, MPI_Op op)
{
    unsigned long long value = tm_counter_read(counter), result = 0;

    TM_MPI(MPI_Allreduce(&value, &result, 1, MPI_UNSIGNED_LONG_LONG, op, MPI_COMM_WORLD));
    return result;
}

int main(int argc, char **argv)
{
    tm_counter_t bytes, failed;
    tm_rng_t rng = tm_rng(7, 7);
    unsigned long long before;

    tm_init(&argc, &argv, "rails");
    if (!tm_is_pml_tm()) {
        return tm_skip("the counters are pml tm's");
    }
    bytes = tm_counter_open("pml_tm_verbs_rail_bytes");
    failed = tm_counter_open("pml_tm_verbs_rail_failed");
    out = tm_alloc(MAX);
    in = tm_alloc(MAX);
    while (0 == most(&bytes, MPI_MIN) && round_num < LIMIT) {
        exchange(&rng);
    }
    TM_CHECK(round_num < LIMIT, "none of %d messages came by several ports", round_num);
    if (0 == tm_rank) {
        printf("rails: long messages come by several ports\n");
        fflush(stdout);
    }
    while (argc > 1 && 0 == strcmp("fails", argv[1]) && 0 == most(&failed, MPI_MAX)) {
        exchange(&rng);
    }
    before = tm_counter_read(&bytes);
    for (int i = 0; i < MORE; i++) {
        exchange(&rng);
    }
    TM_CHECK(argc > 1 || before < tm_counter_read(&bytes), "no more by several ports");
    tm_free(out);
    tm_free(in);
    tm_counter_close(&failed);
    tm_counter_close(&bytes);
    return tm_finish();
}
