/* What every generated kernel file includes: one vocabulary for nvcc, NVRTC and the simulator.

   nvcc and NVRTC get thin names for CUDA's own; the simulator includes this file before the class that holds the kernels,
   with its own definitions of what needs a thread (simulator/tm_simulated.h). No system header is needed. */
#ifndef TM_KERNEL_H
#define TM_KERNEL_H

#if defined(TM_SIMULATOR)
#include "tm_simulated.h"
#elif !defined(__CUDACC__)
#error "compile kernels with nvcc, with NVRTC, or for the simulator"
#endif

/* A type or a literal may make a comparison constant, or wrap; every element is written before it is read (this is
   proven), but the compiler cannot see that in loops. */
#if defined(TM_SIMULATOR)
#pragma GCC diagnostic ignored "-Wtype-limits"
#pragma GCC diagnostic ignored "-Wsign-compare"
#pragma GCC diagnostic ignored "-Wtautological-compare"
#pragma GCC diagnostic ignored "-Woverflow"
#pragma GCC diagnostic ignored "-Wint-in-bool-context"
#ifndef __clang__
#pragma GCC diagnostic ignored "-Wbool-compare"
#pragma GCC diagnostic ignored "-Wbool-operation"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif
#endif

/* -- types: of a fixed width, also where there is no stdint.h */

#if defined(__CUDACC_RTC__)
typedef signed char int8_t;
typedef unsigned char uint8_t;
typedef short int16_t;
typedef unsigned short uint16_t;
typedef int int32_t;
typedef unsigned int uint32_t;
typedef long int64_t;
typedef unsigned long uint64_t;
#define INT32_MIN (-2147483647 - 1)
#define INT64_MIN (-9223372036854775807L - 1)
#define INT64_C(value) value##L
#define UINT64_C(value) value##UL
#define INFINITY __int_as_float(0x7f800000)
#define NAN __int_as_float(0x7fffffff)
#elif defined(TM_SIMULATOR)
#include <stdint.h>
#else
#include <math.h>
#include <stdint.h>
#endif

typedef int8_t tm_int8;
typedef int16_t tm_int16;
typedef int32_t tm_int32;
typedef int64_t tm_int64;
typedef uint8_t tm_uint8;
typedef uint16_t tm_uint16;
typedef uint32_t tm_uint32;
typedef uint64_t tm_uint64;

/* The 16-bit floats are stored as bits; arithmetic is done in float, and rounded after each step. */
struct tm_float16 {
  tm_uint16 bits;
};
struct tm_bfloat16 {
  tm_uint16 bits;
};

/* -- spelling */

#define TM_RESTRICT __restrict__

#if !defined(TM_SIMULATOR)
#define TM_KERNEL extern "C" __global__
#define TM_DEVICE static __device__ __forceinline__
#define TM_HEADER static __device__ __forceinline__ /* functions of this file */
#define TM_MEMBER __device__ __forceinline__

/* TM_KERNEL void TM_LAUNCH_BOUNDS(256) name(...); a second number asks for that many blocks on a multiprocessor. */
#define TM_LAUNCH_BOUNDS(...) __launch_bounds__(__VA_ARGS__)

/* TM_SHARED(float, tile, [16][17]); an array at a byte of what the launch asks for, and a pointer to all of that. */
#define TM_SHARED(type, name, dimensions) __shared__ __align__(16) type name dimensions
#define TM_SHARED_AT(type, name, dimensions, first)                                                       \
  extern __shared__ __align__(16) unsigned char tm_dynamic_shared[];                                      \
  type(&name) dimensions = *reinterpret_cast<type(*) dimensions>(tm_dynamic_shared + (first))
#define TM_DYNAMIC_SHARED(type, name)                                \
  extern __shared__ __align__(16) unsigned char tm_dynamic_shared[]; \
  type *const name = reinterpret_cast<type *>(tm_dynamic_shared)

/* All threads of the block, or of the warp, meet here. */
#define TM_BARRIER() __syncthreads()
#define TM_WARP_BARRIER() __syncwarp()

/* What this thread has seen and stored is seen by whoever takes a ticket after it; and the other way round. */
#define TM_FENCE() __threadfence()
#endif

/* -- bits */

#if defined(TM_SIMULATOR)
#define TM_BIT_CAST(name, To, From, intrinsic) \
  TM_HEADER To name(From from) {               \
    To to;                                     \
    __builtin_memcpy(&to, &from, sizeof to);   \
    return to;                                 \
  }
#else
#define TM_BIT_CAST(name, To, From, intrinsic) \
  TM_HEADER To name(From from) { return intrinsic(from); }
#endif

TM_BIT_CAST(tm_bits_of_float32, tm_uint32, float, __float_as_uint)
TM_BIT_CAST(tm_float32_of_bits, float, tm_uint32, __uint_as_float)
TM_BIT_CAST(tm_bits_of_float64, tm_uint64, double, (tm_uint64)__double_as_longlong)
TM_BIT_CAST(tm_float64_of_bits, double, tm_uint64, __longlong_as_double)

TM_HEADER tm_uint16 tm_bits_of_float16(tm_float16 half) { return half.bits; }
TM_HEADER tm_uint16 tm_bits_of_bfloat16(tm_bfloat16 brain) { return brain.bits; }
TM_HEADER tm_float16 tm_float16_of_bits(tm_uint16 bits) { return {bits}; }
TM_HEADER tm_bfloat16 tm_bfloat16_of_bits(tm_uint16 bits) { return {bits}; }

