/* Operations on vectors that processors have an instruction for.
 *
 * TM_OPERATION_2(min, uint8x64) defines uint8x64 min_uint8x64(a, b): as the table of the processor has it, or else
 * generically. An entry of a table (tm_x86.h, tm_neon.h) is an expression in a and b after a tilde:
 * #define TM_OWN_min_float32x16 ~, _mm512_min_ps(...)
 */
#ifndef TM_IDIOMS_H
#define TM_IDIOMS_H

#include "tm_vectors.h"
#if defined(__x86_64__)
#include "tm_x86.h"
#elif defined(__aarch64__) && defined(__ARM_NEON) && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#include "tm_neon.h"
#endif

#define TM_SECOND(first, second, ...) second
#define TM_CHOSEN(...) TM_SECOND(__VA_ARGS__, )
#define TM_IDIOM(V, name, operands, own, generic) \
  TM_SHUFFLE V name operands { return (V)(TM_CHOSEN(own, generic)); }

#define TM_OPERATION_1(name, V) TM_IDIOM(V, name##_##V, (V a), TM_OWN_##name##_##V, TM_GENERIC_##name(V))
#define TM_OPERATION_2(name, V) TM_IDIOM(V, name##_##V, (V a, V b), TM_OWN_##name##_##V, TM_GENERIC_##name(V))

/* One of two values by a condition on the lanes of a and b, each of which is written IN(a). */
#ifdef __clang__
#define IN(v) (v)
#define TM_WHERE(V, condition, yes, no) TM_SELECT(V, (condition), (yes), (no))
#else
#define IN(v) v[tm_lane]
#define TM_WHERE(V, condition, yes, no) __extension__({ TM_EACH_LANE(V, (condition) ? (yes) : (no)) })
#endif

/* Of floats, a NaN wins; of equal operands, the second. */
#define TM_GENERIC_min(V) TM_WHERE(V, (IN(a) < IN(b)) | (IN(a) != IN(a)), IN(a), IN(b))
#define TM_GENERIC_max(V) TM_WHERE(V, (IN(a) > IN(b)) | (IN(a) != IN(a)), IN(a), IN(b))

/* The first where it is less, or more, and else the second: where one is a NaN, too, as instructions of x86 have it. */
#define TM_GENERIC_less(V) TM_WHERE(V, IN(a) < IN(b), IN(a), IN(b))
#define TM_GENERIC_more(V) TM_WHERE(V, IN(a) > IN(b), IN(a), IN(b))

