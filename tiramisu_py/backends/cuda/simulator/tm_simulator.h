/* What simulated kernels and the simulator share: the tables of a library of kernels, and what kernels ask for. */
#ifndef TM_SIMULATOR_H
#define TM_SIMULATOR_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tm_dim {
  unsigned x, y, z;
} tm_dim;

/* A thread of a kernel; the members that CUDA calls threadIdx and so on keep their names, as kernel text uses them. */
typedef struct tm_thread {
  tm_dim threadIdx, blockIdx, blockDim, gridDim;
  unsigned tm_index; /* within its block */
} tm_thread;

/* -- a library of kernels */

typedef struct tm_simulated_parameter {
  unsigned short bytes;
  unsigned short element; /* bytes of what a pointer points to */
  unsigned char is_pointer, is_constant;
} tm_simulated_parameter;

typedef struct tm_simulated_launch {
  tm_dim grid, block;
  const unsigned short *order; /* of the threads of a block; NULL: by number */
} tm_simulated_launch;

typedef struct tm_simulated_kernel {
  const char *name;
  const char *const *names; /* of the parameters */
  int parameter_count;
  const tm_simulated_parameter *parameters;
  /* One of the two: a thread that may wait for others, or all threads of a block one after another. */
  void (*thread)(tm_thread *, void **arguments);
  void (*block)(const tm_simulated_launch *, const unsigned at[3], void **arguments);
  unsigned shape[3]; /* of its blocks */
} tm_simulated_kernel;

typedef struct tm_simulated_program {
  const char *file; /* the kernel text, for messages */
  int checked;      /* every access is reported */
  int kernel_count;
  const tm_simulated_kernel *kernels;
} tm_simulated_program;

/* -- what kernels ask for */

enum { TM_READ = 0, TM_WRITE = 1, TM_ATOMIC_ACCESS = 2 };

typedef struct tm_simulator {
  const char *first; /* of the memory that threads may share; everything else is of one thread, and not reported */
  size_t length;
  const char *watched_first, *watched_end; /* arrays of the host whose traffic is counted */
  void (*barrier)(int line);
  /* All 32 lanes of the warp deposit a value; the result is 32 slots of 16 bytes. */
  const char *(*meet)(int line, const void *value, unsigned bytes, unsigned *present);
  void *(*shared)(const void *key, size_t bytes, const char *name);
  /* An array of so many bytes from byte `first` on of the shared memory that the launch asks for. */
  void *(*shared_at)(const void *key, size_t bytes, const char *name, size_t first);
  /* Of `bytes` the first `given` ones are loaded, the others are zeros. */
  void (*async_copy)(void *to, const void *from, unsigned bytes, unsigned given, void *place);
  void (*async_commit)(void);
  void (*async_wait)(unsigned newest, void *place);
  void (*access)(const void *address, size_t bytes, int kind, void *place);
  void (*misaligned)(const void *address, unsigned bytes, void *place);
  void (*fence)(void);
  void (*ticket)(const uint32_t *tickets);
  void (*take)(uint32_t *lock);
  void (*give)(uint32_t *lock, uint32_t next);
  void (*await)(uint32_t *turn, uint32_t number);
  void (*draw)(const uint32_t *numbers);
} tm_simulator;

/* What a library of kernels exports, under the name tm_simulated. */
typedef const tm_simulated_program *tm_simulated_entry(const tm_simulator *simulator);

#ifdef __cplusplus
}
#endif
#endif
