/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * For pml_tm built with the thread sanitizer (test/mpi/tsan.sh), included before everything else:
 * it declares to the sanitizer what Open MPI, which is not built with it, orders by fences or in
 * code of its own. Three things are handed from thread to thread that way: items of a free list,
 * complete requests, and message handles.
 */
#ifndef TM_TSAN_H
#define TM_TSAN_H

#define _PERUSE_INTERNAL_H_
#define PERUSE_TRACE_COMM_EVENT(event, base_req, op)
#define PERUSE_TRACE_MSG_EVENT(event, comm_ptr, hdr_peer, hdr_tag, op)
#define PERUSE_TRACE_COMM_OMPI_EVENT(event, base_req, size, op)
#include "ompi_config.h"

#include "ompi/message/message.h"
#include "ompi/request/request.h"
#include "opal/class/opal_free_list.h"

void __tsan_acquire(void *addr);
void __tsan_release(void *addr);

static inline opal_free_list_item_t *tm_tsan_get(opal_free_list_t *list)
{
    opal_free_list_item_t *item = opal_free_list_get(list);

    __tsan_acquire(item);
    return item;
}

static inline void tm_tsan_return(opal_free_list_t *list, opal_free_list_item_t *item)
{
    __tsan_release(item);
    opal_free_list_return(list, item);
}

static inline void tm_tsan_wait(ompi_request_t *request)
{
    ompi_request_wait_completion(request);
    __tsan_acquire(request);
}

static inline int tm_tsan_complete(ompi_request_t *request, bool with_signal)
{
    __tsan_release(request);
    return ompi_request_complete(request, with_signal);
}

static inline ompi_message_t *tm_tsan_message_alloc(void)
{
    ompi_message_t *message = ompi_message_alloc();

    __tsan_acquire(message);
    return message;
}

static inline void tm_tsan_message_return(ompi_message_t *message)
{
    __tsan_release(message);
    ompi_message_return(message);
}

#define opal_free_list_get           tm_tsan_get
#define opal_free_list_return        tm_tsan_return
#define ompi_request_wait_completion tm_tsan_wait
#define ompi_request_complete        tm_tsan_complete
#define ompi_message_alloc           tm_tsan_message_alloc
#define ompi_message_return          tm_tsan_message_return

#endif /* TM_TSAN_H */
