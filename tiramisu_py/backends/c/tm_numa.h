/* Temporaries in pages of their own, under a policy of memory: `local` (each page on the memory node of the thread that
 * first writes to it), `interleave` (in turn on all nodes), `bind` (all on one node).
 *
 * The pages are fresh from the operating system, and nothing here touches them: their first write is the program's. The
 * policy is set with the system call mbind, without libnuma. Where there is no such call (another system, a container
 * that forbids it) and where there is one node, the program goes on without: values do not depend on it.
 */
#ifndef TM_NUMA_H
#define TM_NUMA_H

#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tm_runtime.h"

#ifdef __linux__
#include <sys/syscall.h>
#endif

/* TM_NO_POLICIES: as on a system without such calls. */
#if defined(SYS_mbind) && defined(SYS_get_mempolicy) && !defined(TM_NO_POLICIES)
#define TM_POLICIES 1
#endif

/* Where the system describes itself. */
#ifndef TM_SYSTEM
#define TM_SYSTEM "/sys/devices/system"
#endif

enum { TM_PAGES_LOCAL, TM_PAGES_INTERLEAVE, TM_PAGES_BIND };
enum { TM_NODES = 1024, TM_NODES_WORDS = TM_NODES / (8 * sizeof(unsigned long)) };

/* A set of memory nodes, as the system calls take it. */
typedef struct {
  unsigned long word[TM_NODES_WORDS];
} tm_nodes;

#define TM_NODES_WORD (8 * (int)sizeof(unsigned long))

TM_INLINE bool tm_has_node(const tm_nodes *nodes, int node) {
  return node < TM_NODES && (nodes->word[node / TM_NODES_WORD] >> node % TM_NODES_WORD & 1) != 0;
}
TM_INLINE void tm_add_node(tm_nodes *nodes, int node) {
  if (node >= 0 && node < TM_NODES) nodes->word[node / TM_NODES_WORD] |= 1UL << node % TM_NODES_WORD;
}
TM_INLINE int tm_count_nodes(const tm_nodes *nodes) {
  int count = 0;
  for (int w = 0; w < (int)TM_NODES_WORDS; w++) count += __builtin_popcountl(nodes->word[w]);
  return count;
}

/* The memory nodes on which this process may have memory: as the kernel says, or else those that the machine lists; node
 * 0 where it lists none. */
TM_INLINE tm_nodes tm_memory_nodes(void) {
  tm_nodes nodes = {{0}};
#ifdef TM_POLICIES
  enum { ALLOWED = 4 }; /* MPOL_F_MEMS_ALLOWED */
  if (syscall(SYS_get_mempolicy, NULL, nodes.word, (unsigned long)TM_NODES, NULL, ALLOWED) == 0) return nodes;
  nodes = (tm_nodes){{0}};
#endif
  FILE *const listed = fopen(TM_SYSTEM "/node/has_memory", "r"); /* such as 0-1,3 */
  for (int first, last; listed != NULL && fscanf(listed, "%d", &first) == 1;) {
    const int next = fgetc(listed);
    last = first;
    if (next == '-' && fscanf(listed, "%d", &last) == 1) (void)fgetc(listed);
    for (int node = first; node <= last && node < TM_NODES; node++) tm_add_node(&nodes, node);
  }
  if (listed != NULL) fclose(listed);
  if (tm_count_nodes(&nodes) == 0) tm_add_node(&nodes, 0);
  return nodes;
}

/* What is wrong with `node`, in words; NULL where this process may have memory there. */
TM_INLINE const char *tm_no_node(int node, char *words, size_t room) {
  const tm_nodes nodes = tm_memory_nodes();
  if (tm_has_node(&nodes, node)) return NULL;
  const int count = tm_count_nodes(&nodes);
  int used = snprintf(words, room, "there %s memory node%s", count == 1 ? "is" : "are", count == 1 ? "" : "s");
  for (int other = 0; other < TM_NODES && used >= 0 && (size_t)used < room; other++)
    if (tm_has_node(&nodes, other)) used += snprintf(words + used, room - (size_t)used, " %d", other);
  return words;
}

/* Sets the policy of fresh pages, where the system can. */
TM_INLINE void tm_set_policy(void *pages, size_t bytes, int policy, int node) {
#ifdef TM_POLICIES
  enum { PREFERRED = 1, BIND = 2, INTERLEAVE = 3 }; /* MPOL_...; to prefer no node is to prefer the thread's own */
  tm_nodes nodes = {{0}};
  if (policy == TM_PAGES_LOCAL) {
    (void)syscall(SYS_mbind, pages, bytes, PREFERRED, NULL, 0UL, 0U);
    return;
  }
  if (policy == TM_PAGES_INTERLEAVE)
    nodes = tm_memory_nodes();
  else
    tm_add_node(&nodes, node);
  (void)syscall(SYS_mbind, pages, bytes, policy == TM_PAGES_BIND ? BIND : INTERLEAVE, nodes.word,
                (unsigned long)TM_NODES, 0U);
#else
  (void)pages, (void)bytes, (void)policy, (void)node;
#endif
}

/* Fresh pages, in front of which another one says how many bytes there are; NULL where there is no memory. TM_PAGES
 * pointers give theirs back on leaving the scope. */
TM_INLINE void *tm_map_pages(int64_t bytes, int policy, int node) {
  const int64_t page = sysconf(_SC_PAGESIZE);
  if (bytes < 0 || bytes > INT64_MAX - 2 * page) return NULL;
  const size_t all = (size_t)((bytes + page - 1) / page * page + page);
  char *const mapped = mmap(NULL, all, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapped == MAP_FAILED) return NULL;
  if (all > (size_t)page) tm_set_policy(mapped + page, all - (size_t)page, policy, node);
  memcpy(mapped, &all, sizeof all);
  return mapped + page;
}
TM_INLINE void tm_unmap_pages(const void *pointer) {
  char *pages;
  size_t all;
  memcpy(&pages, pointer, sizeof pages);
  if (pages == NULL) return;
  pages -= sysconf(_SC_PAGESIZE);
  memcpy(&all, pages, sizeof all);
  munmap(pages, all);
}
#define TM_PAGES __attribute__((cleanup(tm_unmap_pages)))

#endif
