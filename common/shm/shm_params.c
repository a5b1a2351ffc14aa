/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The table of the parameters of the provider shm.
 */
#include "fabric/fab_params.h"

#include "shm/shm_wire.h"

static const fab_param_t shm_rows[] = {
    {
        FAB_PARAM(fab_params_t, shm_ring_size, UINT, 5),
        FAB_PARAM_NUMBER(0, FAB_SHM_RING_MIN, FAB_SHM_RING_MAX),
        .unit = "bytes",
        .is_power_of_two = true,
        .special_means = "262144, or 524288 with a second-level cache of 2 MiB or more and up to 4 "
                         "processes of the job on the host; more than 8: 131072, more than 16: "
                         "65536, more than 128: 8 MiB divided by their number, at least 16 KiB",
        .help = "Size of the shared-memory ring that a sender uses towards one receiver. A larger "
                "ring holds more messages before a sender must wait. Of a long one 64 KiB are "
                "used, and take memory, until 1 MiB has been sent, and a message of more than 300 "
                "bytes.",
    },
    {
        FAB_PARAM(fab_params_t, shm_max_peers, UINT, 5),
        FAB_PARAM_NUMBER(0, 1, FAB_SHM_RINGS_MAX),
        .unit = "processes",
        .special_means =
            "the processes of the job on this host, and 1024 more that may join later, or fewer "
            "where the size of files or the address space is limited (ulimit -f, -v)",
        .help = "Processes of the same host that can send to this process through shared memory at "
                "the same time; others wait until one of them leaves. A high value costs address "
                "space; only processes that do send take memory.",
    },
    {
        FAB_PARAM(fab_params_t, shm_copy_step, UINT, 5),
        FAB_PARAM_NUMBER(4 << 20, 4096, 1 << 30),
        .unit = "bytes",
        .help = "How much one progress call copies with CMA (process_vm_readv) before it serves "
                "other messages; with MPI_THREAD_MULTIPLE at most 1 MiB. 4 MiB is what the kernel "
                "looks up at a time; with a smaller step other messages wait less (1 MiB takes 60 "
                "to 170 us).",
    },
    {
        FAB_PARAM(fab_params_t, shm_single_copy, STRING, 4),
        .string = "auto",
        .words = {"auto", "cma", "none"},
        .help = "Mechanism that copies large messages between processes of one host only once. "
                "auto: XPMEM where both processes have it, but not with fault tolerance; else as "
                "cma: the kernel (process_vm_readv) if a test call on the peer succeeds, else the "
                "rings (two copies); none: always the rings.",
    },
    {
        FAB_PARAM(fab_params_t, shm_cooperative, STRING, 5),
        .string = "auto",
        .words = {"auto", "none", "always"},
        .help = "Whether a sender that is inside an MPI call copies a part of a large message into "
                "the ring itself, so that the receiver reads only the rest. auto: where the "
                "receiver measures that it is faster, if the job has a processor for each of its "
                "processes on this host; none: never; always: always.",
    },
};

const fab_param_table_t fab_shm_params = FAB_PARAM_TABLE(shm_rows);
