/* Threads of OpenMP that are bound to cpus while a generated function runs. Each thread of the team binds itself when
 * the function begins, and gets back what it had when it ends: nothing remains, and threads that call at the same time
 * (each has a team of its own) do not disturb each other. Threads are bound to cpus that they may run on already: those
 * of the process, of its container, of taskset. More threads than cpus share these in turn.
 *
 * Cpus are ordered by memory node, then by core, as /sys/devices/system says. Where that, or the system calls, are
 * missing, a function goes on with what there is.
 */
#ifndef TM_THREADS_H
#define TM_THREADS_H

#include <stdint.h>
#include <unistd.h>

#include "tm_runtime.h"

#ifdef __linux__
#include <pthread.h>
#include <sys/syscall.h>
#endif

/* Where the system describes itself. */
#ifndef TM_SYSTEM
#define TM_SYSTEM "/sys/devices/system"
#endif

/* CLOSE: neighbouring threads on neighbouring cores, first hardware threads before second ones, one memory node after
 * the other. SPREAD: as far apart as they can be, over all nodes, neighbours still on the same one. NODE: as CLOSE, on
 * one node. LIST: thread t on the cpu at place t of a list. */
enum { TM_PIN_CLOSE, TM_PIN_SPREAD, TM_PIN_NODE, TM_PIN_LIST };
enum { TM_CPUS = 4096, TM_CPUS_WORD = 8 * sizeof(unsigned long) };

/* How threads are pinned. Of NODE `node` is its number; where that is -1, processes take turns on the nodes that have
 * cpus, this one as number `turn` of `turns`: those that meet on a node have a part of its cpus each. */
typedef struct {
  int policy, node, turn, turns;
  const int *cpus;
  int count;
} tm_pinning;

typedef struct {
  unsigned long word[TM_CPUS / TM_CPUS_WORD];
} tm_cpus;

/* A cpu, the first one of its core, and its memory node. */
typedef struct {
  int cpu, core, node;
} tm_cpu;

/* The cpus of a machine, by node and core. */
typedef struct {
  int count;
  tm_cpu *cpu;
} tm_topology;

/* The threads of one call, and what each of them may run on before it. */
typedef struct {
  int threads;
  tm_cpus *before;
  int *cpu;
  int fault;
  char words[200];
} tm_pins;

TM_INLINE bool tm_has_cpu(const tm_cpus *cpus, int cpu) {
  return cpu >= 0 && cpu < TM_CPUS &&
         (cpus->word[cpu / (int)TM_CPUS_WORD] >> cpu % (int)TM_CPUS_WORD & 1) != 0;
}
TM_INLINE void tm_add_cpu(tm_cpus *cpus, int cpu) {
  cpus->word[cpu / (int)TM_CPUS_WORD] |= 1UL << cpu % (int)TM_CPUS_WORD;
}

/* -- what the system says */

/* Adds the numbers of a file such as 0-3,8; the least of them, or -1. */
TM_INLINE int tm_read_cpus(const char *path, tm_cpus *cpus) {
  FILE *const listed = fopen(path, "r");
  int least = -1;
  for (int first, last; listed != NULL && fscanf(listed, "%d", &first) == 1;) {
    const int next = fgetc(listed);
    last = first;
    if (next == '-' && fscanf(listed, "%d", &last) == 1) (void)fgetc(listed);
    if (least < 0 || first < least) least = first;
    for (int cpu = first; cpu >= 0 && cpu <= last && cpu < TM_CPUS; cpu++) tm_add_cpu(cpus, cpu);
  }
  if (listed != NULL) fclose(listed);
  return least;
}

TM_INLINE int tm_compare_cpus(const void *a, const void *b) {
  const tm_cpu *const x = a, *const y = b;
  if (x->node != y->node) return x->node - y->node;
  return x->core != y->core ? x->core - y->core : x->cpu - y->cpu;
}

/* The cpus below `root`, in order; those that no node lists are on node 0. Nothing where there is no memory. */
TM_INLINE tm_topology tm_read_topology(const char *root) {
  tm_topology found = {0, calloc(TM_CPUS, sizeof(tm_cpu))};
  tm_cpus *const cpus = calloc(2, sizeof(tm_cpus));
  char path[512];
  if (found.cpu == NULL || cpus == NULL) {
    free(found.cpu);
    free(cpus);
    return (tm_topology){0, NULL};
  }
  snprintf(path, sizeof path, "%s/cpu/present", root);
  tm_read_cpus(path, &cpus[0]);
  for (int cpu = 0; cpu < TM_CPUS; cpu++) {
    if (!tm_has_cpu(&cpus[0], cpu)) continue;
    snprintf(path, sizeof path, "%s/cpu/cpu%d/topology/thread_siblings_list", root, cpu);
    const int core = tm_read_cpus(path, &cpus[1]);
    found.cpu[found.count++] = (tm_cpu){cpu, core < 0 ? cpu : core, 0};
  }
  memset(&cpus[0], 0, sizeof cpus[0]);
  snprintf(path, sizeof path, "%s/node/online", root);
  tm_read_cpus(path, &cpus[0]);
  for (int node = 0; node < TM_CPUS; node++) {
    if (!tm_has_cpu(&cpus[0], node)) continue;
    memset(&cpus[1], 0, sizeof cpus[1]);
    snprintf(path, sizeof path, "%s/node/node%d/cpulist", root, node);
    tm_read_cpus(path, &cpus[1]);
    for (int n = 0; n < found.count; n++)
      if (tm_has_cpu(&cpus[1], found.cpu[n].cpu)) found.cpu[n].node = node;
  }
  free(cpus);
  qsort(found.cpu, (size_t)found.count, sizeof(tm_cpu), tm_compare_cpus);
  return found;
}

