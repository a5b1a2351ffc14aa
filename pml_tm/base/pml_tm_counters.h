/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Counters of pml_tm: plain, always counted, exported as MPI_T performance variables pml_tm_<name>.
 */
#ifndef PML_TM_COUNTERS_H
#define PML_TM_COUNTERS_H

#include <stddef.h>

/* How a message is sent: the counters NAME_sent. */
typedef enum {
    PML_TM_SENT_EAGER,
    PML_TM_SENT_EAGER_SYNC,
    PML_TM_SENT_RNDV,
    PML_TM_PROTOCOLS,
} mca_pml_tm_protocol_t;

enum { PML_TM_SIZE_CLASSES = 64 };

/* The class of a length, not 0: its highest bit. */
static inline unsigned mca_pml_tm_size_class(size_t len)
{
    return 63u - (unsigned) __builtin_clzll(len);
}

/* Messages by the class of their length (mca_pml_tm_size_class()), and all their bytes. */
typedef struct mca_pml_tm_sent {
    unsigned long long messages[PML_TM_SIZE_CLASSES];
    unsigned long long bytes;
} mca_pml_tm_sent_t;

/* X(name, help) */
#define PML_TM_COUNTERS(X)                                                                         \
    X(rndv_with_data, "announced messages that carried the first part of their data")              \
    X(streamed, "messages sent in fragments that both sides copy concurrently")                    \
    X(queued_sends, "sends that had to wait for room towards the receiver")                        \
    X(expected, "messages that found their receive posted")                                        \
    X(taken, "messages that MPI_Recv took without a request, or MPI_Wait or MPI_Waitall out of "   \
             "their sender's ring")                                                                \
    X(peeked, "probes that found their message in its sender's ring and left it there")            \
    X(unexpected, "messages that arrived before their receive")                                    \
    X(reused,                                                                                      \
      "unexpected messages of more than 16 KiB that were stored in memory of earlier ones")        \
    X(early, "messages that arrived before their communicator existed here")                       \
    X(untagged, "messages whose sender did not yet know the communicator's index in this process") \
    X(rndv_get_bytes, "bytes of rendezvous receives got from the sender's memory")                 \
    X(rndv_pipeline_bytes, "bytes of rendezvous receives whose data came in fragments")            \
    X(pipeline_not_contiguous,                                                                     \
      "rendezvous receives in fragments because the data has gaps, or is in memory of a "          \
      "device, on one side")                                                                       \
    X(pipeline_no_get,                                                                             \
      "rendezvous receives in fragments because the sender's memory cannot be read")               \
    X(cancelled, "sends and receives cancelled")                                                   \
    X(throttled, "times that a sender was told to hold its messages back")                         \
    X(held_sends,                                                                                  \
      "sends held back because the receiver is short of memory for unexpected messages")           \
    X(wait_yields, "times that a waiting call yielded its processor because processes or threads " \
                   "outnumber processors")                                                         \
    X(wait_sleeps, "times that a call slept after a long wait")                                    \
    X(wait_wakes, "sleeps that ended because data arrived by a network")                           \
    X(thread_events, "events that the progress thread found (pml_tm_progress_thread)")

typedef struct mca_pml_tm_counters {
#define PML_TM_COUNTER_FIELD(name, help) unsigned long long name;
    PML_TM_COUNTERS(PML_TM_COUNTER_FIELD)
#undef PML_TM_COUNTER_FIELD
} mca_pml_tm_counters_t;

/* Their names, each with a comma behind it. */
#define PML_TM_COUNTER_NAME(name, help) #name ","
#define PML_TM_COUNTER_NAMES            PML_TM_COUNTERS(PML_TM_COUNTER_NAME)

/*
 * Counters of the offload engine for receives and the device's tag list. Each receive that finds no
 * message when it is posted counts once: in `listed`, or in the not_listed_... counter of the first
 * reason that applied. X(name, field of fab_offload_counters_t, help)
 */
#define PML_TM_OFFLOAD_COUNTERS(X)                                                                 \
    X(listed, reason[FAB_OFFLOAD_LISTABLE],                                                        \
      "receives on the device's list as soon as they were posted")                                 \
    X(listed_late, listed_late,                                                                    \
      "receives that were listed later, when the reason against it was gone")                      \
    X(listed_matched, matched, "listed receives whose message the device matched")                 \
    X(listed_taken, taken,                                                                         \
      "listed receives whose message had arrived before they were listed; post receives earlier")  \
    X(listed_parked, parked,                                                                       \
      "messages by shared memory, or from this process itself, that waited until the device "      \
      "released a receive; name the source in receives of such messages")                          \
    X(listed_raced, lost_races,                                                                    \
      "listed receives that the device had already matched when they were to be unlisted, "        \
      "because of a cancel or a message by another path")                                          \
    X(listed_refused, refused,                                                                     \
      "times that the device refused a receive although its list had room; it is tried again")     \
    X(not_listed_other_path, reason[FAB_OFFLOAD_OTHER_PATH],                                       \
      "receives not listed: messages from their source do not come through the device (shared "    \
      "memory, this process itself); nothing to do")                                               \
    X(not_listed_any_source, reason[FAB_OFFLOAD_ANY_SOURCE],                                       \
      "receives not listed: MPI_ANY_SOURCE, and some ranks of the communicator do not send "       \
      "through the device, or are "                                                                \
      "not known yet; name the source, or use a communicator without them")                        \
    X(not_listed_unknown, reason[FAB_OFFLOAD_UNKNOWN],                                             \
      "receives not listed: their source is not known yet; it becomes known with the first "       \
      "message in either direction")                                                               \
    X(not_listed_short, reason[FAB_OFFLOAD_SHORT],                                                 \
      "receives not listed: their buffer is shorter than pml_tm_verbs_tm_min")                     \
    X(not_listed_blocked, reason[FAB_OFFLOAD_BLOCKED],                                             \
      "receives not listed at once: an earlier receive that may match the same messages is not "   \
      "listed, for a reason that other counters show; use a separate communicator for receives "   \
      "with wildcards")                                                                            \
    X(not_listed_full, reason[FAB_OFFLOAD_LIST_FULL],                                              \
      "receives not listed at once: the list was full, or too many commands to the device were "   \
      "under way; post fewer receives at a time")                                                  \
    X(not_listed_failed, reason[FAB_OFFLOAD_FAILED],                                               \
      "receives not listed: the device has failed; pml_tm_verbose says how")

#define PML_TM_OFFLOAD_NAME(name, field, help) #name ","
#define PML_TM_OFFLOAD_NAMES                   PML_TM_OFFLOAD_COUNTERS(PML_TM_OFFLOAD_NAME)

#endif /* PML_TM_COUNTERS_H */
