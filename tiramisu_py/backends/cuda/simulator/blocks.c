#define _GNU_SOURCE
#define TM_DEFINE_FIBERS
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "simulator.h"

/* A block on one thread of the host. Its threads are fibers that switch at barriers and in warp operations; a kernel without
   these is a plain loop over them. */

__thread tm_worker *tm_me;

enum { LOOP_STACK = 512 << 10, ABORT_STACK = 4 * PAGE, ALTERNATE_STACK = 64 << 10, STRIDE = STACK_BYTES + PAGE };

static tm_worker *idle;
static pthread_mutex_t idle_lock = PTHREAD_MUTEX_INITIALIZER;

tm_dim tm_thread_of(const tm_worker *worker, unsigned index) {
  const tm_dim shape = worker->launch->shape.block;
  return (tm_dim){index % shape.x, index / shape.x % shape.y, index / shape.x / shape.y};
}

tm_dim tm_block_of(const tm_launch *launch, uint64_t number) {
  const tm_dim grid = launch->shape.grid;
  return (tm_dim){(unsigned)(number % grid.x), (unsigned)(number / grid.x % grid.y), (unsigned)(number / grid.x / grid.y)};
}

void tm_block_error(tm_worker *worker, int code, const char *format, ...) {
  if (worker->error != 0) return;
  va_list rest;
  va_start(rest, format);
  const int used = snprintf(worker->words, sizeof worker->words, "kernel %s: ", worker->launch->kernel->name);
  vsnprintf(worker->words + used, sizeof worker->words - (size_t)used, format, rest);
  va_end(rest);
  worker->error = code;
}

void tm_leave_block(tm_worker *worker) {
  static __thread fiber_context abandoned;
  tm_fiber_switch(&abandoned, &worker->scheduler);
  abort();
}

/* -- who runs next */

static void shuffle(uint64_t *state, unsigned short *numbers, unsigned count) {
  for (unsigned left = count; left > 1; left--) {
    const unsigned pick = tm_random(state) % left;
    const unsigned short moved = numbers[left - 1];
    numbers[left - 1] = numbers[pick];
    numbers[pick] = moved;
  }
}

static void make_ready(tm_worker *worker, unsigned index) {
  worker->ready[(worker->head + worker->ready_count++) % MAX_BLOCK] = (unsigned short)index;
  worker->fibers[index].state = READY;
}

static void release_block(tm_worker *worker) {
  if (worker->launch->options.order == RANDOM) shuffle(&worker->random, worker->order, worker->threads);
  memcpy(worker->ready, worker->order, worker->threads * sizeof *worker->ready);
  worker->head = 0;
  worker->ready_count = worker->threads;
  for (unsigned i = 0; i < worker->threads; i++) worker->fibers[i].state = READY;
  worker->waiting = 0;
  worker->epoch++;
}

static const tm_fiber *first_in(const tm_worker *worker, tm_state state) {
  for (unsigned i = 0; i < worker->threads; i++)
    if (worker->fibers[i].state == state) return &worker->fibers[i];
  return NULL;
}

static const tm_fiber *at_other_barrier(const tm_worker *worker, const tm_fiber *one) {
  for (unsigned i = 0; i < worker->threads; i++)
    if (worker->fibers[i].state == AT_BARRIER && worker->fibers[i].line != one->line) return &worker->fibers[i];
  return NULL;
}

static const char *doing(const tm_worker *worker, const tm_fiber *fiber, char *text, size_t size) {
  const tm_dim t = tm_thread_of(worker, (unsigned)(fiber - worker->fibers));
  const char *file = worker->launch->module->program->file;
  const int used = snprintf(text, size, "thread (%u,%u,%u) ", t.x, t.y, t.z);
  if (fiber->state == AT_BARRIER)
    snprintf(text + used, size - (size_t)used, "waits at the barrier of %s:%d", file, fiber->line);
  else if (fiber->state == IN_WARP)
    snprintf(text + used, size - (size_t)used, "waits in the warp operation of %s:%d", file, fiber->line);
  else
    snprintf(text + used, size - (size_t)used, "has returned");
  return text;
}

