/* The parts of the simulated GPU, for each other. Addresses are of one of two kinds: a *device address*, which nothing may
   follow, and its *place*, where the bytes are; kernels are given places. */
#ifndef TM_SIMULATOR_PARTS_H
#define TM_SIMULATOR_PARTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "fibers.h"
#include "tm_simulator.h"

#define UNLIKELY(condition) __builtin_expect(!!(condition), 0)

enum { MAX_DEVICES = 8, MAX_BLOCK = 1024, MAX_WARPS = MAX_BLOCK / 32, MAX_ARRAYS = 32, MAX_FINDINGS = 8, MAX_WORKERS = 2048 };
enum { PAGE = 4096, STACK_BYTES = 64 << 10, SHARED_BYTES = 256 << 10, SHARED_LIMIT = 227 << 10, SHARED_UNASKED = 48 << 10, RED_ZONE = 64 };
#define ARENA ((size_t)16 << 30) /* addresses of one device */

/* As in cuda.h. */
enum {
  SUCCESS = 0, INVALID_VALUE = 1, OUT_OF_MEMORY = 2, NOT_INITIALIZED = 3, INVALID_DEVICE = 101, INVALID_IMAGE = 200,
  INVALID_CONTEXT = 201, INVALID_HANDLE = 400, NOT_FOUND = 500, NOT_READY = 600, ILLEGAL_ADDRESS = 700,
  ALREADY_LOCKED = 712, NOT_LOCKED = 713, LAUNCH_FAILED = 719, NOT_CAPTURABLE = 900, CAPTURES_MERGED = 902,
  NO_CAPTURE = 903, NOT_JOINED = 904, NOT_CAPTURED = 905, IS_CAPTURED = 907, OTHER_GRAPH = 910
};

/* -- options.c: how to be adverse; each thread has its own */

typedef enum tm_timing { EAGER, LAZY, SHUFFLED, THREADS } tm_timing;
typedef enum tm_order { FORWARD, REVERSE, RANDOM } tm_order;

typedef struct tm_options {
  uint64_t seed;
  bool seeded;
  tm_timing timing;   /* when the work of a stream is done */
  tm_order order;     /* of blocks, and of the threads of a block */
  int devices, workers, delay;
  int shared;         /* bytes that a block may have */
  bool poison, staged, guard_left, pools, stages;
  uint64_t random, launches; /* what follows from the seed, as work goes on */
} tm_options;

tm_options *tm_own_options(void);
uint64_t tm_mixed(uint64_t bits);
uint32_t tm_random(uint64_t *state);

/* -- driver.c: errors */

int tm_fail(int code, const char *format, ...) __attribute__((format(printf, 2, 3)));
const char *tm_last_words(void);

/* -- memory.c */

typedef struct tm_allocation {
  char *place;
  size_t bytes, first_page, pages;
  bool live;
  int number, device;
} tm_allocation;

void tm_memory_start(void);
bool tm_is_device_address(const void *address);
char *tm_place(const void *device_address);
bool tm_is_place(const void *place);
char *tm_shared_memory(void);
size_t tm_offset(const void *place);
/* The live allocation that holds all of it; of a device address, or of a place. */
tm_allocation *tm_allocation_of(const void *device_address, size_t bytes);
tm_allocation *tm_allocation_at(const void *place);
tm_allocation *tm_nearest(const void *place);
bool tm_is_pinned(const void *address, size_t bytes);
bool tm_is_pinned_in_part(const void *address, size_t bytes);
void tm_describe(char *text, size_t size, const void *address);
int tm_allocate(int device, void **device_address, size_t bytes);
int tm_release(void *device_address);
int tm_pin(void **address, size_t bytes);
int tm_unpin(void *address);
int tm_lock_pages(void *address, size_t bytes);
int tm_unlock_pages(void *address);

/* Which bytes have been written: a bit each. */
extern uint8_t *tm_written;
void tm_set_many_bits(uint8_t *bits, size_t first, size_t count, bool value);
bool tm_all_of_many_bits(const uint8_t *bits, size_t first, size_t count);

/* Most are of a few bytes, whose bits lie in one byte. */
static inline void tm_set_bits(uint8_t *bits, size_t first, size_t count, bool value) {
  const unsigned mask = ((1u << (count & 15)) - 1) << (first & 7);
  if (count > 8 || (first & 7) + count > 8)
    tm_set_many_bits(bits, first, count, value);
  else
    bits[first >> 3] = (uint8_t)(value ? bits[first >> 3] | mask : bits[first >> 3] & ~mask);
}

