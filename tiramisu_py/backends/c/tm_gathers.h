/* Elements at computed places.
 *
 * TM_GATHER_32x8(float32x8, array, index) loads the elements of an array, of 32 bits each, at the indices in an int32x8;
 * TM_GATHER_AT_32x8(float32x8, array, index) at those in an int64x8, TM_GATHER_BY_8x16(uint8x16, array, &index[c]) bytes at
 * 16 integers that follow one another in memory.
 *
 * Neighbours at computed places: four elements of an array for each lane, as bilinear interpolation reads them.
 *
 * TM_NEIGHBOURS(float32x16, array, rows, columns, row, column, &a, &b, &c, &d) loads the elements of an array of so
 * many rows and columns at (row, column), (row, column + 1), (row + 1, column) and (row + 1, column + 1). All of them
 * lie inside. Bytes are given as int32, as they are computed with. Where the places are near each other, as those of a map that changes slowly are, whole vectors are loaded
 * from four rows, and each lane takes its elements from these; elsewhere two neighbours are one load.
 */
#ifndef TM_GATHERS_H
#define TM_GATHERS_H

#include <string.h>

#include "tm_vectors.h"
#ifdef __AVX2__
#include <immintrin.h>
#elif defined(__aarch64__) && defined(__ARM_NEON)
#include <arm_neon.h>
#endif

/* Loads from computed places by one instruction, where the processor is one of those that gain by it, says the table of
 * tiramisu_py/program/machine; of the processors with AVX2 alone most load faster one by one. */
#if (defined(__AVX512F__) && !defined(__znver3__)) || defined(__skylake__) || defined(__alderlake__)
#define TM_GATHERS
#endif

/* A gather keeps the lanes of its register that its mask leaves out, so it waits for what was there, as a rule the gather
 * before. Compilers that see a full mask give it any register: in the place of 16 cycles from one to the next, 5 to 9. So
 * it goes into zeros, under a mask whose value they do not know. */
#ifdef __AVX2__
TM_SHUFFLE __m256i tm_every_lane(void) {
  __m256i every = _mm256_set1_epi32(-1);
  __asm__("" : "+x"(every));
  return every;
}
#define TM_NOTHING _mm256_setzero_si256()
#define TM_EVERY_LANE tm_every_lane()
#define TM_NOTHING_128 _mm_setzero_si128()
#define TM_EVERY_LANE_128 _mm256_castsi256_si128(TM_EVERY_LANE)
#endif
#ifdef __AVX512F__
TM_SHUFFLE __mmask16 tm_every_bit(void) {
  __mmask16 every = 0xffff;
  __asm__("" : "+k"(every));
  return every;
}
#define TM_NOTHING_512 _mm512_setzero_si512()
#define TM_EVERY_BIT tm_every_bit()
#define TM_EVERY_BIT_OF_8 ((__mmask8)TM_EVERY_BIT)
#endif

/* Indices are extended with their sign before they are multiplied by the size of an element. */
#ifdef TM_GATHERS
#define TM_GATHER_32x4(V, place, index) \
  ((V)_mm_mask_i32gather_epi32(TM_NOTHING_128, (const int *)(const void *)(place), \
      (__m128i)(index), TM_EVERY_LANE_128, 4))
#define TM_GATHER_32x8(V, place, index) \
  ((V)_mm256_mask_i32gather_epi32(TM_NOTHING, (const int *)(const void *)(place), \
      (__m256i)(index), TM_EVERY_LANE, 4))
#define TM_GATHER_64x4(V, place, index) \
  ((V)_mm256_mask_i32gather_epi64(TM_NOTHING, (const long long *)(const void *)(place), \
      (__m128i)(index), TM_EVERY_LANE, 8))
#else
#define TM_GATHER_32x4 TM_GATHER
#if defined(__AVX2__) && (defined(__znver1__) || defined(__znver2__) || defined(__znver3__))
#define TM_GATHER_32x8 TM_GATHER_STORED
#else
#define TM_GATHER_32x8 TM_GATHER
#endif
#define TM_GATHER_64x4 TM_GATHER
#endif

/* One by one, at indices that are stored first: each is loaded from there into the register of an address, by a load for
 * each element in the place of one or two shuffles: 0.8 cycles an element instead of 2.0, says LLVM's model of Zen 3. On
 * later processors shuffles are cheaper. The compiler is not to know that it has the indices in a vector. */