/* A thread waits in a warp operation: the lane that is missing there. */
static const tm_fiber *missing_lane(const tm_worker *worker, const tm_fiber *waiting) {
  const unsigned first = (unsigned)(waiting - worker->fibers) & ~31u;
  for (unsigned i = first; i < first + 32 && i < worker->threads; i++)
    if (!(worker->warps[first / 32].arrived >> (i & 31) & 1)) return &worker->fibers[i];
  return waiting;
}

/* Nobody can run, and not all threads have returned. */
static void report_stuck(tm_worker *worker) {
  char one_text[200], other_text[200];
  const tm_dim b = worker->block;
  const tm_fiber *in_warp = first_in(worker, IN_WARP), *one = in_warp != NULL ? in_warp : first_in(worker, AT_BARRIER), *other;
  if (in_warp != NULL)
    other = missing_lane(worker, in_warp);
  else {
    other = at_other_barrier(worker, one);
    if (other == NULL) other = first_in(worker, RETURNED);
  }
  if (other == NULL) other = one;
  tm_block_error(worker, LAUNCH_FAILED, "block (%u,%u,%u): %s: %s, %s", b.x, b.y, b.z,
                 in_warp != NULL ? "partial warp operation" : "divergent barrier", doing(worker, one, one_text, sizeof one_text),
                 doing(worker, other, other_text, sizeof other_text));
}

static void run_next(tm_worker *worker, tm_fiber *self) {
  if (UNLIKELY(worker->ready_count == 0)) {
    if (worker->waiting == worker->threads && !worker->mismatch)
      release_block(worker);
    else {
      if (worker->returned != worker->threads) report_stuck(worker);
      tm_leave_block(worker);
    }
  }
  if (worker->launch->options.order == RANDOM && worker->ready_count > 1) {
    const unsigned pick = (worker->head + tm_random(&worker->random) % worker->ready_count) % MAX_BLOCK;
    const unsigned short moved = worker->ready[worker->head];
    worker->ready[worker->head] = worker->ready[pick];
    worker->ready[pick] = moved;
  }
  tm_fiber *next = &worker->fibers[worker->ready[worker->head]];
  worker->head = (worker->head + 1) % MAX_BLOCK;
  worker->ready_count--;
  if (next == self) return;
  worker->current = next;
  tm_fiber_switch(&self->context, &next->context);
}

/* -- what kernels ask for */

static tm_worker *cooperating(int line, const char *what) {
  tm_worker *worker = tm_me;
  if (UNLIKELY(worker->plain)) {
    tm_block_error(worker, LAUNCH_FAILED, "%s at %s:%d, but the kernel is declared to have none", what,
                   worker->launch->module->program->file, line);
    tm_leave_block(worker);
  }
  return worker;
}

static void barrier(int line) {
  tm_worker *worker = cooperating(line, "a barrier");
  tm_fiber *self = worker->current;
  if (worker->waiting++ == 0) worker->barrier_line = line;
  if (worker->barrier_line != line) worker->mismatch = true;
  self->state = AT_BARRIER;
  self->line = line;
  self->warp_epoch++;
  run_next(worker, self);
}

static void complete(tm_worker *worker, unsigned first, tm_warp *warp) {
  unsigned short lanes[32];
  unsigned count = 0;
  warp->present = warp->arrived;
  warp->side ^= 1;
  for (uint32_t left = warp->arrived; left != 0; left &= left - 1)
    lanes[count++] = (unsigned short)(first + (unsigned)__builtin_ctz(left));
  warp->arrived = 0;
  if (worker->launch->options.order == RANDOM) shuffle(&worker->random, lanes, count);
  for (unsigned i = 0; i < count; i++)
    make_ready(worker, lanes[worker->launch->options.order == REVERSE ? count - 1 - i : i]);
}

