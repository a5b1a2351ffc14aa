/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Does pml ob1 send by btl fabric? Only where it is named: in a host vader (sm) is before it.
 *
 * args: "yes" or "no": what is expected
 */
/* TEST: np=2 pml=ob1 args="no" stderr="Unable to find reachable pairing" */
/* TEST: np=2 pml=ob1 args="yes" env="OMPI_MCA_btl=fabric" */
#include "tm_counter.h"

int main(int argc, char **argv)
{
    static char buf[100000];
    unsigned long long sent;
    tm_counter_t sends;
    bool is_expected;

    tm_init(&argc, &argv, "btl_choice");
    is_expected = argc > 1 && 0 == strcmp(argv[1], "yes");
    sends = tm_counter_open("btl_fabric_sends");
    for (int len = 1; len <= (int) sizeof(buf); len *= 10) {
        TM_MPI(MPI_Sendrecv_replace(buf, len, MPI_BYTE, 1 - tm_rank, 1, 1 - tm_rank, 1,
                                    MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    }
    sent = tm_counter_read(&sends);
    tm_counter_close(&sends);
    TM_CHECK(is_expected == (0 != sent), "btl fabric has sent %llu messages", sent);
    return tm_finish();
}
