/* The part of the CUDA driver's interface that the runtime uses, declared by hand: no CUDA header is needed to build a
   generated library. A test compares it with cuda.h; the simulator implements it. */
#ifndef TM_CUDA_H
#define TM_CUDA_H

#include <stddef.h>

#ifndef __cuda_cuda_h__
typedef int CUresult;
typedef int CUdevice;
typedef unsigned long long CUdeviceptr;
typedef struct CUctx_st *CUcontext;
typedef struct CUmod_st *CUmodule;
typedef struct CUfunc_st *CUfunction;
typedef struct CUstream_st *CUstream;
typedef struct CUevent_st *CUevent;
typedef struct CUgraph_st *CUgraph;
typedef struct CUgraphExec_st *CUgraphExec;
#endif

enum { TM_CU_MEMORY_HOST = 1, TM_CU_MEMORY_DEVICE = 2, TM_CU_MEMORY_KIND = 2 };
enum { TM_CU_CAPABILITY_MAJOR = 75, TM_CU_CAPABILITY_MINOR = 76, TM_CU_MOST_SHARED = 97 };
enum { TM_CU_JIT_ERROR_LOG = 5, TM_CU_JIT_ERROR_LOG_BYTES = 6 };
enum { TM_CU_DYNAMIC_SHARED = 8, TM_CU_STREAM_NON_BLOCKING = 1, TM_CU_EVENT_NO_TIMING = 2 };
enum { TM_CU_CAPTURE_RELAXED = 2 };
enum { TM_CU_HOST_PORTABLE = 1, TM_CU_HOST_MAPPED = 2 };

/* CUDA_MEMCPY3D and CUDA_MEMCPY3D_PEER */
typedef struct tm_cu_copy {
  size_t sourceX, sourceY, sourceZ, sourceLevel;
  int sourceKind;
  const void *sourceHost;
  CUdeviceptr sourceDevice;
  void *sourceArray, *sourceReserved;
  size_t sourcePitch, sourceHeight;
  size_t targetX, targetY, targetZ, targetLevel;
  int targetKind;
  void *targetHost;
  CUdeviceptr targetDevice;
  void *targetArray, *targetReserved;
  size_t targetPitch, targetHeight;
  size_t width, height, depth;
} tm_cu_copy;

typedef struct tm_cu_peer_copy {
  size_t sourceX, sourceY, sourceZ, sourceLevel;
  int sourceKind;
  const void *sourceHost;
  CUdeviceptr sourceDevice;
  void *sourceArray;
  CUcontext sourceContext;
  size_t sourcePitch, sourceHeight;
  size_t targetX, targetY, targetZ, targetLevel;
  int targetKind;
  void *targetHost;
  CUdeviceptr targetDevice;
  void *targetArray;
  CUcontext targetContext;
  size_t targetPitch, targetHeight;
  size_t width, height, depth;
} tm_cu_peer_copy;

/* CUgraphExecUpdateResultInfo */
typedef struct tm_cu_update {
  int result;
  void *node, *from;
} tm_cu_update;