static const char *meet(int line, const void *value, unsigned bytes, unsigned *present) {
  tm_worker *worker = cooperating(line, "a warp operation");
  tm_fiber *self = worker->current;
  const unsigned index = self->thread.tm_index, lane = index & 31;
  tm_warp *warp = &worker->warps[index / 32];
  const int side = warp->side;
  if (warp->arrived == 0)
    warp->line = line;
  else if (UNLIKELY(warp->line != line)) {
    const tm_dim b = worker->block;
    tm_block_error(worker, LAUNCH_FAILED, "block (%u,%u,%u): the lanes of a warp meet in different operations, at %s:%d and :%d",
                   b.x, b.y, b.z, worker->launch->module->program->file, warp->line, line);
    tm_leave_block(worker);
  }
  if (bytes > 0) memcpy(warp->slots[side][lane], value, bytes);
  warp->arrived |= 1u << lane;
  self->state = IN_WARP;
  self->line = line;
  self->warp_epoch++;
  if (warp->arrived == warp->alive) complete(worker, index & ~31u, warp);
  run_next(worker, self);
  *present = warp->present;
  return &warp->slots[side][0][0];
}

static void *shared(const void *key, size_t bytes, const char *name) {
  tm_worker *worker = tm_me;
  for (int i = 0; i < worker->array_count; i++)
    if (worker->arrays[i].key == key) return worker->shared + worker->arrays[i].offset;
  if (bytes == 0) bytes = worker->launch->dynamic_shared;
  const size_t offset = (worker->shared_used + RED_ZONE + 127) & ~(size_t)127;
  if (worker->array_count == MAX_ARRAYS || offset + bytes + RED_ZONE > SHARED_BYTES) {
    tm_block_error(worker, LAUNCH_FAILED, "no shared memory is left for %s, of %zu bytes", name, bytes);
    tm_leave_block(worker);
  }
  worker->arrays[worker->array_count++] = (tm_shared_array){.key = key, .name = name, .offset = offset, .bytes = bytes};
  worker->shared_used = offset + bytes;
  if (worker->launch->options.poison) memset(worker->shared + offset - RED_ZONE, 0xff, bytes + 2 * RED_ZONE);
  tm_set_bits(worker->shared_written, offset, bytes, false);
  return worker->shared + offset;
}

/* Arrays that the launch brings lie apart here, so that an access beside one is found; their places are checked. */
static void *shared_at(const void *key, size_t bytes, const char *name, size_t first) {
  tm_worker *worker = tm_me;
  const char *const file = worker->launch->module->program->file;
  for (int i = 0; i < worker->array_count; i++) {
    const tm_shared_array *other = &worker->arrays[i];
    if (other->key == key) return worker->shared + other->offset;
    if (other->placed && first < other->first + other->bytes && other->first < first + bytes) {
      tm_block_error(worker, LAUNCH_FAILED, "%s: the shared arrays %s and %s overlap", file, other->name, name);
      tm_leave_block(worker);
    }
  }
  if (first + bytes > worker->launch->dynamic_shared) {
    tm_block_error(worker, LAUNCH_FAILED, "%s: the shared array %s ends at byte %zu, and the launch asks for %zu", file, name,
                   first + bytes, worker->launch->dynamic_shared);
    tm_leave_block(worker);
  }
  void *const made = shared(key, bytes, name);
  worker->arrays[worker->array_count - 1].first = first;
  worker->arrays[worker->array_count - 1].placed = true;
  return made;
}

static void arrive(void *to, const void *from, unsigned bytes, unsigned given) {
  memcpy(to, from, given);
  memset((char *)to + given, 0, bytes - given);
}

static void async_copy(void *to, const void *from, unsigned bytes, unsigned given, void *place) {
  tm_worker *worker = tm_me;
  const bool checked = worker->launch->module->program->checked;
  if ((uintptr_t)to % bytes != 0 || (uintptr_t)from % bytes != 0) {
    tm_block_error(worker, LAUNCH_FAILED, "an asynchronous copy of %u bytes is not aligned to them", bytes);
    tm_leave_block(worker);
  }
  if (given > bytes) {
    tm_block_error(worker, LAUNCH_FAILED, "an asynchronous copy of %u bytes loads %u", bytes, given);
    tm_leave_block(worker);
  }
  if (worker->plain || (worker->early_copies && !checked)) {
    arrive(to, from, bytes, given);
    return;
  }
  tm_fiber *self = worker->current;
  if (checked) {
    if (given > 0) tm_access(from, given, TM_READ, place);
    tm_access(to, bytes, TM_IN_FLIGHT, place);
  }
  if (self->copies == self->copy_room) {
    const int room = self->copy_room == 0 ? 16 : 2 * self->copy_room;
    tm_pending_copy *more = realloc(self->copy, (size_t)room * sizeof *more);
    if (more == NULL) abort();
    self->copy = more;
    self->copy_room = room;
  }
  self->copy[self->copies++] = (tm_pending_copy){to, from, bytes, given, self->group, place};
}

