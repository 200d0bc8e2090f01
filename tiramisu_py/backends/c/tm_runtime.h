/* What the generated sources share: arithmetic as NumPy defines it, temporaries, argument checks.
 *
 * Written for GCC and Clang. Compile with -fwrapv and -ffp-contract=off: integers wrap, floats round after each step.
 */
#ifndef TM_RUNTIME_H
#define TM_RUNTIME_H

#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#ifdef __linux__
#include <sys/mman.h>
#endif
#ifdef _OPENMP
#include <omp.h>
#else
#pragma GCC diagnostic ignored "-Wunknown-pragmas" /* without OpenMP, one thread does everything */
#endif
/* A type may make a comparison constant (x >= 0 of an unsigned x); vectors never cross a call that is not inlined. */
#pragma GCC diagnostic ignored "-Wtype-limits"
#pragma GCC diagnostic ignored "-Wsign-compare"
#pragma GCC diagnostic ignored "-Wtautological-compare"
#pragma GCC diagnostic ignored "-Woverflow"
#pragma GCC diagnostic ignored "-Wint-in-bool-context"
#pragma GCC diagnostic ignored "-Wpsabi"
#ifndef __clang__
#pragma GCC diagnostic ignored "-Wbool-compare"
#pragma GCC diagnostic ignored "-Wbool-operation"
#pragma GCC diagnostic ignored "-Wabsolute-value"
/* Every element is written before it is read (this is proven), but the compiler cannot see that in loops. */
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif

#define TM_INLINE static inline __attribute__((unused))

/* -- the 16-bit floats are stored as bits; arithmetic is done in float, and rounded after each step */

#ifndef TM_FLOAT16_TYPES
#define TM_FLOAT16_TYPES
typedef uint16_t tm_float16;
typedef uint16_t tm_bfloat16;
#endif

/* Without branches, so that compilers turn loops of them into vectors. */
TM_INLINE float tm_from_float16(tm_float16 half) {
  const uint32_t sign = (uint32_t)(half >> 15) << 31, exponent = (half >> 10) & 31, mantissa = half & 1023;
  const float small = (float)(int32_t)mantissa * 0x1p-24f;
  uint32_t bits;
  float value;
  memcpy(&bits, &small, sizeof bits);
  bits = exponent == 0 ? bits : (exponent == 31 ? 0xffu : exponent + 112) << 23 | mantissa << 13;
  bits |= sign;
  memcpy(&value, &bits, sizeof value);
  return value;
}

TM_INLINE tm_float16 tm_to_float16(double value) {
  uint64_t bits;
  memcpy(&bits, &value, sizeof bits);
  const uint16_t sign = (uint16_t)(bits >> 48 & 0x8000);
  const double size = fabs(value);
  bits &= ~(UINT64_C(1) << 63);
  if (size != size) return sign | 0x7e00;
  if (size >= 65520.0) return sign | 0x7c00;
  if (size < 0x1p-14) return sign | (uint16_t)((size * 0x1p24 + 0x1p52) - 0x1p52); /* rounds to an integer */
  bits += (UINT64_C(1) << 41) - 1 + (bits >> 42 & 1);
  return sign | (uint16_t)((bits >> 42) - ((uint64_t)(1023 - 15) << 10));
}

/* The same from a float, again without branches. */
TM_INLINE tm_float16 tm_float16_of_float(float value) {
  uint32_t bits, tiny;
  memcpy(&bits, &value, sizeof bits);
  const uint32_t sign = bits >> 16 & 0x8000;
  bits &= 0x7fffffff;
  const uint32_t normal = ((bits + 0xfff + (bits >> 13 & 1)) >> 13) - (112u << 10);
  const float rounded = fabsf(value) * 0x1p24f + 0x1p23f; /* to an integer, which the last bits are */
  memcpy(&tiny, &rounded, sizeof tiny);
  bits = bits > 0x7f800000 ? 0x7e00 : bits >= 0x477ff000 ? 0x7c00 : bits < 0x38800000 ? tiny - 0x4b000000 : normal;
  return (tm_float16)(sign | bits);
}

#ifndef __cplusplus
#define tm_to_float16(value) _Generic((value), float: tm_float16_of_float, default: tm_to_float16)(value)
#endif

