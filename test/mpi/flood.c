/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A flood of unexpected messages: every other rank sends tens of thousands to rank 0 (alone: to
 * itself), which then receives them in reverse, in random order, and in order by wildcard. How much
 * memory they took is printed.
 *
 * args: [messages in all] [largest size of most] [one in so many is of 100 kB]
 */
/* TEST: np=1,2,4 args="40000 200 500" timeout=90 */
/* TEST: np=8 args="30000 200 500" timeout=90 */
/* TEST: np=2,4 args="10000 8000 100" timeout=90 */
/* TEST: np=2 args="20000 200 500" env="OMPI_MCA_pml_tm_shm_ring_size=16384" timeout=90 */
/* TEST: np=1,2,4 args="30000 16 100000" env="OMPI_MCA_pml_tm_unexpected_max=65536" timeout=90 */
#include "tm_test.h"

enum { TAG_LAST = 32000, LARGE = 100000, NTAGS = 30000 };

static MPI_Comm comm, ctl;
static int per_sender, every;
static size_t max_size;

static size_t size_of(int sender, int i)
{
    tm_rng_t rng = tm_rng((uint64_t) sender, (uint64_t) i);

    return i % every == every - 1 ? LARGE : tm_below(&rng, max_size + 1);
}

typedef struct flood {
    MPI_Request *req;
    unsigned char **buf;
} flood_t;

static flood_t start_flood(int round)
{
    flood_t f = {tm_calloc((size_t) per_sender, sizeof(MPI_Request)),
                 tm_calloc((size_t) per_sender, sizeof(unsigned char *))};

    for (int i = 0; i < per_sender; i++) {
        size_t n = size_of(tm_rank, i);

        f.buf[i] = tm_alloc_data(n, tm_key(tm_rank, 0, i, round));
        TM_MPI(MPI_Isend(f.buf[i], (int) n, MPI_BYTE, 0, i % NTAGS, comm, &f.req[i]));
    }
    return f;
}

static void finish_flood(flood_t *f)
{
    TM_MPI(MPI_Waitall(per_sender, f->req, MPI_STATUSES_IGNORE));
    tm_free_all(f->buf, per_sender);
    free(f->req);
    free(f->buf);
}

static void take(int from, int tag, int sender, int i, int round, unsigned char *buf)
{
    size_t n = size_of(sender, i);
    MPI_Status st;

    tm_status_reset(&st);
    TM_MPI(MPI_Recv(buf, LARGE, MPI_BYTE, from, tag, comm, &st));
    tm_expect_message(&st, buf, sender, i % NTAGS, n, tm_key(sender, 0, i, round),
                      "flooded message");
}

/* Receive what senders first .. tm_size - 1 have sent, in the order of the round. */
static void drain(int round, int first)
{
    int senders = tm_size - first, total = senders * per_sender;
    unsigned char *buf = tm_alloc(LARGE);
    int *order = tm_calloc((size_t) total, sizeof(int)),
        *next = tm_calloc((size_t) tm_size, sizeof(int));
    tm_rng_t rng = tm_rng((uint64_t) round, 5);

    tm_shuffle(&rng, total, order);
    for (int i = 0; i < total && 1 != round; i++) {
        order[i] = 0 == round ? total - 1 - i : i;
    }
    for (int k = 0; k < total; k++) {
        int sender = first + order[k] / per_sender, i = order[k] % per_sender;

        if (2 == round) {
            MPI_Status st;

            TM_MPI(MPI_Probe(MPI_ANY_SOURCE, MPI_ANY_TAG, comm, &st));
            sender = st.MPI_SOURCE;
            i = next[sender]++;
            /* A second MPI_ANY_SOURCE might give another sender's (as it does with ob1). */
            take(sender, 0 == k % 2 ? MPI_ANY_TAG : i % NTAGS, sender, i, round, buf);
        } else {
            /* Tags repeat when there are many messages: then those before must be taken first. */
            i = per_sender <= NTAGS ? i : (next[sender]++);
            take(0 == k % 2 || senders > 1 ? sender : MPI_ANY_SOURCE, i % NTAGS, sender, i, round,
                 buf);
        }
    }
    tm_free(buf);
    free(order);
    free(next);
}

int main(int argc, char **argv)
{
    int first;

    tm_init(&argc, &argv, "flood");
    first = tm_size > 1;
    per_sender = (int) tm_arg(argc, argv, 1, 40000) / (tm_size - first);
    max_size = (size_t) tm_arg(argc, argv, 2, 200);
    every = (int) tm_arg(argc, argv, 3, 500);
    TM_MPI(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
    TM_MPI(MPI_Comm_dup(MPI_COMM_WORLD, &ctl));
    for (int round = 0; round < 3; round++) {
        long before = tm_resident_kib();
        flood_t f;

        if (tm_rank >= first) {
            f = start_flood(round);
            TM_MPI(MPI_Send(NULL, 0, MPI_BYTE, 0, TAG_LAST, ctl));
        }
        if (0 == tm_rank) {
            for (int i = first; i < tm_size; i++) {
                TM_MPI(MPI_Recv(NULL, 0, MPI_BYTE, i, TAG_LAST, ctl, MPI_STATUS_IGNORE));
            }
            printf("flood: %d unexpected messages: %ld KiB before, %ld KiB after\n",
                   per_sender * (tm_size - first), before, tm_resident_kib());
            drain(round, first);
        }
        if (tm_rank >= first) {
            finish_flood(&f);
        }
        TM_MPI(MPI_Barrier(ctl));
    }
    TM_MPI(MPI_Comm_free(&comm));
    TM_MPI(MPI_Comm_free(&ctl));
    return tm_finish();
}
