#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "simulator.h"

/* Two ranges of the same length: the addresses of the devices, never accessible, and the places behind them. Every
   allocation has an inaccessible page on both sides; addresses are used again only when the range has been used up. */
#define RANGE (MAX_DEVICES * ARENA)
/* Behind the places: the shared memory of workers, so that one comparison tells what a kernel may share from its own. */
#define SHARED_STRIDE ((size_t)SHARED_BYTES + 2 * PAGE)
#define SHARED_RANGE (MAX_WORKERS * SHARED_STRIDE)

uint8_t *tm_written;
static char *addresses, *places;
static tm_allocation **owners; /* by page: the last allocation there, live or not */
static size_t next_page[MAX_DEVICES];
static int allocation_count, shared_count;

/* Memory of the caller that is page-locked has no mapping of its own. */
typedef struct pinned {
  char *start, *mapping;
  size_t bytes, mapped;
  struct pinned *next;
} pinned;
static pinned *pinned_memory;
static size_t live_bytes[MAX_DEVICES], most_bytes[MAX_DEVICES], locked_bytes;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void *reserve(size_t bytes, int protection) {
  void *memory = mmap(NULL, bytes, protection, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return memory == MAP_FAILED ? NULL : memory;
}

void tm_memory_start(void) {
  addresses = reserve(2 * RANGE + SHARED_RANGE, PROT_NONE);
  owners = reserve(RANGE / PAGE * sizeof *owners, PROT_READ | PROT_WRITE);
  tm_written = reserve(RANGE / 8, PROT_READ | PROT_WRITE);
  if (addresses == NULL || owners == NULL || tm_written == NULL) {
    addresses = NULL;
    return;
  }
  places = addresses + RANGE;
  tm_services.first = places;
  tm_services.length = RANGE + SHARED_RANGE;
  for (int device = 0; device < MAX_DEVICES; device++) next_page[device] = (size_t)device * (ARENA / PAGE) + 1;
}

bool tm_is_device_address(const void *address) {
  return addresses != NULL && (size_t)((const char *)address - addresses) < RANGE;
}
char *tm_place(const void *device_address) { return places + ((const char *)device_address - addresses); }
bool tm_is_place(const void *place) { return places != NULL && (size_t)((const char *)place - places) < RANGE; }
size_t tm_offset(const void *place) { return (size_t)((const char *)place - places); }

static tm_allocation *owner(size_t page) {
  return page < RANGE / PAGE ? __atomic_load_n(&owners[page], __ATOMIC_ACQUIRE) : NULL;
}

tm_allocation *tm_allocation_at(const void *place) { return owner(tm_offset(place) / PAGE); }

tm_allocation *tm_allocation_of(const void *device_address, size_t bytes) {
  if (!tm_is_device_address(device_address)) return NULL;
  const char *place = tm_place(device_address);
  tm_allocation *found = tm_allocation_at(place);
  if (found == NULL || !found->live || place < found->place || place + bytes > found->place + found->bytes) return NULL;
  return found;
}

/* A live allocation within a few pages, else one that was there. */
tm_allocation *tm_nearest(const void *place) {
  const size_t page = tm_offset(place) / PAGE;
  tm_allocation *former = NULL;
  for (size_t distance = 0; distance < 16; distance++) {
    tm_allocation *near[2] = {distance <= page ? owner(page - distance) : NULL, owner(page + distance)};
    for (int side = 0; side < 2; side++) {
      if (near[side] != NULL && near[side]->live) return near[side];
      if (former == NULL) former = near[side];
    }
    if (distance == 0 && former != NULL) return former;
  }
  return former;
}

void tm_describe(char *text, size_t size, const void *address) {
  const char *place = tm_is_device_address(address) ? tm_place(address) : address;
  if (!tm_is_place(place)) {
    snprintf(text, size, "address %p, which is not device memory", address);
    return;
  }
  const tm_allocation *near = tm_nearest(place);
  if (near == NULL)
    snprintf(text, size, "device address %p, near no allocation", (void *)(addresses + tm_offset(place)));
  else
    snprintf(text, size, "byte %td of allocation #%d of device %d, which has %zu bytes%s", place - near->place, near->number,
             near->device, near->bytes, near->live ? "" : " and is freed");
}

char *tm_shared_memory(void) {
  const int number = __atomic_fetch_add(&shared_count, 1, __ATOMIC_RELAXED);
  char *memory = places + RANGE + (size_t)number * SHARED_STRIDE + PAGE;
  if (number >= MAX_WORKERS || mprotect(memory, SHARED_BYTES, PROT_READ | PROT_WRITE) != 0) abort();
  return memory;
}

/* -- bits */

static void set_bit(uint8_t *bits, size_t number, bool value) {
  const uint8_t bit = (uint8_t)(1u << (number & 7));
  bits[number >> 3] = (uint8_t)(value ? bits[number >> 3] | bit : bits[number >> 3] & ~bit);
}

void tm_set_many_bits(uint8_t *bits, size_t first, size_t count, bool value) {
  const size_t end = first + count;
  while (first < end && (first & 7) != 0) set_bit(bits, first++, value);
  memset(bits + first / 8, value ? 0xff : 0, (end - first) / 8);
  for (first += (end - first) / 8 * 8; first < end; first++) set_bit(bits, first, value);
}

bool tm_all_of_many_bits(const uint8_t *bits, size_t first, size_t count) {
  for (; count > 0; first++, count--)
    if (!(bits[first >> 3] >> (first & 7) & 1)) return false;
  return true;
}

void tm_note_written(const void *place, size_t bytes) {
  if (tm_is_place(place)) tm_set_bits(tm_written, tm_offset(place), bytes, true);
}

/* -- device memory */

/* The first of `pages` free pages between two that stay inaccessible; 0 where the device is full. */
static size_t free_pages(int device, size_t pages) {
  const size_t start = (size_t)device * (ARENA / PAGE), end = start + ARENA / PAGE;
  for (int round = 0; round < 2; round++) {
    size_t first = round == 0 ? next_page[device] : start + 1;
    for (size_t page = first; first + pages + 1 < end; page++) {
      const tm_allocation *there = owner(page);
      if (there != NULL && there->live) {
        first = there->first_page + there->pages + 1;
        page = first - 1;
      } else if (page == first + pages) {
        return first;
      }
    }
  }
  return 0;
}

int tm_allocate(int device, void **device_address, size_t bytes) {
  const tm_options *options = tm_own_options();
  const size_t pages = (bytes + PAGE - 1) / PAGE;
  *device_address = NULL;
  if (bytes == 0) return tm_fail(INVALID_VALUE, "an allocation of 0 bytes");
  pthread_mutex_lock(&lock);
  const size_t first = bytes < ARENA ? free_pages(device, pages) : 0;
  char *place = places + first * PAGE;
  tm_allocation *made = calloc(1, sizeof *made);
  if (first == 0 || made == NULL || mprotect(place, pages * PAGE, PROT_READ | PROT_WRITE) != 0) {
    pthread_mutex_unlock(&lock);
    free(made);
    return tm_fail(OUT_OF_MEMORY, "the simulated device %d has no %zu bytes left", device, bytes);
  }
  next_page[device] = first + pages + 1;
  /* the end lies at the inaccessible page behind it, or the start at the one before it; aligned as vectors need it */
  const size_t slack = options->guard_left ? 0 : (pages * PAGE - bytes) & ~(size_t)15;
  *made = (tm_allocation){place + slack, bytes, first, pages, true, ++allocation_count, device};
  for (size_t page = first; page < first + pages; page++) __atomic_store_n(&owners[page], made, __ATOMIC_RELEASE);
  if (options->poison) memset(place, 0xff, pages * PAGE);
  tm_set_bits(tm_written, first * PAGE, pages * PAGE, false);
  live_bytes[device] += bytes;
  if (live_bytes[device] > most_bytes[device]) most_bytes[device] = live_bytes[device];
  *device_address = addresses + tm_offset(made->place);
  pthread_mutex_unlock(&lock);
  return SUCCESS;
}

int tm_release(void *device_address) {
  tm_allocation *found = tm_allocation_of(device_address, 0);
  if (found == NULL || found->place != tm_place(device_address)) {
    char what[200];
    tm_describe(what, sizeof what, device_address);
    return tm_fail(INVALID_VALUE, "freed is %s: not what an allocation returned", what);
  }
  char pending[200];
  if (tm_is_pending(found, pending, sizeof pending))
    return tm_fail(INVALID_VALUE, "allocation #%d of device %d is freed while %s is pending, which uses it", found->number,
                   found->device, pending);
  pthread_mutex_lock(&lock);
  found->live = false;
  live_bytes[found->device] -= found->bytes;
  mmap(places + found->first_page * PAGE, found->pages * PAGE, PROT_NONE,
       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
  pthread_mutex_unlock(&lock);
  return SUCCESS;
}

/* For tests: the most bytes that a device has held at once, and all that were ever page-locked; both since the last time. */
__attribute__((visibility("default"))) size_t tm_simulator_most_bytes(int device) {
  pthread_mutex_lock(&lock);
  const size_t most = most_bytes[device];
  most_bytes[device] = live_bytes[device];
  pthread_mutex_unlock(&lock);
  return most;
}

__attribute__((visibility("default"))) size_t tm_simulator_locked_bytes(void) {
  return __atomic_exchange_n(&locked_bytes, 0, __ATOMIC_RELAXED);
}

/* -- pinned host memory: ends at an inaccessible page */

bool tm_is_pinned(const void *address, size_t bytes) {
  bool found = false;
  pthread_mutex_lock(&lock);
  for (const pinned *p = pinned_memory; p != NULL && !found; p = p->next)
    found = (const char *)address >= p->start && (const char *)address + bytes <= p->start + p->bytes;
  pthread_mutex_unlock(&lock);
  return found;
}

bool tm_is_pinned_in_part(const void *address, size_t bytes) {
  bool found = false, whole = false;
  const char *start = address;
  pthread_mutex_lock(&lock);
  for (const pinned *p = pinned_memory; p != NULL; p = p->next) {
    found = found || (start < p->start + p->bytes && p->start < start + bytes);
    whole = whole || (start >= p->start && start + bytes <= p->start + p->bytes);
  }
  pthread_mutex_unlock(&lock);
  return found && !whole;
}

int tm_pin(void **address, size_t bytes) {
  const size_t body = (bytes + PAGE - 1) / PAGE * PAGE;
  pinned *made = calloc(1, sizeof *made);
  char *mapping = reserve(body + PAGE, PROT_NONE);
  if (made == NULL || mapping == NULL || mprotect(mapping, body, PROT_READ | PROT_WRITE) != 0) {
    free(made);
    return tm_fail(OUT_OF_MEMORY, "the host has no %zu bytes to pin", bytes);
  }
  *made = (pinned){mapping + ((body - bytes) & ~(size_t)63), mapping, bytes, body + PAGE, NULL};
  if (tm_own_options()->poison) memset(mapping, 0xff, body);
  pthread_mutex_lock(&lock);
  made->next = pinned_memory;
  pinned_memory = made;
  pthread_mutex_unlock(&lock);
  *address = made->start;
  return SUCCESS;
}

int tm_unpin(void *address) {
  pthread_mutex_lock(&lock);
  pinned **link = &pinned_memory;
  while (*link != NULL && ((*link)->start != address || (*link)->mapping == NULL)) link = &(*link)->next;
  pinned *found = *link;
  if (found != NULL) *link = found->next;
  pthread_mutex_unlock(&lock);
  if (found == NULL) return tm_fail(INVALID_VALUE, "freed is %p: not pinned memory", address);
  munmap(found->mapping, found->mapped);
  free(found);
  return SUCCESS;
}

/* As the driver does: exact ranges, which may share a page, and do not overlap. */
int tm_lock_pages(void *address, size_t bytes) {
  char *start = address;
  if (start == NULL || bytes == 0) return tm_fail(INVALID_VALUE, "%zu bytes at %p to page-lock", bytes, address);
  pinned *made = calloc(1, sizeof *made);
  if (made == NULL) return tm_fail(OUT_OF_MEMORY, "the host is out of memory");
  *made = (pinned){start, NULL, bytes, 0, NULL};
  pthread_mutex_lock(&lock);
  const pinned *other = pinned_memory;
  while (other != NULL && (start >= other->start + other->bytes || other->start >= start + bytes)) other = other->next;
  if (other == NULL) {
    made->next = pinned_memory;
    pinned_memory = made;
    locked_bytes += bytes;
  }
  pthread_mutex_unlock(&lock);
  if (other == NULL) return SUCCESS;
  free(made);
  return tm_fail(ALREADY_LOCKED, "%zu bytes at %p, of which some are page-locked already", bytes, address);
}

int tm_unlock_pages(void *address) {
  pthread_mutex_lock(&lock);
  pinned **link = &pinned_memory;
  while (*link != NULL && ((*link)->start != address || (*link)->mapping != NULL)) link = &(*link)->next;
  pinned *found = *link;
  if (found != NULL) *link = found->next;
  pthread_mutex_unlock(&lock);
  if (found == NULL) return tm_fail(NOT_LOCKED, "unlocked is %p: not page-locked memory", address);
  char pending[200];
  const tm_allocation place = {.place = found->start, .bytes = found->bytes};
  free(found);
  if (!tm_is_pending(&place, pending, sizeof pending)) return SUCCESS;
  return tm_fail(INVALID_VALUE, "%p is unlocked while %s is pending, which uses it", address, pending);
}