#define TM_GATHER_STORED(V, place, index)                                                          \
  __extension__({                                                                                  \
    const __auto_type tm_from = (place);                                                           \
    const __auto_type tm_places = (index);                                                         \
    __typeof__(tm_places[0] + 0) tm_at[sizeof tm_places / sizeof tm_places[0]];                    \
    memcpy(tm_at, &tm_places, sizeof tm_at);                                                       \
    __asm__("" : "+m"(tm_at));                                                                     \
    TM_EACH_LANE(V, tm_from[tm_at[tm_lane]])                                                       \
  })
#ifdef __AVX512F__
#define TM_GATHER_32x16(V, place, index) \
  ((V)_mm512_mask_i32gather_epi32(TM_NOTHING_512, TM_EVERY_BIT, (__m512i)(index), \
      (const void *)(place), 4))
#define TM_GATHER_64x8(V, place, index) \
  ((V)_mm512_mask_i32gather_epi64(TM_NOTHING_512, TM_EVERY_BIT_OF_8, (__m256i)(index), \
      (const void *)(place), 8))
#else
#define TM_GATHER_32x16 TM_GATHER
#define TM_GATHER_64x8 TM_GATHER
#endif

/* Bytes, at indices that lie in memory. No instruction gathers bytes: each index is loaded into the register of an
 * address, then the byte into its place of the vector. Indices that are stored for it just before are no faster than
 * those that are taken out of a vector. */
#ifdef __AVX2__
#define TM_BYTE_TO(k, lane) tm_eight = _mm_insert_epi8(tm_eight, tm_from[tm_at[(k) + (lane)]], lane)
#define TM_8_BYTES(k)                                                                              \
  __extension__({                                                                                  \
    __m128i tm_eight = _mm_cvtsi32_si128((uint8_t)tm_from[tm_at[k]]);                              \
    TM_BYTE_TO((k), 1), TM_BYTE_TO((k), 2), TM_BYTE_TO((k), 3), TM_BYTE_TO((k), 4);                \
    TM_BYTE_TO((k), 5), TM_BYTE_TO((k), 6), TM_BYTE_TO((k), 7);                                    \
    tm_eight;                                                                                      \
  })
#define TM_16_BYTES(k) _mm_unpacklo_epi64(TM_8_BYTES((k)), TM_8_BYTES((k) + 8))
#define TM_32_BYTES(k) _mm256_inserti128_si256(_mm256_castsi128_si256(TM_16_BYTES((k))), TM_16_BYTES((k) + 16), 1)
#define TM_64_BYTES(k) _mm512_inserti64x4(_mm512_castsi256_si512(TM_32_BYTES((k))), TM_32_BYTES((k) + 32), 1)
#define TM_BYTES_BY(V, place, indices, bytes)                                                      \
  __extension__({                                                                                  \
    const __auto_type tm_from = (place);                                                           \
    const __auto_type tm_at = (indices);                                                           \
    (V)bytes;                                                                                      \
  })
#else
#define TM_BYTES_BY(V, place, indices, bytes)                                                      \
  __extension__({                                                                                  \
    const __auto_type tm_from = (place);                                                           \
    const __auto_type tm_at = (indices);                                                           \
    TM_EACH_LANE(V, tm_from[tm_at[tm_lane]])                                                       \
  })
#endif
#define TM_GATHER_BY_8x16(V, place, indices) TM_BYTES_BY(V, (place), (indices), TM_16_BYTES(0))
#define TM_GATHER_BY_8x32(V, place, indices) TM_BYTES_BY(V, (place), (indices), TM_32_BYTES(0))
#define TM_GATHER_BY_8x64(V, place, indices) TM_BYTES_BY(V, (place), (indices), TM_64_BYTES(0))

/* Part `k` of a vector of indices, of so many lanes: in its registers. By `memcpy`, gcc would store the whole vector to
 * the stack for each gather, and load the half again. */
#define TM_PART(lanes, index, k)                                                                   \
  __extension__({                                                                                  \
    const __auto_type tm_index = (index);                                                          \
    TM_SHIFTED(lanes, tm_index, tm_index, (k) * (lanes));                                          \
  })
#ifdef TM_GATHERS
#define TM_GATHER_AT_32x4(V, place, index) \
  ((V)_mm256_mask_i64gather_epi32(TM_NOTHING_128, (const int *)(const void *)(place), \
      (__m256i)(index), TM_EVERY_LANE_128, 4))
