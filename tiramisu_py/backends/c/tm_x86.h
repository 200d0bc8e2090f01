/* Operations for which x86 processors have an instruction that compilers do not find by themselves: a table of
 * TM_OWN_<operation>_<type> and TM_OWN_<type>_to_<bits>x<lanes>, whose operands are a and b. See tm_idioms.h.
 */
#ifndef TM_X86_H
#define TM_X86_H

#include <immintrin.h>

/* Vectors of 8 or 4 bytes in a register of 16. Where masks exist, GCC before 13 makes one masked instruction of such a
 * load, a conversion and a choice, and then finds none ("unable to generate reloads"), unless it cannot see the load.
 */
#if !defined(__clang__) && __GNUC__ < 13 && defined(__AVX512VL__)
TM_SHUFFLE __m128i tm_hidden(__m128i a) {
  __asm__("" : "+v"(a));
  return a;
}
#else
#define tm_hidden(a) (a)
#endif
#define TM_FROM_8(a) tm_hidden(_mm_cvtsi64_si128((long long)(a)))
#define TM_FROM_4(a) tm_hidden(_mm_cvtsi32_si128((int)(a)))
#define TM_TO_8(a) _mm_cvtsi128_si64(a)
#define TM_TO_4(a) _mm_cvtsi128_si32(a)

/* Which bytes of a register of 16 the low halves, or the lowest quarters, of its elements are. */
#define TM_EVERY_2ND _mm_setr_epi8(0, 2, 4, 6, 8, 10, 12, 14, -1, -1, -1, -1, -1, -1, -1, -1)
#define TM_EVERY_2ND_16 _mm_setr_epi8(0, 1, 4, 5, 8, 9, 12, 13, -1, -1, -1, -1, -1, -1, -1, -1)
#define TM_EVERY_4TH _mm_setr_epi8(0, 4, 8, 12, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1)
#define TM_HIGH(a) _mm256_extracti128_si256((__m256i)(a), 1)
#define TM_PACKED(a) _mm_packs_epi32(TM_LOW((__m256i)(a)), TM_HIGH((a)))
#define TM_TWICE(a) _mm256_broadcastsi128_si256(a)
#define TM_LOW(a) _mm256_castsi256_si128(a)

/* Minimum and maximum of floats: the instruction takes the second operand where one is NaN, so a NaN in the first must
 * be put back.
 */
#define TM_MASKED(op, mm, kind, T) \
  mm##_mask_##op##_##kind((T)a, mm##_cmp_##kind##_mask((T)a, (T)a, _CMP_ORD_Q), (T)a, (T)b)
#define TM_BLENDED_256(op, kind, T) \
  _mm256_blendv_##kind(_mm256_##op##_##kind((T)a, (T)b), (T)a, _mm256_cmp_##kind((T)a, (T)a, _CMP_UNORD_Q))
#define TM_BLENDED(op, kind, T) _mm_blendv_##kind(_mm_##op##_##kind((T)a, (T)b), (T)a, _mm_cmpunord_##kind((T)a, (T)a))

/* a where `more` is larger than `less`, else b: of integers of 64 bits. `flip` makes unsigned order that of signed. */
#define TM_LARGER_256(more, less, flip)                                                                     \
  _mm256_blendv_epi8((__m256i)b, (__m256i)a,                                                               \
                     _mm256_cmpgt_epi64(_mm256_xor_si256((__m256i)more, _mm256_set1_epi64x(flip)),         \
                                        _mm256_xor_si256((__m256i)less, _mm256_set1_epi64x(flip))))
#define TM_LARGER(more, less, flip)                                                                        \
  _mm_blendv_epi8((__m128i)b, (__m128i)a,                                                                  \
                  _mm_cmpgt_epi64(_mm_xor_si128((__m128i)more, _mm_set1_epi64x(flip)),                     \
                                  _mm_xor_si128((__m128i)less, _mm_set1_epi64x(flip))))
/* The low halves of four elements of 64 bits. */
#define TM_HALVES_OF_4(a) \
  TM_LOW(_mm256_permutevar8x32_epi32((__m256i)a, _mm256_setr_epi32(0, 2, 4, 6, 0, 0, 0, 0)))

#if defined(__AVX512BW__) && defined(__AVX512DQ__) && defined(__AVX512VL__)

/* p * 2 ** n in one instruction, which rounds once. */
#define TM_OWN_SCALED_16(V, p, n) ((V)_mm512_scalef_ps((__m512)(p), (__m512)(n)))
#define TM_OWN_SCALED_8(V, p, n) ((V)_mm256_scalef_ps((__m256)(p), (__m256)(n)))
#define TM_OWN_SCALED_4(V, p, n) ((V)_mm_scalef_ps((__m128)(p), (__m128)(n)))

/* 512 bits */
#define TM_OWN_min_uint8x64 ~, _mm512_min_epu8((__m512i)a, (__m512i)b)
#define TM_OWN_min_int8x64 ~, _mm512_min_epi8((__m512i)a, (__m512i)b)
#define TM_OWN_min_uint16x32 ~, _mm512_min_epu16((__m512i)a, (__m512i)b)
#define TM_OWN_min_int16x32 ~, _mm512_min_epi16((__m512i)a, (__m512i)b)
#define TM_OWN_min_uint32x16 ~, _mm512_min_epu32((__m512i)a, (__m512i)b)
#define TM_OWN_min_int32x16 ~, _mm512_min_epi32((__m512i)a, (__m512i)b)
#define TM_OWN_min_uint64x8 ~, _mm512_min_epu64((__m512i)a, (__m512i)b)
#define TM_OWN_min_int64x8 ~, _mm512_min_epi64((__m512i)a, (__m512i)b)
#define TM_OWN_max_uint8x64 ~, _mm512_max_epu8((__m512i)a, (__m512i)b)
#define TM_OWN_max_int8x64 ~, _mm512_max_epi8((__m512i)a, (__m512i)b)
#define TM_OWN_max_uint16x32 ~, _mm512_max_epu16((__m512i)a, (__m512i)b)
#define TM_OWN_max_int16x32 ~, _mm512_max_epi16((__m512i)a, (__m512i)b)
#define TM_OWN_max_uint32x16 ~, _mm512_max_epu32((__m512i)a, (__m512i)b)
#define TM_OWN_max_int32x16 ~, _mm512_max_epi32((__m512i)a, (__m512i)b)
#define TM_OWN_max_uint64x8 ~, _mm512_max_epu64((__m512i)a, (__m512i)b)
#define TM_OWN_max_int64x8 ~, _mm512_max_epi64((__m512i)a, (__m512i)b)
#define TM_OWN_add_saturated_uint8x64 ~, _mm512_adds_epu8((__m512i)a, (__m512i)b)
#define TM_OWN_subtract_saturated_uint8x64 ~, _mm512_subs_epu8((__m512i)a, (__m512i)b)
#define TM_OWN_add_saturated_int8x64 ~, _mm512_adds_epi8((__m512i)a, (__m512i)b)
#define TM_OWN_subtract_saturated_int8x64 ~, _mm512_subs_epi8((__m512i)a, (__m512i)b)
#define TM_OWN_add_saturated_uint16x32 ~, _mm512_adds_epu16((__m512i)a, (__m512i)b)
#define TM_OWN_subtract_saturated_uint16x32 ~, _mm512_subs_epu16((__m512i)a, (__m512i)b)
#define TM_OWN_add_saturated_int16x32 ~, _mm512_adds_epi16((__m512i)a, (__m512i)b)
#define TM_OWN_subtract_saturated_int16x32 ~, _mm512_subs_epi16((__m512i)a, (__m512i)b)
#define TM_OWN_average_uint8x64 ~, _mm512_avg_epu8((__m512i)a, (__m512i)b)
#define TM_OWN_average_uint16x32 ~, _mm512_avg_epu16((__m512i)a, (__m512i)b)
#define TM_OWN_halves_uint32x16 ~, _mm512_mask_mov_epi16((__m512i)a, 0xaaaaaaaa, (__m512i)b)
#define TM_OWN_products_of_pairs_int32x16 ~, _mm512_madd_epi16((__m512i)a, (__m512i)b)
#define TM_OWN_min_float32x16 ~, TM_MASKED(min, _mm512, ps, __m512)
#define TM_OWN_max_float32x16 ~, TM_MASKED(max, _mm512, ps, __m512)
#define TM_OWN_min_float64x8 ~, TM_MASKED(min, _mm512, pd, __m512d)
#define TM_OWN_max_float64x8 ~, TM_MASKED(max, _mm512, pd, __m512d)
#define TM_OWN_uint8_to_16x32 ~, _mm512_cvtepu8_epi16((__m256i)a)
#define TM_OWN_uint8_to_32x16 ~, _mm512_cvtepu8_epi32((__m128i)a)
#define TM_OWN_uint8_to_64x8 ~, _mm512_cvtepu8_epi64(TM_FROM_8(a))
#define TM_OWN_int8_to_16x32 ~, _mm512_cvtepi8_epi16((__m256i)a)
#define TM_OWN_int8_to_32x16 ~, _mm512_cvtepi8_epi32((__m128i)a)
#define TM_OWN_int8_to_64x8 ~, _mm512_cvtepi8_epi64(TM_FROM_8(a))
#define TM_OWN_uint16_to_32x16 ~, _mm512_cvtepu16_epi32((__m256i)a)
#define TM_OWN_uint16_to_64x8 ~, _mm512_cvtepu16_epi64((__m128i)a)
#define TM_OWN_int16_to_32x16 ~, _mm512_cvtepi16_epi32((__m256i)a)
#define TM_OWN_int16_to_64x8 ~, _mm512_cvtepi16_epi64((__m128i)a)
#define TM_OWN_uint32_to_64x8 ~, _mm512_cvtepu32_epi64((__m256i)a)
#define TM_OWN_int32_to_64x8 ~, _mm512_cvtepi32_epi64((__m256i)a)
#define TM_OWN_int32_to_float64x8 ~, _mm512_cvtepi32_pd((__m256i)a)
#define TM_OWN_float32_to_float64x8 ~, _mm512_cvtps_pd((__m256)a)
#define TM_OWN_16_to_8x32 ~, _mm512_cvtepi16_epi8((__m512i)a)
#define TM_OWN_32_to_8x16 ~, _mm512_cvtepi32_epi8((__m512i)a)
#define TM_OWN_32_to_16x16 ~, _mm512_cvtepi32_epi16((__m512i)a)
#define TM_OWN_64_to_8x8 ~, TM_TO_8(_mm512_cvtepi64_epi8((__m512i)a))
#define TM_OWN_64_to_16x8 ~, _mm512_cvtepi64_epi16((__m512i)a)
#define TM_OWN_64_to_32x8 ~, _mm512_cvtepi64_epi32((__m512i)a)
#define TM_OWN_uint32_to_float64x8 ~, _mm512_cvtepu32_pd((__m256i)a)