#if defined(TM_SIMULATOR)
TM_HEADER int tm_popcount(tm_uint64 bits) { return __builtin_popcountll(bits); }
#else
TM_HEADER int tm_popcount(tm_uint64 bits) { return __popcll(bits); }
#endif

/* -- the 16-bit floats */

#if defined(TM_SIMULATOR)
TM_HEADER float tm_from_float16(tm_float16 half) {
  const tm_uint32 sign = (tm_uint32)(half.bits >> 15) << 31, exponent = (half.bits >> 10) & 31u, mantissa = half.bits & 1023u;
  const tm_uint32 bits =
      exponent == 0 ? tm_bits_of_float32((float)mantissa * 0x1p-24f) : (exponent == 31 ? 0xffu : exponent + 112) << 23 | mantissa << 13;
  return tm_float32_of_bits(bits | sign);
}

TM_HEADER tm_float16 tm_to_float16(double value) {
  tm_uint64 bits = tm_bits_of_float64(value);
  const tm_uint16 sign = (tm_uint16)(bits >> 48 & 0x8000);
  bits &= ~(UINT64_C(1) << 63);
  const double size = tm_float64_of_bits(bits);
  if (size != size) return {0x7fff}; /* as the device writes every NaN */
  if (size >= 65520.0) return {(tm_uint16)(sign | 0x7c00)};
  if (size < 0x1p-14) return {(tm_uint16)(sign | (tm_uint16)((size * 0x1p24 + 0x1p52) - 0x1p52))};
  bits += (UINT64_C(1) << 41) - 1 + (bits >> 42 & 1);
  return {(tm_uint16)(sign | (tm_uint16)((bits >> 42) - ((tm_uint64)(1023 - 15) << 10)))};
}
TM_HEADER tm_float16 tm_to_float16(float value) { return tm_to_float16((double)value); }
TM_HEADER tm_float16 tm_to_float16(int value) { return tm_to_float16((double)value); }
#else
TM_HEADER float tm_from_float16(tm_float16 half) {
  float value;
  asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(half.bits));
  return value;
}
TM_HEADER tm_float16 tm_to_float16(float value) {
  tm_float16 half;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(half.bits) : "f"(value));
  return half;
}
TM_HEADER tm_float16 tm_to_float16(double value) {
  tm_float16 half;
  asm("cvt.rn.f16.f64 %0, %1;" : "=h"(half.bits) : "d"(value));
  return half;
}
TM_HEADER tm_float16 tm_to_float16(int value) { return tm_to_float16((double)value); }
#endif

TM_HEADER float tm_from_bfloat16(tm_bfloat16 brain) { return tm_float32_of_bits((tm_uint32)brain.bits << 16); }

TM_HEADER tm_bfloat16 tm_to_bfloat16(float value) {
  const tm_uint32 bits = tm_bits_of_float32(value);
  if (value != value) return {0x7fff};
  return {(tm_uint16)((bits + 0x7fff + (bits >> 16 & 1)) >> 16)};
}

/* -- integers: division rounds down, by 0 gives 0; shifts by too much empty the word */

#define TM_INTEGER(T, U, name)                                                                                       \
  TM_HEADER T tm_min_##name(T a, T b) { return a < b ? a : b; }                                                      \
  TM_HEADER T tm_max_##name(T a, T b) { return a > b ? a : b; }                                                      \
  TM_HEADER T tm_popcount_##name(T a) { return (T)tm_popcount((U)a); }                                               \
  TM_HEADER T tm_shift_left_##name(T a, T b) { return (U)b < 8 * sizeof(T) ? (T)((tm_uint64)a << (U)b) : (T)0; }

#define TM_UNSIGNED(T, name)                                                                                         \
  TM_INTEGER(T, T, name)                                                                                             \
  TM_HEADER T tm_floor_div_##name(T a, T b) { return b == 0 ? (T)0 : (T)(a / b); }                                   \
  TM_HEADER T tm_mod_##name(T a, T b) { return b == 0 ? (T)0 : (T)(a % b); }                                         \
  TM_HEADER T tm_shift_right_##name(T a, T b) { return b < 8 * sizeof(T) ? (T)(a >> b) : (T)0; }                     \
  TM_HEADER T tm_pow_##name(T a, T b) {                                                                              \
    T power = 1;                                                                                                     \
    for (; b != 0; b = (T)(b >> 1), a = (T)((tm_uint64)a * a))                                                       \
      if (b & 1) power = (T)((tm_uint64)power * a);                                                                  \
    return power;                                                                                                    \
  }

#define TM_SIGNED(T, U, name)                                                                                        \
  TM_INTEGER(T, U, name)                                                                                             \
  TM_HEADER T tm_floor_div_##name(T a, T b) {                                                                        \
    if (b == 0) return 0;                                                                                            \
    if (b == -1) return (T)(0 - (U)a);                                                                               \
    return (T)(a / b - (a % b != 0 && (a < 0) != (b < 0)));                                                          \
  }                                                                                                                  \
  TM_HEADER T tm_mod_##name(T a, T b) {                                                                              \
    if (b == 0 || b == -1) return 0;                                                                                 \
    const T rest = (T)(a % b);                                                                                       \
    return rest != 0 && (rest < 0) != (b < 0) ? (T)(rest + b) : rest;                                                \
  }                                                                                                                  \
  TM_HEADER T tm_shift_right_##name(T a, T b) { return (T)(a >> ((U)b < 8 * sizeof(T) ? b : (T)(8 * sizeof(T) - 1))); } \
  TM_HEADER T tm_pow_##name(T a, T b) {                                                                              \
    if (b < 0) return a == 1 ? (T)1 : a == -1 ? (T)(b & 1 ? -1 : 1) : (T)0;                                          \
    T power = 1;                                                                                                     \
    for (; b != 0; b = (T)(b >> 1), a = (T)((tm_uint64)a * (tm_uint64)a))                                            \
      if (b & 1) power = (T)((tm_uint64)power * (tm_uint64)a);                                                       \
    return power;                                                                                                    \
  }                                                                                                                  \
  TM_HEADER T tm_abs_##name(T a) { return a < 0 ? (T)(0 - (U)a) : a; }