TM_INLINE float tm_from_bfloat16(tm_bfloat16 brain) {
  const uint32_t bits = (uint32_t)brain << 16;
  float value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

TM_INLINE tm_bfloat16 tm_to_bfloat16(float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  if (value != value) return (tm_bfloat16)((bits >> 16 & 0x8000) | 0x7fc0);
  return (tm_bfloat16)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

/* -- the bits of floats */

#define TM_BITS(T, U, name)                                                       \
  TM_INLINE U tm_bits_of_##name(T value) {                                        \
    U bits;                                                                       \
    memcpy(&bits, &value, sizeof bits);                                           \
    return bits;                                                                  \
  }                                                                               \
  TM_INLINE T tm_##name##_of_bits(U bits) {                                       \
    T value;                                                                      \
    memcpy(&value, &bits, sizeof value);                                          \
    return value;                                                                 \
  }

TM_BITS(float, uint32_t, float32)
TM_BITS(double, uint64_t, float64)
TM_BITS(tm_float16, uint16_t, float16)
TM_BITS(tm_bfloat16, uint16_t, bfloat16)

/* -- integers: division rounds down, by 0 gives 0; shifts by too much empty the word */

#define TM_UNSIGNED(T, name)                                                                                      \
  TM_INLINE T tm_floor_div_##name(T a, T b) { return b == 0 ? 0 : (T)(a / b); }                                   \
  TM_INLINE T tm_mod_##name(T a, T b) { return b == 0 ? 0 : (T)(a % b); }                                         \
  TM_INLINE T tm_shift_left_##name(T a, T b) { return b < 8 * sizeof(T) ? (T)((uint64_t)a << b) : 0; }            \
  TM_INLINE T tm_shift_right_##name(T a, T b) { return b < 8 * sizeof(T) ? (T)(a >> b) : 0; }                     \
  TM_INLINE T tm_pow_##name(T a, T b) {                                                                           \
    T power = 1;                                                                                                  \
    for (; b != 0; b = (T)(b >> 1), a = (T)((uint64_t)a * a))                                                     \
      if (b & 1) power = (T)((uint64_t)power * a);                                                                \
    return power;                                                                                                 \
  }                                                                                                               \
  TM_INLINE T tm_popcount_##name(T a) { return (T)__builtin_popcountll(a); }

#define TM_SIGNED(T, U, name)                                                                                     \
  TM_INLINE T tm_floor_div_##name(T a, T b) {                                                                     \
    if (b == 0) return 0;                                                                                         \
    if (b == -1) return (T)(0 - (U)a);                                                                            \
    return (T)(a / b - (a % b != 0 && (a < 0) != (b < 0)));                                                       \
  }                                                                                                               \
  TM_INLINE T tm_mod_##name(T a, T b) {                                                                           \
    if (b == 0 || b == -1) return 0;                                                                              \
    const T rest = (T)(a % b);                                                                                    \
    return rest != 0 && (rest < 0) != (b < 0) ? (T)(rest + b) : rest;                                             \
  }                                                                                                               \
  TM_INLINE T tm_shift_left_##name(T a, T b) { return (U)b < 8 * sizeof(T) ? (T)((uint64_t)a << b) : 0; }         \
  TM_INLINE T tm_shift_right_##name(T a, T b) {                                                                   \
    return (T)(a >> ((U)b < 8 * sizeof(T) ? b : (T)(8 * sizeof(T) - 1)));                                         \
  }                                                                                                               \
  TM_INLINE T tm_pow_##name(T a, T b) {                                                                           \
    if (b < 0) return a == 1 ? 1 : a == -1 ? (T)(b & 1 ? -1 : 1) : 0;                                             \
    T power = 1;                                                                                                  \
    for (; b != 0; b = (T)(b >> 1), a = (T)((uint64_t)a * (uint64_t)a))                                           \
      if (b & 1) power = (T)((uint64_t)power * (uint64_t)a);                                                      \
    return power;                                                                                                 \
  }                                                                                                               \
  TM_INLINE T tm_popcount_##name(T a) { return (T)__builtin_popcountll((U)a); }                                   \
  TM_INLINE T tm_abs_##name(T a) { return a < 0 ? (T)(0 - (U)a) : a; }

TM_UNSIGNED(uint8_t, uint8)
TM_UNSIGNED(uint16_t, uint16)
TM_UNSIGNED(uint32_t, uint32)
TM_UNSIGNED(uint64_t, uint64)
TM_SIGNED(int8_t, uint8_t, int8)
TM_SIGNED(int16_t, uint16_t, int16)
TM_SIGNED(int32_t, uint32_t, int32)
TM_SIGNED(int64_t, uint64_t, int64)

/* -- minimum and maximum: of floats, a NaN wins; of equal operands, the second (of float16, the first, as in NumPy) */