static inline bool tm_all_bits(const uint8_t *bits, size_t first, size_t count) {
  if (count > 8 || (first & 7) + count > 8) return tm_all_of_many_bits(bits, first, count);
  const unsigned mask = ((1u << (count & 15)) - 1) << (first & 7);
  return (bits[first >> 3] & mask) == mask;
}
void tm_note_written(const void *place, size_t bytes);

/* -- launches.c and blocks.c */

void tm_take_lock(uint32_t *lock);
void tm_give_lock(uint32_t *lock, uint32_t next);
void tm_await_turn(uint32_t *turn, uint32_t number);
void tm_draw(const uint32_t *numbers);

typedef struct tm_module {
  void *library;
  const tm_simulated_program *program;
  char *base;      /* where the library is loaded: places in it are kept as distances */
  char path[1];
} tm_module;

/* What a block hands over by the ticket that it takes, and takes over. Epochs count its barriers. */
typedef struct tm_handover {
  const uint32_t *tickets; /* or a lock */
  bool is_lock;
  const uint32_t *numbers; /* of which it has drawn one at its start */
  uint64_t order;     /* among all tickets of the launch; from 1 on */
  uint32_t released;  /* what it accessed in epochs before this one is seen by whoever takes a later ticket */
  uint32_t acquired;  /* in epochs after this one it sees what others have released; from 1 on, 0: never */
} tm_handover;

typedef struct tm_launch {
  tm_simulated_launch shape;
  const tm_simulated_kernel *kernel;
  const tm_module *module;
  void **arguments;
  tm_allocation **holders; /* of the arguments that are device addresses */
  size_t dynamic_shared;
  uint64_t blocks, next, factor, shift; /* block i is number (i * factor + shift) % blocks */
  uint32_t first_run;                   /* the number of block 0 among all blocks ever run */
  uint64_t seed;
  tm_options options;
  unsigned short *order;
  tm_handover *handovers; /* of each block, once one takes a ticket */
  uint64_t taken;
  int failed;
  char words[900];
} tm_launch;

int tm_launch_make(tm_launch **launch, const tm_module *module, const tm_simulated_kernel *kernel, const unsigned grid[3],
                   const unsigned block[3], size_t dynamic_shared, void **arguments);
/* Another launch of the same, in an order of its own. */
tm_launch *tm_launch_again(const tm_launch *launch);
void tm_launch_run(tm_launch *launch);
void tm_launch_free(tm_launch *launch);

typedef enum tm_state { READY, AT_BARRIER, IN_WARP, RETURNED } tm_state;

typedef struct tm_pending_copy {
  void *to;
  const void *from;
  unsigned bytes, given, group;
  void *place;
} tm_pending_copy;

typedef struct tm_fiber {
  fiber_context context;
  tm_thread thread;
  tm_state state;
  int line;                /* where it waits */
  uint32_t warp_epoch;     /* meetings of its warp that it took part in */
  uint32_t fenced;         /* the epoch of its last fence; 0: none */
  unsigned group;          /* of asynchronous copies */
  int copies, copy_room;
  tm_pending_copy *copy;
} tm_fiber;

typedef struct tm_warp {
  uint32_t alive, arrived, present;
  int line, side;
  char slots[2][32][16];
} tm_warp;

/* An access; which thread of which block, at which place in the kernel's code. */
typedef struct tm_record {
  uint32_t run;
  uint32_t site : 28, bytes : 4;
  uint64_t thread : 10, kind : 2, epoch : 26, warp_epoch : 26;
} tm_record;

typedef struct tm_shadow {
  tm_record write, reads[2];
} tm_shadow;

typedef struct tm_finding {
  const char *what;
  const void *address;
  size_t bytes;
  tm_record now, before;
  bool is_race;
} tm_finding;

typedef struct tm_shared_array {
  const void *key;
  const char *name;
  size_t offset, bytes;
  size_t first; /* in what the launch asks for, if it is placed there */
  bool placed;
} tm_shared_array;