TM_UNSIGNED(tm_uint8, uint8)
TM_UNSIGNED(tm_uint16, uint16)
TM_UNSIGNED(tm_uint32, uint32)
TM_UNSIGNED(tm_uint64, uint64)
TM_SIGNED(tm_int8, tm_uint8, int8)
TM_SIGNED(tm_int16, tm_uint16, int16)
TM_SIGNED(tm_int32, tm_uint32, int32)
TM_SIGNED(tm_int64, tm_uint64, int64)

/* -- floats: a NaN wins; of equal operands, the second (of float16, the first); division that rounds down, and its
   remainder, which has the sign of the divisor */

#define TM_FLOAT(T, name, suffix)                                                           \
  TM_HEADER T tm_min_##name(T a, T b) { return a < b || a != a ? a : b; }                   \
  TM_HEADER T tm_max_##name(T a, T b) { return a > b || a != a ? a : b; }                   \
  TM_HEADER T tm_mod_##name(T a, T b) {                                                     \
    T rest = fmod##suffix(a, b);                                                            \
    if (b == 0) return rest;                                                                \
    if (rest == 0) return copysign##suffix((T)0, b);                                           \
    return (b < 0) != (rest < 0) ? rest + b : rest;                                         \
  }                                                                                         \
  TM_HEADER T tm_floor_div_##name(T a, T b) {                                               \
    if (b == 0) return a / b;                                                               \
    const T rest = fmod##suffix(a, b);                                                      \
    T quotient = (a - rest) / b;                                                            \
    if (rest != 0 && (b < 0) != (rest < 0)) quotient -= 1;                                  \
    if (quotient == 0) return copysign##suffix((T)0, a / b);                                   \
    const T whole = floor##suffix(quotient);                                                \
    return quotient - whole > (T)0.5 ? whole + 1 : whole;                                   \
  }

TM_FLOAT(float, float32, f)
TM_FLOAT(double, float64, )

/* x / n for odd n from 3 to 255, rounded correctly like the division, but without its branch, which keeps loads from
   overlapping: the quotient is corrected by what is left over, unless that is 0 or no number. */
#if defined(TM_SIMULATOR)
TM_HEADER float tm_divide(float x, float n) { return x / n; }
#else
TM_HEADER float tm_divide(float x, float n) {
  const float inverse = 1.0f / n;
  const float quotient = __fmul_rn(x, inverse);
  const float rest = __fmaf_rn(-n, quotient, x);
  return fabsf(rest) > 0.0f ? __fmaf_rn(rest, inverse, quotient) : quotient;
}
#endif

TM_HEADER float tm_min_float16(float a, float b) { return a <= b || a != a ? a : b; }
TM_HEADER float tm_max_float16(float a, float b) { return a >= b || a != a ? a : b; }