#define TM_ORDER(T, name)                                                  \
  TM_INLINE T tm_min_##name(T a, T b) { return a < b ? a : b; }            \
  TM_INLINE T tm_max_##name(T a, T b) { return a > b ? a : b; }

#define TM_ORDER_FLOAT(T, name)                                            \
  TM_INLINE T tm_min_##name(T a, T b) { return a < b || a != a ? a : b; }  \
  TM_INLINE T tm_max_##name(T a, T b) { return a > b || a != a ? a : b; }

TM_ORDER(int8_t, int8)
TM_ORDER(int16_t, int16)
TM_ORDER(int32_t, int32)
TM_ORDER(int64_t, int64)
TM_ORDER(uint8_t, uint8)
TM_ORDER(uint16_t, uint16)
TM_ORDER(uint32_t, uint32)
TM_ORDER(uint64_t, uint64)
TM_ORDER_FLOAT(float, float32)
TM_ORDER_FLOAT(double, float64)
TM_INLINE float tm_min_float16(float a, float b) { return a <= b || a != a ? a : b; }
TM_INLINE float tm_max_float16(float a, float b) { return a >= b || a != a ? a : b; }

/* -- floats: division that rounds down, and its remainder, which has the sign of the divisor */

#define TM_FLOAT(T, name, suffix)                                                                  \
  TM_INLINE T tm_mod_##name(T a, T b) {                                                            \
    T rest = fmod##suffix(a, b);                                                                   \
    if (b == 0) return rest;                                                                       \
    if (rest == 0) return copysign##suffix(0, b);                                                  \
    return (b < 0) != (rest < 0) ? rest + b : rest;                                                \
  }                                                                                                \
  TM_INLINE T tm_floor_div_##name(T a, T b) {                                                      \
    if (b == 0) return a / b;                                                                      \
    const T rest = fmod##suffix(a, b);                                                             \
    T quotient = (a - rest) / b;                                                                   \
    if (rest != 0 && (b < 0) != (rest < 0)) quotient -= 1;                                         \
    if (quotient == 0) return copysign##suffix(0, a / b);                                          \
    const T whole = floor##suffix(quotient);                                                       \
    return quotient - whole > (T)0.5 ? whole + 1 : whole;                                          \
  }

TM_FLOAT(float, float32, f)
TM_FLOAT(double, float64, )

/* -- double to float: before 14, GCC forgets the rounding where two lanes become double again (GCC bug of the precision
 * of vector types), unless it cannot see it */

TM_INLINE float tm_to_float32(double value) {
  float rounded = (float)value;
#if !defined(__clang__) && __GNUC__ < 14
#if defined(__x86_64__)
  __asm__("" : "+x"(rounded));
#elif defined(__aarch64__)
  __asm__("" : "+w"(rounded));
#else
  __asm__("" : "+m"(rounded));
#endif
#endif
  return rounded;
}

/* -- e ** x of floats: 2 ** n * e ** rest, where n is whole and the rest at most log(2) / 2 (a polynomial, W. J. Cody and
 * W. Waite; coefficients of Cephes). Scalars and vectors take the same steps, so that a value does not depend on where
 * in a loop it is computed. S and U are the integers as wide as the lanes of V; `more` and `less` are the first of two
 * values where it is more or less, else the second, which NaN is too; `converted` is a conversion of lanes; `scaled`
 * multiplies by 2 ** n, and rounds once.
 */
#define TM_EXP(V, S, U, name, more, less, converted, scaled)                                          \
  TM_INLINE __attribute__((always_inline)) V name(V x) {                                              \
    const V zero = {0}, least = zero - 104, most = zero + 89;                                         \
    union {                                                                                           \
      V value;                                                                                        \
      S bits;                                                                                         \
    } whole;                                                                                          \
    x = more(least, x);                                                                               \
    x = less(most, x);                                                                                \
    whole.value = x * 1.44269504f + TM_WHOLE; /* n, and 254 for two powers, are in the low bits */    \
    const V power = TM_WHOLE_PART(V, whole, converted);                                               \
    const V r = (x - power * 0.693359375f) - power * -2.12194440e-4f;                                 \
    V p = r * 1.9875691500e-4f + 1.3981999507e-3f;                                                    \
    p = p * r + 8.3334519073e-3f;                                                                     \
    p = p * r + 4.1665795894e-2f;                                                                     \
    p = p * r + 1.6666665459e-1f;                                                                     \
    p = p * r + 5.0000001201e-1f;                                                                     \
    p = (p * (r * r) + r) + 1.0f;                                                                     \
    return scaled(V, U, p, whole.bits, power);                                                        \
  }
