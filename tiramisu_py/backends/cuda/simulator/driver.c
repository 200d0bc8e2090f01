#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "simulator.h"
#include "tm_cuda.h"

/* The entry points of the CUDA driver, as the runtime calls them. What it gives as the image of a module is the path of a
   library of simulated kernels. */

#define EXPORT __attribute__((visibility("default")))

enum { MAX_CONTEXTS = 64 };

static __thread char words[1000];
static __thread CUcontext contexts[MAX_CONTEXTS];
static __thread int context_count;
static char device_contexts[MAX_DEVICES]; /* their addresses are the contexts */
static bool started;
static pthread_once_t once = PTHREAD_ONCE_INIT;

int tm_fail(int code, const char *format, ...) {
  va_list rest;
  va_start(rest, format);
  vsnprintf(words, sizeof words, format, rest);
  va_end(rest);
  return code;
}

const char *tm_last_words(void) { return words; }

static void start(void) {
  tm_memory_start();
  tm_faults_start();
  void *probe = NULL;
  started = tm_allocate(0, &probe, 1) == SUCCESS && tm_release(probe) == SUCCESS;
}

/* The number of the device whose context is current, or -1. */
static int current(void) {
  if (context_count == 0) return -1;
  return (int)((const char *)contexts[context_count - 1] - device_contexts);
}

#define NEED_CONTEXT() \
  if (current() < 0) return tm_fail(INVALID_CONTEXT, "no context is current")

/* -- start, devices, contexts */

EXPORT CUresult cuInit(unsigned flags) {
  (void)flags;
  pthread_once(&once, start);
  return started ? SUCCESS : tm_fail(OUT_OF_MEMORY, "the host has no addresses for the memory of simulated devices");
}

typedef struct error_name {
  int code;
  const char *name;
} error_name;

static const error_name names[] = {
    {SUCCESS, "CUDA_SUCCESS"}, {INVALID_VALUE, "CUDA_ERROR_INVALID_VALUE"}, {OUT_OF_MEMORY, "CUDA_ERROR_OUT_OF_MEMORY"},
    {NOT_INITIALIZED, "CUDA_ERROR_NOT_INITIALIZED"}, {INVALID_DEVICE, "CUDA_ERROR_INVALID_DEVICE"},
    {INVALID_IMAGE, "CUDA_ERROR_INVALID_IMAGE"}, {INVALID_CONTEXT, "CUDA_ERROR_INVALID_CONTEXT"},
    {INVALID_HANDLE, "CUDA_ERROR_INVALID_HANDLE"}, {NOT_FOUND, "CUDA_ERROR_NOT_FOUND"}, {NOT_READY, "CUDA_ERROR_NOT_READY"},
    {ALREADY_LOCKED, "CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED"},
    {NOT_LOCKED, "CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED"}, {ILLEGAL_ADDRESS, "CUDA_ERROR_ILLEGAL_ADDRESS"}, {LAUNCH_FAILED, "CUDA_ERROR_LAUNCH_FAILED"},
    {NOT_CAPTURABLE, "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED"}, {CAPTURES_MERGED, "CUDA_ERROR_STREAM_CAPTURE_MERGE"},
    {NO_CAPTURE, "CUDA_ERROR_STREAM_CAPTURE_UNMATCHED"}, {NOT_JOINED, "CUDA_ERROR_STREAM_CAPTURE_UNJOINED"},
    {NOT_CAPTURED, "CUDA_ERROR_STREAM_CAPTURE_ISOLATION"}, {IS_CAPTURED, "CUDA_ERROR_CAPTURED_EVENT"},
    {OTHER_GRAPH, "CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE"}};

EXPORT CUresult cuGetErrorName(CUresult code, const char **name) {
  *name = "CUDA_ERROR_UNKNOWN";
  for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
    if (names[i].code == code) *name = names[i].name;
  return SUCCESS;
}

EXPORT CUresult cuGetErrorString(CUresult code, const char **text) {
  (void)code;
  *text = tm_last_words();
  return SUCCESS;
}

EXPORT CUresult cuDeviceGetCount(int *count) {
  *count = tm_own_options()->devices;
  return SUCCESS;
}

EXPORT CUresult cuDeviceGet(CUdevice *device, int number) {
  if (number < 0 || number >= tm_own_options()->devices) return tm_fail(INVALID_DEVICE, "no simulated device %d", number);
  *device = number;
  return SUCCESS;
}

