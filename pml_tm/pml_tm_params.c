/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The table of the parameters of pml tm.
 */
#include "pml_tm_params.h"

#include <limits.h>
#include <stdio.h>

#include "pml_tm_wire.h"

static const fab_param_t rows[] = {
    {
        .name = "priority",
        .type = FAB_PARAM_INT,
        .level = 3,
        .offset = offsetof(mca_pml_tm_params_t, priority),
        .number = 10,
        .min = 0,
        .max = 100,
        .help = "Priority of pml tm when no PML is named. The highest wins: ob1 has 20, ucx 51 or "
                "19. \"--mca pml tm\" selects it whatever its priority.",
    },
    {
        .name = "verbose",
        .type = FAB_PARAM_INT,
        .level = 2,
        .offset = offsetof(mca_pml_tm_params_t, verbose),
        .number = 0,
        .min = 0,
        .max = 100,
        .help = "From 10 on, the first process prints a table of the ways to its peers: provider, "
                "protocol by message size, single-copy mechanism or why there is none; from 20 on, "
                "every process does. From 1 on, why a provider cannot be used.",
    },
    {
        .name = "wait",
        .type = FAB_PARAM_STRING,
        .level = 4,
        .offset = offsetof(mca_pml_tm_params_t, wait),
        .string = "auto",
        .words = {"auto", "spin", "yield", "sleep"},
        .help = "What a call does that waits and finds nothing. spin: polls on; yield: lets others "
                "have the processor; sleep: yields, and sleeps up to 1 ms when it takes long; "
                "auto: sleep if the job has more processes on this host than processors, by "
                "affinity and control group, else spin.",
    },
    {
        .name = "eager_limit",
        .type = FAB_PARAM_INT,
        .level = 4,
        .offset = offsetof(mca_pml_tm_params_t, eager_limit),
        .number = 16384,
        .min = 0,
        .max = INT_MAX,
        .unit = "bytes",
        .help = "Longest message that is sent with its data before its receive is known (eager "
                "protocol); longer ones are announced and then fetched (rendezvous). A provider "
                "may set a lower limit, shown by pml_tm_verbose. Higher values favour latency of "
                "messages that are expected, lower values the memory of receivers that are late.",
    },
    {
        .name = "stream_limit",
        .type = FAB_PARAM_INT,
        .level = 5,
        .offset = offsetof(mca_pml_tm_params_t, stream_limit),
        .number = 65536,
        .min = 0,
        .max = INT_MAX,
        .unit = "bytes",
        .help = "Longest message that goes through shared memory in fragments of 4 KiB, so "
                "that the receiver copies one out while the sender copies the next in; 0: "
                "none. Longer ones are read from the sender's memory by the receiver. Of a "
                "message above eager_limit the first eager_limit bytes go at once, the rest "
                "when the receiver asks for it.",
    },
    {
        .name = "tag_source_bits",
        .type = FAB_PARAM_INT,
        .level = 6,
        .offset = offsetof(mca_pml_tm_params_t, tag_source_bits),
        .number = 0,
        .min = PML_TM_SOURCE_BITS_MIN,
        .max = PML_TM_SOURCE_BITS_MAX,
        .unit = "bits",
        .special_means = "enough for this job, and at least 16",
        .help = "Part of the 64-bit fabric tag that holds the source rank. Of 32 bits the rest "
                "holds the communicator: with 16 there can be 65536 of them. Must be the same in "
                "all jobs that communicate.",
    },
    {
        .name = "unexpected_max",
        .type = FAB_PARAM_SIZE,
        .level = 4,
        .offset = offsetof(mca_pml_tm_params_t, unexpected_max),
        .number = 64 << 20,
        .min = 65536,
        .max = LLONG_MAX,
        .unit = "bytes",
        .help = "Memory for messages that arrived before their receive was posted. Past this, "
                "senders hold their messages back until half of it is free; where a receive waits "
                "for one of them they go on. The shortest message takes 240 bytes.",
    },
    {
        .name = "progress_interval",
        .type = FAB_PARAM_INT,
        .level = 7,
        .offset = offsetof(mca_pml_tm_params_t, progress_interval),
        .number = 32,
        .min = 1,
        .max = 1000000,
        .unit = "polls",
        .help = "In a blocking call, polls of pml tm before one of everything else in Open MPI. "
                "Lower values serve others sooner, higher ones lower the latency.",
    },
    {
        .name = "close_timeout",
        .type = FAB_PARAM_INT,
        .level = 5,
        .offset = offsetof(mca_pml_tm_params_t, close_timeout),
        .number = 60,
        .min = 0,
        .max = 86400,
        .unit = "seconds",
        .help = "How long a process which ends, or disconnects, waits for peers that do not take "
                "what is queued for them: answers to their messages, sends that the program freed. "
                "Raise it where processes compute for longer between two calls of MPI.",
    },
    {
        .name = "fast_paths",
        .type = FAB_PARAM_INT,
        .level = 9,
        .offset = offsetof(mca_pml_tm_params_t, fast_paths),
        .number = PML_TM_FAST_ALL,
        .min = 0,
        .max = PML_TM_FAST_ALL,
        .help = "Shorter ways for common cases that are used, as a sum. 1: a blocking call polls "
                "for messages alone most times, and takes no more of them when it has what it "
                "waits for. 2: receives and short messages that meet in order. 4: short messages "
                "straight into the ring of a peer on this host. 8: requests without callback are "
                "completed at once. 16: an MPI_Waitall of its own. 32: MPI_Recv without a "
                "request, of a message that is there. For tests.",
    },
    {
        .name = "free_list_num",
        .type = FAB_PARAM_INT,
        .level = 8,
        .offset = offsetof(mca_pml_tm_params_t, free_list_num),
        .number = 16,
        .min = 0,
        .max = 1000000,
        .unit = "requests",
        .help = "Requests of each kind allocated at start.",
    },
    {
        .name = "free_list_max",
        .type = FAB_PARAM_INT,
        .level = 8,
        .offset = offsetof(mca_pml_tm_params_t, free_list_max),
        .number = -1,
        .min = 1,
        .max = INT_MAX,
        .unit = "requests",
        .special = -1,
        .special_means = "no limit",
        .help = "Most requests of each kind that can exist, at least free_list_num. A call that "
                "needs one more fails with MPI_ERR_NO_MEM or its like.",
    },
    {
        .name = "free_list_inc",
        .type = FAB_PARAM_INT,
        .level = 8,
        .offset = offsetof(mca_pml_tm_params_t, free_list_inc),
        .number = 64,
        .min = 1,
        .max = 1000000,
        .unit = "requests",
        .help = "Requests allocated at once when they run out.",
    },
};

const fab_param_table_t mca_pml_tm_param_table = FAB_PARAM_TABLE(rows);

int mca_pml_tm_params_check(const mca_pml_tm_params_t *params, char *buf, size_t size)
{
    int rc = fab_param_check(&mca_pml_tm_param_table, params, "pml_tm_", buf, size);

    if (OPAL_SUCCESS == rc && -1 != params->free_list_max &&
        params->free_list_max < params->free_list_num) {
        snprintf(buf, size,
                 "pml_tm_free_list_max is %d; it must be -1, or at least "
                 "pml_tm_free_list_num, which is %d.",
                 params->free_list_max, params->free_list_num);
        rc = OPAL_ERR_BAD_PARAM;
    }
    return rc;
}