/* Of integers, the larger less the smaller, which wraps as integers do. */
#define TM_GENERIC_distance(V) \
  ((V)(TM_CHOSEN(TM_OWN_max_##V, TM_GENERIC_max(V))) - (V)(TM_CHOSEN(TM_OWN_min_##V, TM_GENERIC_min(V))))

/* Sums and differences of integers that stay within the type: where they leave it, its end on that side. */
#define TM_IS_UNSIGNED(V) ((__typeof__((V){0}[0]))-1 > 0)
#define TM_LOWEST(V) (((V){0} + 1) << (8 * sizeof((V){0}[0]) - 1))
#define TM_GENERIC_add_saturated(V)                                                                    \
  __extension__({                                                                                      \
    const V sum = a + b, top = ~(V){0}, wrapped = (a ^ sum) & (b ^ sum), zero = {0};                   \
    const V end = (a >> (8 * sizeof(a[0]) - 1)) ^ ~TM_LOWEST(V);                                       \
    TM_IS_UNSIGNED(V) ? TM_WHERE(V, IN(sum) < IN(a), IN(top), IN(sum))                                 \
                      : TM_WHERE(V, IN(wrapped) < IN(zero), IN(end), IN(sum));                         \
  })
#define TM_GENERIC_subtract_saturated(V)                                                               \
  __extension__({                                                                                      \
    const V difference = a - b, wrapped = (a ^ b) & (a ^ difference), zero = {0};                      \
    const V end = (a >> (8 * sizeof(a[0]) - 1)) ^ ~TM_LOWEST(V);                                       \
    TM_IS_UNSIGNED(V) ? TM_WHERE(V, IN(a) > IN(b), IN(difference), IN(zero))                           \
                      : TM_WHERE(V, IN(wrapped) < IN(zero), IN(end), IN(difference));                  \
  })

/* (a + b + 1) >> 1 of unsigned integers, the sum not limited to the type. */
#define TM_GENERIC_average(V) ((a | b) - ((a ^ b) >> 1))

/* The lower halves of the lanes of one vector, and the upper halves of those of another. */
#define TM_GENERIC_halves(V) ((a & 0xffff) | (b >> 16 << 16))

/* Lanes are pairs of int16, whose products are added up: int32 wraps if all are the least there is. */
#define TM_GENERIC_products_of_pairs(V) ((a << 16 >> 16) * (b << 16 >> 16) + (a >> 16) * (b >> 16))

/* Shifts by another count in each lane: by too much, or by a negative count, they empty the word (but for its sign). */
#define TM_IS_COUNT(b) (((b) >= 0) & ((b) < (int)(8 * sizeof(b))))
#define TM_GENERIC_shift_left(V)                                                                       \
  __extension__({ TM_EACH_LANE(V, TM_IS_COUNT(b[tm_lane]) ? (uint64_t)a[tm_lane] << b[tm_lane] : 0) })
#define TM_GENERIC_shift_right(V)                                                                      \
  __extension__({                                                                                      \
    TM_EACH_LANE(V, a[tm_lane] >> (TM_IS_COUNT(b[tm_lane]) ? b[tm_lane] : (int)(8 * sizeof(a[0])) - 1) \
                            >> (TM_IS_UNSIGNED(V) & !TM_IS_COUNT(b[tm_lane])))                         \
  })

/* How many bits are 1: those of every two, four and eight bits, then of all bytes. A mask drops the copies of a sign. */
#define TM_ONES_OF(V, sums, by, mask) ((sums & TM_ALL(V, (mask))) + ((sums >> by) & TM_ALL(V, (mask))))
#define TM_WITH_BYTES(V, sums, by) (sizeof(a[0]) > by / 8 ? sums + (sums >> (sizeof(a[0]) > by / 8 ? by : 0)) : sums)
#define TM_GENERIC_popcount(V)                                                                         \
  __extension__({                                                                                      \
    const V pairs = TM_ONES_OF(V, a, 1, UINT64_C(0x5555555555555555));                                 \
    const V fours = TM_ONES_OF(V, pairs, 2, UINT64_C(0x3333333333333333));                             \
    const V bytes = TM_ONES_OF(V, fours, 4, UINT64_C(0x0f0f0f0f0f0f0f0f));                             \
    const V words = TM_WITH_BYTES(V, bytes, 8), longs = TM_WITH_BYTES(V, words, 16);                   \
    TM_WITH_BYTES(V, longs, 32) & TM_ALL(V, 127);                                                      \
  })

/* TM_EXP_OF(float32x16, int32x16, uint32x16) defines exp_float32x16(a), with the same bits as tm_exp_float32. */
#define TM_EXP_OF(V, S, U)                                                                             \
  TM_IDIOM(V, exp_more_##V, (V a, V b), TM_OWN_more_##V, TM_CHOOSE(V, a, >, b, a, b))                  \
  TM_IDIOM(V, exp_less_##V, (V a, V b), TM_OWN_less_##V, TM_CHOOSE(V, a, <, b, a, b))                  \
  TM_EXP(V, S, U, exp_##V, exp_more_##V, exp_less_##V, __builtin_convertvector, TM_SCALED_##V)
#ifdef TM_OWN_SCALED_16
#define TM_SCALED_float32x16(V, U, p, n, power) TM_OWN_SCALED_16(V, (p), (power))
#else
#define TM_SCALED_float32x16 TM_SCALED
#endif
#ifdef TM_OWN_SCALED_8
#define TM_SCALED_float32x8(V, U, p, n, power) TM_OWN_SCALED_8(V, (p), (power))
#define TM_SCALED_float32x4(V, U, p, n, power) TM_OWN_SCALED_4(V, (p), (power))
#else
#define TM_SCALED_float32x8 TM_SCALED
#define TM_SCALED_float32x4 TM_SCALED
#endif
#define TM_SCALED_float32x2 TM_SCALED
#define TM_SCALED_float32x32 TM_SCALED
#define TM_SCALED_float32x64 TM_SCALED

/* Conversions to and from wider types. TM_CONVERSION(int32x16, uint8x16, int16x16, uint8_to_32x16) defines
 * int32x16_from_uint8x16(a), through int16x16 where no instruction does it at once.
 */
#define TM_CONVERSION(R, V, between, entry)        \
  TM_IDIOM(R, R##_from_##V, (V a), TM_OWN_##entry, \
           __builtin_convertvector(__builtin_convertvector(a, between), R))

/* Of 16-bit floats, and to them: TM_OF_HALVES(float32x8, float16x8, tm_from_float16, float16_to_float32x8) defines
 * float32x8_from_float16x8(a), lane by lane where no instruction does it.
 */
#define TM_OF_HALVES(R, V, function, entry) TM_IDIOM(R, R##_from_##V, (V a), TM_OWN_##entry, TM_MAP(R, function, a))

/* TM_SATURATED(uint8x16, int16x16, uint8x16_from_int16x16, max_int16x16, min_int16x16, 0, 255, int16_to_uint8x16)
 * defines uint8x16_saturated_from_int16x16(a): an end of the narrower type for what it does not hold.
 */
#define TM_SATURATED(R, V, convert, at_least, at_most, low, high, entry)                                       \
  TM_IDIOM(R, R##_saturated_from_##V, (V a), TM_OWN_saturated_##entry,                                         \
           convert(at_most(at_least(a, TM_ALL(V, (low))), TM_ALL(V, (high)))))

/* TM_STRIDED_CONVERSION(int32x16, uint8x16, 3, uint8_to_32x16) defines load_strided_3_int32x16_from_uint8x16(place):
 * the elements `stride` apart from a place on, in a wider type.
 */
#define TM_STRIDED_CONVERSION(R, V, apart, entry)                                                              \
  TM_SHUFFLE R load_strided_##apart##_##R##_from_##V(const void *place) {                                      \
    enum { stride = apart };                                                                                   \
    R result;                                                                                                  \
    result = (R)(TM_CHOSEN(TM_OWN_strided_##entry, ((void)stride, R##_from_##V(load_strided_##apart##_##V(place))))); \
    return result;                                                                                             \
  }

/* TM_DOT(int32x16, uint8x16, 3, 4, ...) defines dot_3_of_4_int32x16_from_uint8x16(place, w0, w1, w2, w3): in each lane,
 * the sum of the first 3 of 4 elements weighted, the lanes' elements one after another.
 */
#define TM_DOT(R, V, terms, apart, entry)                                                                      \
  TM_SHUFFLE R dot_##terms##_of_##apart##_##R##_from_##V(const void *place, int w0, int w1, int w2, int w3) {  \
    enum { stride = apart, count = terms };                                                                    \
    return (R)(TM_CHOSEN(TM_OWN_dot_##entry, TM_GENERIC_DOT(R, R##_from_##V, load_strided_##apart##_##V)));    \
  }
#define TM_WEIGHTED(R, wide, load, k, w) \
  (k < count ? wide(load((const uint8_t *)place + (k < count ? k : 0))) * w : (R){0})
#define TM_GENERIC_DOT(R, wide, load)                                             \
  (TM_WEIGHTED(R, wide, load, 0, w0) + TM_WEIGHTED(R, wide, load, 1, w1) +        \
   TM_WEIGHTED(R, wide, load, 2, w2) + TM_WEIGHTED(R, wide, load, 3, w3))

/* TM_QUADS(int32x16, uint8_t, int8_t, 16) defines quads_int32x16_from_uint8_t_int8_t(sum, shared, spread): to each lane
 * of the sum, the products of the four bytes at `shared` with four at `spread`, those of the lanes one after another.
 */
#define TM_QUADS(R, T, U, lanes)                                                                             \
  TM_SHUFFLE R quads_##R##_from_##T##_##U(R sum, const void *shared, const void *spread) {                   \
    enum { shared_signed = (T)-1 < 0, spread_signed = (U)-1 < 0 };                                           \
    return (R)(TM_CHOSEN(TM_OWN_quads_##lanes, ((void)shared_signed, (void)spread_signed, TM_GENERIC_QUADS(R, T, U)))); \
  }
#define TM_GENERIC_QUADS(R, T, U)                                                                            \
  __extension__({                                                                                            \
    const T *const a = (const T *)shared;                                                                    \
    const U *const b = (const U *)spread;                                                                    \
    R total = sum;                                                                                           \
    for (size_t tm_at = 0; tm_at < sizeof(R); tm_at++) total[tm_at / 4] += (int32_t)a[tm_at % 4] * (int32_t)b[tm_at]; \
    total;                                                                                                   \
  })

/* Two vectors as one of half as wide elements, the upper halves dropped; the indices are 0, 2, 4, ... */
#define TM_JOIN(R, V, ...) \
  TM_SHUFFLE R R##_from_2_##V(V a, V b) { return __builtin_shufflevector((R)a, (R)b, __VA_ARGS__); }

#endif