/* to a narrower type, the ends of which stand for what it does not hold */
#define TM_OWN_saturated_int16_to_int8x32 ~, _mm512_cvtsepi16_epi8((__m512i)a)
#define TM_OWN_saturated_uint16_to_uint8x32 ~, _mm512_cvtusepi16_epi8((__m512i)a)
#define TM_OWN_saturated_int16_to_uint8x32 ~, \
  _mm512_cvtusepi16_epi8(_mm512_max_epi16((__m512i)a, _mm512_setzero_si512()))
#define TM_OWN_saturated_int16_to_int8x16 ~, _mm256_cvtsepi16_epi8((__m256i)a)
#define TM_OWN_saturated_uint16_to_uint8x16 ~, _mm256_cvtusepi16_epi8((__m256i)a)
#define TM_OWN_saturated_int16_to_uint8x16 ~, \
  _mm256_cvtusepi16_epi8(_mm256_max_epi16((__m256i)a, _mm256_setzero_si256()))
#define TM_OWN_saturated_int16_to_int8x8 ~, TM_TO_8(_mm_cvtsepi16_epi8((__m128i)a))
#define TM_OWN_saturated_uint16_to_uint8x8 ~, TM_TO_8(_mm_cvtusepi16_epi8((__m128i)a))
#define TM_OWN_saturated_int16_to_uint8x8 ~, \
  TM_TO_8(_mm_cvtusepi16_epi8(_mm_max_epi16((__m128i)a, _mm_setzero_si128())))
#define TM_OWN_saturated_int32_to_int8x16 ~, _mm512_cvtsepi32_epi8((__m512i)a)
#define TM_OWN_saturated_uint32_to_uint8x16 ~, _mm512_cvtusepi32_epi8((__m512i)a)
#define TM_OWN_saturated_int32_to_uint8x16 ~, \
  _mm512_cvtusepi32_epi8(_mm512_max_epi32((__m512i)a, _mm512_setzero_si512()))
#define TM_OWN_saturated_int32_to_int8x8 ~, TM_TO_8(_mm256_cvtsepi32_epi8((__m256i)a))
#define TM_OWN_saturated_uint32_to_uint8x8 ~, TM_TO_8(_mm256_cvtusepi32_epi8((__m256i)a))
#define TM_OWN_saturated_int32_to_uint8x8 ~, \
  TM_TO_8(_mm256_cvtusepi32_epi8(_mm256_max_epi32((__m256i)a, _mm256_setzero_si256())))
#define TM_OWN_saturated_int32_to_int8x4 ~, TM_TO_4(_mm_cvtsepi32_epi8((__m128i)a))
#define TM_OWN_saturated_uint32_to_uint8x4 ~, TM_TO_4(_mm_cvtusepi32_epi8((__m128i)a))
#define TM_OWN_saturated_int32_to_uint8x4 ~, \
  TM_TO_4(_mm_cvtusepi32_epi8(_mm_max_epi32((__m128i)a, _mm_setzero_si128())))
#define TM_OWN_saturated_int32_to_int16x16 ~, _mm512_cvtsepi32_epi16((__m512i)a)
#define TM_OWN_saturated_uint32_to_uint16x16 ~, _mm512_cvtusepi32_epi16((__m512i)a)
#define TM_OWN_saturated_int32_to_uint16x16 ~, \
  _mm512_cvtusepi32_epi16(_mm512_max_epi32((__m512i)a, _mm512_setzero_si512()))
#define TM_OWN_saturated_int32_to_int16x8 ~, _mm256_cvtsepi32_epi16((__m256i)a)
#define TM_OWN_saturated_uint32_to_uint16x8 ~, _mm256_cvtusepi32_epi16((__m256i)a)
#define TM_OWN_saturated_int32_to_uint16x8 ~, \
  _mm256_cvtusepi32_epi16(_mm256_max_epi32((__m256i)a, _mm256_setzero_si256()))
#define TM_OWN_saturated_int32_to_int16x4 ~, TM_TO_8(_mm_cvtsepi32_epi16((__m128i)a))
#define TM_OWN_saturated_uint32_to_uint16x4 ~, TM_TO_8(_mm_cvtusepi32_epi16((__m128i)a))
#define TM_OWN_saturated_int32_to_uint16x4 ~, \
  TM_TO_8(_mm_cvtusepi32_epi16(_mm_max_epi32((__m128i)a, _mm_setzero_si128())))
#define TM_OWN_saturated_int64_to_int8x8 ~, TM_TO_8(_mm512_cvtsepi64_epi8((__m512i)a))
#define TM_OWN_saturated_uint64_to_uint8x8 ~, TM_TO_8(_mm512_cvtusepi64_epi8((__m512i)a))
#define TM_OWN_saturated_int64_to_uint8x8 ~, \
  TM_TO_8(_mm512_cvtusepi64_epi8(_mm512_max_epi64((__m512i)a, _mm512_setzero_si512())))
