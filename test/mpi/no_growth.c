/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * There is no memory for more of a ring than what every message needs: messages of all lengths
 * arrive all the same, one by one and in windows, contiguous or not, and also when memory has come
 * back.  The kernel that refuses is the function madvise() below.
 */
/* TEST: np=2 ldflags=-rdynamic env="OMPI_MCA_pml_tm_providers=shm OMPI_MCA_pml_tm_shm_ring_size=1048576" timeout=60 quick=yes */
/* TEST: np=2 ldflags=-rdynamic env="OMPI_MCA_pml_tm_providers=shm OMPI_MCA_pml_tm_shm_ring_size=1048576 OMPI_MCA_pml_tm_shm_single_copy=none" timeout=60 */
#include <errno.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "tm_counter.h"

enum { LONGEST = 524288, STEP = 16384, WINDOW = 16, PAGE = 4096, POPULATE_WRITE = 23 };

static bool is_refusing;
static uint32_t *buf, *packed;

int madvise(void *addr, size_t len, int advice)
{
    if (is_refusing && POPULATE_WRITE == advice && len > PAGE) {
        errno = ENOMEM;
        return -1;
    }
    return (int) syscall(SYS_madvise, addr, len, advice);
}

/* Elements of four bytes: data[i] at buf[gap * i]. */
static void spread(uint32_t *to, const uint32_t *data, int num, int gap)
{
    for (int i = 0; i < num; i++) {
        to[i * gap] = data[i];
    }
}

/* n messages at once, of num elements each, which have gaps between them in the sender's memory. */
static void talk(int n, int num, int gap, MPI_Datatype type)
{
    const size_t len = 4 * (size_t) num;
    MPI_Request req[WINDOW];

    for (int i = 0; i < n; i++) {
        uint32_t *at = buf + (size_t) i * LONGEST / 2;
        if (0 == tm_rank) {
            tm_fill(packed, len, tm_key(0, 1, num, i));
            spread(at, packed, num, gap);
            TM_MPI(MPI_Isend(at, num, type, 1, i, MPI_COMM_WORLD, &req[i]));
        } else {
            TM_MPI(MPI_Irecv(at, num, MPI_UINT32_T, 0, i, MPI_COMM_WORLD, &req[i]));
        }
    }
    TM_MPI(MPI_Waitall(n, req, MPI_STATUSES_IGNORE));
    for (int i = 0; i < n && 1 == tm_rank; i++) {
        tm_expect_data(buf + (size_t) i * LONGEST / 2, len, tm_key(0, 1, num, i), "message");
    }
}

static void talk_all(int gap, MPI_Datatype type)
{
    for (int len = 4; len <= LONGEST; len = len < STEP ? 2 * len : len + STEP) {
        talk(1, len / 4, gap, type);
    }
    for (int len = STEP; len <= LONGEST; len *= 2) {
        talk(WINDOW, len / 4, gap, type);
    }
}

int main(int argc, char **argv)
{
    tm_counter_t refused;
    MPI_Datatype wide;

    tm_init(&argc, &argv, "no_growth");
    if (!tm_is_pml_tm()) {
        return tm_skip("others have no such rings");
    }
    buf = tm_calloc(WINDOW, 2 * LONGEST);
    packed = tm_calloc(1, LONGEST);
    refused = tm_counter_open("pml_tm_shm_extend_refused");
    TM_MPI(MPI_Type_create_resized(MPI_UINT32_T, 0, 8, &wide));
    TM_MPI(MPI_Type_commit(&wide));
    is_refusing = true;
    talk_all(1, MPI_UINT32_T);
    talk_all(2, wide);
    TM_CHECK(1 == tm_rank || 0 != tm_counter_read(&refused), "no ring was to grow");
    is_refusing = false;
    talk_all(1, MPI_UINT32_T);
    TM_MPI(MPI_Type_free(&wide));
    tm_counter_close(&refused);
    free(packed);
    free(buf);
    return tm_finish();
}
