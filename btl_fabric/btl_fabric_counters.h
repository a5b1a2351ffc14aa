/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Counters of btl_fabric, MPI_T performance variables btl_fabric_NAME.  Written under the fabric's
 * lock, or by atomic instructions; read at any time.
 */
#ifndef BTL_FABRIC_COUNTERS_H
#define BTL_FABRIC_COUNTERS_H

/* X(name, help) */
#define BTL_FABRIC_COUNTERS(X)                                                                     \
    X(sends, "messages sent at once")                                                              \
    X(queued_sends, "messages queued for lack of room")                                            \
    X(in_place, "messages given to the layer above where they lay in shared memory, not copied")   \
    X(reused, "messages received of more than 16 KiB for which no new memory was needed")          \
    X(rma, "puts and gets that the fabric did (RDMA, CMA)")                                        \
    X(offered, "puts and gets offered to the target's CPU, to save a system call")                 \
    X(withdrawn, "of these, done without it, because it did not begin soon")                       \
    X(atomics, "atomic operations started")                                                        \
    X(no_rma, "puts and gets by messages because the peer's provider cannot do them")              \
    X(not_exposed, "puts and gets by messages because the target could not register the memory")   \
    X(rma_failed, "puts and gets that the fabric could not finish and that continued by messages") \
    X(refused, "operations refused for a while, as too many were under way with the process")      \
    X(flush_yields, "times that a flush gave the processor to others, when it had found nothing")

typedef struct mca_btl_fabric_counters {
#define BTL_FABRIC_COUNTER_FIELD(name, help) unsigned long long name;
    BTL_FABRIC_COUNTERS(BTL_FABRIC_COUNTER_FIELD)
#undef BTL_FABRIC_COUNTER_FIELD
} mca_btl_fabric_counters_t;

#endif /* BTL_FABRIC_COUNTERS_H */