#define TM_OWN_saturated_int64_to_int8x4 ~, TM_TO_4(_mm256_cvtsepi64_epi8((__m256i)a))
#define TM_OWN_saturated_uint64_to_uint8x4 ~, TM_TO_4(_mm256_cvtusepi64_epi8((__m256i)a))
#define TM_OWN_saturated_int64_to_uint8x4 ~, \
  TM_TO_4(_mm256_cvtusepi64_epi8(_mm256_max_epi64((__m256i)a, _mm256_setzero_si256())))
#define TM_OWN_saturated_int64_to_int16x8 ~, _mm512_cvtsepi64_epi16((__m512i)a)
#define TM_OWN_saturated_uint64_to_uint16x8 ~, _mm512_cvtusepi64_epi16((__m512i)a)
#define TM_OWN_saturated_int64_to_uint16x8 ~, \
  _mm512_cvtusepi64_epi16(_mm512_max_epi64((__m512i)a, _mm512_setzero_si512()))
#define TM_OWN_saturated_int64_to_int16x4 ~, TM_TO_8(_mm256_cvtsepi64_epi16((__m256i)a))
#define TM_OWN_saturated_uint64_to_uint16x4 ~, TM_TO_8(_mm256_cvtusepi64_epi16((__m256i)a))
#define TM_OWN_saturated_int64_to_uint16x4 ~, \
  TM_TO_8(_mm256_cvtusepi64_epi16(_mm256_max_epi64((__m256i)a, _mm256_setzero_si256())))
#define TM_OWN_saturated_int64_to_int32x8 ~, _mm512_cvtsepi64_epi32((__m512i)a)
#define TM_OWN_saturated_uint64_to_uint32x8 ~, _mm512_cvtusepi64_epi32((__m512i)a)
#define TM_OWN_saturated_int64_to_uint32x8 ~, \
  _mm512_cvtusepi64_epi32(_mm512_max_epi64((__m512i)a, _mm512_setzero_si512()))
#define TM_OWN_saturated_int64_to_int32x4 ~, _mm256_cvtsepi64_epi32((__m256i)a)
#define TM_OWN_saturated_uint64_to_uint32x4 ~, _mm256_cvtusepi64_epi32((__m256i)a)
#define TM_OWN_saturated_int64_to_uint32x4 ~, \
  _mm256_cvtusepi64_epi32(_mm256_max_epi64((__m256i)a, _mm256_setzero_si256()))

/* shifts by another count in each lane, and bits that are 1 */
#define TM_OWN_shift_left_int16x32 ~, _mm512_sllv_epi16((__m512i)a, (__m512i)b)
#define TM_OWN_shift_right_int16x32 ~, _mm512_srav_epi16((__m512i)a, (__m512i)b)
#define TM_OWN_shift_left_uint16x32 ~, _mm512_sllv_epi16((__m512i)a, (__m512i)b)
#define TM_OWN_shift_right_uint16x32 ~, _mm512_srlv_epi16((__m512i)a, (__m512i)b)
#define TM_OWN_shift_left_int32x16 ~, _mm512_sllv_epi32((__m512i)a, (__m512i)b)
#define TM_OWN_shift_right_int32x16 ~, _mm512_srav_epi32((__m512i)a, (__m512i)b)
#define TM_OWN_shift_left_uint32x16 ~, _mm512_sllv_epi32((__m512i)a, (__m512i)b)
#define TM_OWN_shift_right_uint32x16 ~, _mm512_srlv_epi32((__m512i)a, (__m512i)b)
#define TM_OWN_shift_left_int64x8 ~, _mm512_sllv_epi64((__m512i)a, (__m512i)b)
#define TM_OWN_shift_right_int64x8 ~, _mm512_srav_epi64((__m512i)a, (__m512i)b)
#define TM_OWN_shift_left_uint64x8 ~, _mm512_sllv_epi64((__m512i)a, (__m512i)b)
#define TM_OWN_shift_right_uint64x8 ~, _mm512_srlv_epi64((__m512i)a, (__m512i)b)
#define TM_OWN_shift_left_int16x16 ~, _mm256_sllv_epi16((__m256i)a, (__m256i)b)
#define TM_OWN_shift_right_int16x16 ~, _mm256_srav_epi16((__m256i)a, (__m256i)b)
#define TM_OWN_shift_left_uint16x16 ~, _mm256_sllv_epi16((__m256i)a, (__m256i)b)
#define TM_OWN_shift_right_uint16x16 ~, _mm256_srlv_epi16((__m256i)a, (__m256i)b)
#define TM_OWN_shift_left_int32x8 ~, _mm256_sllv_epi32((__m256i)a, (__m256i)b)
#define TM_OWN_shift_right_int32x8 ~, _mm256_srav_epi32((__m256i)a, (__m256i)b)
#define TM_OWN_shift_left_uint32x8 ~, _mm256_sllv_epi32((__m256i)a, (__m256i)b)
#define TM_OWN_shift_right_uint32x8 ~, _mm256_srlv_epi32((__m256i)a, (__m256i)b)
#define TM_OWN_shift_left_int64x4 ~, _mm256_sllv_epi64((__m256i)a, (__m256i)b)
#define TM_OWN_shift_right_int64x4 ~, _mm256_srav_epi64((__m256i)a, (__m256i)b)
#define TM_OWN_shift_left_uint64x4 ~, _mm256_sllv_epi64((__m256i)a, (__m256i)b)
#define TM_OWN_shift_right_uint64x4 ~, _mm256_srlv_epi64((__m256i)a, (__m256i)b)
#define TM_OWN_shift_left_int16x8 ~, _mm_sllv_epi16((__m128i)a, (__m128i)b)
#define TM_OWN_shift_right_int16x8 ~, _mm_srav_epi16((__m128i)a, (__m128i)b)
#define TM_OWN_shift_left_uint16x8 ~, _mm_sllv_epi16((__m128i)a, (__m128i)b)
#define TM_OWN_shift_right_uint16x8 ~, _mm_srlv_epi16((__m128i)a, (__m128i)b)
#define TM_OWN_shift_left_int32x4 ~, _mm_sllv_epi32((__m128i)a, (__m128i)b)
#define TM_OWN_shift_right_int32x4 ~, _mm_srav_epi32((__m128i)a, (__m128i)b)
#define TM_OWN_shift_left_uint32x4 ~, _mm_sllv_epi32((__m128i)a, (__m128i)b)
#define TM_OWN_shift_right_uint32x4 ~, _mm_srlv_epi32((__m128i)a, (__m128i)b)
#define TM_OWN_shift_left_int64x2 ~, _mm_sllv_epi64((__m128i)a, (__m128i)b)
#define TM_OWN_shift_right_int64x2 ~, _mm_srav_epi64((__m128i)a, (__m128i)b)
#define TM_OWN_shift_left_uint64x2 ~, _mm_sllv_epi64((__m128i)a, (__m128i)b)
#define TM_OWN_shift_right_uint64x2 ~, _mm_srlv_epi64((__m128i)a, (__m128i)b)
#ifdef __AVX512BITALG__
#define TM_OWN_popcount_int8x64 ~, _mm512_popcnt_epi8((__m512i)a)
#define TM_OWN_popcount_uint8x64 ~, _mm512_popcnt_epi8((__m512i)a)
#define TM_OWN_popcount_int16x32 ~, _mm512_popcnt_epi16((__m512i)a)
#define TM_OWN_popcount_uint16x32 ~, _mm512_popcnt_epi16((__m512i)a)
#define TM_OWN_popcount_int8x32 ~, _mm256_popcnt_epi8((__m256i)a)
#define TM_OWN_popcount_uint8x32 ~, _mm256_popcnt_epi8((__m256i)a)
#define TM_OWN_popcount_int16x16 ~, _mm256_popcnt_epi16((__m256i)a)
#define TM_OWN_popcount_uint16x16 ~, _mm256_popcnt_epi16((__m256i)a)
#define TM_OWN_popcount_int8x16 ~, _mm_popcnt_epi8((__m128i)a)
#define TM_OWN_popcount_uint8x16 ~, _mm_popcnt_epi8((__m128i)a)
#define TM_OWN_popcount_int16x8 ~, _mm_popcnt_epi16((__m128i)a)
#define TM_OWN_popcount_uint16x8 ~, _mm_popcnt_epi16((__m128i)a)
#endif
#ifdef __AVX512VPOPCNTDQ__
#define TM_OWN_popcount_int32x16 ~, _mm512_popcnt_epi32((__m512i)a)
#define TM_OWN_popcount_uint32x16 ~, _mm512_popcnt_epi32((__m512i)a)
#define TM_OWN_popcount_int64x8 ~, _mm512_popcnt_epi64((__m512i)a)
#define TM_OWN_popcount_uint64x8 ~, _mm512_popcnt_epi64((__m512i)a)
#define TM_OWN_popcount_int32x8 ~, _mm256_popcnt_epi32((__m256i)a)
#define TM_OWN_popcount_uint32x8 ~, _mm256_popcnt_epi32((__m256i)a)
#define TM_OWN_popcount_int64x4 ~, _mm256_popcnt_epi64((__m256i)a)
#define TM_OWN_popcount_uint64x4 ~, _mm256_popcnt_epi64((__m256i)a)
#define TM_OWN_popcount_int32x4 ~, _mm_popcnt_epi32((__m128i)a)
#define TM_OWN_popcount_uint32x4 ~, _mm_popcnt_epi32((__m128i)a)
#define TM_OWN_popcount_int64x2 ~, _mm_popcnt_epi64((__m128i)a)
#define TM_OWN_popcount_uint64x2 ~, _mm_popcnt_epi64((__m128i)a)
#endif

