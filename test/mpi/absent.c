/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Senders that do not call MPI after MPI_Isend: their messages arrive all the same (MPI 4.1, 3.7.4,
 * Progress), since the receiver can read their memory.  And senders that call MPI now and then, and
 * change their memory as soon as they may: what arrives is what was sent.
 *
 * With a length: a few messages of it, which the sender's kernel has, or libfabric, when MPI_Isend
 * returns.
 */
/* TEST: np=2 env="OMPI_MCA_pml_tm_providers=shm OMPI_MCA_pml_tm_shm_copy_step=65536" timeout=60 quick=yes */
/* TEST: np=2 args="8" env="OMPI_MCA_pml_tm_providers=tcp" timeout=60 */
/* TEST: np=2 args="8" env="OMPI_MCA_pml_tm_providers=ofi OMPI_MCA_pml_tm_ofi_provider=net,tcp OMPI_MCA_mtl=^ofi" needs=libfabric-1.15 timeout=60 */
#include "tm_share.h"

enum { WINDOW = 4, ROUNDS = 150, LONGEST = 3000000, PATIENCE_MS = 20000 };

static const int lengths[] = {270000, 524288, 1000003, LONGEST};

static char *buf;
static MPI_Request req[WINDOW];

static char *part(int i)
{
    return buf + (size_t) i * LONGEST;
}

static void start_sends(int n, int len, int round)
{
    for (int i = 0; i < n; i++) {
        tm_fill(part(i), (size_t) len, tm_key(0, 1, round, i));
    }
    for (int i = 0; i < n; i++) {
        TM_MPI(MPI_Isend(part(i), len, MPI_BYTE, 1, i, MPI_COMM_WORLD, &req[i]));
    }
}

static void receive(int n, int len, int round)
{
    for (int i = 0; i < n; i++) {
        TM_MPI(MPI_Irecv(part(i), len, MPI_BYTE, 0, i, MPI_COMM_WORLD, &req[i]));
    }
    TM_MPI(MPI_Waitall(n, req, MPI_STATUSES_IGNORE));
    for (int i = 0; i < n; i++) {
        tm_expect_data(part(i), (size_t) len, tm_key(0, 1, round, i), "what was sent");
    }
}

/* Rank 0 does nothing until rank 1 has all. */
static void absent(atomic_int *word, int n, int len, int round)
{
    if (0 == tm_rank) {
        int ms = 0;
        start_sends(n, len, round);
        while (round != atomic_load(word) && ms++ < PATIENCE_MS) {
            usleep(1000);
        }
        TM_CHECK(ms < PATIENCE_MS, "%d messages of %d bytes do not arrive without their sender", n,
                 len);
        TM_MPI(MPI_Waitall(n, req, MPI_STATUSES_IGNORE));
    } else {
        receive(n, len, round);
        atomic_store(word, round);
    }
}

/* Rank 0 calls MPI now and then. */
static void seldom(int n, int len, int round)
{
    int flag = 0;

    if (1 == tm_rank) {
        receive(n, len, round);
        return;
    }
    start_sends(n, len, round);
    while (!flag) {
        usleep((unsigned) (rand() % 300)); /* NOLINT: any will do */
        for (int i = rand() % 4; i >= 0 && !flag; i--) {
            TM_MPI(MPI_Testall(n, req, &flag, MPI_STATUSES_IGNORE));
        }
    }
    memset(buf, 0x55, (size_t) n * LONGEST);
}

/* As many at once as leave alone after a poll, which each barrier has. */
static void few(atomic_int *word, int len)
{
    for (int round = 1; round <= ROUNDS; round++) {
        absent(word, 1 + round % WINDOW, len, round);
        TM_MPI(MPI_Barrier(MPI_COMM_WORLD));
    }
}

int main(int argc, char **argv)
{
    atomic_int *word;
    int round = 0, len;

    tm_init(&argc, &argv, "absent");
    if (!tm_is_pml_tm()) {
        return tm_skip("others need the sender, or not, by their own rules");
    }
    buf = tm_calloc(WINDOW, LONGEST);
    word = tm_shared_word();
    len = (int) tm_arg(argc, argv, 1, 0);
    if (0 != len) {
        few(word, len);
        return tm_finish();
    }
    for (int i = 0; i < (int) (sizeof(lengths) / sizeof(lengths[0])); i++) {
        for (int n = 1; n <= WINDOW; n++) {
            absent(word, n, lengths[i], ++round);
        }
    }
    for (int i = 0; i < ROUNDS; i++) {
        seldom(1 + i % WINDOW, lengths[i % 4], ++round);
    }
    munmap(word, sizeof(*word));
    free(buf);
    return tm_finish();
}
