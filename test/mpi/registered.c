/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory that is sent again and again is registered once; memory that was unmapped, and is mapped
 * again at the same place, is registered anew.  Between processes that reach each other's memory by
 * a network only: over libfabric in ofi.sh, and in ofi_moods.sh, where libfabric has a cache, too,
 * and is to hear of it.
 */
/* TEST: np=2 device=tmdev env="OMPI_MCA_pml_tm_providers=^shm,tcp OMPI_MCA_mtl=^ofi OMPI_MCA_pml_tm_verbs_tm=none" timeout=60 */
#include <dlfcn.h>
#include <sys/mman.h>

#include "tm_counter.h"

enum { SIZE = 1 << 20, MESSAGES = 100 };

static unsigned char *buf;

static void map(int flags)
{
    void *at = mmap(buf, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | flags, -1, 0);

    if (MAP_FAILED == at || (NULL != buf && at != buf)) {
        TM_FATAL("no memory at %p", (void *) buf);
    }
    buf = at;
}

/* Messages from rank 0 to rank 1, one after the other, out of buf and into it. */
static void send_messages(int num, int round)
{
    MPI_Status status;

    for (int i = 0; i < num; i++) {
        if (0 == tm_rank) {
            tm_fill(buf, SIZE, tm_key(0, 1, i, round));
            TM_MPI(MPI_Send(buf, SIZE, MPI_BYTE, 1, i, MPI_COMM_WORLD));
        } else {
            TM_MPI(MPI_Recv(buf, SIZE, MPI_BYTE, 0, i, MPI_COMM_WORLD, &status));
            tm_expect_data(buf, SIZE, tm_key(0, 1, i, round), "message");
        }
    }
    TM_MPI(MPI_Barrier(MPI_COMM_WORLD));
}

/* Notices that libfabric's cache in test/ofidev got; 0: it is not there. */
static unsigned num_notified(void)
{
    unsigned (*notified)(void);

    *(void **) &notified = dlsym(RTLD_DEFAULT, "ofidev_notified");
    return NULL != notified ? notified() : 0;
}

/* The sender registers; the receiver does so if its device must. */
static void check(const tm_counter_t *counter, unsigned long long before, const char *what)
{
    unsigned long long num = tm_counter_read(counter) - before;

    TM_CHECK(0 == tm_rank ? 1 == num : 1 >= num, "%s: %llu registrations", what, num);
}

int main(int argc, char **argv)
{
    tm_counter_t counter;
    unsigned long long before;

    tm_init(&argc, &argv, "registered");
    if (!tm_is_pml_tm()) {
        return tm_skip("the counter is pml tm's");
    }
    counter = tm_counter_open("pml_tm_registrations");
    map(0);
    before = tm_counter_read(&counter);
    send_messages(MESSAGES, 0);
    check(&counter, before, "one buffer");

    before = num_notified();
    munmap(buf, SIZE);
    TM_CHECK(NULL == dlsym(RTLD_DEFAULT, "ofidev_notified") || num_notified() > before,
             "libfabric's cache was not told that memory was unmapped");
    map(MAP_FIXED_NOREPLACE);
    before = tm_counter_read(&counter);
    send_messages(2, 1);
    check(&counter, before, "mapped again");
    munmap(buf, SIZE);
    tm_counter_close(&counter);
    return tm_finish();
}