/* shorter vectors, with masks and narrowing */
#define TM_OWN_min_uint64x4 ~, _mm256_min_epu64((__m256i)a, (__m256i)b)
#define TM_OWN_min_int64x4 ~, _mm256_min_epi64((__m256i)a, (__m256i)b)
#define TM_OWN_max_uint64x4 ~, _mm256_max_epu64((__m256i)a, (__m256i)b)
#define TM_OWN_max_int64x4 ~, _mm256_max_epi64((__m256i)a, (__m256i)b)
#define TM_OWN_min_uint64x2 ~, _mm_min_epu64((__m128i)a, (__m128i)b)
#define TM_OWN_min_int64x2 ~, _mm_min_epi64((__m128i)a, (__m128i)b)
#define TM_OWN_max_uint64x2 ~, _mm_max_epu64((__m128i)a, (__m128i)b)
#define TM_OWN_max_int64x2 ~, _mm_max_epi64((__m128i)a, (__m128i)b)
#define TM_OWN_min_float32x8 ~, TM_MASKED(min, _mm256, ps, __m256)
#define TM_OWN_max_float32x8 ~, TM_MASKED(max, _mm256, ps, __m256)
#define TM_OWN_min_float64x4 ~, TM_MASKED(min, _mm256, pd, __m256d)
#define TM_OWN_max_float64x4 ~, TM_MASKED(max, _mm256, pd, __m256d)
#define TM_OWN_min_float32x4 ~, TM_MASKED(min, _mm, ps, __m128)
#define TM_OWN_max_float32x4 ~, TM_MASKED(max, _mm, ps, __m128)
#define TM_OWN_min_float64x2 ~, TM_MASKED(min, _mm, pd, __m128d)
#define TM_OWN_max_float64x2 ~, TM_MASKED(max, _mm, pd, __m128d)
#define TM_OWN_16_to_8x16 ~, _mm256_cvtepi16_epi8((__m256i)a)
#define TM_OWN_32_to_8x8 ~, TM_TO_8(_mm256_cvtepi32_epi8((__m256i)a))
#define TM_OWN_32_to_16x8 ~, _mm256_cvtepi32_epi16((__m256i)a)
#define TM_OWN_64_to_8x4 ~, TM_TO_4(_mm256_cvtepi64_epi8((__m256i)a))
#define TM_OWN_64_to_16x4 ~, TM_TO_8(_mm256_cvtepi64_epi16((__m256i)a))
#define TM_OWN_64_to_32x4 ~, _mm256_cvtepi64_epi32((__m256i)a)
#define TM_OWN_16_to_8x8 ~, TM_TO_8(_mm_cvtepi16_epi8((__m128i)a))
#define TM_OWN_32_to_8x4 ~, TM_TO_4(_mm_cvtepi32_epi8((__m128i)a))
#define TM_OWN_32_to_16x4 ~, TM_TO_8(_mm_cvtepi32_epi16((__m128i)a))
#define TM_OWN_64_to_16x2 ~, TM_TO_4(_mm_cvtepi64_epi16((__m128i)a))
#define TM_OWN_64_to_32x2 ~, TM_TO_8(_mm_cvtepi64_epi32((__m128i)a))

#elif defined(__SSE4_1__)

#ifdef __AVX2__
#define TM_OWN_min_int64x4 ~, TM_LARGER_256(b, a, 0)
#define TM_OWN_min_uint64x4 ~, TM_LARGER_256(b, a, INT64_MIN)
#define TM_OWN_max_int64x4 ~, TM_LARGER_256(a, b, 0)
#define TM_OWN_max_uint64x4 ~, TM_LARGER_256(a, b, INT64_MIN)
#define TM_OWN_64_to_8x4 ~, TM_TO_4(_mm_shuffle_epi8(TM_HALVES_OF_4(a), TM_EVERY_4TH))
#define TM_OWN_64_to_16x4 ~, TM_TO_8(_mm_shuffle_epi8(TM_HALVES_OF_4(a), TM_EVERY_2ND_16))
#define TM_OWN_min_float32x8 ~, TM_BLENDED_256(min, ps, __m256)
#define TM_OWN_max_float32x8 ~, TM_BLENDED_256(max, ps, __m256)
#define TM_OWN_min_float64x4 ~, TM_BLENDED_256(min, pd, __m256d)
#define TM_OWN_max_float64x4 ~, TM_BLENDED_256(max, pd, __m256d)
#define TM_OWN_16_to_8x16 ~, \
  TM_LOW(_mm256_permute4x64_epi64(_mm256_shuffle_epi8((__m256i)a, TM_TWICE(TM_EVERY_2ND)), 8))
#define TM_OWN_32_to_16x8 ~, \
  TM_LOW(_mm256_permute4x64_epi64(_mm256_shuffle_epi8((__m256i)a, TM_TWICE(TM_EVERY_2ND_16)), 8))
#define TM_OWN_32_to_8x8 ~, \
  TM_TO_8(TM_LOW(_mm256_permutevar8x32_epi32(_mm256_shuffle_epi8((__m256i)a, TM_TWICE(TM_EVERY_4TH)), \
                                             _mm256_setr_epi32(0, 4, 0, 0, 0, 0, 0, 0))))
