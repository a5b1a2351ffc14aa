/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Helper of mpi/ofi_asleep and hosts/ofi: rank 1 makes no MPI call for a while.  On another host,
 * where its libfabric has not taken the connection, rank 0 gives up the way by which its messages
 * were to go, and takes another one.  The first of them is long, and its data contiguous or not.
 *
 * args: seconds, and how often the peer is to move
 */
#include <unistd.h>

#include "tm_counter.h"

enum { TAG = 3, BLOCKS = 2000, BLOCK = 100 };

static char from[BLOCKS * BLOCK], to[2 * BLOCKS * BLOCK];

static void receive(int source, bool is_in_blocks)
{
    MPI_Datatype blocks = tm_vector(BLOCKS, BLOCK, is_in_blocks ? 2 * BLOCK : BLOCK, MPI_BYTE);

    TM_MPI(MPI_Recv(to, 1, blocks, source, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    TM_MPI(MPI_Type_free(&blocks));
    for (int i = 0; i < BLOCKS; i++) {
        tm_expect_fill(to + (size_t) i * BLOCK * (is_in_blocks ? 2 : 1), BLOCK, 7, "data");
    }
}

int main(int argc, char **argv)
{
    tm_counter_t moved;
    MPI_Request req;
    int peer;

    tm_init(&argc, &argv, "asleep");
    peer = 1 - tm_rank;
    moved = tm_counter_open("pml_tm_peers_moved");
    memset(from, 7, sizeof(from));
    if (1 == tm_rank && argc > 1) {
        sleep((unsigned) atoi(argv[1]));
    }
    for (int i = 0; i < 2; i++) {
        TM_MPI(MPI_Isend(from, sizeof(from), MPI_BYTE, peer, TAG, MPI_COMM_WORLD, &req));
        receive(peer, i == tm_rank);
        TM_MPI(MPI_Wait(&req, MPI_STATUS_IGNORE));
    }
    TM_CHECK(argc > 2 && (unsigned long long) atoi(argv[2]) == tm_counter_read(&moved),
             "moved %llu times", tm_counter_read(&moved));
    tm_counter_close(&moved);
    return tm_finish();
}
