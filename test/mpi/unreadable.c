/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory that the processor reads and writes but the kernel does not pin, as memfd_secret(2) makes
 * it, or a mapped device: process_vm_readv() copies up to it and says EFAULT.  Messages out of it
 * and into it arrive, also where only a part of the buffer is such memory.
 *
 * Memory that is read only when it is sent, and writable when a message is received into it,
 * likewise.
 *
 * The region is of memfd_secret() where that can be had; where not, and for the part of a region,
 * process_vm_readv() is played here: this program's is used instead of libc's.
 */
/* TEST: np=2 ldflags=-rdynamic timeout=60 */
/* TEST: np=2 ldflags=-rdynamic device=tmdev env="OMPI_MCA_pml_tm_providers=^shm,tcp OMPI_MCA_mtl=^ofi OMPI_MCA_mpi_leave_pinned=1" timeout=60 */
#include <errno.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "tm_test.h"

enum { REGION = 1 << 20, BUFFER = 3 << 20 };

/* The same in all processes: one that reads another's memory knows its region as well. */
static unsigned char *const region = (unsigned char *) UINT64_C(0x600000000000);

/* Bytes of an iovec's buffer that lie before the region. */
static size_t before_region(const struct iovec *iov)
{
    uintptr_t at = (uintptr_t) iov->iov_base, start = (uintptr_t) region;

    if (at + iov->iov_len <= start || at >= start + REGION) {
        return iov->iov_len;
    }
    return at < start ? start - at : 0;
}

ssize_t process_vm_readv(pid_t pid, const struct iovec *local, unsigned long num_local,
                         const struct iovec *remote, unsigned long num_remote, unsigned long flags)
{
    struct iovec part[2][2];
    unsigned long n = 0;

    if (num_local != num_remote || num_local > 2) {
        errno = EINVAL;
        return -1;
    }
    for (bool is_whole = true; n < num_local && is_whole; n++) {
        size_t max = before_region(&local[n]);
        size_t remote_max = before_region(&remote[n]);
        max = max < remote_max ? max : remote_max;
        is_whole = max == local[n].iov_len;
        part[0][n] = (struct iovec){local[n].iov_base, max};
        part[1][n] = (struct iovec){remote[n].iov_base, max};
        if (0 == max && !is_whole) {
            break;
        }
    }
    if (0 == n) {
        errno = EFAULT;
        return -1;
    }
    return syscall(SYS_process_vm_readv, pid, part[0], n, part[1], n, flags);
}

/* REGION bytes at `region` that are not to be pinned, and memory before and behind them. */
static bool map_region(void)
{
    unsigned char *at = region - REGION;
    int fd = (int) syscall(SYS_memfd_secret, 0);

    if (at != mmap(at, BUFFER, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0)) {
        return false;
    }
    if (fd >= 0) {
        /* tried elsewhere first: it is locked memory, of which there may not be enough */
        void *tried = 0 == ftruncate(fd, REGION)
                          ? mmap(NULL, REGION, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0)
                          : MAP_FAILED;
        if (MAP_FAILED != tried) {
            munmap(tried, REGION);
            (void) mmap(region, REGION, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0);
        }
        close(fd);
    }
    return true;
}

/* A device must not take it for writable, nor keep it as read only. */
static void read_only_first(void)
{
    unsigned char *buf = mmap(NULL, BUFFER, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
                              0);

    if (MAP_FAILED == buf) {
        TM_FATAL("no memory");
    }
    tm_fill(buf, BUFFER, 7);
    mprotect(buf, BUFFER, PROT_READ);
    if (0 == tm_rank) {
        TM_MPI(MPI_Send(buf, BUFFER, MPI_BYTE, 1, 1, MPI_COMM_WORLD));
        mprotect(buf, BUFFER, PROT_READ | PROT_WRITE);
        memset(buf, 0, BUFFER);
        TM_MPI(MPI_Recv(buf, BUFFER, MPI_BYTE, 1, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    } else {
        mprotect(buf, BUFFER, PROT_READ | PROT_WRITE);
        memset(buf, 0, BUFFER);
        TM_MPI(MPI_Recv(buf, BUFFER, MPI_BYTE, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        TM_MPI(MPI_Send(buf, BUFFER, MPI_BYTE, 0, 2, MPI_COMM_WORLD));
    }
    tm_expect_data(buf, BUFFER, 7, "memory that was read only");
    munmap(buf, BUFFER);
}

int main(int argc, char **argv)
{
    static unsigned char plain[BUFFER];
    unsigned char *buf = region - REGION;
    /* in front of it, in it, behind it, across its begin, its end, all of it */
    static const int parts[][2] = {
        {0, REGION},          {REGION, REGION},         {2 * REGION, REGION},
        {REGION / 2, REGION}, {3 * REGION / 2, REGION}, {100, BUFFER - 100}};

    tm_init(&argc, &argv, "unreadable");
    if (!map_region()) {
        printf("unreadable: the address range is in use\n");
        return 1;
    }
    for (int i = 0; i < 6; i++) {
        for (int mode = 1; mode <= 3; mode++) { /* sender's, receiver's memory, both */
            unsigned char *from = 0 != (mode & 1) ? buf : plain,
                          *to = 0 != (mode & 2) ? buf : plain;
            if (0 == tm_rank) {
                tm_fill(from + parts[i][0], (size_t) parts[i][1], (uint64_t) i);
                MPI_Send(from + parts[i][0], parts[i][1], MPI_BYTE, 1, i, MPI_COMM_WORLD);
            } else {
                MPI_Status status;
                int count;
                memset(to, 0, BUFFER);
                MPI_Recv(to + parts[i][0], parts[i][1], MPI_BYTE, 0, i, MPI_COMM_WORLD, &status);
                MPI_Get_count(&status, MPI_BYTE, &count);
                TM_CHECK(count == parts[i][1], "part %d, mode %d: %d bytes", i, mode, count);
                TM_CHECK(tm_is(to + parts[i][0], (size_t) parts[i][1], (uint64_t) i),
                         "part %d, mode %d: other bytes", i, mode);
            }
        }
    }
    read_only_first();
    return tm_finish();
}
