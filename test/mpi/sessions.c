/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * MPI sessions: communicators made from a group, with no parent, have another index in each process
 * (extended context ids).  The indexes are made to differ; then every size around the protocols,
 * all modes, wildcards, probes, collectives, derived communicators, and many of them made and freed
 * while others are in use.
 *
 * args: [rounds] ["world": between MPI_Init and MPI_Finalize as well]
 */
/* TEST: np=1,2,4 args="20" ompi=5.0,6.0 timeout=60 stderr="Unable to find reachable pairing" */
/* TEST: np=2,4 args="20 world" ompi=5.0,6.0 timeout=60 stderr="Unable to find reachable pairing" */
#include "tm_counter.h"

static const int sizes[] = {0,  1,    15,    16,    17,    23,    24,    25,    40,
                            41, 4096, 16359, 16360, 16361, 16384, 16385, 300000};

#define NSIZES (int) (sizeof(sizes) / sizeof(sizes[0]))

/* A communicator of the process set, made from its group. */
static MPI_Comm comm_from_group(MPI_Session session, const char *pset, const char *tag)
{
    MPI_Group group;
    MPI_Comm comm;

    MPI_Group_from_session_pset(session, pset, &group);
    MPI_Comm_create_from_group(group, tag, MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &comm);
    MPI_Group_free(&group);
    return comm;
}

/* One message of each size round the ring, the first ones while nobody knows anybody's index. */
static void ring(MPI_Comm comm, int round)
{
    unsigned char *out = malloc(300000), *in = malloc(300000);

    for (int s = 0; s < NSIZES; s++) {
        int len = sizes[s], got;
        MPI_Request request;
        MPI_Status status;

        tm_fill(out, (size_t) len, tm_key(tm_rank, 0, len, round));
        (0 == (s + round) % 3 ? MPI_Issend : MPI_Isend)(out, len, MPI_BYTE, tm_dst, s, comm,
                                                        &request);
        if (0 == s % 4) {
            MPI_Probe(MPI_ANY_SOURCE, s, comm, &status);
            MPI_Get_count(&status, MPI_BYTE, &got);
            TM_CHECK(status.MPI_SOURCE == tm_src && got == len, "probe: from %d, %d bytes",
                     status.MPI_SOURCE, got);
        }
        MPI_Recv(in, 300000, MPI_BYTE, 0 == s % 2 ? MPI_ANY_SOURCE : tm_src,
                 0 == s % 5 ? MPI_ANY_TAG : s, comm, &status);
        MPI_Get_count(&status, MPI_BYTE, &got);
        TM_CHECK(status.MPI_SOURCE == tm_src && status.MPI_TAG == s && got == len,
                 "from %d, tag %d, %d bytes", status.MPI_SOURCE, status.MPI_TAG, got);
        TM_CHECK(tm_expect_data(in, (size_t) len, tm_key(tm_src, 0, len, round), "message"),
                 "from %d in round %d", tm_src, round);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
    }
    free(out);
    free(in);
}

/* Many at once from all to all, order kept across the change from untagged to tagged. */
static void burst(MPI_Comm comm)
{
    enum { COUNT = 200 };
    MPI_Request *requests = malloc((size_t) tm_size * COUNT * sizeof(*requests));
    int numbers[COUNT], value = 0, n = 0;

    for (int i = 0; i < COUNT; i++) {
        numbers[i] = i;
        for (int to = 0; to < tm_size; to++) {
            MPI_Isend(&numbers[i], 1, MPI_INT, to, 7, comm, &requests[n++]);
        }
    }
    for (int from = 0; from < tm_size; from++) {
        for (int i = 0; i < COUNT; i++) {
            MPI_Recv(&value, 1, MPI_INT, from, 7, comm, MPI_STATUS_IGNORE);
            TM_CHECK(value == i, "message %d from %d is number %d", i, from, value);
        }
    }
    MPI_Waitall(n, requests, MPI_STATUSES_IGNORE);
    free(requests);
}

