/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Fault tolerance (ULFM): a rank dies in the middle of something; the others learn it from their
 * own calls, revoke the communicator, agree, shrink it, and go on.  Helper of ft.sh.
 *
 * args: what the last rank is doing to the others when it dies, or what they wait for:
 *   recv   they wait for a message of it            any    for a message of anybody
 *   probe  in a probe for one                       ssend they send it a short synchronous message,
 *                                                   unmatched
 *   rndv   they send it a long message, unmatched   fetch  they receive a long one from it
 *   matched, lost  for a message of anybody, and have matched one of the rank before, which then
 *                                                   sends it all, or dies, too
 *   coll   a barrier                                 revoke nobody dies; one rank revokes while the
 *                                                    others wait
 */
#include "tm_test.h"

#include <mpi-ext.h>
#include <signal.h>

enum { BIG = 1 << 22 };

static MPI_Comm comm;
static char *big;

static int last;

/* All meet all, so that a device that matches tags may have any receive on its list. */
static void meet(void)
{
    int *in = tm_calloc((size_t) tm_size, sizeof(int)),
        *out = tm_calloc((size_t) tm_size, sizeof(int));

    MPI_Alltoall(out, 1, MPI_INT, in, 1, MPI_INT, comm);
    free(in);
    free(out);
}

static void expect_failed(int rc, const char *what)
{
    int cls = tm_class(rc);

    TM_CHECK(MPIX_ERR_PROC_FAILED == cls || MPIX_ERR_REVOKED == cls ||
                 MPIX_ERR_PROC_FAILED_PENDING == cls,
             "%s: error class %d, expected that a process failed", what, cls);
}

static void die(void)
{
    usleep(200000);
    raise(SIGKILL);
}

static void fail_while_receiving(int src)
{
    int value = 0;

    if (tm_rank == last) {
        die();
    }
    expect_failed(MPI_Recv(&value, 1, MPI_INT, src, 1, comm, MPI_STATUS_IGNORE), "MPI_Recv");
}

static void fail_while_probing(void)
{
    if (tm_rank == last) {
        die();
    }
    expect_failed(MPI_Probe(last, 1, comm, MPI_STATUS_IGNORE), "MPI_Probe");
}

/* A send that is waited for: of a long message, or of a short one that must be matched. */
static void fail_while_sending(bool is_sync)
{
    MPI_Request request;

    if (tm_rank == last) {
        die();
    }
    int rc = is_sync ? MPI_Issend(big, 8, MPI_CHAR, last, 1, comm, &request)
                     : MPI_Isend(big, BIG, MPI_CHAR, last, 1, comm, &request);
    if (MPI_SUCCESS == rc) {
        rc = MPI_Wait(&request, MPI_STATUS_IGNORE);
    }
    expect_failed(rc, "MPI_Wait of a send");
}

/* The sender dies with its long message announced, perhaps while it is being fetched. */
static void fail_while_fetching(void)
{
    MPI_Request request;
    int rc = MPI_SUCCESS;

    if (tm_rank == last) {
        for (int to = 0; to < last; to++) {
            MPI_Isend(big, BIG, MPI_CHAR, to, 1, comm, &request);
        }
        raise(SIGKILL);
    }
    for (int i = 0; i < 2 && MPI_SUCCESS == rc; i++) {
        rc = MPI_Recv(big, BIG, MPI_CHAR, last, 1, comm, MPI_STATUS_IGNORE);
    }
    expect_failed(rc, "MPI_Recv of a long message");
}

/*
 * A receive from any source that has its message when another process fails: it gets all of it,
 * unless that sender fails, too.
 */
