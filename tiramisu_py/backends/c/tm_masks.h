/* Vectors of which the first lanes alone are in memory: the end of a loop whose iterations fill no whole vector.
 *
 * TM_FIRST(float, float32x16, 16, 32, 512) defines load_first_float32x16(place, count) and
 * store_first_float32x16(place, value, count): lanes from `count` on touch no memory, and are 0 when loaded. A count
 * may be below 0 or above the number of lanes. The processor has masks for that, or else so many bytes are copied.
 * Without a lane in memory no instruction is executed: at an address where no page is, one with an empty mask takes
 * hundreds of cycles.
 */
#ifndef TM_MASKS_H
#define TM_MASKS_H

#include "tm_vectors.h"

/* The address sanitizer sees copies, but no instructions with masks. */
#if defined(__SANITIZE_ADDRESS__)
#define TM_COPIES
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define TM_COPIES
#endif
#endif

#define TM_FIRST(T, V, n, bits, size) TM_FIRST_##size(T, V, n, bits)

#define TM_FIRST_COPIED(T, V, n)                                                                   \
  TM_SHUFFLE V load_first_##V(const void *place, int64_t count) {                                  \
    V value = {0};                                                                                 \
    if (count > 0) memcpy(&value, place, (size_t)(count < n ? count : n) * sizeof(T));             \
    return value;                                                                                  \
  }                                                                                                \
  TM_SHUFFLE void store_first_##V(void *place, V value, int64_t count) {                           \
    if (count > 0) memcpy(place, &value, (size_t)(count < n ? count : n) * sizeof(T));             \
  }

#if !defined(TM_COPIES) && defined(__AVX512F__) && defined(__AVX512BW__) && defined(__AVX512VL__)
#include <immintrin.h>

/* A bit for each of the first lanes. */
TM_SHUFFLE uint64_t tm_first_lanes(int64_t count) {
  return count >= 64 ? ~UINT64_C(0) : count <= 0 ? 0 : (UINT64_C(1) << count) - 1;
}

#define TM_FIRST_MASKED(V, R, prefix, bits)                                                        \
  TM_SHUFFLE V load_first_##V(const void *place, int64_t count) {                                  \
    if (count <= 0) return (V){0};                                                                 \
    return (V)prefix##_maskz_loadu_epi##bits(tm_first_lanes(count), place);                              \
  }                                                                                                \
  TM_SHUFFLE void store_first_##V(void *place, V value, int64_t count) {                           \
    if (count <= 0) return;                                                                        \
    prefix##_mask_storeu_epi##bits(place, tm_first_lanes(count), (R)value);                              \
  }
#define TM_FIRST_512(T, V, n, bits) TM_FIRST_MASKED(V, __m512i, _mm512, bits)
#define TM_FIRST_256(T, V, n, bits) TM_FIRST_MASKED(V, __m256i, _mm256, bits)
#define TM_FIRST_128(T, V, n, bits) TM_FIRST_MASKED(V, __m128i, _mm, bits)

#elif !defined(TM_COPIES) && defined(__AVX2__)
#include <immintrin.h>

#define TM_FIRST_512(T, V, n, bits) TM_FIRST_COPIED(T, V, n)
#define TM_FIRST_256(T, V, n, bits) TM_FIRST_256_##bits(T, V, n)
#define TM_FIRST_128(T, V, n, bits) TM_FIRST_128_##bits(T, V, n)
#define TM_FIRST_256_8(T, V, n) TM_FIRST_COPIED(T, V, n)
#define TM_FIRST_256_16(T, V, n) TM_FIRST_COPIED(T, V, n)
#define TM_FIRST_128_8(T, V, n) TM_FIRST_COPIED(T, V, n)
#define TM_FIRST_128_16(T, V, n) TM_FIRST_COPIED(T, V, n)

/* A lane of -1 for each of the first lanes. */
#define TM_FIRST_LANES(V, R, prefix, bits, I, word, n, set)                                        \
  TM_SHUFFLE V load_first_##V(const void *place, int64_t count) {                                  \
    if (count <= 0) return (V){0};                                                                 \
    const I some = (I)(count < n ? count : n);                                                     \
    const R mask = prefix##_cmpgt_epi##bits(prefix##_set1_epi##word(some), set);                   \
    return (V)prefix##_maskload_epi##bits(place, mask);                                            \
  }                                                                                                \
  TM_SHUFFLE void store_first_##V(void *place, V value, int64_t count) {                           \
    if (count <= 0) return;                                                                        \
    const I some = (I)(count < n ? count : n);                                                     \
    const R mask = prefix##_cmpgt_epi##bits(prefix##_set1_epi##word(some), set);                   \
    prefix##_maskstore_epi##bits(place, mask, (R)value);                                           \
  }
