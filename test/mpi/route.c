/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Which route messages of 16 to 256 KiB take inside a host (pml_tm_route.h): rank 0 sends rank 1
 * ROUNDS messages of each of four lengths, one by one, and counts those that it tries, and those
 * that rank 1 is to read.
 *
 * args: tries and reads of rank 0, [late or unexpected].  late: rank 1 has posted the receive, and
 * computes while the message comes; unexpected: it posts it only then.  Reads are made slow here,
 * so that after its four tries none is chosen, however slow the machine is: this program's
 * process_vm_readv() is used instead of libc's.  This is for pml tm only.
 *
 * args: 0, reads, "both", and a rank whose messages are always read.  The two send each other a few
 * messages, none of which is a try, and the other rank counts its own.  Rank 0 does as rank 1 does.
 */
/* TEST: np=2 ldflags=-rdynamic args="32 16" env="OMPI_MCA_pml_tm_providers=shm OMPI_MCA_pml_tm_shm_ring_size=1048576" quick=yes */
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "tm_counter.h"

/* More than 16 of each length, and the longest go round the ring twice in these. */
enum { ROUNDS = 100, SLOW_US = 20000, LATE_US = 2000 };

enum { ROUNDS_BOTH = 12 }; /* fewer than 16 */

static const int lengths[] = {262144, 131072, 65536, 32768};

static bool is_slow; /* are reads to be slow? */

ssize_t process_vm_readv(pid_t pid, const struct iovec *local, unsigned long local_num,
                         const struct iovec *remote, unsigned long remote_num, unsigned long flags)
{
    if (is_slow && local[0].iov_len > 16384) {
        usleep(SLOW_US);
    }
    return syscall(SYS_process_vm_readv, pid, local, local_num, remote, remote_num, flags);
}

static void send_all(char *buf, int len)
{
    for (int i = 0; i < ROUNDS; i++) {
        tm_fill(buf, (size_t) len, tm_key(0, len, 1, i));
        TM_MPI(MPI_Recv(NULL, 0, MPI_BYTE, 1, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        TM_MPI(MPI_Send(buf, len, MPI_BYTE, 1, 1, MPI_COMM_WORLD));
    }
}

static void receive_all(char *buf, int len, const char *when)
{
    MPI_Request req;

    for (int i = 0; i < ROUNDS; i++) {
        if (0 == strcmp(when, "unexpected")) {
            int is_here = 0;
            TM_MPI(MPI_Send(NULL, 0, MPI_BYTE, 0, 2, MPI_COMM_WORLD));
            while (!is_here) {
                TM_MPI(MPI_Iprobe(0, 1, MPI_COMM_WORLD, &is_here, MPI_STATUS_IGNORE));
            }
            TM_MPI(MPI_Recv(buf, len, MPI_BYTE, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        } else {
            TM_MPI(MPI_Irecv(buf, len, MPI_BYTE, 0, 1, MPI_COMM_WORLD, &req));
            TM_MPI(MPI_Send(NULL, 0, MPI_BYTE, 0, 2, MPI_COMM_WORLD));
            if (0 == strcmp(when, "late")) {
                usleep(LATE_US);
            }
            TM_MPI(MPI_Wait(&req, MPI_STATUS_IGNORE));
        }
        tm_expect_data(buf, (size_t) len, tm_key(0, len, 1, i), "a message of 16 to 256 KiB");
    }
}

static void exchange_all(char *buf, int len)
{
    char *other = tm_calloc(1, (size_t) len);

    for (int i = 0; i < ROUNDS_BOTH; i++) {
        MPI_Request req;
        tm_fill(buf, (size_t) len, tm_key(tm_rank, len, 1, i));
        TM_MPI(MPI_Irecv(other, len, MPI_BYTE, 1 - tm_rank, 1, MPI_COMM_WORLD, &req));
        MPI_Barrier(MPI_COMM_WORLD); /* no message is unexpected: those say nothing of a route */
        TM_MPI(MPI_Send(buf, len, MPI_BYTE, 1 - tm_rank, 1, MPI_COMM_WORLD));
        TM_MPI(MPI_Wait(&req, MPI_STATUS_IGNORE));
        tm_expect_data(other, (size_t) len, tm_key(1 - tm_rank, len, 1, i), "in both directions");
    }
    free(other);
}

static void expect(const tm_counter_t *counter, const char *what, unsigned long number)
{
    unsigned long long counted = tm_counter_read(counter);

    TM_CHECK(counted == number, "%llu %s, not %lu", counted, what, number);
}

int main(int argc, char **argv)
{
    tm_counter_t tries, reads;
    const bool is_both = argc > 4;
    const char *rank = getenv("OMPI_COMM_WORLD_RANK");
    const int counting = is_both ? 1 - atoi(argv[4]) : 0;
    char *buf;

    if (is_both && NULL != rank && 0 == strcmp(rank, argv[4])) {
        setenv("OMPI_MCA_pml_tm_stream_get", "1", 1);
    }
    tm_init(&argc, &argv, "route");
    if (!tm_is_pml_tm()) {
        return tm_skip("only pml tm has routes");
    }
    is_slow = !is_both && 0 != strcmp(argv[2], "400");
    buf = tm_calloc(1, (size_t) lengths[0]);
    tries = tm_counter_open("pml_tm_route_tries");
    reads = tm_counter_open("pml_tm_route_reads");
    MPI_Barrier(MPI_COMM_WORLD);
    for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
        if (is_both) {
            exchange_all(buf, lengths[i]);
        } else if (0 == tm_rank) {
            send_all(buf, lengths[i]);
        } else {
            receive_all(buf, lengths[i], argc > 3 ? argv[3] : "");
        }
    }
    if (counting == tm_rank) {
        expect(&tries, "tries", strtoul(argv[1], NULL, 10));
        expect(&reads, "messages to be read", strtoul(argv[2], NULL, 10));
    }
    free(buf);
    tm_counter_close(&tries);
    tm_counter_close(&reads);
    return tm_finish();
}
