/* Explicit vectors: what the generated sources that use them share, for every processor.
 *
 * Written for the vector extensions of GCC and Clang.
 */
#ifndef TM_VECTORS_H
#define TM_VECTORS_H

#include "tm_runtime.h"

/* -- vectors: TM_VECTOR(float, float32x16, 16) makes a type of 16 lanes and what loads, stores and spreads it. The mask
 * of a comparison has lanes of 0 and -1. Vectors are arguments of macros only: no calling convention is needed.
 */

#define TM_VECTOR(T, name, n)                                                                                     \
  typedef T name __attribute__((vector_size(n * sizeof(T)), aligned(n * sizeof(T) < 64 ? n * sizeof(T) : 64))); \
  typedef T name##_memory __attribute__((vector_size(n * sizeof(T)), aligned(sizeof(T)), may_alias));             \
  TM_INLINE __attribute__((always_inline)) name load_##name(const void *place) { return *(const name##_memory *)place; }

#define TM_STORE(V, place, value) (*(V##_memory *)(place) = (value))

/* One scalar in every lane (x - 0 is x for every float, -0.0 and NaN included). */
#define TM_ALL(V, x) ((__typeof__((V){0}[0]))(x) - (V){0})

/* A value for each lane of a vector of type V, from one loop over lanes: GCC makes one instruction of that, where its
 * own comparison of a vector wider than a register would go element by element.
 */
#define TM_EACH_LANE(V, value)                                                                     \
  V tm_result;                                                                                     \
  for (int tm_lane = 0; tm_lane < (int)(sizeof(V) / sizeof(tm_result[0])); tm_lane++) tm_result[tm_lane] = (value); \
  tm_result;

/* A function of each lane. */
#define TM_MAP(V, function, a)                                                                     \
  __extension__({                                                                                  \
    const __auto_type tm_a = (a);                                                                  \
    TM_EACH_LANE(V, function(tm_a[tm_lane]))                                                       \
  })
#define TM_MAP_2(V, function, a, b)                                                                \
  __extension__({                                                                                  \
    const __auto_type tm_a = (a);                                                                  \
    const __auto_type tm_b = (b);                                                                  \
    TM_EACH_LANE(V, function(tm_a[tm_lane], tm_b[tm_lane]))                                        \
  })

/* The mask of where a function of each lane is not 0. */
#define TM_HOLDS(M, function, a)                                                                   \
  __extension__({                                                                                  \
    const __auto_type tm_a = (a);                                                                  \
    TM_EACH_LANE(M, function(tm_a[tm_lane]) ? -1 : 0)                                              \
  })

/* The mask of a comparison, of type M; the lanes of `yes` where a mask is -1 and of `no` where it is 0; both at once,
 * of elements as wide as those that are compared.
 */
#ifdef __clang__
#define TM_COMPARE(M, a, op, b) ((M)((a) op (b)))
#define TM_CHOOSE(V, a, op, b, yes, no) TM_SELECT(V, (a) op (b), (yes), (no))
#define TM_SELECT(V, mask, yes, no)                                                                \
  __extension__({                                                                                  \
    const __auto_type tm_mask = (mask);                                                            \
    (V)((tm_mask & (__typeof__(tm_mask))(yes)) | (~tm_mask & (__typeof__(tm_mask))(no)));          \
  })
#else
#if defined(__AVX512BW__)
#define TM_REGISTER 64
#elif defined(__AVX2__)
#define TM_REGISTER 32
#else
#define TM_REGISTER 16
#endif
/* Of vectors that fit a register, GCC sees through its own comparisons: to one masked operation with AVX-512. Those of
 * wider ones would go element by element.
 */
#define TM_COMPARE(M, a, op, b)                                                                    \
  __extension__({                                                                                  \
    const __auto_type tm_a = (a);                                                                  \
    const __auto_type tm_b = (b);                                                                  \
    M tm_where;                                                                                    \
    if (sizeof(M) <= TM_REGISTER)                                                                  \
      tm_where = (M)(tm_a op tm_b);                                                                \
    else                                                                                           \
      tm_where = __extension__({ TM_EACH_LANE(M, tm_a[tm_lane] op tm_b[tm_lane] ? -1 : 0) });      \
    tm_where;                                                                                      \
  })
