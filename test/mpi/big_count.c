/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Counts of 2^31 elements and more (MPI_Send_c and its like, MPI 4.0), in little memory: a buffer
 * of gigabytes is one unit of memory, mapped again and again.  The unit's length divides no power
 * of two, so that an offset of which high bits are lost gives other data.
 */
/* TEST: np=2 ompi=6.0 timeout=300 */
/* TEST: np=2 ompi=6.0 env="OMPI_MCA_pml_tm_shm_single_copy=none" timeout=300 */
#include <sys/mman.h>

#include "tm_test.h"

enum { TAG = 3 };

static const size_t unit = 509 * 4096;

static MPI_Comm comm;

/* n bytes, and the unit that they are made of. */
static unsigned char *map(size_t n)
{
    size_t all = (n + unit - 1) / unit * unit;
    int fd = memfd_create("big_count", 0);
    unsigned char *at = mmap(NULL, all, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1,
                             0);

    if (fd < 0 || 0 != ftruncate(fd, (off_t) unit) || MAP_FAILED == at) {
        TM_FATAL("no %zu bytes of address space", all);
    }
    for (size_t done = 0; done < all; done += unit) {
        if (MAP_FAILED ==
            mmap(at + done, unit, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0)) {
            TM_FATAL("no %zu mappings of memory", all / unit);
        }
    }
    close(fd);
    return at;
}

static void unmap(unsigned char *at, size_t n)
{
    munmap(at, (n + unit - 1) / unit * unit);
}

static void check(const MPI_Status *st, MPI_Datatype type, MPI_Count count)
{
    MPI_Count got = -1;
    int small = 0;

    TM_CHECK(0 == st->MPI_SOURCE && TAG == st->MPI_TAG, "from %d, tag %d", st->MPI_SOURCE,
             st->MPI_TAG);
    TM_MPI(MPI_Get_count_c(st, type, &got));
    TM_CHECK(count == got, "MPI_Get_count_c gave %lld, expected %lld", (long long) got,
             (long long) count);
    TM_MPI(MPI_Get_elements_c(st, type, &got));
    TM_CHECK(count == got, "MPI_Get_elements_c gave %lld, expected %lld", (long long) got,
             (long long) count);
    TM_MPI(MPI_Get_count(st, type, &small));
    TM_CHECK(MPI_UNDEFINED == small, "MPI_Get_count gave %d, expected MPI_UNDEFINED", small);
}

/* So many elements, all of which are bytes that lie extent bytes apart, in each way to receive. */
static void transfer(MPI_Count count, size_t extent, int way)
{
    size_t n = (size_t) count * extent;
    unsigned char *buf = map(n);
    MPI_Datatype type;
    MPI_Request req;
    MPI_Status st;

    TM_MPI(MPI_Type_create_resized(MPI_BYTE, 0, (MPI_Aint) extent, &type));
    TM_MPI(MPI_Type_commit(&type));
    if (0 == tm_rank) {
        tm_fill(buf, unit, (uint64_t) way);
        if (0 == way % 2) {
            TM_MPI(MPI_Send_c(buf, count, type, 1, TAG, comm));
        } else {
            TM_MPI(MPI_Send_init_c(buf, count, type, 1, TAG, comm, &req));
            TM_MPI(MPI_Start(&req));
            TM_MPI(MPI_Wait(&req, MPI_STATUS_IGNORE));
            TM_MPI(MPI_Request_free(&req));
        }
        TM_MPI(MPI_Send(&way, 1, MPI_INT, 1, TAG, comm));
    } else {
        unsigned char *want = tm_alloc(unit);
        int behind = -1;

        memset(buf, 0xee, unit);
        tm_status_reset(&st);
        if (0 == way) {
            TM_MPI(MPI_Recv_c(buf, count, type, 0, TAG, comm, &st));
        } else if (1 == way) {
            TM_MPI(MPI_Irecv_c(buf, count, type, MPI_ANY_SOURCE, TAG, comm, &req));
            TM_MPI(MPI_Wait(&req, &st));
        } else {
            MPI_Message message;
            TM_MPI(MPI_Mprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, comm, &message, &st));
            check(&st, type, count);
            TM_MPI(MPI_Mrecv_c(buf, count, type, &message, &st));
        }
        check(&st, type, count);
        tm_fill(want, unit, (uint64_t) way);
        for (size_t i = 0; i < unit; i++) {
            /* with gaps, later elements fill those of earlier ones: the unit is of odd length */
            if (!TM_CHECK(want[i] == buf[i], "byte %zu of the unit is wrong", i)) {
                break;
            }
        }
        TM_MPI(MPI_Recv(&behind, 1, MPI_INT, 0, TAG, comm, MPI_STATUS_IGNORE));
        TM_CHECK(way == behind, "the message behind is %d, expected %d", behind, way);
        tm_free(want);
    }
    TM_MPI(MPI_Type_free(&type));
    unmap(buf, n);
    TM_MPI(MPI_Barrier(comm));
}

int main(int argc, char **argv)
{
    const MPI_Count over_int = ((MPI_Count) 1 << 31) + 12345;
    const MPI_Count over_word = ((MPI_Count) 1 << 32) + 54321;

    tm_init(&argc, &argv, "big_count");
    TM_MPI(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
    for (int way = 0; way < 3; way++) {
        transfer(over_int, 1, way);
    }
    transfer(over_word, 1, 1);
    transfer(over_int, 3, 2);
    TM_MPI(MPI_Comm_free(&comm));
    return tm_finish();
}
