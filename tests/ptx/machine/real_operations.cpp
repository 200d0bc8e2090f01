/* Arithmetic of floating-point numbers: add to fma, div, sqrt and their like, min and max, neg, abs, copysign, testp.

   What is approximate on the device is nearly exact here: the bits of its results are not modelled. */
#include <algorithm>

#include "decoder.h"
#include "findings.h"
#include "launch.h"
#include "reals.h"

namespace ptx {

namespace real_operations {

enum Operation : u8 { ADD, SUB, MUL, FMA, DIV, RCP, SQRT, RSQRT, EX2, LG2, SIN, COS, TANH, MIN, MAX };
enum Test : u8 { FINITE, INFINITE, NUMBER, NO_NUMBER, NORMAL, SUBNORMAL };

template <class Wide>
Wide calculated(u8 operation, volatile Wide a, volatile Wide b, volatile Wide c) {
  switch (operation) {
    case ADD: return a + b;
    case SUB: return a - b;
    case MUL: return a * b;
    case FMA: return std::fma(Wide(a), Wide(b), Wide(c));
    case DIV: return a / b;
    case RCP: return Wide(1) / a;
    case SQRT: return std::sqrt(Wide(a));
    case RSQRT: return Wide(1 / std::sqrt((long double)a));
    case EX2: return Wide(std::exp2(double(a)));
    case LG2: return Wide(std::log2(double(a)));
    case SIN: return Wide(std::sin(double(a)));
    case COS: return Wide(std::cos(double(a)));
    default: return Wide(std::tanh(double(a)));
  }
}

/* Of a number and what is none, the number, unless .NaN; and -0 is less than +0. */
template <class Wide>
Wide least(Wide a, Wide b, bool or_none) {
  if (a != a || b != b) return or_none ? Wide(NAN) : a != a ? b : a;
  return a < b ? a : b < a ? b : std::signbit(a) ? a : b;
}

template <class T>
T flushed_if(T value, bool flushes) {
  if constexpr (std::is_same_v<T, float>) return flushes ? flushed(value) : value;
  return value;
}

template <class T>
T in_unit(T value) {
  if constexpr (std::is_floating_point_v<T>) return value != value ? 0 : std::clamp(value, T(0), T(1));
  const double size = value_of(value);
  return rounded<T>(size != size ? 0 : std::clamp(size, 0.0, 1.0), FE_TONEAREST);
}

/* One number of the operands; `lane` counts those of 16 bits in a register. */
template <class T>
T one(const Thread &t, const Instruction &i, int number, int lane) {
  return flushed_if(from_bits<T>(t.read(i.in[number]) >> 8 * sizeof(T) * unsigned(lane) * (sizeof(T) == 2)), i.flushes);
}

template <class T>
T result(const Thread &t, const Instruction &i, int lane) {
  using Wide = typename Calculation<T>::Wide;
  Wide given[3] = {};
  for (int k = 0; k < i.ins; k++) given[k] = value_of(one<T>(t, i, k, lane));
  if (i.choice == MIN || i.choice == MAX) {
    const Wide found = i.choice == MIN ? least(given[0], given[1], i.combination) : -least<Wide>(-given[0], -given[1], i.combination);
    return rounded<T>(double(found), FE_TONEAREST);
  }
  T made = Calculation<T>::done(i.rounding, [&] { return calculated<Wide>(i.choice, given[0], given[1], given[2]); });
  made = flushed_if(made, i.flushes);
  return i.saturates ? in_unit(made) : made;
}

template <class T>
Flow real(Thread &t, const Instruction &i) {
  u64 made = to_bits(result<T>(t, i, 0));
  if (i.bytes > sizeof(T)) made |= to_bits(result<T>(t, i, 1)) << 16;
  t.write(i.out[0], made);
  return Flow::next;
}

/* 1 / a or 1 / sqrt(a), of and as the upper 32 bits of a double: .approx.ftz.f64. */
Flow gross(Thread &t, const Instruction &i) {
  const auto upper = [](double value) {
    const bool is_small = std::fpclassify(value) == FP_SUBNORMAL;
    return is_small ? std::copysign(0.0, value) : from_bits<double>(to_bits(value) >> 32 << 32);
  };
  const double given = upper(from_bits<double>(t.read(i.in[0])));
  t.write(i.out[0], to_bits(upper(1 / (i.choice == RCP ? given : std::sqrt(given)))));
  return Flow::next;
}

/* The sign alone changes; of what is no number, nothing is promised. */
template <class T>
Flow signed_anew(Thread &t, const Instruction &i) {
  u64 made = 0;
  for (int lane = 0; lane * int(sizeof(T)) < i.bytes; lane++) {
    const T value = one<T>(t, i, 0, lane);
    const u64 sign = u64(1) << (8 * sizeof(T) - 1), bits = to_bits(value);
    const u64 changed = value_of(value) != value_of(value) ? bits : i.choice ? bits & ~sign : bits ^ sign;
    made |= changed << 16 * lane;
  }
  t.write(i.out[0], made);
  return Flow::next;
}

/* The second number, with the sign of the first. */
template <class T>
Flow copysign(Thread &t, const Instruction &i) {
  t.write(i.out[0], to_bits(std::copysign(from_bits<T>(t.read(i.in[1])), from_bits<T>(t.read(i.in[0])))));
  return Flow::next;
}

template <class T>
Flow testp(Thread &t, const Instruction &i) {
  const int kind = std::fpclassify(from_bits<T>(t.read(i.in[0])));
  const bool is[] = {kind != FP_INFINITE && kind != FP_NAN, kind == FP_INFINITE, kind != FP_NAN,
                     kind == FP_NAN, kind == FP_NORMAL, kind == FP_SUBNORMAL};
  t.write(i.out[0], is[i.choice]);
  return Flow::next;
}

#define PTX_BY_REAL(function, type)                                                   \
  (type == Type::f32                              ? (Execute)function<float>         \
   : type == Type::f64                            ? (Execute)function<double>        \
   : type == Type::f16 || type == Type::f16x2     ? (Execute)function<Half>          \
   : type == Type::bf16 || type == Type::bf16x2   ? (Execute)function<Brain>         \
                                                  : nullptr)

void flushing(Decoder &d) {
  d.made.flushes = d.has("ftz");
  if (d.made.flushes && d.type() != Type::f32) throw Finding(".ftz of another type than f32");
}

struct Named {
  const char *name;
  u8 operation, inputs;
};
constexpr Named NAMED[] = {{"add", ADD, 2},   {"sub", SUB, 2},     {"mul", MUL, 2},     {"fma", FMA, 3}, {"mad", FMA, 3},
                           {"div", DIV, 2},   {"rcp", RCP, 1},     {"sqrt", SQRT, 1},   {"rsqrt", RSQRT, 1}, {"ex2", EX2, 1},
                           {"lg2", LG2, 1},   {"sin", SIN, 1},     {"cos", COS, 1},     {"tanh", TANH, 1},   {"min", MIN, 2},
                           {"max", MAX, 2}};

}  // namespace real_operations

bool decode_reals(Decoder &d) {
  using namespace real_operations;
  const Type type = d.type();
  if (!is_float(type)) return false;
  d.made.bytes = u8(size_of(type));
  for (const Named &named : NAMED) {
    if (!d.is(named.name)) continue;
    d.made.choice = named.operation;
    if ((named.operation == RCP || named.operation == RSQRT) && type == Type::f64 && d.has("ftz")) {
      if (!d.has("approx")) throw Finding(".ftz of f64 without .approx");
      d.inputs(1);
      d.run(gross);
      d.types(1);
      return true;
    }
    d.made.combination = d.has("NaN");
    d.made.saturates = named.operation <= FMA && d.has("sat");
    d.rounding();
    flushing(d);
    if (named.operation >= DIV) d.ignore({"approx", "full"});
    d.inputs(named.inputs);
    d.run(PTX_BY_REAL(real, type));
    d.types(1);
    return true;
  }
  if (d.is("neg") || d.is("abs")) {
    d.made.choice = d.is("abs");
    flushing(d);
    d.inputs(1);
    d.run(PTX_BY_REAL(signed_anew, type));
  } else if (d.is("copysign")) {
    d.inputs(2);
    d.run(type == Type::f32 ? copysign<float> : type == Type::f64 ? copysign<double> : nullptr);
  } else if (d.is("testp")) {
    const u8 test = d.one_of({"finite", "infinite", "number", "notanumber", "normal", "subnormal"});
    if (test == 0) throw Finding("a test that is not known");
    d.made.choice = u8(test - 1);
    d.inputs(1);
    d.run(type == Type::f32 ? testp<float> : type == Type::f64 ? testp<double> : nullptr);
  } else {
    return false;
  }
  d.types(1);
  return true;
}

}  // namespace ptx
