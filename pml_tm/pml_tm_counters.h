/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Counters of pml_tm: plain, always counted, exported as MPI_T performance variables pml_tm_<name>.
 */
#ifndef PML_TM_COUNTERS_H
#define PML_TM_COUNTERS_H

/* X(name, help) */
#define PML_TM_COUNTERS(X)                                                                                               \
    X(eager_sent, "messages sent with their data (eager protocol)")                                                      \
    X(eager_sync_sent, "synchronous messages sent with their data")                                                      \
    X(rndv_sent, "messages announced by a request to send (rendezvous protocol)")                                        \
    X(buffered_sent, "buffered sends (MPI_Bsend and its kin)")                                                           \
    X(queued_sends, "sends that had to wait for room towards the receiver")                                              \
    X(announced_sends, "sends that used rendezvous because the receiver is short of memory for unexpected messages")     \
    X(expected, "messages that found their receive posted")                                                              \
    X(unexpected, "messages that arrived before their receive")                                                          \
    X(early, "messages that arrived before their communicator existed here")                                             \
    X(untagged, "messages of a communicator whose index here their sender did not know yet")                             \
    X(rndv_get, "rendezvous receives fetched from the sender's memory in one copy")                                      \
    X(rndv_get_bytes, "bytes of such receives")                                                                          \
    X(rndv_pipeline, "rendezvous receives sent in fragments")                                                            \
    X(rndv_pipeline_bytes, "bytes of such receives")                                                                     \
    X(pipeline_not_contiguous, "rendezvous receives in fragments because the data is not contiguous on one side")        \
    X(pipeline_no_get, "rendezvous receives in fragments because the sender's memory cannot be read")                    \
    X(truncated, "messages longer than their receive")                                                                   \
    X(cancelled, "receives cancelled")                                                                                   \
    X(throttled, "times a sender was told to announce its messages instead of sending them")                             \
    X(bad_messages, "malformed messages, each failing its sender")

typedef struct mca_pml_tm_counters {
#define PML_TM_COUNTER_FIELD(name, help) unsigned long long name;
    PML_TM_COUNTERS(PML_TM_COUNTER_FIELD)
#undef PML_TM_COUNTER_FIELD
} mca_pml_tm_counters_t;

#endif /* PML_TM_COUNTERS_H */
