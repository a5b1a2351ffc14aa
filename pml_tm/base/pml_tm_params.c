/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The table of the parameters of pml tm.
 */
#include "pml_tm/base/pml_tm_params.h"

#include "pml_tm/base/pml_tm_sizes.h"
#include "pml_tm/base/pml_tm_wire.h"

#include <limits.h>

static bool is_absolute(const char *value)
{
    return '/' == value[0];
}

static const fab_param_t rows[] = {
    {
        FAB_PARAM(mca_pml_tm_params_t, priority, INT, 3),
        FAB_PARAM_NUMBER(10, 0, 100),
        .help = "Priority of pml tm when no PML is named. The highest wins: ob1 has 20, ucx 51 or "
                "19. \"--mca pml tm\" selects it whatever its priority.",
    },
    {
        FAB_PARAM(mca_pml_tm_params_t, wait, STRING, 4),
        .string = "auto",
        .words = {"auto", "spin", "yield", "sleep"},
        .help = "What a waiting call does after a poll that found nothing. spin: polls again; "
                "yield: yields the processor; sleep: yields, and after many such polls sleeps up "
                "to 1 ms; auto: sleep if the job has more processes on this host than processors "
                "(by affinity and control group), else spin.",
    },
    {
        FAB_PARAM(mca_pml_tm_params_t, stream_limit, UINT, 5),
        FAB_PARAM_NUMBER(PML_TM_STREAM_LIMIT, 0, PML_TM_STREAM_MAX),
        .unit = "bytes",
        .help =
            "Longest message of a blocking send that goes through shared memory in fragments of 8 "
            "KiB, so that the receiver copies one fragment out while the sender copies the next "
            "one in. Where waiting processes yield (wait), messages above eager_limit that fit "
            "half of the ring do so, of nonblocking sends, too. 0: no message.",
    },
    {
        FAB_PARAM(mca_pml_tm_params_t, tag_source_bits, INT, 6),
        FAB_PARAM_NUMBER(0, PML_TM_SOURCE_BITS_MIN, PML_TM_SOURCE_BITS_MAX),
        .unit = "bits",
        .special_means = "enough for this job, but at least 16",
        .help = "Bits of the fabric tag for the source rank. The rest of 32 bits is for the "
                "communicator: with 16, a process can have 65536 communicators. Must be the same "
                "in all jobs that communicate.",
    },
    {
        FAB_PARAM(mca_pml_tm_params_t, unexpected_max, SIZE, 4),
        .is_live = true,
        FAB_PARAM_NUMBER(64 << 20, 65536, LLONG_MAX),
        .unit = "bytes",
        .help =
            "Memory for messages that arrive before their receive is posted. Past this limit, "
            "senders hold their messages back until half of the memory is free, except "
            "messages for which a receive waits. The shortest message takes 240 bytes. MPI_T may "
            "change it while the program runs.",
    },
    {
        FAB_PARAM(mca_pml_tm_params_t, progress_thread, INT, 4),
        FAB_PARAM_NUMBER(0, 0, 1),
        .help = "1: a thread of each process makes progress while the program computes. Each MPI "
                "call then takes locks, as with MPI_THREAD_MULTIPLE. For programs that compute "
                "while long messages are in flight, on hosts with a spare processor.",
    },
    {
        FAB_PARAM(mca_pml_tm_params_t, close_timeout, INT, 5),
        .is_live = true,
        FAB_PARAM_NUMBER(60, 0, 86400),
        .unit = "seconds",
        .help =
            "How long a process that ends, or disconnects, waits for peers to complete what "
            "has begun: answers to their messages, requests that the program freed, and data that "
            "the network no longer accepts. Raise it if processes compute for longer between two "
            "MPI calls. MPI_T may change it while the program runs.",
    },
    {
        FAB_PARAM(mca_pml_tm_params_t, report, INT, 3),
        FAB_PARAM_NUMBER(0, 0, 1),
        .help = "1: MPI_Finalize prints one table for the job: how its messages went, how long it "
                "waited, and what could be done to make it faster. Give all processes the same "
                "value.",
    },
    {
        FAB_PARAM(mca_pml_tm_params_t, report_after, INT, 1),
        .is_live = true,
        FAB_PARAM_NUMBER(0, 1, 1000000),
        .unit = "seconds",
        .special = 0,
        .special_means = "no report",
        .help =
            "A call that has waited this long asks the processes that it waits for what they wait "
            "for, and reports what it finds: which ranks wait for which, in a circle or for one "
            "rank, and messages that almost match. It reports again after two and four times as "
            "long. "
            "A report never ends the job. Give all processes the same value. MPI_T may change it "
            "while the program runs.",
    },
    {
        FAB_PARAM(mca_pml_tm_params_t, report_signal, INT, 4),
        FAB_PARAM_NUMBER(0, 1, 64),
        .is_signal = true,
        .special = 0,
        .special_means = "none",
        .help = "Number of a signal that makes a process report at once what it waits for; with "
                "mpirun of Open MPI 4.1, 10 (SIGUSR1) or 12 (SIGUSR2) sent to mpirun reaches all "
                "processes. A process that has not called MPI since the last such signal prints "
                "its stack.",
    },
    {
        FAB_PARAM(mca_pml_tm_params_t, report_file, STRING, 4),
        .is_valid = is_absolute,
        .form = "an absolute path, the beginning of a file's name",
        .empty_means = "no file",
        .help = "Each report is written for programs, too, as a JSON document: VALUE.end.json (of "
                "report) and VALUE.wait.RANK.N.json (the N-th of a rank, of report_after or "
                "report_signal). The directory must exist.",
    },
};

const fab_param_table_t mca_pml_tm_param_table = FAB_PARAM_TABLE(rows);
