#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "simulator.h"

enum { ARGUMENT_BYTES = 16, WORTH_A_THREAD = 1 << 14 };

/* The number of the next block ever run; 0 means none. */
static uint32_t next_run = 1;

static uint64_t common_divisor(uint64_t a, uint64_t b) { return a == 0 ? b : common_divisor(b % a, a); }

/* Blocks in an order that looks random: i * factor + shift, modulo their number. */
static void shuffle_blocks(tm_launch *launch) {
  uint64_t state = launch->seed;
  if (launch->blocks < 2 || launch->blocks >> 31 != 0) return;
  do launch->factor = tm_mixed(state++) % launch->blocks;
  while (launch->factor == 0 || common_divisor(launch->factor, launch->blocks) != 1);
  launch->shift = tm_mixed(state) % launch->blocks;
}

static void shuffle_threads(tm_launch *launch, unsigned threads) {
  uint64_t state = tm_mixed(launch->seed + 1);
  for (unsigned left = threads; left > 1; left--) {
    const unsigned pick = tm_random(&state) % left;
    const unsigned short moved = launch->order[left - 1];
    launch->order[left - 1] = launch->order[pick];
    launch->order[pick] = moved;
  }
}

static bool order_threads(tm_launch *launch, unsigned threads) {
  if (launch->options.order == FORWARD) return true;
  launch->order = malloc(threads * sizeof *launch->order);
  if (launch->order == NULL) return false;
  for (unsigned i = 0; i < threads; i++)
    launch->order[i] = (unsigned short)(launch->options.order == REVERSE ? threads - 1 - i : i);
  if (launch->options.order == RANDOM) {
    shuffle_threads(launch, threads);
    shuffle_blocks(launch);
  }
  launch->shape.order = launch->order;
  return true;
}

/* A pointer becomes the place behind it. */
static int translate(tm_launch *launch, int i) {
  const tm_simulated_kernel *kernel = launch->kernel;
  void *address;
  memcpy(&address, launch->arguments[i], sizeof address);
  if (address == NULL) return SUCCESS;
  if ((launch->holders[i] = tm_allocation_of(address, 0)) != NULL) {
    address = tm_place(address);
    memcpy(launch->arguments[i], &address, sizeof address);
    return SUCCESS;
  }
  if (tm_is_pinned(address, 1)) return SUCCESS;
  char what[200];
  if (!tm_is_device_address(address))
    return tm_fail(ILLEGAL_ADDRESS, "kernel %s: argument %s is a host address (%p); the device cannot reach it", kernel->name,
                   kernel->names[i], address);
  tm_describe(what, sizeof what, address);
  return tm_fail(ILLEGAL_ADDRESS, "kernel %s: argument %s is %s", kernel->name, kernel->names[i], what);
}

static int copy_arguments(tm_launch *launch, void **given) {
  const tm_simulated_kernel *kernel = launch->kernel;
  const size_t count = (size_t)kernel->parameter_count;
  launch->holders = calloc(count + 1, sizeof *launch->holders);
  launch->arguments = calloc(count + 1, sizeof *launch->arguments + ARGUMENT_BYTES);
  if (launch->holders == NULL || launch->arguments == NULL) return tm_fail(OUT_OF_MEMORY, "the host is out of memory");
  char *values = (char *)(launch->arguments + count + 1);
  for (int i = 0; i < kernel->parameter_count; i++) {
    launch->arguments[i] = values + (size_t)i * ARGUMENT_BYTES;
    memcpy(launch->arguments[i], given[i], kernel->parameters[i].bytes);
    if (!kernel->parameters[i].is_pointer) continue;
    const int code = translate(launch, i);
    if (code != SUCCESS) return code;
  }
  return SUCCESS;
}

static int check_shape(const tm_simulated_kernel *kernel, const unsigned grid[3], const unsigned block[3], size_t shared) {
  const uint64_t threads = (uint64_t)block[0] * block[1] * block[2];
  if (threads == 0 || threads > MAX_BLOCK || block[2] > 64)
    return tm_fail(INVALID_VALUE, "kernel %s: a block of %u x %u x %u threads; 1 to 1024, and at most 64 in z", kernel->name,
                   block[0], block[1], block[2]);
  for (int i = 0; i < 3; i++)
    if (block[i] != kernel->shape[i])
      return tm_fail(INVALID_VALUE, "kernel %s is compiled for blocks of %u x %u x %u threads, and launched with %u x %u x %u",
                     kernel->name, kernel->shape[0], kernel->shape[1], kernel->shape[2], block[0], block[1], block[2]);
  if (grid[0] == 0 || grid[1] == 0 || grid[2] == 0 || grid[0] > 2147483647u || grid[1] > 65535 || grid[2] > 65535)
    return tm_fail(INVALID_VALUE, "kernel %s: a grid of %u x %u x %u blocks", kernel->name, grid[0], grid[1], grid[2]);
  if (shared > SHARED_LIMIT) return tm_fail(INVALID_VALUE, "kernel %s: %zu bytes of shared memory", kernel->name, shared);
  return SUCCESS;
}