#define TM_OWN_64_to_32x4 ~, TM_HALVES_OF_4(a)
#define TM_OWN_shift_left_int32x8 ~, _mm256_sllv_epi32((__m256i)a, (__m256i)b)
#define TM_OWN_shift_right_int32x8 ~, _mm256_srav_epi32((__m256i)a, (__m256i)b)
#define TM_OWN_shift_left_uint32x8 ~, _mm256_sllv_epi32((__m256i)a, (__m256i)b)
#define TM_OWN_shift_right_uint32x8 ~, _mm256_srlv_epi32((__m256i)a, (__m256i)b)
#define TM_OWN_shift_left_int64x4 ~, _mm256_sllv_epi64((__m256i)a, (__m256i)b)
#define TM_OWN_shift_left_uint64x4 ~, _mm256_sllv_epi64((__m256i)a, (__m256i)b)
#define TM_OWN_shift_right_uint64x4 ~, _mm256_srlv_epi64((__m256i)a, (__m256i)b)
#define TM_OWN_shift_left_int32x4 ~, _mm_sllv_epi32((__m128i)a, (__m128i)b)
#define TM_OWN_shift_right_int32x4 ~, _mm_srav_epi32((__m128i)a, (__m128i)b)
#define TM_OWN_shift_left_uint32x4 ~, _mm_sllv_epi32((__m128i)a, (__m128i)b)
#define TM_OWN_shift_right_uint32x4 ~, _mm_srlv_epi32((__m128i)a, (__m128i)b)
#define TM_OWN_shift_left_int64x2 ~, _mm_sllv_epi64((__m128i)a, (__m128i)b)
#define TM_OWN_shift_left_uint64x2 ~, _mm_sllv_epi64((__m128i)a, (__m128i)b)
#define TM_OWN_shift_right_uint64x2 ~, _mm_srlv_epi64((__m128i)a, (__m128i)b)
#define TM_OWN_saturated_int16_to_uint8x16 ~, _mm_packus_epi16(TM_LOW((__m256i)a), TM_HIGH(a))
#define TM_OWN_saturated_int16_to_int8x16 ~, _mm_packs_epi16(TM_LOW((__m256i)a), TM_HIGH(a))
#define TM_OWN_saturated_int32_to_uint16x8 ~, _mm_packus_epi32(TM_LOW((__m256i)a), TM_HIGH(a))
#define TM_OWN_saturated_int32_to_int16x8 ~, _mm_packs_epi32(TM_LOW((__m256i)a), TM_HIGH(a))
#define TM_OWN_saturated_int32_to_uint8x8 ~, TM_TO_8(_mm_packus_epi16(TM_PACKED(a), TM_PACKED(a)))
#define TM_OWN_saturated_int32_to_int8x8 ~, TM_TO_8(_mm_packs_epi16(TM_PACKED(a), TM_PACKED(a)))
#endif
#define TM_OWN_saturated_int32_to_uint16x4 ~, TM_TO_8(_mm_packus_epi32((__m128i)a, (__m128i)a))
#ifdef __SSE4_2__
#define TM_OWN_min_int64x2 ~, TM_LARGER(b, a, 0)
#define TM_OWN_min_uint64x2 ~, TM_LARGER(b, a, INT64_MIN)
#define TM_OWN_max_int64x2 ~, TM_LARGER(a, b, 0)
#define TM_OWN_max_uint64x2 ~, TM_LARGER(a, b, INT64_MIN)
#endif
#define TM_OWN_min_float32x4 ~, TM_BLENDED(min, ps, __m128)
#define TM_OWN_max_float32x4 ~, TM_BLENDED(max, ps, __m128)
#define TM_OWN_min_float64x2 ~, TM_BLENDED(min, pd, __m128d)
#define TM_OWN_max_float64x2 ~, TM_BLENDED(max, pd, __m128d)
#define TM_OWN_16_to_8x8 ~, TM_TO_8(_mm_shuffle_epi8((__m128i)a, TM_EVERY_2ND))
#define TM_OWN_32_to_16x4 ~, TM_TO_8(_mm_shuffle_epi8((__m128i)a, TM_EVERY_2ND_16))
#define TM_OWN_32_to_8x4 ~, TM_TO_4(_mm_shuffle_epi8((__m128i)a, TM_EVERY_4TH))

#endif

#ifdef __AVX2__
#define TM_OWN_add_saturated_uint8x32 ~, _mm256_adds_epu8((__m256i)a, (__m256i)b)
#define TM_OWN_subtract_saturated_uint8x32 ~, _mm256_subs_epu8((__m256i)a, (__m256i)b)
#define TM_OWN_add_saturated_int8x32 ~, _mm256_adds_epi8((__m256i)a, (__m256i)b)
#define TM_OWN_subtract_saturated_int8x32 ~, _mm256_subs_epi8((__m256i)a, (__m256i)b)
#define TM_OWN_add_saturated_uint16x16 ~, _mm256_adds_epu16((__m256i)a, (__m256i)b)
#define TM_OWN_subtract_saturated_uint16x16 ~, _mm256_subs_epu16((__m256i)a, (__m256i)b)
#define TM_OWN_add_saturated_int16x16 ~, _mm256_adds_epi16((__m256i)a, (__m256i)b)
#define TM_OWN_subtract_saturated_int16x16 ~, _mm256_subs_epi16((__m256i)a, (__m256i)b)
#define TM_OWN_average_uint8x32 ~, _mm256_avg_epu8((__m256i)a, (__m256i)b)
#define TM_OWN_average_uint16x16 ~, _mm256_avg_epu16((__m256i)a, (__m256i)b)
#define TM_OWN_halves_uint32x8 ~, _mm256_blend_epi16((__m256i)a, (__m256i)b, 0xaa)
#define TM_OWN_products_of_pairs_int32x8 ~, _mm256_madd_epi16((__m256i)a, (__m256i)b)
#define TM_OWN_min_uint8x32 ~, _mm256_min_epu8((__m256i)a, (__m256i)b)
#define TM_OWN_min_int8x32 ~, _mm256_min_epi8((__m256i)a, (__m256i)b)
#define TM_OWN_min_uint16x16 ~, _mm256_min_epu16((__m256i)a, (__m256i)b)
#define TM_OWN_min_int16x16 ~, _mm256_min_epi16((__m256i)a, (__m256i)b)
#define TM_OWN_min_uint32x8 ~, _mm256_min_epu32((__m256i)a, (__m256i)b)
#define TM_OWN_min_int32x8 ~, _mm256_min_epi32((__m256i)a, (__m256i)b)
#define TM_OWN_max_uint8x32 ~, _mm256_max_epu8((__m256i)a, (__m256i)b)
#define TM_OWN_max_int8x32 ~, _mm256_max_epi8((__m256i)a, (__m256i)b)
#define TM_OWN_max_uint16x16 ~, _mm256_max_epu16((__m256i)a, (__m256i)b)
#define TM_OWN_max_int16x16 ~, _mm256_max_epi16((__m256i)a, (__m256i)b)
#define TM_OWN_max_uint32x8 ~, _mm256_max_epu32((__m256i)a, (__m256i)b)
#define TM_OWN_max_int32x8 ~, _mm256_max_epi32((__m256i)a, (__m256i)b)
#define TM_OWN_uint8_to_16x16 ~, _mm256_cvtepu8_epi16((__m128i)a)
#define TM_OWN_uint8_to_32x8 ~, _mm256_cvtepu8_epi32(TM_FROM_8(a))
#define TM_OWN_uint8_to_64x4 ~, _mm256_cvtepu8_epi64(TM_FROM_4(a))
#define TM_OWN_int8_to_16x16 ~, _mm256_cvtepi8_epi16((__m128i)a)
#define TM_OWN_int8_to_32x8 ~, _mm256_cvtepi8_epi32(TM_FROM_8(a))
#define TM_OWN_int8_to_64x4 ~, _mm256_cvtepi8_epi64(TM_FROM_4(a))
#define TM_OWN_uint16_to_32x8 ~, _mm256_cvtepu16_epi32((__m128i)a)
#define TM_OWN_uint16_to_64x4 ~, _mm256_cvtepu16_epi64(TM_FROM_8(a))
#define TM_OWN_int16_to_32x8 ~, _mm256_cvtepi16_epi32((__m128i)a)
#define TM_OWN_int16_to_64x4 ~, _mm256_cvtepi16_epi64(TM_FROM_8(a))
#define TM_OWN_uint32_to_64x4 ~, _mm256_cvtepu32_epi64((__m128i)a)
#define TM_OWN_int32_to_64x4 ~, _mm256_cvtepi32_epi64((__m128i)a)
#define TM_OWN_int32_to_float64x4 ~, _mm256_cvtepi32_pd((__m128i)a)
#define TM_OWN_float32_to_float64x4 ~, _mm256_cvtps_pd((__m128)a)
#endif

