/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * With fab_ompi.h the only header that depends on the version of Open MPI (4.1, 5.0 or 6.0).  Every
 * file of pml_tm includes it first.
 */
#ifndef PML_TM_COMPAT_H
#define PML_TM_COMPAT_H

#include "ompi_config.h"

#include "fabric/fab_ompi.h"

/*
 * The base request headers want a PERUSE header that Open MPI does not install; without PERUSE its
 * macros are empty.
 */
#if !OMPI_WANT_PERUSE
#define _PERUSE_INTERNAL_H_
#define PERUSE_TRACE_COMM_EVENT(event, base_req, op)
#define PERUSE_TRACE_MSG_EVENT(event, comm_ptr, hdr_peer, hdr_tag, op)
#define PERUSE_TRACE_COMM_OMPI_EVENT(event, base_req, size, op)
#endif

#include "ompi/communicator/communicator.h"
#include "ompi/datatype/ompi_datatype.h"
#include "ompi/errhandler/errhandler.h"
#include "ompi/group/group.h"
#include "ompi/mca/bml/base/base.h"
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
#include "opal/runtime/opal_progress.h"
#include "opal/util/output.h"
#include "opal/util/show_help.h"

#if OMPI_MAJOR_VERSION >= 5
#include "opal/mca/threads/wait_sync.h"

/* Version of the PML framework's component structure. */
#define PML_TM_BASE_VERSION MCA_PML_BASE_VERSION_2_1_0

/* The module supports communicators made without a parent, which have an extended id. */
#define PML_TM_FLAGS MCA_PML_BASE_FLAG_SUPPORTS_EXT_CID

/* Entry points that only some have; they close the module's table. */
#define PML_TM_HAS_TRANSPORTS
#if OPAL_ENABLE_FT_MPI
#define PML_TM_HAS_FT
#define PML_TM_MODULE_REVOKE .pml_revoke_comm = mca_pml_tm_revoke_comm,
#else
#define PML_TM_MODULE_REVOKE
#endif
#define PML_TM_MODULE_EXTRA PML_TM_MODULE_REVOKE.pml_get_transports = mca_pml_tm_get_transports,
#else
#include "opal/threads/wait_sync.h"

#define PML_TM_BASE_VERSION MCA_PML_BASE_VERSION_2_0_0
#define PML_TM_FLAGS        0
#define PML_TM_MODULE_EXTRA
#endif

/* ---- fault tolerance (pml_tm_failure.h), of an Open MPI that was built with it ---- */

#ifdef PML_TM_HAS_FT
#define PML_TM_ERR_PROC_FAILED MPI_ERR_PROC_FAILED
#define PML_TM_ERR_REVOKED     MPI_ERR_REVOKED
#else
#define PML_TM_ERR_PROC_FAILED MPI_ERR_OTHER
#define PML_TM_ERR_REVOKED     MPI_ERR_OTHER
#endif

/* Did mpirun request fault tolerance? */
static inline bool mca_pml_tm_is_fault_tolerant(void)
{
#ifdef PML_TM_HAS_FT
    return ompi_ftmpi_enabled;
#else
    return false;
#endif
}

/*
 * Report a failed process to Open MPI, and make waiting threads check their requests again.  Lock
 * not held.
 */
static inline void mca_pml_tm_tell_failed(const opal_process_name_t *name)
{
#ifdef PML_TM_HAS_FT
    ompi_proc_t *proc = (ompi_proc_t *) ompi_proc_for_name(*name);

    if (NULL != proc) {
        ompi_errhandler_proc_failed(proc);
        wait_sync_global_wakeup(MPI_ERR_PROC_FAILED);
    }
#else
    (void) name;
#endif
}

/* Does Open MPI know that the process has failed? */
static inline bool mca_pml_tm_is_failed(const opal_process_name_t *name)
{
#ifdef PML_TM_HAS_FT
    ompi_proc_t *proc = (ompi_proc_t *) ompi_proc_for_name(*name);

    return NULL != proc && !ompi_proc_is_active(proc);
#else
    (void) name;
    return false;
#endif
}

