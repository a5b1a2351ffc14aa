/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The eager limit that the user sets holds over each provider: a message of LENGTH bytes goes with
 * its data; one byte more is announced, except over tcp, where it may go with its data, too.
 * This is for pml tm only.
 *
 * args: LENGTH [announced]
 */
/* TEST: np=2 args="16384 announced" env="OMPI_MCA_pml_tm_providers=shm OMPI_MCA_pml_tm_stream_limit=0" */
/* TEST: np=2 args="60000 announced" env="OMPI_MCA_pml_tm_providers=shm OMPI_MCA_pml_tm_eager_limit=60000" quick=yes */
/* TEST: np=2 args="4194304 announced" env="OMPI_MCA_pml_tm_providers=shm OMPI_MCA_pml_tm_eager_limit=100000000 OMPI_MCA_pml_tm_stream_limit=0" */
/* TEST: np=2 args="1000 announced" env="OMPI_MCA_pml_tm_providers=shm OMPI_MCA_pml_tm_eager_limit=1000" */
/* TEST: np=2 args="122880" env="OMPI_MCA_pml_tm_providers=tcp OMPI_MCA_pml_tm_eager_limit=122880" */
/* TEST: np=2 args="8192 announced" env="OMPI_MCA_pml_tm_providers=ofi OMPI_MCA_pml_tm_ofi_provider=net,tcp OMPI_MCA_mtl=^ofi" needs=libfabric-1.15 timeout=60 */
/* TEST: np=2 args="65536 announced" env="OMPI_MCA_pml_tm_providers=ofi OMPI_MCA_pml_tm_ofi_provider=net,tcp OMPI_MCA_mtl=^ofi OMPI_MCA_pml_tm_eager_limit=65536" needs=libfabric-1.15 timeout=60 */
/* TEST: np=2 device=tmdev args="8192 announced" env="OMPI_MCA_pml_tm_providers=^shm,tcp OMPI_MCA_mtl=^ofi" timeout=60 */
/* TEST: np=2 device=tmdev args="100000 announced" env="OMPI_MCA_pml_tm_providers=^shm,tcp OMPI_MCA_mtl=^ofi OMPI_MCA_pml_tm_eager_limit=100000" timeout=60 */
#include "tm_counter.h"

enum { ROUNDS = 4 };

/* How many of ROUNDS messages of this length rank 0 announces. */
static unsigned long long announced(int len)
{
    tm_counter_t counter = tm_counter_open("pml_tm_rndv_sent");
    char *buf = tm_calloc(1, (size_t) len);
    unsigned long long count;

    for (int round = 0; round < ROUNDS; round++) {
        MPI_Request req;
        const uint64_t key = tm_key(0, len, round, 0);
        if (0 == tm_rank) {
            tm_fill(buf, (size_t) len, key);
            TM_MPI(MPI_Isend(buf, len, MPI_BYTE, 1, 0, MPI_COMM_WORLD, &req));
            TM_MPI(MPI_Wait(&req, MPI_STATUS_IGNORE));
        } else if (1 == tm_rank) {
            TM_MPI(MPI_Recv(buf, len, MPI_BYTE, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
            tm_expect_data(buf, (size_t) len, key, "a message");
        }
    }
    count = tm_counter_read(&counter);
    tm_counter_close(&counter);
    free(buf);
    return count;
}

int main(int argc, char **argv)
{
    int len;

    tm_init(&argc, &argv, "eager_limit");
    if (!tm_is_pml_tm()) {
        return tm_skip("the counters are pml tm's");
    }
    len = atoi(argv[1]);
    for (int i = 0; i < 2; i++) { /* the first time connections may be made */
        unsigned long long below = announced(len), above = announced(len + 1);
        TM_CHECK(0 == below, "%llu of %d messages of %d bytes were announced", below, ROUNDS, len);
        TM_CHECK(0 != tm_rank || 2 == argc || ROUNDS == above,
                 "%llu of %d messages of %d bytes were announced", above, ROUNDS, len + 1);
    }
    return tm_finish();
}
