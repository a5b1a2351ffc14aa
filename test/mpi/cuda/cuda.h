/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * As much of CUDA's driver API as Open MPI 4.1 is compiled with (configure --with-cuda=DIRECTORY of
 * this file), with the numbers and sizes of CUDA 8; device_cuda.c plays the driver.
 */
#ifndef CUDA_H
#define CUDA_H

#include <stddef.h>

#define CUDA_VERSION 8000

typedef unsigned long long CUdeviceptr;
typedef int CUdevice;
typedef struct CUctx_st *CUcontext;
typedef struct CUevent_st *CUevent;
typedef struct CUstream_st *CUstream;

typedef struct CUipcMemHandle_st {
    char reserved[64];
} CUipcMemHandle;

typedef struct CUipcEventHandle_st {
    char reserved[64];
} CUipcEventHandle;

typedef enum CUresult {
    CUDA_SUCCESS = 0,
    CUDA_ERROR_INVALID_VALUE = 1,
    CUDA_ERROR_NOT_INITIALIZED = 3,
    CUDA_ERROR_DEINITIALIZED = 4,
    CUDA_ERROR_ALREADY_MAPPED = 208,
    CUDA_ERROR_NOT_READY = 600,
    CUDA_ERROR_NOT_SUPPORTED = 801,
} CUresult;

typedef enum CUmemorytype { CU_MEMORYTYPE_HOST = 1, CU_MEMORYTYPE_DEVICE = 2 } CUmemorytype;

typedef enum CUpointer_attribute {
    CU_POINTER_ATTRIBUTE_CONTEXT = 1,
    CU_POINTER_ATTRIBUTE_MEMORY_TYPE = 2,
    CU_POINTER_ATTRIBUTE_SYNC_MEMOPS = 6,
    CU_POINTER_ATTRIBUTE_BUFFER_ID = 7,
    CU_POINTER_ATTRIBUTE_IS_MANAGED = 8,
} CUpointer_attribute;

enum { CU_EVENT_DISABLE_TIMING = 2, CU_EVENT_INTERPROCESS = 4 };
enum { CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS = 1 };

CUresult cuPointerGetAttributes(unsigned int n, CUpointer_attribute *attributes, void **values,
                                CUdeviceptr addr);

#endif /* CUDA_H */
