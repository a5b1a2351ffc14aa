/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Blocking calls give the rest of Open MPI its turn, also while each poll of the PML finds
 * something to do: rank 0 is within one of them while a long message is read from rank 1's memory,
 * step by step. A reduction whose contribution had come before must go on meanwhile; its operation,
 * a function of this program, sees that the last byte of the message is not there yet. (A sender
 * that helps to copy begins with it: it does not here.)
 */
/* TEST: np=2 env="OMPI_MCA_pml_tm_shm_cooperative=none" timeout=60 quick=yes */
#include "tm_test.h"

enum { RECV, PROBE, MPROBE, SSEND, NWAYS };

enum { LONG = 1, WORD };

enum { BYTES = 64 << 20 };

static const char *const way_name[NWAYS] = {"MPI_Recv", "MPI_Probe", "MPI_Mprobe", "MPI_Ssend"};

static unsigned char *buf; /* of the long message */
static bool is_called, was_there;

static void add(void *in, void *inout, int *len, MPI_Datatype *type)
{
    (void) type;
    is_called = true;
    was_there = 0 != ((volatile unsigned char *) buf)[BYTES - 1];
    for (int i = 0; i < *len; i++) {
        ((int *) inout)[i] += ((int *) in)[i];
    }
}

/* Rank 0: what is to be blocked in, while the message comes. */
static void block(int way, MPI_Request *req)
{
    MPI_Message msg;
    int word = 0;

    if (RECV == way) {
        TM_MPI(MPI_Recv(buf, BYTES, MPI_BYTE, 1, LONG, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        return;
    }
    TM_MPI(MPI_Irecv(buf, BYTES, MPI_BYTE, 1, LONG, MPI_COMM_WORLD, req));
    if (SSEND == way) {
        TM_MPI(MPI_Ssend(&word, 1, MPI_INT, 1, WORD, MPI_COMM_WORLD));
    } else if (PROBE == way) {
        TM_MPI(MPI_Probe(1, WORD, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        TM_MPI(MPI_Recv(&word, 1, MPI_INT, 1, WORD, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    } else {
        TM_MPI(MPI_Mprobe(1, WORD, MPI_COMM_WORLD, &msg, MPI_STATUS_IGNORE));
        TM_MPI(MPI_Mrecv(&word, 1, MPI_INT, &msg, MPI_STATUS_IGNORE));
    }
}

/* Contribution and message are here before the reduction begins: it has one step to go. */
static void receive(int way, MPI_Op op)
{
    MPI_Request req = MPI_REQUEST_NULL, reduction;
    int mine = 1, sum = 0;

    memset(buf, 0, BYTES);
    is_called = was_there = false;
    TM_MPI(MPI_Probe(1, LONG, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    TM_MPI(MPI_Ireduce(&mine, &sum, 1, MPI_INT, op, 0, MPI_COMM_WORLD, &reduction));
    block(way, &req);
    TM_MPI(MPI_Wait(&req, MPI_STATUS_IGNORE));
    TM_CHECK(is_called && !was_there, "%s: the reduction went on only when the message was there",
             way_name[way]);
    TM_MPI(MPI_Wait(&reduction, MPI_STATUS_IGNORE));
    TM_CHECK(3 == sum, "%s: the sum is %d, not 3", way_name[way], sum);
}

/* What rank 0 waits for comes when the message has been read. */
static void send(int way, MPI_Op op)
{
    MPI_Request req, reduction;
    int mine = 2, word = 0;

    memset(buf, 0xff, BYTES);
    TM_MPI(MPI_Ireduce(&mine, NULL, 1, MPI_INT, op, 0, MPI_COMM_WORLD, &reduction));
    TM_MPI(MPI_Isend(buf, BYTES, MPI_BYTE, 0, LONG, MPI_COMM_WORLD, &req));
    TM_MPI(MPI_Wait(&req, MPI_STATUS_IGNORE));
    if (SSEND == way) {
        TM_MPI(MPI_Recv(&word, 1, MPI_INT, 0, WORD, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    } else if (RECV != way) {
        TM_MPI(MPI_Send(&word, 1, MPI_INT, 0, WORD, MPI_COMM_WORLD));
    }
    TM_MPI(MPI_Wait(&reduction, MPI_STATUS_IGNORE));
}

int main(int argc, char **argv)
{
    const char *providers = getenv("OMPI_MCA_pml_tm_providers");
    MPI_Op op;

    tm_init(&argc, &argv, "turns");
    if (NULL != providers && NULL != strstr(providers, "^shm")) {
        return tm_skip("a device reads the message in one go");
    }
    buf = tm_calloc(BYTES, 1);
    TM_MPI(MPI_Op_create(add, 1, &op));
    for (int round = 0; round < 3 * NWAYS; round++) {
        if (0 == tm_rank) {
            receive(round % NWAYS, op);
        } else {
            send(round % NWAYS, op);
        }
        TM_MPI(MPI_Barrier(MPI_COMM_WORLD));
    }
    TM_MPI(MPI_Op_free(&op));
    free(buf);
    return tm_finish();
}