EXPORT CUresult cuDeviceGetName(char *name, int size, CUdevice device) {
  (void)device;
  snprintf(name, (size_t)size, "tiramisu simulated GPU");
  return SUCCESS;
}

/* Compute capability 0.0: takes no cubin. */
EXPORT CUresult cuDeviceGetAttribute(int *value, int attribute, CUdevice device) {
  (void)device;
  *value = attribute == TM_CU_MOST_SHARED ? tm_own_options()->shared : 0;
  return SUCCESS;
}

EXPORT CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device) {
  if (device < 0 || device >= MAX_DEVICES) return tm_fail(INVALID_DEVICE, "no simulated device %d", device);
  *context = (CUcontext)(void *)&device_contexts[device];
  return SUCCESS;
}

EXPORT CUresult cuCtxPushCurrent_v2(CUcontext context) {
  const char *given = (const char *)context;
  if (given < device_contexts || given >= device_contexts + MAX_DEVICES) return tm_fail(INVALID_CONTEXT, "no context of the simulator");
  if (context_count == MAX_CONTEXTS) return tm_fail(INVALID_CONTEXT, "more than %d contexts pushed", MAX_CONTEXTS);
  contexts[context_count++] = context;
  return SUCCESS;
}

EXPORT CUresult cuCtxPopCurrent_v2(CUcontext *context) {
  NEED_CONTEXT();
  *context = contexts[--context_count];
  return SUCCESS;
}

/* -- modules */

EXPORT CUresult cuModuleLoadDataEx(CUmodule *result, const void *image, unsigned count, int *options, void **values) {
  NEED_CONTEXT();
  (void)count;
  (void)options;
  (void)values;
  const char *path = image;
  void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (library == NULL) return tm_fail(INVALID_IMAGE, "simulated kernels: %s", dlerror());
  tm_simulated_entry *entry;
  *(void **)&entry = dlsym(library, "tm_simulated");
  tm_module *module = calloc(1, sizeof *module + strlen(path));
  if (entry == NULL || module == NULL) {
    dlclose(library);
    free(module);
    return tm_fail(INVALID_IMAGE, "%s is no library of simulated kernels", path);
  }
  Dl_info place;
  module->library = library;
  module->program = entry(&tm_services);
  module->base = dladdr((const void *)module->program, &place) != 0 ? place.dli_fbase : NULL;
  strcpy(module->path, path);
  if (module->program->checked) tm_checks_start();
  *result = (CUmodule)(void *)module;
  return SUCCESS;
}

/* The library stays loaded: functions may be held elsewhere. */
EXPORT CUresult cuModuleUnload(CUmodule module) {
  NEED_CONTEXT();
  (void)module;
  return SUCCESS;
}

typedef struct function {
  const tm_module *module;
  const tm_simulated_kernel *kernel;
  int shared; /* the bytes that a launch may ask for */
} function;

EXPORT CUresult cuModuleGetFunction(CUfunction *result, CUmodule given, const char *name) {
  NEED_CONTEXT();
  const tm_module *module = (const tm_module *)(const void *)given;
  for (int i = 0; i < module->program->kernel_count; i++) {
    if (strcmp(module->program->kernels[i].name, name) != 0) continue;
    function *found = malloc(sizeof *found);
    if (found == NULL) return tm_fail(OUT_OF_MEMORY, "the host is out of memory");
    *found = (function){module, &module->program->kernels[i], SHARED_UNASKED};
    *result = (CUfunction)(void *)found;
    return SUCCESS;
  }
  return tm_fail(NOT_FOUND, "no kernel %s in %s", name, module->path);
}

EXPORT CUresult cuFuncSetAttribute(CUfunction given, int attribute, int value) {
  NEED_CONTEXT();
  const int most = tm_own_options()->shared;
  if (attribute != TM_CU_DYNAMIC_SHARED) return SUCCESS;
  if (value > most) return tm_fail(INVALID_VALUE, "%d bytes of shared memory; there are %d", value, most);
  ((function *)(void *)given)->shared = value;
  return SUCCESS;
}

EXPORT CUresult cuLaunchKernel(CUfunction given, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
                               unsigned block_y, unsigned block_z, unsigned shared, CUstream stream, void **arguments,
                               void **extra) {
  NEED_CONTEXT();
  (void)extra;
  const function *called = (const function *)(const void *)given;
  const unsigned grid[3] = {grid_x, grid_y, grid_z}, block[3] = {block_x, block_y, block_z};
  tm_launch *launch;
  if (shared > (unsigned)called->shared)
    return tm_fail(INVALID_VALUE, "kernel %s: %u bytes of shared memory, and it has not been allowed more than %d",
                   called->kernel->name, shared, called->shared);
  const int code = tm_launch_make(&launch, called->module, called->kernel, grid, block, shared, arguments);
  return code != SUCCESS ? code : tm_stream_launch((tm_stream *)(void *)stream, launch);
}

