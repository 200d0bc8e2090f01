/* What generated host code asks of a GPU: memory, streams, events, copies, launches.

   One implementation, tm_gpu.c, over the entry points of the CUDA driver, which it opens at run time: a library that was
   built with it loads on a machine without a driver. The simulator stands behind the same entry points.

   Every function returns 0 or an error code; tm_gpu_error() says the last one of this thread in words.
   All work of one call of a generated function belongs to a `tm_gpu_call`, and tm_gpu_end releases what it still holds,
   whether the call succeeded or not. Addresses of device memory are `void *` that host code must not follow. */
#ifndef TM_GPU_H
#define TM_GPU_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { TM_GPU_NO_DRIVER = 101, TM_GPU_NO_DEVICE = 102, TM_GPU_NO_IMAGE = 103, TM_GPU_NO_MEMORY = 104,
       TM_GPU_LAUNCH = 105, TM_GPU_FAULT = 106 };

/* -- what a library brings along (a table that the build writes) -- */

typedef enum tm_gpu_kind { TM_GPU_CUBIN = 1, TM_GPU_PTX = 2, TM_GPU_SIMULATED = 3 } tm_gpu_kind;

/* Kernels compiled for one architecture (90 for sm_90). Of a simulated image `bytes` is the path of a shared library. */
typedef struct tm_gpu_image {
    tm_gpu_kind kind;
    int architecture;
    const void *bytes;
    size_t size;
} tm_gpu_image;

typedef struct tm_gpu_program {
    const char *name;                /* of the generated function, for messages */
    const char *driver;              /* a library with the driver's entry points; NULL: the CUDA driver */
    const tm_gpu_image *images;
    int image_count;
    const char *const *kernels;      /* the names of the kernels, by number */
    int kernel_count;
} tm_gpu_program;

/* -- one call -- */

typedef struct tm_gpu_call tm_gpu_call;
typedef struct tm_gpu_event tm_gpu_event;

/* Streams are numbered from 0 on each device. A stream of -1 means: the calling thread waits for the end. */
enum { TM_GPU_WAIT = -1 };

const char *tm_gpu_error(void);

/* `first` is added to the device numbers of the program ("gpu:1" runs what was written for device 0 on device 1). */
int tm_gpu_begin(tm_gpu_call **call, const tm_gpu_program *program, int first);
/* For one of several processes, `number` on its machine: what its `first` is, of a program that uses `devices` GPUs. A
   `first` of -1 asks for those whose turn it is. Says so where there are not enough. */
int tm_gpu_choose(const tm_gpu_program *program, int first, int number, int devices, int *chosen);
#ifdef TM_TRACE_H
/* The times of all that this call (NULL: none) does on streams go to `log` when it ends. */
void tm_gpu_trace(tm_gpu_call *call, tm_trace *log);
#endif
/* From now on, what the call gives its devices becomes CUDA graphs: one of all that lies between two points at which the
   host takes part (it waits, or copies its own memory). Before the first copy or launch. A call of NULL has none. */
int tm_gpu_graphs(tm_gpu_call *call);
/* Releases everything, after all work that is still under way. `code` is what the function is about to return: it is
   returned, or the error that ending meets. */
int tm_gpu_end(tm_gpu_call *call, int code);

int tm_gpu_allocate(tm_gpu_call *call, int device, void **address, size_t bytes);
int tm_gpu_free(tm_gpu_call *call, int device, void *address);
/* Host memory that the device copies without staging; with `device_address` also what the device knows it by. */
int tm_gpu_allocate_host(tm_gpu_call *call, int device, void **address, void **device_address, size_t bytes);
int tm_gpu_free_host(tm_gpu_call *call, void *address);
/* What the devices know an array of the caller by, which they read and write where it is. Refuses memory that is not
   page-locked and mapped (that of tm_gpu_host_allocate is); `name` is for the message. */
int tm_gpu_mapped(tm_gpu_call *call, int device, const char *name, const void *address, size_t bytes, void **device_address);
/* Memory of the caller that is page-locked from the first copy between it and a device until the call ends, so that
   copies need no staging. Where the driver does not lock it (it is locked already, it may only be read, there is not
   enough), it is copied as it is. All that a call has is named before its first copy. No other program may copy it in the
   meantime: ending unlocks it. A call of NULL has none. */
int tm_gpu_lock_pages(tm_gpu_call *call, const void *address, size_t bytes);