#define TM_WHOLE 12583166.0f /* 1.5 * 2 ** 23 + 2 * 127: one is the distance of floats there, and even stays even */
/* What is subtracted again, unless a compiler may add up the numbers, which GCC says from 12 on. */
#if __GNUC__ >= 12 && !defined(__clang__) && !defined(__ASSOCIATIVE_MATH__)
#define TM_WHOLE_PART(V, whole, converted) ((whole).value - TM_WHOLE)
#else
#define TM_WHOLE_PART(V, whole, converted) converted((whole).bits - 0x4b4000fe, V)
#endif
/* By two powers of two that floats hold: the first product is exact. The low bits are n + 254, half of which has the
 * bits of the one power as its exponent, and the rest those of the other; what is above them is shifted out.
 */
#define TM_SCALED(V, U, p, bits_of_whole, power)                                                      \
  __extension__({                                                                                     \
    union {                                                                                           \
      U bits;                                                                                         \
      V value;                                                                                        \
    } first, second;                                                                                  \
    const U half = (U)(bits_of_whole) >> 1;                                                           \
    first.bits = half << 23;                                                                          \
    second.bits = ((U)(bits_of_whole) - half) << 23;                                                  \
    (p) * first.value * second.value;                                                                 \
  })
#define TM_MORE_SCALAR(a, b) ((a) > (b) ? (a) : (b))
#define TM_LESS_SCALAR(a, b) ((a) < (b) ? (a) : (b))
#define TM_CONVERTED_SCALAR(n, V) ((V)(n))
TM_EXP(float, int32_t, uint32_t, tm_exp_float32, TM_MORE_SCALAR, TM_LESS_SCALAR, TM_CONVERTED_SCALAR, TM_SCALED)

/* -- floats to integers, for every value: out of range (and NaN) as x86 converts. GCC makes trunc(x) of (double)(int)x,
 * which is -0.0 for -0.5 and leaves what is out of range as it is, unless something unknown lies between */

TM_INLINE int32_t tm_unknown_zero(void) {
  int32_t zero = 0;
  __asm__("" : "+r"(zero));
  return zero;
}
#ifdef __x86_64__
/* One instruction, without a branch: indices that are computed from floats, in prefetches too, are worth it. Compilers
 * make it of a cast alone, which has no meaning out of range, and not of a cast behind a check.
 */
typedef double tm_two_doubles __attribute__((vector_size(16)));
TM_INLINE int32_t tm_to_int32(double value) { return __builtin_ia32_cvttsd2si((tm_two_doubles){value, 0}); }
TM_INLINE int64_t tm_to_int64(double value) { return __builtin_ia32_cvttsd2si64((tm_two_doubles){value, 0}); }
#elif defined(__aarch64__)
/* Here the instruction ends at the lowest and the largest integer, and makes 0 of NaN. */
TM_INLINE int32_t tm_to_int32(double value) {
  int32_t whole;
  __asm__("fcvtzs %w0, %d1" : "=r"(whole) : "w"(value));
  return value < 2147483648.0 ? whole : INT32_MIN;
}
TM_INLINE int64_t tm_to_int64(double value) {
  int64_t whole;
  __asm__("fcvtzs %x0, %d1" : "=r"(whole) : "w"(value));
  return value < 0x1p63 ? whole : INT64_MIN;
}
#else
TM_INLINE int32_t tm_to_int32(double value) {
  return value > -2147483649.0 && value < 2147483648.0 ? (int32_t)value ^ tm_unknown_zero() : INT32_MIN;
}
TM_INLINE int64_t tm_to_int64(double value) {
  return value >= -0x1p63 && value < 0x1p63 ? (int64_t)value ^ tm_unknown_zero() : INT64_MIN;
}
#endif
TM_INLINE int8_t tm_to_int8(double value) { return (int8_t)tm_to_int32(value); }
TM_INLINE int16_t tm_to_int16(double value) { return (int16_t)tm_to_int32(value); }
TM_INLINE uint8_t tm_to_uint8(double value) { return (uint8_t)tm_to_int32(value); }
TM_INLINE uint16_t tm_to_uint16(double value) { return (uint16_t)tm_to_int32(value); }
TM_INLINE uint32_t tm_to_uint32(double value) { return (uint32_t)tm_to_int64(value); }
TM_INLINE uint64_t tm_to_uint64(double value) {
  if (value >= 0x1p63) return (uint64_t)tm_to_int64(value - 0x1p63) ^ (UINT64_C(1) << 63);
  return (uint64_t)tm_to_int64(value);
}

/* -- sizes, temporaries and arguments */

