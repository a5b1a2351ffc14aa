/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Messages on a new communicator that reach a rank which has not finished creating it. One rank at
 * a time is slow: a timer signal stops it at random places while it creates the communicator, or it
 * has begun a non-blocking creation and does not look at it. The others send as soon as they can.
 * Open MPI synchronizes the ranks after each has announced the communicator to its PML, so that
 * alone makes few messages early, if any.  In every ninth round the slow rank announces it late, on
 * purpose, and counts what came early.
 *
 * args: [rounds]
 */
/* TEST: np=2,4 args="60" timeout=90 */
/* TEST: np=8 args="16" timeout=90 */
#include "tm_counter.h"
#include "tm_slow.h"

enum { PER_PEER = 6 };

static const size_t lengths[PER_PEER] = {0, 16, 300, 6000, 40, 120000};

static tm_counter_t early;
static bool is_counted;

/* Messages that came before their communicator; -1: the PML does not count them. */
static long long early_count(void)
{
    return is_counted ? (long long) tm_counter_read(&early) : -1;
}

/*
 * ---- a PML that learns of a communicator late: the fifth function of Open MPI's table of the
 * PML's functions adds one
 */

typedef int (*add_comm_t)(MPI_Comm comm);

extern add_comm_t mca_pml[] __attribute__((weak));

enum { ADD_COMM = 4 };

static MPI_Comm held;

static int hold(MPI_Comm comm)
{
    held = comm;
    return 0;
}

static void create_told_late(MPI_Comm *comm)
{
    add_comm_t add_comm = mca_pml[ADD_COMM];
    const long long before = early_count();
    int flag;

    mca_pml[ADD_COMM] = hold;
    TM_MPI(MPI_Comm_dup(MPI_COMM_WORLD, comm));
    mca_pml[ADD_COMM] = add_comm;
    /* Until the others have sent: on a busy machine that may take a while. */
    for (int i = 0; i < 20 || (i < 20000 && before >= 0 && early_count() == before); i++) {
        TM_MPI(MPI_Iprobe(MPI_ANY_SOURCE, 99, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE));
        usleep(1000);
    }
    TM_CHECK(0 == add_comm(held), "the PML refused the communicator");
}

static void create(int kind, int late, MPI_Comm *comm)
{
    MPI_Request req;
    MPI_Group group;
    MPI_Comm half;

    switch (kind) {
    case 8:
        if (tm_rank == late && tm_is_pml_tm() && NULL != mca_pml) {
            create_told_late(comm);
            break;
        }
        TM_MPI(MPI_Comm_dup(MPI_COMM_WORLD, comm));
        break;
    case 0:
        TM_MPI(MPI_Comm_dup(MPI_COMM_WORLD, comm));
        break;
    case 1:
        TM_MPI(MPI_Comm_split(MPI_COMM_WORLD, 0, tm_size - tm_rank, comm));
        break;
    case 2:
        TM_MPI(MPI_Comm_group(MPI_COMM_WORLD, &group));
        TM_MPI(MPI_Comm_create_group(MPI_COMM_WORLD, group, 5, comm));
        TM_MPI(MPI_Group_free(&group));
        break;
    case 3: {
        MPI_Comm inter;
        int side = tm_rank >= (tm_size + 1) / 2;

        TM_MPI(MPI_Comm_split(MPI_COMM_WORLD, side, 0, &half));
        TM_MPI(MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, 0 == side ? (tm_size + 1) / 2 : 0, 6,
                                    &inter));
        TM_MPI(MPI_Intercomm_merge(inter, side, comm));
        TM_MPI(MPI_Comm_free(&inter));
        TM_MPI(MPI_Comm_free(&half));
        break;
    }
    default:
        TM_MPI(MPI_Comm_idup(MPI_COMM_WORLD, comm, &req));
        if (tm_rank == late) {
            int flag;

            /* Progress once or twice, so that the others can finish, then look away. */
            for (int i = 0; i < kind - 4; i++) {
                TM_MPI(MPI_Iprobe(0, 32000, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE));
                usleep(1000);
            }
        }
        TM_MPI(MPI_Wait(&req, MPI_STATUS_IGNORE));
        break;
    }
}

static void round_trip(int round, int late)
{
    unsigned char *out[PER_PEER];
    MPI_Request *req = tm_calloc((size_t) tm_size * PER_PEER, sizeof(*req));
    int rank, kind = round % 9;
    MPI_Comm comm;

    tm_slow(tm_rank == late && 8 != kind ? 700 + 100 * (round % 17) : 0);
    create(kind, late, &comm);
    MPI_Comm_rank(comm, &rank);
    for (int k = 0; k < PER_PEER; k++) {
        out[k] = tm_alloc_data(lengths[k], tm_key(rank, -1, k, round));
        for (int dst = 0; dst < tm_size; dst++) {
            TM_MPI(MPI_Isend(out[k], (int) lengths[k], MPI_BYTE, dst, k, comm,
                             &req[dst * PER_PEER + k]));
        }
    }
    tm_slow(0);
    for (int src = 0; src < tm_size; src++) {
        for (int k = 0; k < PER_PEER; k++) {
            unsigned char *in = tm_alloc(lengths[k]);
            MPI_Status st;

            tm_status_reset(&st);
            TM_MPI(MPI_Recv(in, (int) lengths[k], MPI_BYTE, src, 0 == round % 2 ? MPI_ANY_TAG : k,
                            comm, &st));
            tm_expect_message(&st, in, src, k, lengths[k], tm_key(src, -1, k, round),
                              "early message");
            tm_free(in);
        }
    }
    TM_MPI(MPI_Waitall(tm_size * PER_PEER, req, MPI_STATUSES_IGNORE));
    tm_free_all(out, PER_PEER);
    free(req);
    TM_MPI(MPI_Comm_free(&comm));
}

int main(int argc, char **argv)
{
    int rounds;

    tm_init(&argc, &argv, "early");
    rounds = (int) tm_arg(argc, argv, 1, 150);
    if (tm_size < 2) {
        return tm_skip("needs two ranks");
    }
    is_counted = tm_counter_find("pml_tm_early", MPI_T_PVAR_CLASS_COUNTER, &early);
    for (int i = 0; i < rounds; i++) {
        long long before = early_count();

        round_trip(i, i % tm_size);
        if (8 == i % 9 && tm_rank == i % tm_size && before >= 0) {
            TM_CHECK(early_count() > before, "round %d: no message came early", i);
        }
    }
    return tm_finish();
}
