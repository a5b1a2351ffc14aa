/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * MPI_Cancel of receives that are posted, matched, completed, or being matched at that moment; of
 * persistent receives, with MPI_Request_free. A receive is either cancelled and its
 * message goes to the next one, or it is not and has it. (In a stream of messages: random.c.)
 *
 * args: [rounds of the races]
 */
/* TEST: np=1,2,4,8 args="200" timeout=60 quick=yes */
/* TEST: np=2 args="400" env="OMPI_MCA_pml_tm_shm_single_copy=none" timeout=60 */
/* TEST: np=2 args="400" env="OMPI_MCA_pml_tm_eager_limit=0" timeout=60 */
#include "tm_test.h"

static MPI_Comm comm, ctl;

/*
 * Many receives of all patterns, a random half of them cancelled; the others must match as if those
 * had never been.
 */
static void posted(int round, size_t n)
{
    enum { COUNT = 120 };
    tm_rng_t rng = tm_rng((uint64_t) round, (uint64_t) tm_rank);
    unsigned char *out[COUNT], *in[COUNT];
    MPI_Request sreq[COUNT], rreq[COUNT];
    int tag[COUNT], order[COUNT], kept = 0;
    bool is_cancelled[COUNT] = {false};
    MPI_Status st;

    for (int i = 0; i < COUNT; i++) {
        in[i] = tm_alloc(n);
        out[i] = tm_alloc(n);
        memset(in[i], 0xee, n);
        tag[i] = i; /* the i-th receive that is kept gets the i-th message: see below */
    }
    /* All kept receives are wild in the tag, those to be cancelled are anything. */
    for (int i = 0; i < COUNT; i++) {
        is_cancelled[i] = 0 == tm_below(&rng, 2);
        TM_MPI(MPI_Irecv(in[i], (int) n, MPI_BYTE, 0 == tm_below(&rng, 2) ? tm_src : MPI_ANY_SOURCE,
                         is_cancelled[i] && 0 == tm_below(&rng, 2) ? (int) tm_below(&rng, COUNT)
                                                                   : MPI_ANY_TAG,
                         comm, &rreq[i]));
    }
    tm_shuffle(&rng, COUNT, order);
    for (int k = 0; k < COUNT; k++) {
        int i = order[k];

        if (is_cancelled[i]) {
            TM_MPI(MPI_Cancel(&rreq[i]));
            TM_CHECK(tm_wait_cancelled(&rreq[i], &st),
                     "receive %d was not cancelled although no message can be there", i);
            tm_expect_fill(in[i], n, 0xee, "buffer of a cancelled receive");
        } else {
            kept++;
        }
    }
    TM_MPI(MPI_Barrier(ctl));
    int peer_kept = tm_exchange(kept, tm_src, tm_dst, 0, ctl);
    for (int i = 0; i < peer_kept; i++) {
        tm_fill(out[i], n, tm_key(tm_rank, tm_dst, tag[i], round));
        TM_MPI(MPI_Isend(out[i], (int) n, MPI_BYTE, tm_dst, tag[i], comm, &sreq[i]));
    }
    for (int i = 0, k = 0; i < COUNT; i++) {
        if (!is_cancelled[i]) {
            tm_wait_recv(&rreq[i], in[i], tm_src, k, n, tm_key(tm_src, tm_rank, k, round));
            k++;
        }
    }
    TM_MPI(MPI_Waitall(peer_kept, sreq, MPI_STATUSES_IGNORE));
    tm_free_all(in, COUNT);
    tm_free_all(out, COUNT);
    TM_MPI(MPI_Barrier(ctl));
}

/* The message is there: cancelling must do nothing. */
static void completed(size_t n)
{
    unsigned char *out = tm_alloc_data(n, tm_key(tm_rank, tm_dst, 1, 0)), *in = tm_alloc(n);
    MPI_Request sreq, rreq;
    MPI_Status st;
    int flag = 0;

    TM_MPI(MPI_Irecv(in, (int) n, MPI_BYTE, tm_src, 1, comm, &rreq));
    TM_MPI(MPI_Isend(out, (int) n, MPI_BYTE, tm_dst, 1, comm, &sreq));
    while (!flag) {
        TM_MPI(MPI_Request_get_status(rreq, &flag, &st));
    }
    TM_MPI(MPI_Cancel(&rreq));
    TM_CHECK(!tm_wait_cancelled(&rreq, &st), "a complete receive was cancelled");
    tm_expect_message(&st, in, tm_src, 1, n, tm_key(tm_src, tm_rank, 1, 0),
                      "receive cancelled after its completion");
    TM_MPI(MPI_Wait(&sreq, MPI_STATUS_IGNORE));
    tm_free(out);
    tm_free(in);
}