/* What a generated function returns when it cannot run; <function>_last_error() says it in words. */
enum { TM_PRECONDITION = 1, TM_SIZE = 2, TM_NULL = 3, TM_OVERLAP = 4, TM_MEMORY = 5 };

/* Sizes below this leave room for the arithmetic of indices. */
#define TM_LARGEST (INT64_C(1) << 42)

/* The number of bytes of an array; 0 where an extent is not positive, -1 where the number does not fit. */
TM_INLINE int64_t tm_bytes(int64_t element, int rank, const int64_t *extents) {
  int64_t bytes = element;
  for (int d = 0; d < rank; d++)
    if (extents[d] <= 0) return 0;
  for (int d = 0; d < rank; d++)
    if (__builtin_mul_overflow(bytes, extents[d], &bytes)) return -1;
  return bytes;
}
#define TM_BYTES(T, ...) \
  tm_bytes(sizeof(T), sizeof((const int64_t[]){__VA_ARGS__}) / sizeof(int64_t), (const int64_t[]){__VA_ARGS__})

/* The most of some numbers of bytes; -1 if one of them does not fit. */
TM_INLINE int64_t tm_most_bytes(int count, const int64_t *bytes) {
  int64_t most = 0;
  for (int k = 0; k < count; k++)
    if (bytes[k] < 0) return -1;
    else if (bytes[k] > most) most = bytes[k];
  return most;
}
#define TM_MOST_BYTES(...) \
  tm_most_bytes(sizeof((const int64_t[]){__VA_ARGS__}) / sizeof(int64_t), (const int64_t[]){__VA_ARGS__})

/* The number of bytes from the lowest element of an array to the end of the highest one, where the elements of dimension
 * d are strides[d] apart; as tm_bytes where there is none, or the number does not fit. */
TM_INLINE int64_t tm_span(int64_t element, int rank, const int64_t *extents, const int64_t *strides) {
  int64_t last = 0, bytes;
  for (int d = 0; d < rank; d++)
    if (extents[d] <= 0) return 0;
  for (int d = 0; d < rank; d++) {
    int64_t far;
    if (__builtin_mul_overflow(extents[d] - 1, strides[d], &far)) return -1;
    if (__builtin_add_overflow(last, far < 0 ? -(uint64_t)far : (uint64_t)far, &last)) return -1;
  }
  if (__builtin_add_overflow(last, 1, &last) || __builtin_mul_overflow(last, element, &bytes)) return -1;
  return bytes;
}
#define TM_SIZES(...) (const int64_t[]){__VA_ARGS__}
#define TM_SPAN(T, extents, strides) \
  tm_span(sizeof(T), sizeof(TM_SIZES extents) / sizeof(int64_t), TM_SIZES extents, TM_SIZES strides)

/* The number of bytes by which the lowest element of such an array, whose span is known, is before the first one. */
TM_INLINE int64_t tm_before(int64_t element, int rank, const int64_t *extents, const int64_t *strides) {
  int64_t before = 0;
  for (int d = 0; d < rank; d++) {
    if (extents[d] <= 0) return 0;
    if (strides[d] < 0) before -= (extents[d] - 1) * strides[d];
  }
  return before * element;
}
#define TM_BEFORE(T, extents, strides) \
  tm_before(sizeof(T), sizeof(TM_SIZES extents) / sizeof(int64_t), TM_SIZES extents, TM_SIZES strides)

/* Whether no two elements of such an array share memory, where one step along each dimension leads beyond all steps
 * along those with smaller strides. */
TM_INLINE bool tm_distinct(int rank, const int64_t *extents, const int64_t *strides) {
  for (int d = 0; d < rank; d++)
    if (extents[d] <= 0) return true;
  for (int d = 0; d < rank; d++) {
    const int64_t own = strides[d] < 0 ? -strides[d] : strides[d];
    int64_t below = 0;
    for (int e = 0; e < rank; e++) {
      const int64_t other = strides[e] < 0 ? -strides[e] : strides[e];
      if (e != d && (other < own || (other == own && e < d))) below += (extents[e] - 1) * other;
    }
    if (extents[d] > 1 && own <= below) return false;
  }
  return true;
}
#define TM_DISTINCT(extents, strides) \
  tm_distinct(sizeof(TM_SIZES extents) / sizeof(int64_t), TM_SIZES extents, TM_SIZES strides)

/* A number of elements; none where an extent is negative. */
TM_INLINE size_t tm_count(int64_t extent) { return extent > 0 ? (size_t)extent : 0; }

