/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Helper of verbs_events.sh and verbs_devices.sh: traffic of many sizes between all ranks, checked,
 * for so many seconds, and some rounds at least.
 *
 * args: seconds
 */
#include "tm_test.h"

enum { MAX = 200000, ROUNDS = 16 /* each size twice */ };

static const size_t sizes[] = {0, 8, 200, 5000, 8192, 16384, 60000, MAX};

/* One message from each rank to each other. */
static void exchange(int round, unsigned char **out, unsigned char **in)
{
    size_t n = sizes[(size_t) round % (sizeof(sizes) / sizeof(sizes[0]))];
    MPI_Request *req = tm_calloc((size_t) (2 * tm_size), sizeof(*req));

    for (int peer = 0; peer < tm_size; peer++) {
        TM_MPI(MPI_Irecv(in[peer], tm_int(n), MPI_BYTE, peer, round % 1000, MPI_COMM_WORLD,
                         &req[2 * peer]));
        tm_fill(out[peer], n, tm_key(tm_rank, peer, 0, round));
        TM_MPI(MPI_Isend(out[peer], tm_int(n), MPI_BYTE, peer, round % 1000, MPI_COMM_WORLD,
                         &req[2 * peer + 1]));
    }
    TM_MPI(MPI_Waitall(2 * tm_size, req, MPI_STATUSES_IGNORE));
    for (int peer = 0; peer < tm_size; peer++) {
        tm_expect_data(in[peer], n, tm_key(peer, tm_rank, 0, round), "message");
    }
    free(req);
}

int main(int argc, char **argv)
{
    unsigned char **out, **in;
    double end;
    int rounds = 0, is_over = 0;

    tm_init(&argc, &argv, "verbs_events");
    out = tm_calloc((size_t) tm_size, sizeof(*out));
    in = tm_calloc((size_t) tm_size, sizeof(*in));
    for (int i = 0; i < tm_size; i++) {
        out[i] = tm_calloc(MAX, 1);
        in[i] = tm_calloc(MAX, 1);
    }
    end = tm_now() + (double) tm_arg(argc, argv, 1, 1);
    while (!is_over) {
        exchange(rounds++, out, in);
        is_over = tm_now() > end && rounds > ROUNDS;
        TM_MPI(MPI_Bcast(&is_over, 1, MPI_INT, 0, MPI_COMM_WORLD));
    }
    for (int i = 0; i < tm_size; i++) {
        free(out[i]);
        free(in[i]);
    }
    free(out);
    free(in);
    return tm_finish();
}