/* The same by the type of the operands. */
#define TM_ORDER(T, name)                                                   \
  TM_HEADER T tm_min(T a, T b) { return tm_min_##name(a, b); }              \
  TM_HEADER T tm_max(T a, T b) { return tm_max_##name(a, b); }

TM_ORDER(tm_uint8, uint8)
TM_ORDER(tm_uint16, uint16)
TM_ORDER(tm_uint32, uint32)
TM_ORDER(tm_uint64, uint64)
TM_ORDER(tm_int8, int8)
TM_ORDER(tm_int16, int16)
TM_ORDER(tm_int32, int32)
TM_ORDER(tm_int64, int64)
TM_ORDER(float, float32)
TM_ORDER(double, float64)

/* -- conversions of every value: what is out of range (and NaN) becomes the smallest integer */

TM_HEADER float tm_to_float32(double value) { return (float)value; }
TM_HEADER tm_int32 tm_to_int32(double value) {
  return value > -2147483649.0 && value < 2147483648.0 ? (tm_int32)value : INT32_MIN;
}
TM_HEADER tm_int64 tm_to_int64(double value) {
  return value >= -9223372036854775808.0 && value < 9223372036854775808.0 ? (tm_int64)value : INT64_MIN;
}
TM_HEADER tm_int8 tm_to_int8(double value) { return (tm_int8)tm_to_int32(value); }
TM_HEADER tm_int16 tm_to_int16(double value) { return (tm_int16)tm_to_int32(value); }
TM_HEADER tm_uint8 tm_to_uint8(double value) { return (tm_uint8)tm_to_int32(value); }
TM_HEADER tm_uint16 tm_to_uint16(double value) { return (tm_uint16)tm_to_int32(value); }
TM_HEADER tm_uint32 tm_to_uint32(double value) { return (tm_uint32)tm_to_int64(value); }
TM_HEADER tm_uint64 tm_to_uint64(double value) {
  if (value >= 9223372036854775808.0) return (tm_uint64)tm_to_int64(value - 9223372036854775808.0) ^ (UINT64_C(1) << 63);
  return (tm_uint64)tm_to_int64(value);
}

/* -- vectors: tm_vec<float, 4> v = tm_load<4>(place); tm_store(place, v); 2 to 16 bytes, aligned to their size */

template <class T, int n>
struct __attribute__((aligned(sizeof(T) * n))) tm_vec {
  static_assert(sizeof(T) * n <= 16 && (sizeof(T) * n & (sizeof(T) * n - 1)) == 0, "a vector has 2, 4, 8 or 16 bytes");
  T lane[n];
  TM_MEMBER T &operator[](int i) { return lane[i]; }
  TM_MEMBER const T &operator[](int i) const { return lane[i]; }
};

#if defined(TM_SIMULATOR)
#define TM_ALIGNED(place, bytes) tm_aligned(place, bytes)
#else
#define TM_ALIGNED(place, bytes) (void)0
#endif

template <int n, class T>
TM_HEADER tm_vec<T, n> tm_load(const T *place) {
  TM_ALIGNED(place, sizeof(T) * n);
  return *reinterpret_cast<const tm_vec<T, n> *>(place);
}

template <class T, int n>
TM_HEADER void tm_store(T *place, tm_vec<T, n> value) {
  TM_ALIGNED(place, sizeof(T) * n);
  *reinterpret_cast<tm_vec<T, n> *>(place) = value;
}

/* Of an array that the kernel only reads, where it also reads some that it writes: by an instruction that a compiler does not
   make one of loads of both, from a pointer that it has chosen, with the promise that holds for this one alone. */
#if defined(TM_SIMULATOR)
template <class T>
TM_HEADER T tm_load_apart(const T *place) { return *place; }
#else
template <int bytes>
struct tm_apart;
template <>
struct tm_apart<1> {
  typedef unsigned char type;
  TM_HEADER type load(const void *place) {
    unsigned int value;
    asm("ld.global.nc.u8 %0, [%1];" : "=r"(value) : "l"(__cvta_generic_to_global(place)));
    return (type)value;
  }
};
template <>
struct tm_apart<2> {
  typedef unsigned short type;
  TM_HEADER type load(const void *place) {
    type value;
    asm("ld.global.nc.u16 %0, [%1];" : "=h"(value) : "l"(__cvta_generic_to_global(place)));
    return value;
  }
};
template <>
struct tm_apart<4> {
  typedef unsigned int type;
  TM_HEADER type load(const void *place) {
    type value;
    asm("ld.global.nc.u32 %0, [%1];" : "=r"(value) : "l"(__cvta_generic_to_global(place)));
    return value;
  }
};
template <>
struct tm_apart<8> {
  typedef uint2 type;
  TM_HEADER type load(const void *place) {
    type value;
    asm("ld.global.nc.v2.u32 {%0, %1}, [%2];" : "=r"(value.x), "=r"(value.y) : "l"(__cvta_generic_to_global(place)));
    return value;
  }
};
template <>
struct tm_apart<16> {
  typedef uint4 type;
  TM_HEADER type load(const void *place) {
    type value;
    asm("ld.global.nc.v4.u32 {%0, %1, %2, %3}, [%4];"
        : "=r"(value.x), "=r"(value.y), "=r"(value.z), "=r"(value.w) : "l"(__cvta_generic_to_global(place)));
    return value;
  }
};

template <class T>
TM_HEADER T tm_load_apart(const T *place) {
  const auto bits = tm_apart<sizeof(T)>::load(place);
  T value;
  memcpy(&value, &bits, sizeof value);
  return value;
}
#endif

template <int n, class T>
TM_HEADER tm_vec<T, n> tm_load_apart(const T *place) {
  TM_ALIGNED(place, sizeof(T) * n);
  return tm_load_apart(reinterpret_cast<const tm_vec<T, n> *>(place));
}

template <int n, class T>
TM_HEADER tm_vec<T, n> tm_all(T value) {
  tm_vec<T, n> all;
  for (int i = 0; i < n; i++) all[i] = value;
  return all;
}

/* -- atomics: each returns what was there before. Compare-and-exchange loops repeat only when another thread succeeded */

template <class T>
struct tm_same {
  typedef T type;
};

#if !defined(TM_SIMULATOR)
/* The word that holds an element of 1 or 2 bytes is exchanged as a whole, the rest of it as it is. */
template <int bytes>
struct tm_word {
  typedef unsigned int bits;
  static __device__ __forceinline__ int shift(const void *place) { return (int)((tm_uint64)place & 3) * 8; }
  static __device__ __forceinline__ bits mask(const void *place) { return (bytes == 1 ? 0xffu : 0xffffu) << shift(place); }
  static __device__ __forceinline__ bits *around(void *place) { return (bits *)((tm_uint64)place & ~(tm_uint64)3); }
  static __device__ __forceinline__ bits read(void *place) { return *(volatile bits *)around(place); }
  static __device__ __forceinline__ bits part(const void *place, bits word) { return (word & mask(place)) >> shift(place); }
  static __device__ __forceinline__ bits with(const void *place, bits word, bits value) {
    return (word & ~mask(place)) | value << shift(place);
  }
  static __device__ __forceinline__ bits exchange(void *place, bits expected, bits desired) {
    return atomicCAS(around(place), expected, desired);
  }
};
template <class word>
struct tm_whole_word {
  typedef word bits;
  static __device__ __forceinline__ bits read(void *place) { return *(volatile bits *)place; }
  static __device__ __forceinline__ bits part(const void *, bits word_) { return word_; }
  static __device__ __forceinline__ bits with(const void *, bits, bits value) { return value; }
  static __device__ __forceinline__ bits exchange(void *place, bits expected, bits desired) {
    return atomicCAS((bits *)place, expected, desired);
  }
};
template <>
struct tm_word<4> : tm_whole_word<unsigned int> {};
template <>
struct tm_word<8> : tm_whole_word<unsigned long long> {};

/* tm_atomic_update(&x[i], [=](float old) { return old * factor; }) */
template <class T, class F>
TM_HEADER T tm_atomic_update(T *place, F change) {
  typedef tm_word<sizeof(T)> word;
  typename word::bits seen = word::read(place);
  for (;;) {
    const typename word::bits before = word::part(place, seen);
    typename word::bits after = 0;
    T old;
    memcpy(&old, &before, sizeof old);
    const T replacement = (T)change(old);
    memcpy(&after, &replacement, sizeof replacement);
    if (after == before) return old;
    const typename word::bits found = word::exchange(place, seen, word::with(place, seen, after));
    if (found == seen) return old;
    seen = found;
  }
}

/* The tickets of blocks: how many have been taken before this one; and none, for the next launch. */
TM_HEADER tm_uint32 tm_take_ticket(tm_uint32 *tickets) { return atomicAdd(tickets, 1u); }
TM_HEADER void tm_reset_tickets(tm_uint32 *tickets) { atomicExch(tickets, 0u); }

/* The lock of some blocks, for one thread of each: 1 while one of them has it. */
TM_HEADER void tm_take_lock(tm_uint32 *lock) {
  while (atomicCAS(lock, 0u, 1u) != 0u) {
  }
}
TM_HEADER void tm_give_lock(tm_uint32 *lock) { atomicExch(lock, 0u); }

/* Blocks in the order in which they start: the number of this one, of so many; its turn, and that of the next one. The
   last one leaves 0 for the next launch. */
TM_HEADER tm_uint32 tm_draw_number(tm_uint32 *numbers, tm_uint32 count) {
  const tm_uint32 own = atomicAdd(numbers, 1u);
  if (own + 1u == count) atomicExch(numbers, 0u);
  return own;
}
TM_HEADER void tm_await_turn(tm_uint32 *turn, tm_int64 number) {
  while (atomicAdd(turn, 0u) != (tm_uint32)number) {
  }
}
TM_HEADER void tm_pass_turn(tm_uint32 *turn, tm_int64 number, tm_int64 count) {
  atomicExch(turn, number + 1 == count ? 0u : (tm_uint32)number + 1u);
}

/* What CUDA has of its own: 32 and 64-bit integers (a signed 64-bit sum is an unsigned one), sums of floats. */
#define TM_ATOMIC_NATIVE(name, cuda, T, As)                                     \
  TM_HEADER T tm_native_##name(T *place, T value) {                             \
    return (T)cuda(reinterpret_cast<As *>(place), (As)value);                   \
  }
#define TM_ATOMIC_INTEGER(T, Order, Plain)     \
  TM_ATOMIC_NATIVE(add, atomicAdd, T, Plain)   \
  TM_ATOMIC_NATIVE(min, atomicMin, T, Order)   \
  TM_ATOMIC_NATIVE(max, atomicMax, T, Order)   \
  TM_ATOMIC_NATIVE(and, atomicAnd, T, Plain)   \
  TM_ATOMIC_NATIVE(or, atomicOr, T, Plain)     \
  TM_ATOMIC_NATIVE(xor, atomicXor, T, Plain)

TM_ATOMIC_INTEGER(int, int, unsigned int)
TM_ATOMIC_INTEGER(unsigned int, unsigned int, unsigned int)
TM_ATOMIC_INTEGER(long, long long, unsigned long long)
TM_ATOMIC_INTEGER(unsigned long, unsigned long long, unsigned long long)
TM_ATOMIC_INTEGER(long long, long long, unsigned long long)
TM_ATOMIC_INTEGER(unsigned long long, unsigned long long, unsigned long long)
TM_ATOMIC_NATIVE(add, atomicAdd, float, float)
TM_ATOMIC_NATIVE(add, atomicAdd, double, double)
#endif

TM_HEADER tm_float16 tm_plus(tm_float16 a, tm_float16 b) { return tm_to_float16(tm_from_float16(a) + tm_from_float16(b)); }
TM_HEADER tm_float16 tm_times(tm_float16 a, tm_float16 b) { return tm_to_float16(tm_from_float16(a) * tm_from_float16(b)); }
TM_HEADER tm_float16 tm_min(tm_float16 a, tm_float16 b) {
  return tm_to_float16(tm_min_float16(tm_from_float16(a), tm_from_float16(b)));
}
TM_HEADER tm_float16 tm_max(tm_float16 a, tm_float16 b) {
  return tm_to_float16(tm_max_float16(tm_from_float16(a), tm_from_float16(b)));
}
TM_HEADER tm_bfloat16 tm_plus(tm_bfloat16 a, tm_bfloat16 b) {
  return tm_to_bfloat16(tm_from_bfloat16(a) + tm_from_bfloat16(b));
}
TM_HEADER tm_bfloat16 tm_times(tm_bfloat16 a, tm_bfloat16 b) {
  return tm_to_bfloat16(tm_from_bfloat16(a) * tm_from_bfloat16(b));
}
TM_HEADER tm_bfloat16 tm_min(tm_bfloat16 a, tm_bfloat16 b) {
  return tm_to_bfloat16(tm_min_float32(tm_from_bfloat16(a), tm_from_bfloat16(b)));
}
TM_HEADER tm_bfloat16 tm_max(tm_bfloat16 a, tm_bfloat16 b) {
  return tm_to_bfloat16(tm_max_float32(tm_from_bfloat16(a), tm_from_bfloat16(b)));
}
template <class T>
TM_HEADER T tm_plus(T a, T b) { return (T)(a + b); }
template <class T>
TM_HEADER T tm_times(T a, T b) { return (T)(a * b); }
template <class T>
TM_HEADER T tm_and(T a, T b) { return (T)(a & b); }
template <class T>
TM_HEADER T tm_or(T a, T b) { return (T)(a | b); }
template <class T>
TM_HEADER T tm_xor(T a, T b) { return (T)(a ^ b); }

/* tm_atomic_add(place, value): by CUDA's own instruction where there is one for the type, else by compare and exchange. */
#if defined(TM_SIMULATOR)
#define TM_ATOMIC_CHOICE(name)
#else
#define TM_ATOMIC_CHOICE(name)                                                        \
  template <class T>                                                                  \
  TM_HEADER auto tm_choose_##name(T *place, T value, int) -> decltype(tm_native_##name(place, value)) { \
    return tm_native_##name(place, value);                                            \
  }
