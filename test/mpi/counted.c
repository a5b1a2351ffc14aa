/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What messages count. Rank 0 sends COUNT messages of a length to rank 1, in a way, and then one of
 * its counters has grown by so much: how many are announced, since they are longer than the eager
 * limit; streamed, until the receiver tries to read (shm_ways.h); sent from memory by TCP, in few
 * fragments. Only pml tm, or btl fabric, has these counters.
 *
 * args: WAY COUNTER, then LENGTH LEAST MOST once or more
 *
 *   turns   MPI_Send, each when the one before was received; the receives are posted before
 *   window  MPI_Isend, all at once; the same
 *   one     MPI_Isend and MPI_Wait each; all lengths twice: the first time connections may be made
 */
/* TEST: np=2 args="one rndv_sent 16384 0 0 16385 7 7" env="OMPI_MCA_pml_tm_providers=shm OMPI_MCA_pml_tm_stream_limit=0" */
/* TEST: np=2 args="one rndv_sent 60000 0 0 60001 7 7" env="OMPI_MCA_pml_tm_providers=shm OMPI_MCA_pml_tm_eager_limit=60000" quick=yes */
/* TEST: np=2 args="one rndv_sent 4194304 0 0 4194305 7 7" env="OMPI_MCA_pml_tm_providers=shm OMPI_MCA_pml_tm_eager_limit=100000000 OMPI_MCA_pml_tm_stream_limit=0" */
/* TEST: np=2 args="one rndv_sent 1000 0 0 1001 7 7" env="OMPI_MCA_pml_tm_providers=shm OMPI_MCA_pml_tm_eager_limit=1000" */
/* TEST: np=2 args="one rndv_sent 122880 0 0 122881 0 7" env="OMPI_MCA_pml_tm_providers=tcp OMPI_MCA_pml_tm_eager_limit=122880" */
/* TEST: np=2 args="one rndv_sent 8192 0 0 8193 7 7" env="OMPI_MCA_pml_tm_providers=ofi OMPI_MCA_pml_tm_ofi_provider=net,tcp OMPI_MCA_mtl=^ofi" needs=libfabric-1.15 timeout=60 */
/* TEST: np=2 args="one rndv_sent 65536 0 0 65537 7 7" env="OMPI_MCA_pml_tm_providers=ofi OMPI_MCA_pml_tm_ofi_provider=net,tcp OMPI_MCA_mtl=^ofi OMPI_MCA_pml_tm_eager_limit=65536" needs=libfabric-1.15 timeout=60 */
/* TEST: np=2 device=tmdev args="one rndv_sent 8192 0 0 8193 7 7" env="OMPI_MCA_pml_tm_providers=^shm,tcp OMPI_MCA_mtl=^ofi" timeout=60 */
/* TEST: np=2 device=tmdev args="one rndv_sent 100000 0 0 100001 7 7" env="OMPI_MCA_pml_tm_providers=^shm,tcp OMPI_MCA_mtl=^ofi OMPI_MCA_pml_tm_eager_limit=100000" timeout=60 */
/* TEST: np=2 args="turns streamed 16384 7 7" env="OMPI_MCA_pml_tm_providers=shm OMPI_MCA_pml_tm_stream_limit=65536 OMPI_MCA_pml_tm_shm_cooperative=always" quick=yes */
/* TEST: np=2 args="turns streamed 16384 7 7" env="OMPI_MCA_pml_tm_providers=shm OMPI_MCA_pml_tm_stream_limit=65536 OMPI_MCA_pml_tm_eager_limit=16384" */
/* TEST: np=2 args="turns streamed 16384 5 5" env="OMPI_MCA_pml_tm_providers=shm OMPI_MCA_pml_tm_stream_limit=65536" */
/* TEST: np=2 args="window streamed 16384 0 0" env="OMPI_MCA_pml_tm_providers=shm OMPI_MCA_pml_tm_stream_limit=65536" */
/* TEST: np=2 args="turns streamed 16384 0 0" env="OMPI_MCA_pml_tm_providers=shm OMPI_MCA_pml_tm_stream_limit=8192" */
/* TEST: np=2 args="one tcp_sends_from_memory 4194304 7 14" env="OMPI_MCA_pml_tm_providers=tcp" quick=yes */
/* TEST: np=2 args="one tcp_sends_from_memory 4194304 7 7" pml=ob1 env="OMPI_MCA_btl=fabric,self OMPI_MCA_pml_tm_providers=tcp" */
#include "tm_counter.h"