#define TM_CHOOSE(V, a, op, b, yes, no)                                                            \
  __extension__({                                                                                  \
    const __auto_type tm_a = (a);                                                                  \
    const __auto_type tm_b = (b);                                                                  \
    const V tm_yes = (yes), tm_no = (no);                                                          \
    V tm_chosen;                                                                                   \
    if (sizeof(V) <= TM_REGISTER) {                                                                \
      const __auto_type tm_where = tm_a op tm_b;                                                   \
      tm_chosen = (V)(((__typeof__(tm_where))tm_yes & tm_where) | ((__typeof__(tm_where))tm_no & ~tm_where)); \
    } else {                                                                                       \
      tm_chosen = __extension__({                                                                  \
        TM_EACH_LANE(V, tm_a[tm_lane] op tm_b[tm_lane] ? tm_yes[tm_lane] : tm_no[tm_lane])         \
      });                                                                                          \
    }                                                                                              \
    tm_chosen;                                                                                     \
  })
#define TM_SELECT(V, mask, yes, no)                                                                \
  __extension__({                                                                                  \
    const __auto_type tm_mask = (mask);                                                            \
    const V tm_yes = (yes), tm_no = (no);                                                          \
    V tm_chosen;                                                                                   \
    if (sizeof(V) <= TM_REGISTER)                                                                  \
      tm_chosen = (V)(((__typeof__(tm_mask))tm_yes & tm_mask) | ((__typeof__(tm_mask))tm_no & ~tm_mask)); \
    else                                                                                           \
      tm_chosen = __extension__({ TM_EACH_LANE(V, tm_mask[tm_lane] ? tm_yes[tm_lane] : tm_no[tm_lane]) }); \
    tm_chosen;                                                                                     \
  })
#endif

/* Floats to int32 or int64: one instruction where that treats what is out of range as `function` does. */
#if defined(__x86_64__) || defined(__i386__)
#define TM_TRUNCATED(V, function, a) (__builtin_convertvector(a, V) ^ tm_unknown_zero())
#elif defined(__aarch64__)
/* It is one on Arm, too, but for NaN and what is too large, where the lowest integer is chosen afterwards. The limits are
 * floats of the lanes' type, which need not be widened; one that is the lower limit itself gives the same. GCC takes
 * vectors that fit a register together, and all others element by element; for Clang, what is out of range has no value.
 */
#define TM_LOWEST_OF(V) ((__typeof__((V){0}[0]))((__typeof__((V){0}[0]))1 << (8 * sizeof((V){0}[0]) - 1)))
#define TM_LIMIT(V, a, narrow, wide) ((__typeof__((a)[0]))(sizeof((V){0}[0]) == 4 ? (narrow) : (wide)))
#ifdef __clang__
#define TM_TOGETHER(V, a) false
#else
#define TM_TOGETHER(V, a) (sizeof(V) <= 16 && sizeof(a) <= 16)
#endif
#define TM_TRUNCATED(V, function, a)                                                               \
  (__extension__({                                                                                 \
    const __auto_type tm_a = (a);                                                                  \
    const __auto_type tm_low = TM_LIMIT(V, tm_a, -2147483649.0, -0x1p63);                          \
    const __auto_type tm_high = TM_LIMIT(V, tm_a, 2147483648.0, 0x1p63);                           \
    V tm_whole;                                                                                    \
    if (TM_TOGETHER(V, tm_a)) {                                                                    \
      const V tm_inside = __builtin_convertvector((tm_a > tm_low) & (tm_a < tm_high), V);          \
      tm_whole = (__builtin_convertvector(tm_a, V) & tm_inside) | (TM_LOWEST_OF(V) & ~tm_inside);  \
    } else {                                                                                       \
      tm_whole = __extension__({                                                                   \
        TM_EACH_LANE(V, tm_a[tm_lane] > tm_low && tm_a[tm_lane] < tm_high                          \
                            ? (__typeof__((V){0}[0]))tm_a[tm_lane]                                 \
                            : TM_LOWEST_OF(V))                                                     \
      });                                                                                          \
    }                                                                                              \
    tm_whole;                                                                                      \
  }) ^ tm_unknown_zero())
#else
#define TM_TRUNCATED(V, function, a) TM_MAP(V, function, (a))
#endif

/* For the functions that load vectors of elements a few apart. */
#define TM_SHUFFLE TM_INLINE __attribute__((always_inline))