#ifdef __SSE4_1__
#define TM_OWN_uint8_to_16x8 ~, _mm_cvtepu8_epi16(TM_FROM_8(a))
#define TM_OWN_uint8_to_32x4 ~, _mm_cvtepu8_epi32(TM_FROM_4(a))
#define TM_OWN_int8_to_16x8 ~, _mm_cvtepi8_epi16(TM_FROM_8(a))
#define TM_OWN_int8_to_32x4 ~, _mm_cvtepi8_epi32(TM_FROM_4(a))
#define TM_OWN_uint16_to_32x4 ~, _mm_cvtepu16_epi32(TM_FROM_8(a))
#define TM_OWN_uint16_to_64x2 ~, _mm_cvtepu16_epi64(TM_FROM_4(a))
#define TM_OWN_int16_to_32x4 ~, _mm_cvtepi16_epi32(TM_FROM_8(a))
#define TM_OWN_int16_to_64x2 ~, _mm_cvtepi16_epi64(TM_FROM_4(a))
#define TM_OWN_uint32_to_64x2 ~, _mm_cvtepu32_epi64(TM_FROM_8(a))
#define TM_OWN_int32_to_64x2 ~, _mm_cvtepi32_epi64(TM_FROM_8(a))
#define TM_OWN_int32_to_float64x2 ~, _mm_cvtepi32_pd(TM_FROM_8(a))
#define TM_OWN_float32_to_float64x2 ~, _mm_cvtps_pd((__m128)TM_FROM_8(a))
#define TM_OWN_min_int8x16 ~, _mm_min_epi8((__m128i)a, (__m128i)b)
#define TM_OWN_min_uint16x8 ~, _mm_min_epu16((__m128i)a, (__m128i)b)
#define TM_OWN_halves_uint32x4 ~, _mm_blend_epi16((__m128i)a, (__m128i)b, 0xaa)
#define TM_OWN_min_uint32x4 ~, _mm_min_epu32((__m128i)a, (__m128i)b)
#define TM_OWN_min_int32x4 ~, _mm_min_epi32((__m128i)a, (__m128i)b)
#define TM_OWN_max_int8x16 ~, _mm_max_epi8((__m128i)a, (__m128i)b)
#define TM_OWN_max_uint16x8 ~, _mm_max_epu16((__m128i)a, (__m128i)b)
#define TM_OWN_max_uint32x4 ~, _mm_max_epu32((__m128i)a, (__m128i)b)
#define TM_OWN_max_int32x4 ~, _mm_max_epi32((__m128i)a, (__m128i)b)
#define TM_OWN_min_int8x8 ~, TM_TO_8(_mm_min_epi8(TM_FROM_8(a), TM_FROM_8(b)))
#define TM_OWN_min_uint16x4 ~, TM_TO_8(_mm_min_epu16(TM_FROM_8(a), TM_FROM_8(b)))
#define TM_OWN_min_uint32x2 ~, TM_TO_8(_mm_min_epu32(TM_FROM_8(a), TM_FROM_8(b)))
#define TM_OWN_min_int32x2 ~, TM_TO_8(_mm_min_epi32(TM_FROM_8(a), TM_FROM_8(b)))
#define TM_OWN_max_int8x8 ~, TM_TO_8(_mm_max_epi8(TM_FROM_8(a), TM_FROM_8(b)))
#define TM_OWN_max_uint16x4 ~, TM_TO_8(_mm_max_epu16(TM_FROM_8(a), TM_FROM_8(b)))
#define TM_OWN_max_uint32x2 ~, TM_TO_8(_mm_max_epu32(TM_FROM_8(a), TM_FROM_8(b)))
#define TM_OWN_max_int32x2 ~, TM_TO_8(_mm_max_epi32(TM_FROM_8(a), TM_FROM_8(b)))
#endif

#if defined(__SSE2__) && !(defined(__AVX512BW__) && defined(__AVX512DQ__) && defined(__AVX512VL__))
#define TM_OWN_saturated_int16_to_uint8x8 ~, TM_TO_8(_mm_packus_epi16((__m128i)a, (__m128i)a))
#define TM_OWN_saturated_int16_to_int8x8 ~, TM_TO_8(_mm_packs_epi16((__m128i)a, (__m128i)a))
#define TM_OWN_saturated_int32_to_int16x4 ~, TM_TO_8(_mm_packs_epi32((__m128i)a, (__m128i)a))
#endif

/* The first of two floats where it is less, or more, and else the second. */
#ifdef __AVX512F__
#define TM_OWN_less_float32x16 ~, _mm512_min_ps((__m512)a, (__m512)b)
#define TM_OWN_more_float32x16 ~, _mm512_max_ps((__m512)a, (__m512)b)
#define TM_OWN_less_float64x8 ~, _mm512_min_pd((__m512d)a, (__m512d)b)
#define TM_OWN_more_float64x8 ~, _mm512_max_pd((__m512d)a, (__m512d)b)
#endif
#ifdef __AVX__
#define TM_OWN_less_float32x8 ~, _mm256_min_ps((__m256)a, (__m256)b)
#define TM_OWN_more_float32x8 ~, _mm256_max_ps((__m256)a, (__m256)b)
#define TM_OWN_less_float64x4 ~, _mm256_min_pd((__m256d)a, (__m256d)b)
#define TM_OWN_more_float64x4 ~, _mm256_max_pd((__m256d)a, (__m256d)b)
#endif
#ifdef __SSE2__
#define TM_OWN_less_float32x4 ~, _mm_min_ps((__m128)a, (__m128)b)
#define TM_OWN_more_float32x4 ~, _mm_max_ps((__m128)a, (__m128)b)
#define TM_OWN_less_float64x2 ~, _mm_min_pd((__m128d)a, (__m128d)b)
#define TM_OWN_more_float64x2 ~, _mm_max_pd((__m128d)a, (__m128d)b)
#endif

#ifdef __SSE2__
#define TM_OWN_add_saturated_uint8x16 ~, _mm_adds_epu8((__m128i)a, (__m128i)b)
#define TM_OWN_subtract_saturated_uint8x16 ~, _mm_subs_epu8((__m128i)a, (__m128i)b)
#define TM_OWN_add_saturated_int8x16 ~, _mm_adds_epi8((__m128i)a, (__m128i)b)
#define TM_OWN_subtract_saturated_int8x16 ~, _mm_subs_epi8((__m128i)a, (__m128i)b)
#define TM_OWN_add_saturated_uint16x8 ~, _mm_adds_epu16((__m128i)a, (__m128i)b)
#define TM_OWN_subtract_saturated_uint16x8 ~, _mm_subs_epu16((__m128i)a, (__m128i)b)
#define TM_OWN_add_saturated_int16x8 ~, _mm_adds_epi16((__m128i)a, (__m128i)b)
#define TM_OWN_subtract_saturated_int16x8 ~, _mm_subs_epi16((__m128i)a, (__m128i)b)
#define TM_OWN_average_uint8x16 ~, _mm_avg_epu8((__m128i)a, (__m128i)b)
#define TM_OWN_average_uint16x8 ~, _mm_avg_epu16((__m128i)a, (__m128i)b)
#define TM_OWN_products_of_pairs_int32x4 ~, _mm_madd_epi16((__m128i)a, (__m128i)b)
#define TM_OWN_min_uint8x16 ~, _mm_min_epu8((__m128i)a, (__m128i)b)
#define TM_OWN_min_int16x8 ~, _mm_min_epi16((__m128i)a, (__m128i)b)
#define TM_OWN_max_uint8x16 ~, _mm_max_epu8((__m128i)a, (__m128i)b)
#define TM_OWN_max_int16x8 ~, _mm_max_epi16((__m128i)a, (__m128i)b)
#define TM_OWN_add_saturated_uint8x8 ~, TM_TO_8(_mm_adds_epu8(TM_FROM_8(a), TM_FROM_8(b)))
#define TM_OWN_subtract_saturated_uint8x8 ~, TM_TO_8(_mm_subs_epu8(TM_FROM_8(a), TM_FROM_8(b)))
#define TM_OWN_add_saturated_int8x8 ~, TM_TO_8(_mm_adds_epi8(TM_FROM_8(a), TM_FROM_8(b)))
#define TM_OWN_subtract_saturated_int8x8 ~, TM_TO_8(_mm_subs_epi8(TM_FROM_8(a), TM_FROM_8(b)))
#define TM_OWN_add_saturated_uint16x4 ~, TM_TO_8(_mm_adds_epu16(TM_FROM_8(a), TM_FROM_8(b)))
#define TM_OWN_subtract_saturated_uint16x4 ~, TM_TO_8(_mm_subs_epu16(TM_FROM_8(a), TM_FROM_8(b)))
#define TM_OWN_add_saturated_int16x4 ~, TM_TO_8(_mm_adds_epi16(TM_FROM_8(a), TM_FROM_8(b)))
#define TM_OWN_subtract_saturated_int16x4 ~, TM_TO_8(_mm_subs_epi16(TM_FROM_8(a), TM_FROM_8(b)))
#define TM_OWN_average_uint8x8 ~, TM_TO_8(_mm_avg_epu8(TM_FROM_8(a), TM_FROM_8(b)))
#define TM_OWN_average_uint16x4 ~, TM_TO_8(_mm_avg_epu16(TM_FROM_8(a), TM_FROM_8(b)))
#define TM_OWN_min_uint8x8 ~, TM_TO_8(_mm_min_epu8(TM_FROM_8(a), TM_FROM_8(b)))
#define TM_OWN_min_int16x4 ~, TM_TO_8(_mm_min_epi16(TM_FROM_8(a), TM_FROM_8(b)))
#define TM_OWN_max_uint8x8 ~, TM_TO_8(_mm_max_epu8(TM_FROM_8(a), TM_FROM_8(b)))
#define TM_OWN_max_int16x4 ~, TM_TO_8(_mm_max_epi16(TM_FROM_8(a), TM_FROM_8(b)))
#endif