/* A probe has found the message, so the receive that follows gets it: cancelling does nothing. */
static void probed(int rounds, size_t n)
{
    unsigned char *out = tm_alloc(n), *in = tm_alloc(n);

    for (int i = 0; i < rounds; i++) {
        MPI_Request sreq, rreq;
        MPI_Status st;

        tm_fill(out, n, tm_key(tm_rank, tm_dst, 3, i));
        TM_MPI(MPI_Isend(out, (int) n, MPI_BYTE, tm_dst, 3, comm, &sreq));
        tm_iprobe(tm_src, 0 == i % 2 ? 3 : MPI_ANY_TAG, comm, &st);
        TM_MPI(MPI_Irecv(in, (int) n, MPI_BYTE, tm_src, 3, comm, &rreq));
        TM_MPI(MPI_Cancel(&rreq));
        if (TM_CHECK(!tm_wait_cancelled(&rreq, &st), "a receive was cancelled after a probe")) {
            tm_expect_message(&st, in, tm_src, 3, n, tm_key(tm_src, tm_rank, 3, i),
                              "probed message");
        } else {
            TM_MPI(MPI_Recv(in, (int) n, MPI_BYTE, tm_src, 3, comm, MPI_STATUS_IGNORE));
        }
        TM_MPI(MPI_Wait(&sreq, MPI_STATUS_IGNORE));
    }
    TM_MPI(MPI_Barrier(ctl));
    tm_free(out);
    tm_free(in);
}

/* The message arrives while the receive is being cancelled. */
static void race(int rounds, size_t n)
{
    unsigned char *out = tm_alloc(n), *in = tm_alloc(n);
    tm_rng_t rng = tm_rng(n, (uint64_t) tm_rank + 99);
    int won = 0;

    for (int i = 0; i < rounds; i++) {
        int from = 0 == i % 2 ? tm_src : MPI_ANY_SOURCE, tag = i % 4 < 2 ? 2 : MPI_ANY_TAG;
        MPI_Request sreq, rreq;
        MPI_Status st;

        tm_fill(out, n, tm_key(tm_rank, tm_dst, 2, i));
        memset(in, 0xee, n);
        TM_MPI(MPI_Irecv(in, (int) n, MPI_BYTE, from, tag, comm, &rreq));
        if (0 == i % 8) {
            TM_MPI(MPI_Barrier(ctl));
        }
        tm_spin_us((long) tm_below(&rng, 20));
        TM_MPI(MPI_Isend(out, (int) n, MPI_BYTE, tm_dst, 2, comm, &sreq));
        tm_spin_us((long) tm_below(&rng, 20));
        for (int k = (int) tm_below(&rng, 3); k > 0; k--) {
            int flag;

            TM_MPI(MPI_Iprobe(tm_src, 30, ctl, &flag, MPI_STATUS_IGNORE));
        }
        TM_MPI(MPI_Cancel(&rreq));
        if (tm_wait_cancelled(&rreq, &st)) {
            won++;
            tm_expect_fill(in, n, 0xee, "buffer of a cancelled receive");
            tm_status_reset(&st);
            TM_MPI(MPI_Recv(in, (int) n, MPI_BYTE, from, tag, comm, &st));
        }
        tm_expect_message(&st, in, tm_src, 2, n, tm_key(tm_src, tm_rank, 2, i),
                          "message that met a cancel");
        tm_expect_guard(in);
        TM_MPI(MPI_Wait(&sreq, MPI_STATUS_IGNORE));
        if (15 == i % 16) {
            TM_MPI(MPI_Barrier(ctl));
        }
    }
    TM_MPI(MPI_Barrier(ctl));
    if (NULL != getenv("TM_VERBOSE")) {
        printf("cancel: rank %d: %zu bytes: %d of %d cancelled\n", tm_rank, n, won, rounds);
    }
    tm_free(out);
    tm_free(in);
}

