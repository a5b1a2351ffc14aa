/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A libcuda.so.1 that plays a driver with one device, for device_cuda.sh: all the functions that
 * Open MPI 4.1 looks for.  All its memory is that of device_memory.h.
 */
#include <cuda.h>

#include "device_memory.h"

#define PUBLIC __attribute__((visibility("default")))

/* A function of which nothing is needed but its result. */
#define RESULT(result, name, ...)                                                                  \
    PUBLIC CUresult name(__VA_ARGS__)                                                              \
    {                                                                                              \
        return result;                                                                             \
    }

#pragma GCC diagnostic ignored "-Wunused-parameter" /* of such a function */

/* A handle of each kind is the address of one of these: nothing is ever pending. */
static char context, stream, event;

static void *host(CUdeviceptr addr)
{
    return (void *) (uintptr_t) addr; /* NOLINT(performance-no-int-to-ptr) */
}

/* ---- memory ------------------------------------------------------------- */

/* Of memory that the driver does not know each value is 0, as CUDA has it. */
static CUresult attribute(void *value, CUpointer_attribute which, CUdeviceptr addr)
{
    const int is_device = NULL != find(host(addr));

    switch (which) {
    case CU_POINTER_ATTRIBUTE_CONTEXT:
        *(CUcontext *) value = is_device ? (CUcontext) &context : NULL;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
        *(CUmemorytype *) value = is_device ? CU_MEMORYTYPE_DEVICE : (CUmemorytype) 0;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_BUFFER_ID:
        *(unsigned long long *) value = is_device ? (uintptr_t) find(host(addr)) : 0;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_IS_MANAGED:
        *(char *) value = 0;
        return CUDA_SUCCESS;
    default:
        return CUDA_ERROR_INVALID_VALUE;
    }
}

PUBLIC CUresult cuPointerGetAttribute(void *value, CUpointer_attribute which, CUdeviceptr addr)
{
    const CUresult result = attribute(value, which, addr);

    return NULL == find(host(addr)) ? CUDA_ERROR_INVALID_VALUE : result;
}

PUBLIC CUresult cuPointerGetAttributes(unsigned int n, CUpointer_attribute *attributes,
                                       void **values, CUdeviceptr addr)
{
    CUresult result = CUDA_SUCCESS;

    for (unsigned int i = 0; i < n && CUDA_SUCCESS == result; i++) {
        result = attribute(values[i], attributes[i], addr);
    }
    return result;
}

PUBLIC CUresult cuPointerSetAttribute(const void *value, CUpointer_attribute which,
                                      CUdeviceptr addr)
{
    (void) value, (void) which;
    return NULL == find(host(addr)) ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

PUBLIC CUresult cuMemcpy(CUdeviceptr dst, CUdeviceptr src, size_t len)
{
    play_copy(host(dst), host(src), len);
    return CUDA_SUCCESS;
}

PUBLIC CUresult cuMemcpyAsync(CUdeviceptr dst, CUdeviceptr src, size_t len, CUstream on)
{
    /* a stream that was made, not what an initialization forgot */
    return (CUstream) &stream == on ? cuMemcpy(dst, src, len) : CUDA_ERROR_INVALID_VALUE;
}

PUBLIC CUresult cuMemAlloc(CUdeviceptr *addr, size_t len)
{
    *addr = (uintptr_t) play_alloc(len);
    return CUDA_SUCCESS;
}

PUBLIC CUresult cuMemFree(CUdeviceptr addr)
{
    play_free(host(addr));
    return CUDA_SUCCESS;
}

PUBLIC CUresult cuMemGetAddressRange(CUdeviceptr *base, size_t *len, CUdeviceptr addr)
{
    const block_t *block = find(host(addr));

    if (NULL == block) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    *base = (uintptr_t) block->front;
    *len = block->len;
    return CUDA_SUCCESS;
}

RESULT(CUDA_SUCCESS, cuMemHostRegister, void *addr, size_t len, unsigned int flags)
RESULT(CUDA_SUCCESS, cuMemHostUnregister, void *addr)

/* ---- contexts, streams and events --------------------------------------- */

PUBLIC CUresult cuCtxGetCurrent(CUcontext *current)
{
    *current = (CUcontext) &context;
    return CUDA_SUCCESS;
}

RESULT(CUDA_SUCCESS, cuCtxSetCurrent, CUcontext current)

PUBLIC CUresult cuCtxGetDevice(CUdevice *device)
{
    *device = 0;
    return CUDA_SUCCESS;
}

PUBLIC CUresult cuDeviceGet(CUdevice *device, int number)
{
    *device = number;
    return 0 == number ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

PUBLIC CUresult cuStreamCreate(CUstream *made, unsigned int flags)
{
    *made = (CUstream) &stream;
    return CUDA_SUCCESS;
}

RESULT(CUDA_SUCCESS, cuStreamDestroy, CUstream on)
RESULT(CUDA_SUCCESS, cuStreamSynchronize, CUstream on)
RESULT(CUDA_SUCCESS, cuStreamWaitEvent, CUstream on, CUevent after, unsigned int flags)

PUBLIC CUresult cuEventCreate(CUevent *made, unsigned int flags)
{
    *made = (CUevent) &event;
    return CUDA_SUCCESS;
}

RESULT(CUDA_SUCCESS, cuEventDestroy, CUevent of)
RESULT(CUDA_SUCCESS, cuEventRecord, CUevent of, CUstream on)
RESULT(CUDA_SUCCESS, cuEventQuery, CUevent of)
RESULT(CUDA_SUCCESS, cuEventSynchronize, CUevent of)

/* ---- other processes: none can map the memory --------------------------- */

PUBLIC CUresult cuDeviceCanAccessPeer(int *can, CUdevice device, CUdevice peer)
{
    (void) device, (void) peer;
    *can = 0;
    return CUDA_SUCCESS;
}

RESULT(CUDA_ERROR_NOT_SUPPORTED, cuIpcGetMemHandle, CUipcMemHandle *handle, CUdeviceptr addr)
RESULT(CUDA_ERROR_NOT_SUPPORTED, cuIpcOpenMemHandle, CUdeviceptr *addr, CUipcMemHandle handle,
       unsigned int flags)
RESULT(CUDA_ERROR_NOT_SUPPORTED, cuIpcCloseMemHandle, CUdeviceptr addr)
RESULT(CUDA_ERROR_NOT_SUPPORTED, cuIpcGetEventHandle, CUipcEventHandle *handle, CUevent of)
RESULT(CUDA_ERROR_NOT_SUPPORTED, cuIpcOpenEventHandle, CUevent *made, CUipcEventHandle handle)