/* ENTRY(name for us, exported name, parameters). The suffix _v2 matters: without it, some are of an older interface. */
#define TM_CUDA_ENTRIES(ENTRY)                                                                                  \
  ENTRY(Init, cuInit, (unsigned))                                                                               \
  ENTRY(GetErrorName, cuGetErrorName, (CUresult, const char **))                                                \
  ENTRY(GetErrorString, cuGetErrorString, (CUresult, const char **))                                            \
  ENTRY(DeviceGetCount, cuDeviceGetCount, (int *))                                                              \
  ENTRY(DeviceGet, cuDeviceGet, (CUdevice *, int))                                                              \
  ENTRY(DeviceGetName, cuDeviceGetName, (char *, int, CUdevice))                                                \
  ENTRY(DeviceGetAttribute, cuDeviceGetAttribute, (int *, int, CUdevice))                                       \
  ENTRY(PrimaryRetain, cuDevicePrimaryCtxRetain, (CUcontext *, CUdevice))                                       \
  ENTRY(ContextPush, cuCtxPushCurrent_v2, (CUcontext))                                                          \
  ENTRY(ContextPop, cuCtxPopCurrent_v2, (CUcontext *))                                                          \
  ENTRY(ModuleLoad, cuModuleLoadDataEx, (CUmodule *, const void *, unsigned, int *, void **))                   \
  ENTRY(ModuleUnload, cuModuleUnload, (CUmodule))                                                               \
  ENTRY(GetFunction, cuModuleGetFunction, (CUfunction *, CUmodule, const char *))                               \
  ENTRY(FunctionSet, cuFuncSetAttribute, (CUfunction, int, int))                                                \
  ENTRY(Allocate, cuMemAlloc_v2, (CUdeviceptr *, size_t))                                                       \
  ENTRY(Free, cuMemFree_v2, (CUdeviceptr))                                                                      \
  ENTRY(HostAllocate, cuMemHostAlloc, (void **, size_t, unsigned))                                              \
  ENTRY(HostFree, cuMemFreeHost, (void *))                                                                      \
  ENTRY(HostDeviceAddress, cuMemHostGetDevicePointer_v2, (CUdeviceptr *, void *, unsigned))                     \
  ENTRY(LockPages, cuMemHostRegister_v2, (void *, size_t, unsigned))                                            \
  ENTRY(UnlockPages, cuMemHostUnregister, (void *))                                                             \
  ENTRY(PointerGetAttribute, cuPointerGetAttribute, (void *, int, CUdeviceptr))                                 \
  ENTRY(CopyToDevice, cuMemcpyHtoD_v2, (CUdeviceptr, const void *, size_t))                                     \
  ENTRY(CopyToHost, cuMemcpyDtoH_v2, (void *, CUdeviceptr, size_t))                                             \
  ENTRY(CopyOnDevice, cuMemcpyDtoD_v2, (CUdeviceptr, CUdeviceptr, size_t))                                      \
  ENTRY(CopyToDeviceAsync, cuMemcpyHtoDAsync_v2, (CUdeviceptr, const void *, size_t, CUstream))                 \
  ENTRY(CopyToHostAsync, cuMemcpyDtoHAsync_v2, (void *, CUdeviceptr, size_t, CUstream))                         \
  ENTRY(CopyOnDeviceAsync, cuMemcpyDtoDAsync_v2, (CUdeviceptr, CUdeviceptr, size_t, CUstream))                  \
  ENTRY(CopyBoxAsync, cuMemcpy3DAsync_v2, (const tm_cu_copy *, CUstream))                                       \
  ENTRY(CopyPeerAsync, cuMemcpyPeerAsync, (CUdeviceptr, CUcontext, CUdeviceptr, CUcontext, size_t, CUstream))   \
  ENTRY(CopyBoxPeerAsync, cuMemcpy3DPeerAsync, (const tm_cu_peer_copy *, CUstream))                             \
  ENTRY(SetAsync, cuMemsetD8Async, (CUdeviceptr, unsigned char, size_t, CUstream))                              \
  ENTRY(StreamCreate, cuStreamCreate, (CUstream *, unsigned))                                                   \
  ENTRY(StreamDestroy, cuStreamDestroy_v2, (CUstream))                                                          \
  ENTRY(StreamSynchronize, cuStreamSynchronize, (CUstream))                                                     \
  ENTRY(StreamWaitEvent, cuStreamWaitEvent, (CUstream, CUevent, unsigned))                                      \
  ENTRY(EventCreate, cuEventCreate, (CUevent *, unsigned))                                                      \
  ENTRY(EventDestroy, cuEventDestroy_v2, (CUevent))                                                             \
  ENTRY(EventRecord, cuEventRecord, (CUevent, CUstream))                                                        \
  ENTRY(EventQuery, cuEventQuery, (CUevent))                                                                    \
  ENTRY(EventSynchronize, cuEventSynchronize, (CUevent))                                                        \
  ENTRY(Launch, cuLaunchKernel,                                                                                 \
        (CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, CUstream, void **, void **))

/* What a call uses beside these whose launches become graphs; of CUDA 12. */
#define TM_CUDA_GRAPH_ENTRIES(ENTRY)                                                                            \
  ENTRY(StreamBeginCapture, cuStreamBeginCapture_v2, (CUstream, int))                                           \
  ENTRY(StreamEndCapture, cuStreamEndCapture, (CUstream, CUgraph *))                                            \
  ENTRY(GraphInstantiate, cuGraphInstantiateWithFlags, (CUgraphExec *, CUgraph, unsigned long long))            \
  ENTRY(GraphExecUpdate, cuGraphExecUpdate_v2, (CUgraphExec, CUgraph, tm_cu_update *))                          \
  ENTRY(GraphLaunch, cuGraphLaunch, (CUgraphExec, CUstream))                                                    \
  ENTRY(GraphDestroy, cuGraphDestroy, (CUgraph))                                                                \
  ENTRY(GraphExecDestroy, cuGraphExecDestroy, (CUgraphExec))

/* What a library with a trace uses beside these. */
#define TM_CUDA_TRACE_ENTRIES(ENTRY) ENTRY(EventElapsedTime, cuEventElapsedTime, (float *, CUevent, CUevent))

#endif
