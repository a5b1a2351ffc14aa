/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * For tm.sh and progress_thread.sh: a message arrives while its receiver computes. Between posting
 * and waiting the receiver makes no MPI call until the sender, whose MPI_Send has returned, says so
 * through shared memory. Only a device that matches and reads by itself can do that, or a progress
 * thread: otherwise the receiver gives up after its time limit, which the test calls a failure.
 *
 * Arguments: length of the messages in bytes (default 1048576); "sender": the sender computes
 * instead, until the receiver has the message. Which receives can be listed is the caller's choice.
 */
#include "tm_share.h"

enum { ROUNDS = 20, LIMIT_S = 20 };

/* The data of a round. */
static uint64_t key_of(int round)
{
    return tm_key(0, 1, round, 0);
}

/* Computes until the sender is done, without MPI. */
static bool compute_until(atomic_int *done, int round)
{
    time_t end = time(NULL) + LIMIT_S;
    volatile double x = 1;

    while (atomic_load(done) < round) {
        for (int i = 0; i < 10000; i++) {
            x = x * 1.0000001 + 1e-9;
        }
        if (time(NULL) > end) {
            return false;
        }
    }
    return true;
}

/* Compute until the whole message is in its place, which may be after the sender is done. */
static bool compute_until_there(const volatile unsigned char *buf, int len, int round)
{
    time_t end = time(NULL) + LIMIT_S;

    for (int i = 0; i < len; i++) {
        while (buf[i] != tm_byte(key_of(round), (size_t) i)) {
            if (time(NULL) > end) {
                return false;
            }
        }
    }
    return true;
}

static void receive(unsigned char *buf, int len, atomic_int *done)
{
    for (int round = 1; round <= ROUNDS; round++) {
        MPI_Request request;
        MPI_Status status;
        int count, flag = 0;
        for (int i = 0; i < len; i++) {
            buf[i] = (unsigned char) ~tm_byte(key_of(round), (size_t) i);
        }
        MPI_Irecv(buf, len, MPI_BYTE, round % 2 ? 0 : MPI_ANY_SOURCE, round, MPI_COMM_WORLD,
                  &request);
        MPI_Send(NULL, 0, MPI_BYTE, 0, 0, MPI_COMM_WORLD); /* the receive is posted */
        TM_CHECK(compute_until(done, round),
                 "round %d: the message was not received while its process computed", round);
        TM_CHECK(compute_until_there(buf, len, round),
                 "round %d: the data did not come before MPI_Wait", round);
        MPI_Test(&request, &flag, &status);
        if (!flag) {
            MPI_Wait(&request, &status);
        }
        MPI_Get_count(&status, MPI_BYTE, &count);
        TM_CHECK(count == len && 0 == status.MPI_SOURCE && status.MPI_TAG == round,
                 "round %d: status", round);
    }
}

static void send(unsigned char *buf, int len, atomic_int *done)
{
    for (int round = 1; round <= ROUNDS; round++) {
        tm_fill(buf, (size_t) len, key_of(round));
        MPI_Recv(NULL, 0, MPI_BYTE, 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Ssend(buf, len, MPI_BYTE, 1, round, MPI_COMM_WORLD);
        atomic_store(done, round);
    }
}

static void receive_at_once(unsigned char *buf, int len, atomic_int *done)
{
    for (int round = 1; round <= ROUNDS; round++) {
        MPI_Recv(buf, len, MPI_BYTE, 0, round, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        TM_CHECK(tm_expect_data(buf, (size_t) len, key_of(round), "message"), "in round %d", round);
        atomic_store(done, round);
    }
}

static void send_and_compute(unsigned char *buf, int len, atomic_int *done)
{
    for (int round = 1; round <= ROUNDS; round++) {
        MPI_Request request;
        tm_fill(buf, (size_t) len, key_of(round));
        MPI_Isend(buf, len, MPI_BYTE, 1, round, MPI_COMM_WORLD, &request);
        TM_CHECK(compute_until(done, round),
                 "round %d: the message was not sent while its process computed", round);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
    }
}

int main(int argc, char **argv)
{
    int len = argc > 1 ? atoi(argv[1]) : 1 << 20;
    bool sender_computes = argc > 2 && 0 == strcmp(argv[2], "sender");
    unsigned char *buf;
    atomic_int *done;

    tm_init(&argc, &argv, "overlap");
    buf = tm_calloc(1, (size_t) len);
    done = tm_shared_word(); /* rounds that the sender is done with */
    if (1 == tm_rank) {
        (sender_computes ? receive_at_once : receive)(buf, len, done);
    } else if (0 == tm_rank) {
        (sender_computes ? send_and_compute : send)(buf, len, done);
    }
    free(buf);
    return tm_finish();
}