/* What every launch has of its own: its blocks' numbers, and their order. */
static void draw(tm_launch *launch) {
  tm_options *options = tm_own_options();
  launch->first_run = __atomic_fetch_add(&next_run, (uint32_t)launch->blocks, __ATOMIC_RELAXED);
  launch->seed = tm_mixed(options->seed * 0x9e3779b97f4a7c15ull + ++options->launches);
  launch->options = *options;
}

int tm_launch_make(tm_launch **result, const tm_module *module, const tm_simulated_kernel *kernel, const unsigned grid[3],
                   const unsigned block[3], size_t dynamic_shared, void **arguments) {
  int code = check_shape(kernel, grid, block, dynamic_shared);
  if (code != SUCCESS) return code;
  tm_launch *launch = calloc(1, sizeof *launch);
  if (launch == NULL) return tm_fail(OUT_OF_MEMORY, "the host is out of memory");
  launch->kernel = kernel;
  launch->module = module;
  launch->dynamic_shared = dynamic_shared;
  launch->shape.grid = (tm_dim){grid[0], grid[1], grid[2]};
  launch->shape.block = (tm_dim){block[0], block[1], block[2]};
  launch->blocks = (uint64_t)grid[0] * grid[1] * grid[2];
  draw(launch);
  code = copy_arguments(launch, arguments);
  if (code == SUCCESS && !order_threads(launch, block[0] * block[1] * block[2]))
    code = tm_fail(OUT_OF_MEMORY, "the host is out of memory");
  if (code != SUCCESS)
    tm_launch_free(launch);
  else
    *result = launch;
  return code;
}

tm_launch *tm_launch_again(const tm_launch *launch) {
  const size_t count = (size_t)launch->kernel->parameter_count;
  const size_t bytes = (count + 1) * sizeof *launch->arguments + (count + 1) * ARGUMENT_BYTES;
  tm_launch *made = malloc(sizeof *made);
  if (made == NULL) abort();
  *made = *launch;
  made->order = NULL, made->handovers = NULL, made->taken = 0, made->failed = SUCCESS;
  made->holders = malloc((count + 1) * sizeof *made->holders);
  made->arguments = malloc(bytes);
  if (made->holders == NULL || made->arguments == NULL) abort();
  memcpy(made->holders, launch->holders, (count + 1) * sizeof *made->holders);
  memcpy(made->arguments, launch->arguments, bytes);
  char *values = (char *)(made->arguments + count + 1);
  for (size_t i = 0; i < count; i++) made->arguments[i] = values + i * ARGUMENT_BYTES;
  draw(made);
  if (!order_threads(made, made->shape.block.x * made->shape.block.y * made->shape.block.z)) abort();
  return made;
}

void tm_launch_free(tm_launch *launch) {
  if (launch == NULL) return;
  free(launch->holders);
  free(launch->arguments);
  free(launch->order);
  free(launch->handovers);
  free(launch);
}

static void *run_part(void *launch) {
  tm_worker *worker = tm_worker_take();
  tm_worker_run(worker, launch);
  tm_worker_give(worker);
  return NULL;
}

/* The fast build writes without being seen. */
static void note_all_written(const tm_launch *launch) {
  for (int i = 0; i < launch->kernel->parameter_count; i++)
    if (launch->holders[i] != NULL && !launch->kernel->parameters[i].is_constant)
      tm_note_written(launch->holders[i]->place, launch->holders[i]->bytes);
}

void tm_launch_run(tm_launch *launch) {
  pthread_t others[256];
  int started = 0;
  const uint64_t threads = launch->blocks * launch->shape.block.x * launch->shape.block.y * launch->shape.block.z;
  const bool checked = launch->module->program->checked;
  uint64_t wanted = checked ? 1 : (uint64_t)launch->options.workers;
  if (wanted > launch->blocks) wanted = launch->blocks;
  if (wanted > threads / WORTH_A_THREAD) wanted = threads / WORTH_A_THREAD;
  while (started + 1 < (int)wanted && pthread_create(&others[started], NULL, run_part, launch) == 0) started++;
  run_part(launch);
  for (int i = 0; i < started; i++) pthread_join(others[i], NULL);
  if (checked)
    tm_check_tickets(launch);
  else
    note_all_written(launch);
}
