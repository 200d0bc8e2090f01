/* What kernels read and write in arrays of the host, where it is asked for: bytes, and requests over the bus.

   A warp's instruction asks for each line of 128 bytes that its lanes touch, once. Threads run one after another, so the
   k-th access of each lane at one place of the kernel is taken as one instruction; there is no cache. */
#include <pthread.h>
#include <stdlib.h>

#include "simulator.h"

enum { LINE = 128, LANES = 32, COUNTED = -1 };

typedef struct watch {
  const char *start, *end;
  int64_t read, written, requests;
  struct watch *next;
} watch;

static watch *watches;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* A line that an instruction of a warp has asked for; or, with `line` COUNTED, the number of accesses of a thread. */
typedef struct slot {
  uint32_t run, who, site, count;
  int64_t line;
} slot;

struct tm_lines {
  slot *slots;
  size_t room, used;
  uint32_t run;
};

/* The range that kernels report only grows while anything in it is watched, since they read it without a lock. */
static void set_range(const char *first, const char *end) {
  __atomic_store_n(&tm_services.watched_first, first, __ATOMIC_RELAXED);
  __atomic_store_n(&tm_services.watched_end, end, __ATOMIC_RELAXED);
}

__attribute__((visibility("default"))) void *tm_simulator_watch(const void *address, size_t bytes) {
  watch *made = calloc(1, sizeof *made);
  if (made == NULL) return NULL;
  made->start = address;
  made->end = made->start + bytes;
  pthread_mutex_lock(&lock);
  const bool first = watches == NULL;
  set_range(first || made->start < tm_services.watched_first ? made->start : tm_services.watched_first,
            first || made->end > tm_services.watched_end ? made->end : tm_services.watched_end);
  made->next = watches;
  watches = made;
  pthread_mutex_unlock(&lock);
  return made;
}

__attribute__((visibility("default"))) void tm_simulator_watched(void *watched, int64_t counts[3]) {
  pthread_mutex_lock(&lock);
  watch **link = &watches;
  while (*link != NULL && *link != watched) link = &(*link)->next;
  watch *found = *link;
  if (found != NULL) *link = found->next;
  if (watches == NULL) set_range(NULL, NULL);
  pthread_mutex_unlock(&lock);
  if (found == NULL) return;
  counts[0] = found->read, counts[1] = found->written, counts[2] = found->requests;
  free(found);
}

static size_t place_of(const tm_lines *lines, const slot *wanted) {
  uint64_t hash = (uint64_t)wanted->line * 0x9e3779b97f4a7c15u ^ ((uint64_t)wanted->who << 32 | wanted->site);
  hash = (hash ^ (uint64_t)wanted->count << 17) * 0xff51afd7ed558ccdu;
  size_t at = (size_t)(hash >> 20) & (lines->room - 1);
  for (;; at = (at + 1) & (lines->room - 1)) {
    const slot *there = &lines->slots[at];
    if (there->run != lines->run) return at;
    const bool same = there->who == wanted->who && there->site == wanted->site && there->line == wanted->line;
    if (same && (wanted->line == COUNTED || there->count == wanted->count)) return at;
  }
}

static void grow(tm_lines *lines) {
  tm_lines larger = {.room = lines->room > 0 ? 2 * lines->room : 1024, .run = lines->run, .used = lines->used};
  larger.slots = calloc(larger.room, sizeof *larger.slots);
  if (larger.slots == NULL) abort();
  for (size_t i = 0; i < lines->room; i++)
    if (lines->slots[i].run == lines->run) larger.slots[place_of(&larger, &lines->slots[i])] = lines->slots[i];
  free(lines->slots);
  *lines = larger;
}

/* The slot of this key, which is new if its run is not that of the block. */
static slot *slot_of(tm_lines *lines, const slot *wanted) {
  if (2 * (lines->used + 1) > lines->room) grow(lines);
  return &lines->slots[place_of(lines, wanted)];
}

static int64_t new_requests(tm_worker *worker, const char *address, size_t bytes, uint32_t site) {
  tm_lines *lines = worker->lines != NULL ? worker->lines : (worker->lines = calloc(1, sizeof *lines));
  if (lines == NULL) abort();
  if (lines->run != worker->run) lines->run = worker->run, lines->used = 0;
  const uint32_t thread = (uint32_t)(worker->current - worker->fibers);
  const slot mine = {lines->run, thread, site, 0, COUNTED};
  slot *counted = slot_of(lines, &mine);
  if (counted->run != lines->run) *counted = mine, lines->used++;
  const uint32_t instruction = counted->count++;
  int64_t made = 0;
  const int64_t last = (int64_t)(((uintptr_t)address + bytes - 1) / LINE);
  for (int64_t line = (int64_t)((uintptr_t)address / LINE); line <= last; line++) {
    const slot asked = {lines->run, thread / LANES, site, instruction, line};
    slot *found = slot_of(lines, &asked);
    if (found->run == lines->run) continue;
    *found = asked;
    lines->used++;
    made++;
  }
  return made;
}

void tm_count(tm_worker *worker, const void *address, size_t bytes, int kind, const void *place) {
  const char *start = address;
  int64_t requests = COUNTED;
  pthread_mutex_lock(&lock);
  for (watch *one = watches; one != NULL; one = one->next) {
    if (start < one->start || start + bytes > one->end) continue;
    if (requests == COUNTED)
      requests = new_requests(worker, start, bytes, (uint32_t)((const char *)place - worker->launch->module->base));
    one->requests += requests;
    if (kind != TM_WRITE) one->read += (int64_t)bytes;
    if (kind == TM_WRITE || kind == TM_ATOMIC_ACCESS) one->written += (int64_t)bytes;
  }
  pthread_mutex_unlock(&lock);
}
