/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Helper of forge.sh: rank 2 uses the fabric beside pml_tm and sends rank 0 a message whose source
 * is rank 1. The job ends before anybody has it.
 *
 * args: one of eager, synchronous, unexpected, announced, early; untagged, context: a message that
 * is malformed; untagged_rank, context_rank (Open MPI 5.0): one of a communicator with an extended
 * id
 */
#include "fabric/fab.h"
#include "fabric/fab_abi.h"
#include "pml_tm/base/pml_tm_compat.h"
#include "pml_tm/base/pml_tm_wire.h"

#include "tm_test.h"

enum {
    BITS = 8,  /* pml_tm_tag_source_bits, as forge.sh sets it */
    NEXT = 3,  /* context id of the first communicator that is made; MPI_COMM_WORLD has 0 */
    TAG = 5,   /* of the forged message */
    GO_ON = 6, /* of others */
    LONG = 100000,
};

static fab_t *open_fabric(void)
{
    fab_config_t config = {.user = FAB_USER_BTL};
    fab_t *fab = NULL;
    const char *why = "";

    if (OPAL_SUCCESS != fab_open(&config, &fab, &why)) {
        TM_FATAL("the fabric cannot be opened: %s", why);
    }
    return fab;
}

/* What the receiver reads of it is checked: here is one field wrong. */
static int send_special(fab_peer_t *peer, const char *kind, MPI_Comm comm)
{
    uint64_t excid[2] = {5, 6}, tag = mca_pml_tm_tag(0, 1, TAG, BITS);
    struct {
        mca_pml_tm_untagged_t prefix;
        uint64_t value;
    } untagged = {.prefix = {.context = NEXT, .id = FAB_AM_EAGER}};
    mca_pml_tm_context_t context = {.context = NEXT, .rank = 1};

    (void) mca_pml_tm_comm_extended_id(comm, excid);
    memcpy(untagged.prefix.excid, excid, sizeof(excid));
    memcpy(context.excid, excid, sizeof(excid));
    if (0 == strcmp(kind, "untagged")) {
        untagged.prefix.id = FAB_AM_FIN;
    }
    return 'u' == kind[0]
               ? fab_send(peer, fab_hdr(FAB_AM_NO_TAG, tag, 0), &untagged, sizeof(untagged))
               : fab_send(peer, fab_hdr(PML_TM_AM_CONTEXT, 0, 0), &context,
                          0 == strcmp(kind, "context") ? 7 : sizeof(context));
}

static bool is_special(const char *kind)
{
    return 0 == strncmp(kind, "untagged", 8) || 0 == strncmp(kind, "context", 7);
}

static void forge(const char *kind, MPI_Comm comm)
{
    fab_t *fab = open_fabric();
    fab_peer_t *peer = fab_peer_find(fab, fab->config.name & ~(uint64_t) UINT32_MAX);
    bool is_announced = 0 == strcmp(kind, "announced");
    uint32_t context = 0 == strcmp(kind, "early") ? NEXT : 0;
    uint32_t id = is_announced || 0 == strcmp(kind, "synchronous") ? 77 : 0;
    fab_hdr_t hdr = fab_hdr(is_announced ? FAB_AM_RNDV : FAB_AM_EAGER,
                            mca_pml_tm_tag(context, 1, TAG, BITS), id);
    fab_rndv_t rndv = {.len = LONG};
    uint64_t value = 1;
    int rc;

    fab_lock(fab);
    rc = is_special(kind) ? send_special(peer, kind, comm)
         : is_announced   ? fab_send(peer, hdr, &rndv, sizeof(rndv))
                          : fab_send(peer, hdr, &value, sizeof(value));
    fab_unlock(fab);
    TM_CHECK(OPAL_SUCCESS == rc, "the forged message is not sent: %d", rc);
}

/* MPI_Recv of what rank 1 never sent: it must not return. */
static void take_forged(MPI_Comm comm)
{
    static char buf[LONG];

    MPI_Recv(buf, LONG, MPI_BYTE, 1, TAG, comm, MPI_STATUS_IGNORE);
    TM_ERROR("rank 0 has received the forged message");
}

static void run(const char *kind)
{
    char byte = 0;
    MPI_Comm comm = MPI_COMM_WORLD, extended = MPI_COMM_WORLD;

#if OMPI_MAJOR_VERSION >= 5
    MPI_Group group;
    MPI_Comm_group(MPI_COMM_WORLD, &group);
    if (NULL != strstr(kind, "_rank")) {
        MPI_Comm_create_from_group(group, "forge", MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &extended);
    }
#endif
    /* rank 2 waits until rank 0 has posted its receive, or is to wait for something else */
    if (2 == tm_rank) {
        MPI_Recv(&byte, 1, MPI_BYTE, 0, GO_ON, comm, MPI_STATUS_IGNORE);
        forge(kind, extended);
        MPI_Send(&byte, 1, MPI_BYTE, 0, GO_ON, comm);
    } else if (0 == tm_rank) {
        MPI_Send(&byte, 1, MPI_BYTE, 2, GO_ON, comm);
        if (0 == strcmp(kind, "unexpected")) {
            MPI_Recv(&byte, 1, MPI_BYTE, 2, GO_ON, comm, MPI_STATUS_IGNORE);
        }
    }
    if (0 == strcmp(kind, "early")) {
        MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    }
    if (0 == tm_rank) {
        take_forged(comm);
    }
    MPI_Barrier(MPI_COMM_WORLD);
}

int main(int argc, char **argv)
{
    tm_init(&argc, &argv, "forge");
    run(argc > 1 ? argv[1] : "");
    return tm_finish();
}