static void async_commit(void) {
  tm_worker *worker = tm_me;
  if (!worker->plain) worker->current->group++;
}

/* All groups but the `newest` ones; 0: what is not committed, too. */
static void async_wait(unsigned newest, void *place) {
  tm_worker *worker = tm_me;
  if (worker->plain) return;
  tm_fiber *self = worker->current;
  int kept = 0;
  for (int i = 0; i < self->copies; i++) {
    const tm_pending_copy *copy = &self->copy[i];
    if (newest > 0 && copy->group + newest >= self->group) {
      self->copy[kept++] = *copy;
      continue;
    }
    arrive(copy->to, copy->from, copy->bytes, copy->given);
    if (!worker->launch->module->program->checked) continue;
    worker->landing = true;
    tm_access(copy->to, copy->bytes, TM_WRITE, place);
    worker->landing = false;
  }
  self->copies = kept;
}

tm_simulator tm_services = {NULL, 0, NULL, NULL, barrier, meet, shared, shared_at, async_copy, async_commit, async_wait, tm_access, tm_misaligned,
                            tm_fence, tm_ticket, tm_take_lock, tm_give_lock, tm_await_turn, tm_draw};

/* -- a block */

static void fiber_main(void) {
  tm_worker *worker = tm_me;
  tm_fiber *self = worker->current;
  worker->launch->kernel->thread(&self->thread, worker->launch->arguments);
  worker = tm_me;
  self->state = RETURNED;
  worker->returned++;
  run_next(worker, self);
  abort();
}

static void start_fibers(tm_worker *worker) {
  const tm_launch *launch = worker->launch;
  const unsigned threads = worker->threads;
  for (unsigned i = 0; i < threads; i++) {
    tm_fiber *fiber = &worker->fibers[i];
    /* different distances from the ends of the stacks, so that these do not share one set of the cache */
    fiber_make(&fiber->context, worker->stacks + (size_t)(i + 1) * STRIDE - i % 31 * 128, fiber_main);
    fiber->thread = (tm_thread){tm_thread_of(worker, i), worker->block, launch->shape.block, launch->shape.grid, i};
    fiber->state = READY;
    fiber->line = 0;
    fiber->warp_epoch = 1;
    fiber->fenced = 0;
    fiber->group = 0;
    fiber->copies = 0;
    worker->order[i] = (unsigned short)(launch->options.order == REVERSE ? threads - 1 - i : i);
  }
  for (unsigned w = 0; w < (threads + 31) / 32; w++) {
    worker->warps[w].alive = w == threads / 32 ? (1u << threads % 32) - 1 : ~0u;
    worker->warps[w].arrived = 0;
  }
}

static void run_fibers(tm_worker *worker) {
  worker->threads = worker->launch->shape.block.x * worker->launch->shape.block.y * worker->launch->shape.block.z;
  worker->returned = 0;
  worker->mismatch = false;
  start_fibers(worker);
  worker->epoch = 0;
  release_block(worker);
  worker->current = &worker->fibers[worker->ready[0]];
  worker->head = 1;
  worker->ready_count--;
  tm_fiber_switch(&worker->scheduler, &worker->current->context);
}

static uint64_t block_number(const tm_launch *launch, uint64_t i) {
  if (launch->options.order == REVERSE) return launch->blocks - 1 - i;
  return launch->factor == 0 ? i : (i * launch->factor + launch->shift) % launch->blocks;
}

static bool take_block(tm_worker *worker) {
  tm_launch *launch = worker->launch;
  const uint64_t i = __atomic_fetch_add(&launch->next, 1, __ATOMIC_RELAXED);
  if (i >= launch->blocks || __atomic_load_n(&launch->failed, __ATOMIC_RELAXED) != 0) return false;
  const uint64_t number = block_number(launch, i);
  worker->block = tm_block_of(launch, number);
  worker->run = launch->first_run + (uint32_t)number;
  worker->random = tm_mixed(launch->seed + number);
  worker->early_copies = launch->options.order == RANDOM && tm_random(&worker->random) % 2 == 0;
  worker->array_count = worker->last_array = 0;
  worker->shared_used = 0;
  return true;
}

