/* Stores past the caches: whole vectors, at multiples of their size, that are not read again soon.
 *
 * TM_STREAM(float32x16, streams, place, value) is TM_STORE(float32x16, place, value), past the caches where `streams`,
 * a constant in each version of a function, is true; TM_STREAM_ALIGNED looks at the address as well, and TM_STREAM_PARTS
 * wants no more of it than a multiple of 16. Other threads see such stores after a TM_STREAMED(streams) of the thread
 * that made them. And prefetches.
 */
#ifndef TM_STORES_H
#define TM_STORES_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#ifdef __SSE2__
#include <immintrin.h>
#endif

/* The body of a function, once for each of its versions. */
#define TM_VERSION static inline __attribute__((always_inline, unused))

/* A multiple of 16 bytes; in `place`, which is aligned like a vector of that size, nothing else lies. */
#if defined(__clang__)
#define TM_STREAM_WHOLE(V, place, value)                                                           \
  {                                                                                                \
    typedef V tm_there __attribute__((may_alias));                                                 \
    __builtin_nontemporal_store((value), (tm_there *)(place));                                     \
  }
#elif defined(__SSE2__)
#define TM_STREAM_WHOLE(V, place, value)                                                           \
  {                                                                                                \
    const V tm_whole = (value);                                                                    \
    tm_stream((char *)(place), (const char *)&tm_whole, sizeof(V));                                \
  }
static inline __attribute__((always_inline, unused)) void tm_stream(char *place, const char *value, size_t bytes) {
  size_t at = 0;
#ifdef __AVX512F__
#pragma GCC unroll 8
  for (; at + 64 <= bytes; at += 64) {
    __m512i part;
    memcpy(&part, value + at, sizeof part);
    _mm512_stream_si512((__m512i *)(place + at), part);
  }
#endif
#ifdef __AVX__
#pragma GCC unroll 16
  for (; at + 32 <= bytes; at += 32) {
    __m256i part;
    memcpy(&part, value + at, sizeof part);
    _mm256_stream_si256((__m256i *)(place + at), part);
  }
#endif
#pragma GCC unroll 32
  for (; at + 16 <= bytes; at += 16) {
    __m128i part;
    memcpy(&part, value + at, sizeof part);
    _mm_stream_si128((__m128i *)(place + at), part);
  }
}
#else
#define TM_STREAM_WHOLE(V, place, value) { *(V##_memory *)(place) = (value); }
#endif

#define TM_STREAM(V, streams, place, value)                                                        \
  __extension__({                                                                                  \
    void *const tm_place = (place);                                                                \
    const V tm_value = (value);                                                                    \
    if ((streams) && sizeof(V) % 16 == 0) TM_STREAM_WHOLE(V, tm_place, tm_value)                   \
    else *(V##_memory *)tm_place = tm_value;                                                       \
  })
#define TM_STREAM_ALIGNED(V, streams, place, value)                                                \
  __extension__({                                                                                  \
    void *const tm_at = (place);                                                                   \
    TM_STREAM(V, (streams) && (uintptr_t)tm_at % (sizeof(V) < 64 ? sizeof(V) : 64) == 0, tm_at, (value)); \
  })

/* For stores that fill cache lines one after another: where only 16 divides the address, in parts of 16 bytes. */
#if defined(__SSE2__)
#define TM_STREAM_PARTS(V, streams, place, value)                                                  \
  __extension__({                                                                                  \
    void *const tm_at = (place);                                                                   \
    const V tm_parts = (value);                                                                    \
    if ((streams) && (uintptr_t)tm_at % (sizeof(V) < 64 ? sizeof(V) : 64) != 0)                    \
      tm_stream_parts((char *)tm_at, (const char *)&tm_parts, sizeof(V));                          \
    else TM_STREAM(V, (streams), tm_at, tm_parts);                                                 \
  })
static inline __attribute__((always_inline, unused)) void tm_stream_parts(char *place, const char *value, size_t bytes) {
#pragma GCC unroll 32
  for (size_t at = 0; at < bytes; at += 16) {
    __m128i part;
    memcpy(&part, value + at, sizeof part);
    _mm_stream_si128((__m128i *)(place + at), part);
  }
}
#else
#define TM_STREAM_PARTS(V, streams, place, value) TM_STREAM_ALIGNED(V, (streams), (place), (value))
#endif

/* How many elements of an array come before the first one at the beginning of a cache line, if stores are past them. */
#define TM_BEFORE_LINE(streams, array)                                                             \
  ((streams) ? (int64_t)(-(uintptr_t)(array) % 64 / sizeof *(array)) : 0)

#if defined(__x86_64__) || defined(__SSE2__)
#define TM_STREAMED(streams) if (streams) __builtin_ia32_sfence()
#else
#define TM_STREAMED(streams) if (streams) __atomic_thread_fence(__ATOMIC_SEQ_CST)
#endif

/* Asks for the cache line of an element, which need not exist. */
#define TM_PREFETCH(array, element, locality) \
  __builtin_prefetch((const void *)((uintptr_t)(array) + (uintptr_t)(element) * sizeof *(array)), 0, locality)

/* The most bytes of the last-level cache for each core of a processor: 96 MiB for two cores of an EPYC 7373X. */
#define TM_MOST_OF_A_CORE (INT64_C(48) << 20)

/* The bytes of the last-level cache that a core uses; 32 MiB where the system does not say. The files of Linux come
 * first: on processors with several such caches, sysconf answers their sum. A virtual machine may see the cache of a
 * whole host, which it shares with others: of this it has no more than its cores can have. */
static inline __attribute__((unused)) int64_t tm_find_last_cache(void) {
  int64_t found = 0;
#ifdef __linux__
  for (int i = 0, last = 0, level = 0; i < 8; i++) {
    char path[80];
    long kilobytes = 0;
    snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu0/cache/index%d/level", i);
    FILE *file = fopen(path, "r");
    if (file == NULL) break;
    if (fscanf(file, "%d", &level) != 1) level = 0;
    fclose(file);
    snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu0/cache/index%d/size", i);
    file = level > last ? fopen(path, "r") : NULL;
    if (file == NULL) continue;
    if (fscanf(file, "%ldK", &kilobytes) == 1 && kilobytes > 0) found = (int64_t)kilobytes * 1024, last = level;
    fclose(file);
  }
#endif
#ifdef _SC_LEVEL3_CACHE_SIZE
  if (found <= 0) found = sysconf(_SC_LEVEL3_CACHE_SIZE);
#endif
#ifdef _SC_LEVEL2_CACHE_SIZE
  if (found <= 0) found = sysconf(_SC_LEVEL2_CACHE_SIZE);
#endif
#ifdef _SC_NPROCESSORS_ONLN
  const int64_t most = sysconf(_SC_NPROCESSORS_ONLN) * TM_MOST_OF_A_CORE;
  if (most > 0 && found > most) found = most;
#endif
  return found > 0 ? found : INT64_C(32) << 20;
}

static inline __attribute__((unused)) int64_t tm_last_cache(void) {
  static int64_t known = 0; /* found once; threads that come at the same time find the same */
  int64_t bytes = __atomic_load_n(&known, __ATOMIC_RELAXED);
  if (bytes == 0) {
    bytes = tm_find_last_cache();
    __atomic_store_n(&known, bytes, __ATOMIC_RELAXED);
  }
  return bytes;
}

/* How many bytes of arrays the caches hold well. */
#define TM_CACHED (tm_last_cache() / 4 * 3)

#endif
