/* Compares the driver's interface as tm_cuda.h declares it with cuda.h. Compiled only. */
#include <cuda.h>

#include "tm_cuda.h"

/* Structures: the same fields at the same places. */
#define SAME_PLACE(ours, our_type, theirs, their_type)                                                        \
  _Static_assert(offsetof(our_type, ours) == offsetof(their_type, theirs), #ours " lies elsewhere");          \
  _Static_assert(sizeof(((our_type *)0)->ours) == sizeof(((their_type *)0)->theirs), #ours " has another size")

#define SAME_COPY(ours, theirs)                            \
  SAME_PLACE(sourceKind, ours, srcMemoryType, theirs);     \
  SAME_PLACE(sourceHost, ours, srcHost, theirs);           \
  SAME_PLACE(sourceDevice, ours, srcDevice, theirs);       \
  SAME_PLACE(sourceArray, ours, srcArray, theirs);         \
  SAME_PLACE(sourcePitch, ours, srcPitch, theirs);         \
  SAME_PLACE(sourceHeight, ours, srcHeight, theirs);       \
  SAME_PLACE(targetKind, ours, dstMemoryType, theirs);     \
  SAME_PLACE(targetHost, ours, dstHost, theirs);           \
  SAME_PLACE(targetDevice, ours, dstDevice, theirs);       \
  SAME_PLACE(targetPitch, ours, dstPitch, theirs);         \
  SAME_PLACE(targetHeight, ours, dstHeight, theirs);       \
  SAME_PLACE(width, ours, WidthInBytes, theirs);           \
  SAME_PLACE(height, ours, Height, theirs);                \
  SAME_PLACE(depth, ours, Depth, theirs);                  \
  _Static_assert(sizeof(ours) == sizeof(theirs), "another size")

SAME_COPY(tm_cu_copy, CUDA_MEMCPY3D);
SAME_COPY(tm_cu_peer_copy, CUDA_MEMCPY3D_PEER);
SAME_PLACE(sourceContext, tm_cu_peer_copy, srcContext, CUDA_MEMCPY3D_PEER);
SAME_PLACE(targetContext, tm_cu_peer_copy, dstContext, CUDA_MEMCPY3D_PEER);

_Static_assert(sizeof(tm_cu_update) == sizeof(CUgraphExecUpdateResultInfo), "");
_Static_assert(TM_CU_CAPTURE_RELAXED == CU_STREAM_CAPTURE_MODE_RELAXED, "");
_Static_assert(sizeof(CUresult) == sizeof(int) && sizeof(CUdevice) == sizeof(int), "");
_Static_assert(sizeof(CUdeviceptr) == sizeof(unsigned long long), "");
_Static_assert(TM_CU_MEMORY_HOST == CU_MEMORYTYPE_HOST && TM_CU_MEMORY_DEVICE == CU_MEMORYTYPE_DEVICE, "");
_Static_assert(TM_CU_MEMORY_KIND == CU_POINTER_ATTRIBUTE_MEMORY_TYPE, "");
_Static_assert(TM_CU_CAPABILITY_MAJOR == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, "");
_Static_assert(TM_CU_CAPABILITY_MINOR == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, "");
_Static_assert(TM_CU_JIT_ERROR_LOG == CU_JIT_ERROR_LOG_BUFFER, "");
_Static_assert(TM_CU_JIT_ERROR_LOG_BYTES == CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES, "");
_Static_assert(TM_CU_DYNAMIC_SHARED == CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, "");
_Static_assert(TM_CU_STREAM_NON_BLOCKING == CU_STREAM_NON_BLOCKING, "");
_Static_assert(TM_CU_EVENT_NO_TIMING == CU_EVENT_DISABLE_TIMING, "");
_Static_assert(TM_CU_HOST_PORTABLE == CU_MEMHOSTALLOC_PORTABLE && TM_CU_HOST_MAPPED == CU_MEMHOSTALLOC_DEVICEMAP, "");
_Static_assert(TM_CU_HOST_PORTABLE == CU_MEMHOSTREGISTER_PORTABLE, "");
_Static_assert(CUDA_ERROR_INVALID_VALUE == 1 && CUDA_ERROR_NOT_READY == 600, "");
_Static_assert(CUDA_ERROR_OUT_OF_MEMORY == 2 && CUDA_ERROR_NOT_INITIALIZED == 3 && CUDA_ERROR_NO_DEVICE == 100, "");
_Static_assert(CUDA_ERROR_NO_BINARY_FOR_GPU == 209 && CUDA_ERROR_UNSUPPORTED_PTX_VERSION == 222, "");
_Static_assert(CUDA_ERROR_ILLEGAL_ADDRESS == 700 && CUDA_ERROR_LAUNCH_FAILED == 719, "");

/* Functions: the list of tm_cuda.h, with their structures for ours; those that take an enumeration are given as theirs. */
#define tm_cu_copy CUDA_MEMCPY3D
#define tm_cu_peer_copy CUDA_MEMCPY3D_PEER
#define tm_cu_update CUgraphExecUpdateResultInfo
#define AS_INT(symbol) _Generic(&symbol, \
    CUresult(*)(int *, CUdevice_attribute, CUdevice): (CUresult(*)(int *, int, CUdevice))0, \
    CUresult(*)(CUmodule *, const void *, unsigned, CUjit_option *, void **): \
        (CUresult(*)(CUmodule *, const void *, unsigned, int *, void **))0, \
    CUresult(*)(void *, CUpointer_attribute, CUdeviceptr): (CUresult(*)(void *, int, CUdeviceptr))0, \
    CUresult(*)(CUstream, CUstreamCaptureMode): (CUresult(*)(CUstream, int))0, \
    CUresult(*)(CUfunction, CUfunction_attribute, int): (CUresult(*)(CUfunction, int, int))0, \
    default: &symbol)
#define SAME_FUNCTION(name, symbol, parameters) \
  _Static_assert(__builtin_types_compatible_p(__typeof__(AS_INT(symbol)), CUresult(*) parameters), #symbol);
TM_CUDA_ENTRIES(SAME_FUNCTION)
TM_CUDA_TRACE_ENTRIES(SAME_FUNCTION)
TM_CUDA_GRAPH_ENTRIES(SAME_FUNCTION)