#endif
#define TM_ATOMIC(name, combine)                                                      \
  TM_ATOMIC_CHOICE(name)                                                              \
  template <class T>                                                                  \
  TM_HEADER T tm_choose_##name(T *place, T value, long) {                             \
    return tm_atomic_update(place, [=](T old) { return combine(old, value); });       \
  }                                                                                   \
  template <class T>                                                                  \
  TM_HEADER T tm_atomic_##name(T *place, typename tm_same<T>::type value) {           \
    return tm_choose_##name(place, value, 0);                                         \
  }

TM_ATOMIC(add, tm_plus)
TM_ATOMIC(mul, tm_times)
TM_ATOMIC(min, tm_min)
TM_ATOMIC(max, tm_max)
TM_ATOMIC(and, tm_and)
TM_ATOMIC(or, tm_or)
TM_ATOMIC(xor, tm_xor)

/* -- the threads of a warp: all 32 take part. A value of 1 to 8 bytes from another lane */

#if !defined(TM_SIMULATOR)
#define TM_SHUFFLE(name, cuda)                                                        \
  template <class T>                                                                  \
  TM_HEADER T name(T value, int lane) {                                               \
    if constexpr (sizeof(T) == 8) {                                                   \
      unsigned long long bits;                                                        \
      memcpy(&bits, &value, 8);                                                       \
      bits = cuda(0xffffffffu, bits, lane);                                           \
      memcpy(&value, &bits, 8);                                                       \
    } else {                                                                          \
      unsigned int bits = 0;                                                          \
      memcpy(&bits, &value, sizeof value);                                            \
      bits = cuda(0xffffffffu, bits, lane);                                           \
      memcpy(&value, &bits, sizeof value);                                            \
    }                                                                                 \
    return value;                                                                     \
  }

