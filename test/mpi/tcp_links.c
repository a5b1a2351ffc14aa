/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Long messages by TCP between two ranks that have several links: tcp_links BYTES goes on until so
 * many bytes of each rank have left by others than the first, or these turned out to be slow; 0:
 * none must.  tcp_links BYTES lost: until rank 0 has lost a link.  After the first round rank 0
 * makes the file "begun".  A helper of hosts/links.
 */
#include "tm_counter.h"

enum { LONG = 3 << 20, ROUNDS = 100000, SOME = 20 };

/* Both send at once; a short message follows the long one, which it must not overtake. */
static void exchange(unsigned char *out, unsigned char *in, int round)
{
    const size_t len = LONG - (size_t) round % 1000;
    int last = -1, peer = 1 - tm_rank;
    MPI_Request requests[4];

    tm_fill(out, len, tm_key(tm_rank, peer, 1, round));
    MPI_Irecv(in, LONG, MPI_BYTE, peer, 1, MPI_COMM_WORLD, &requests[0]);
    MPI_Irecv(&last, 1, MPI_INT, peer, 1, MPI_COMM_WORLD, &requests[1]);
    MPI_Isend(out, (int) len, MPI_BYTE, peer, 1, MPI_COMM_WORLD, &requests[2]);
    MPI_Isend(&round, 1, MPI_INT, peer, 1, MPI_COMM_WORLD, &requests[3]);
    MPI_Waitall(4, requests, MPI_STATUSES_IGNORE);
    TM_CHECK(tm_expect_data(in, len, tm_key(peer, tm_rank, 1, round), "long message") &&
                 round == last,
             "round %d: the short message says %d", round, last);
}

int main(int argc, char **argv)
{
    unsigned char *out = tm_calloc(1, LONG), *in = tm_calloc(1, LONG);
    unsigned long long wanted, bytes = 0;
    bool is_to_lose;
    tm_counter_t striped, made, failed, lost, slow;
    int round;

    tm_init(&argc, &argv, "tcp_links");
    striped = tm_counter_open("pml_tm_tcp_striped_bytes");
    made = tm_counter_open("pml_tm_tcp_links_made");
    failed = tm_counter_open("pml_tm_tcp_links_failed");
    lost = tm_counter_open("pml_tm_tcp_links_lost");
    slow = tm_counter_open("pml_tm_tcp_links_slow");
    wanted = strtoull(argv[1], NULL, 10);
    is_to_lose = argc > 2;
    bool is_on = true;
    for (round = 0; round < ROUNDS && is_on; round++) {
        exchange(out, in, round);
        if (0 == tm_rank && 0 == round) {
            TM_CHECK(0 == system("touch begun"), "a file cannot be made");
        }
        bytes = tm_counter_read(&striped);
        is_on = 0 == wanted  ? round + 1 < SOME
                : is_to_lose ? 0 == tm_counter_read(&lost) && 0 == tm_rank
                             : bytes < wanted && 0 == tm_counter_read(&slow);
        TM_MPI(MPI_Allreduce(MPI_IN_PLACE, &is_on, 1, MPI_C_BOOL, MPI_LOR, MPI_COMM_WORLD));
    }
    TM_CHECK(0 == wanted ? 0 == bytes : bytes >= wanted || 0 < tm_counter_read(&slow),
             "%llu bytes by other links", bytes);
    printf("rank %d: %d rounds, %llu bytes by other links, links made %llu, not made %llu\n",
           tm_rank, round, bytes, tm_counter_read(&made), tm_counter_read(&failed));
    TM_CHECK(is_to_lose || 0 == tm_counter_read(&lost), "a link was lost");
    free(out);
    free(in);
    return tm_finish();
}
