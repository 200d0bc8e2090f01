/* Arrays whose pages are first written by the threads that will use them, and the cpus of these: compiled once for all
 * programs, and called before them by the same thread, so that it is the same team of OpenMP.
 */
#include <errno.h>

#include "tm_numa.h"
#include "tm_threads.h"

int tm_first_touch(char *array, int64_t rows, int64_t row_bytes, bool pinned, const tm_pinning *how, char *words,
                   size_t room);
int tm_threads_cpus(const tm_pinning *how, int threads, int *cpus, char *words, size_t room);
int tm_policy_fault(void);

/* Writes a zero to each page of a new array of `rows` equal parts, which are dealt out as schedule(static) would. 0, or
 * a code with its words. */
int tm_first_touch(char *array, int64_t rows, int64_t row_bytes, bool pinned, const tm_pinning *how, char *words,
                   size_t room) {
  const int64_t page = sysconf(_SC_PAGESIZE);
  TM_PINNED tm_pins held = {0};
  if (pinned && tm_pin(&held, how, true)) {
    snprintf(words, room, "%s", held.words);
    return held.fault;
  }
#pragma omp parallel for schedule(static)
  for (int64_t row = 0; row < rows; row++)
    for (int64_t byte = row * row_bytes; byte < (row + 1) * row_bytes; byte = (byte / page + 1) * page)
      array[byte] = 0;
  return 0;
}

/* The cpus that so many threads of the calling one would be pinned to: -1 where the system does not say. */
int tm_threads_cpus(const tm_pinning *how, int threads, int *cpus, char *words, size_t room) {
  for (int t = 0; t < threads; t++) cpus[t] = -1;
#if defined(__linux__) && defined(SYS_sched_setaffinity)
  tm_pins pins = {.threads = threads, .cpu = cpus};
  tm_cpus allowed;
  if (!tm_get_affinity(&allowed)) return 0;
  tm_deal_cpus(&pins, how, &allowed);
  snprintf(words, room, "%s", pins.words);
  return pins.fault;
#else
  (void)how, (void)words, (void)room;
  return 0;
#endif
}

/* Why the system takes no policy of memory, as an error number; 0 where it takes one. */
int tm_policy_fault(void) {
#ifdef TM_POLICIES
  const size_t page = (size_t)sysconf(_SC_PAGESIZE);
  void *const mapped = mmap(NULL, page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapped == MAP_FAILED) return errno;
  enum { PREFERRED = 1 };
  const int fault = syscall(SYS_mbind, mapped, page, PREFERRED, NULL, 0UL, 0U) == 0 ? 0 : errno;
  munmap(mapped, page);
  return fault;
#else
  return ENOSYS;
#endif
}