TM_SHUFFLE(tm_shuffle, __shfl_sync)
TM_SHUFFLE(tm_shuffle_up, __shfl_up_sync)
TM_SHUFFLE(tm_shuffle_down, __shfl_down_sync)
TM_SHUFFLE(tm_shuffle_xor, __shfl_xor_sync)

/* -- copies to shared memory that pass the registers by (sm_80 and newer): TM_ASYNC_COPY(to, from, 4, 8 or 16 bytes), and
   TM_ASYNC_FILL(to, from, bytes, given), which loads the first `given` bytes and stores zeros for the others;
   TM_ASYNC_COMMIT() ends a group, TM_ASYNC_WAIT_GROUPS(n) waits for all of this thread but the n newest groups. Other
   threads see them after a barrier that follows the wait. */

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
template <int bytes>
TM_HEADER void tm_async_copy(void *to, const void *from) {
  static_assert(bytes == 4 || bytes == 8 || bytes == 16, "an asynchronous copy has 4, 8 or 16 bytes");
  const unsigned int shared = (unsigned int)__cvta_generic_to_shared(to);
  if constexpr (bytes == 16) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" : : "r"(shared), "l"(from) : "memory");
  } else {
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2;" : : "r"(shared), "l"(from), "n"(bytes) : "memory");
  }
}
template <int bytes>
TM_HEADER void tm_async_fill(void *to, const void *from, int given) {
  static_assert(bytes == 4 || bytes == 8 || bytes == 16, "an asynchronous copy has 4, 8 or 16 bytes");
  const unsigned int shared = (unsigned int)__cvta_generic_to_shared(to);
  if constexpr (bytes == 16) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" : : "r"(shared), "l"(from), "r"(given) : "memory");
  } else {
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;"
                 : : "r"(shared), "l"(from), "n"(bytes), "r"(given) : "memory");
  }
}
#define TM_ASYNC_COMMIT() asm volatile("cp.async.commit_group;" : : : "memory")
#define TM_ASYNC_WAIT() asm volatile("cp.async.wait_all;" : : : "memory")
#define TM_ASYNC_WAIT_GROUPS(count) asm volatile("cp.async.wait_group %0;" : : "n"(count) : "memory")
#else
template <int bytes>
TM_HEADER void tm_async_copy(void *to, const void *from) {
  struct __align__(bytes) piece {
    unsigned int word[bytes / 4];
  };
  *(piece *)to = *(const piece *)from;
}
template <int bytes>
TM_HEADER void tm_async_fill(void *to, const void *from, int given) {
  if (given == bytes) {
    tm_async_copy<bytes>(to, from);
    return;
  }
#pragma unroll
  for (int byte = 0; byte < bytes; byte++)
    ((unsigned char *)to)[byte] = byte < given ? ((const unsigned char *)from)[byte] : 0;
}
#define TM_ASYNC_COMMIT() ((void)0)
#define TM_ASYNC_WAIT() ((void)0)
#define TM_ASYNC_WAIT_GROUPS(count) ((void)0)
#endif
#define TM_ASYNC_COPY(to, from, bytes) tm_async_copy<bytes>(to, from)
#define TM_ASYNC_FILL(to, from, bytes, given) tm_async_fill<bytes>(to, from, given)
#endif