#define TM_GATHER_AT_64x4(V, place, index) \
  ((V)_mm256_mask_i64gather_epi64(TM_NOTHING, (const long long *)(const void *)(place), \
      (__m256i)(index), TM_EVERY_LANE, 8))
#else
#define TM_GATHER_AT_32x4 TM_GATHER
#define TM_GATHER_AT_64x4 TM_GATHER
#endif
#ifdef __AVX512F__
#define TM_GATHER_AT_32x8(V, place, index) \
  ((V)_mm512_mask_i64gather_epi32(TM_NOTHING, TM_EVERY_BIT_OF_8, (__m512i)(index), \
      (const void *)(place), 4))
#define TM_GATHER_AT_32x16(V, place, index)                                                        \
  __extension__({                                                                                  \
    const void *const tm_from = (place);                                                           \
    const __auto_type tm_at = (index);                                                             \
    const __m256i tm_low = _mm512_mask_i64gather_epi32(TM_NOTHING, TM_EVERY_BIT_OF_8,              \
        (__m512i)TM_PART(8, tm_at, 0), tm_from, 4);                                                \
    const __m256i tm_high = _mm512_mask_i64gather_epi32(TM_NOTHING, TM_EVERY_BIT_OF_8,             \
        (__m512i)TM_PART(8, tm_at, 1), tm_from, 4);                                                \
    (V)_mm512_inserti64x4(_mm512_castsi256_si512(tm_low), tm_high, 1);                             \
  })
#define TM_GATHER_AT_64x8(V, place, index) \
  ((V)_mm512_mask_i64gather_epi64(TM_NOTHING_512, TM_EVERY_BIT_OF_8, (__m512i)(index), \
      (const void *)(place), 8))
#else
#ifdef TM_GATHERS
#define TM_GATHER_AT_32x8(V, place, index)                                                         \
  __extension__({                                                                                  \
    const int *const tm_from = (const int *)(const void *)(place);                                 \
    const __auto_type tm_at = (index);                                                             \
    const __m128i tm_low = _mm256_mask_i64gather_epi32(TM_NOTHING_128, tm_from,                    \
        (__m256i)TM_PART(4, tm_at, 0), TM_EVERY_LANE_128, 4);                                      \
    const __m128i tm_high = _mm256_mask_i64gather_epi32(TM_NOTHING_128, tm_from,                   \
        (__m256i)TM_PART(4, tm_at, 1), TM_EVERY_LANE_128, 4);                                      \
    (V)_mm256_inserti128_si256(_mm256_castsi128_si256(tm_low), tm_high, 1);                        \
  })
#else
#define TM_GATHER_AT_32x8 TM_GATHER
#endif
#define TM_GATHER_AT_32x16 TM_GATHER
#define TM_GATHER_AT_64x8 TM_GATHER
#endif

#define TM_NEIGHBOURS(V, place, rows, columns, row, column, a, b, c, d) \
  tm_neighbours_##V(place, rows, columns, row, column, a, b, c, d)

/* The function of a vector type V of elements T, whose indices are vectors I, with its body; it gives vectors O. */
#define TM_NEIGHBOURS_BY(T, V, I, O, ...)                                                                             \
  TM_SHUFFLE void tm_neighbours_##V(const T *place, int64_t rows, int64_t columns, I row, I column, O *a, O *b, O *c, \
                                    O *d) {                                                                           \
    __VA_ARGS__                                                                                                       \
  }

/* For every type: one element after another. */
#define TM_NEIGHBOURS_OF(T, V, I, O)                                                               \
  TM_NEIGHBOURS_BY(                                                                                \
      T, V, I, O, (void)rows; for (int lane = 0; lane < (int)(sizeof(V) / sizeof(T)); lane++) {       \
        const T *const first = place + row[lane] * columns + column[lane];                         \
        const T *const second = first + columns;                                                   \
        (*a)[lane] = first[0], (*b)[lane] = first[1];                                              \
        (*c)[lane] = second[0], (*d)[lane] = second[1];                                            \
      })

/* For bytes: two neighbours of a row are one load of 16 bits, put into its lane, and are taken apart together. */
typedef uint16_t tm_two_bytes __attribute__((aligned(1), may_alias));
#define TM_NEIGHBOURS_OF_BYTES(V, I, n)                                                            \
  TM_NEIGHBOURS_BY(                                                                                \
      uint8_t, V, I, I, typedef uint16_t pairs __attribute__((vector_size(2 * n))); pairs upper, lower; \
      (void)rows; for (int lane = 0; lane < n; lane++) {                                           \
        const uint8_t *const first = place + row[lane] * columns + column[lane];                   \
        upper[lane] = *(const tm_two_bytes *)first;                                                \
        lower[lane] = *(const tm_two_bytes *)(first + columns);                                    \
      } const I above = __builtin_convertvector(upper, I), below = __builtin_convertvector(lower, I); \
      *a = above & 255, *b = above >> 8, *c = below & 255, *d = below >> 8;)

