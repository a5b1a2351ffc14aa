/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * For monitoring.sh: with pml_monitoring on top, messages of every kind arrive; what was sent to
 * each peer is written, to be compared with what pml_monitoring counted.
 */
#include "tm_test.h"

#include <errno.h>

static unsigned long *want_sent, *want_bytes;

static void count(int peer, size_t n)
{
    want_sent[peer]++;
    want_bytes[peer] += n;
}

/* One message of n bytes to dst in each mode, received from src. */
static void all_modes(int src, int dst, size_t n)
{
    enum { PERSISTENT = 6, NMODES };
    unsigned char *out = tm_alloc(n), *in = tm_alloc(n);
    int len = tm_int(n);
    MPI_Request req;

    for (int mode = 0; mode < NMODES; mode++) {
        MPI_Request rreq;

        tm_fill(out, n, tm_key(tm_rank, dst, mode, (long) n));
        TM_MPI(MPI_Irecv(in, len, MPI_BYTE, src, mode, MPI_COMM_WORLD, &rreq));
        switch (mode) {
        case 0:
            TM_MPI(MPI_Send(out, len, MPI_BYTE, dst, mode, MPI_COMM_WORLD));
            break;
        case 1:
            TM_MPI(MPI_Ssend(out, len, MPI_BYTE, dst, mode, MPI_COMM_WORLD));
            break;
        case 2:
            TM_MPI(MPI_Bsend(out, len, MPI_BYTE, dst, mode, MPI_COMM_WORLD));
            break;
        case 3:
            TM_MPI(MPI_Isend(out, len, MPI_BYTE, dst, mode, MPI_COMM_WORLD, &req));
            TM_MPI(MPI_Wait(&req, MPI_STATUS_IGNORE));
            break;
        case 4:
            TM_MPI(MPI_Issend(out, len, MPI_BYTE, dst, mode, MPI_COMM_WORLD, &req));
            TM_MPI(MPI_Wait(&req, MPI_STATUS_IGNORE));
            break;
        case 5:
            TM_MPI(MPI_Sendrecv(out, len, MPI_BYTE, dst, mode, in, len, MPI_BYTE, MPI_PROC_NULL,
                                mode, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
            break;
        default:
            TM_MPI(MPI_Send_init(out, len, MPI_BYTE, dst, mode, MPI_COMM_WORLD, &req));
            TM_MPI(MPI_Start(&req));
            TM_MPI(MPI_Wait(&req, MPI_STATUS_IGNORE));
            TM_MPI(MPI_Request_free(&req));
            break;
        }
        if (mode < PERSISTENT) {
            count(dst, n);
        }
        tm_wait_recv(&rreq, in, src, mode, n, tm_key(src, tm_rank, mode, (long) n));
    }
    tm_free(out);
    tm_free(in);
}

/*
 * Probed messages, a persistent request of a derived type started often, and a communicator with
 * other ranks.
 */
static void others(int src, int dst)
{
    int out[20] = {0}, in[10], last = tm_size - 1 - tm_rank;
    MPI_Datatype type;
    MPI_Message msg;
    MPI_Request req;
    MPI_Comm backwards;
    MPI_Status st;

    type = tm_vector(10, 1, 2, MPI_INT);
    TM_MPI(MPI_Send_init(out, 1, type, dst, 9, MPI_COMM_WORLD, &req));
    for (int i = 0; i < 20; i++) {
        out[18] = 100 * tm_rank + i;
        TM_MPI(MPI_Start(&req));
        TM_MPI(MPI_Mprobe(MPI_ANY_SOURCE, 9, MPI_COMM_WORLD, &msg, &st));
        TM_MPI(MPI_Mrecv(in, 10, MPI_INT, &msg, &st));
        TM_CHECK(in[9] == 100 * src + i, "got %d, expected %d", in[9], 100 * src + i);
        TM_MPI(MPI_Wait(&req, MPI_STATUS_IGNORE));
    }
    TM_MPI(MPI_Request_free(&req));
    TM_MPI(MPI_Type_free(&type));
    TM_MPI(MPI_Comm_split(MPI_COMM_WORLD, 0, -tm_rank, &backwards));
    TM_MPI(MPI_Irecv(in, 1, MPI_INT, MPI_ANY_SOURCE, 3, backwards, &req));
    TM_MPI(MPI_Send(out, 1, MPI_INT, last, 3, backwards)); /* to myself, by another name */
    TM_MPI(MPI_Wait(&req, &st));
    tm_expect_status(&st, last, 3, sizeof(int));
    count(tm_rank, sizeof(int));
    TM_MPI(MPI_Comm_free(&backwards));
}

/* As pml_monitoring writes it, into PREFIX.RANK: what several ranks print can be mixed. */
static void write_expected(const char *prefix)
{
    char name[256];
    FILE *file;

    snprintf(name, sizeof(name), "%s.%d", prefix, tm_rank);
    file = fopen(name, "w");
    if (NULL == file) {
        TM_CHECK(false, "%s cannot be written: %s", name, strerror(errno));
        return;
    }
    for (int i = 0; i < tm_size; i++) {
        fprintf(file, "E\t%d\t%d\t%lu bytes\t%lu msgs sent\n", tm_rank, i, want_bytes[i],
                want_sent[i]);
    }
    fclose(file);
}

int main(int argc, char **argv)
{
    static const size_t sizes[] = {0, 8, 40, 41, 4096, 16384, 16385, 300000};
    size_t room = 310000;
    void *buf;
    int size;

    tm_init(&argc, &argv, "monitoring");
    want_sent = tm_calloc((size_t) tm_size, sizeof(*want_sent));
    want_bytes = tm_calloc((size_t) tm_size, sizeof(*want_bytes));
    buf = tm_calloc(1, room);
    TM_MPI(MPI_Buffer_attach(buf, tm_int(room)));
    for (int d = 0; d < tm_size; d++) {
        int dst = (tm_rank + d) % tm_size, src = (tm_rank + tm_size - d) % tm_size;

        for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
            all_modes(src, dst, sizes[i]);
        }
        others(src, dst);
        TM_MPI(MPI_Barrier(MPI_COMM_WORLD)); /* internal messages: not counted here */
    }
    TM_MPI(MPI_Buffer_detach(&buf, &size));
    free(buf);
    write_expected(argc > 1 ? argv[1] : "expected");
    free(want_sent);
    free(want_bytes);
    return tm_finish();
}
