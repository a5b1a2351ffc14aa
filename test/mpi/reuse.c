/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Thousands of communicators created, used and freed while their messages are still on the way, so
 * that context ids are used again while old messages with the same id are under way: each rank goes
 * on as soon as it may, and completes its requests in random order much later. Groups differ from
 * rank to rank, so the ranks' free ids differ, too; new messages arrive where the communicator does
 * not exist yet.
 *
 * args: [communicators] [size of every seventh message]
 */
/* TEST: np=1,2,3,4 args="3000 30000" timeout=120 */
/* TEST: np=2,4 args="1000 300000" env="OMPI_MCA_pml_tm_shm_single_copy=none" timeout=120 */
/* TEST: np=4 args="1000 30000" env="OMPI_MCA_pml_tm_shm_ring_size=4096" timeout=120 */
#include "tm_complete.h"

enum { DEPTH = 40, MESSAGES = 3, NREQ = 2 * MESSAGES };

/* What is under way on one communicator, which may be freed by now. */
typedef struct slot {
    bool is_busy;
    int number, src, rank;
    unsigned char *out[MESSAGES], *in[MESSAGES];
    size_t size[MESSAGES];
    MPI_Request req[NREQ];
} slot_t;

static slot_t slots[DEPTH];
static size_t large;

static size_t size_of(int number, int i)
{
    uint64_t r = tm_mix((uint64_t) number * MESSAGES + (uint64_t) i);

    return 0 == r % 7 ? large : r % 200;
}

/* Complete it in one of several ways. */
static void finish(slot_t *s)
{
    MPI_Status st[NREQ];

    if (!s->is_busy) {
        return;
    }
    tm_complete(0 == s->number % 2 ? TM_WAITALL : TM_WAIT, NREQ, s->req, st, false);
    for (int i = 0; i < MESSAGES; i++) {
        tm_expect_status(&st[i], s->src, i, s->size[i]);
        tm_expect_data(s->in[i], s->size[i], tm_key(s->src, s->rank, i, s->number),
                       "message of a freed communicator");
        tm_free(s->in[i]);
        tm_free(s->out[i]);
    }
    s->is_busy = false;
}

/* Start messages round the ring of comm, receive by patterns, and free it at once. */
static void start(slot_t *s, int number, MPI_Comm comm)
{
    int size, dst;

    TM_MPI(MPI_Comm_rank(comm, &s->rank));
    TM_MPI(MPI_Comm_size(comm, &size));
    dst = (s->rank + 1) % size;
    s->src = (s->rank + size - 1) % size;
    s->number = number;
    s->is_busy = true;
    for (int step = 0; step < 2; step++) {
        for (int i = 0; i < MESSAGES; i++) {
            size_t n = s->size[i] = size_of(number, i);

            if (step == number % 2) {
                s->in[i] = tm_alloc(n);
                TM_MPI(MPI_Irecv(s->in[i], tm_int(n), MPI_BYTE,
                                 0 == number % 3 ? MPI_ANY_SOURCE : s->src,
                                 0 == number % 5 ? MPI_ANY_TAG : i, comm, &s->req[i]));
            } else {
                s->out[i] = tm_alloc_data(n, tm_key(s->rank, dst, i, number));
                TM_MPI((0 == number % 4 ? MPI_Issend : MPI_Isend)(
                    s->out[i], tm_int(n), MPI_BYTE, dst, i, comm, &s->req[MESSAGES + i]));
            }
        }
    }
    TM_MPI(MPI_Comm_free(&comm));
}

/* MPI_COMM_NULL on ranks that are not in it. The choice is the same on all ranks. */
static MPI_Comm create(int number)
{
    MPI_Comm comm = MPI_COMM_NULL;
    MPI_Group world, some;
    MPI_Request req;
    int first, ranks[2], me;

    switch (tm_mix((uint64_t) number) % 5) {
    case 0:
        TM_MPI(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
        break;
    case 1:
        TM_MPI(MPI_Comm_split(MPI_COMM_WORLD,
                              0 == (tm_rank + number) % 3 ? MPI_UNDEFINED : number % 2, -tm_rank,
                              &comm));
        break;
    case 2:
        TM_MPI(MPI_Comm_idup(MPI_COMM_WORLD, &comm, &req));
        TM_MPI(MPI_Wait(&req, MPI_STATUS_IGNORE));
        break;
    case 3:
        TM_MPI(MPI_Comm_dup(MPI_COMM_SELF, &comm));
        break;
    default:
        first = number % tm_size;
        ranks[0] = first;
        ranks[1] = (first + 1) % tm_size;
        TM_MPI(MPI_Comm_group(MPI_COMM_WORLD, &world));
        TM_MPI(MPI_Group_incl(world, tm_size > 1 ? 2 : 1, ranks, &some));
        TM_MPI(MPI_Group_rank(some, &me));
        if (MPI_UNDEFINED != me) {
            TM_MPI(MPI_Comm_create_group(MPI_COMM_WORLD, some, number % 1000, &comm));
        }
        TM_MPI(MPI_Group_free(&some));
        TM_MPI(MPI_Group_free(&world));
        break;
    }
    return comm;
}

int main(int argc, char **argv)
{
    tm_rng_t rng;
    int count;

    tm_init(&argc, &argv, "reuse");
    count = (int) tm_arg(argc, argv, 1, 3000);
    large = (size_t) tm_arg(argc, argv, 2, 30000);
    rng = tm_rng(7, (uint64_t) tm_rank);
    for (int number = 0; number < count; number++) {
        MPI_Comm comm = create(number);

        if (MPI_COMM_NULL != comm) {
            slot_t *s = &slots[tm_below(&rng, DEPTH)];

            finish(s);
            start(s, number, comm);
        }
        if (0 == tm_below(&rng, 100)) {
            usleep((useconds_t) tm_below(&rng, 3000));
        }
    }
    for (int i = 0; i < DEPTH; i++) {
        finish(&slots[i]);
    }
    return tm_finish();
}
