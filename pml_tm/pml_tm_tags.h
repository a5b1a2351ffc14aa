/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The tags that Open MPI uses for collective operations.  Tools use this file, too.
 */
#ifndef PML_TM_TAGS_H
#define PML_TM_TAGS_H

/* The operation that a tag belongs to; NULL: none, it is the program's. */
const char *mca_pml_tm_tag_name(int tag);

#endif /* PML_TM_TAGS_H */