/* -- the cpu of each thread */

/* What is wrong with a pinning, in the words of `pins`. */
__attribute__((format(printf, 2, 3), cold, unused))
static int tm_cannot_pin(tm_pins *pins, const char *format, ...) {
  va_list values;
  va_start(values, format);
  vsnprintf(pins->words, sizeof pins->words, format, values);
  va_end(values);
  return pins->fault = TM_PRECONDITION;
}

/* The cpus that are `allowed`, such as 0-3,8, as the end of the words of `pins`. */
TM_INLINE void tm_say_cpus(tm_pins *pins, const tm_cpus *allowed) {
  const char *before = "";
  for (int cpu = 0; cpu < TM_CPUS; cpu++) {
    if (!tm_has_cpu(allowed, cpu)) continue;
    int last = cpu;
    while (tm_has_cpu(allowed, last + 1)) last++;
    const size_t used = strlen(pins->words);
    snprintf(pins->words + used, sizeof pins->words - used, last > cpu ? "%s%d-%d" : "%s%d", before, cpu, last);
    before = ",";
    cpu = last;
  }
}

/* The memory nodes with cpus that are allowed, in order, in `nodes`; their number. */
TM_INLINE int tm_allowed_nodes(const tm_topology *known, const tm_cpus *allowed, int *nodes) {
  int count = 0;
  for (int n = 0; n < known->count; n++)
    if (tm_has_cpu(allowed, known->cpu[n].cpu) && (count == 0 || known->cpu[n].node != nodes[count - 1]))
      nodes[count++] = known->cpu[n].node;
  return count;
}

/* Fills `order` with those of the cpus that are allowed (on `node`, if that is not -1) and that are the first ones of
 * their cores there, or are not; their number. */
TM_INLINE int tm_pick_cpus(const tm_topology *known, const tm_cpus *allowed, int node, bool first, int *order) {
  int count = 0, core = -1;
  for (int n = 0; n < known->count; n++) {
    const tm_cpu *const at = &known->cpu[n];
    if (!tm_has_cpu(allowed, at->cpu) || (node >= 0 && at->node != node)) continue;
    if ((at->core != core) == first) order[count++] = at->cpu;
    core = at->core;
  }
  return count;
}

/* Fills `order`, with room for all cpus twice, with the cpus of `how` for so many threads: thread t runs on number
 * t % count, or on number t * count / threads of SPREAD. The count; 0 where there is none, which `pins` then says. */
TM_INLINE int tm_order_cpus(const tm_topology *known, const tm_cpus *allowed, const tm_pinning *how, int threads,
                            int *order, tm_pins *pins) {
  int count = 0;
  if (how->policy == TM_PIN_LIST) {
    for (; count < how->count; count++) {
      if (!tm_has_cpu(allowed, how->cpus[count])) {
        tm_cannot_pin(pins, "threads cannot be pinned to cpu %d: this process may run on ", how->cpus[count]);
        tm_say_cpus(pins, allowed);
        return 0;
      }
      order[count] = how->cpus[count];
    }
    return count;
  }
  if (how->policy == TM_PIN_SPREAD) {
    count = tm_pick_cpus(known, allowed, -1, true, order);
    if (threads <= count) return count;
    for (int n = count = 0; n < known->count; n++)
      if (tm_has_cpu(allowed, known->cpu[n].cpu)) order[count++] = known->cpu[n].cpu;
    return count;
  }
  const int nodes = tm_allowed_nodes(known, allowed, order + known->count);
  const bool in_turn = how->policy == TM_PIN_NODE && how->node < 0 && nodes > 0;
  const int only = in_turn ? order[known->count + how->turn % nodes] : how->node;
  for (int n = 0, before = -1; n < known->count; n++) {
    const int node = known->cpu[n].node;
    if (node == before || (how->policy == TM_PIN_NODE && node != only)) continue;
    before = node;
    count += tm_pick_cpus(known, allowed, node, true, order + count);
    count += tm_pick_cpus(known, allowed, node, false, order + count);
  }
  if (how->policy == TM_PIN_NODE && how->node >= 0 && count == 0) {
    tm_cannot_pin(pins, "threads cannot be pinned to memory node %d: this process may run on none of its cpus, but on ",
                  only);
    tm_say_cpus(pins, allowed);
  }
  if (!in_turn || count == 0) return count;
  const int here = how->turn / nodes, sharing = (how->turns - how->turn % nodes + nodes - 1) / nodes;
  if (sharing <= 1) return count;
  const int begin = count >= sharing ? (int)((int64_t)count * here / sharing) : here % count;
  const int end = count >= sharing ? (int)((int64_t)count * (here + 1) / sharing) : begin + 1;
  memmove(order, order + begin, (size_t)(end - begin) * sizeof *order);
  return end - begin;
}