/* -- memory */

static void *pointer(CUdeviceptr address) { return (void *)(uintptr_t)address; }

EXPORT CUresult cuMemAlloc_v2(CUdeviceptr *address, size_t bytes) {
  NEED_CONTEXT();
  void *made;
  const int code = tm_allocate(current(), &made, bytes);
  *address = (CUdeviceptr)(uintptr_t)made;
  return code;
}

EXPORT CUresult cuMemFree_v2(CUdeviceptr address) {
  NEED_CONTEXT();
  return tm_release(pointer(address));
}

EXPORT CUresult cuMemHostAlloc(void **address, size_t bytes, unsigned flags) {
  NEED_CONTEXT();
  (void)flags;
  return tm_pin(address, bytes);
}

EXPORT CUresult cuMemFreeHost(void *address) {
  NEED_CONTEXT();
  return tm_unpin(address);
}

EXPORT CUresult cuMemHostRegister_v2(void *address, size_t bytes, unsigned flags) {
  NEED_CONTEXT();
  (void)flags;
  return tm_lock_pages(address, bytes);
}

EXPORT CUresult cuMemHostUnregister(void *address) {
  NEED_CONTEXT();
  return tm_unlock_pages(address);
}

EXPORT CUresult cuMemHostGetDevicePointer_v2(CUdeviceptr *address, void *host, unsigned flags) {
  NEED_CONTEXT();
  (void)flags;
  if (!tm_is_pinned(host, 1)) return tm_fail(INVALID_VALUE, "%p is not pinned memory", host);
  *address = (CUdeviceptr)(uintptr_t)host;
  return SUCCESS;
}

/* The kind of the memory; ordinary memory of the host has none. */
EXPORT CUresult cuPointerGetAttribute(void *result, int attribute, CUdeviceptr address) {
  NEED_CONTEXT();
  const bool on_host = tm_is_pinned(pointer(address), 1);
  if (attribute != TM_CU_MEMORY_KIND) return tm_fail(INVALID_VALUE, "attribute %d of a pointer", attribute);
  if (!on_host && !tm_is_device_address(pointer(address)))
    return tm_fail(INVALID_VALUE, "%p is neither pinned memory nor on a device", pointer(address));
  *(unsigned *)result = on_host ? TM_CU_MEMORY_HOST : TM_CU_MEMORY_DEVICE;
  return SUCCESS;
}

/* -- copies: ends are checked when they are asked for */

typedef struct box {
  size_t run, lines, planes;
} box;

static size_t extent(const box *box, size_t pitch, size_t plane) {
  return box->run == 0 || box->lines == 0 || box->planes == 0 ? 0 : (box->planes - 1) * plane + (box->lines - 1) * pitch + box->run;
}

/* The place behind one end of a copy. Pinned memory is reached by its host address. */
static int end_of_copy(bool on_device, const void *address, size_t bytes, const char *end, char **place) {
  char what[200];
  *place = (char *)(uintptr_t)address;
  if (!on_device && tm_is_pinned_in_part(address, bytes))
    return tm_fail(INVALID_VALUE, "a copy whose %s is page-locked in part", end);
  if (!on_device || tm_is_pinned(address, bytes)) {
    if (!tm_is_device_address(address)) return SUCCESS;
    return tm_fail(INVALID_VALUE, "a copy whose %s is said to be host memory, and is a device address", end);
  }
  if (!tm_is_device_address(address))
    return tm_fail(INVALID_VALUE, "a copy whose %s is said to be on a device, and is a host address (%p)", end, address);
  *place = tm_place(address);
  if (tm_allocation_of(address, bytes) != NULL) return SUCCESS;
  tm_describe(what, sizeof what, tm_allocation_of(address, 0) == NULL ? address : (const char *)address + bytes - 1);
  return tm_fail(ILLEGAL_ADDRESS, "a copy of %zu bytes whose %s reaches %s", bytes, end, what);
}

