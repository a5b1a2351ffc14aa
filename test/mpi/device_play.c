/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A component of Open MPI 5.0's accelerator framework that plays a device, for device.sh: all its
 * memory is that of device_memory.h.
 */
#include "opal_config.h"

#include "opal/constants.h"
#include "opal/mca/accelerator/accelerator.h"
#include "opal/mca/accelerator/base/base.h"

#include "device_memory.h"

/* ---- the framework's functions ------------------------------------------ */

static int check_addr(const void *addr, int *device, uint64_t *flags)
{
    *flags = 0;
    *device = 0;
    return NULL != find(addr) ? 1 : 0;
}

static int mem_copy(int to, int from, void *dst, const void *src, size_t len,
                    opal_accelerator_transfer_type_t type)
{
    (void) to, (void) from, (void) type;
    play_copy(dst, src, len);
    return OPAL_SUCCESS;
}

static int mem_copy_async(int to, int from, void *dst, const void *src, size_t len,
                          opal_accelerator_stream_t *stream, opal_accelerator_transfer_type_t type)
{
    (void) stream;
    return mem_copy(to, from, dst, src, len, type);
}

static int mem_alloc(int device, void **ptr, size_t len)
{
    (void) device;
    *ptr = play_alloc(len);
    return OPAL_SUCCESS;
}

static int mem_release(int device, void *ptr)
{
    (void) device;
    play_free(ptr);
    return OPAL_SUCCESS;
}

static int get_address_range(int device, const void *ptr, void **base, size_t *len)
{
    const block_t *block = find(ptr);

    (void) device;
    if (NULL == block) {
        return OPAL_ERR_NOT_FOUND;
    }
    *base = block->front;
    *len = block->len;
    return OPAL_SUCCESS;
}

/* Copies are done when they return, so streams and events are empty. */
static int create_stream(int device, opal_accelerator_stream_t **stream)
{
    (void) device;
    *stream = OBJ_NEW(opal_accelerator_stream_t);
    return OPAL_SUCCESS;
}

static int create_event(int device, opal_accelerator_event_t **event)
{
    (void) device;
    *event = OBJ_NEW(opal_accelerator_event_t);
    return OPAL_SUCCESS;
}

static int record_event(int device, opal_accelerator_event_t *event,
                        opal_accelerator_stream_t *stream)
{
    (void) device, (void) event, (void) stream;
    return OPAL_SUCCESS;
}

static int query_event(int device, opal_accelerator_event_t *event)
{
    (void) device, (void) event;
    return OPAL_SUCCESS;
}

static int host_register(int device, void *ptr, size_t len)
{
    (void) device, (void) ptr, (void) len;
    return OPAL_SUCCESS;
}

static int host_unregister(int device, void *ptr)
{
    (void) device, (void) ptr;
    return OPAL_SUCCESS;
}

static int get_device(int *device)
{
    *device = 0;
    return OPAL_SUCCESS;
}

static int get_pci_attr(int device, opal_accelerator_pci_attr_t *attr)
{
    (void) device, (void) attr;
    return OPAL_ERR_NOT_IMPLEMENTED;
}

static int can_access_peer(int *access, int one, int other)
{
    (void) one, (void) other;
    *access = 0;
    return OPAL_SUCCESS;
}

static int get_buffer_id(int device, const void *addr, opal_accelerator_buffer_id_t *id)
{
    (void) device, (void) addr;
    *id = 0;
    return OPAL_SUCCESS;
}

static opal_accelerator_base_module_t module = {
    .check_addr = check_addr,
    .create_stream = create_stream,
    .create_event = create_event,
    .record_event = record_event,
    .query_event = query_event,
    .mem_copy_async = mem_copy_async,
    .mem_copy = mem_copy,
    .mem_move = mem_copy,
    .mem_alloc = mem_alloc,
    .mem_release = mem_release,
    .get_address_range = get_address_range,
    .host_register = host_register,
    .host_unregister = host_unregister,
    .get_device = get_device,
    .get_device_pci_attr = get_pci_attr,
    .device_can_access_peer = can_access_peer,
    .get_buffer_id = get_buffer_id,
};

static opal_accelerator_base_module_t *init(void)
{
    return &module;
}

static void finalize(opal_accelerator_base_module_t *unused)
{
    (void) unused;
}

__attribute__((visibility("default")))
opal_accelerator_base_component_t mca_accelerator_play_component = {
    .base_version = {OPAL_ACCELERATOR_BASE_VERSION_1_0_0, .mca_component_name = "play",
                     MCA_BASE_MAKE_VERSION(component, OPAL_MAJOR_VERSION, OPAL_MINOR_VERSION,
                                           OPAL_RELEASE_VERSION)},
    .base_data = {MCA_BASE_METADATA_PARAM_CHECKPOINT},
    .accelerator_init = init,
    .accelerator_finalize = finalize,
};