/* Two neighbours as one value that is loaded. */
typedef double tm_pair __attribute__((aligned(4), may_alias));

/* -- AVX-512 */

#ifdef __AVX512F__

/* Where lane 0 or lane 15 is, whichever is first. */
TM_SHUFFLE int tm_first_place(__m512i places) {
  const int first = _mm_cvtsi128_si32(_mm512_castsi512_si128(places));
  const int last = _mm_extract_epi32(_mm512_extracti32x4_epi32(places, 3), 3);
  return first < last ? first : last;
}

/* Where the places are, as four rows of 32 elements see it that begin at the first of them. */
typedef struct {
  int64_t start; /* -1: they are not all in there, or not all of it is in the array */
  __m512i down, right;
} tm_window;

TM_SHUFFLE tm_window tm_window_around(__m512i row, __m512i column, int64_t rows, int64_t columns) {
  const int top = tm_first_place(row), left = tm_first_place(column);
  const __m512i down = _mm512_sub_epi32(row, _mm512_set1_epi32(top));
  const __m512i right = _mm512_sub_epi32(column, _mm512_set1_epi32(left));
  const __mmask16 below = _mm512_cmpgt_epu32_mask(down, _mm512_set1_epi32(2));
  const __mmask16 beside = _mm512_cmpgt_epu32_mask(right, _mm512_set1_epi32(30));
  const int64_t start = top * columns + left;
  const bool inside = rows - top >= 4 && (rows - 3) * columns - start >= 32;
  return (tm_window){(below | beside) == 0 && inside ? start : -1, down, right};
}

/* The places as positions in the array, of lanes 0 to 7 and of lanes 8 to 15. */
TM_SHUFFLE __m512i tm_positions(__m256i row, __m256i column, int64_t columns) {
  /* columns as two halves: rows are not negative, and there is no product of 64 bits */
  const __m512i down = _mm512_cvtepi32_epi64(row), right = _mm512_cvtepi32_epi64(column);
  const __m512i low = _mm512_mul_epu32(down, _mm512_set1_epi64(columns & 0xffffffff));
  const __m512i high = _mm512_slli_epi64(_mm512_mul_epu32(down, _mm512_set1_epi64(columns >> 32)), 32);
  return _mm512_add_epi64(_mm512_add_epi64(low, high), right);
}
TM_SHUFFLE void tm_all_positions(__m512i row, __m512i column, int64_t columns, int64_t *position) {
  const __m256i low_row = _mm512_castsi512_si256(row), low_column = _mm512_castsi512_si256(column);
  const __m256i high_row = _mm512_extracti64x4_epi64(row, 1), high_column = _mm512_extracti64x4_epi64(column, 1);
  _mm512_store_si512(position, tm_positions(low_row, low_column, columns));
  _mm512_store_si512(position + 8, tm_positions(high_row, high_column, columns));
}

TM_SHUFFLE __m512 tm_eight_pairs(const float *place, const int64_t *position) {
  __m128d two[4];
#pragma GCC unroll 4
  for (int k = 0; k < 4; k++)
    two[k] = (__m128d){*(const tm_pair *)(place + position[2 * k]), *(const tm_pair *)(place + position[2 * k + 1])};
  const __m256d low = _mm256_insertf128_pd(_mm256_castpd128_pd256(two[0]), two[1], 1);
  const __m256d high = _mm256_insertf128_pd(_mm256_castpd128_pd256(two[2]), two[3], 1);
  return _mm512_castpd_ps(_mm512_insertf64x4(_mm512_castpd256_pd512(low), high, 1));
}
TM_SHUFFLE void tm_sixteen_pairs(const float *place, const int64_t *position, __m512 *first, __m512 *second) {
  const __m512i even = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
  const __m512 low = tm_eight_pairs(place, position), high = tm_eight_pairs(place, position + 8);
  *first = _mm512_permutex2var_ps(low, even, high);
  *second = _mm512_permutex2var_ps(low, _mm512_add_epi32(even, _mm512_set1_epi32(1)), high);
}