#define TM_FIRST_256_32(T, V, n) \
  TM_FIRST_LANES(V, __m256i, _mm256, 32, int, 32, n, _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7))
#define TM_FIRST_256_64(T, V, n) \
  TM_FIRST_LANES(V, __m256i, _mm256, 64, long long, 64x, n, _mm256_setr_epi64x(0, 1, 2, 3))
#define TM_FIRST_128_32(T, V, n) TM_FIRST_LANES(V, __m128i, _mm, 32, int, 32, n, _mm_setr_epi32(0, 1, 2, 3))
#define TM_FIRST_128_64(T, V, n) TM_FIRST_LANES(V, __m128i, _mm, 64, long long, 64x, n, _mm_set_epi64x(1, 0))

#else
#define TM_FIRST_512(T, V, n, bits) TM_FIRST_COPIED(T, V, n)
#define TM_FIRST_256(T, V, n, bits) TM_FIRST_COPIED(T, V, n)
#define TM_FIRST_128(T, V, n, bits) TM_FIRST_COPIED(T, V, n)
#endif
#define TM_FIRST_OTHER(T, V, n, bits) TM_FIRST_COPIED(T, V, n)

/* The address of the element in lane 0 where a lane is active; it may lie far beyond its array where none is. */
#define TM_IF_ANY(count, element) ((count) > 0 ? &(element) : NULL)

/* The same of elements that are apart in memory: every `stride`-th one, or those at the indices in a vector. */
#define TM_STRIDED_FIRST(V, place, stride, count)                                                  \
  __extension__({                                                                                  \
    const __auto_type tm_place = (place);                                                          \
    const int64_t tm_stride = (stride), tm_count = (count);                                        \
    V tm_result = {0};                                                                             \
    for (int tm_lane = 0; tm_lane < TM_UP_TO(tm_count, tm_result); tm_lane++)                      \
      tm_result[tm_lane] = tm_place[tm_lane * tm_stride];                                          \
    tm_result;                                                                                     \
  })
#define TM_GATHER_FIRST(V, place, index, count)                                                    \
  __extension__({                                                                                  \
    const __auto_type tm_place = (place);                                                          \
    const __auto_type tm_index = (index);                                                          \
    const int64_t tm_count = (count);                                                              \
    V tm_result = {0};                                                                             \
    for (int tm_lane = 0; tm_lane < TM_UP_TO(tm_count, tm_result); tm_lane++)                      \
      tm_result[tm_lane] = tm_place[tm_index[tm_lane]];                                            \
    tm_result;                                                                                     \
  })
/* Without a branch for each lane: lanes that are not active load what the first lane loads, and are 0 then. Masks of
 * indices are of type I, those of elements of type M. */
typedef int32_t tm_masks_32x4 __attribute__((vector_size(16)));
typedef int32_t tm_masks_32x8 __attribute__((vector_size(32)));
typedef int64_t tm_masks_64x4 __attribute__((vector_size(32)));
#define TM_GATHER_FIRST_OF(V, I, M, n, place, index, count)                                        \
  __extension__({                                                                                  \
    const __auto_type tm_from = (place);                                                           \
    const __auto_type tm_places = (index);                                                         \
    const int64_t tm_active = (count);                                                             \
    V tm_first = {0};                                                                              \
    if (tm_active > 0) {                                                                           \
      const I tm_kept = TM_BELOW(I, n, tm_active);                                                 \
      const I tm_inside = ((I)tm_places & tm_kept) | (TM_ALL(I, tm_places[0]) & ~tm_kept);         \
      const V tm_loaded = TM_GATHER(V, tm_from, tm_inside);                                        \
      tm_first = (V)((M)tm_loaded & TM_BELOW(M, n, tm_active));                                    \
    }                                                                                              \
    tm_first;                                                                                      \
  })
/* Of 32 or 64 bits, by one instruction where the processor gathers under masks: at the indices in vectors of 32 bits, and _AT_ of 64. */
#if !defined(TM_COPIES) && defined(__AVX512F__) && defined(__AVX512BW__) && defined(__AVX512VL__)
#define TM_GATHER_FIRST_32x4(V, place, index, count) \
  ((V)_mm_mmask_i32gather_epi32((__m128i){0}, tm_first_lanes((count)), (__m128i)(index), (const void *)(place), 4))