/* -- binding */

#if defined(__linux__) && defined(SYS_sched_setaffinity)

static tm_topology tm_machine;
static pthread_once_t tm_machine_read = PTHREAD_ONCE_INIT;
TM_INLINE void tm_read_machine(void) { tm_machine = tm_read_topology(TM_SYSTEM); }

/* Whether the cpus that the calling thread may run on are known now. */
TM_INLINE bool tm_get_affinity(tm_cpus *cpus) {
  memset(cpus, 0, sizeof *cpus);
  return syscall(SYS_sched_getaffinity, 0, sizeof *cpus, cpus->word) > 0;
}
TM_INLINE void tm_set_affinity(const tm_cpus *cpus) {
  (void)syscall(SYS_sched_setaffinity, 0, sizeof *cpus, cpus->word);
}

/* The cpus that the threads of the team may run on. They have those of the calling thread, unless OpenMP itself was told
 * to bind them (OMP_PROC_BIND): then each of them has its own. */
TM_INLINE tm_cpus tm_allowed_cpus(const tm_pins *pins, bool parallel) {
  tm_cpus allowed;
  if (!tm_get_affinity(&allowed)) memset(&allowed, 0, sizeof allowed);
#ifdef _OPENMP
  if (parallel && omp_get_proc_bind() != omp_proc_bind_false) {
#pragma omp parallel
    if (tm_thread() < pins->threads && !tm_get_affinity(&pins->before[tm_thread()]))
      memset(&pins->before[tm_thread()], 0, sizeof(tm_cpus));
    for (int t = 0; t < pins->threads; t++)
      for (int w = 0; w < (int)(TM_CPUS / TM_CPUS_WORD); w++) allowed.word[w] |= pins->before[t].word[w];
  }
#endif
  (void)pins, (void)parallel;
  return allowed;
}

/* The cpu of each thread of `pins`, out of those that are allowed; -1: it stays where it is. */
TM_INLINE void tm_deal_cpus(tm_pins *pins, const tm_pinning *how, const tm_cpus *allowed) {
  pthread_once(&tm_machine_read, tm_read_machine);
  int *const order = malloc(sizeof(int) * (size_t)(2 * tm_machine.count + how->count + 1));
  const int count = order == NULL ? 0 : tm_order_cpus(&tm_machine, allowed, how, pins->threads, order, pins);
  for (int t = 0; t < pins->threads; t++)
    pins->cpu[t] = count == 0                        ? -1
                   : how->policy == TM_PIN_SPREAD ? order[(int64_t)t * count / pins->threads]
                                                  : order[t % count];
  free(order);
}

/* Binds the threads that the function will use (the calling one alone unless it is `parallel`); 0, or a code with its
 * words in `pins`. */
TM_INLINE int tm_pin(tm_pins *pins, const tm_pinning *how, bool parallel) {
  const int most = parallel ? tm_threads() : 1;
  pins->before = calloc((size_t)most, sizeof(tm_cpus));
  pins->cpu = malloc(sizeof(int) * (size_t)most);
  if (pins->before == NULL || pins->cpu == NULL) return 0;
  pins->threads = most;
  const tm_cpus allowed = tm_allowed_cpus(pins, parallel);
  tm_deal_cpus(pins, how, &allowed);
  if (pins->fault) return pins->fault;
#pragma omp parallel if (parallel)
  {
    const int t = tm_thread();
    if (t < most && pins->cpu[t] >= 0 && tm_get_affinity(&pins->before[t])) {
      tm_cpus own = {{0}};
      tm_add_cpu(&own, pins->cpu[t]);
      tm_set_affinity(&own);
    }
  }
  return 0;
}

/* Gives every thread back what it had. */
TM_INLINE void tm_unpin(tm_pins *pins) {
  if (pins->threads > 0 && !pins->fault) {
#pragma omp parallel num_threads(pins->threads)
    {
      const int t = tm_thread();
      if (t < pins->threads && pins->cpu[t] >= 0) tm_set_affinity(&pins->before[t]);
    }
  }
  free(pins->before);
  free(pins->cpu);
}

#else

TM_INLINE int tm_pin(tm_pins *pins, const tm_pinning *how, bool parallel) {
  (void)pins, (void)how, (void)parallel;
  return 0;
}
TM_INLINE void tm_unpin(tm_pins *pins) { (void)pins; }

#endif

#define TM_PINNED __attribute__((cleanup(tm_unpin)))

#endif
