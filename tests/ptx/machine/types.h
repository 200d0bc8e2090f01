/* The types of PTX, and the bits of their values: a register holds any of them in the low bits of 64, with zeros above. */
#pragma once
#include <cstdint>
#include <cstring>
#include <string>
#include <type_traits>

namespace ptx {

using u8 = uint8_t;
using u16 = uint16_t;
using u32 = uint32_t;
using u64 = uint64_t;
using s8 = int8_t;
using s16 = int16_t;
using s32 = int32_t;
using s64 = int64_t;
using u128 = unsigned __int128;
using s128 = __int128;

enum class Type : u8 { none, pred, b8, b16, b32, b64, u8, u16, u32, u64, s8, s16, s32, s64, f16, bf16, f16x2, bf16x2, f32, f64 };

/* The type of a name such as "u32"; none of any other word. */
Type type_named(const std::string &name);

int size_of(Type type);
bool is_signed(Type type);
bool is_float(Type type);

inline u64 truncated(u64 bits, int bytes) { return bytes >= 8 ? bits : bits & ((u64(1) << 8 * bytes) - 1); }

/* The next multiple. */
inline u64 aligned(u64 offset, u64 to) { return (offset + to - 1) / to * to; }

/* The value of an integer type, by its sign. */
s64 extended(u64 bits, Type type);

/* 16-bit floats, as they are stored. */
struct Half {
  u16 bits;
};
struct Brain {
  u16 bits;
};

template <class T>
T from_bits(u64 bits) {
  T value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

/* Results that are no number have the bits that the device gives all of them. */
template <class T>
u64 to_bits(T value) {
  u64 bits = 0;
  memcpy(&bits, &value, sizeof value);
  return bits;
}
template <>
inline u64 to_bits(float value) {
  u32 bits;
  memcpy(&bits, &value, sizeof bits);
  return value != value ? 0x7fffffff : bits;
}
template <>
inline u64 to_bits(double value) {
  u64 bits;
  memcpy(&bits, &value, sizeof bits);
  return value != value ? 0x7ff8000000000000 : bits;
}

}  // namespace ptx