/* -- matrices of 8 rows of 16 bytes in shared memory: TM_LOAD_MATRICES(transposed, row, to..) loads 1, 2 or 4 of them. Thread
   (x, y) of a warp has 4 bytes of each, from 4x on of row y; of transposed ones the elements y, of 2 bytes, of the rows 2x and
   2x + 1. Thread n = 4y + x says where row n % 8 of matrix n / 8 is, and each gives a row. All threads of a warp call it. */

#if !defined(TM_SIMULATOR)
template <class T>
TM_HEADER void tm_set_part(T *to, tm_uint32 bits) {
  static_assert(sizeof(T) == 4, "a thread has 4 bytes of a matrix");
  memcpy(to, &bits, 4);
}
#define TM_LDMATRIX(count, to, ...)                                                                                    \
  if constexpr (transposed)                                                                                            \
    asm volatile("ldmatrix.sync.aligned.m8n8." count ".trans.shared.b16 " to : __VA_ARGS__ : "r"(shared) : "memory");  \
  else                                                                                                                 \
    asm volatile("ldmatrix.sync.aligned.m8n8." count ".shared.b16 " to : __VA_ARGS__ : "r"(shared) : "memory")
template <bool transposed, class P, class T>
TM_HEADER void tm_load_matrices(const P *row, T *to) {
  const unsigned int shared = (unsigned int)__cvta_generic_to_shared(row);
  tm_uint32 a;
  TM_LDMATRIX("x1", "{%0}, [%1];", "=r"(a));
  tm_set_part(to, a);
}
template <bool transposed, class P, class T>
TM_HEADER void tm_load_matrices(const P *row, T *to, T *to_1) {
  const unsigned int shared = (unsigned int)__cvta_generic_to_shared(row);
  tm_uint32 a, b;
  TM_LDMATRIX("x2", "{%0,%1}, [%2];", "=r"(a), "=r"(b));
  tm_set_part(to, a), tm_set_part(to_1, b);
}
template <bool transposed, class P, class T>
TM_HEADER void tm_load_matrices(const P *row, T *to, T *to_1, T *to_2, T *to_3) {
  const unsigned int shared = (unsigned int)__cvta_generic_to_shared(row);
  tm_uint32 a, b, c, d;
  TM_LDMATRIX("x4", "{%0,%1,%2,%3}, [%4];", "=r"(a), "=r"(b), "=r"(c), "=r"(d));
  tm_set_part(to, a), tm_set_part(to_1, b), tm_set_part(to_2, c), tm_set_part(to_3, d);
}
#define TM_LOAD_MATRICES(transposed, row, ...) tm_load_matrices<transposed>(row, __VA_ARGS__)
#else
/* The 4 bytes of a lane of matrix k, of the rows that all lanes have loaded. */
TM_HEADER tm_uint32 tm_of_matrix(const tm_uint32 (&rows)[32][4], int k, bool transposed, int lane) {
  const int y = lane / 4, x = lane % 4, half = 16 * (y % 2);
  if (!transposed) return rows[8 * k + y][x];
  return (rows[8 * k + 2 * x][y / 2] >> half & 0xffff) | (rows[8 * k + 2 * x + 1][y / 2] >> half & 0xffff) << 16;
}
template <class... T>
TM_HEADER void tm_set_parts(const tm_uint32 (&rows)[32][4], bool transposed, int lane, T *...to) {
  int matrix = 0;
  const auto set = [&](auto *part) {
    const tm_uint32 bits = tm_of_matrix(rows, matrix++, transposed, lane);
    static_assert(sizeof(*part) == sizeof(bits), "a thread has 4 bytes of a matrix");
    __builtin_memcpy(part, &bits, sizeof bits);
  };
  (set(to), ...);
}
#define TM_LOAD_MATRICES(transposed, row, ...)                                                                         \
  {                                                                                                                    \
    const auto tm_row = tm_load<(int)(16 / sizeof(*(row)))>(row);                                                      \
    tm_uint32 tm_parts[4], tm_rows[32][4];                                                                             \
    __builtin_memcpy(tm_parts, &tm_row, 16);                                                                                  \
    tm_gather(__LINE__, tm_parts, 4, tm_rows);                                                                         \
    tm_set_parts(tm_rows, transposed, (int)(tm_index & 31), __VA_ARGS__);                                              \
  }
#endif

/* -- products of small matrices in tensor cores: TM_MMA_m16n8k16(d00, d01, d10, d11, left.., right..) adds to the sums of
   rows y, y + 8 and columns 2x, 2x + 1 of thread (x, y) of a warp. A part of a factor has 4 bytes, the neighbouring terms
   of one row or column: left those of rows y and y + 8 in turn, right those of column y. All threads of a warp call it. */

