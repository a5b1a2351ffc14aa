/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The one header that absorbs what differs between versions of Open MPI.  Included first by every file of pml_tm.
 */
#ifndef PML_TM_COMPAT_H
#define PML_TM_COMPAT_H

#include "ompi_config.h"

#if OMPI_MAJOR_VERSION != 4 || OMPI_MINOR_VERSION < 1
#error "pml_tm needs Open MPI 4.1"
#endif

/* The base request headers want a PERUSE header that Open MPI does not install; without PERUSE its macros are empty. */
#if !OMPI_WANT_PERUSE
#define _PERUSE_INTERNAL_H_
#define PERUSE_TRACE_COMM_EVENT(event, base_req, op)
#define PERUSE_TRACE_MSG_EVENT(event, comm_ptr, hdr_peer, hdr_tag, op)
#define PERUSE_TRACE_COMM_OMPI_EVENT(event, base_req, size, op)
#endif

#include "ompi/communicator/communicator.h"
#include "ompi/datatype/ompi_datatype.h"
#include "ompi/group/group.h"
#include "ompi/mca/pml/base/base.h"
#include "ompi/mca/pml/base/pml_base_bsend.h"
#include "ompi/mca/pml/base/pml_base_recvreq.h"
#include "ompi/mca/pml/base/pml_base_request.h"
#include "ompi/mca/pml/base/pml_base_sendreq.h"
#include "ompi/mca/pml/pml.h"
#include "ompi/message/message.h"
#include "ompi/proc/proc.h"
#include "ompi/request/request.h"
#include "ompi/runtime/mpiruntime.h"
#include "ompi/runtime/params.h"
#include "opal/class/opal_free_list.h"
#include "opal/datatype/opal_convertor.h"
#include "opal/mca/base/mca_base_pvar.h"
#include "opal/mca/base/mca_base_var.h"
#include "opal/mca/pmix/pmix.h"
#include "opal/runtime/opal_progress.h"
#include "opal/threads/wait_sync.h"
#include "opal/util/output.h"
#include "opal/util/show_help.h"
#include "orte/util/proc_info.h"

/* Version of pml_tm; processes with different ones do not find each other's addresses. */
#define PML_TM_MAJOR_VERSION 0
#define PML_TM_MINOR_VERSION 1
#define PML_TM_RELEASE_VERSION 0

/* Version of the PML framework's component structure. */
#define PML_TM_BASE_VERSION MCA_PML_BASE_VERSION_2_0_0

/* The index of a communicator in this process. */
static inline uint32_t mca_pml_tm_comm_index(const ompi_communicator_t *comm)
{
    return comm->c_contextid;
}

/* Name of a process's host; not to be freed, "unknown" at worst. */
static inline const char *mca_pml_tm_hostname(const ompi_proc_t *proc)
{
    const char *name = opal_get_proc_hostname(&proc->super);
    return NULL != name ? name : "unknown";
}

#endif /* PML_TM_COMPAT_H */