/* All blocks of a kernel without barriers: on a stack of their own, which a fault leaves. */
static void loop_main(void) {
  tm_worker *worker = tm_me;
  while (take_block(worker)) {
    const unsigned at[3] = {worker->block.x, worker->block.y, worker->block.z};
    worker->launch->kernel->block(&worker->launch->shape, at, worker->launch->arguments);
  }
  tm_leave_block(worker);
}

static bool block_failed(tm_worker *worker) {
  if (UNLIKELY(worker->faulted)) {
    tm_report_fault(worker);
    worker->faulted = false;
  }
  if (UNLIKELY(worker->finding_count > 0)) tm_report_findings(worker);
  if (worker->error == 0) return false;
  tm_launch *launch = worker->launch;
  int none = 0;
  if (__atomic_compare_exchange_n(&launch->failed, &none, -1, false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED)) {
    memcpy(launch->words, worker->words, sizeof launch->words);
    __atomic_store_n(&launch->failed, worker->error, __ATOMIC_RELEASE);
  }
  return true;
}

void tm_worker_run(tm_worker *worker, tm_launch *launch) {
  tm_worker *outer = tm_me;
  tm_me = worker;
  worker->launch = launch;
  worker->error = 0;
  worker->finding_count = 0;
  worker->faulted = worker->landing = false;
  worker->plain = launch->kernel->block != NULL;
  worker->current = NULL;
  stack_t alternate = {.ss_sp = worker->alternate_stack, .ss_size = ALTERNATE_STACK}, former;
  sigaltstack(&alternate, &former);
  worker->in_kernel = true;
  if (worker->plain) {
    fiber_context start;
    fiber_make(&start, worker->loop_stack + LOOP_STACK, loop_main);
    tm_fiber_switch(&worker->scheduler, &start);
    block_failed(worker);
  } else {
    const unsigned threads = launch->shape.block.x * launch->shape.block.y * launch->shape.block.z;
    for (; worker->open_stacks < threads; worker->open_stacks++)
      mprotect(worker->stacks + (size_t)worker->open_stacks * STRIDE + PAGE, STACK_BYTES, PROT_READ | PROT_WRITE);
    while (take_block(worker)) {
      run_fibers(worker);
      if (block_failed(worker)) break;
    }
  }
  worker->in_kernel = false;
  sigaltstack(&former, NULL);
  tm_me = outer;
}

/* -- workers */

static void *zeroed(size_t bytes, int protection) {
  void *memory = mmap(NULL, bytes, protection, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) abort();
  return memory;
}

static tm_worker *worker_make(void) {
  const int accessible = PROT_READ | PROT_WRITE;
  tm_worker *worker = zeroed(sizeof *worker, accessible);
  worker->fibers = zeroed(MAX_BLOCK * sizeof *worker->fibers, accessible);
  worker->stacks = zeroed((size_t)MAX_BLOCK * STRIDE, PROT_NONE); /* opened as blocks need them: each costs a mapping */
  worker->loop_stack = zeroed(LOOP_STACK, accessible);
  worker->abort_stack = zeroed(ABORT_STACK, accessible);
  worker->alternate_stack = zeroed(ALTERNATE_STACK, accessible);
  worker->shared = tm_shared_memory();
  worker->shared_written = zeroed(SHARED_BYTES / 8, accessible);
  worker->shadow = zeroed(SHARED_BYTES / 4 * sizeof *worker->shadow, accessible);
  return worker;
}

tm_worker *tm_worker_take(void) {
  pthread_mutex_lock(&idle_lock);
  tm_worker *worker = idle;
  if (worker != NULL) idle = worker->next_idle;
  pthread_mutex_unlock(&idle_lock);
  return worker != NULL ? worker : worker_make();
}

void tm_worker_give(tm_worker *worker) {
  pthread_mutex_lock(&idle_lock);
  worker->next_idle = idle;
  idle = worker;
  pthread_mutex_unlock(&idle_lock);
}