static int copy(tm_stream *stream, bool to_device, const void *target, size_t target_pitch, size_t target_plane,
                bool from_device, const void *source, size_t source_pitch, size_t source_plane, box box) {
  tm_transfer transfer = {.run = box.run, .lines = box.lines, .planes = box.planes, .target_pitch = target_pitch,
                          .target_plane = target_plane, .source_pitch = source_pitch, .source_plane = source_plane,
                          .from_host = !from_device, .to_host = !to_device};
  char *place;
  if (extent(&box, target_pitch, target_plane) == 0) return SUCCESS;
  int code = end_of_copy(from_device, source, extent(&box, source_pitch, source_plane), "source", &place);
  transfer.source = place;
  if (code == SUCCESS) code = end_of_copy(to_device, target, extent(&box, target_pitch, target_plane), "target", &transfer.target);
  return code == SUCCESS ? tm_stream_copy(stream, &transfer) : code;
}

static int copy_run(tm_stream *stream, bool to_device, const void *target, bool from_device, const void *source, size_t bytes) {
  const box all = {bytes, 1, 1};
  return copy(stream, to_device, target, bytes, bytes, from_device, source, bytes, bytes, all);
}

EXPORT CUresult cuMemcpyHtoD_v2(CUdeviceptr target, const void *source, size_t bytes) {
  NEED_CONTEXT();
  return copy_run(NULL, true, pointer(target), false, source, bytes);
}
EXPORT CUresult cuMemcpyDtoH_v2(void *target, CUdeviceptr source, size_t bytes) {
  NEED_CONTEXT();
  return copy_run(NULL, false, target, true, pointer(source), bytes);
}
EXPORT CUresult cuMemcpyDtoD_v2(CUdeviceptr target, CUdeviceptr source, size_t bytes) {
  NEED_CONTEXT();
  return copy_run(NULL, true, pointer(target), true, pointer(source), bytes);
}
EXPORT CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr target, const void *source, size_t bytes, CUstream stream) {
  NEED_CONTEXT();
  return copy_run((tm_stream *)(void *)stream, true, pointer(target), false, source, bytes);
}
EXPORT CUresult cuMemcpyDtoHAsync_v2(void *target, CUdeviceptr source, size_t bytes, CUstream stream) {
  NEED_CONTEXT();
  return copy_run((tm_stream *)(void *)stream, false, target, true, pointer(source), bytes);
}
EXPORT CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr target, CUdeviceptr source, size_t bytes, CUstream stream) {
  NEED_CONTEXT();
  return copy_run((tm_stream *)(void *)stream, true, pointer(target), true, pointer(source), bytes);
}
EXPORT CUresult cuMemcpyPeerAsync(CUdeviceptr target, CUcontext target_context, CUdeviceptr source, CUcontext source_context,
                                  size_t bytes, CUstream stream) {
  NEED_CONTEXT();
  (void)target_context;
  (void)source_context;
  return copy_run((tm_stream *)(void *)stream, true, pointer(target), true, pointer(source), bytes);
}

/* Both descriptions of a box begin alike; the fields after the pointers have the same places, too. */
static int copy_box(const tm_cu_copy *given, CUstream stream) {
  const bool to_device = given->targetKind == TM_CU_MEMORY_DEVICE, from_device = given->sourceKind == TM_CU_MEMORY_DEVICE;
  const void *source = from_device ? pointer(given->sourceDevice) : given->sourceHost;
  void *target = to_device ? pointer(given->targetDevice) : given->targetHost;
  const box all = {given->width, given->height, given->depth};
  if ((given->height > 1 || given->depth > 1) && (given->sourcePitch < given->width || given->targetPitch < given->width))
    return tm_fail(INVALID_VALUE, "a copy of rows of %zu bytes that lie %zu and %zu bytes apart", given->width,
                   given->sourcePitch, given->targetPitch);
  return copy((tm_stream *)(void *)stream, to_device, target, given->targetPitch, given->targetPitch * given->targetHeight,
              from_device, source, given->sourcePitch, given->sourcePitch * given->sourceHeight, all);
}

EXPORT CUresult cuMemcpy3DAsync_v2(const tm_cu_copy *given, CUstream stream) {
  NEED_CONTEXT();
  return copy_box(given, stream);
}

EXPORT CUresult cuMemcpy3DPeerAsync(const tm_cu_peer_copy *given, CUstream stream) {
  NEED_CONTEXT();
  tm_cu_copy same;
  memcpy(&same, given, sizeof same);
  return copy_box(&same, stream);
}