TM_SHUFFLE void tm_near_floats(const float *place, int64_t rows, int64_t columns, __m512i row, __m512i column,
                               __m512 tap[4]) {
  const tm_window window = tm_window_around(row, column, rows, columns);
  if (__builtin_expect(window.start < 0, 0)) {
    int64_t position[16] TM_LOCAL;
    tm_all_positions(row, column, columns, position);
    tm_sixteen_pairs(place, position, &tap[0], &tap[1]);
    tm_sixteen_pairs(place + columns, position, &tap[2], &tap[3]);
    return;
  }
  __m512 left[4], right[4];
#pragma GCC unroll 4
  for (int k = 0; k < 4; k++) {
    const float *const line = place + window.start + k * columns;
    const __m512 low = _mm512_loadu_ps(line), high = _mm512_loadu_ps(line + 16);
    left[k] = _mm512_permutex2var_ps(low, window.right, high);
    right[k] = _mm512_permutex2var_ps(low, _mm512_add_epi32(window.right, _mm512_set1_epi32(1)), high);
  }
  const __mmask16 one = _mm512_cmpeq_epi32_mask(window.down, _mm512_set1_epi32(1));
  const __mmask16 two = _mm512_cmpeq_epi32_mask(window.down, _mm512_set1_epi32(2));
#pragma GCC unroll 2
  for (int k = 0; k < 2; k++) {
    tap[2 * k] = _mm512_mask_mov_ps(_mm512_mask_mov_ps(left[k], one, left[k + 1]), two, left[k + 2]);
    tap[2 * k + 1] = _mm512_mask_mov_ps(_mm512_mask_mov_ps(right[k], one, right[k + 1]), two, right[k + 2]);
  }
}

#define TM_NEIGHBOURS_float32x16                                                                   \
  TM_NEIGHBOURS_BY(float, float32x16, int32x16, float32x16, __m512 tap[4];                                     \
                   tm_near_floats(place, rows, columns, (__m512i)row, (__m512i)column, tap);       \
                   *a = (float32x16)tap[0], *b = (float32x16)tap[1];                               \
                   *c = (float32x16)tap[2], *d = (float32x16)tap[3];)

#ifdef __AVX512VBMI__
/* The four bytes of each lane, the first in the lowest. */
TM_SHUFFLE __m512i tm_near_bytes(const uint8_t *place, int64_t rows, int64_t columns, __m512i row, __m512i column) {
  const tm_window window = tm_window_around(row, column, rows, columns);
  if (__builtin_expect(window.start < 0, 0)) {
    int64_t position[16] TM_LOCAL;
    uint32_t four[16] TM_LOCAL;
    tm_all_positions(row, column, columns, position);
    for (int lane = 0; lane < 16; lane++) {
      uint16_t upper, lower;
      memcpy(&upper, place + position[lane], sizeof upper);
      memcpy(&lower, place + columns + position[lane], sizeof lower);
      four[lane] = upper | (uint32_t)lower << 16;
    }
    return _mm512_load_si512(four);
  }
  __m256i line[4];
#pragma GCC unroll 4
  for (int k = 0; k < 4; k++) line[k] = _mm256_loadu_si256((const __m256i *)(place + window.start + k * columns));
  const __m512i upper = _mm512_inserti64x4(_mm512_castsi256_si512(line[0]), line[1], 1);
  const __m512i lower = _mm512_inserti64x4(_mm512_castsi256_si512(line[2]), line[3], 1);
  __m512i at = _mm512_add_epi32(window.right, _mm512_slli_epi32(window.down, 5));
  at = _mm512_or_si512(at, _mm512_slli_epi32(_mm512_add_epi32(at, _mm512_set1_epi32(1)), 8));
  at = _mm512_or_si512(at, _mm512_slli_epi32(_mm512_add_epi32(at, _mm512_set1_epi32(0x2020)), 16));
  return _mm512_permutex2var_epi8(upper, at, lower);
}
#define TM_NEIGHBOURS_uint8x16                                                                     \
  TM_NEIGHBOURS_BY(uint8_t, uint8x16, int32x16, int32x16,                                          \
                   const __m512i four = tm_near_bytes(place, rows, columns, (__m512i)row, (__m512i)column); \
                   const __m512i one = _mm512_set1_epi32(255);                                     \
                   *a = (int32x16)_mm512_and_si512(four, one);                                     \
                   *b = (int32x16)_mm512_and_si512(_mm512_srli_epi32(four, 8), one);               \
                   *c = (int32x16)_mm512_and_si512(_mm512_srli_epi32(four, 16), one);              \
                   *d = (int32x16)_mm512_srli_epi32(four, 24);)