/* Every `stride`-th element from `place`; the elements of `place` at the indices in vector `index`. */
#define TM_STRIDED(V, place, stride)                                                               \
  __extension__({                                                                                  \
    const __auto_type tm_place = (place);                                                          \
    const int64_t tm_stride = (stride);                                                            \
    TM_EACH_LANE(V, tm_place[tm_lane * tm_stride])                                                 \
  })
#define TM_GATHER(V, place, index)                                                                 \
  __extension__({                                                                                  \
    const __auto_type tm_place = (place);                                                          \
    const __auto_type tm_index = (index);                                                          \
    TM_EACH_LANE(V, tm_place[tm_index[tm_lane]])                                                   \
  })
#define TM_STORE_STRIDED(V, place, stride, value)                                                  \
  do {                                                                                             \
    const __auto_type tm_place = (place);                                                          \
    const int64_t tm_stride = (stride);                                                            \
    const V tm_value = (value);                                                                    \
    for (int tm_lane = 0; tm_lane < (int)(sizeof(V) / sizeof(tm_value[0])); tm_lane++)             \
      tm_place[tm_lane * tm_stride] = tm_value[tm_lane];                                           \
  } while (0)
#define TM_SCATTER(V, place, index, value)                                                         \
  do {                                                                                             \
    const __auto_type tm_place = (place);                                                          \
    const __auto_type tm_index = (index);                                                          \
    const V tm_value = (value);                                                                    \
    for (int tm_lane = 0; tm_lane < (int)(sizeof(V) / sizeof(tm_value[0])); tm_lane++)             \
      tm_place[tm_index[tm_lane]] = tm_value[tm_lane];                                             \
  } while (0)

// The lanes of one vector from lane n on, and after them the first n of another: elements that are read unaligned.
#define TM_LANES_2(n) (n), (n) + 1
#define TM_LANES_4(n) TM_LANES_2(n), TM_LANES_2((n) + 2)
#define TM_LANES_8(n) TM_LANES_4(n), TM_LANES_4((n) + 4)
#define TM_LANES_16(n) TM_LANES_8(n), TM_LANES_8((n) + 8)
#define TM_LANES_32(n) TM_LANES_16(n), TM_LANES_16((n) + 16)
#define TM_LANES_64(n) TM_LANES_32(n), TM_LANES_32((n) + 32)
#define TM_SHIFTED(lanes, low, high, n) __builtin_shufflevector(low, high, TM_LANES_##lanes(n))
// The same for vectors V of 64 bytes, with elements of 4 bytes and of 8: gcc does not find valignd by itself.
#if defined(__AVX512F__) && !defined(__clang__)
#include <immintrin.h>
#define TM_SHIFTED_4(V, low, high, n) ((V)_mm512_alignr_epi32((__m512i)(high), (__m512i)(low), n))
#define TM_SHIFTED_8(V, low, high, n) ((V)_mm512_alignr_epi64((__m512i)(high), (__m512i)(low), n))
#else
#define TM_SHIFTED_4(V, low, high, n) TM_SHIFTED(16, (low), (high), n)
#define TM_SHIFTED_8(V, low, high, n) TM_SHIFTED(8, (low), (high), n)
#endif

#define TM_RAMP_2 0, 1
#define TM_RAMP_4 TM_RAMP_2, 2, 3
#define TM_RAMP_8 TM_RAMP_4, 4, 5, 6, 7
#define TM_RAMP_16 TM_RAMP_8, 8, 9, 10, 11, 12, 13, 14, 15
#define TM_RAMP_32 TM_RAMP_16, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31
#define TM_RAMP_64 \
  TM_RAMP_32, 32, 33, 34, 35, 36, 37, 38, 39, 40, 41, 42, 43, 44, 45, 46, 47, 48, 49, 50, 51, 52, 53, 54, 55, 56, 57, \
  58, 59, 60, 61, 62, 63

/* The mask of the first of `n` lanes, those below a count, which may be any number: -1 in each, of type M. */
#define TM_BELOW(M, n, count) TM_COMPARE(M, ((M){TM_RAMP_##n}), <, TM_ALL(M, tm_between((count), n)))
static inline __attribute__((always_inline, unused)) int tm_between(int64_t count, int lanes) {
  return count < 0 ? 0 : count < lanes ? (int)count : lanes;
}

#endif