/* Unsigned elements `stride` apart, made wider, which one permutation does. Nothing after the last of them is read. */
#ifdef __AVX512BW__
TM_SHUFFLE __m512i tm_first_bytes(uintptr_t place, int64_t bytes) {
  /* Out of the caches masked loads are slow: what is read is not fetched in advance. */
  if (bytes >= 64) return _mm512_loadu_si512((const void *)place);
  if (bytes == 48) {
    const __m256i most = _mm256_loadu_si256((const void *)place);
    const __m256i rest = _mm256_zextsi128_si256(_mm_loadu_si128((const void *)(place + 32)));
    return _mm512_inserti64x4(_mm512_castsi256_si512(most), rest, 1);
  }
  if (bytes == 32) return _mm512_zextsi256_si512(_mm256_loadu_si256((const void *)place));
  const __mmask64 mask = bytes <= 0 ? 0 : bytes >= 64 ? ~UINT64_C(0) : ~UINT64_C(0) >> (64 - bytes);
  return _mm512_maskz_loadu_epi8(mask, (const void *)place);
}
#define TM_PLACES(lanes) ((__m512i)((__typeof__(result)){TM_RAMP_##lanes} * stride))
#define TM_HEAD(bytes) tm_first_bytes((uintptr_t)place, bytes)
#define TM_NEXT(bytes) tm_first_bytes((uintptr_t)place + 64, (bytes) - 64)
#define TM_OWN_strided_uint16_to_32x16 ~, \
  _mm512_maskz_permutex2var_epi16(0x55555555, TM_HEAD(30 * stride + 2), TM_PLACES(16), TM_NEXT(30 * stride + 2))
#ifdef __AVX512VBMI__
/* Bytes `at` and `at` + 1 of each `stride`, times the weights in the halves of each element of w, added up. */
TM_SHUFFLE __m512i tm_dot_of_2(__m512i bytes, int stride, int at, int w0, int w1) {
  typedef int16_t places __attribute__((vector_size(64)));
  const places lane = {TM_RAMP_32}, from = (lane >> 1) * (int16_t)stride + (lane & 1) + (int16_t)at;
  const __m512i pairs = _mm512_maskz_permutexvar_epi8(0x5555555555555555, (__m512i)from, bytes);
  return _mm512_madd_epi16(pairs, _mm512_set1_epi32((int)((uint32_t)w1 << 16 | (uint16_t)w0)));
}
TM_SHUFFLE __m512i tm_dot(__m512i bytes, int stride, int count, int w0, int w1, int w2, int w3) {
  const __m512i sum = tm_dot_of_2(bytes, stride, 0, w0, w1);
  return count == 2 ? sum : _mm512_add_epi32(sum, tm_dot_of_2(bytes, stride, 2, w2, w3));
}
#define TM_OWN_strided_uint8_to_32x16 ~, \
  _mm512_maskz_permutexvar_epi8(0x1111111111111111, TM_PLACES(16), TM_HEAD(15 * stride + 1))
#define TM_OWN_dot_uint8_to_32x16 ~, \
  tm_dot(tm_first_bytes((uintptr_t)place, 15 * stride + count), stride, count, w0, w1, w2, w3)
#define TM_OWN_strided_uint8_to_16x32 ~, \
  _mm512_maskz_permutex2var_epi8(0x5555555555555555, TM_HEAD(31 * stride + 1), TM_PLACES(32), TM_NEXT(31 * stride + 1))
#endif
#endif

#ifdef __AVX2__
/* The same for 8 lanes: two loads of 16 bytes, the second of which ends with the last byte weighted. */
TM_SHUFFLE __m256i tm_dot_8_of_2(__m256i bytes, int stride, int at, int later, int w0, int w1) {
  typedef int16_t places __attribute__((vector_size(32)));
  const places lane = {TM_RAMP_16}, pixel = (lane >> 1) & 3, upper = lane >> 3;
  const places from = pixel * (int16_t)stride + (lane & 1) + (int16_t)at + upper * (int16_t)later;
  const __m256i pairs = _mm256_shuffle_epi8(bytes, (__m256i)((from & 15) | INT16_MIN));
  return _mm256_madd_epi16(pairs, _mm256_set1_epi32((int)((uint32_t)w1 << 16 | (uint16_t)w0)));
}
TM_SHUFFLE __m256i tm_dot_8(const uint8_t *place, int stride, int count, int w0, int w1, int w2, int w3) {
  const int all = 7 * stride + count, later = 4 * stride - (all - 16);
  const __m128i low = _mm_loadu_si128((const __m128i_u *)place);
  const __m128i high = _mm_loadu_si128((const __m128i_u *)(place + all - 16));
  const __m256i bytes = _mm256_inserti128_si256(_mm256_castsi128_si256(low), high, 1);
  const __m256i sum = tm_dot_8_of_2(bytes, stride, 0, later, w0, w1);
  return count == 2 ? sum : _mm256_add_epi32(sum, tm_dot_8_of_2(bytes, stride, 2, later, w2, w3));
}
/* Bytes `stride` apart made wider: 8 lanes of 4 bytes, of which each half is in one load, or 16 of 2, in one or two. */
TM_SHUFFLE __m256i tm_two_loads(const uint8_t *place, const uint8_t *upper, int bytes) {
  const __m128i low = bytes < 16 ? _mm_loadl_epi64((const __m128i *)place) : _mm_loadu_si128((const __m128i_u *)place);
  const __m128i high = bytes < 16 ? _mm_loadl_epi64((const __m128i *)upper) : _mm_loadu_si128((const __m128i_u *)upper);
  return _mm256_inserti128_si256(_mm256_castsi128_si256(low), high, 1);
}
TM_SHUFFLE __m256i tm_strided_8(const uint8_t *place, int stride) {
  typedef int32_t places __attribute__((vector_size(32)));
  const places lane = {TM_RAMP_8}, upper = lane >> 2;
  const int all = 7 * stride + 1, size = all < 16 ? 8 : 16;
  const places from = lane * stride - upper * (all - size);
  return _mm256_shuffle_epi8(tm_two_loads(place, place + all - size, size), (__m256i)(from | (int32_t)0x80808000));
}
TM_SHUFFLE __m256i tm_strided_16(const uint8_t *place, int stride) {
  typedef int16_t places __attribute__((vector_size(32)));
  const places lane = {TM_RAMP_16}, from = (lane & 7) * (int16_t)stride;
  if (stride == 2) {
    const __m256i both = tm_two_loads(place, place + 15, 16);
    return _mm256_shuffle_epi8(both, (__m256i)((from + (lane >> 3)) | INT16_MIN));
  }
  const int rest = 7 * stride + 1 - 16;
  const __m256i first = tm_two_loads(place, place + 8 * stride, 16);
  const __m256i last = tm_two_loads(place + rest, place + 8 * stride + rest, 16);
  const places of_first = (from > 15) | from | INT16_MIN, of_last = (from < 16) | (from - (int16_t)rest) | INT16_MIN;
  return _mm256_or_si256(_mm256_shuffle_epi8(first, (__m256i)of_first), _mm256_shuffle_epi8(last, (__m256i)of_last));
}
#define TM_OWN_strided_uint8_to_32x8 ~, tm_strided_8((const uint8_t *)place, stride)
#define TM_OWN_strided_uint8_to_16x16 ~, tm_strided_16((const uint8_t *)place, stride)
#define TM_OWN_dot_uint8_to_32x8 ~, tm_dot_8((const uint8_t *)place, stride, count, w0, w1, w2, w3)
#endif

