/* Files that a device reads and writes itself, by cuFile (GPUDirect Storage), where its library loads. A part of tm_gpu.c.

   Memory of a device is registered as long as the driver has it, also while the pool keeps it. A simulated device takes
   no cuFile but one that says it is a stand-in, and a real one no stand-in. What cuFile refuses, a caller copies by way of
   the host. */
#ifndef TM_GPU_FILES_H
#define TM_GPU_FILES_H

#include <sys/types.h>

/* From cufile.h, as NVIDIA publishes it. */
typedef struct {
  int failed, of_driver;
} cufile_status;
typedef struct {
  int type;
  union {
    int file;
    void *handle;
  } of;
  const void *operations;
} cufile_description;
enum { CUFILE_DESCRIPTOR = 1 };

#define CUFILE_ENTRIES(ENTRY) \
  ENTRY(start, cuFileDriverOpen, cufile_status, (void)) \
  ENTRY(open, cuFileHandleRegister, cufile_status, (void **, cufile_description *)) \
  ENTRY(close, cuFileHandleDeregister, void, (void *)) \
  ENTRY(lock, cuFileBufRegister, cufile_status, (const void *, size_t, int)) \
  ENTRY(unlock, cuFileBufDeregister, cufile_status, (const void *)) \
  ENTRY(read, cuFileRead, ssize_t, (void *, void *, size_t, off_t, off_t)) \
  ENTRY(write, cuFileWrite, ssize_t, (void *, const void *, size_t, off_t, off_t))

static struct cufile {
  _Atomic bool loaded; /* the rest stays as it is from then on */
  bool stands_in;
#define MEMBER(name, symbol, result, parameters) result(*name) parameters;
  CUFILE_ENTRIES(MEMBER)
#undef MEMBER
} cufile;
static pthread_once_t cufile_once = PTHREAD_ONCE_INIT;

static void load_cufile(void) {
  void *const library = dlopen("libcufile.so.0", RTLD_NOW | RTLD_LOCAL);
  if (library == NULL) return;
#define FIND(name, symbol, result, parameters) \
  if (!find_function(library, #symbol, &cufile.name)) return;
  CUFILE_ENTRIES(FIND)
#undef FIND
  int (*ignored)(void);
  cufile.stands_in = find_function(library, "tm_cufile_stands_in", &ignored);
  cufile.loaded = cufile.start().failed == 0;
}

/* Whether a device of a driver can use cuFile, if it was loaded. */
static bool has_cufile(const driver *of) { return cufile.loaded && cufile.stands_in == of->simulated; }

/* Memory that cuFile refuses is still copied by it, through memory of its own. */
static void register_memory(const device *on, CUdeviceptr address, size_t bytes) {
  if (has_cufile(on->driver)) cufile.lock((const void *)(uintptr_t)address, bytes, 0);
}

static void forget_memory(const device *on, const void *address) {
  if (has_cufile(on->driver)) cufile.unlock(address);
}

#endif