static void collectives(MPI_Comm comm)
{
    int one = 1, sum = 0;
    MPI_Comm dup, half;

    MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, comm);
    TM_CHECK(sum == tm_size, "sum %d", sum);
    MPI_Comm_dup(comm, &dup);
    MPI_Barrier(dup);
    MPI_Comm_split(dup, tm_rank % 2, tm_rank, &half);
    MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, half);
    TM_CHECK(sum == (tm_size + 1 - tm_rank % 2) / 2, "half: sum %d", sum);
    MPI_Comm_free(&half);
    MPI_Comm_free(&dup);
}

/* Persistent requests: their tag is chosen when they start. */
static void persistent(MPI_Comm comm)
{
    int out = 0, in = 0;
    MPI_Request requests[2];

    MPI_Send_init(&out, 1, MPI_INT, tm_dst, 3, comm, &requests[0]);
    MPI_Recv_init(&in, 1, MPI_INT, tm_src, 3, comm, &requests[1]);
    for (int i = 0; i < 5; i++) {
        out = 10 * tm_rank + i;
        MPI_Startall(2, requests);
        MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
        TM_CHECK(in == 10 * tm_src + i, "persistent: %d", in);
    }
    MPI_Request_free(&requests[0]);
    MPI_Request_free(&requests[1]);
}

/*
 * The first messages of all, untagged, and maybe before their communicator, are taken back.  Other
 * PMLs complete such a send only when it is received.
 */
static void cancelled(MPI_Comm comm, MPI_Comm kept)
{
    static unsigned char out[100000];
    int lengths[] = {8, 100000}, flag;

    for (int i = 0; i < 2; i++) {
        MPI_Request request;
        MPI_Status status;

        MPI_Issend(out, lengths[i], MPI_BYTE, tm_dst, 3, comm, &request);
        MPI_Cancel(&request);
        MPI_Wait(&request, &status);
        MPI_Test_cancelled(&status, &flag);
        TM_CHECK(flag, "an untagged send of %d bytes was not cancelled", lengths[i]);
    }
    MPI_Barrier(kept); /* nobody receives before */
}

static void rounds(MPI_Session session, int count)
{
    MPI_Comm self[8], kept = comm_from_group(session, "mpi://WORLD", "kept");
    int num_self;
    bool has_counters;
    tm_counter_t untagged, early;

    has_counters = tm_counter_find("pml_tm_untagged", MPI_T_PVAR_CLASS_COUNTER, &untagged) &&
                   tm_counter_find("pml_tm_early", MPI_T_PVAR_CLASS_COUNTER, &early);
    tm_use_ranks(kept);
    num_self = tm_rank % 8;
    /* so that the next index is another in each process */
    for (int i = 0; i < num_self; i++) {
        char tag[64];
        snprintf(tag, sizeof(tag), "self %d %d", tm_rank, i);
        self[i] = comm_from_group(session, "mpi://SELF", tag);
    }
    for (int round = 0; round < count; round++) {
        char tag[64];
        snprintf(tag, sizeof(tag), "round %d", round);
        MPI_Comm comm = comm_from_group(session, "mpi://WORLD", tag);
        if (0 == round % 2) {
            persistent(comm);
        }
        if (1 == round % 4 && tm_is_strict()) {
            cancelled(comm, kept);
        }
        ring(comm, round);
        burst(comm);
        collectives(comm);
        burst(kept);
        MPI_Comm_free(&comm);
    }
    if (has_counters) {
        TM_CHECK(1 == tm_size || tm_counter_read(&untagged) > 0,
                 "no message came untagged: nothing was tested");
        printf("sessions: rank %d: %llu untagged, %llu early\n", tm_rank,
               tm_counter_read(&untagged), tm_counter_read(&early));
        tm_counter_close(&untagged);
        tm_counter_close(&early);
    }
    for (int i = 0; i < num_self; i++) {
        MPI_Comm_free(&self[i]);
    }
    MPI_Comm_free(&kept);
}

int main(int argc, char **argv)
{
    int count = argc > 1 ? atoi(argv[1]) : 20;
    bool has_world = argc > 2 && 0 == strcmp(argv[2], "world");
    MPI_Session session;

    if (has_world) {
        MPI_Init(NULL, NULL);
    }
    MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &session);
    rounds(session, count);
    MPI_Session_finalize(&session);
    if (has_world) {
        MPI_Finalize();
    }
    if (0 == tm_rank) {
        printf("sessions: errors=%d\n", tm_errors);
    }
    return 0 == tm_errors ? 0 : 1;
}
