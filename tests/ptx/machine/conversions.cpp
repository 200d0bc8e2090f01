/* Conversions: cvt between types, cvta between spaces, isspacep. */
#include <algorithm>

#include "decoder.h"
#include "findings.h"
#include "memory.h"
#include "reals.h"

namespace ptx {

namespace conversions {

int bits_of(Type type) { return 8 * size_of(type); }

/* In a register that is wider than its type, a value is extended by its sign. */
u64 fitted(u64 bits, const Instruction &i) { return truncated(u64(extended(bits, i.type)), i.width); }

s128 most(Type type) { return (s128(1) << (bits_of(type) - is_signed(type))) - 1; }
s128 least(Type type) { return is_signed(type) ? -(s128(1) << (bits_of(type) - 1)) : 0; }

s128 whole_number(u64 bits, Type type) {
  const s64 value = extended(bits, type);
  return type == Type::u64 || type == Type::b64 ? s128(u64(value)) : s128(value);
}

double real_number(u64 bits, Type type, bool flushes) {
  switch (type) {
    case Type::f64: return from_bits<double>(bits);
    case Type::f32: return flushes ? flushed(from_bits<float>(bits)) : from_bits<float>(bits);
    case Type::f16: return value_of(from_bits<Half>(bits));
    default: return value_of(from_bits<Brain>(bits));
  }
}

u64 real_bits(double value, const Instruction &i, Type type) {
  switch (type) {
    case Type::f64: return to_bits(value);
    case Type::f32: {
      const float made = rounded<float>(value, i.rounding);
      return to_bits(i.flushes ? flushed(made) : made);
    }
    case Type::f16: return rounded<Half>(value, i.rounding).bits;
    default: return rounded<Brain>(value, i.rounding).bits;
  }
}

Flow integer_to_integer(Thread &t, const Instruction &i) {
  const s128 value = whole_number(t.read(i.in[0]), i.from);
  t.write(i.out[0], fitted(u64(i.saturates ? std::clamp(value, least(i.type), most(i.type)) : value), i));
  return Flow::next;
}

/* A number of 64 bits is rounded once: in two steps the first one rounds to odd. */
Flow integer_to_real(Thread &t, const Instruction &i) {
  volatile u64 bits = t.read(i.in[0]);
  const bool negative = is_signed(i.from) && extended(bits, i.from) < 0;
  const u64 size = negative ? 0 - u64(extended(bits, i.from)) : truncated(bits, size_of(i.from));
  if (i.type == Type::f64) {
    Rounding rounding(i.rounding);
    volatile double made = negative ? double(s64(0 - size)) : double(size);
    t.write(i.out[0], to_bits(double(made)));
    return Flow::next;
  }
  const double value = to_odd([](const void *from) {
    volatile u64 given = *static_cast<const u64 *>(from);
    return double(given);
  }, &size);
  t.write(i.out[0], real_bits(negative ? -value : value, i, i.type));
  return Flow::next;
}

/* What is out of range becomes the nearest integer that there is; what is no number, zero or the middle of the range. */
Flow real_to_integer(Thread &t, const Instruction &i) {
  const double value = real_number(t.read(i.in[0]), i.from, i.flushes);
  if (value != value) {
    const bool is_zero = i.from != Type::f64 && size_of(i.type) < 8;
    t.write(i.out[0], is_zero ? 0 : fitted(u64(1) << (bits_of(i.type) - 1), i));
    return Flow::next;
  }
  const double found = whole(value, i.rounding), limit = std::ldexp(1.0, bits_of(i.type) - is_signed(i.type));
  const s128 made = found >= limit ? most(i.type) : found <= double(least(i.type)) ? least(i.type) : s128(found);
  t.write(i.out[0], fitted(u64(made), i));
  return Flow::next;
}

double in_unit(double value) { return value != value ? 0 : std::clamp(value, 0.0, 1.0); }

Flow real_to_real(Thread &t, const Instruction &i) {
  const double given = real_number(t.read(i.in[0]), i.from, i.flushes), value = i.is_integral ? whole(given, i.rounding) : given;
  t.write(i.out[0], real_bits(i.saturates ? in_unit(value) : value, i, i.type));
  return Flow::next;
}

/* `cvt.rn.f16x2.f32 d, a, b`: a in the upper half. */
Flow real_to_pair(Thread &t, const Instruction &i) {
  const Type type = i.type == Type::f16x2 ? Type::f16 : Type::bf16;
  u64 made = 0;
  for (int k = 0; k < 2; k++) {
    const double value = real_number(t.read(i.in[k]), i.from, false);
    made = made << 16 | real_bits(i.saturates ? in_unit(value) : value, i, type);
  }
  t.write(i.out[0], made);
  return Flow::next;
}

Flow to_generic(Thread &t, const Instruction &i) {
  t.write(i.out[0], t.read(i.in[0]) + window_of(i.space));
  return Flow::next;
}

Flow from_generic(Thread &t, const Instruction &i) {
  t.write(i.out[0], t.read(i.in[0]) - window_of(i.space));
  return Flow::next;
}

Flow isspacep(Thread &t, const Instruction &i) {
  u64 address = t.read(i.in[0]);
  t.write(i.out[0], located(Space::generic, address) == i.space);
  return Flow::next;
}

void space_of(Decoder &d) {
  const u8 space = d.one_of({"global", "const", "shared", "shared::cta", "local", "param"});
  constexpr Space spaces[] = {Space::generic, Space::global, Space::global, Space::shared, Space::shared, Space::local, Space::param};
  if (space == 0) throw Finding("a space that is not known");
  d.made.space = spaces[space];
}

void conversion(Decoder &d) {
  d.types(2);
  const Type to = d.type(), from = d.made.from;
  const bool is_pair = to == Type::f16x2 || to == Type::bf16x2;
  const u8 integral = d.one_of({"rni", "rzi", "rmi", "rpi"}), direction = d.one_of({"rn", "rz", "rm", "rp"});
  constexpr int modes[] = {FE_TONEAREST, FE_TOWARDZERO, FE_DOWNWARD, FE_UPWARD};
  d.made.is_integral = integral != 0;
  d.made.rounding = modes[integral != 0 ? integral - 1 : direction != 0 ? direction - 1 : 0];
  d.made.saturates = d.has("sat");
  d.made.flushes = d.has("ftz");
  d.inputs(is_pair ? 2 : 1);
  for (int k = 0; k < d.made.ins; k++) d.input(size_t(k), from);
  if (to == Type::pred || from == Type::pred || from == Type::f16x2 || from == Type::bf16x2) throw Finding("a type that is not known here");
  if (is_pair && from != Type::f32) throw Finding("a pair of another type than f32");
  if (is_float(from) && !is_float(to) && integral == 0) throw Finding("no rounding to a whole number");
  if (!is_float(from) && is_float(to) && direction == 0) throw Finding("no rounding");
  if (is_float(from) && is_float(to) && size_of(to) < size_of(from) && direction == 0) throw Finding("no rounding");
  d.run(is_pair ? real_to_pair : is_float(from) ? (is_float(to) ? real_to_real : real_to_integer) : is_float(to) ? integer_to_real : integer_to_integer);
}

}  // namespace conversions

bool decode_conversions(Decoder &d) {
  using namespace conversions;
  if (d.is("cvt")) {
    conversion(d);
  } else if (d.is("cvta")) {
    d.types(1);
    space_of(d);
    d.inputs(1);
    d.run(d.has("to") ? from_generic : to_generic);
  } else if (d.is("isspacep")) {
    space_of(d);
    d.inputs(1);
    d.run(isspacep);
  } else {
    return false;
  }
  return true;
}

}  // namespace ptx