TM_INLINE bool tm_overlap(const void *a, int64_t bytes_a, const void *b, int64_t bytes_b) {
  const uintptr_t from_a = (uintptr_t)a, from_b = (uintptr_t)b;
  return bytes_a > 0 && bytes_b > 0 && from_a < from_b + (uintptr_t)bytes_b && from_b < from_a + (uintptr_t)bytes_a;
}

/* An array whose elements of dimension d are strides[d] apart, by its lowest element. */
typedef struct {
  const void *lowest;
  int64_t element;
  int rank;
  const int64_t *extents, *strides;
} tm_spread;
#define TM_SPREAD(lowest, T, extents, strides) \
  (tm_spread){lowest, sizeof(T), sizeof(TM_SIZES extents) / sizeof(int64_t), TM_SIZES extents, TM_SIZES strides}

/* How many of each `step` bytes an array takes, from its lowest element on. */
TM_INLINE int64_t tm_taken(tm_spread a, int64_t step) {
  int64_t taken = a.element;
  for (int d = 0; d < a.rank; d++) {
    const int64_t apart = (a.strides[d] < 0 ? -a.strides[d] : a.strides[d]) * a.element;
    if (a.extents[d] > 1 && apart % step != 0) taken += (a.extents[d] - 1) * apart;
  }
  return taken;
}

/* Whether two arrays take different bytes of each `step` bytes, where a step is a distance of neighbours in the first. */
TM_INLINE bool tm_apart(tm_spread a, tm_spread b) {
  for (int d = 0; d < a.rank; d++) {
    const int64_t step = (a.strides[d] < 0 ? -a.strides[d] : a.strides[d]) * a.element;
    if (a.extents[d] <= 1 || step == 0) continue;
    const uintptr_t from_a = (uintptr_t)a.lowest, from_b = (uintptr_t)b.lowest, over = (uintptr_t)step;
    const uintptr_t offset = from_b >= from_a ? (from_b - from_a) % over : (over - (from_a - from_b) % over) % over;
    if (tm_taken(a, step) <= (int64_t)offset && (int64_t)offset + tm_taken(b, step) <= step) return true;
  }
  return false;
}
TM_INLINE bool tm_interleaved(tm_spread a, tm_spread b) { return tm_apart(a, b) || tm_apart(b, a); }

/* Memory on a cache line of its own; NULL where there is none. TM_TEMPORARY pointers free theirs on leaving the scope.
 * Large memory is in huge pages where the system has them: a first write to each of the small ones costs more than the
 * values in it. */
enum { TM_PAGE = 4 << 10, TM_HUGE_PAGE = 2 << 20, TM_MANY_PAGES = 32 << 20 };

/* Memory of several pages is kept for the next iteration or call: the system clears what it gives, which takes as long
 * as a pass over it. Until then the system may take large memory back without asking (MADV_FREE). It is freed with the
 * library. What is kept was zero at first, and then held values of this library. Lanes past the end of a loop read what
 * nothing was written to; bits left by others are often denormal numbers there, with which sums take many times as long. */