/* A box of up to three dimensions: `rows` x `lines` runs of `run` bytes; pitches in bytes (of rows; of a plane). */
typedef struct tm_gpu_box {
    size_t run, lines, planes;
    size_t target_pitch, target_plane;
    size_t source_pitch, source_plane;
} tm_gpu_box;

/* Devices are -1 for the host. `stream` belongs to the device that is not the host (to the source's, between two).
   What nobody waits for yet, and is to go into host memory that is not page-locked, is there only when the host has waited,
   for it or for what came after it: a function of this header has returned that waits, or the call has ended. */
int tm_gpu_copy(tm_gpu_call *call, const char *what, void *target, int target_device, const void *source,
                int source_device, const tm_gpu_box *box, int stream, int wait);
/* The copies between memories of this thread's last call, by name, and their bytes: up to `most`, and then they are
   forgotten. Returns how many there are, of which the first 128 are known. */
int tm_gpu_copies(int most, const char **names, int64_t *bytes);
/* How many kernels and how many graphs this thread's last call has launched; kernels of graphs are among the first. */
void tm_gpu_launches(int64_t counts[2]);
int tm_gpu_zero(tm_gpu_call *call, int device, void *address, size_t bytes, int stream);

/* Whether a block of a kernel can have so much shared memory on a device, for the `arrays` in words; refuses it if not. */
int tm_gpu_shared(tm_gpu_call *call, int device, int kernel, size_t bytes, const char *arrays);
/* `dynamic_shared` are bytes of shared memory beside the kernel's own. */
int tm_gpu_launch(tm_gpu_call *call, int device, int kernel, const int64_t grid[3], const int64_t block[3],
                  size_t dynamic_shared, int stream, void **arguments);

/* `count` events, which nothing has happened for yet; released by tm_gpu_end. */
int tm_gpu_events(tm_gpu_call *call, int device, size_t count, tm_gpu_event ***events);
int tm_gpu_record(tm_gpu_call *call, int device, int stream, tm_gpu_event *event);
int tm_gpu_wait_stream(tm_gpu_call *call, int device, int stream, tm_gpu_event *event);
int tm_gpu_wait_host(tm_gpu_call *call, tm_gpu_event *event);

/* What another thread copies through: page-locked `memory` of so many bytes, and a stream of its own; one for each device and
   `number`, which the call keeps. */
typedef struct tm_gpu_stage tm_gpu_stage;
int tm_gpu_stage_of(tm_gpu_call *call, int device, int number, size_t bytes, tm_gpu_stage **stage, void **memory);
/* Copies between memory of the device and of the host (`to_device`: there), and waits: for any one thread. `stage` is a
   tm_gpu_stage. */
int tm_gpu_stage_copy(void *stage, void *target, const void *source, size_t bytes, int to_device);
/* The same without the host, by cuFile: `held` is what it has of a file that passes the page cache; NULL: it is not possible.
   Whether all bytes were moved between the device and `place` of the file. */
void tm_gpu_stage_file(void *stage, int file, void **held);
bool tm_gpu_stage_move(void *stage, void *held, void *memory, size_t bytes, size_t place, int stores);
void tm_gpu_stage_release(void *held);

/* -- outside of calls: for arrays that live on a device, and for their owners -- */

int tm_gpu_device_count(const char *driver, int *count);
int tm_gpu_device_name(const char *driver, int device, char *name, size_t size, int *architecture);
int tm_gpu_array_allocate(const char *driver, int device, void **address, size_t bytes);
int tm_gpu_array_free(const char *driver, int device, void *address);
int tm_gpu_array_copy(const char *driver, int device, void *target, int target_on_device, const void *source,
                      int source_on_device, size_t bytes);
int tm_gpu_host_allocate(const char *driver, void **address, size_t bytes);
int tm_gpu_host_free(const char *driver, void *address);
/* Of the arrays of tm_gpu_host_allocate: how many were asked for, how many of them the driver had to make, the bytes that
   are in use, and those that are kept for the next ones. */
int tm_gpu_host_statistics(const char *driver, int64_t counts[4]);
/* Whether these bytes are in such an array: 1 of the CUDA driver, 2 of the simulator, 0 if not. Opens no driver. */
int tm_gpu_host_holds(const void *address, size_t bytes);
/* Waits for a stream of somebody else (a CUstream; 1 and 2 are the legacy and the per-thread default). */
int tm_gpu_synchronize(const char *driver, int device, uintptr_t stream);
/* Gives memory that calls have returned, and that is kept for the next ones, back to the driver. */
int tm_gpu_trim(const char *driver);

#ifdef __cplusplus
}
#endif
#endif
