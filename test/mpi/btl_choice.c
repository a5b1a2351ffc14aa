/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * When is btl fabric used?  It sends messages of pml ob1 only where it is named: in a host vader
 * (sm) is before it.  It serves windows also if the PML is tm.  In other jobs it reaches nobody.
 *
 * args: "messages" and "windows", if it is used for these
 */
/* TEST: np=2 pml=ob1 args="messages windows" env="OMPI_MCA_btl=fabric OMPI_MCA_osc=rdma" */
/* of the BTLs that reach all, osc/rdma takes that of the lowest latency */
/* TEST: np=2 pml=ob1 env="OMPI_MCA_osc=rdma OMPI_MCA_btl_fabric_latency=0" stderr="Unable to find reachable pairing" */
/* TEST: np=2 pml=none env="OMPI_MCA_pml_ob1_priority=1000 OMPI_MCA_osc=rdma OMPI_MCA_btl_fabric_latency=0" stderr="Unable to find reachable pairing" */
/* TEST: np=2 args="windows" env="OMPI_MCA_osc=rdma OMPI_MCA_btl_fabric_latency=0" stderr="Unable to find reachable pairing" */
#include "tm_counter.h"

static void send_some(void)
{
    static char buf[100000];

    for (int len = 1; len <= (int) sizeof(buf); len *= 10) {
        TM_MPI(MPI_Sendrecv_replace(buf, len, MPI_BYTE, 1 - tm_rank, 1, 1 - tm_rank, 1,
                                    MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    }
}

static void add_some(void)
{
    int64_t word = 0, one = 1, old;
    MPI_Win win;

    TM_MPI(MPI_Win_create(&word, sizeof(word), sizeof(word), MPI_INFO_NULL, MPI_COMM_WORLD, &win));
    TM_MPI(MPI_Win_fence(0, win));
    TM_MPI(MPI_Fetch_and_op(&one, &old, MPI_INT64_T, 1 - tm_rank, 0, MPI_SUM, win));
    TM_MPI(MPI_Win_fence(0, win));
    TM_CHECK(1 == word, "the window has %lld", (long long) word);
    TM_MPI(MPI_Win_free(&win));
}

/* How much does the counter grow while this is done?  It must be 0 unless that is expected. */
static void check(const char *name, void (*fn)(void), bool is_expected)
{
    tm_counter_t counter = tm_counter_open(name);
    unsigned long long grown;

    fn();
    grown = tm_counter_read(&counter);
    tm_counter_close(&counter);
    TM_CHECK(is_expected == (0 != grown), "%s has grown by %llu", name, grown);
}

int main(int argc, char **argv)
{
    bool sends = false, adds = false;

    for (int i = 1; i < argc; i++) {
        sends |= 0 == strcmp(argv[i], "messages");
        adds |= 0 == strcmp(argv[i], "windows");
    }
    tm_init(&argc, &argv, "btl_choice");
    check("btl_fabric_sends", send_some, sends);
    check("btl_fabric_atomics", add_some, adds);
    return tm_finish();
}
