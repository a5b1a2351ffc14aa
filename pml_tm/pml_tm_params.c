/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The table of the parameters of pml tm.
 */
#include "pml_tm_params.h"

#include "pml_tm_sizes.h"
#include "pml_tm_wire.h"

#include <limits.h>
#include <stdio.h>

static bool is_absolute(const char *value)
{
    return '/' == value[0];
}

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
        .help = "From 10 on, the first process prints a table of the paths to its peers: provider, "
                "protocol by message size, and single-copy mechanism, or why there is none. From "
                "20 on, every process does. From 1 on, messages say why a provider cannot be used.",
    },
    {
        .name = "wait",
        .type = FAB_PARAM_STRING,
        .level = 4,
        .offset = offsetof(mca_pml_tm_params_t, wait),
        .string = "auto",
        .words = {"auto", "spin", "yield", "sleep"},
        .help = "What a waiting call does after a poll that found nothing. spin: polls again; "
                "yield: yields the processor; sleep: yields, and after many such polls sleeps up "
                "to 1 ms; auto: sleep if the job has more processes on this host than processors "
                "(by affinity and control group), else spin.",
    },
    {
        .name = "eager_limit",
        .type = FAB_PARAM_INT,
        .level = 4,
        .offset = offsetof(mca_pml_tm_params_t, eager_limit),
        .number = PML_TM_EAGER_LIMIT,
        .min = 0,
        .max = INT_MAX,
        .unit = "bytes",
        .help = "Longest message that is sent with its data before its receive is known (eager "
                "protocol); longer ones are announced and then fetched (rendezvous). A provider "
                "may set a lower limit, shown by pml_tm_verbose. Higher values reduce the latency "
                "of expected messages, lower values the memory that late receivers need.",
    },
    {
        .name = "stream_limit",
        .type = FAB_PARAM_INT,
        .level = 5,
        .offset = offsetof(mca_pml_tm_params_t, stream_limit),
        .number = -1,
        .min = 0,
        .max = PML_TM_STREAM_NOW_MAX,
        .unit = "bytes",
        .special = -1,
        .special_means =
            "65536, where the receiver does not measure that it is faster to read them; 0 if "
            "waiting processes yield (wait)",
        .help =
            "Longest message that goes through shared memory in fragments of 8 KiB, so that the "
            "receiver copies one fragment out while the sender copies the next one in: of those "
            "above eager_limit the ones that a blocking call sends. 0: no message.",
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
        .special_means = "enough for this job, but at least 16",
        .help = "Bits of the fabric tag for the source rank. The rest of 32 bits is for the "
                "communicator: with 16, a process can have 65536 communicators. Must be the same "
                "in all jobs that communicate.",
    },
    {
        .name = "unexpected_max",
        .type = FAB_PARAM_SIZE,
        .level = 4,
        .is_live = true,
        .offset = offsetof(mca_pml_tm_params_t, unexpected_max),
        .number = 64 << 20,
        .min = 65536,
        .max = LLONG_MAX,
        .unit = "bytes",
        .help =
            "Memory for messages that arrive before their receive is posted. Past this limit, "
            "senders hold their messages back until half of the memory is free, except "
            "messages for which a receive waits. The shortest message takes 240 bytes. MPI_T may "
            "change it while the program runs.",
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
        .help =
            "Number of polls of pml tm in a blocking call before Open MPI's other components are "
            "polled once. Lower values serve these sooner, higher values reduce the latency.",
    },
    {
        .name = "progress_thread",
        .type = FAB_PARAM_INT,
        .level = 4,
        .offset = offsetof(mca_pml_tm_params_t, progress_thread),
        .number = 0,
        .min = 0,
        .max = 1,
        .help = "1: a thread of each process makes progress while the program computes. Each MPI "
                "call then takes locks, as with MPI_THREAD_MULTIPLE. For programs that compute "
                "while long messages are in flight, on hosts with a spare processor.",
    },
    {
        .name = "close_timeout",
        .type = FAB_PARAM_INT,
        .level = 5,
        .is_live = true,
        .offset = offsetof(mca_pml_tm_params_t, close_timeout),
        .number = 60,
        .min = 0,
        .max = 86400,
        .unit = "seconds",
        .help = "How long a process that ends, or disconnects, waits for peers to take queued "
                "messages: answers to their messages, sends that the program freed, and what the "
                "network took no more of. Raise it if processes compute for longer between two "
                "MPI calls. MPI_T may change it while the program runs.",
    },
    {
        .name = "report",
        .type = FAB_PARAM_INT,
        .level = 3,
        .offset = offsetof(mca_pml_tm_params_t, report),
        .number = 0,
        .min = 0,
        .max = 1,
        .help = "1: MPI_Finalize prints one page for the job: how its messages went, how long it "
                "waited, and what could be done to make it faster. Give all processes the same "
                "value.",
    },
    {
        .name = "report_after",
        .type = FAB_PARAM_INT,
        .level = 3,
        .is_live = true,
        .offset = offsetof(mca_pml_tm_params_t, report_after),
        .number = 0,
        .min = 1,
        .max = 1000000,
        .unit = "seconds",
        .special = 0,
        .special_means = "no report",
        .help =
            "A call that waits for so long asks the processes that it waits for what they wait "
            "for, and reports what it finds: who waits for whom, in a circle or for one rank, "
            "and messages that nearly fit. It does so again after two and four times as long. "
            "A report never ends the job. Give all processes the same value. MPI_T may change it "
            "while the program runs.",
    },
    {
        .name = "report_signal",
        .type = FAB_PARAM_INT,
        .level = 4,
        .offset = offsetof(mca_pml_tm_params_t, report_signal),
        .number = 0,
        .min = 1,
        .max = 64,
        .special = 0,
        .special_means = "none",
        .help = "Number of a signal that makes a process report at once what it waits for; with "
                "mpirun of Open MPI 4.1, 10 (SIGUSR1) or 12 (SIGUSR2) sent to mpirun reaches all "
                "processes. A process that has not called MPI since the last such signal prints "
                "its stack.",
    },
    {
        .name = "report_file",
        .type = FAB_PARAM_STRING,
        .level = 4,
        .offset = offsetof(mca_pml_tm_params_t, report_file),
        .is_valid = is_absolute,
        .form = "an absolute path, the beginning of a file's name",
        .empty_means = "no file",
        .help = "Each report is written for programs, too, as a JSON document: VALUE.end.json (of "
                "report) and VALUE.wait.RANK.N.json (the N-th of a rank, of report_after or "
                "report_signal). The directory must exist.",
    },
    {
        .name = "fast_paths",
        .type = FAB_PARAM_INT,
        .level = 9,
        .offset = offsetof(mca_pml_tm_params_t, fast_paths),
        .number = PML_TM_FAST_ALL,
        .min = 0,
        .max = PML_TM_FAST_ALL,
        .help =
            "Fast paths for common cases, as a sum. 1: a blocking call mostly polls only for "
            "messages, and takes no more of them once it has what it waits for. 2: receives and "
            "short messages that match in order. 4: short messages are written straight into the "
            "ring of a peer on this host. 8: requests without callback are completed at once. 16: "
            "MPI_Wait and MPI_Waitall of pml tm itself. 32: MPI_Recv of a message that has "
            "arrived, without a request. 64: 2, 4, 32 and 128 for longer messages, too. 128: "
            "MPI_Wait and MPI_Waitall look at the ring of the sender that they wait for. 256: data "
            "in blocks, regular or not, is packed without Open MPI's convertor. For tests.",
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
        .help = "Limit for the number of requests of each kind; at least free_list_num. A call "
                "that needs one more fails with MPI_ERR_NO_MEM or a similar error.",
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