EXPORT CUresult cuMemsetD8Async(CUdeviceptr address, unsigned char value, size_t bytes, CUstream stream) {
  NEED_CONTEXT();
  char *place;
  const int code = end_of_copy(true, pointer(address), bytes, "target", &place);
  return code == SUCCESS ? tm_stream_set((tm_stream *)(void *)stream, place, value, bytes) : code;
}

/* -- streams and events. 1 and 2 are default streams, on which nothing is ever under way */

static tm_stream *stream_of(CUstream stream) {
  return (uintptr_t)stream <= 2 ? NULL : (tm_stream *)(void *)stream;
}

EXPORT CUresult cuStreamCreate(CUstream *stream, unsigned flags) {
  NEED_CONTEXT();
  (void)flags;
  return tm_stream_make((tm_stream **)(void *)stream);
}
EXPORT CUresult cuStreamDestroy_v2(CUstream stream) {
  NEED_CONTEXT();
  return tm_stream_end(stream_of(stream));
}
EXPORT CUresult cuStreamSynchronize(CUstream stream) {
  NEED_CONTEXT();
  return tm_stream_wait(stream_of(stream));
}
EXPORT CUresult cuStreamWaitEvent(CUstream stream, CUevent event, unsigned flags) {
  NEED_CONTEXT();
  (void)flags;
  return tm_stream_wait_event(stream_of(stream), (tm_event *)(void *)event);
}
EXPORT CUresult cuEventCreate(CUevent *event, unsigned flags) {
  NEED_CONTEXT();
  (void)flags;
  return tm_event_make((tm_event **)(void *)event);
}
EXPORT CUresult cuEventDestroy_v2(CUevent event) {
  NEED_CONTEXT();
  return tm_event_end((tm_event *)(void *)event);
}
EXPORT CUresult cuEventRecord(CUevent event, CUstream stream) {
  NEED_CONTEXT();
  return tm_event_record((tm_event *)(void *)event, stream_of(stream));
}
EXPORT CUresult cuEventQuery(CUevent event) {
  NEED_CONTEXT();
  return tm_event_query((tm_event *)(void *)event);
}
EXPORT CUresult cuEventSynchronize(CUevent event) {
  NEED_CONTEXT();
  return tm_event_wait((tm_event *)(void *)event);
}
EXPORT CUresult cuEventElapsedTime(float *milliseconds, CUevent from, CUevent to) {
  NEED_CONTEXT();
  const int64_t first = tm_event_time((tm_event *)(void *)from), last = tm_event_time((tm_event *)(void *)to);
  if (first == 0 || last == 0) return tm_fail(NOT_READY, "the time of an event that has not happened");
  *milliseconds = (float)((double)(last - first) / 1e6);
  return SUCCESS;
}

/* -- graphs */

EXPORT CUresult cuStreamBeginCapture_v2(CUstream stream, int mode) {
  NEED_CONTEXT();
  (void)mode;
  return tm_capture_begin(stream_of(stream));
}
EXPORT CUresult cuStreamEndCapture(CUstream stream, CUgraph *graph) {
  NEED_CONTEXT();
  return tm_capture_end(stream_of(stream), (tm_graph **)(void *)graph);
}
EXPORT CUresult cuGraphInstantiateWithFlags(CUgraphExec *executable, CUgraph graph, unsigned long long flags) {
  NEED_CONTEXT();
  (void)flags;
  return tm_executable_make((tm_executable **)(void *)executable, (const tm_graph *)(const void *)graph);
}
EXPORT CUresult cuGraphExecUpdate_v2(CUgraphExec executable, CUgraph graph, tm_cu_update *why) {
  NEED_CONTEXT();
  const int code = tm_executable_update((tm_executable *)(void *)executable, (const tm_graph *)(const void *)graph);
  why->result = code != SUCCESS;
  return code;
}
EXPORT CUresult cuGraphLaunch(CUgraphExec executable, CUstream stream) {
  NEED_CONTEXT();
  return tm_executable_launch((tm_executable *)(void *)executable, stream_of(stream));
}
EXPORT CUresult cuGraphDestroy(CUgraph graph) {
  NEED_CONTEXT();
  tm_graph_end((tm_graph *)(void *)graph);
  return SUCCESS;
}
EXPORT CUresult cuGraphExecDestroy(CUgraphExec executable) {
  NEED_CONTEXT();
  tm_executable_end((tm_executable *)(void *)executable);
  return SUCCESS;
}

/* No part of CUDA: when an event happened, on the host's clock. */
EXPORT int64_t tm_simulator_time(CUevent event) { return tm_event_time((tm_event *)(void *)event); }
