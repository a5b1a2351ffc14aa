/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The info keys mpi_assert_no_any_tag, mpi_assert_no_any_source, mpi_assert_exact_length and
 * mpi_assert_allow_overtaking (MPI 4.0, 7.4.4): alone and together, true and false, given at
 * creation and later, and taken back. A program that keeps its promise gets the same messages as
 * without; on another communicator wildcards go on working.
 */
/* TEST: np=1,2,3 timeout=60 quick=yes */
#include "tm_test.h"

enum { NO_ANY_TAG, NO_ANY_SOURCE, EXACT_LENGTH, ALLOW_OVERTAKING, NKEYS };

static const char *const keys[NKEYS] = {"mpi_assert_no_any_tag", "mpi_assert_no_any_source",
                                        "mpi_assert_exact_length", "mpi_assert_allow_overtaking"};

static MPI_Info make_info(int which, const char *value)
{
    MPI_Info info;

    TM_MPI(MPI_Info_create(&info));
    for (int k = 0; k < NKEYS; k++) {
        if (0 != (which & 1 << k)) {
            TM_MPI(MPI_Info_set(info, keys[k], value));
        }
    }
    return info;
}

/*
 * Messages of sizes of every protocol, received by what is not ruled out; the promise: bit k stands
 * for keys[k]. Where messages may overtake, each has a tag of its own, or what a receive gets would
 * not be certain.
 */
static void traffic(MPI_Comm comm, int promise, int seed)
{
    enum { COUNT = 60 };
    static const size_t sizes[] = {0, 8, 40, 100, 5000, 20000, 200000};
    const bool is_exact = 0 != (promise & 1 << EXACT_LENGTH),
               has_tags = 0 != (promise & (1 << ALLOW_OVERTAKING | 1 << NO_ANY_TAG)),
               has_sources = 0 != (promise & 1 << NO_ANY_SOURCE);
    unsigned char *out[COUNT], *in[COUNT];
    MPI_Request sreq[COUNT], rreq[COUNT];

    for (int step = 0; step < 2; step++) {
        for (int i = 0; i < COUNT; i++) {
            size_t n = sizes[(i + seed) % 7], room = is_exact ? n : n + (size_t) i;
            int tag = 0 != (promise & 1 << ALLOW_OVERTAKING) ? i : i % 3;

            if (step == (0 == seed % 2)) {
                out[i] = tm_alloc_data(n, tm_key(tm_rank, tm_dst, i, seed));
                TM_MPI(MPI_Isend(out[i], tm_int(n), MPI_BYTE, tm_dst, tag, comm, &sreq[i]));
            } else {
                in[i] = tm_alloc(room);
                TM_MPI(MPI_Irecv(in[i], tm_int(room), MPI_BYTE,
                                 has_sources || 0 != i % 2 ? tm_src : MPI_ANY_SOURCE, tag, comm,
                                 &rreq[i]));
            }
        }
    }
    for (int i = 0; i < COUNT; i++) {
        tm_wait_recv(&rreq[i], in[i], tm_src, 0 != (promise & 1 << ALLOW_OVERTAKING) ? i : i % 3,
                     sizes[(i + seed) % 7], tm_key(tm_src, tm_rank, i, seed));
        tm_free(in[i]);
    }
    TM_MPI(MPI_Waitall(COUNT, sreq, MPI_STATUSES_IGNORE));
    tm_free_all(out, COUNT);
    for (int i = 0; !has_tags && i < 10; i++) {
        int a = 100 * tm_rank + i, b = -1;
        MPI_Status st;

        tm_status_reset(&st);
        TM_MPI(MPI_Sendrecv(&a, 1, MPI_INT, tm_dst, i, &b, 1, MPI_INT,
                            has_sources ? tm_src : MPI_ANY_SOURCE, MPI_ANY_TAG, comm, &st));
        tm_expect_single(&st, tm_src, i, sizeof(int));
        TM_CHECK(b == 100 * tm_src + i, "with any tag: got %d, expected %d", b, 100 * tm_src + i);
    }
    TM_MPI(MPI_Barrier(comm));
}

