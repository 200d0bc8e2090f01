#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "simulator.h"

/* How often a thread looks whether a lock is free. */
enum { MOST_TRIES = 1 << 26 };

/* The last write and two reads of every 4 bytes, of the devices' memory; of shared memory each worker has its own. */
static tm_shadow *device_shadow;

void tm_checks_start(void) {
  if (device_shadow != NULL) return;
  void *memory = mmap(NULL, MAX_DEVICES * ARENA / 4 * sizeof(tm_shadow), PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory != MAP_FAILED) device_shadow = memory;
}

/* Of the launch that runs now (of shared memory: of this block). */
static bool is_current(const tm_worker *worker, const tm_record *record, bool shared) {
  if (shared) return record->run == worker->run;
  return record->run - worker->launch->first_run < worker->launch->blocks && record->run != 0;
}

/* Both blocks took a ticket of one number, the recorded one earlier: a barrier and a fence lie between the recorded access
   and the ticket there, and a fence and a barrier between the ticket and the access here. */
static bool is_handed_over(const tm_launch *launch, const tm_record *before, const tm_record *now) {
  if (launch->handovers == NULL || before->run - launch->first_run >= launch->blocks) return false;
  const tm_handover *from = &launch->handovers[before->run - launch->first_run];
  const tm_handover *to = &launch->handovers[now->run - launch->first_run];
  return from->tickets != NULL && from->tickets == to->tickets && from->order < to->order && before->epoch < from->released &&
         to->acquired != 0 && now->epoch > to->acquired;
}

/* A barrier, or within a warp a meeting of it, lies between the recorded access and this one. */
static bool is_ordered(const tm_launch *launch, const tm_record *before, const tm_record *now) {
  if (before->run != now->run) return is_handed_over(launch, before, now);
  if (before->thread / 32 == now->thread / 32 && before->warp_epoch < now->warp_epoch) return true;
  return before->epoch < now->epoch;
}

static bool conflicts(const tm_worker *worker, const tm_record *before, const tm_record *now, bool shared) {
  if (before->run == 0 || (before->bytes & now->bytes) == 0 || !is_current(worker, before, shared)) return false;
  if (before->kind == TM_IN_FLIGHT) return !(worker->landing && before->thread == now->thread);
  if (before->run == now->run && before->thread == now->thread) return false;
  if (before->kind == TM_ATOMIC_ACCESS && now->kind == TM_ATOMIC_ACCESS) return false;
  return !is_ordered(worker->launch, before, now);
}

static void note(tm_worker *worker, const char *what, const tm_record *before, const tm_record *now, const void *address,
                 size_t bytes) {
  for (int i = 0; i < worker->finding_count; i++)
    if (worker->findings[i].now.site == now->site && worker->findings[i].what == what) return;
  if (worker->finding_count == MAX_FINDINGS) return;
  tm_finding *finding = &worker->findings[worker->finding_count++];
  *finding = (tm_finding){.what = what, .address = address, .bytes = bytes, .now = *now};
  if (before != NULL) {
    finding->before = *before;
    finding->is_race = true;
  }
}

static const char *const write_after_write = "write after write", *const write_after_read = "write after read",
                         *const read_after_write = "read after write", *const in_flight = "asynchronous copy not waited for",
                         *const unwritten_shared = "read of shared memory that nothing has written",
                         *const unwritten_device = "read of device memory that nothing has written",
                         *const outside_shared = "access outside of the shared arrays",
                         *const outside_read = "read outside of an array", *const outside_write = "write outside of an array",
                         *const misaligned_access = "misaligned access of a vector";

static void check_write(tm_worker *worker, tm_shadow *shadow, const tm_record *now, const void *address, size_t bytes,
                        bool shared) {
  if (conflicts(worker, &shadow->write, now, shared))
    note(worker, shadow->write.kind == TM_IN_FLIGHT ? in_flight : write_after_write, &shadow->write, now, address, bytes);
  for (int i = 0; i < 2; i++)
    if (conflicts(worker, &shadow->reads[i], now, shared))
      note(worker, write_after_read, &shadow->reads[i], now, address, bytes);
  shadow->write = *now;
  shadow->reads[0].run = shadow->reads[1].run = 0;
}