/* Sums of four products of bytes. One instruction multiplies bytes without a sign by bytes with one: 128 less or more of
 * either makes them so, and the products with 128 are taken off again. Otherwise pairs of int16 are multiplied: the even
 * bytes, then the odd ones. Neither leaves int32, so that all is exact but for the sum, which wraps.
 */
#define TM_QUADS_BY_PAIRS(bits, V)                                                                                 \
  TM_SHUFFLE V tm_evens_##bits(V bytes, int is_signed) {                                                           \
    return is_signed ? TM_ON(bits, srai_epi16)(TM_ON(bits, slli_epi16)(bytes, 8), 8)                               \
                     : TM_ON(bits, srli_epi16)(TM_ON(bits, slli_epi16)(bytes, 8), 8);                              \
  }                                                                                                                \
  TM_SHUFFLE V tm_odds_##bits(V bytes, int is_signed) {                                                            \
    return is_signed ? TM_ON(bits, srai_epi16)(bytes, 8) : TM_ON(bits, srli_epi16)(bytes, 8);                      \
  }                                                                                                                \
  TM_SHUFFLE V tm_quads_by_pairs_##bits(V sum, V a, V b, int a_signed, int b_signed) {                             \
    const V evens = TM_ON(bits, madd_epi16)(tm_evens_##bits(a, a_signed), tm_evens_##bits(b, b_signed));           \
    const V odds = TM_ON(bits, madd_epi16)(tm_odds_##bits(a, a_signed), tm_odds_##bits(b, b_signed));              \
    return TM_ON(bits, add_epi32)(TM_ON(bits, add_epi32)(sum, evens), odds);                                       \
  }
#define TM_QUADS_AT_ONCE(bits, V, dot, exclusive_or, zero)                                                         \
  TM_SHUFFLE V tm_quads_at_once_##bits(V sum, V a, V b, int a_signed, int b_signed) {                              \
    const V top = TM_ON(bits, set1_epi8)(-128);                                                                    \
    if (a_signed && !b_signed) return dot(sum, b, a);                                                              \
    if (!a_signed && b_signed) return dot(sum, a, b);                                                              \
    if (a_signed) return TM_ON(bits, sub_epi32)(dot(sum, exclusive_or(a, top), b), dot(zero(), top, b));           \
    return TM_ON(bits, sub_epi32)(dot(sum, a, exclusive_or(b, top)), dot(zero(), a, top));                         \
  }
#define TM_ON(bits, name) TM_ON_##bits(name)
#define TM_ON_128(name) _mm_##name
#define TM_ON_256(name) _mm256_##name
#define TM_ON_512(name) _mm512_##name
TM_SHUFFLE int32_t tm_four_bytes(const void *place) {
  int32_t bytes;
  memcpy(&bytes, place, sizeof bytes);
  return bytes;
}
TM_QUADS_BY_PAIRS(128, __m128i)
#if defined(__AVX512VNNI__) && defined(__AVX512VL__)
TM_QUADS_AT_ONCE(128, __m128i, _mm_dpbusd_epi32, _mm_xor_si128, _mm_setzero_si128)
TM_QUADS_AT_ONCE(256, __m256i, _mm256_dpbusd_epi32, _mm256_xor_si256, _mm256_setzero_si256)
#define TM_QUADS_SHORT(bits) tm_quads_at_once_##bits
#elif defined(__AVXVNNI__)
TM_QUADS_AT_ONCE(128, __m128i, _mm_dpbusd_avx_epi32, _mm_xor_si128, _mm_setzero_si128)
TM_QUADS_AT_ONCE(256, __m256i, _mm256_dpbusd_avx_epi32, _mm256_xor_si256, _mm256_setzero_si256)
#define TM_QUADS_SHORT(bits) tm_quads_at_once_##bits
#else
#define TM_QUADS_SHORT(bits) tm_quads_by_pairs_##bits
#endif
#define TM_OWN_quads_4 ~, \
  TM_QUADS_SHORT(128)((__m128i)sum, _mm_set1_epi32(tm_four_bytes(shared)), _mm_loadu_si128((const __m128i_u *)spread), \
                      shared_signed, spread_signed)
#ifdef __AVX2__
TM_QUADS_BY_PAIRS(256, __m256i)
#define TM_OWN_quads_8 ~, \
  TM_QUADS_SHORT(256)((__m256i)sum, _mm256_set1_epi32(tm_four_bytes(shared)), \
                      _mm256_loadu_si256((const __m256i_u *)spread), shared_signed, spread_signed)
#endif
#ifdef __AVX512BW__
#ifdef __AVX512VNNI__
TM_QUADS_AT_ONCE(512, __m512i, _mm512_dpbusd_epi32, _mm512_xor_si512, _mm512_setzero_si512)
#define TM_QUADS_LONG tm_quads_at_once_512
#else
TM_QUADS_BY_PAIRS(512, __m512i)
#define TM_QUADS_LONG tm_quads_by_pairs_512
#endif
#define TM_OWN_quads_16 ~, \
  TM_QUADS_LONG((__m512i)sum, _mm512_set1_epi32(tm_four_bytes(shared)), _mm512_loadu_si512(spread), shared_signed, \
                spread_signed)
#endif

/* 16-bit floats: rounded to nearest, to even between two. */
#ifdef __AVX512F__
#define TM_OWN_float16_to_float32x16 ~, _mm512_cvtph_ps((__m256i)a)
#define TM_OWN_float32_to_float16x16 ~, _mm512_cvtps_ph((__m512)a, _MM_FROUND_TO_NEAREST_INT)
#define TM_OWN_bfloat16_to_float32x16 ~, _mm512_slli_epi32(_mm512_cvtepu16_epi32((__m256i)a), 16)
#endif
#ifdef __F16C__
#define TM_OWN_float16_to_float32x8 ~, _mm256_cvtph_ps((__m128i)a)
#define TM_OWN_float32_to_float16x8 ~, _mm256_cvtps_ph((__m256)a, _MM_FROUND_TO_NEAREST_INT)
#define TM_OWN_float16_to_float32x4 ~, _mm_cvtph_ps(TM_FROM_8(a))
#define TM_OWN_float32_to_float16x4 ~, TM_TO_8(_mm_cvtps_ph((__m128)a, _MM_FROUND_TO_NEAREST_INT))
#endif
#ifdef __AVX2__
#define TM_OWN_bfloat16_to_float32x8 ~, _mm256_slli_epi32(_mm256_cvtepu16_epi32((__m128i)a), 16)
#endif
#ifdef __SSE4_1__
#define TM_OWN_bfloat16_to_float32x4 ~, _mm_slli_epi32(_mm_cvtepu16_epi32(TM_FROM_8(a)), 16)
#endif

#endif