static void fail_while_matched(bool is_lost)
{
    const int sender = last - 1;
    MPI_Request *request = tm_calloc((size_t) sender, sizeof(*request));
    MPI_Status status;
    int rc;

    if (tm_rank == sender) {
        memset(big, 7, BIG);
        for (int to = 0; to < sender; to++) {
            MPI_Isend(big, BIG, MPI_CHAR, to, 1, comm, &request[to]);
        }
        sleep(2); /* without a call of MPI nothing more leaves */
        if (is_lost) {
            raise(SIGKILL);
        }
        TM_MPI(MPI_Waitall(sender, request, MPI_STATUSES_IGNORE));
        for (int to = 0; to < sender; to++) {
            (void) MPI_Send(big, 1, MPI_CHAR, to, 2, comm);
        }
    } else if (tm_rank == last) {
        sleep(1);
        raise(SIGKILL);
    } else {
        tm_status_reset(&status);
        rc = MPI_Recv(big, BIG, MPI_CHAR, MPI_ANY_SOURCE, 1, comm, &status);
        if (is_lost) {
            expect_failed(rc, "MPI_Recv of a message whose sender is lost");
        } else {
            TM_CHECK(MPI_SUCCESS == rc, "MPI_Recv of a matched message: error class %d",
                     tm_class(rc));
            tm_expect_single(&status, sender, 1, BIG);
            TM_CHECK(7 == big[0] && 7 == big[BIG - 1], "the message is not whole");
            /* nobody revokes the communicator before the sender is done; others may be faster */
            (void) MPI_Recv(big, 1, MPI_CHAR, sender, 2, comm, MPI_STATUS_IGNORE);
        }
    }
    free(request);
}

static void fail_in_collective(void)
{
    int rc = MPI_SUCCESS;

    if (tm_rank == last) {
        die();
    }
    for (int i = 0; i < 1000000 && MPI_SUCCESS == rc; i++) {
        rc = MPI_Barrier(comm);
    }
    expect_failed(rc, "MPI_Barrier");
}

static void revoke_others(void)
{
    int value;

    if (tm_rank == last) {
        usleep(200000);
        MPIX_Comm_revoke(comm);
        return;
    }
    expect_failed(MPI_Recv(&value, 1, MPI_INT, last, 1, comm, MPI_STATUS_IGNORE), "MPI_Recv");
}

/* What remains works. */
static void go_on(int expected_size)
{
    int size, sum = 0, one = 1, flag = 1, rank;
    MPI_Comm rest;

    MPIX_Comm_revoke(comm);
    TM_CHECK(MPI_SUCCESS == MPIX_Comm_shrink(comm, &rest), "MPIX_Comm_shrink");
    MPI_Comm_size(rest, &size);
    MPI_Comm_rank(rest, &rank);
    TM_CHECK(size == expected_size, "%d processes remain, expected %d", size, expected_size);
    TM_CHECK(MPI_SUCCESS == MPIX_Comm_agree(rest, &flag) && 1 == flag, "MPIX_Comm_agree: %d", flag);
    MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, rest);
    TM_CHECK(sum == size, "sum %d", sum);
    if (size > 1) {
        memset(big, rank, BIG);
        MPI_Sendrecv_replace(big, BIG, MPI_CHAR, (rank + 1) % size, 2, (rank + size - 1) % size, 2,
                             rest, MPI_STATUS_IGNORE);
        TM_CHECK(big[0] == (rank + size - 1) % size && big[BIG - 1] == big[0], "long message: %d",
                 big[0]);
    }
    MPI_Allreduce(&(int){tm_errors}, &sum, 1, MPI_INT, MPI_SUM, rest);
    if (0 == rank) {
        printf("ft: errors=%d\n", sum);
        fflush(stdout);
    }
    MPI_Comm_free(&rest);
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "recv";
    bool is_revoke = 0 == strcmp(what, "revoke"), is_lost = 0 == strcmp(what, "lost");

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &tm_rank);
    MPI_Comm_size(MPI_COMM_WORLD, &tm_size);
    tm_name = "ft";
    last = tm_size - 1;
    big = calloc(1, BIG);
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    meet();
    MPI_Barrier(comm);
    if (0 == strcmp(what, "recv")) {
        fail_while_receiving(last);
    } else if (0 == strcmp(what, "any")) {
        fail_while_receiving(MPI_ANY_SOURCE);
    } else if (0 == strcmp(what, "probe")) {
        fail_while_probing();
    } else if (0 == strcmp(what, "rndv") || 0 == strcmp(what, "ssend")) {
        fail_while_sending(0 == strcmp(what, "ssend"));
    } else if (0 == strcmp(what, "fetch")) {
        fail_while_fetching();
    } else if (0 == strcmp(what, "matched") || is_lost) {
        fail_while_matched(is_lost);
    } else if (0 == strcmp(what, "coll")) {
        fail_in_collective();
    } else {
        revoke_others();
    }
    go_on(is_revoke ? tm_size : is_lost ? tm_size - 2 : tm_size - 1);
    MPI_Comm_free(&comm);
    MPI_Finalize();
    return 0 == tm_errors ? 0 : 1;
}