enum { COUNT = 7, TAG = 1, TAG_RECEIVED };

typedef enum { TURNS, WINDOW, ONE } way_t;

static void send_all(way_t way, char *buf, size_t len)
{
    MPI_Request req[COUNT];

    for (int i = 0; i < COUNT; i++) {
        tm_fill(buf + (size_t) i * len, len, tm_key(0, 1, TAG, i));
    }
    TM_MPI(MPI_Barrier(MPI_COMM_WORLD));
    for (int i = 0; i < COUNT; i++) {
        char *at = buf + (size_t) i * len;

        if (TURNS == way) {
            TM_MPI(MPI_Send(at, tm_int(len), MPI_BYTE, 1, TAG, MPI_COMM_WORLD));
            TM_MPI(MPI_Recv(NULL, 0, MPI_BYTE, 1, TAG_RECEIVED, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        } else {
            TM_MPI(MPI_Isend(at, tm_int(len), MPI_BYTE, 1, TAG, MPI_COMM_WORLD, &req[i]));
        }
        if (ONE == way) {
            TM_MPI(MPI_Wait(&req[i], MPI_STATUS_IGNORE));
        }
    }
    if (WINDOW == way) {
        TM_MPI(MPI_Waitall(COUNT, req, MPI_STATUSES_IGNORE));
    }
}

static void receive_all(way_t way, char *buf, size_t len)
{
    MPI_Request req[COUNT];

    for (int step = 0; step < 2; step++) {
        for (int i = 0; i < COUNT && step == (ONE == way); i++) {
            TM_MPI(MPI_Irecv(buf + (size_t) i * len, tm_int(len), MPI_BYTE, 0, TAG, MPI_COMM_WORLD,
                             &req[i]));
        }
        if (0 == step) {
            TM_MPI(MPI_Barrier(MPI_COMM_WORLD));
        }
    }
    for (int i = 0; i < COUNT && TURNS == way; i++) {
        TM_MPI(MPI_Wait(&req[i], MPI_STATUS_IGNORE));
        TM_MPI(MPI_Send(NULL, 0, MPI_BYTE, 0, TAG_RECEIVED, MPI_COMM_WORLD));
    }
    TM_MPI(MPI_Waitall(COUNT, req, MPI_STATUSES_IGNORE));
    for (int i = 0; i < COUNT; i++) {
        tm_expect_data(buf + (size_t) i * len, len, tm_key(0, 1, TAG, i), "a counted message");
    }
}

int main(int argc, char **argv)
{
    char name[64], *buf;
    tm_counter_t counter;
    way_t way;

    tm_init(&argc, &argv, "counted");
    way = 0 == strcmp(argv[1], "turns") ? TURNS : 0 == strcmp(argv[1], "window") ? WINDOW : ONE;
    snprintf(name, sizeof(name), "pml_tm_%s", argv[2]);
    if (!tm_counter_find(name, MPI_T_PVAR_CLASS_COUNTER, &counter)) {
        return tm_skip("only pml tm and btl fabric have this counter");
    }
    for (int pass = 0; pass <= (ONE == way); pass++) {
        for (int i = 3; i + 2 < argc; i += 3) {
            const size_t len = (size_t) tm_arg(argc, argv, i, 0);
            const long before = (long) tm_counter_read(&counter);
            long grown;

            buf = tm_calloc(COUNT, len);
            (0 == tm_rank ? send_all : receive_all)(way, buf, len);
            grown = (long) tm_counter_read(&counter) - before;
            TM_CHECK(0 != tm_rank || (grown >= tm_arg(argc, argv, i + 1, 0) &&
                                      grown <= tm_arg(argc, argv, i + 2, 0)),
                     "%d messages of %zu bytes: %s has grown by %ld, not %s to %s", COUNT, len,
                     name, grown, argv[i + 1], argv[i + 2]);
            free(buf);
        }
    }
    tm_counter_close(&counter);
    return tm_finish();
}
