/* Integer arithmetic: add, sub, mul, mad, with carries; div, rem, min, max, abs, neg, sad, dp2a, dp4a. */
#include <algorithm>

#include "decoder.h"
#include "findings.h"
#include "launch.h"

namespace ptx {

namespace integers {

template <class T>
using Unsigned = std::make_unsigned_t<T>;

template <class T>
T in(const Thread &t, const Instruction &i, int number) {
  return from_bits<T>(t.read(i.in[number]));
}

template <class T>
Flow out(Thread &t, const Instruction &i, T value) {
  t.write(i.out[0], to_bits(value));
  return Flow::next;
}

s32 saturated(s128 value) { return s32(std::clamp<s128>(value, INT32_MIN, INT32_MAX)); }

/* The sum of numbers without a sign, and its carry. */
template <class T>
Flow summed(Thread &t, const Instruction &i, u128 sum) {
  if (i.sets_carry) t.carry = u32(sum >> 8 * sizeof(T) & 1);
  return out(t, i, Unsigned<T>(sum));
}

template <class T>
Flow add(Thread &t, const Instruction &i) {
  const T a = in<T>(t, i, 0), b = in<T>(t, i, 1);
  if (i.saturates) return out(t, i, saturated(s128(a) + b));
  return summed<T>(t, i, u128(Unsigned<T>(a)) + Unsigned<T>(b) + (i.takes_carry ? t.carry : 0));
}

template <class T>
Flow sub(Thread &t, const Instruction &i) {
  const T a = in<T>(t, i, 0), b = in<T>(t, i, 1);
  if (i.saturates) return out(t, i, saturated(s128(a) - b));
  return summed<T>(t, i, u128(Unsigned<T>(a)) - Unsigned<T>(b) - (i.takes_carry ? t.carry : 0));
}

/* A product has twice the bits: the lower half, the upper one, or both. */
template <class T>
u64 product(const Thread &t, const Instruction &i, Part part) {
  using Wide = std::conditional_t<std::is_signed_v<T>, s128, u128>;
  const Wide whole = Wide(in<T>(t, i, 0)) * Wide(in<T>(t, i, 1));
  return u64(part == Part::high ? whole >> 8 * sizeof(T) : whole);
}

template <class T>
Flow mul(Thread &t, const Instruction &i) {
  const u64 bits = product<T>(t, i, i.part);
  t.write(i.out[0], truncated(bits, int(sizeof(T)) * (i.part == Part::wide ? 2 : 1)));
  return Flow::next;
}

template <class T>
Flow mad(Thread &t, const Instruction &i) {
  const u64 bits = product<T>(t, i, i.part);
  if (i.part == Part::wide) {
    t.write(i.out[0], truncated(bits + t.read(i.in[2]), 2 * sizeof(T)));
    return Flow::next;
  }
  if (i.saturates) return out(t, i, saturated(s128(s32(bits)) + s32(t.read(i.in[2]))));
  return summed<T>(t, i, u128(Unsigned<T>(bits)) + Unsigned<T>(in<T>(t, i, 2)) + (i.takes_carry ? t.carry : 0));
}

/* Of a division by zero the result is not specified; that of the machine is all ones. */
template <class T>
Flow div(Thread &t, const Instruction &i) {
  const T a = in<T>(t, i, 0), b = in<T>(t, i, 1);
  if (b == 0) return out(t, i, T(-1));
  if (std::is_signed_v<T> && b == T(-1)) return out(t, i, T(0 - Unsigned<T>(a)));
  return out(t, i, T(a / b));
}

template <class T>
Flow rem(Thread &t, const Instruction &i) {
  const T a = in<T>(t, i, 0), b = in<T>(t, i, 1);
  if (b == 0) return out(t, i, a);
  return out(t, i, std::is_signed_v<T> && b == T(-1) ? T(0) : T(a % b));
}

template <class T>
Flow min(Thread &t, const Instruction &i) {
  return out(t, i, std::min(in<T>(t, i, 0), in<T>(t, i, 1)));
}

template <class T>
Flow max(Thread &t, const Instruction &i) {
  return out(t, i, std::max(in<T>(t, i, 0), in<T>(t, i, 1)));
}

template <class T>
Flow abs(Thread &t, const Instruction &i) {
  const T a = in<T>(t, i, 0);
  return out(t, i, a < 0 ? T(0 - Unsigned<T>(a)) : a);
}

template <class T>
Flow neg(Thread &t, const Instruction &i) {
  return out(t, i, T(0 - Unsigned<T>(in<T>(t, i, 0))));
}

template <class T>
Flow sad(Thread &t, const Instruction &i) {
  const T a = in<T>(t, i, 0), b = in<T>(t, i, 1);
  const Unsigned<T> difference = a < b ? Unsigned<T>(Unsigned<T>(b) - Unsigned<T>(a)) : Unsigned<T>(Unsigned<T>(a) - Unsigned<T>(b));
  return out(t, i, T(Unsigned<T>(in<T>(t, i, 2)) + difference));
}

s64 piece(u64 bits, int number, int bytes, Type type) {
  const u64 shifted = truncated(bits >> 8 * bytes * number, bytes);
  return bytes == 1 ? extended(shifted, is_signed(type) ? Type::s8 : Type::u8) : extended(shifted, is_signed(type) ? Type::s16 : Type::u16);
}

Flow dp4a(Thread &t, const Instruction &i) {
  u64 sum = t.read(i.in[2]);
  for (int k = 0; k < 4; k++) sum += u64(piece(t.read(i.in[0]), k, 1, i.type) * piece(t.read(i.in[1]), k, 1, i.from));
  return out(t, i, u32(sum));
}

Flow dp2a(Thread &t, const Instruction &i) {
  const int first = i.part == Part::high ? 2 : 0; /* of the bytes */
  u64 sum = t.read(i.in[2]);
  for (int k = 0; k < 2; k++) sum += u64(piece(t.read(i.in[0]), k, 2, i.type) * piece(t.read(i.in[1]), first + k, 1, i.from));
  return out(t, i, u32(sum));
}

void part_of(Decoder &d) {
  const u8 part = d.one_of({"lo", "hi", "wide"});
  if (part == 0) throw Finding("neither .lo nor .hi nor .wide");
  d.made.part = Part(part - 1);
}

/* .sat is for 32 bits with a sign. */
void saturation(Decoder &d) {
  d.made.saturates = d.has("sat");
  if (d.made.saturates && d.type() != Type::s32) throw Finding(".sat of another type than s32");
}

Type twice(Type type) {
  switch (type) {
    case Type::u16: return Type::u32;
    case Type::s16: return Type::s32;
    case Type::u32: return Type::u64;
    case Type::s32: return Type::s64;
    default: throw Finding(".wide of a type that has none");
  }
}

}  // namespace integers

bool decode_integers(Decoder &d) {
  using namespace integers;
  const Type type = d.type();
  if (d.is("dp4a") || d.is("dp2a")) {
    if (d.is("dp2a")) d.made.part = d.one_of({"lo", "hi"}) == 2 ? Part::high : Part::low;
    d.types(2);
    d.inputs(3);
    d.run(d.is("dp4a") ? dp4a : dp2a);
    return true;
  }
  if (is_float(type) || type == Type::none) return false;
  if (d.is("add") || d.is("addc") || d.is("sub") || d.is("subc")) {
    d.made.takes_carry = d.name.size() == 4;
    d.made.sets_carry = d.has("cc");
    saturation(d);
    d.inputs(2);
    d.run(d.name[0] == 'a' ? PTX_BY_INTEGER(add, type) : PTX_BY_INTEGER(sub, type));
  } else if (d.is("mul")) {
    part_of(d);
    if (d.made.part == Part::wide) twice(type);
    d.inputs(2);
    d.run(PTX_BY_INTEGER(mul, type));
  } else if (d.is("mad") || d.is("madc")) {
    part_of(d);
    d.made.takes_carry = d.is("madc");
    d.made.sets_carry = d.has("cc");
    saturation(d);
    if (d.made.saturates && d.made.part != Part::high) throw Finding(".sat without .hi");
    d.inputs(3);
    if (d.made.part == Part::wide) d.input(2, twice(type));
    d.run(PTX_BY_INTEGER(mad, type));
  } else if (d.is("div") || d.is("rem") || d.is("min") || d.is("max")) {
    d.inputs(2);
    d.run(d.is("div")   ? PTX_BY_INTEGER(div, type)
          : d.is("rem") ? PTX_BY_INTEGER(rem, type)
          : d.is("min") ? PTX_BY_INTEGER(min, type)
                        : PTX_BY_INTEGER(max, type));
  } else if (d.is("abs") || d.is("neg")) {
    d.inputs(1);
    d.run(d.is("abs") ? PTX_BY_INTEGER(abs, type) : PTX_BY_INTEGER(neg, type));
  } else if (d.is("sad")) {
    d.inputs(3);
    d.run(PTX_BY_INTEGER(sad, type));
  } else {
    return false;
  }
  d.types(1);
  return true;
}

}  // namespace ptx