#endif
#endif

/* -- AVX2 */

#if defined(__AVX2__)
/* The places as positions in the array. */
TM_SHUFFLE void tm_eight_positions(__m256i row, __m256i column, int64_t columns, int64_t position[8]) {
#pragma GCC unroll 2
  for (int k = 0; k < 2; k++) {
    const __m128i rows = k ? _mm256_extracti128_si256(row, 1) : _mm256_castsi256_si128(row);
    const __m128i places = k ? _mm256_extracti128_si256(column, 1) : _mm256_castsi256_si128(column);
    const __m256i down = _mm256_cvtepi32_epi64(rows), right = _mm256_cvtepi32_epi64(places);
    /* columns as two halves: rows are not negative, and there is no product of 64 bits */
    const __m256i low = _mm256_mul_epu32(down, _mm256_set1_epi64x(columns & 0xffffffff));
    const __m256i high = _mm256_slli_epi64(_mm256_mul_epu32(down, _mm256_set1_epi64x(columns >> 32)), 32);
    _mm256_store_si256((__m256i *)(position + 4 * k), _mm256_add_epi64(_mm256_add_epi64(low, high), right));
  }
}

/* Where the places are, as rows see it that begin at the first of them: at most three rows below it, and at most `most`
 * elements beside it. Of each row, `width` elements are loaded. */
typedef struct {
  int64_t start; /* -1: they are not all in there, or not all of it is in the array */
  int height;    /* the most rows below the first */
  __m256i down, right;
} tm_eight_window;

TM_SHUFFLE tm_eight_window tm_eight_window_around(__m256i row, __m256i column, int64_t rows, int64_t columns, int most,
                                                  int width) {
  const int first_row = _mm256_cvtsi256_si32(row), first_column = _mm256_cvtsi256_si32(column);
  const int last_row = _mm256_extract_epi32(row, 7), last_column = _mm256_extract_epi32(column, 7);
  const int top = first_row < last_row ? first_row : last_row;
  const int left = first_column < last_column ? first_column : last_column;
  const int height = (first_row < last_row ? last_row : first_row) - top;
  const __m256i down = _mm256_sub_epi32(row, _mm256_set1_epi32(top));
  const __m256i right = _mm256_sub_epi32(column, _mm256_set1_epi32(left));
  /* a lane between the first and the last may be above them, below them or beside them: as unsigned numbers, all lie
   * between 0 and the limits */
  const __m256i below = _mm256_cmpeq_epi32(_mm256_min_epu32(down, _mm256_set1_epi32(height)), down);
  const __m256i beside = _mm256_cmpeq_epi32(_mm256_min_epu32(right, _mm256_set1_epi32(most)), right);
  const bool near = height <= 3 && _mm256_movemask_epi8(_mm256_and_si256(below, beside)) == -1;
  const int64_t start = top * columns + left;
  /* the last row of the window begins `height` + 1 rows below `start` */
  const bool inside = (rows - height - 1) * columns - start >= width;
  return (tm_eight_window){near && inside ? start : -1, height, down, right};
}