TM_HEADER tm_uint32 tm_part(tm_vec<tm_float16, 2> pair) { return pair[0].bits | (tm_uint32)pair[1].bits << 16; }
TM_HEADER tm_uint32 tm_part(tm_vec<tm_bfloat16, 2> pair) { return pair[0].bits | (tm_uint32)pair[1].bits << 16; }
TM_HEADER tm_uint32 tm_part(float value) { return tm_bits_of_float32(value); }
TM_HEADER constexpr int tm_kind(tm_vec<tm_float16, 2>) { return 0; }
TM_HEADER constexpr int tm_kind(tm_vec<tm_bfloat16, 2>) { return 1; }
TM_HEADER constexpr int tm_kind(float) { return 2; }

#if !defined(TM_SIMULATOR)
#define TM_MMA_16(shape, types)                                                                                        \
  asm volatile("mma.sync.aligned." shape ".row.col.f32." types ".f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "          \
               "{%0,%1,%2,%3};"                                                                                        \
               : "+f"(d00), "+f"(d01), "+f"(d10), "+f"(d11)                                                            \
               : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1))
template <int kind>
TM_HEADER void tm_mma_16(float &d00, float &d01, float &d10, float &d11, tm_uint32 a0, tm_uint32 a1, tm_uint32 a2,
                         tm_uint32 a3, tm_uint32 b0, tm_uint32 b1) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 800
  static_assert(kind < 0, "this product needs a GPU of compute capability 8.0; m16n8k8 of float16 runs from 7.5 on");
#endif
  if constexpr (kind == 0)
    TM_MMA_16("m16n8k16", "f16.f16");
  else if constexpr (kind == 1)
    TM_MMA_16("m16n8k16", "bf16.bf16");
  else
    TM_MMA_16("m16n8k8", "tf32.tf32");
}
TM_HEADER void tm_mma_8(float &d00, float &d01, float &d10, float &d11, tm_uint32 a0, tm_uint32 a1, tm_uint32 b0) {
  asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5}, {%6}, {%0,%1,%2,%3};"
               : "+f"(d00), "+f"(d01), "+f"(d10), "+f"(d11)
               : "r"(a0), "r"(a1), "r"(b0));
}
#define TM_MMA_m16n8k16(d00, d01, d10, d11, a0, a1, a2, a3, b0, b1)                                                    \
  tm_mma_16<tm_kind(decltype(a0){})>(d00, d01, d10, d11, tm_part(a0), tm_part(a1), tm_part(a2), tm_part(a3),           \
                                     tm_part(b0), tm_part(b1))
#define TM_MMA_m16n8k8_tf32 TM_MMA_m16n8k16
#define TM_MMA_m16n8k8(d00, d01, d10, d11, a0, a1, b0)                                                                 \
  tm_mma_8(d00, d01, d10, d11, tm_part(a0), tm_part(a1), tm_part(b0))
#else
/* The terms of a part: two of 16 bits, or one of which 10 bits after the point count. */
TM_HEADER double tm_term(int kind, tm_uint32 part, int which) {
  const tm_uint16 bits = (tm_uint16)(which ? part >> 16 : part);
  if (kind == 0) return tm_from_float16({bits});
  return kind == 1 ? tm_from_bfloat16({bits}) : tm_float32_of_bits(part >> 13 << 13);
}
/* The sums of one thread: each product is exact, and all are rounded once. A GPU rounds more often. */
TM_HEADER void tm_multiply(int kind, int blocks, int lane, tm_uint32 (&left)[32][4], tm_uint32 (&right)[32][4], float *const (&sums)[4]) {
  const int y = lane / 4, x = lane % 4, each = kind == 2 ? 1 : 2;
  for (int k = 0; k < 4; k++) {
    double total = *sums[k];
    for (int block = 0; block < blocks; block++)
      for (int other = 0; other < 4; other++)
        for (int which = 0; which < each; which++)
          total += tm_term(kind, left[4 * y + other][2 * block + k / 2], which) *
                   tm_term(kind, right[4 * (2 * x + k % 2) + other][block], which);
    *sums[k] = (float)total;
  }
}
#define TM_MULTIPLY(kind, blocks, d00, d01, d10, d11, ...)                                                             \
  {                                                                                                                    \
    const tm_uint32 tm_parts[] = {__VA_ARGS__};                                                                        \
    tm_uint32 tm_a[32][4], tm_b[32][4];                                                                                \
    tm_gather(__LINE__, tm_parts, 2 * blocks, tm_a);                                                                   \
    tm_gather(__LINE__, tm_parts + 2 * blocks, blocks, tm_b);                                                          \
    float *const tm_sums[] = {&d00, &d01, &d10, &d11};                                                                 \
    tm_multiply(kind, blocks, (int)(tm_index & 31), tm_a, tm_b, tm_sums);                                              \
  }
#define TM_MMA_m16n8k16(d00, d01, d10, d11, a0, a1, a2, a3, b0, b1)                                                    \
  TM_MULTIPLY(tm_kind(a0), 2, d00, d01, d10, d11, tm_part(a0), tm_part(a1), tm_part(a2), tm_part(a3), tm_part(b0),      \
              tm_part(b1))
#define TM_MMA_m16n8k8_tf32 TM_MMA_m16n8k16
#define TM_MMA_m16n8k8(d00, d01, d10, d11, a0, a1, b0)                                                                 \
  TM_MULTIPLY(tm_kind(a0), 1, d00, d01, d10, d11, tm_part(a0), tm_part(a1), tm_part(b0))
#endif

#endif
