/* The runtime of generated host code, over the entry points of the CUDA driver or of the simulator, opened at run time.

   Kept between calls, each under a lock: the drivers that were opened, with their devices and modules, and what calls have
   given back (device memory, pinned memory, streams, events). What a call frees must not be in use any more: generated code
   is proven to have waited for it, and the simulator refuses it otherwise. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "tm_gpu.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tm_cuda.h"

/* What only a library with a trace has: its copy of this file begins with tm_trace.h. */
#ifdef TM_TRACE_H
#define TRACED(...) __VA_ARGS__
#else
#define TRACED(...)
#endif

enum { MAX_DEVICES = 64, RECENT = 4, NAME_BYTES = 100, PAGE = 4096 };

/* Codes of the driver that we know something about. */
enum { CU_INVALID_VALUE = 1, CU_OUT_OF_MEMORY = 2, CU_NOT_INITIALIZED = 3, CU_NO_DEVICE = 100, CU_NO_BINARY = 209,
       CU_OLD_FOR_PTX = 222, CU_NOT_READY = 600, CU_ILLEGAL_ADDRESS = 700, CU_LAUNCH_FAILED = 719 };

/* Something given back and kept: an address with its size, or a stream or an event. */
typedef struct kept {
  void *item;
  size_t bytes;
  struct kept *next;
} kept;

/* Memory of callers that is page-locked, for so many calls. */
typedef struct locked {
  char *start;
  size_t bytes;
  int calls;
  struct locked *next;
} locked;

/* Memory that a call may have locked; `locks` once it has, through a context of a device. */
typedef struct lockable {
  char *start;
  size_t bytes;
  bool asked;
  locked *locks;
  struct device *on;
  struct lockable *next;
} lockable;

struct driver;

typedef struct device {
  struct driver *driver;
  bool open;
  int number, architecture;
  CUcontext context;
  char name[NAME_BYTES];
  kept *memory, *streams, *events;
  TRACED(kept *timed;)
} device;

typedef struct module {
  const tm_gpu_program *program;
  char *identity; /* tells programs apart that came to lie at the same address */
  device *device;
  CUfunction *functions;
  struct module *next;
} module;

typedef struct driver {
  char *path; /* "" for the CUDA driver */
  void *library;
  bool simulated;
  int (*pools)(void), (*stages)(void); /* whether the simulator wants what is freed to be kept, and downloads staged */
#define MEMBER(name, symbol, parameters) CUresult(*name) parameters;
  TM_CUDA_ENTRIES(MEMBER)
  TRACED(TM_CUDA_TRACE_ENTRIES(MEMBER) int64_t (*event_time)(CUevent);)
  TM_CUDA_GRAPH_ENTRIES(MEMBER)
#undef MEMBER
  pthread_mutex_t lock; /* of all that follows */
  device devices[MAX_DEVICES];
  module *modules;
  bool has_graphs; /* whether its entries for graphs were found */
  struct executable *executables;
  kept *host_memory, *arrays; /* what is kept of page-locked memory, and what callers have of it */
  int64_t arrays_asked, arrays_made;
  locked *locked;
  struct driver *next;
} driver;

struct tm_gpu_event {
  CUevent event;
  struct call_device *owner;
  unsigned phase; /* of the capture, in which it was recorded */
};

typedef struct call_stream {
  CUstream stream;
  unsigned long last_use;
  unsigned phase; /* of the capture, in which it took part last */
  CUevent mark;   /* for what waits for all that it has */
} call_stream;

typedef struct event_list {
  tm_gpu_event *events, **addresses;
  size_t count;
  struct event_list *next;
} event_list;

/* What a call has on a device. Stream number n is at n + 1; that of waiting calls at 0. */
typedef struct call_device {
  device *device;
  module *module;
  call_stream *streams;
  int stream_count;
  kept *memory;
  event_list *events;
  TRACED(CUevent zero; int64_t zero_time;) /* an event of the device, and when it was on the host's clock */
} call_device;

/* A download that goes through page-locked memory, and from there to its target when `event` has happened. */
typedef struct staged {
  char *target, *memory;
  tm_gpu_box box; /* from the memory to the target */
  device *on;
  CUevent event;
  bool arrived;
} staged;

typedef struct recent_launch {
  int kernel, device;
  int64_t grid[3], block[3];
} recent_launch;

struct tm_gpu_stage {
  const char *function;
  device *on;
  int number;
  CUstream stream;
  void *memory;
  struct tm_gpu_stage *next;
};

struct tm_gpu_call {
  driver *driver;
  const tm_gpu_program *program;
  int first;
  unsigned long uses, launches;
  call_device devices[MAX_DEVICES];
  kept *host_memory;
  lockable *lockable;
  staged *staged; /* what is not delivered yet, oldest first */
  size_t staged_count, staged_room;
  tm_gpu_stage *stages;
  TRACED(struct call_trace *trace;)
  struct capture *capture; /* NULL: nothing becomes a graph */
  recent_launch recent[RECENT]; /* the last ones: an error that is met later may be theirs */
};

static driver *drivers;
static pthread_mutex_t drivers_lock = PTHREAD_MUTEX_INITIALIZER;
static __thread char error_text[1600];

/* What the last call of the thread has copied, by the names of its copies. */
enum { MOST_COPIES = 128 };
static __thread struct {
  const char *what;
  int64_t bytes;
} copied[MOST_COPIES];
static __thread int copied_count;

/* What it has launched. */
static __thread struct {
  int64_t kernels, graphs;
} launched;

/* -- errors */

const char *tm_gpu_error(void) { return error_text; }

static int __attribute__((format(printf, 2, 3))) fail(int code, const char *format, ...) {
  va_list rest;
  va_start(rest, format);
  vsnprintf(error_text, sizeof error_text, format, rest);
  va_end(rest);
  return code;
}

static int no_host_memory(void) { return fail(TM_GPU_NO_MEMORY, "the host is out of memory"); }

static const char *hint(const driver *from, CUresult result) {
  if (from->simulated) return "";
  switch (result) {
    case CU_OUT_OF_MEMORY:
      return "; the memory of the device is used up, by this process or by others";
    case CU_NOT_INITIALIZED:
      return "; a process that has used CUDA cannot use it in a child made by fork: start the child with \"spawn\"";
    case CU_NO_BINARY:
      return "; compile the kernels for the architecture of this device";
    case CU_OLD_FOR_PTX:
      return "; the driver is older than the compiler that made the kernels: update the driver, or compile them for the "
             "architecture of this device";
    case CU_ILLEGAL_ADDRESS:
      return "; a kernel reached memory that is not its own, and this process cannot use the device any more: "
             "device=\"simulator\" with sanitize=True shows where";
    case CU_LAUNCH_FAILED:
      return "; a kernel failed while it ran, and this process cannot use the device any more: device=\"simulator\" with "
             "sanitize=True may show where";
    default:
      return "";
  }
}

static int code_of(CUresult result) { return result == CU_OUT_OF_MEMORY ? TM_GPU_NO_MEMORY : TM_GPU_FAULT; }

/* The driver's name and words for a result, after what was being done. */
static int refused(const driver *from, CUresult result, int code, const char *doing) {
  const char *name = NULL, *words = NULL;
  from->GetErrorName(result, &name);
  from->GetErrorString(result, &words);
  return fail(code, "%s: %s (%d): %s%s", doing, name != NULL ? name : "an unknown error", result,
              words != NULL ? words : "no words for it", hint(from, result));
}

/* -- drivers */

static void *open_library(const char *path, char *reason, size_t size) {
  static const char *const usual[] = {"libcuda.so.1", "libcuda.so", "/usr/lib/wsl/lib/libcuda.so.1"};
  const size_t count = *path != '\0' ? 1 : sizeof usual / sizeof usual[0];
  for (size_t i = 0; i < count; i++) {
    void *library = dlopen(*path != '\0' ? path : usual[i], RTLD_NOW | RTLD_LOCAL);
    if (library != NULL) return library;
    const char *words = dlerror();
    if (i == 0) snprintf(reason, size, "%s", words != NULL ? words : "no reason given");
  }
  return NULL;
}

/* A function of a library; an object pointer is copied into a function pointer, as POSIX has it. */
static bool find_function(void *library, const char *symbol, void *function) {
  void *found = dlsym(library, symbol);
  memcpy(function, &found, sizeof found);
  return found != NULL;
}