TM_SHUFFLE void tm_eight_float_pairs(const float *place, int64_t columns, __m256i row, __m256i column, __m256 tap[4]) {
  int64_t position[8] TM_LOCAL;
  tm_eight_positions(row, column, columns, position);
#pragma GCC unroll 2
  for (int k = 0; k < 2; k++) {
    const float *const line = place + k * columns;
    __m128d two[4];
#pragma GCC unroll 4
    for (int j = 0; j < 4; j++)
      two[j] = (__m128d){*(const tm_pair *)(line + position[2 * j]), *(const tm_pair *)(line + position[2 * j + 1])};
    /* lanes 0, 1, 4, 5 and 2, 3, 6, 7: a shuffle within halves then sorts them */
    const __m256 first = _mm256_castpd_ps(_mm256_insertf128_pd(_mm256_castpd128_pd256(two[0]), two[2], 1));
    const __m256 second = _mm256_castpd_ps(_mm256_insertf128_pd(_mm256_castpd128_pd256(two[1]), two[3], 1));
    tap[2 * k] = _mm256_shuffle_ps(first, second, 0x88);
    tap[2 * k + 1] = _mm256_shuffle_ps(first, second, 0xdd);
  }
}
TM_SHUFFLE __m256 tm_floats_of_line(const float *line, __m256i at) {
  return _mm256_permutevar8x32_ps(_mm256_loadu_ps(line), at);
}
TM_SHUFFLE void tm_near_eight_floats(const float *place, int64_t rows, int64_t columns, __m256i row, __m256i column,
                                     __m256 tap[4]) {
  const tm_eight_window window = tm_eight_window_around(row, column, rows, columns, 7, 9);
  if (__builtin_expect(window.start < 0, 0)) {
    tm_eight_float_pairs(place, columns, row, column, tap);
    return;
  }
  const float *line = place + window.start + columns;
  __m256 left = tm_floats_of_line(line, window.right), right = tm_floats_of_line(line + 1, window.right);
  tap[0] = tm_floats_of_line(place + window.start, window.right);
  tap[1] = tm_floats_of_line(place + window.start + 1, window.right);
  tap[2] = left, tap[3] = right;
  for (int k = 0; k < window.height; k++) {
    const __m256 further = _mm256_castsi256_ps(_mm256_cmpgt_epi32(window.down, _mm256_set1_epi32(k)));
    tap[0] = _mm256_blendv_ps(tap[0], left, further), tap[1] = _mm256_blendv_ps(tap[1], right, further);
    line += columns;
    left = tm_floats_of_line(line, window.right), right = tm_floats_of_line(line + 1, window.right);
    tap[2] = _mm256_blendv_ps(tap[2], left, further), tap[3] = _mm256_blendv_ps(tap[3], right, further);
  }
}
#define TM_NEIGHBOURS_float32x8                                                                    \
  TM_NEIGHBOURS_BY(float, float32x8, int32x8, float32x8, __m256 tap[4];                                       \
                   tm_near_eight_floats(place, rows, columns, (__m256i)row, (__m256i)column, tap); \
                   *a = (float32x8)tap[0], *b = (float32x8)tap[1];                                 \
                   *c = (float32x8)tap[2], *d = (float32x8)tap[3];)

/* The two bytes of the upper row and of the lower row, as lanes of 32 bits. */
TM_SHUFFLE void tm_eight_byte_pairs(const uint8_t *place, int64_t rows, int64_t columns, __m256i row, __m256i column,
                                    __m256i *upper, __m256i *lower) {
#ifdef TM_GATHERS
  if (__builtin_expect(rows * columns <= INT32_MAX, 1)) {
    /* four bytes from the first one on, and the four up to the last one: all of them lie in the array */
    const __m256i at = _mm256_add_epi32(_mm256_mullo_epi32(row, _mm256_set1_epi32((int)columns)), column);
    const __m256i after = _mm256_mask_i32gather_epi32(TM_NOTHING,
        (const int *)(const void *)place, at, TM_EVERY_LANE, 1);
    const __m256i before = _mm256_mask_i32gather_epi32(TM_NOTHING,
        (const int *)(const void *)(place + columns - 2), at, TM_EVERY_LANE, 1);
    *upper = _mm256_and_si256(after, _mm256_set1_epi32(65535)), *lower = _mm256_srli_epi32(before, 16);
    return;
  }
#else
  (void)rows;
#endif
  typedef uint16_t pairs __attribute__((vector_size(16)));
  pairs above, below;
  int64_t position[8] TM_LOCAL;
  tm_eight_positions(row, column, columns, position);
#pragma GCC unroll 8
  for (int lane = 0; lane < 8; lane++) {
    above[lane] = *(const tm_two_bytes *)(place + position[lane]);
    below[lane] = *(const tm_two_bytes *)(place + columns + position[lane]);
  }
  *upper = _mm256_cvtepu16_epi32((__m128i)above), *lower = _mm256_cvtepu16_epi32((__m128i)below);
}
TM_SHUFFLE __m256i tm_either(__m256i lane, __m256i other, __m256i takes_other) {
  const __m256 a = _mm256_castsi256_ps(lane), b = _mm256_castsi256_ps(other);
  return _mm256_castps_si256(_mm256_blendv_ps(a, b, _mm256_castsi256_ps(takes_other)));
}
/* The lanes' bytes of a row of the window: lanes of 32 bits, of which the upper halves are zero. */
TM_SHUFFLE __m256i tm_bytes_of_line(const uint8_t *line, __m256i at) {
  return _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i *)(const void *)line)), at);
}
TM_SHUFFLE void tm_near_eight_bytes(const uint8_t *place, int64_t rows, int64_t columns, __m256i row, __m256i column,
                                    __m256i *upper, __m256i *lower) {
  const tm_eight_window window = tm_eight_window_around(row, column, rows, columns, 14, 16);
  if (__builtin_expect(window.start < 0, 0)) {
    tm_eight_byte_pairs(place, rows, columns, row, column, upper, lower);
    return;
  }
  const __m256i both = _mm256_or_si256(window.right, _mm256_slli_epi32(window.right, 8));
  const __m256i at = _mm256_add_epi32(both, _mm256_set1_epi32((int)0x80800100));
  const uint8_t *line = place + window.start + columns;
  __m256i below = tm_bytes_of_line(line, at);
  *upper = tm_bytes_of_line(place + window.start, at), *lower = below;
  for (int k = 0; k < window.height; k++) {
    const __m256i further = _mm256_cmpgt_epi32(window.down, _mm256_set1_epi32(k));
    *upper = tm_either(*upper, below, further);
    below = tm_bytes_of_line(line += columns, at);
    *lower = tm_either(*lower, below, further);
  }
}
#define TM_NEIGHBOURS_uint8x8                                                                      \
  TM_NEIGHBOURS_BY(uint8_t, uint8x8, int32x8, int32x8, __m256i upper; __m256i lower;               \
                   tm_near_eight_bytes(place, rows, columns, (__m256i)row, (__m256i)column, &upper, &lower); \
                   const int32x8 above = (int32x8)upper; const int32x8 below = (int32x8)lower;     \
                   *a = above & 255, *b = above >> 8, *c = below & 255, *d = below >> 8;)