/*
 * True if the request cannot complete.  Then its status says why, and it may have been completed.
 */
static inline bool mca_pml_tm_is_request_failed(ompi_request_t *request)
{
#ifdef PML_TM_HAS_FT
    return ompi_request_is_failed(request);
#else
    (void) request;
    return false;
#endif
}

/* MPI_SUCCESS, or the MPI error why no message can come from this source (or MPI_ANY_SOURCE). */
static inline int mca_pml_tm_check_source(ompi_communicator_t *comm, int source)
{
    int error = MPI_SUCCESS;

#ifdef PML_TM_HAS_FT
    if (ompi_ftmpi_enabled && MPI_ANY_SOURCE == source) {
        return ompi_comm_is_revoked(comm)              ? MPI_ERR_REVOKED
               : ompi_comm_is_any_source_enabled(comm) ? MPI_SUCCESS
                                                       : MPI_ERR_PROC_FAILED;
    }
    if (ompi_ftmpi_enabled) {
        (void) ompi_comm_iface_p2p_check_proc(comm, source, &error);
    }
#else
    (void) comm, (void) source;
#endif
    return error;
}

/* Is a message with this tag refused where those of collectives are?  is_revoked: others, too. */
static inline bool mca_pml_tm_is_refused(int32_t tag, bool is_revoked)
{
#ifdef PML_TM_HAS_FT
    return (is_revoked && !ompi_request_tag_is_ft(tag)) || ompi_request_tag_is_collective(tag);
#else
    (void) tag, (void) is_revoked;
    return false;
#endif
}

/*
 * Open MPI propagates failures and revocations over the BTLs, which must know all processes for
 * this.
 */
static inline int mca_pml_tm_add_btl_procs(ompi_proc_t **procs, size_t nprocs)
{
    int rc = OMPI_SUCCESS;

#ifdef PML_TM_HAS_FT
    if (ompi_ftmpi_enabled) {
        opal_bitmap_t reachable;

        OBJ_CONSTRUCT(&reachable, opal_bitmap_t);
        rc = opal_bitmap_init(&reachable, (int) nprocs);
        if (OMPI_SUCCESS == rc) {
            rc = mca_bml.bml_add_procs(nprocs, procs, &reachable);
        }
        OBJ_DESTRUCT(&reachable);
    }
#else
    (void) procs, (void) nprocs;
#endif
    return rc;
}

/* ---- others -------------------------------------------------------------- */

/*
 * Open the BTLs, which one-sided MPI (osc/rdma) uses with any PML.  In 5.0 the PML must do this, or
 * MPI_Win_create fails; in 4.1 Open MPI has done it already.
 */
static inline int mca_pml_tm_open_btls(bool enable_progress_threads, bool enable_mpi_threads)
{
#if OMPI_MAJOR_VERSION >= 5
    return mca_bml_base_inited() ? OMPI_SUCCESS
                                 : mca_bml_base_init(enable_progress_threads, enable_mpi_threads);
#else
    (void) enable_progress_threads, (void) enable_mpi_threads;
    return OMPI_SUCCESS;
#endif
}

/* Is a convertor's buffer in memory of a device? */
static inline bool mca_pml_tm_is_on_device(const opal_convertor_t *convertor)
{
#if OMPI_MAJOR_VERSION >= 5
    return opal_convertor_on_device(convertor);
#else
    return 0 != (convertor->flags & CONVERTOR_CUDA);
#endif
}

/*
 * 4.1.0 and 4.1.1 have no such macro.  MPI_ERROR may only be set by functions that return
 * MPI_ERR_IN_STATUS (MPI 3.1, 3.2.5).
 */
#ifndef OMPI_COPY_STATUS
static inline void mca_pml_tm_copy_status(ompi_status_public_t *to,
                                          const ompi_status_public_t *from, bool has_error)
{
    int error = has_error ? from->MPI_ERROR : to->MPI_ERROR;

    *to = *from;
    to->MPI_ERROR = error;
}