static void check_read(tm_worker *worker, tm_shadow *shadow, const tm_record *now, const void *address, size_t bytes,
                       bool shared) {
  if (conflicts(worker, &shadow->write, now, shared))
    note(worker, shadow->write.kind == TM_IN_FLIGHT ? in_flight : read_after_write, &shadow->write, now, address, bytes);
  tm_record *first = &shadow->reads[0];
  const bool replace = !is_current(worker, first, shared) || is_ordered(worker->launch, first, now) ||
                       (first->run == now->run && first->thread == now->thread);
  *(replace ? first : &shadow->reads[1]) = *now;
}

static tm_record record_of(const tm_worker *worker, int kind, const void *place) {
  const tm_fiber *fiber = worker->current;
  return (tm_record){.run = worker->run, .site = (uint32_t)((const char *)place - worker->launch->module->base) & 0xfffffff,
                     .thread = fiber->thread.tm_index & 1023, .kind = (uint64_t)kind & 3, .epoch = worker->epoch & 0x3ffffff,
                     .warp_epoch = fiber->warp_epoch & 0x3ffffff};
}

static bool is_within(const tm_shared_array *array, size_t offset, size_t bytes) {
  return offset >= array->offset && offset + bytes <= array->offset + array->bytes;
}

static bool in_shared_array(tm_worker *worker, size_t offset, size_t bytes) {
  if (worker->array_count > 0 && is_within(&worker->arrays[worker->last_array], offset, bytes)) return true;
  for (int i = 0; i < worker->array_count; i++) {
    if (!is_within(&worker->arrays[i], offset, bytes)) continue;
    worker->last_array = i;
    return true;
  }
  return false;
}

static void __attribute__((noreturn)) stop(tm_worker *worker, const char *what, const tm_record *now, const void *address,
                                           size_t bytes) {
  note(worker, what, NULL, now, address, bytes);
  tm_leave_block(worker);
}

void tm_access(const void *address, size_t bytes, int kind, void *place) {
  tm_worker *worker = tm_me;
  if (UNLIKELY(worker == NULL || !worker->in_kernel || worker->current == NULL)) return;
  const size_t shared_offset = (size_t)((const char *)address - worker->shared);
  const bool shared = shared_offset < SHARED_BYTES, writes = kind != TM_READ, reads = kind == TM_READ || kind == TM_ATOMIC_ACCESS;
  if (!shared && !tm_is_place(address)) {
    tm_count(worker, address, bytes, kind, place);
    return;
  }
  tm_record now = record_of(worker, kind, place);
  tm_shadow *shadow = worker->shadow;
  uint8_t *written = worker->shared_written;
  size_t offset = shared_offset;
  if (shared) {
    if (UNLIKELY(!in_shared_array(worker, offset, bytes))) stop(worker, outside_shared, &now, address, bytes);
  } else {
    const tm_allocation *holder = tm_allocation_at(address);
    const char *start = address;
    if (UNLIKELY(holder == NULL || !holder->live || start < holder->place || start + bytes > holder->place + holder->bytes))
      stop(worker, writes ? outside_write : outside_read, &now, address, bytes);
    shadow = device_shadow;
    written = tm_written;
    offset = tm_offset(address);
  }
  if (reads && UNLIKELY(!tm_all_bits(written, offset, bytes)))
    note(worker, shared ? unwritten_shared : unwritten_device, NULL, &now, address, bytes);
  if (writes && kind != TM_IN_FLIGHT) tm_set_bits(written, offset, bytes, true);
  if (UNLIKELY(shadow == NULL)) return;
  for (const size_t end = offset + bytes; offset < end;) {
    const size_t word = offset / 4;
    unsigned mask = 0;
    for (; offset < end && offset / 4 == word; offset++) mask |= 1u << (offset & 3);
    now.bytes = mask & 15;
    if (writes)
      check_write(worker, &shadow[word], &now, address, bytes, shared);
    else
      check_read(worker, &shadow[word], &now, address, bytes, shared);
  }
}