#define TM_GATHER_FIRST_32x8(V, place, index, count) \
  ((V)_mm256_mmask_i32gather_epi32((__m256i){0}, tm_first_lanes((count)), (__m256i)(index), (const void *)(place), 4))
#define TM_GATHER_FIRST_32x16(V, place, index, count) \
  ((V)_mm512_mask_i32gather_epi32((__m512i){0}, tm_first_lanes((count)), (__m512i)(index), (const void *)(place), 4))
#define TM_GATHER_FIRST_64x4(V, place, index, count) \
  ((V)_mm256_mmask_i32gather_epi64((__m256i){0}, tm_first_lanes((count)), (__m128i)(index), (const void *)(place), 8))
#define TM_GATHER_FIRST_64x8(V, place, index, count) \
  ((V)_mm512_mask_i32gather_epi64((__m512i){0}, tm_first_lanes((count)), (__m256i)(index), (const void *)(place), 8))
#define TM_GATHER_FIRST_AT_32x4(V, place, index, count) \
  ((V)_mm256_mmask_i64gather_epi32((__m128i){0}, tm_first_lanes((count)), (__m256i)(index), (const void *)(place), 4))
#define TM_GATHER_FIRST_AT_32x8(V, place, index, count) \
  ((V)_mm512_mask_i64gather_epi32((__m256i){0}, tm_first_lanes((count)), (__m512i)(index), (const void *)(place), 4))
#define TM_GATHER_FIRST_AT_64x4(V, place, index, count) \
  ((V)_mm256_mmask_i64gather_epi64((__m256i){0}, tm_first_lanes((count)), (__m256i)(index), (const void *)(place), 8))
#define TM_GATHER_FIRST_AT_64x8(V, place, index, count) \
  ((V)_mm512_mask_i64gather_epi64((__m512i){0}, tm_first_lanes((count)), (__m512i)(index), (const void *)(place), 8))
#else
#define TM_GATHER_FIRST_32x4(V, place, index, count) \
  TM_GATHER_FIRST_OF(V, tm_masks_32x4, tm_masks_32x4, 4, (place), (index), (count))
#define TM_GATHER_FIRST_32x8(V, place, index, count) \
  TM_GATHER_FIRST_OF(V, tm_masks_32x8, tm_masks_32x8, 8, (place), (index), (count))
#define TM_GATHER_FIRST_32x16 TM_GATHER_FIRST
#define TM_GATHER_FIRST_64x4(V, place, index, count) \
  TM_GATHER_FIRST_OF(V, tm_masks_32x4, tm_masks_64x4, 4, (place), (index), (count))
#define TM_GATHER_FIRST_64x8 TM_GATHER_FIRST
#define TM_GATHER_FIRST_AT_32x4(V, place, index, count) \
  TM_GATHER_FIRST_OF(V, tm_masks_64x4, tm_masks_32x4, 4, (place), (index), (count))
#define TM_GATHER_FIRST_AT_32x8 TM_GATHER_FIRST
#define TM_GATHER_FIRST_AT_64x4(V, place, index, count) \
  TM_GATHER_FIRST_OF(V, tm_masks_64x4, tm_masks_64x4, 4, (place), (index), (count))
#define TM_GATHER_FIRST_AT_64x8 TM_GATHER_FIRST
#endif
#define TM_GATHER_FIRST_AT_32x16 TM_GATHER_FIRST
#define TM_STORE_STRIDED_FIRST(V, place, stride, value, count)                                     \
  do {                                                                                             \
    const __auto_type tm_place = (place);                                                          \
    const int64_t tm_stride = (stride), tm_count = (count);                                        \
    const V tm_value = (value);                                                                    \
    for (int tm_lane = 0; tm_lane < TM_UP_TO(tm_count, tm_value); tm_lane++)                       \
      tm_place[tm_lane * tm_stride] = tm_value[tm_lane];                                           \
  } while (0)
#define TM_SCATTER_FIRST(V, place, index, value, count)                                            \
  do {                                                                                             \
    const __auto_type tm_place = (place);                                                          \
    const __auto_type tm_index = (index);                                                          \
    const int64_t tm_count = (count);                                                              \
    const V tm_value = (value);                                                                    \
    for (int tm_lane = 0; tm_lane < TM_UP_TO(tm_count, tm_value); tm_lane++)                       \
      tm_place[tm_index[tm_lane]] = tm_value[tm_lane];                                             \
  } while (0)
#define TM_LANES_OF(vector) ((int64_t)(sizeof(vector) / sizeof((vector)[0])))
#define TM_UP_TO(count, vector) (int)((count) < TM_LANES_OF((vector)) ? (count) : TM_LANES_OF((vector)))

#endif
