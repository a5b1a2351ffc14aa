/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tags, and what waits, in words: the one writer of the reports, of tm_look and of pml_dump.
 */
#include "ompi_config.h"

#include "pml_tm/base/pml_tm_shared.h"

#include "ompi/mca/coll/base/coll_tags.h"

/* The operation that a tag belongs to; NULL: none, it is the program's. */
static const char *name_of(int tag)
{
    static const struct {
        int tag;
        const char *name;
    } names[] = {
        {MCA_COLL_BASE_TAG_ALLGATHER, "MPI_Allgather"},
        {MCA_COLL_BASE_TAG_ALLGATHERV, "MPI_Allgatherv"},
        {MCA_COLL_BASE_TAG_ALLREDUCE, "MPI_Allreduce"},
        {MCA_COLL_BASE_TAG_ALLTOALL, "MPI_Alltoall"},
        {MCA_COLL_BASE_TAG_ALLTOALLV, "MPI_Alltoallv"},
        {MCA_COLL_BASE_TAG_ALLTOALLW, "MPI_Alltoallw"},
        {MCA_COLL_BASE_TAG_BARRIER, "MPI_Barrier"},
        {MCA_COLL_BASE_TAG_BCAST, "MPI_Bcast"},
        {MCA_COLL_BASE_TAG_EXSCAN, "MPI_Exscan"},
        {MCA_COLL_BASE_TAG_GATHER, "MPI_Gather"},
        {MCA_COLL_BASE_TAG_GATHERV, "MPI_Gatherv"},
        {MCA_COLL_BASE_TAG_REDUCE, "MPI_Reduce"},
        {MCA_COLL_BASE_TAG_REDUCE_SCATTER, "MPI_Reduce_scatter"},
        {MCA_COLL_BASE_TAG_REDUCE_SCATTER_BLOCK, "MPI_Reduce_scatter_block"},
        {MCA_COLL_BASE_TAG_SCAN, "MPI_Scan"},
        {MCA_COLL_BASE_TAG_SCATTER, "MPI_Scatter"},
        {MCA_COLL_BASE_TAG_SCATTERV, "MPI_Scatterv"},
    };

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); ++i) {
        if (tag == names[i].tag) {
            return names[i].name;
        }
    }
    return tag <= MCA_COLL_BASE_TAG_NONBLOCKING_BASE && tag >= MCA_COLL_BASE_TAG_NONBLOCKING_END
               ? "a non-blocking collective"
               : NULL;
}

const char *mca_pml_tm_tag_text(char buf[PML_TM_TAG_SIZE], int tag)
{
    const char *name = name_of(tag);

    if (-1 == tag) { /* MPI_ANY_TAG */
        return "any";
    }
    if (NULL == name) {
        snprintf(buf, PML_TM_TAG_SIZE, "%d", tag);
    } else {
        snprintf(buf, PML_TM_TAG_SIZE, "%d (%s)", tag, name);
    }
    return buf;
}

/* ---- what waits ---------------------------------------------------------- */

static const struct {
    const char *word; /* that the line begins with */
    const char *name; /* for programs */
    const char *why;
    bool is_from; /* of a message that comes */
} waits[FAB_LOOK_WAITS] = {
    [FAB_LOOK_NOTHING] = {"nothing", "nothing", "", false},
    [FAB_LOOK_RECV] = {"receive", "receive", "no message fits", true},
    [FAB_LOOK_PROBE] = {"probe", "probe", "no message fits", true},
    [FAB_LOOK_ROOM] = {"send", "room", "no room towards the receiver", false},
    [FAB_LOOK_HELD] = {"send", "held",
                       "held back, the receiver is short of memory for unexpected messages", false},
    [FAB_LOOK_MATCH] = {"send", "match", "the receiver knows of it, no receive fits", false},
    [FAB_LOOK_SENDING] = {"send", "sending", "data is on the way", false},
    [FAB_LOOK_ARRIVING] = {"receive", "arriving", "data is on the way", true},
    [FAB_LOOK_OTHER] = {"any of its requests", "any", "", false},
    [FAB_LOOK_MESSAGE] = {"message", "message", "no receive fits", true},
    [FAB_LOOK_EARLY] = {"message", "early", "its communicator does not exist here yet", true},
};

static const char *const nears[FAB_NEARS] = {
    [FAB_NEAR_TAG] = "tag",
    [FAB_NEAR_COLLECTIVE] = "collective operation",
    [FAB_NEAR_SOURCE] = "source",
    [FAB_NEAR_COMM] = "communicator",
};

const char *mca_pml_tm_near_text(uint8_t near)
{
    return nears[near];
}

const char *mca_pml_tm_wait_text(char buf[PML_TM_WAIT_SIZE], const fab_wait_t *wait,
                                 const char *call)
{
    const bool is_near = FAB_NEAR_NOT != wait->near;
    char tag[PML_TM_TAG_SIZE], peer[32] = "any rank", bytes[48] = "";

    if (FAB_LOOK_NOTHING == wait->what || FAB_LOOK_OTHER == wait->what) {
        snprintf(buf, PML_TM_WAIT_SIZE, "%s", waits[wait->what].word);
        return buf;
    }
    if (FAB_LOOK_ANY != wait->peer) {
        snprintf(peer, sizeof(peer), "rank %u", (unsigned) (uint32_t) wait->peer);
    }
    if (FAB_LOOK_PROBE != wait->what && '\0' != wait->comm[0]) {
        snprintf(bytes, sizeof(bytes), ", %s%llu bytes",
                 FAB_LOOK_RECV == wait->what ? "up to " : "", (unsigned long long) wait->bytes);
    }
    snprintf(buf, PML_TM_WAIT_SIZE, "%s %s %s, tag %s%s%s%s: %s%s",
             NULL != call ? call : waits[wait->what].word,
             waits[wait->what].is_from ? "from" : "to", peer, mca_pml_tm_tag_text(tag, wait->tag),
             bytes, '\0' != wait->comm[0] ? ", " : "", wait->comm, is_near ? "another " : "",
             is_near ? nears[wait->near] : waits[wait->what].why);
    return buf;
}

/* ---- for programs -------------------------------------------------------- */

void mca_pml_tm_json_text(FILE *file, const char *name, const char *text)
{
    fprintf(file, "\"%s\": \"", name);
    for (; '\0' != *text; ++text) {
        fputc(*text >= ' ' && *text <= '~' && '"' != *text && '\\' != *text ? *text : '?', file);
    }
    fputc('"', file);
}

void mca_pml_tm_wait_json(FILE *file, const fab_wait_t *wait)
{
    fputc('{', file);
    mca_pml_tm_json_text(file, "for", waits[wait->what].name);
    fprintf(file, ", \"rank\": %lld, \"tag\": %d, \"bytes\": %llu, ",
            FAB_LOOK_ANY == wait->peer ? -1 : (long long) (uint32_t) wait->peer, wait->tag,
            (unsigned long long) wait->bytes);
    mca_pml_tm_json_text(file, "communicator", wait->comm);
    if (FAB_NEAR_NOT != wait->near) {
        fputs(", ", file);
        mca_pml_tm_json_text(file, "nearly", nears[wait->near]);
    }
    fputc('}', file);
}