#if defined(__linux__) && defined(MADV_HUGEPAGE) && defined(MADV_FREE) && !defined(__SANITIZE_ADDRESS__)
#define TM_KEEPS_MEMORY
#endif
#if defined(TM_KEEPS_MEMORY) && defined(__has_feature)
#if __has_feature(address_sanitizer)
#undef TM_KEEPS_MEMORY /* which is to see accesses to what was freed */
#endif
#endif
#ifdef TM_KEEPS_MEMORY
typedef struct { void *memory; size_t bytes; bool used; } tm_kept_memory;
enum { TM_MOST_KEPT = 32, TM_KEPT_FROM = 16 << 10 };
static tm_kept_memory tm_kept[TM_MOST_KEPT] __attribute__((unused));
static bool tm_kept_lock __attribute__((unused));
TM_INLINE void tm_lock_kept(void) {
  while (__atomic_test_and_set(&tm_kept_lock, __ATOMIC_ACQUIRE)) {}
}
TM_INLINE void tm_unlock_kept(void) { __atomic_clear(&tm_kept_lock, __ATOMIC_RELEASE); }
/* The entry with this memory, in use or not; NULL where there is none. */
TM_INLINE tm_kept_memory *tm_kept_entry(const void *memory, bool used) {
  for (int k = 0; k < TM_MOST_KEPT; k++)
    if (tm_kept[k].memory == memory && tm_kept[k].used == used) return &tm_kept[k];
  return NULL;
}
/* Memory of exactly so many bytes that is not in use; NULL where there is none. */
__attribute__((noinline, unused)) static void *tm_kept_again(size_t bytes) {
  void *found = NULL;
  tm_lock_kept();
  for (int k = 0; found == NULL && k < TM_MOST_KEPT; k++)
    if (!tm_kept[k].used && tm_kept[k].bytes == bytes) found = tm_kept[k].memory, tm_kept[k].used = true;
  tm_unlock_kept();
  return found;
}
TM_INLINE void tm_return(void *memory, size_t bytes) {
  if (bytes >= TM_MANY_PAGES) free(memory);
  else if (memory != NULL) (void)munmap(memory, bytes);
}
/* Remembers memory in use, in the place of none or of some that is not used; false where all are in use. */
__attribute__((noinline, unused)) static bool tm_keep(void *memory, size_t bytes) {
  tm_lock_kept();
  tm_kept_memory *entry = tm_kept_entry(NULL, false);
  for (int k = 0; entry == NULL && k < TM_MOST_KEPT; k++)
    if (!tm_kept[k].used) entry = &tm_kept[k];
  const tm_kept_memory former = entry == NULL ? (tm_kept_memory){NULL, 0, false} : *entry;
  if (entry != NULL) *entry = (tm_kept_memory){memory, bytes, true};
  tm_unlock_kept();
  tm_return(former.memory, former.bytes);
  return entry != NULL;
}
/* Whether memory was kept when it is no longer in use. */
__attribute__((noinline, unused)) static bool tm_keeps(void *memory) {
  tm_lock_kept();
  tm_kept_memory *const entry = tm_kept_entry(memory, true);
  tm_unlock_kept();
  if (entry == NULL) return false;
  if (entry->bytes >= TM_HUGE_PAGE && madvise(memory, entry->bytes, MADV_FREE) != 0) { /* it would never be taken back */
    tm_return(memory, entry->bytes);
    memory = NULL;
  }
  tm_lock_kept();
  *entry = (tm_kept_memory){memory, memory == NULL ? 0 : entry->bytes, false};
  tm_unlock_kept();
  return true;
}
__attribute__((destructor, unused)) static void tm_free_kept(void) {
  for (int k = 0; k < TM_MOST_KEPT; k++)
    if (!tm_kept[k].used) tm_return(tm_kept[k].memory, tm_kept[k].bytes);
}
#endif

#if defined(__linux__) && defined(MADV_HUGEPAGE)
TM_INLINE void *tm_huge_pages(size_t whole) {
  void *const memory = aligned_alloc(TM_HUGE_PAGE, whole);
  if (memory != NULL) (void)madvise(memory, whole, MADV_HUGEPAGE);
  return memory;
}
#endif
#ifdef TM_KEEPS_MEMORY
/* Pages that are kept, or NULL: where there are none, or as many are kept and in use as may be. */
__attribute__((noinline, unused)) static void *tm_kept_pages(size_t bytes) {
  const bool huge = bytes >= TM_MANY_PAGES;
  const size_t page = huge ? TM_HUGE_PAGE : TM_PAGE, whole = (bytes + page - 1) / page * page;
  void *memory = tm_kept_again(whole);
  if (memory != NULL) return memory;
  if (huge) memory = tm_huge_pages(whole);
  else memory = mmap(NULL, whole, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == NULL || memory == MAP_FAILED) return NULL;
  if (tm_keep(memory, whole)) return memory;
  tm_return(memory, whole);
  return NULL;
}
#endif

TM_INLINE void tm_free(void *memory) {
#ifdef TM_KEEPS_MEMORY
  if ((uintptr_t)memory % TM_PAGE == 0 && memory != NULL && tm_keeps(memory)) return;
#endif
  free(memory);
}
/* A function of its own: once it is inlined, compilers no longer know that temporaries do not overlap. */
__attribute__((malloc, noinline, unused)) static void *tm_allocate(int64_t bytes) {
  if (bytes < 0 || bytes > INT64_MAX - TM_HUGE_PAGE) return NULL;
#ifdef TM_KEEPS_MEMORY
  void *const kept = bytes >= TM_KEPT_FROM ? tm_kept_pages((size_t)bytes) : NULL;
  if (kept != NULL) return kept;
#endif
#if defined(__linux__) && defined(MADV_HUGEPAGE)
  if (bytes >= TM_MANY_PAGES) return tm_huge_pages((size_t)((bytes + TM_HUGE_PAGE - 1) / TM_HUGE_PAGE * TM_HUGE_PAGE));
#endif
  return aligned_alloc(64, bytes == 0 ? 64 : (size_t)((bytes + 63) / 64 * 64));
}
/* Memory from which lanes past the end of a loop load elements that nothing was written to: zeros at first, or kept. */
__attribute__((malloc, noinline, unused)) static void *tm_allocate_padded(int64_t bytes) {
#ifdef TM_KEEPS_MEMORY
  void *const kept = bytes >= TM_KEPT_FROM && bytes <= INT64_MAX - TM_HUGE_PAGE ? tm_kept_pages((size_t)bytes) : NULL;
  if (kept != NULL) return kept;
#endif
  void *const memory = tm_allocate(bytes);
  return memory == NULL ? NULL : memset(memory, 0, (size_t)bytes);
}
TM_INLINE void tm_release(const void *pointer) {
  void *memory;
  memcpy(&memory, pointer, sizeof memory);
  tm_free(memory);
}
#define TM_TEMPORARY __attribute__((cleanup(tm_release)))
#define TM_LOCAL __attribute__((aligned(64)))