static int find_entries(driver *into) {
#define FIND(name, symbol, parameters) \
  if (!find_function(into->library, #symbol, &into->name)) return fail(TM_GPU_NO_DRIVER, "the driver %s has no %s: it is too old", into->path, #symbol);
  TM_CUDA_ENTRIES(FIND)
  TRACED(TM_CUDA_TRACE_ENTRIES(FIND))
#undef FIND
  TRACED(find_function(into->library, "tm_simulator_time", &into->event_time);)
  into->simulated = find_function(into->library, "tm_simulator_pools", &into->pools) &&
                    find_function(into->library, "tm_simulator_stages", &into->stages);
  return 0;
}

static int start(driver *opened) {
  char reason[600] = "";
  opened->library = open_library(opened->path, reason, sizeof reason);
  if (opened->library == NULL)
    return *opened->path != '\0' ? fail(TM_GPU_NO_DRIVER, "the driver %s cannot be opened (%s)", opened->path, reason)
                                 : fail(TM_GPU_NO_DRIVER, "no CUDA driver on this machine (%s)", reason);
  const int code = find_entries(opened);
  if (code != 0) return code;
  const CUresult result = opened->Init(0);
  return result == 0 ? 0 : refused(opened, result, result == CU_NO_DEVICE ? TM_GPU_NO_DEVICE : TM_GPU_NO_DRIVER,
                                   "the CUDA driver does not start");
}

static driver *driver_make(const char *path) {
  driver *made = calloc(1, sizeof *made);
  if (made == NULL) return NULL;
  made->path = strdup(path);
  if (made->path != NULL && pthread_mutex_init(&made->lock, NULL) == 0) return made;
  free(made->path);
  free(made);
  return NULL;
}

static void driver_free(driver *unused) {
  if (unused->library != NULL) dlclose(unused->library);
  pthread_mutex_destroy(&unused->lock);
  free(unused->path);
  free(unused);
}

/* The driver of a path, opened once; one that cannot be opened is tried again the next time. */
static int driver_of(const char *path, driver **result) {
  const char *wanted = path != NULL ? path : "";
  int code = 0;
  pthread_mutex_lock(&drivers_lock);
  driver *found = drivers;
  while (found != NULL && strcmp(found->path, wanted) != 0) found = found->next;
  if (found == NULL) {
    found = driver_make(wanted);
    code = found != NULL ? start(found) : no_host_memory();
    if (code == 0) {
      found->next = drivers;
      drivers = found;
    } else if (found != NULL) {
      driver_free(found);
    }
  }
  pthread_mutex_unlock(&drivers_lock);
  *result = code == 0 ? found : NULL;
  return code;
}

static bool keeps(const driver *of) { return !of->simulated || of->pools() != 0; }

/* -- devices: the context of one is current between enter and leave, and the caller's again afterwards */

static int enter(const device *on, const char *doing) {
  const CUresult result = on->driver->ContextPush(on->context);
  return result == 0 ? 0 : refused(on->driver, result, TM_GPU_FAULT, doing);
}

static int leave(const device *on, CUresult result, const char *doing) {
  CUcontext left;
  on->driver->ContextPop(&left);
  return result == 0 ? 0 : refused(on->driver, result, code_of(result), doing);
}

static int open_device(driver *of, int number, device *opened) {
  CUdevice handle;
  int major = 0, minor = 0;
  CUresult result = of->DeviceGet(&handle, number);
  if (result == 0) result = of->DeviceGetName(opened->name, NAME_BYTES, handle);
  if (result == 0) result = of->DeviceGetAttribute(&major, TM_CU_CAPABILITY_MAJOR, handle);
  if (result == 0) result = of->DeviceGetAttribute(&minor, TM_CU_CAPABILITY_MINOR, handle);
  if (result == 0) result = of->PrimaryRetain(&opened->context, handle);
  if (result != 0) return refused(of, result, TM_GPU_NO_DEVICE, "a GPU cannot be opened");
  opened->driver = of;
  opened->number = number;
  opened->architecture = 10 * major + minor;
  opened->open = true;
  return 0;
}

static int device_of(driver *of, int number, device **result) {
  int count = 0, code = 0;
  const CUresult counted = of->DeviceGetCount(&count);
  if (counted != 0) return refused(of, counted, TM_GPU_NO_DEVICE, "the GPUs cannot be counted");
  if (count > MAX_DEVICES) count = MAX_DEVICES;
  if (number < 0 || number >= count)
    return fail(TM_GPU_NO_DEVICE, "GPU %d is asked for, and there %s %d%s", number, count == 1 ? "is" : "are", count,
                count == 0 ? "" : ", numbered from 0");
  pthread_mutex_lock(&of->lock);
  device *found = &of->devices[number];
  if (!found->open) code = open_device(of, number, found);
  pthread_mutex_unlock(&of->lock);
  *result = found;
  return code;
}

/* -- kernels */

static bool is_better(const tm_gpu_image *image, const tm_gpu_image *best, int architecture) {
  if (image->kind == TM_GPU_SIMULATED) return architecture == 0;
  if (architecture == 0 || image->architecture > architecture) return false;
  if (image->kind == TM_GPU_CUBIN && image->architecture / 10 != architecture / 10) return false;
  if (best == NULL) return true;
  if (image->kind != best->kind) return image->kind == TM_GPU_CUBIN;
  return image->architecture > best->architecture;
}

/* A cubin runs on its own major version, of the same or a newer minor one; PTX on every newer device, compiled first. */
static const tm_gpu_image *choose(const tm_gpu_program *program, int architecture) {
  const tm_gpu_image *best = NULL;
  for (int i = 0; i < program->image_count; i++)
    if (is_better(&program->images[i], best, architecture)) best = &program->images[i];
  return best;
}

static int no_image(const tm_gpu_program *program, const device *on) {
  char list[400] = "nothing";
  size_t used = 0;
  for (int i = 0; i < program->image_count && used < sizeof list; i++) {
    const tm_gpu_image *image = &program->images[i];
    const char *kind = image->kind == TM_GPU_CUBIN ? "sm_" : image->kind == TM_GPU_PTX ? "compute_" : "the simulator ";
    used += (size_t)snprintf(list + used, sizeof list - used, "%s%s%.0d", i > 0 ? ", " : "", kind, image->architecture);
  }
  return fail(TM_GPU_NO_IMAGE, "%s was compiled for %s; GPU %d is a %s (sm_%d): compile it for that architecture", program->name,
              list, on->number, on->name, on->architecture);
}

static int load(const tm_gpu_program *program, device *on, CUfunction *functions) {
  driver *of = on->driver;
  if (program->kernel_count == 0) return 0; /* it only copies */
  const tm_gpu_image *image = choose(program, on->architecture);
  if (image == NULL) return no_image(program, on);
  char doing[1200], log[1000] = "";
  int keys[] = {TM_CU_JIT_ERROR_LOG, TM_CU_JIT_ERROR_LOG_BYTES};
  void *values[] = {log, (void *)(uintptr_t)(sizeof log - 1)};
  int code = enter(on, program->name);
  if (code != 0) return code;
  CUmodule loaded = NULL;
  CUresult result = of->ModuleLoad(&loaded, image->bytes, image->kind == TM_GPU_PTX ? 2 : 0, keys, values);
  snprintf(doing, sizeof doing, "the kernels of %s cannot be loaded on GPU %d%s%s", program->name, on->number,
           *log != '\0' ? ": " : "", log);
  for (int i = 0; i < program->kernel_count && result == 0; i++) {
    result = of->GetFunction(&functions[i], loaded, program->kernels[i]);
    if (result != 0) snprintf(doing, sizeof doing, "%s: kernel %s is not in its image", program->name, program->kernels[i]);
  }
  code = leave(on, result, doing);
  return result == 0 ? code : fail(TM_GPU_NO_IMAGE, "%s", strcpy(doing, error_text));
}

/* What a program is, apart from where it lies. */
static char *identity_of(const tm_gpu_program *program) {
  const char *path = program->image_count > 0 && program->images[0].kind == TM_GPU_SIMULATED ? program->images[0].bytes : "";
  const size_t room = strlen(program->name) + strlen(path) + 64;
  char *text = malloc(room);
  if (text != NULL)
    snprintf(text, room, "%s %d %p %s", program->name, program->kernel_count, (const void *)program->images, path);
  return text;
}

static int module_make(const tm_gpu_program *program, device *on, char *identity, module **result) {
  module *made = calloc(1, sizeof *made);
  CUfunction *functions = calloc((size_t)program->kernel_count + 1, sizeof *functions);
  const int code = made != NULL && functions != NULL ? load(program, on, functions) : no_host_memory();
  if (code != 0) {
    free(functions);
    free(made);
    return code;
  }
  *made = (module){program, identity, on, functions, on->driver->modules};
  on->driver->modules = made;
  *result = made;
  return 0;
}

static int module_of(const tm_gpu_program *program, device *on, module **result) {
  char *identity = identity_of(program);
  if (identity == NULL) return no_host_memory();
  int code = 0;
  pthread_mutex_lock(&on->driver->lock);
  module *found = on->driver->modules;
  while (found != NULL && (found->program != program || found->device != on || strcmp(found->identity, identity) != 0))
    found = found->next;
  const bool is_new = found == NULL;
  if (is_new) code = module_make(program, on, identity, &found);
  pthread_mutex_unlock(&on->driver->lock);
  if (!is_new || code != 0) free(identity);
  *result = found;
  return code;
}

/* -- what is kept */

static bool keep(kept **list, void *item, size_t bytes) {
  kept *entry = malloc(sizeof *entry);
  if (entry == NULL) return false;
  *entry = (kept){item, bytes, *list};
  *list = entry;
  return true;
}

/* The item of that size, or with bytes == 0 any; NULL where there is none. */
static void *take(kept **list, size_t bytes) {
  for (; *list != NULL; list = &(*list)->next) {
    kept *entry = *list;
    if (bytes != 0 && entry->bytes != bytes) continue;
    void *item = entry->item;
    *list = entry->next;
    free(entry);
    return item;
  }
  return NULL;
}

static bool take_this(kept **list, const void *item, size_t *bytes) {
  for (; *list != NULL; list = &(*list)->next) {
    kept *entry = *list;
    if (entry->item != item) continue;
    *bytes = entry->bytes;
    *list = entry->next;
    free(entry);
    return true;
  }
  return false;
}

/* Sizes in steps of at most an eighth, so that what is given back fits again. */
static size_t rounded(size_t bytes) {
  size_t step = 512;
  while (step * 16 <= bytes) step *= 2;
  return (bytes + step - 1) / step * step;
}

static CUdeviceptr address_of(const void *pointer) { return (CUdeviceptr)(uintptr_t)pointer; }

#include "tm_gpu_files.h"

/* Gives the kept memory of a device back, with its context current and the lock held. */
static void trim_device(device *on) {
  for (void *item = take(&on->memory, 0); item != NULL; item = take(&on->memory, 0)) {
    forget_memory(on, item);
    on->driver->Free(address_of(item));
  }
}

static int memory_make(device *on, void **result, size_t bytes, const char *doing) {
  CUdeviceptr address = 0;
  int code = enter(on, doing);
  if (code != 0) return code;
  CUresult got = on->driver->Allocate(&address, bytes);
  if (got == CU_OUT_OF_MEMORY) {
    pthread_mutex_lock(&on->driver->lock);
    trim_device(on);
    pthread_mutex_unlock(&on->driver->lock);
    got = on->driver->Allocate(&address, bytes);
  }
  if (got == 0) register_memory(on, address, bytes);
  code = leave(on, got, doing);
  *result = code == 0 ? (void *)(uintptr_t)address : NULL;
  return code;
}

static int memory_end(device *on, void *address, size_t bytes) {
  if (bytes != 0 && keeps(on->driver)) {
    pthread_mutex_lock(&on->driver->lock);
    const bool done = keep(&on->memory, address, bytes);
    pthread_mutex_unlock(&on->driver->lock);
    if (done) return 0;
  }
  const char *doing = "device memory cannot be freed";
  const int code = enter(on, doing);
  if (code != 0) return code;
  forget_memory(on, address);
  return leave(on, on->driver->Free(address_of(address)), doing);
}

/* -- calls */

int tm_gpu_begin(tm_gpu_call **result, const tm_gpu_program *program, int first) {
  driver *of;
  *result = NULL;
  const int code = driver_of(program->driver, &of);
  if (code != 0) return code;
  tm_gpu_call *call = calloc(1, sizeof *call);
  if (call == NULL) return no_host_memory();
  call->driver = of;
  call->program = program;
  call->first = first;
  copied_count = 0;
  launched.kernels = launched.graphs = 0;
  *result = call;
  return 0;
}

int tm_gpu_choose(const tm_gpu_program *program, int first, int number, int devices, int *chosen) {
  driver *of;
  int count = 0;
  const int code = driver_of(program->driver, &of);
  if (code != 0) return code;
  const CUresult result = of->DeviceGetCount(&count);
  if (result != 0) return refused(of, result, TM_GPU_NO_DEVICE, "the GPUs cannot be counted");
  const int groups = count / devices;
  *chosen = first >= 0 ? first : groups > 0 ? number % groups * devices : 0;
  if (*chosen + devices <= count) return 0;
  return fail(TM_GPU_NO_DEVICE, "GPU %d is asked for, and there %s %d%s", *chosen + devices - 1,
              count == 1 ? "is" : "are", count, count == 0 ? "" : ", numbered from 0");
}

TRACED(static int trace_device(tm_gpu_call *call, call_device *of);)

static int open_in_call(tm_gpu_call *call, int number, call_device *opened) {
  device *found = NULL;
  module *kernels = NULL;
  int code = device_of(call->driver, number, &found);
  if (code == 0) code = module_of(call->program, found, &kernels);
  if (code != 0) return code;
  opened->device = found;
  opened->module = kernels;
  TRACED(code = trace_device(call, opened);)
  return code;
}

/* Devices are opened when a call first uses them. */
static int in_call(tm_gpu_call *call, int device, call_device **result) {
  const int number = call->first + device;
  if (device < 0 || number < 0 || number >= MAX_DEVICES) return fail(TM_GPU_NO_DEVICE, "%s: no GPU %d", call->program->name, number);
  *result = &call->devices[number];
  return (*result)->device != NULL ? 0 : open_in_call(call, number, *result);
}

static int stream_make(device *on, CUstream *result, const char *doing) {
  pthread_mutex_lock(&on->driver->lock);
  *result = take(&on->streams, 0);
  pthread_mutex_unlock(&on->driver->lock);
  if (*result != NULL) return 0;
  const int code = enter(on, doing);
  return code != 0 ? code : leave(on, on->driver->StreamCreate(result, TM_CU_STREAM_NON_BLOCKING), doing);
}

/* Who takes part in what a stream is about to be given: the device alone, so that it can be captured for a graph; the host,
   too; or whoever does so far. */
typedef enum party { BY_DEVICE, BY_HOST, AS_BEFORE } party;

static int enter_phase(tm_gpu_call *call, const call_device *on, call_stream *stream, party who);

static int stream_of(tm_gpu_call *call, call_device *on, int number, party who, CUstream *result) {
  const int slot = number + 1;
  if (slot < 0) return fail(TM_GPU_FAULT, "%s: no stream %d", call->program->name, number);
  if (slot >= on->stream_count) {
    call_stream *more = realloc(on->streams, ((size_t)slot + 1) * sizeof *more);
    if (more == NULL) return no_host_memory();
    on->streams = more;
    while (on->stream_count <= slot) on->streams[on->stream_count++] = (call_stream){0};
  }
  call_stream *stream = &on->streams[slot];
  int code = 0;
  if (stream->stream == NULL) code = stream_make(on->device, &stream->stream, "a stream cannot be made");
  stream->last_use = ++call->uses;
  *result = stream->stream;
  return code == 0 && call->capture != NULL ? enter_phase(call, on, stream, who) : code;
}

static size_t describe_launch(char *text, size_t size, const tm_gpu_call *call, const recent_launch *launch) {
  const int64_t *g = launch->grid, *b = launch->block;
  const int used = snprintf(text, size, "%s<<<(%lld, %lld, %lld), (%lld, %lld, %lld)>>>", call->program->kernels[launch->kernel],
                            (long long)g[0], (long long)g[1], (long long)g[2], (long long)b[0], (long long)b[1], (long long)b[2]);
  return used < 0 ? 0 : (size_t)used < size ? (size_t)used : size - 1;
}

/* What an error is about that is met while waiting: the last kernels. */
static void describe_wait(char *text, size_t size, const tm_gpu_call *call, const char *waiting) {
  const unsigned long count = call->launches < RECENT ? call->launches : RECENT;
  size_t used = (size_t)snprintf(text, size, "%s: %s", call->program->name, waiting);
  if (count == 0 || used + 1 >= size) return;
  used += (size_t)snprintf(text + used, size - used, " (last launched: ");
  for (unsigned long i = 0; i < count && used + 4 < size; i++) {
    if (i > 0) used += (size_t)snprintf(text + used, size - used, ", ");
    if (used + 4 < size) used += describe_launch(text + used, size - used, call, &call->recent[(call->launches - 1 - i) % RECENT]);
  }
  if (used + 1 < size) snprintf(text + used, size - used, ")");
}

static int deliver_arrived(tm_gpu_call *call);

static int wait_for_graphs(tm_gpu_call *call, const char *doing);

static int wait_for(tm_gpu_call *call, call_device *on, CUstream stream, const char *what) {
  char doing[900];
  describe_wait(doing, sizeof doing, call, what);
  int code = call->capture != NULL ? wait_for_graphs(call, doing) : 0;
  if (code == 0) code = enter(on->device, doing);
  if (code == 0) code = leave(on->device, on->device->driver->StreamSynchronize(stream), doing);
  return code == 0 && call->staged_count > 0 ? deliver_arrived(call) : code;
}

/* -- the end of a call */

typedef struct open_stream {
  call_device *on;
  CUstream stream;
  unsigned long last_use;
} open_stream;

static int later_first(const void *left, const void *right) {
  const open_stream *a = left, *b = right;
  return a->last_use < b->last_use ? 1 : a->last_use > b->last_use ? -1 : 0;
}

/* The stream that was used last is waited for first: the simulator then does nothing that nobody waits for. */
static int wait_for_all(tm_gpu_call *call) {
  open_stream *open = NULL;
  size_t count = 0;
  int code = 0;
  for (int d = 0; d < MAX_DEVICES; d++) count += (size_t)call->devices[d].stream_count;
  if (count > 0 && (open = calloc(count, sizeof *open)) == NULL) return no_host_memory();
  count = 0;
  for (int d = 0; d < MAX_DEVICES; d++)
    for (int s = 0; s < call->devices[d].stream_count; s++)
      if (call->devices[d].streams[s].stream != NULL)
        open[count++] = (open_stream){&call->devices[d], call->devices[d].streams[s].stream, call->devices[d].streams[s].last_use};
  if (count > 0) qsort(open, count, sizeof *open, later_first);
  for (size_t i = 0; i < count; i++) {
    const int ended = wait_for(call, open[i].on, open[i].stream, "waiting for the end of the call");
    if (code == 0) code = ended;
  }
  free(open);
  return code;
}

/* Keeps a stream or an event, or gives it back. What has seen an error is not kept. */
static void release_item(device *on, kept **list, void *item, bool is_stream, bool healthy) {
  if (healthy && keeps(on->driver)) {
    pthread_mutex_lock(&on->driver->lock);
    const bool done = keep(list, item, 0);
    pthread_mutex_unlock(&on->driver->lock);
    if (done) return;
  }
  if (enter(on, "the end of a call") != 0) return;
  CUresult result;
  if (is_stream)
    result = on->driver->StreamDestroy(item);
  else
    result = on->driver->EventDestroy(item);
  leave(on, result, "the end of a call");
}

#include "tm_gpu_graphs.h"

#ifdef TM_TRACE_H
#include "tm_gpu_trace.h"
#endif

static void release_device(call_device *of, bool healthy) {
  device *on = of->device;
  if (on == NULL) return;
  for (int s = 0; s < of->stream_count; s++) {
    if (of->streams[s].mark != NULL) release_item(on, &on->events, of->streams[s].mark, false, healthy);
    if (of->streams[s].stream != NULL) release_item(on, &on->streams, of->streams[s].stream, true, healthy);
  }
  free(of->streams);
  while (of->events != NULL) {
    event_list *list = of->events;
    of->events = list->next;
    for (size_t i = 0; i < list->count; i++)
      if (list->events[i].event != NULL) release_item(on, &on->events, list->events[i].event, false, healthy);
    free(list->events);
    free(list->addresses);
    free(list);
  }
  while (of->memory != NULL) {
    const size_t bytes = of->memory->bytes;
    memory_end(on, take(&of->memory, 0), healthy ? bytes : 0);
  }
}

static int host_end(tm_gpu_call *call, void *address, size_t bytes);
static int unlock_pages(tm_gpu_call *call);
static void forget_staged(tm_gpu_call *call);

int tm_gpu_end(tm_gpu_call *call, int code) {
  char words[sizeof error_text];
  if (call == NULL) return code;
  if (code != 0) {
    memcpy(words, error_text, sizeof words);
    drop_capture(call);
  }
  const int ended = wait_for_all(call);
  if (code == 0 && ended != 0) memcpy(words, error_text, sizeof words);
  if (code == 0) code = ended;
  forget_staged(call);
  TRACED(trace_finish(call, code == 0);)
  const int unlocked = unlock_pages(call);
  if (code == 0 && unlocked != 0) memcpy(words, error_text, sizeof words);
  if (code == 0) code = unlocked;
  while (call->stages != NULL) {
    tm_gpu_stage *const one = call->stages;
    call->stages = one->next;
    release_item(one->on, &one->on->streams, one->stream, true, code == 0);
    free(one);
  }
  for (int d = 0; d < MAX_DEVICES; d++) release_device(&call->devices[d], code == 0);
  release_capture(call, code == 0);
  while (call->host_memory != NULL) {
    const size_t bytes = call->host_memory->bytes;
    host_end(call, take(&call->host_memory, 0), code == 0 ? bytes : 0);
  }
  free(call);
  if (code != 0) memcpy(error_text, words, sizeof words);
  return code;
}

/* -- memory */

int tm_gpu_allocate(tm_gpu_call *call, int device, void **address, size_t bytes) {
  char doing[300];
  call_device *on;
  *address = NULL;
  int code = in_call(call, device, &on);
  if (code != 0) return code;
  const bool pools = keeps(call->driver);
  const size_t size = pools ? rounded(bytes > 0 ? bytes : 1) : bytes > 0 ? bytes : 1;
  if (pools) {
    pthread_mutex_lock(&call->driver->lock);
    *address = take(&on->device->memory, size);
    pthread_mutex_unlock(&call->driver->lock);
  }
  snprintf(doing, sizeof doing, "%s: %zu bytes cannot be allocated on GPU %d", call->program->name, bytes, on->device->number);
  if (*address == NULL) code = memory_make(on->device, address, size, doing);
  if (code == 0 && !keep(&on->memory, *address, size)) {
    memory_end(on->device, *address, 0);
    code = no_host_memory();
  }
  return code;
}

int tm_gpu_free(tm_gpu_call *call, int device, void *address) {
  call_device *on;
  size_t bytes;
  if (address == NULL) return 0;
  int code = in_call(call, device, &on);
  if (code != 0) return code;
  if (!take_this(&on->memory, address, &bytes))
    return fail(TM_GPU_FAULT, "%s: freed on GPU %d is an address that the call did not allocate there", call->program->name,
                on->device->number);
  code = memory_end(on->device, address, bytes);
  if (code != 0) keep(&on->memory, address, bytes);
  return code;
}

static int host_make(device *on, void **address, size_t bytes) {
  const char *doing = "pinned memory cannot be allocated";
  *address = NULL;
  const int code = enter(on, doing);
  return code != 0 ? code : leave(on, on->driver->HostAllocate(address, bytes, TM_CU_HOST_PORTABLE | TM_CU_HOST_MAPPED), doing);
}

/* Some device's context must be current, and any will do. */
static int host_free(driver *of, void *address) {
  const char *doing = "pinned memory cannot be freed";
  device *on;
  int code = device_of(of, 0, &on);
  if (code == 0) code = enter(on, doing);
  return code != 0 ? code : leave(on, of->HostFree(address), doing);
}

static int host_end(tm_gpu_call *call, void *address, size_t bytes) {
  driver *of = call->driver;
  if (bytes != 0 && keeps(of)) {
    pthread_mutex_lock(&of->lock);
    const bool done = keep(&of->host_memory, address, bytes);
    pthread_mutex_unlock(&of->lock);
    if (done) return 0;
  }
  return host_free(of, address);
}

int tm_gpu_allocate_host(tm_gpu_call *call, int device, void **address, void **device_address, size_t bytes) {
  call_device *on;
  *address = NULL;
  int code = in_call(call, device, &on);
  if (code != 0) return code;
  driver *of = call->driver;
  const bool pools = keeps(of);
  const size_t size = pools ? rounded(bytes > 0 ? bytes : 1) : bytes > 0 ? bytes : 1;
  if (pools) {
    pthread_mutex_lock(&of->lock);
    *address = take(&of->host_memory, size);
    pthread_mutex_unlock(&of->lock);
  }
  if (*address == NULL) code = host_make(on->device, address, size);
  if (code != 0) return code;
  if (!keep(&call->host_memory, *address, size)) return no_host_memory();
  if (device_address == NULL) return 0;
  const char *doing = "pinned memory has no address on the device";
  CUdeviceptr mapped = 0;
  code = enter(on->device, doing);
  if (code == 0) code = leave(on->device, of->HostDeviceAddress(&mapped, *address, 0), doing);
  *device_address = (void *)(uintptr_t)mapped;
  return code;
}

int tm_gpu_free_host(tm_gpu_call *call, void *address) {
  size_t bytes;
  if (address == NULL) return 0;
  if (!take_this(&call->host_memory, address, &bytes))
    return fail(TM_GPU_FAULT, "%s: freed is pinned memory that the call did not allocate", call->program->name);
  return host_end(call, address, bytes);
}

/* The device addresses of its first and its last byte are as far apart as these where all of it is one mapped block. */
int tm_gpu_mapped(tm_gpu_call *call, int device, const char *name, const void *address, size_t bytes, void **device_address) {
  const char *doing = "an array of the caller has no address on the device";
  const driver *of = call->driver;
  CUdeviceptr first = 0, last = 0;
  call_device *on;
  *device_address = NULL;
  if (bytes == 0) return 0;
  int code = in_call(call, device, &on);
  if (code == 0) code = enter(on->device, doing);
  if (code != 0) return code;
  char *start = (char *)(uintptr_t)address;
  CUresult found = of->HostDeviceAddress(&first, start, 0);
  if (found == 0) found = of->HostDeviceAddress(&last, start + bytes - 1, 0);
  code = leave(on->device, found == CU_INVALID_VALUE ? 0 : found, doing);
  if (code != 0) return code;
  if (found != 0 || last - first != bytes - 1)
    return fail(TM_GPU_FAULT, "%s: %s is in ordinary memory, and GPUs address it where it is: it must be unified (page-locked "
                "and mapped, as tm_gpu_host_allocate and tm.to_unified make it)", call->program->name, name);
  *device_address = (void *)(uintptr_t)first;
  return 0;
}

/* -- page-locked memory of the caller */

/* The driver refuses to copy what is locked in part: ranges that overlap become one. */
int tm_gpu_lock_pages(tm_gpu_call *call, const void *address, size_t bytes) {
  if (call == NULL || address == NULL || bytes == 0) return 0;
  char *start = (char *)(uintptr_t)address, *end = start + bytes;
  for (lockable **link = &call->lockable; *link != NULL;) {
    lockable *other = *link;
    if (other->asked || other->start >= end || start >= other->start + other->bytes) {
      link = &other->next;
      continue;
    }
    if (other->start < start) start = other->start;
    if (other->start + other->bytes > end) end = other->start + other->bytes;
    *link = other->next;
    free(other);
    link = &call->lockable;
  }
  lockable *made = malloc(sizeof *made);
  if (made == NULL) return no_host_memory();
  *made = (lockable){start, (size_t)(end - start), false, NULL, NULL, call->lockable};
  call->lockable = made;
  return 0;
}

static bool holds(const char *start, size_t bytes, const char *address) { return address >= start && address < start + bytes; }

/* Locks a range for one more call, with a context current and the lock held; not where the driver does not. False where
   calls have locked a part of it: the driver would refuse to copy it. */
static bool lock_range(driver *of, char *start, size_t bytes, locked **result) {
  for (locked *other = of->locked; other != NULL; other = other->next) {
    const bool whole = holds(other->start, other->bytes, start) && holds(other->start, other->bytes, start + bytes - 1);
    if (!whole && (other->start >= start + bytes || start >= other->start + other->bytes)) continue;
    if (!whole) return false;
    other->calls++;
    *result = other;
    return true;
  }
  locked *made = calloc(1, sizeof *made);
  if (made == NULL) return true;
  *made = (locked){start, bytes, 1, of->locked};
  if (of->LockPages(start, bytes, TM_CU_HOST_PORTABLE) != 0) {
    free(made);
    return true;
  }
  of->locked = *result = made;
  return true;
}

/* Before the first copy from or to memory that may be locked. */
static int lock_host_end(tm_gpu_call *call, device *on, const char *address) {
  const char *doing = "memory of the caller cannot be page-locked";
  for (lockable *one = call->lockable; one != NULL; one = one->next) {
    if (one->asked || !holds(one->start, one->bytes, address)) continue;
    one->asked = true;
    one->on = on;
    int code = enter(on, doing);
    if (code != 0) return code;
    pthread_mutex_lock(&call->driver->lock);
    const bool whole = lock_range(call->driver, one->start, one->bytes, &one->locks);
    pthread_mutex_unlock(&call->driver->lock);
    code = leave(on, 0, doing);
    if (!whole)
      return fail(TM_GPU_FAULT, "%s: another call has page-locked a part of an array of this one: let calls at the same time "
                  "have the same arrays, or arrays apart", call->program->name);
    if (code != 0) return code;
  }
  return 0;
}

static int unlock_range(driver *of, device *on, locked *range) {
  const char *doing = "memory of the caller cannot be unlocked";
  pthread_mutex_lock(&of->lock);
  const bool is_last = --range->calls == 0;
  int code = is_last ? enter(on, doing) : 0;
  if (is_last && code == 0) code = leave(on, of->UnlockPages(range->start), doing);
  if (is_last) {
    locked **link = &of->locked;
    while (*link != range) link = &(*link)->next;
    *link = range->next;
    free(range);
  }
  pthread_mutex_unlock(&of->lock);
  return code;
}

static int unlock_pages(tm_gpu_call *call) {
  int code = 0;
  while (call->lockable != NULL) {
    lockable *one = call->lockable;
    call->lockable = one->next;
    const int ended = one->locks != NULL ? unlock_range(call->driver, one->on, one->locks) : 0;
    if (code == 0) code = ended;
    free(one);
  }
  return code;
}

/* -- copies */

/* An end of a copy: on the host, or in the memory of a device. */
typedef struct end {
  char *address;
  device *on; /* NULL: the host */
} end;

typedef struct copying {
  end target, source;
  CUstream stream;
} copying;

static CUresult copy_run(const driver *of, const copying *c, size_t to, size_t from, size_t bytes) {
  char *target = c->target.address + to;
  const char *source = c->source.address + from;
  if (c->source.on == NULL) return of->CopyToDeviceAsync(address_of(target), source, bytes, c->stream);
  if (c->target.on == NULL) return of->CopyToHostAsync(target, address_of(source), bytes, c->stream);
  if (c->source.on == c->target.on) return of->CopyOnDeviceAsync(address_of(target), address_of(source), bytes, c->stream);
  return of->CopyPeerAsync(address_of(target), c->target.on->context, address_of(source), c->source.on->context, bytes, c->stream);
}

/* Lines that are next to each other become one; so do planes. */
static tm_gpu_box joined(tm_gpu_box box) {
  for (int dimension = 0; dimension < 2; dimension++) {
    if (box.lines > 1 && box.target_pitch == box.run && box.source_pitch == box.run) {
      box.run *= box.lines;
      box.lines = 1;
    }
    if (box.lines > 1) break;
    box.lines = box.planes;
    box.target_pitch = box.target_plane;
    box.source_pitch = box.source_plane;
    box.planes = 1;
  }
  return box;
}

/* The driver describes a plane by its number of lines, and pitches are below 2 GiB. */
static bool is_pitched(const tm_gpu_box *box, size_t pitch, size_t plane) {
  if (pitch < box->run || pitch >> 31 != 0) return false;
  return box->planes == 1 || (plane % pitch == 0 && plane / pitch >= box->lines);
}

static CUresult copy_pitched(const driver *of, const copying *c, size_t to, size_t from, const tm_gpu_box *box) {
  const bool target_on_host = c->target.on == NULL, source_on_host = c->source.on == NULL;
  char *target = c->target.address + to, *source = c->source.address + from;
  const size_t target_height = box->planes == 1 ? box->lines : box->target_plane / box->target_pitch;
  const size_t source_height = box->planes == 1 ? box->lines : box->source_plane / box->source_pitch;
  if (!target_on_host && !source_on_host && c->target.on != c->source.on) {
    const tm_cu_peer_copy peer = {
        .sourceKind = TM_CU_MEMORY_DEVICE, .sourceDevice = address_of(source), .sourceContext = c->source.on->context,
        .sourcePitch = box->source_pitch, .sourceHeight = source_height,
        .targetKind = TM_CU_MEMORY_DEVICE, .targetDevice = address_of(target), .targetContext = c->target.on->context,
        .targetPitch = box->target_pitch, .targetHeight = target_height,
        .width = box->run, .height = box->lines, .depth = box->planes};
    return of->CopyBoxPeerAsync(&peer, c->stream);
  }
  const tm_cu_copy copy = {
      .sourceKind = source_on_host ? TM_CU_MEMORY_HOST : TM_CU_MEMORY_DEVICE, .sourceHost = source_on_host ? source : NULL,
      .sourceDevice = source_on_host ? 0 : address_of(source), .sourcePitch = box->source_pitch, .sourceHeight = source_height,
      .targetKind = target_on_host ? TM_CU_MEMORY_HOST : TM_CU_MEMORY_DEVICE, .targetHost = target_on_host ? target : NULL,
      .targetDevice = target_on_host ? 0 : address_of(target), .targetPitch = box->target_pitch, .targetHeight = target_height,
      .width = box->run, .height = box->lines, .depth = box->planes};
  return of->CopyBoxAsync(&copy, c->stream);
}

static CUresult copy_box(const driver *of, const copying *c, const tm_gpu_box *box) {
  if (box->lines == 1 && box->planes == 1) return copy_run(of, c, 0, 0, box->run);
  if (is_pitched(box, box->target_pitch, box->target_plane) && is_pitched(box, box->source_pitch, box->source_plane))
    return copy_pitched(of, c, 0, 0, box);
  tm_gpu_box plane = *box;
  plane.planes = 1;
  const bool by_planes = is_pitched(&plane, box->target_pitch, 0) && is_pitched(&plane, box->source_pitch, 0);
  CUresult result = 0;
  for (size_t p = 0; p < box->planes && result == 0; p++) {
    const size_t to = p * box->target_plane, from = p * box->source_plane;
    if (by_planes) result = copy_pitched(of, c, to, from, &plane);
    for (size_t l = 0; !by_planes && l < box->lines && result == 0; l++)
      result = copy_run(of, c, to + l * box->target_pitch, from + l * box->source_pitch, box->run);
  }
  return result;
}

static int copy_on_host(char *target, const char *source, const tm_gpu_box *box) {
  for (size_t p = 0; p < box->planes; p++)
    for (size_t l = 0; l < box->lines; l++)
      memmove(target + p * box->target_plane + l * box->target_pitch, source + p * box->source_plane + l * box->source_pitch,
              box->run);
  return 0;
}

/* -- downloads into memory that is not page-locked

   From a copy into such memory the driver returns when it is complete. One that nobody waits for yet goes into page-locked
   memory instead, and from there to its target when the host has waited: all that the host may rely on then has arrived,
   through whatever streams it was waited for. */

static bool stages(const driver *of) { return !of->simulated || of->stages() != 0; }

/* Of the caller, and unknown to the driver. */
static bool is_pageable(const device *on, const void *address) {
  unsigned kind = 0;
  if (enter(on, "the target of a download") != 0) return false;
  const CUresult result = on->driver->PointerGetAttribute(&kind, TM_CU_MEMORY_KIND, address_of(address));
  return leave(on, 0, "the target of a download") == 0 && result == CU_INVALID_VALUE;
}

static int look(staged *one) {
  const char *doing = "a download";
  const int code = enter(one->on, doing);
  if (code != 0) return code;
  const CUresult result = one->on->driver->EventQuery(one->event);
  one->arrived = result == 0;
  return leave(one->on, result == CU_NOT_READY ? 0 : result, doing);
}

/* Copies what has arrived to its target: on the host's threads, in a program that has any. */
static void hand_over(const staged *one) {
  const tm_gpu_box *box = &one->box;
  const size_t piece = (size_t)1 << 18, pieces = (box->run + piece - 1) / piece, count = pieces * box->lines * box->planes;
#ifdef _OPENMP
  _Pragma("omp parallel for schedule(static) if (box->run * box->lines * box->planes >= 4 * piece)")
#endif
  for (size_t i = 0; i < count; i++) {
    const size_t start = i % pieces * piece, line = i / pieces % box->lines, plane = i / pieces / box->lines;
    const size_t left = box->run - start;
    memcpy(one->target + plane * box->target_plane + line * box->target_pitch + start,
           one->memory + plane * box->source_plane + line * box->source_pitch + start, left < piece ? left : piece);
  }
}

static int deliver(tm_gpu_call *call) {
  size_t left = 0;
  int code = 0;
  for (size_t i = 0; i < call->staged_count; i++) {
    const staged one = call->staged[i];
    if (!one.arrived) {
      call->staged[left++] = one;
      continue;
    }
    hand_over(&one);
    release_item(one.on, &one.on->events, one.event, false, true);
    const int freed = tm_gpu_free_host(call, one.memory);
    if (code == 0) code = freed;
  }
  call->staged_count = left;
  return code;
}

/* Of two into the same place, the stream of the later one has waited for the earlier one. The later is looked at first: where
   it has arrived, so has the other, and both are delivered in their order. */
static int deliver_arrived(tm_gpu_call *call) {
  int code = 0;
  for (size_t i = call->staged_count; i-- > 0 && code == 0;) code = look(&call->staged[i]);
  return code != 0 ? code : deliver(call);
}

/* Up to the first that has not arrived: so that a pipeline holds what is on its way, and no more. */
static int deliver_oldest(tm_gpu_call *call) {
  int code = 0;
  for (size_t i = 0; i < call->staged_count && code == 0; i++) {
    code = look(&call->staged[i]);
    if (!call->staged[i].arrived) break;
  }
  return code != 0 ? code : deliver(call);
}

static size_t extent(const tm_gpu_box *box, size_t pitch, size_t plane) {
  return (box->planes - 1) * plane + (box->lines - 1) * pitch + box->run;
}

/* Whether a box at `start` may have elements of what will be delivered; not where both are columns of a matrix, and apart. */
static bool overlaps(const staged *one, const char *start, const tm_gpu_box *box, size_t pitch, size_t plane) {
  const tm_gpu_box *other = &one->box;
  const char *first = one->target;
  if (start >= first + extent(other, other->target_pitch, other->target_plane) || first >= start + extent(box, pitch, plane))
    return false;
  if (box->planes > 1 || other->planes > 1 || box->lines == 1 || other->lines == 1 || pitch != other->target_pitch || pitch == 0)
    return true;
  const size_t column = start >= first ? (size_t)(start - first) % pitch : (pitch - (size_t)(first - start) % pitch) % pitch;
  return column < other->run || column + box->run > pitch;
}

/* Before a box of the host is read or written at once, or by a stream: delivers what belongs there. */
static int settle(tm_gpu_call *call, const char *start, const tm_gpu_box *box, size_t pitch, size_t plane) {
  char doing[900];
  bool any = false;
  for (size_t i = 0; i < call->staged_count; i++) {
    staged *one = &call->staged[i];
    if (!overlaps(one, start, box, pitch, plane)) continue;
    describe_wait(doing, sizeof doing, call, "waiting for a download");
    int code = enter(one->on, doing);
    if (code == 0) code = leave(one->on, call->driver->EventSynchronize(one->event), doing);
    if (code != 0) return code;
    any = true;
  }
  return any ? deliver_arrived(call) : 0;
}

static int settle_ends(tm_gpu_call *call, const end *target, const end *source, const tm_gpu_box *box) {
  int code = 0;
  if (target->on == NULL) code = settle(call, target->address, box, box->target_pitch, box->target_plane);
  if (code == 0 && source->on == NULL) code = settle(call, source->address, box, box->source_pitch, box->source_plane);
  return code;
}

/* Directs a download into page-locked memory; leaves it as it is where that is not needed, or cannot be had. What it returns
   in `result` counts when it is `expect`ed. */
static int stage(tm_gpu_call *call, call_device *on, int device, copying *c, tm_gpu_box *box, staged **result) {
  void *memory;
  if (!stages(call->driver) || !is_pageable(on->device, c->target.address)) return 0;
  const int code = call->staged_count > 0 ? deliver_oldest(call) : 0;
  if (code != 0) return code;
  if (call->staged_count == call->staged_room) {
    const size_t room = 2 * call->staged_room + 16;
    staged *more = realloc(call->staged, room * sizeof *more);
    if (more == NULL) return 0;
    call->staged = more;
    call->staged_room = room;
  }
  if (tm_gpu_allocate_host(call, device, &memory, NULL, box->run * box->lines * box->planes) != 0) return 0;
  *result = &call->staged[call->staged_count];
  **result = (staged){.target = c->target.address, .memory = memory, .box = *box, .on = on->device};
  (*result)->box.source_pitch = box->target_pitch = box->run;
  (*result)->box.source_plane = box->target_plane = box->run * box->lines;
  (*result)->box = joined((*result)->box);
  *box = joined(*box);
  c->target.address = memory;
  return 0;
}

static int event_make(device *on, CUevent *result);

/* The download is on its stream. */
static int expect(tm_gpu_call *call, staged *one, CUstream stream) {
  const char *doing = "the end of a download cannot be recorded";
  int code = event_make(one->on, &one->event);
  if (code != 0) return code;
  code = enter(one->on, doing);
  if (code == 0) code = leave(one->on, call->driver->EventRecord(one->event, stream), doing);
  if (code != 0)
    release_item(one->on, &one->on->events, one->event, false, false);
  else
    call->staged_count++;
  return code;
}

/* After all work: what is left is of a call that failed. */
static void forget_staged(tm_gpu_call *call) {
  for (size_t i = 0; i < call->staged_count; i++)
    release_item(call->staged[i].on, &call->staged[i].on->events, call->staged[i].event, false, false);
  free(call->staged);
  call->staged_count = 0;
}

static void describe_end(char *text, size_t size, int device) {
  if (device < 0)
    snprintf(text, size, "the host");
  else
    snprintf(text, size, "GPU %d", device);
}

/* The names of those that there is no room for are not kept, and copied_count tells. */
static void note_copy(const char *what, const tm_gpu_box *box) {
  int at = 0;
  while (at < copied_count && at < MOST_COPIES && strcmp(copied[at].what, what) != 0) at++;
  if (at == copied_count) {
    copied_count++;
    if (at < MOST_COPIES) copied[at].what = what, copied[at].bytes = 0;
  }
  if (at < MOST_COPIES) copied[at].bytes += (int64_t)(box->run * box->lines * box->planes);
}

void tm_gpu_launches(int64_t counts[2]) {
  counts[0] = launched.kernels;
  counts[1] = launched.graphs;
  launched.kernels = launched.graphs = 0; /* a call without a GPU has none */
}

int tm_gpu_copies(int most, const char **names, int64_t *bytes) {
  const int count = copied_count;
  for (int i = 0; i < count && i < MOST_COPIES && i < most; i++) names[i] = copied[i].what, bytes[i] = copied[i].bytes;
  if (most > 0) copied_count = 0;
  return count;
}

int tm_gpu_copy(tm_gpu_call *call, const char *what, void *target, int target_device, const void *source, int source_device,
                const tm_gpu_box *box, int stream, int wait) {
  char doing[400], from[30], to[30];
  call_device *on_target = NULL, *on_source = NULL;
  staged *later = NULL;
  int code = 0;
  if (box->run == 0 || box->lines == 0 || box->planes == 0) return 0;
  tm_gpu_box whole = joined(*box);
  copying c = {.target = {target, NULL}, .source = {(char *)(uintptr_t)source, NULL}};
  if (target_device < 0 && source_device < 0) {
    if (call != NULL && call->staged_count > 0) code = settle_ends(call, &c.target, &c.source, &whole);
    return code != 0 ? code : copy_on_host(target, source, &whole);
  }
  if (target_device >= 0) code = in_call(call, target_device, &on_target);
  if (code == 0 && source_device >= 0) code = in_call(call, source_device, &on_source);
  if (code != 0) return code;
  call_device *on = on_source != NULL ? on_source : on_target;
  c.target.on = on_target != NULL ? on_target->device : NULL;
  c.source.on = on_source != NULL ? on_source->device : NULL;
  const bool with_host = c.target.on == NULL || c.source.on == NULL;
  code = stream_of(call, on, stream, with_host ? BY_HOST : BY_DEVICE, &c.stream);
  if (code != 0) return code;
  describe_end(from, sizeof from, source_device);
  describe_end(to, sizeof to, target_device);
  snprintf(doing, sizeof doing, "%s: the copy of %s from %s to %s", call->program->name, what, from, to);
  if (source_device < 0) code = lock_host_end(call, on->device, source);
  if (code == 0 && target_device < 0) code = lock_host_end(call, on->device, target);
  if (code == 0 && target_device < 0 && stream != TM_GPU_WAIT && !wait) code = stage(call, on, source_device, &c, &whole, &later);
  if (code == 0 && later == NULL && call->staged_count > 0) code = settle_ends(call, &c.target, &c.source, &whole);
  TRACED(if (code == 0) code = trace_begin_copy(call, on, target_device, source_device, stream, c.stream, &whole);)
  if (code == 0) code = enter(on->device, doing);
  if (code == 0) code = leave(on->device, copy_box(call->driver, &c, &whole), doing);
  TRACED(if (code == 0) code = trace_end(call, c.stream);)
  if (code == 0 && later != NULL) code = expect(call, later, c.stream);
  if (code == 0) note_copy(what, box);
  if (code != 0 || (stream != TM_GPU_WAIT && !wait)) return code;
  snprintf(doing, sizeof doing, "waiting for the copy of %s from %s to %s", what, from, to);
  return wait_for(call, on, c.stream, doing);
}

/* Registers what a call and the pool have on a device, once cuFile is loaded. */
static void register_all(const call_device *of) {
  const device *const on = of->device;
  if (!has_cufile(on->driver) || enter(on, "memory for files") != 0) return;
  pthread_mutex_lock(&on->driver->lock);
  for (const kept *one = of->memory; one != NULL; one = one->next) register_memory(on, address_of(one->item), one->bytes);
  for (const kept *one = on->memory; one != NULL; one = one->next) register_memory(on, address_of(one->item), one->bytes);
  pthread_mutex_unlock(&on->driver->lock);
  leave(on, 0, "memory for files");
}

int tm_gpu_stage_of(tm_gpu_call *call, int device, int number, size_t bytes, tm_gpu_stage **stage, void **memory) {
  call_device *on;
  int code = in_call(call, device, &on);
  if (code != 0) return code;
  tm_gpu_stage *found = call->stages;
  while (found != NULL && (found->on != on->device || found->number != number)) found = found->next;
  if (found == NULL) {
    const bool was_loaded = cufile.loaded;
    pthread_once(&cufile_once, load_cufile);
    if (!was_loaded) register_all(on);
    if ((found = calloc(1, sizeof *found)) == NULL) return no_host_memory();
    *found = (tm_gpu_stage){call->program->name, on->device, number, NULL, NULL, NULL};
    code = tm_gpu_allocate_host(call, device, &found->memory, NULL, bytes);
    if (code == 0) code = stream_make(on->device, &found->stream, "a stream for files cannot be made");
    if (code != 0) {
      free(found);
      return code;
    }
    found->next = call->stages;
    call->stages = found;
  }
  *stage = found, *memory = found->memory;
  return 0;
}

int tm_gpu_stage_copy(void *given, void *target, const void *source, size_t bytes, int to_device) {
  const tm_gpu_stage *const stage = given;
  const device *const on = stage->on;
  const driver *const of = on->driver;
  char doing[300];
  snprintf(doing, sizeof doing, "%s: a copy of %zu bytes %s GPU %d for a file", stage->function, bytes,
           to_device ? "to" : "from", on->number);
  const int code = enter(on, doing);
  if (code != 0) return code;
  CUresult done = to_device ? of->CopyToDeviceAsync(address_of(target), source, bytes, stage->stream)
                            : of->CopyToHostAsync(target, address_of(source), bytes, stage->stream);
  if (done == 0) done = of->StreamSynchronize(stage->stream);
  return leave(on, done, doing);
}

void tm_gpu_stage_file(void *given, int file, void **held) {
  const tm_gpu_stage *const stage = given;
  cufile_description like = {CUFILE_DESCRIPTOR, {.file = file}, NULL};
  if (!has_cufile(stage->on->driver) || enter(stage->on, "a file of a GPU") != 0) return;
  if (cufile.open(held, &like).failed != 0) *held = NULL;
  leave(stage->on, 0, "a file of a GPU");
}

bool tm_gpu_stage_move(void *given, void *held, void *memory, size_t bytes, size_t place, int stores) {
  const tm_gpu_stage *const stage = given;
  if (enter(stage->on, "a file of a GPU") != 0) return false;
  size_t done = 0;
  while (done < bytes) {
    const off_t at = (off_t)(place + done), from = (off_t)done;
    const ssize_t some = stores ? cufile.write(held, memory, bytes - done, at, from)
                                : cufile.read(held, memory, bytes - done, at, from);
    if (some <= 0) break;
    done += (size_t)some;
  }
  leave(stage->on, 0, "a file of a GPU");
  return done == bytes;
}

void tm_gpu_stage_release(void *held) {
  cufile.close(held);
}

int tm_gpu_zero(tm_gpu_call *call, int device, void *address, size_t bytes, int stream) {
  const char *doing = "device memory cannot be set to zero";
  call_device *on;
  CUstream used;
  if (bytes == 0) return 0;
  int code = in_call(call, device, &on);
  if (code == 0) code = stream_of(call, on, stream, BY_DEVICE, &used);
  if (code == 0) code = enter(on->device, doing);
  if (code == 0) code = leave(on->device, call->driver->SetAsync(address_of(address), 0, bytes, used), doing);
  return code != 0 || stream != TM_GPU_WAIT ? code : wait_for(call, on, used, "waiting for memory to be zero");
}

/* -- launches */

static int check_extent(const char *doing, const char *what, char axis, int64_t extent, int64_t least, int64_t most) {
  if (extent >= least && extent <= most) return 0;
  return fail(TM_GPU_LAUNCH, "%s: %s has %lld in %c; the limit is %lld", doing, what, (long long)extent, axis, (long long)most);
}

static int check_shape(const char *doing, const int64_t grid[3], const int64_t block[3]) {
  static const int64_t grid_limits[3] = {2147483647, 65535, 65535}, block_limits[3] = {1024, 1024, 64};
  int code = 0;
  for (int i = 0; i < 3 && code == 0; i++) {
    code = check_extent(doing, "the grid", "xyz"[i], grid[i], 0, grid_limits[i]);
    if (code == 0) code = check_extent(doing, "a block", "xyz"[i], block[i], 1, block_limits[i]);
  }
  if (code != 0 || block[0] * block[1] * block[2] <= 1024) return code;
  return fail(TM_GPU_LAUNCH, "%s: a block has %lld threads; the limit is 1024", doing, (long long)(block[0] * block[1] * block[2]));
}

int tm_gpu_shared(tm_gpu_call *call, int device, int kernel, size_t bytes, const char *arrays) {
  call_device *on;
  CUdevice handle;
  int most = 0;
  const int code = in_call(call, device, &on);
  if (code != 0) return code;
  CUresult result = call->driver->DeviceGet(&handle, on->device->number);
  if (result == 0) result = call->driver->DeviceGetAttribute(&most, TM_CU_MOST_SHARED, handle);
  if (result != 0) return refused(call->driver, result, TM_GPU_LAUNCH, "the shared memory of a GPU is not known");
  if (bytes <= (size_t)most) return 0;
  return fail(TM_GPU_LAUNCH, "%s: kernel %s needs %zu bytes of shared memory in each block (%s), and GPU %d, %s, has %d: make the "
              "tiles smaller, or use a GPU that has more", call->program->name, call->program->kernels[kernel], bytes, arrays,
              on->device->number, on->device->name, most);
}

static CUresult launch(const driver *of, CUfunction function, const int64_t grid[3], const int64_t block[3], size_t shared,
                       CUstream stream, void **arguments) {
  if (shared > 0) {
    const CUresult result = of->FunctionSet(function, TM_CU_DYNAMIC_SHARED, (int)shared);
    if (result != 0) return result;
  }
  return of->Launch(function, (unsigned)grid[0], (unsigned)grid[1], (unsigned)grid[2], (unsigned)block[0], (unsigned)block[1],
                    (unsigned)block[2], (unsigned)shared, stream, arguments, NULL);
}

int tm_gpu_launch(tm_gpu_call *call, int device, int kernel, const int64_t grid[3], const int64_t block[3],
                  size_t dynamic_shared, int stream, void **arguments) {
  char doing[500];
  call_device *on;
  CUstream used;
  const recent_launch this_one = {kernel, device, {grid[0], grid[1], grid[2]}, {block[0], block[1], block[2]}};
  const size_t length = (size_t)snprintf(doing, sizeof doing, "%s: kernel ", call->program->name);
  if (length < sizeof doing) describe_launch(doing + length, sizeof doing - length, call, &this_one);
  if (grid[0] <= 0 || grid[1] <= 0 || grid[2] <= 0) return 0;
  int code = check_shape(doing, grid, block);
  if (code == 0 && dynamic_shared > INT32_MAX) code = fail(TM_GPU_LAUNCH, "%s: %zu bytes of shared memory", doing, dynamic_shared);
  if (code == 0) code = in_call(call, device, &on);
  if (code == 0) code = stream_of(call, on, stream, BY_DEVICE, &used);
  TRACED(if (code == 0) code = trace_begin(call, on, device, stream, used, TM_TRACE_KERNEL, -1);)
  if (code == 0) code = enter(on->device, doing);
  if (code != 0) return code;
  call->recent[call->launches++ % RECENT] = this_one;
  code = leave(on->device, launch(call->driver, on->module->functions[kernel], grid, block, dynamic_shared, used, arguments), doing);
  if (code == TM_GPU_FAULT) code = TM_GPU_LAUNCH;
  if (code == 0) launched.kernels++;
  TRACED(if (code == 0) code = trace_end(call, used);)
  return code != 0 || stream != TM_GPU_WAIT ? code : wait_for(call, on, used, "waiting for a kernel");
}

/* -- events */

static int event_make(device *on, CUevent *result) {
  const char *doing = "an event cannot be made";
  pthread_mutex_lock(&on->driver->lock);
  *result = take(&on->events, 0);
  pthread_mutex_unlock(&on->driver->lock);
  if (*result != NULL) return 0;
  const int code = enter(on, doing);
  return code != 0 ? code : leave(on, on->driver->EventCreate(result, TM_CU_EVENT_NO_TIMING), doing);
}

static event_list *event_list_make(size_t count) {
  event_list *list = calloc(1, sizeof *list);
  if (list == NULL) return NULL;
  list->events = calloc(count + 1, sizeof *list->events);
  list->addresses = calloc(count + 1, sizeof(tm_gpu_event *));
  list->count = count;
  if (list->events != NULL && list->addresses != NULL) return list;
  free(list->events);
  free(list->addresses);
  free(list);
  return NULL;
}

/* An event that was given back and is used again would seem to have happened: it is made when it is recorded. */
int tm_gpu_events(tm_gpu_call *call, int device, size_t count, tm_gpu_event ***events) {
  call_device *on;
  *events = NULL;
  const int code = in_call(call, device, &on);
  if (code != 0) return code;
  event_list *list = event_list_make(count);
  if (list == NULL) return no_host_memory();
  for (size_t i = 0; i < count; i++) {
    list->events[i].owner = on;
    list->addresses[i] = &list->events[i];
  }
  list->next = on->events;
  on->events = list;
  *events = list->addresses;
  return 0;
}

int tm_gpu_record(tm_gpu_call *call, int device, int stream, tm_gpu_event *event) {
  const char *doing = "an event cannot be recorded";
  call_device *on;
  CUstream used;
  int code = in_call(call, device, &on);
  if (code == 0) code = stream_of(call, on, stream, AS_BEFORE, &used);
  if (code == 0 && event->event == NULL) code = event_make(on->device, &event->event);
  if (code == 0 && call->capture != NULL) event->phase = call->capture->phase;
  if (code == 0) code = enter(on->device, doing);
  return code != 0 ? code : leave(on->device, call->driver->EventRecord(event->event, used), doing);
}

/* Nothing has happened yet for an event that was not recorded: there is nothing to wait for. */
int tm_gpu_wait_stream(tm_gpu_call *call, int device, int stream, tm_gpu_event *event) {
  const char *doing = "a stream cannot wait for an event";
  call_device *on;
  CUstream used;
  if (event->event == NULL) return 0;
  int code = in_call(call, device, &on);
  if (code == 0) code = stream_of(call, on, stream, AS_BEFORE, &used);
  if (code == 0 && call->capture != NULL && event->phase != call->capture->phase) return 0;
  if (code == 0) code = enter(on->device, doing);
  return code != 0 ? code : leave(on->device, call->driver->StreamWaitEvent(used, event->event, 0), doing);
}

int tm_gpu_wait_host(tm_gpu_call *call, tm_gpu_event *event) {
  char doing[900];
  if (event->event == NULL) return 0;
  describe_wait(doing, sizeof doing, call, "waiting for an event");
  const bool in_graph = call->capture != NULL && is_captured(call->capture, event);
  int code = in_graph ? wait_for_graphs(call, doing) : enter(event->owner->device, doing);
  if (code == 0 && !in_graph) code = leave(event->owner->device, call->driver->EventSynchronize(event->event), doing);
  return code == 0 && call->staged_count > 0 ? deliver_arrived(call) : code;
}

/* -- outside of calls */

int tm_gpu_device_count(const char *path, int *count) {
  driver *of;
  *count = 0;
  const int code = driver_of(path, &of);
  if (code != 0) return code;
  const CUresult result = of->DeviceGetCount(count);
  return result == 0 ? 0 : refused(of, result, TM_GPU_NO_DEVICE, "the GPUs cannot be counted");
}

static int device_at(const char *path, int number, device **result) {
  driver *of;
  const int code = driver_of(path, &of);
  return code != 0 ? code : device_of(of, number, result);
}

int tm_gpu_device_name(const char *path, int number, char *name, size_t size, int *architecture) {
  device *on;
  const int code = device_at(path, number, &on);
  if (code != 0) return code;
  snprintf(name, size, "%s", on->name);
  *architecture = on->architecture;
  return 0;
}

int tm_gpu_array_allocate(const char *path, int number, void **address, size_t bytes) {
  char doing[100];
  device *on;
  *address = NULL;
  const int code = device_at(path, number, &on);
  snprintf(doing, sizeof doing, "%zu bytes cannot be allocated on GPU %d", bytes, number);
  return code != 0 ? code : memory_make(on, address, bytes > 0 ? bytes : 1, doing);
}

int tm_gpu_array_free(const char *path, int number, void *address) {
  device *on;
  if (address == NULL) return 0;
  const int code = device_at(path, number, &on);
  return code != 0 ? code : memory_end(on, address, 0);
}

int tm_gpu_array_copy(const char *path, int number, void *target, int target_on_device, const void *source,
                      int source_on_device, size_t bytes) {
  const char *doing = "an array cannot be copied";
  device *on;
  if (bytes == 0) return 0;
  if (!target_on_device && !source_on_device) {
    memmove(target, source, bytes);
    return 0;
  }
  int code = device_at(path, number, &on);
  if (code == 0) code = enter(on, doing);
  if (code != 0) return code;
  const driver *of = on->driver;
  if (!target_on_device) return leave(on, of->CopyToHost(target, address_of(source), bytes), doing);
  /* What arrives on a device may still be under way, and the streams of calls do not wait for the default stream. */
  CUresult result = source_on_device ? of->CopyOnDevice(address_of(target), address_of(source), bytes)
                                     : of->CopyToDevice(address_of(target), source, bytes);
  if (result == 0) result = of->StreamSynchronize(NULL);
  return leave(on, result, doing);
}

/* Whole pages, so that an array begins at one, and what is given back fits an array of about its size. */
int tm_gpu_host_allocate(const char *path, void **address, size_t bytes) {
  device *on;
  *address = NULL;
  int code = device_at(path, 0, &on);
  if (code != 0) return code;
  driver *of = on->driver;
  const size_t size = (rounded(bytes > 0 ? bytes : 1) + PAGE - 1) / PAGE * PAGE;
  if (keeps(of)) {
    pthread_mutex_lock(&of->lock);
    *address = take(&of->host_memory, size);
    pthread_mutex_unlock(&of->lock);
  }
  const bool made = *address == NULL;
  if (made) code = host_make(on, address, size);
  if (code != 0) return code;
  pthread_mutex_lock(&of->lock);
  const bool noted = keep(&of->arrays, *address, size);
  of->arrays_asked += noted;
  of->arrays_made += noted && made;
  pthread_mutex_unlock(&of->lock);
  if (noted) return 0;
  host_free(of, *address);
  *address = NULL;
  return no_host_memory();
}

int tm_gpu_host_free(const char *path, void *address) {
  driver *of;
  size_t bytes = 0;
  if (address == NULL) return 0;
  const int code = driver_of(path, &of);
  if (code != 0) return code;
  pthread_mutex_lock(&of->lock);
  const bool done = take_this(&of->arrays, address, &bytes) && keeps(of) && keep(&of->host_memory, address, bytes);
  pthread_mutex_unlock(&of->lock);
  return done ? 0 : host_free(of, address);
}

int tm_gpu_host_statistics(const char *path, int64_t counts[4]) {
  driver *of;
  const int code = driver_of(path, &of);
  if (code != 0) return code;
  pthread_mutex_lock(&of->lock);
  counts[0] = of->arrays_asked, counts[1] = of->arrays_made, counts[2] = counts[3] = 0;
  for (const kept *one = of->arrays; one != NULL; one = one->next) counts[2] += (int64_t)one->bytes;
  for (const kept *one = of->host_memory; one != NULL; one = one->next) counts[3] += (int64_t)one->bytes;
  pthread_mutex_unlock(&of->lock);
  return 0;
}

int tm_gpu_host_holds(const void *address, size_t bytes) {
  const char *start = address;
  int found = 0;
  pthread_mutex_lock(&drivers_lock);
  for (driver *of = drivers; of != NULL && found == 0; of = of->next) {
    pthread_mutex_lock(&of->lock);
    for (const kept *one = of->arrays; one != NULL && found == 0; one = one->next) {
      const char *from = one->item;
      if (start >= from && start + bytes <= from + one->bytes) found = of->simulated ? 2 : 1;
    }
    pthread_mutex_unlock(&of->lock);
  }
  pthread_mutex_unlock(&drivers_lock);
  return found;
}

int tm_gpu_synchronize(const char *path, int number, uintptr_t stream) {
  const char *doing = "waiting for a stream of the caller";
  device *on;
  int code = device_at(path, number, &on);
  if (code == 0) code = enter(on, doing);
  if (code != 0) return code;
  CUstream given;
  memcpy(&given, &stream, sizeof given);
  return leave(on, on->driver->StreamSynchronize(given), doing);
}

int tm_gpu_trim(const char *path) {
  const char *doing = "kept memory cannot be given back";
  driver *of;
  int code = driver_of(path, &of);
  if (code != 0) return code;
  pthread_mutex_lock(&of->lock);
  kept *host = of->host_memory;
  of->host_memory = NULL;
  for (int d = 0; d < MAX_DEVICES && code == 0; d++) {
    if (!of->devices[d].open) continue;
    code = enter(&of->devices[d], doing);
    if (code != 0) break;
    trim_device(&of->devices[d]);
    forget_graphs(&of->devices[d]);
    for (void *item = take(&host, 0); item != NULL; item = take(&host, 0)) of->HostFree(item);
    code = leave(&of->devices[d], 0, doing);
  }
  pthread_mutex_unlock(&of->lock);
  return code;
}