static void persistent(size_t n)
{
    unsigned char *out = tm_alloc(n), *in = tm_alloc(n);
    MPI_Request rreq, sreq;
    MPI_Status st;

    TM_MPI(MPI_Recv_init(in, (int) n, MPI_BYTE, MPI_ANY_SOURCE, 6, comm, &rreq));
    for (int i = 0; i < 20; i++) {
        memset(in, 0xee, n);
        TM_MPI(MPI_Start(&rreq));
        TM_MPI(MPI_Cancel(&rreq));
        TM_CHECK(tm_wait_cancelled(&rreq, &st), "a persistent receive was not cancelled");
        TM_CHECK(MPI_REQUEST_NULL != rreq, "a cancelled persistent request became null");
        TM_MPI(MPI_Barrier(ctl));
        TM_MPI(MPI_Start(&rreq));
        tm_fill(out, n, tm_key(tm_rank, tm_dst, 6, i));
        TM_MPI(MPI_Isend(out, (int) n, MPI_BYTE, tm_dst, 6, comm, &sreq));
        TM_CHECK(!tm_wait_cancelled(&rreq, &st), "a restarted receive is still cancelled");
        tm_expect_message(&st, in, tm_src, 6, n, tm_key(tm_src, tm_rank, 6, i),
                          "persistent receive after a cancelled one");
        TM_MPI(MPI_Wait(&sreq, MPI_STATUS_IGNORE));
        TM_MPI(MPI_Barrier(ctl));
    }
    TM_MPI(MPI_Request_free(&rreq));
    tm_free(out);
    tm_free(in);
}

/* MPI_Request_free in place of a wait; the message goes to the next receive. */
static void cancel_and_free(size_t n)
{
    unsigned char *out = tm_alloc(n), *in = tm_alloc(n), *dead = tm_alloc(n);
    MPI_Request rreq, sreq;

    memset(dead, 0xee, n);
    for (int i = 0; i < 50; i++) {
        TM_MPI(MPI_Irecv(dead, (int) n, MPI_BYTE, 0 == i % 2 ? tm_src : MPI_ANY_SOURCE, 7, comm,
                         &rreq));
        TM_MPI(MPI_Cancel(&rreq));
        TM_MPI(MPI_Request_free(&rreq));
    }
    TM_MPI(MPI_Barrier(ctl));
    tm_fill(out, n, tm_key(tm_rank, tm_dst, 7, 0));
    TM_MPI(MPI_Isend(out, (int) n, MPI_BYTE, tm_dst, 7, comm, &sreq));
    TM_MPI(MPI_Irecv(in, (int) n, MPI_BYTE, tm_src, 7, comm, &rreq));
    tm_wait_recv(&rreq, in, tm_src, 7, n, tm_key(tm_src, tm_rank, 7, 0));
    tm_expect_fill(dead, n, 0xee, "buffer of a cancelled and freed receive");
    TM_MPI(MPI_Wait(&sreq, MPI_STATUS_IGNORE));
    tm_free(out);
    tm_free(in);
    tm_free(dead);
    TM_MPI(MPI_Barrier(ctl));
}

int main(int argc, char **argv)
{
    int rounds;

    tm_init(&argc, &argv, "cancel");
    rounds = (int) tm_arg(argc, argv, 1, 200);
    TM_MPI(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
    TM_MPI(MPI_Comm_dup(MPI_COMM_WORLD, &ctl));
    for (int i = 0; i < 10; i++) {
        posted(i, 0 == i % 2 ? 20 : 20000);
    }
    for (size_t n = 1; n < 3000000; n *= 17) {
        completed(n);
        race(n < 100000 ? rounds : rounds / 10, n);
        probed(n < 100000 ? rounds : rounds / 10, n);
        persistent(n);
        cancel_and_free(n);
    }
    TM_MPI(MPI_Comm_free(&comm));
    TM_MPI(MPI_Comm_free(&ctl));
    return tm_finish();
}