#define OMPI_COPY_STATUS(to, from, has_error) mca_pml_tm_copy_status((to), &(from), (has_error))
#endif

/* The index of a communicator in this process. */
static inline uint32_t mca_pml_tm_comm_index(const ompi_communicator_t *comm)
{
#if OMPI_MAJOR_VERSION >= 5
    return comm->c_index;
#else
    return comm->c_contextid;
#endif
}

/*
 * True if the members of the communicator use different indexes for it (Open MPI 5.0: made without
 * a parent communicator). *id is then its extended id, the same in all members.
 */
static inline bool mca_pml_tm_comm_extended_id(const ompi_communicator_t *comm, uint64_t id[2])
{
#if OMPI_MAJOR_VERSION >= 5
    if (!OMPI_COMM_IS_GLOBAL_INDEX(comm)) {
        id[0] = comm->c_contextid.cid_base;
        id[1] = comm->c_contextid.cid_sub.u64;
        return true;
    }
#endif
    (void) comm;
    (void) id;
    return false;
}

/*
 * Memory of the attached buffer that a buffered send uses; NULL: there is none, or no room.  From
 * 6.0 on each communicator or session may have a buffer of its own.
 */
static inline void *mca_pml_tm_bsend_alloc(ompi_communicator_t *comm, size_t len)
{
#if OMPI_MAJOR_VERSION >= 6
    return mca_pml_base_bsend_request_alloc_buf(comm, len);
#else
    (void) comm;
    return mca_pml_base_bsend_request_alloc_buf(len);
#endif
}

static inline void mca_pml_tm_bsend_free(ompi_communicator_t *comm, void *buffer)
{
#if OMPI_MAJOR_VERSION >= 6
    (void) mca_pml_base_bsend_request_free(comm, buffer);
#else
    (void) comm;
    (void) mca_pml_base_bsend_request_free(buffer);
#endif
}

/*
 * Of opal_datatype_t.bdt_used: types of more than 16 bytes.  27 is Fortran's COMPLEX*32 in what
 * will be 5.0.11, and no type before.
 */
#define PML_TM_LONG_ELEMENTS (1u << OPAL_DATATYPE_LONG_DOUBLE_COMPLEX | 1u << 27)

/*
 * Does a committed datatype consist of data alone, or (has_loop) of a loop around all and no other?
 * Says so without a look at all of its description; false: perhaps not.
 */
static inline bool mca_pml_tm_has_no_other_loops(const opal_datatype_t *type, bool has_loop)
{
#if OMPI_MAJOR_VERSION >= 6
    return type->stack_depth == (has_loop ? 1u : 0u); /* how deep loops are nested */
#else
    return type->loops == (has_loop ? 2u : 0u); /* each counts for its start and its end */
#endif
}

/* Name of a process's host, "unknown" at worst; the caller frees it. */
static inline char *mca_pml_tm_hostname(const ompi_proc_t *proc)
{
#if OMPI_MAJOR_VERSION >= 5
    char *name = opal_get_proc_hostname(&proc->super);
    return NULL != name ? name : strdup("unknown");
#else
    const char *name = opal_get_proc_hostname(&proc->super);
    return strdup(NULL != name ? name : "unknown");
#endif
}

/*
 * Open MPI's own wait for a request.  It stores the address of a local variable in the request
 * until the request is complete; on some processors gcc 12 warns that the address stays there.
 */
#if defined(__GNUC__) && !defined(__clang__) && __GNUC__ >= 12
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdangling-pointer"
#endif
static inline void mca_pml_tm_ompi_wait(ompi_request_t *request)
{
    ompi_request_wait_completion(request);
}
#if defined(__GNUC__) && !defined(__clang__) && __GNUC__ >= 12
#pragma GCC diagnostic pop
#endif

#endif /* PML_TM_COMPAT_H */
