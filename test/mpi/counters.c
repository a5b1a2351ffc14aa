/* SPDX-License-Identifier: BSD-3-Clause */
/* TEST: np=2 args="eager_sent rndv_sent streamed expected unexpected taken rndv_get_bytes" env="OMPI_MCA_pml_tm_stream_limit=65536" quick=yes */
/* TEST: np=2 args="rndv_pipeline_bytes pipeline_no_get" env="OMPI_MCA_pml_tm_shm_single_copy=none" quick=yes */
/* TEST: np=2 args="pipeline_not_contiguous cancelled shm_msgs_sent shm_msgs_received" quick=yes */
/* TEST: np=2 args="posted_max unexpected_max_count" env="OMPI_MCA_pml_tm_shm_ring_size=524288" quick=yes */
/* TEST: np=2 args="shm_coop_offered" env="OMPI_MCA_pml_tm_shm_cooperative=always OMPI_MCA_pml_tm_stream_limit=65536" quick=yes */
/* TEST: np=2 args="throttled held_sends" env="OMPI_MCA_pml_tm_unexpected_max=65536 OMPI_MCA_pml_tm_shm_ring_size=65536" quick=yes */
/* TEST: np=2 args="queued_sends shm_ring_full" env="OMPI_MCA_pml_tm_shm_ring_size=4096" quick=yes */
/* TEST: np=2 device=tmdev args="listed listed_late listed_matched listed_taken listed_parked listed_raced" env="OMPI_MCA_pml_tm_providers=^shm,tcp TMDEV_TM_TAGS=4 OMPI_MCA_mtl=^ofi" */
/* TEST: np=2 device=tmdev args="not_listed_other_path not_listed_blocked not_listed_full" env="OMPI_MCA_pml_tm_providers=^shm,tcp TMDEV_TM_TAGS=4 OMPI_MCA_mtl=^ofi" */
/*
 * Does every counter count?  Two ranks do one of everything (others do nothing); each counter named
 * as an argument must have grown on one rank at least.  This is for pml tm only.
 *
 * Where a device matches tags, a rank that sleeps does not poll: what its peer sends meanwhile the
 * device matches, or keeps.
 */
#include "tm_counter.h"

enum {
    LARGE = 1 << 20,
    SHORT = 1000,
    MEDIUM = 10000,
    FLOOD = 2000,
    SLEEP = 20000 /* us */,
    MAX_COUNTERS = 32
};

static MPI_Comm pair; /* ranks 0 and 1 */

/* Of the variable pml_tm_<name>, which counts, or is a high-water mark. */
static tm_counter_t open_counter(const char *name)
{
    char full[128];
    tm_counter_t counter;

    snprintf(full, sizeof(full), "pml_tm_%s", name);
    if (!tm_counter_find(full, MPI_T_PVAR_CLASS_COUNTER, &counter) &&
        !tm_counter_find(full, MPI_T_PVAR_CLASS_HIGHWATERMARK, &counter)) {
        TM_FATAL("there is no performance variable %s", full);
    }
    return counter;
}

static void exchange(char *buf, int count, MPI_Datatype datatype, bool is_sync)
{
    if (0 == tm_rank) {
        if (is_sync) {
            MPI_Ssend(buf, count, datatype, 1, 1, pair);
        } else {
            MPI_Send(buf, count, datatype, 1, 1, pair);
        }
    } else {
        MPI_Recv(buf, count, datatype, 0, 1, pair, MPI_STATUS_IGNORE);
    }
}

static void buffered(char *buf)
{
    const size_t size = 2 * SHORT + MPI_BSEND_OVERHEAD;
    void *attached = tm_buffer_attach(size);

    if (0 == tm_rank) {
        MPI_Bsend(buf, SHORT, MPI_BYTE, 1, 2, pair);
    } else {
        MPI_Recv(buf, SHORT, MPI_BYTE, 0, 2, pair, MPI_STATUS_IGNORE);
    }
    tm_buffer_detach(attached, size);
}

