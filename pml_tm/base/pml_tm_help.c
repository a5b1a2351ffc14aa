/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What pml tm tells the user, by topic (fab_help.h).
 */
#include "pml_tm/base/pml_tm_shared.h"

#include <stddef.h>

/* clang-format off */
const fab_help_topic_t mca_pml_tm_help[] = {
    {"bad-parameter",
     "The PML \"tm\" was asked for, but a parameter has a value it cannot take.\n"
     "\n"
     "  Host:      %s\n"
     "  Problem:   %s\n"
     "\n"
     "\"ompi_info --param pml tm --level 9\" explains every parameter with its\n"
     "range and default.\n"},
    {"unknown-parameter",
     "A parameter was given that the PML \"tm\" does not have. It has no effect.\n"
     "\n"
     "  Host:      %s\n"
     "  Given:     %s\n"
     "\n"
     "\"ompi_info --param pml tm --level 9\" lists all parameters.\n"},
    {"no-fabric",
     "The PML \"tm\" was asked for, but cannot exchange messages on this host.\n"
     "\n"
     "  Host:      %s\n"
     "  Problem:   %s\n"
     "\n"
     "\"--mca pml_tm_verbose 10\" lists every provider and why it was left out.\n"},
    {"several-hosts",
     "The PML \"tm\" was asked for, but this job has processes on other hosts,\n"
     "and no provider for other hosts (ofi, verbs, tcp) can be used here.\n"
     "\n"
     "  Host:      %s\n"
     "  Problem:   %s\n"
     "\n"
     "Check pml_tm_providers, pml_tm_tcp_if_include and pml_tm_tcp_if_exclude, or\n"
     "run all processes on one host.\n"},
    {"unreachable",
     "The PML \"tm\" cannot reach a process of this job.\n"
     "\n"
     "  From host:   %s\n"
     "  To process:  %s\n"
     "  ... on host: %s\n"
     "  Problem:     %s\n"
     "\n"
     "All processes that communicate must select pml tm (\"--mca pml tm\"), in the\n"
     "same version, and with the same pml_tm_providers.\n"},
    {"peer-failed",
     "The PML \"tm\" lost a process that this job needs; the job ends.\n"
     "\n"
     "  Host:           %s\n"
     "  This process:   %s\n"
     "  Lost process:   %s\n"
     "  ... on host:    %s\n"
     "  Problem:        %s\n"
     "\n"
     "If that process ended by an error of its own, its output says which. Otherwise\n"
     "see whether its host and the network to it are well.\n"},
    {"not-complete",
     "A process ends with messages of the PML \"tm\" that are not complete: the\n"
     "program has freed or forgotten requests, or a peer did not take answers to its\n"
     "own messages.  These receives do not have their data, and peers may wait for\n"
     "ever.\n"
     "\n"
     "  Host:             %s\n"
     "  This process:     %s\n"
     "  Waited:           %d s\n"
     "  Receives:         %u\n"
     "  Sends:            %u\n"
     "  Messages wait:    %s\n"
     "\n"
     "Find out why a peer called no MPI function for so long, or has ended. If it\n"
     "computes, --mca pml_tm_close_timeout SECONDS makes this process wait longer.\n"},
    {"tag-fields",
     "The PML \"tm\" packs communicator, source and tag of a message into 64 bits,\n"
     "and a new communicator does not fit.\n"
     "\n"
     "  Host:                      %s\n"
     "  Communicator's index:      %u (must be below %u)\n"
     "  Communicator's size:       %d (at most %u)\n"
     "  pml_tm_tag_source_bits:    %u\n"
     "\n"
     "More bits for the source allow larger communicators, fewer allow more\n"
     "communicators: set pml_tm_tag_source_bits to the same value for all jobs\n"
     "that communicate.\n"},
    {"no-memory",
     "The PML \"tm\" could not allocate memory to keep a message for which no\n"
     "receive is posted yet, and cannot go on without losing it.\n"
     "\n"
     "  Host:                                     %s\n"
     "  Bytes wanted:                             %lu\n"
     "  Bytes held in such messages:              %lu\n"
     "\n"
     "Post receives earlier, or lower pml_tm_unexpected_max: senders are held back\n"
     "when such messages take more memory than that.\n"},
    {"no-communicator",
     "The PML \"tm\" could not set up MPI_COMM_WORLD or MPI_COMM_SELF on host %s:\n"
     "there is not enough memory, or the tag has too few bits for this number of\n"
     "ranks. The job ends. Give its processes more memory, or use fewer of them on\n"
     "this host. If the tags are the cause, a message above says more.\n"},
    {NULL, NULL},
};
/* clang-format on */
