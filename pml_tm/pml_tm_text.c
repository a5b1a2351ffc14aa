/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Text for people.
 */
#include "pml_tm_text.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "ompi/mca/coll/base/coll_tags.h"

mca_pml_tm_text_t *mca_pml_tm_text_new(unsigned lines)
{
    mca_pml_tm_text_t *text = malloc(sizeof(*text));

    if (NULL != text) {
        text->len = 0;
        text->lines = lines;
        text->left_out = 0;
        text->buf[0] = '\0';
    }
    return text;
}

void mca_pml_tm_text_line(mca_pml_tm_text_t *text, const char *format, ...)
{
    const size_t room = sizeof(text->buf) - text->len;
    va_list args;
    int len;

    if (0 == text->lines) {
        ++text->left_out;
        return;
    }
    va_start(args, format);
    len = vsnprintf(text->buf + text->len, room, format, args);
    va_end(args);
    if (len < 0 || (size_t) len + 2 > room) {
        text->buf[text->len] = '\0';
        ++text->left_out;
        return;
    }
    --text->lines;
    text->len += (size_t) len;
    text->buf[text->len++] = '\n';
    text->buf[text->len] = '\0';
}

void mca_pml_tm_text_print(mca_pml_tm_text_t *text)
{
    if (text->len > 0) {
        text->buf[text->len - 1] = '\0'; /* opal_output() ends the last line */
    }
    if (0 == text->left_out) {
        opal_output(0, "%s", text->buf);
    } else {
        opal_output(0, "%s\n  ... and %u more", text->buf, text->left_out);
    }
    free(text);
}

const char *mca_pml_tm_text_source(char buf[PML_TM_NAME_SIZE], int source)
{
    if (OMPI_ANY_SOURCE == source) {
        return "any";
    }
    snprintf(buf, PML_TM_NAME_SIZE, "%d", source);
    return buf;
}

/* The collective operation that a tag of Open MPI belongs to; NULL: none. */
static const char *collective(int tag)
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

const char *mca_pml_tm_text_tag(char buf[PML_TM_NAME_SIZE], int tag)
{
    const char *name = collective(tag);

    if (OMPI_ANY_TAG == tag) {
        return "any";
    }
    if (NULL == name) {
        snprintf(buf, PML_TM_NAME_SIZE, "%d", tag);
    } else {
        snprintf(buf, PML_TM_NAME_SIZE, "%d (%s)", tag, name);
    }
    return buf;
}