/*
 * A receive that is posted when its message comes, one that is not, one that is too short, one that
 * is cancelled; a send that is cancelled.
 */
static void receives(char *buf)
{
    MPI_Request request;

    if (1 == tm_rank) {
        MPI_Irecv(buf, SHORT, MPI_BYTE, 0, 3, pair, &request);
        MPI_Barrier(pair);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        MPI_Barrier(pair);
        MPI_Recv(buf, SHORT, MPI_BYTE, 0, 4, pair, MPI_STATUS_IGNORE);
        TM_CHECK(MPI_SUCCESS != MPI_Recv(buf, SHORT / 2, MPI_BYTE, 0, 5, pair, MPI_STATUS_IGNORE),
                 "no truncation");
        MPI_Irecv(buf, SHORT, MPI_BYTE, 0, 6, pair, &request);
        MPI_Cancel(&request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        MPI_Barrier(pair);
    } else {
        MPI_Barrier(pair);
        MPI_Send(buf, SHORT, MPI_BYTE, 1, 3, pair);
        MPI_Send(buf, SHORT, MPI_BYTE, 1, 4, pair);
        MPI_Barrier(pair);
        MPI_Send(buf, SHORT, MPI_BYTE, 1, 5, pair);
        MPI_Barrier(pair);
        MPI_Issend(buf, SHORT, MPI_BYTE, 1, 6, pair, &request);
        MPI_Cancel(&request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
    }
}

/* More than the receiver wants to hold, and more than a ring. */
static void flood(char *buf)
{
    int last = FLOOD;

    if (0 == tm_rank) {
        MPI_Request *request = tm_calloc(FLOOD, sizeof(*request));
        for (int i = 0; i < FLOOD; i++) {
            MPI_Isend(buf, SHORT, MPI_BYTE, 1, 7, pair, &request[i]);
        }
        MPI_Send(&last, 1, MPI_INT, 1, 8, pair);
        MPI_Waitall(FLOOD, request, MPI_STATUSES_IGNORE);
        free(request);
    } else {
        MPI_Recv(&last, 1, MPI_INT, 0, 8, pair, MPI_STATUS_IGNORE);
        for (int i = 0; i < FLOOD; i++) {
            MPI_Recv(buf, SHORT, MPI_BYTE, 0, 7, pair, MPI_STATUS_IGNORE);
        }
    }
}

/* Rank 1 tells rank 0 to go on. */
static void tell(char *buf)
{
    if (1 == tm_rank) {
        MPI_Send(buf, 0, MPI_BYTE, 0, 10, pair);
    } else {
        MPI_Recv(buf, 0, MPI_BYTE, 1, 10, pair, MPI_STATUS_IGNORE);
    }
}

/* More receives than a list of 4 holds, of which two are the same. */
static void list_many(char *buf)
{
    enum { MANY = 8, FIRST = 4 };
    MPI_Request request[MANY];

    for (int i = 0; i < MANY && 1 == tm_rank; i++) {
        MPI_Irecv(buf + i * SHORT, SHORT, MPI_BYTE, 0, i < MANY - 1 ? i : i - 1, pair, &request[i]);
    }
    for (int i = 0; i < MANY; i++) {
        if (0 == i || FIRST == i) {
            tell(buf);
        }
        if (0 == tm_rank) {
            MPI_Send(buf, SHORT, MPI_BYTE, 1, i < MANY - 1 ? i : i - 1, pair);
        } else {
            MPI_Wait(&request[i], MPI_STATUS_IGNORE);
        }
    }
}

/*
 * A receive that is posted when its message is there but not seen, and one that is then cancelled.
 */
static void sleep_and_receive(char *buf, bool is_posted_before)
{
    MPI_Request request;

    if (1 == tm_rank && is_posted_before) {
        MPI_Irecv(buf, SHORT, MPI_BYTE, 0, 11, pair, &request);
    }
    tell(buf);
    if (0 == tm_rank) {
        MPI_Send(buf, SHORT, MPI_BYTE, 1, 11, pair);
        return;
    }
    usleep(SLEEP);
    if (is_posted_before) {
        MPI_Cancel(&request);
    } else {
        MPI_Irecv(buf, SHORT, MPI_BYTE, 0, 11, pair, &request);
    }
    MPI_Wait(&request, MPI_STATUS_IGNORE);
}

/* From any source, this process itself among them. */
static void receive_any(char *buf)
{
    MPI_Request request;

    MPI_Irecv(buf, SHORT, MPI_BYTE, MPI_ANY_SOURCE, 12, pair, &request);
    MPI_Send(buf + SHORT, SHORT, MPI_BYTE, tm_rank, 12, pair);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
}

/* A long message to a receive that is posted. */
static void receive_long(char *buf)
{
    MPI_Request request;

    if (1 == tm_rank) {
        MPI_Irecv(buf, LARGE, MPI_BYTE, 0, 13, pair, &request);
    }
    tell(buf);
    if (0 == tm_rank) {
        MPI_Send(buf, LARGE, MPI_BYTE, 1, 13, pair);
    } else {
        MPI_Wait(&request, MPI_STATUS_IGNORE);
    }
}

static void one_of_everything(char *buf)
{
    MPI_Datatype vector = tm_vector(LARGE / 16, 8, 16, MPI_BYTE);

    exchange(buf, SHORT, MPI_BYTE, false);
    exchange(buf, SHORT, MPI_BYTE, true);
    exchange(buf, MEDIUM, MPI_BYTE, false);
    exchange(buf, LARGE, MPI_BYTE, false);
    exchange(buf, 1, vector, false);
    buffered(buf);
    receives(buf);
    receive_long(buf);
    flood(buf);
    list_many(buf);
    for (int i = 0; i < 10; i++) {
        sleep_and_receive(buf, 0 != i % 2);
    }
    receive_any(buf);
    MPI_Sendrecv(buf, SHORT, MPI_BYTE, tm_rank, 9, buf + SHORT, SHORT, MPI_BYTE, tm_rank, 9, pair,
                 MPI_STATUS_IGNORE);
    MPI_Barrier(pair);
    MPI_Type_free(&vector);
}

/* High-water marks may have been there before; all else must have grown. */
static void check_counter(const char *name, tm_counter_t *counter)
{
    unsigned long long value = tm_counter_read(counter), sum = 0;

    TM_MPI(MPI_Allreduce(&value, &sum, 1, MPI_UNSIGNED_LONG_LONG, MPI_SUM, MPI_COMM_WORLD));
    TM_CHECK(0 < sum, "%s did not grow", name);
    tm_counter_close(counter);
}

int main(int argc, char **argv)
{
    tm_counter_t counter[MAX_COUNTERS];
    char *buf;

    tm_init(&argc, &argv, "counters");
    if (!tm_is_pml_tm()) {
        return tm_skip("the counters are pml tm's");
    }
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    buf = tm_calloc(1, LARGE);
    for (int i = 1; i < argc && i < MAX_COUNTERS; i++) {
        counter[i] = open_counter(argv[i]);
    }
    MPI_Comm_split(MPI_COMM_WORLD, tm_rank < 2 ? 0 : MPI_UNDEFINED, 0, &pair);
    if (MPI_COMM_NULL != pair) {
        MPI_Comm_set_errhandler(pair, MPI_ERRORS_RETURN);
        one_of_everything(buf);
    }
    for (int i = 1; i < argc && i < MAX_COUNTERS; i++) {
        check_counter(argv[i], &counter[i]); /* a mark is that of the communicators that exist */
    }
    if (MPI_COMM_NULL != pair) {
        MPI_Comm_free(&pair);
    }
    free(buf);
    return tm_finish();
}