void tm_misaligned(const void *address, unsigned bytes, void *place) {
  tm_worker *worker = tm_me;
  if (worker == NULL || !worker->in_kernel || worker->current == NULL) return;
  const tm_record now = record_of(worker, TM_READ, place);
  stop(worker, misaligned_access, &now, address, bytes);
}

/* -- tickets: only a checked library tells, and one worker runs its blocks */

void tm_fence(void) {
  tm_worker *worker = tm_me;
  tm_launch *launch = worker->launch;
  if (!launch->module->program->checked || worker->current == NULL) return;
  worker->current->fenced = worker->epoch;
  if (launch->handovers == NULL) return;
  tm_handover *const own = &launch->handovers[worker->run - launch->first_run];
  if (own->tickets != NULL && own->acquired == 0) own->acquired = worker->epoch;
}

void tm_ticket(const uint32_t *tickets) {
  tm_worker *worker = tm_me;
  tm_launch *launch = worker->launch;
  if (!launch->module->program->checked || worker->current == NULL) return;
  if (launch->handovers == NULL) launch->handovers = calloc(launch->blocks, sizeof *launch->handovers);
  if (launch->handovers == NULL) abort();
  launch->handovers[worker->run - launch->first_run] =
      (tm_handover){.tickets = tickets, .order = ++launch->taken, .released = worker->current->fenced};
}

static tm_handover *own_handover(const tm_worker *worker) {
  tm_launch *launch = worker->launch;
  if (launch->handovers == NULL) launch->handovers = calloc(launch->blocks, sizeof *launch->handovers);
  if (launch->handovers == NULL) abort();
  return &launch->handovers[worker->run - launch->first_run];
}

/* Whether this is a checked block, of which each runs to its end. */
static bool is_checked(const tm_worker *worker) {
  return worker->launch->module->program->checked && worker->current != NULL;
}

static void wait_longer(tm_worker *worker, uint32_t tried) {
  if (is_checked(worker) || worker->launch->options.workers == 1 || tried > MOST_TRIES) {
    const tm_dim b = worker->block;
    tm_block_error(worker, LAUNCH_FAILED, "block (%u,%u,%u) waits for a lock that no block gives back", b.x, b.y, b.z);
    tm_leave_block(worker);
  }
  sched_yield();
}

/* Blocks that have a lock one after another hand over what they did before a fence, when they give it back. */
static void taken(tm_worker *worker, const uint32_t *lock) {
  if (!is_checked(worker)) return;
  tm_handover *const own = own_handover(worker);
  *own = (tm_handover){.tickets = lock, .is_lock = true, .numbers = own->numbers, .order = ++worker->launch->taken};
}

void tm_take_lock(uint32_t *lock) {
  uint32_t tried = 0;
  for (uint32_t none = 0; !__atomic_compare_exchange_n(lock, &none, 1u, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST); none = 0)
    wait_longer(tm_me, ++tried);
  taken(tm_me, lock);
}

void tm_await_turn(uint32_t *turn, uint32_t number) {
  uint32_t tried = 0;
  while (__atomic_load_n(turn, __ATOMIC_SEQ_CST) != number) wait_longer(tm_me, ++tried);
  taken(tm_me, turn);
}

void tm_give_lock(uint32_t *lock, uint32_t next) {
  tm_worker *worker = tm_me;
  if (is_checked(worker) && own_handover(worker)->tickets == lock) own_handover(worker)->released = worker->current->fenced;
  __atomic_store_n(lock, next, __ATOMIC_SEQ_CST);
}

void tm_draw(const uint32_t *numbers) {
  if (is_checked(tm_me)) own_handover(tm_me)->numbers = numbers;
}

