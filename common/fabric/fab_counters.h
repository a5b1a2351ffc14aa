/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Counters of the fabric, MPI_T performance variables pml_tm_NAME.  Written under the
 * fabric's lock, without atomics; read at any time.  Each fallback has a counter that says why it
 * was taken.
 */
#ifndef FAB_COUNTERS_H
#define FAB_COUNTERS_H

#include "fabric/fab.h"

/* X(name, help) */
#define FAB_COUNTERS(X)                                                                            \
    X(shm_msgs_sent, "messages sent through shared memory")                                        \
    X(shm_msgs_received, "messages received through shared memory")                                \
    X(shm_ring_full, "sends that found no room in the receiver's ring")                            \
    X(shm_rings_exhausted,                                                                         \
      "peers for which a message had to wait, since all their rings were in use")                  \
    X(shm_connect_retries,                                                                         \
      "attempts to connect that found no memory, file descriptor or ring, and are repeated")       \
    X(shm_segments_passed,                                                                         \
      "peers that passed their shared memory by a socket, since /proc did not let it be opened")   \
    X(shm_copies_past_cache, "copies into a ring past the cache, since that is faster")            \
    X(shm_cma_bytes, "bytes moved by process_vm_readv or process_vm_writev")                       \
    X(shm_cma_calls, "calls of process_vm_readv or process_vm_writev")                             \
    X(shm_cma_refused, "peers whose memory the kernel did not let this process read")              \
    X(shm_cma_faults, "transfers that process_vm_readv or process_vm_writev could not do, "        \
                      "because the memory cannot be pinned")                                       \
    X(shm_xpmem_bytes, "bytes copied from or to memory of peers that XPMEM mapped here")           \
    X(shm_xpmem_refused, "mappings by XPMEM that failed: the data is copied by the kernel")        \
    X(shm_coop_offered, "large receives whose sender was asked to give the data")                  \
    X(shm_coop_helped, "large receives of which the sender gave a part, or all")                   \
    X(shm_coop_given, "bytes of its memory that this process gave to receivers")                   \
    X(ofi_msgs_sent, "messages sent by libfabric")                                                 \
    X(ofi_again, "operations that libfabric's provider had no room for")                           \
    X(ofi_strays, "messages by libfabric that were of no peer, or of one that had left")           \
    X(ofi_early, "messages by libfabric reported before one that goes before them: copied")        \
    X(ofi_unaligned, "messages that libfabric's provider placed unaligned: copied once more")      \
    X(ofi_errors, "operations that libfabric reported as failed")                                  \
    X(ofi_lost_errors, "of these, those without a sign which peer they were for")                  \
    X(verbs_msgs_sent, "messages sent by verbs")                                                   \
    X(verbs_no_path, "connections given up before use, as no packet passed between the two ports") \
    X(verbs_other_ports, "times that a peer was tried by other ports, as it was not reached")      \
    X(verbs_evicted, "idle connections given up, as there were verbs_max_connections")             \
    X(verbs_bad_frames,                                                                            \
      "connection requests or answers that were malformed, or not for this process")               \
    X(verbs_rail_bytes, "of these, bytes read by further ports, as shares of long messages")       \
    X(verbs_rail_failed, "further ports that read no more shares from a peer, as that failed")     \
    X(verbs_rail_returned, "shares that these gave back, and the first port read")                 \
    X(verbs_locked_memory,                                                                         \
      "registrations refused because locked memory was used up (RLIMIT_MEMLOCK)")                  \
    X(verbs_tm_listed_user, "receives into the user's own buffer listed on a device")              \
    X(verbs_tm_rndv, "rendezvous that the device did by itself, without this process")             \
    X(verbs_tm_overwritten,                                                                        \
      "announcements in the memory of a listed receive that the program overwrote")                \
    X(verbs_tm_lost,                                                                               \
      "receives that a device had begun when their connection broke, and never completed")         \
    X(verbs_tm_failed, "devices whose tag matching could not be used, though they have it")        \
    X(verbs_async_events, "events that RDMA devices reported")                                     \
    X(registrations, "registrations of memory for verbs or libfabric, which no cache had")         \
    X(tcp_msgs_sent, "messages sent by TCP")                                                       \
    X(tcp_writes, "system calls that wrote messages to TCP")                                       \
    X(tcp_reads, "system calls that read messages from TCP")                                       \
    X(tcp_sends_from_memory, "messages written to TCP straight from the user's memory")            \
    X(tcp_placed, "messages read from TCP straight to the user's memory")                          \
    X(tcp_links_made, "further TCP connections made to a peer, for parts of long messages")        \
    X(tcp_links_failed, "further TCP connections that could not be made, and are not used")        \
    X(tcp_links_lost, "further TCP connections that broke; what they carried was sent again")      \
    X(tcp_links_slow, "further TCP connections not used any more, as messages waited for them")    \
    X(tcp_striped_bytes, "bytes of long messages that did not go by a peer's first connection")    \
    X(tcp_strangers, "connections to the TCP port without proof of belonging to the job")          \
    X(connections, "queue pairs and TCP connections made")                                         \
    X(connections_lost, "connections of verbs or TCP that broke, each failing its peer")           \
    X(crossed, "connections that both sides began at the same time")                               \
    X(refused, "requests of peers for a connection that were refused")                             \
    X(no_credit, "sends over a network that waited until the peer had taken more")                 \
    X(small_windows,                                                                               \
      "peers with a smaller window, as others share the buffers, or locked memory is short")       \
    X(rma_bytes, "bytes moved by RDMA READ or WRITE, or by RMA of libfabric")                      \
    X(unregistrable, "memory that verbs or libfabric could not register, but for locked memory")   \
    X(bad_messages, "messages that were malformed, each failing its sender")                       \
    X(peers_died, "processes of this host found dead, by shm, verbs or ofi")                       \
    X(peers_opened, "processes opened: those of this host at once, others at the first message")   \
    X(peers_moved, "peers that their first provider could not connect to, reached by the next "    \
                   "one")

typedef struct fab_counters {
#define FAB_COUNTER_FIELD(name, help) unsigned long long name;
    FAB_COUNTERS(FAB_COUNTER_FIELD)
#undef FAB_COUNTER_FIELD
} fab_counters_t;

FAB_EXPORT extern fab_counters_t fab_counters;

/*
 * Register all as pml_tm_NAME, in a component's register function, whichever component it is.  They
 * stay, as parameters do (fab_params_register()).
 */
FAB_EXPORT void fab_counters_register(void);

/* Their names, each with a comma behind it. */
#define FAB_COUNTER_NAME(name, help) #name ","
#define FAB_COUNTER_NAMES            FAB_COUNTERS(FAB_COUNTER_NAME)

#endif /* FAB_COUNTERS_H */