/* Many temporaries: asked for one after another, looked at once, and freed together on leaving the scope. These are
 * functions of their own, or compilers take longer over a thousand allocations than over all the rest. The caller keeps
 * what tm_temporary returns, as memory[0], memory[1] and so on: a function with `malloc` may store it nowhere. */
typedef struct { int count; const char *missing; void **memory; } tm_temporaries;
TM_INLINE void *tm_held(tm_temporaries *all, const char *name, void *memory) {
  if (memory != NULL) all->count++;
  else if (all->missing == NULL) all->missing = name;
  return memory;
}
__attribute__((malloc, noinline, unused)) static void *tm_temporary(tm_temporaries *all, const char *name,
                                                                   int64_t bytes) {
  return tm_held(all, name, all->missing == NULL ? tm_allocate(bytes) : NULL);
}
__attribute__((malloc, noinline, unused)) static void *tm_padded_temporary(tm_temporaries *all, const char *name,
                                                                          int64_t bytes) {
  return tm_held(all, name, all->missing == NULL ? tm_allocate_padded(bytes) : NULL);
}
__attribute__((noinline, unused)) static void tm_release_all(tm_temporaries *all) {
  while (all->count > 0) tm_free(all->memory[--all->count]);
}
/* Memory that arrays have in turns, memory[0], memory[1] and so on of all: none at first. tm_turned_memory gives it to the next
 * one: what was there is lost, and compilers know no more of the address than if it had been freed and allocated. The
 * address sanitizer is to see accesses to the former array, and past the end of the next one: there it really is. */
__attribute__((malloc, noinline, unused)) static void *tm_turned_memory(void *memory) {
  __asm__ volatile("" : "+r"(memory) : : "memory");
  return memory;
}
#if defined(__SANITIZE_ADDRESS__)
#define TM_EACH_ALLOCATED
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define TM_EACH_ALLOCATED
#endif
#endif
__attribute__((malloc, noinline, unused)) static void *tm_first_memory(tm_temporaries *all, const char *name, int64_t own,
                                                               int64_t most) {
#ifdef TM_EACH_ALLOCATED
  if (most >= 0) most = own;
#endif
  (void)own;
  void *const memory = tm_allocate_padded(most);
  if (memory == NULL) all->missing = name;
  return memory;
}
__attribute__((malloc, noinline, unused)) static void *tm_next_memory(tm_temporaries *all, int block, const char *name,
                                                              int64_t own) {
#ifdef TM_EACH_ALLOCATED
  tm_free(all->memory[block]);
  void *const memory = tm_allocate_padded(own);
#else
  (void)own;
  void *const memory = tm_turned_memory(all->memory[block]);
#endif
  if (memory == NULL) all->missing = name;
  return memory;
}
__attribute__((noinline, unused)) static void tm_end_memory(tm_temporaries *all, int block) {
  tm_free(all->memory[block]);
  all->memory[block] = NULL;
}
#define TM_TEMPORARIES __attribute__((cleanup(tm_release_all)))

/* At the begin of an iteration: this loop has few, and compilers leave it as it is. No compiler makes vectors of an
 * assembler statement, even of an empty one; gcc has a pragma for that from version 14 on alone. */
#define TM_IN_TURN __asm__ volatile("")

TM_INLINE int tm_threads(void) {
#ifdef _OPENMP
  return omp_get_max_threads();
#else
  return 1;
#endif
}
TM_INLINE int tm_team(void) {
#ifdef _OPENMP
  return omp_get_num_threads();
#else
  return 1;
#endif
}
TM_INLINE int tm_thread(void) {
#ifdef _OPENMP
  return omp_get_thread_num();
#else
  return 0;
#endif
}

#endif