/* The next launch counts from 0 again. */
void tm_check_tickets(tm_launch *launch) {
  if (launch->handovers == NULL || launch->failed != 0) return;
  for (uint64_t i = 0; i < launch->blocks; i++) {
    const uint32_t *tickets = launch->handovers[i].tickets, *numbers = launch->handovers[i].numbers;
    if ((tickets == NULL || *tickets == 0) && (numbers == NULL || *numbers == 0)) continue;
    if (tickets == NULL || *tickets == 0)
      snprintf(launch->words, sizeof launch->words, "kernel %s: %u numbers of blocks are still drawn at its end",
               launch->kernel->name, *numbers);
    else if (launch->handovers[i].is_lock)
      snprintf(launch->words, sizeof launch->words, "kernel %s: a lock is still taken at its end", launch->kernel->name);
    else
      snprintf(launch->words, sizeof launch->words,
               "kernel %s: the number of tickets that its blocks have taken is %u at its end, not 0", launch->kernel->name, *tickets);
    launch->failed = LAUNCH_FAILED;
    return;
  }
}

/* -- words */

static void describe(char *text, size_t size, const tm_worker *worker, const tm_finding *finding) {
  const size_t offset = (size_t)((const char *)finding->address - worker->shared);
  if (offset >= SHARED_BYTES) {
    tm_describe_in_kernel(text, size, worker->launch, finding->address);
    return;
  }
  snprintf(text, size, "byte %zu of shared memory", offset);
  for (int i = 0; i < worker->array_count; i++) {
    const tm_shared_array *array = &worker->arrays[i];
    if (offset + RED_ZONE < array->offset || offset >= array->offset + array->bytes + RED_ZONE) continue;
    const ptrdiff_t byte = (ptrdiff_t)offset - (ptrdiff_t)array->offset, element = (ptrdiff_t)finding->bytes;
    snprintf(text, size, "element %td of shared array %s, which has %zu elements of %td bytes",
             byte < 0 ? (byte - element + 1) / element : byte / element, array->name, array->bytes / finding->bytes, element);
    return;
  }
}

static void describe_access(char *text, size_t size, const tm_worker *worker, const tm_record *record) {
  const tm_launch *launch = worker->launch;
  char line[300];
  tm_source_line(line, sizeof line, launch->module, launch->module->base + record->site - 1);
  const tm_dim thread = tm_thread_of(worker, record->thread), block = tm_block_of(launch, record->run - launch->first_run);
  snprintf(text, size, "thread (%u,%u,%u) of block (%u,%u,%u) at %s", thread.x, thread.y, thread.z, block.x, block.y, block.z,
           line);
}

static void report(tm_worker *worker, const tm_finding *finding) {
  char what[400], now[400], before[400];
  describe(what, sizeof what, worker, finding);
  describe_access(now, sizeof now, worker, &finding->now);
  if (!finding->is_race) {
    const bool outside = finding->what == outside_read || finding->what == outside_write || finding->what == outside_shared;
    tm_block_error(worker, outside ? ILLEGAL_ADDRESS : LAUNCH_FAILED, "%s: %s, by %s", finding->what, what, now);
    return;
  }
  describe_access(before, sizeof before, worker, &finding->before);
  const bool same_block = finding->now.run == finding->before.run;
  if (finding->what == in_flight)
    tm_block_error(worker, LAUNCH_FAILED, "%s: %s: used by %s, while a copy of %s may still write it", in_flight, what, now, before);
  else
    tm_block_error(worker, LAUNCH_FAILED, "race, %s: %s: %s, after %s%s", finding->what, what, now, before,
                   same_block ? ", without a barrier between them" : "; blocks run in any order");
}

/* A race says more than its symptom. */
void tm_report_findings(tm_worker *worker) {
  for (int races = 1; races >= 0; races--)
    for (int i = 0; i < worker->finding_count && worker->error == 0; i++)
      if (worker->findings[i].is_race == (races == 1)) report(worker, &worker->findings[i]);
}