/* With messages that may overtake and have the same tag, each is received once. */
static void overtaking(MPI_Comm comm)
{
    enum { COUNT = 200 };
    int out[COUNT], in[COUNT], times[COUNT] = {0};
    MPI_Request sreq[COUNT], rreq[COUNT];

    for (int i = 0; i < COUNT; i++) {
        TM_MPI(MPI_Irecv(&in[i], 1, MPI_INT, tm_src, 1, comm, &rreq[i]));
    }
    for (int i = 0; i < COUNT; i++) {
        out[i] = i;
        TM_MPI(MPI_Isend(&out[i], 1, MPI_INT, tm_dst, 1, comm, &sreq[i]));
    }
    TM_MPI(MPI_Waitall(COUNT, rreq, MPI_STATUSES_IGNORE));
    TM_MPI(MPI_Waitall(COUNT, sreq, MPI_STATUSES_IGNORE));
    for (int i = 0; i < COUNT; i++) {
        if (TM_CHECK(in[i] >= 0 && in[i] < COUNT, "got %d", in[i])) {
            times[in[i]]++;
        }
    }
    for (int i = 0; i < COUNT; i++) {
        TM_CHECK(1 == times[i], "message %d was received %d times", i, times[i]);
    }
    TM_MPI(MPI_Barrier(comm));
}

/* MPI_Comm_get_info may leave a key out, but not change it to anything else. */
static void check_info(MPI_Comm comm, int which, const char *value)
{
    MPI_Info info;
    char got[64];
    int flag;

    TM_MPI(MPI_Comm_get_info(comm, &info));
    for (int k = 0; k < NKEYS; k++) {
        TM_MPI(MPI_Info_get(info, keys[k], sizeof(got) - 1, got, &flag));
        TM_CHECK(!flag || 0 == (which & 1 << k) || 0 == strcmp(got, value),
                 "%s is \"%s\", expected \"%s\"", keys[k], got, value);
    }
    TM_MPI(MPI_Info_free(&info));
}

/* The communicator has the keys from the start, from a later moment, or for a while. */
static void with_keys(int which)
{
    MPI_Info yes = make_info(which, "true"), no = make_info(which, "false");
    MPI_Comm comm, copy;

    TM_MPI(MPI_Comm_dup_with_info(MPI_COMM_WORLD, yes, &comm));
    check_info(comm, which, "true");
    traffic(comm, which, 1);
    traffic(comm, which, 2);
    if (which == 1 << ALLOW_OVERTAKING) {
        overtaking(comm);
    }
    TM_MPI(MPI_Comm_dup(comm, &copy)); /* by MPI 3.1 it has the keys, by MPI 4.0 it does not */
    traffic(copy, which, 3);
    TM_MPI(MPI_Comm_free(&copy));
    TM_MPI(MPI_Comm_free(&comm));

    if (!tm_is_strict() && 0 != (which & 1 << ALLOW_OVERTAKING)) {
        /*
         * with pml/ob1 of 4.1.4 messages get stuck when the communicator was in use before, or is
         * after
         */
        goto done;
    }
    TM_MPI(MPI_Comm_dup_with_info(MPI_COMM_WORLD, no, &comm));
    traffic(comm, 0, 4);
    TM_MPI(MPI_Comm_set_info(comm, yes));
    check_info(comm, which, "true");
    TM_MPI(MPI_Barrier(comm));
    traffic(comm, which, 5);
    traffic(comm, which, 6);
    TM_MPI(MPI_Comm_set_info(comm, no));
    TM_MPI(MPI_Barrier(comm));
    traffic(comm, 0, 7);
    traffic(comm, 0, 8);
    TM_MPI(MPI_Comm_free(&comm));
#if OMPI_MAJOR_VERSION >= 5
    MPI_Request req;

    TM_MPI(MPI_Comm_idup_with_info(MPI_COMM_WORLD, yes, &comm, &req));
    TM_MPI(MPI_Wait(&req, MPI_STATUS_IGNORE));
    traffic(comm, which, 9);
    TM_MPI(MPI_Comm_free(&comm));
#endif
done:
    TM_MPI(MPI_Info_free(&yes));
    TM_MPI(MPI_Info_free(&no));
}

/* Words that mean nothing are ignored. */
static void nonsense(void)
{
    MPI_Info info = make_info((1 << NKEYS) - 1, "perhaps");
    MPI_Comm comm;

    TM_MPI(MPI_Info_set(info, "mpi_assert_that_pigs_fly", "true"));
    TM_MPI(MPI_Comm_dup_with_info(MPI_COMM_WORLD, info, &comm));
    traffic(comm, 0, 1);
    TM_MPI(MPI_Comm_free(&comm));
    TM_MPI(MPI_Info_free(&info));
}

int main(int argc, char **argv)
{
    tm_init(&argc, &argv, "asserts");
    for (int which = 0; which < 1 << NKEYS; which++) {
        with_keys(which);
        traffic(MPI_COMM_WORLD, 0, which);
    }
    nonsense();
    return tm_finish();
}