/* What runs blocks, one after another, on one thread of the host. */
typedef struct tm_worker {
  tm_launch *launch;
  tm_fiber *fibers, *current;
  fiber_context scheduler;
  char *stacks, *loop_stack, *abort_stack, *alternate_stack;
  unsigned open_stacks;
  tm_dim block;
  uint32_t run;
  uint64_t random;
  unsigned threads, waiting, returned, head, ready_count;
  int barrier_line;
  bool mismatch, early_copies, landing, in_kernel, plain;
  uint32_t epoch; /* barriers so far */
  unsigned short ready[MAX_BLOCK], order[MAX_BLOCK];
  tm_warp warps[MAX_WARPS];
  char *shared;
  size_t shared_used;
  tm_shared_array arrays[MAX_ARRAYS];
  int array_count, last_array;
  tm_shadow *shadow;
  uint8_t *shared_written;
  tm_finding findings[MAX_FINDINGS];
  int finding_count;
  bool faulted;
  int fault_signal;
  char *fault_address, *fault_place;
  int error;
  char words[900];
  struct tm_lines *lines;
  struct tm_worker *next_idle;
} tm_worker;

extern __thread tm_worker *tm_me;
extern tm_simulator tm_services;

tm_worker *tm_worker_take(void);
void tm_worker_give(tm_worker *worker);
void tm_worker_run(tm_worker *worker, tm_launch *launch);
void tm_block_error(tm_worker *worker, int code, const char *format, ...) __attribute__((format(printf, 3, 4)));
void tm_leave_block(tm_worker *worker) __attribute__((noreturn));
tm_dim tm_thread_of(const tm_worker *worker, unsigned index);
tm_dim tm_block_of(const tm_launch *launch, uint64_t number);

/* -- checks.c */

enum { TM_IN_FLIGHT = 3 };

void tm_checks_start(void);
void tm_access(const void *address, size_t bytes, int kind, void *place);
void tm_misaligned(const void *address, unsigned bytes, void *place);
void tm_fence(void);
void tm_ticket(const uint32_t *tickets);
void tm_check_tickets(tm_launch *launch);
void tm_report_findings(tm_worker *worker);

/* -- traffic.c */

typedef struct tm_lines tm_lines;
void tm_count(tm_worker *worker, const void *address, size_t bytes, int kind, const void *place);

/* -- faults.c */

void tm_faults_start(void);
void tm_report_fault(tm_worker *worker);
void tm_source_line(char *text, size_t size, const tm_module *module, const void *place);
void tm_describe_in_kernel(char *text, size_t size, const tm_launch *launch, const void *place);

/* -- streams.c */

typedef struct tm_stream tm_stream;
typedef struct tm_event tm_event;

/* `target` and `source` are places or host addresses. */
typedef struct tm_transfer {
  char *target;
  const char *source;
  size_t run, lines, planes, target_pitch, target_plane, source_pitch, source_plane;
  bool from_host, to_host;
} tm_transfer;

int tm_stream_make(tm_stream **stream);
int tm_stream_end(tm_stream *stream);
int tm_stream_wait(tm_stream *stream);
int tm_event_make(tm_event **event);
int tm_event_end(tm_event *event);
int tm_event_record(tm_event *event, tm_stream *stream);
int tm_event_wait(tm_event *event);
int tm_event_query(tm_event *event);
int64_t tm_event_time(tm_event *event);
int tm_stream_wait_event(tm_stream *stream, tm_event *event);
/* Without a stream, at once. */
int tm_stream_copy(tm_stream *stream, const tm_transfer *transfer);
int tm_stream_set(tm_stream *stream, char *place, int value, size_t bytes);
int tm_stream_launch(tm_stream *stream, tm_launch *launch);
/* What is put on the stream, and on those that come to wait for it, is kept as a graph from now on. */
typedef struct tm_graph tm_graph;
typedef struct tm_executable tm_executable;
int tm_capture_begin(tm_stream *stream);
int tm_capture_end(tm_stream *stream, tm_graph **graph);
void tm_graph_end(tm_graph *graph);
int tm_executable_make(tm_executable **executable, const tm_graph *graph);
int tm_executable_update(tm_executable *executable, const tm_graph *graph);
int tm_executable_launch(tm_executable *executable, tm_stream *stream);
void tm_executable_end(tm_executable *executable);

/* The name of a pending operation that uses the allocation. */
bool tm_is_pending(const tm_allocation *allocation, char *text, size_t size);

#endif
