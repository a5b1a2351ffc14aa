/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * From ompi_proc_t to fab_peer_t: the address exchange, peers at first use; records of peers.
 */
#include "pml_tm/peer/pml_tm_peer.h"

typedef struct modex_blob {
    mca_pml_tm_address_t head;
    uint8_t fabric[FAB_ADDRESS_MAX];
} modex_blob_t;

int mca_pml_tm_peer_publish(void)
{
    modex_blob_t blob = {
        .head = {.magic = PML_TM_ADDRESS_MAGIC,
                 .version = PML_TM_WIRE_VERSION,
                 .source_bits = (uint8_t) mca_pml_tm.source_bits},
    };
    size_t len = fab_address(mca_pml_tm.fab, blob.fabric, sizeof(blob.fabric));
    int rc;

    if (0 == len) {
        return OMPI_ERR_VALUE_OUT_OF_BOUNDS;
    }
    OPAL_MODEX_SEND(rc, FAB_MODEX_SCOPE, mca_pml_tm.component, &blob, sizeof(blob.head) + len);
    return rc;
}

/* Why the process with this address cannot be reached; NULL: it can. */
static const char *fault_of(const modex_blob_t *blob, size_t len)
{
    if (len >= sizeof(blob->head) && __builtin_bswap32(PML_TM_ADDRESS_MAGIC) == blob->head.magic) {
        return "its machine has another byte order: run all processes on one kind of machine";
    }
    if (len < sizeof(blob->head) || PML_TM_ADDRESS_MAGIC != blob->head.magic) {
        return "its address is not one of pml tm";
    }
    if (PML_TM_WIRE_VERSION != blob->head.version) {
        return "it runs another version of pml tm: install the same on all hosts";
    }
    if (mca_pml_tm.source_bits != blob->head.source_bits) {
        return "it divides the tag differently: give all jobs that meet the same "
               "pml_tm_tag_source_bits";
    }
    return NULL;
}

/* Open the peer in the fabric with its address from the modex. */
static fab_peer_t *open_peer(const ompi_proc_t *proc, const modex_blob_t *blob, size_t len, int *rc,
                             const char **why)
{
    const char *fault = fault_of(blob, len);
    fab_peer_t *peer = NULL;

    if (NULL != fault) {
        *rc = OMPI_ERR_UNREACH;
        *why = fault;
        return NULL;
    }
    fab_lock(mca_pml_tm.fab);
    *rc = fab_peer_open(mca_pml_tm.fab, FAB_USER_PML, mca_pml_tm_peer_name(&proc->super.proc_name),
                        blob->fabric, len - sizeof(blob->head), &peer, why);
    fab_unlock(mca_pml_tm.fab);
    return OMPI_SUCCESS == *rc ? peer : NULL;
}

/* Ask the modex for the process's address, and open the peer. */
static fab_peer_t *connect_new(const ompi_proc_t *proc, int *rc)
{
    const char *why = "it did not select pml tm, or has another version of it";
    modex_blob_t *blob = NULL;
    fab_peer_t *peer = NULL;
    size_t len = 0;
    char *hostname;

    OPAL_MODEX_RECV(*rc, mca_pml_tm.component, &proc->super.proc_name, (void **) &blob, &len);
    if (OPAL_SUCCESS == *rc && NULL != blob) {
        peer = open_peer(proc, blob, len, rc, &why);
    } else {
        *rc = OMPI_ERR_UNREACH;
    }
    free(blob);
    if (NULL == peer) {
        hostname = mca_pml_tm_hostname(proc);
        fab_help_show(mca_pml_tm_help, "unreachable", fab_process.nodename,
                      OMPI_NAME_PRINT(&proc->super.proc_name), hostname, why);
        free(hostname);
        return NULL;
    }
    return peer;
}

fab_peer_t *mca_pml_tm_peer_connect(const ompi_proc_t *proc, int *rc)
{
    fab_peer_t *peer;

    fab_lock(mca_pml_tm.fab);
    peer = mca_pml_tm_peer_find(mca_pml_tm_peer_name(&proc->super.proc_name));
    fab_unlock(mca_pml_tm.fab);
    return NULL != peer ? peer : connect_new(proc, rc);
}

static void record_free(mca_pml_tm_peer_t *record)
{
    mca_pml_tm.num_throttled -= record->is_throttled;
    if (record->is_queued) {
        (void) fab_unqueue_item(record->peer, &record->item);
    }
    record->peer->user[FAB_USER_PML] = NULL;
    free(record);
}

/* Free its record before the peer. */
static void forget(fab_peer_t *peer)
{
    mca_pml_tm_peer_t **link = &mca_pml_tm.peers;

    while (NULL != *link && (*link)->peer != peer) {
        link = &(*link)->next;
    }
    if (NULL != *link) {
        mca_pml_tm_peer_t *record = *link;
        *link = record->next;
        record_free(record);
    }
}

void mca_pml_tm_peer_close(const ompi_proc_t *proc)
{
    fab_peer_t *peer = mca_pml_tm_peer_find(mca_pml_tm_peer_name(&proc->super.proc_name));

    if (NULL != peer) {
        forget(peer);
        fab_peer_close(peer, FAB_USER_PML);
    }
}

mca_pml_tm_peer_t *mca_pml_tm_peer_record(fab_peer_t *peer)
{
    if (NULL == peer->user[FAB_USER_PML] && FAB_PEER_CLOSED != peer->state) {
        mca_pml_tm_peer_t *record = calloc(1, sizeof(*record));
        if (NULL != record) {
            record->peer = peer;
            record->next = mca_pml_tm.peers;
            mca_pml_tm.peers = record;
        }
        peer->user[FAB_USER_PML] = record;
    }
    return (mca_pml_tm_peer_t *) peer->user[FAB_USER_PML];
}

void mca_pml_tm_peer_fini(void)
{
    mca_pml_tm_peer_t *record;

    fab_lock(mca_pml_tm.fab);
    while (NULL != (record = mca_pml_tm.peers)) {
        mca_pml_tm.peers = record->next;
        record_free(record);
    }
    fab_unlock(mca_pml_tm.fab);
}