#endif

/* -- Arm */

#if defined(__aarch64__) && defined(__ARM_NEON)
TM_SHUFFLE void tm_near_four_floats(const float *place, int64_t columns, int32x4_t row, int32x4_t column,
                                    float32x4_t tap[4]) {
  const float *at[4];
#pragma GCC unroll 4
  for (int j = 0; j < 4; j++) at[j] = place + row[j] * columns + column[j];
#pragma GCC unroll 2
  for (int k = 0; k < 2; k++) {
    float32x2_t two[4];
#pragma GCC unroll 4
    for (int j = 0; j < 4; j++) two[j] = vld1_f32(at[j] + k * columns);
    const float32x4_t first = vcombine_f32(two[0], two[1]), second = vcombine_f32(two[2], two[3]);
    tap[2 * k] = vuzp1q_f32(first, second);
    tap[2 * k + 1] = vuzp2q_f32(first, second);
  }
}
#define TM_NEIGHBOURS_float32x4                                                                    \
  TM_NEIGHBOURS_BY(float, float32x4, int32x4, float32x4, float32x4_t tap[4]; (void)rows;                      \
                   tm_near_four_floats(place, columns, (int32x4_t)row, (int32x4_t)column, tap);    \
                   *a = (float32x4)tap[0], *b = (float32x4)tap[1];                                 \
                   *c = (float32x4)tap[2], *d = (float32x4)tap[3];)
#endif

/* -- every processor */

#ifndef TM_NEIGHBOURS_float32x16
#define TM_NEIGHBOURS_float32x16 TM_NEIGHBOURS_OF(float, float32x16, int32x16, float32x16)
#endif
#ifndef TM_NEIGHBOURS_uint8x16
#define TM_NEIGHBOURS_uint8x16 TM_NEIGHBOURS_OF(uint8_t, uint8x16, int32x16, int32x16)
#endif
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#define TM_NEIGHBOURS_uint8x4 TM_NEIGHBOURS_OF_BYTES(uint8x4, int32x4, 4)
#ifndef TM_NEIGHBOURS_uint8x8
#define TM_NEIGHBOURS_uint8x8 TM_NEIGHBOURS_OF_BYTES(uint8x8, int32x8, 8)
#endif
#else
#define TM_NEIGHBOURS_uint8x4 TM_NEIGHBOURS_OF(uint8_t, uint8x4, int32x4, int32x4)
#define TM_NEIGHBOURS_uint8x8 TM_NEIGHBOURS_OF(uint8_t, uint8x8, int32x8, int32x8)
#endif
#ifndef TM_NEIGHBOURS_float32x4
#define TM_NEIGHBOURS_float32x4 TM_NEIGHBOURS_OF(float, float32x4, int32x4, float32x4)
#endif
#ifndef TM_NEIGHBOURS_float32x8
#define TM_NEIGHBOURS_float32x8 TM_NEIGHBOURS_OF(float, float32x8, int32x8, float32x8)
#endif

#endif
