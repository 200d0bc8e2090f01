/* Comparisons and choices: setp, set, selp, slct. */
#include "decoder.h"
#include "findings.h"
#include "launch.h"
#include "reals.h"

namespace ptx {

namespace comparisons {

enum Comparison : u8 { EQ, NE, LT, LE, GT, GE, EQU, NEU, LTU, LEU, GTU, GEU, NUM, NO_NUMBER };
enum Combination : u8 { NONE, AND, OR, XOR };

/* With what is no number, a comparison is false, or, with u at the end of its name, true. */
template <class T>
bool compared(T a, T b, u8 how) {
  const bool none = a != a || b != b;
  switch (how) {
    case EQ: return a == b;
    case NE: return !none && a != b;
    case LT: return a < b;
    case LE: return a <= b;
    case GT: return a > b;
    case GE: return a >= b;
    case EQU: return none || a == b;
    case NEU: return none || a != b;
    case LTU: return none || a < b;
    case LEU: return none || a <= b;
    case GTU: return none || a > b;
    case GEU: return none || a >= b;
    case NUM: return !none;
    default: return none;
  }
}

template <class T>
T number(u64 bits, bool flushes) {
  const T value = from_bits<T>(bits);
  if constexpr (std::is_same_v<T, float>) return flushes ? flushed(value) : value;
  return value;
}

/* Values of 16 bits are compared as wider ones. */
template <class T>
bool is_true(const Thread &t, const Instruction &i) {
  if constexpr (std::is_same_v<T, Half> || std::is_same_v<T, Brain>)
    return compared(value_of(from_bits<T>(t.read(i.in[0]))), value_of(from_bits<T>(t.read(i.in[1]))), i.choice);
  else
    return compared(number<T>(t.read(i.in[0]), i.flushes), number<T>(t.read(i.in[1]), i.flushes), i.choice);
}

bool combined(const Thread &t, const Instruction &i, bool value) {
  if (i.combination == NONE) return value;
  const bool other = t.holds(i.in[2]);
  return i.combination == AND ? value && other : i.combination == OR ? value || other : value != other;
}

/* The second result is of the opposite. */
template <class T>
Flow setp(Thread &t, const Instruction &i) {
  const bool value = is_true<T>(t, i), first = combined(t, i, value), second = combined(t, i, !value);
  t.write(i.out[0], first);
  if (i.outs > 1) t.write(i.out[1], second);
  return Flow::next;
}

template <class T>
Flow set(Thread &t, const Instruction &i) {
  const bool value = combined(t, i, is_true<T>(t, i));
  t.write(i.out[0], !value ? 0 : i.type == Type::f32 ? to_bits(1.0f) : truncated(~u64(0), size_of(i.type)));
  return Flow::next;
}

Flow selp(Thread &t, const Instruction &i) {
  t.write(i.out[0], t.read(i.in[t.holds(i.in[2]) ? 0 : 1]));
  return Flow::next;
}

Flow slct(Thread &t, const Instruction &i) {
  const u64 by = t.read(i.in[2]);
  const bool first = i.from == Type::f32 ? number<float>(by, i.flushes) >= 0 : s32(by) >= 0;
  t.write(i.out[0], t.read(i.in[first ? 0 : 1]));
  return Flow::next;
}

#define PTX_BY_TYPE(function, type)                          \
  (type == Type::f32    ? (Execute)function<float>          \
   : type == Type::f64  ? (Execute)function<double>         \
   : type == Type::f16  ? (Execute)function<Half>           \
   : type == Type::bf16 ? (Execute)function<Brain>          \
                        : PTX_BY_INTEGER(function, type))

/* `p|q, a, b, c`, of which q and c need not be there. */
void comparison(Decoder &d, Type of) {
  const u8 how = d.one_of({"eq", "ne", "lt", "le", "gt", "ge", "equ", "neu", "ltu", "leu", "gtu", "geu", "num", "nan"});
  const u8 unsigned_how = d.one_of({"lo", "ls", "hi", "hs"});
  if ((how == 0) == (unsigned_how == 0)) throw Finding("a comparison that is not known");
  d.made.choice = how != 0 ? u8(how - 1) : u8(LT + unsigned_how - 1);
  d.made.combination = d.one_of({"and", "or", "xor"});
  d.made.flushes = d.has("ftz");
  const size_t inputs = d.made.combination == NONE ? 2 : 3;
  if (d.given.size() != inputs + 1) throw Finding("so many operands are not known");
  const Given &results = d.given[0];
  if (results.kind == Given::pair)
    for (const Given &one : results.parts) d.output(one);
  else
    d.output(results);
  for (size_t k = 0; k < inputs; k++) d.made.in[k] = d.parser.operand(d.given[k + 1], k < 2 ? of : Type::pred);
  d.made.ins = u8(inputs);
}

}  // namespace comparisons

bool decode_comparisons(Decoder &d) {
  using namespace comparisons;
  if (d.is("setp")) {
    d.types(1);
    comparison(d, d.type());
    d.run(PTX_BY_TYPE(setp, d.type()));
  } else if (d.is("set")) {
    d.types(2);
    comparison(d, d.made.from);
    d.run(PTX_BY_TYPE(set, d.made.from));
  } else if (d.is("selp")) {
    d.types(1);
    d.inputs(3);
    d.input(2, Type::pred);
    d.run(selp);
  } else if (d.is("slct")) {
    d.types(2);
    d.made.flushes = d.has("ftz");
    d.inputs(3);
    d.input(2, d.made.from);
    d.run(slct);
  } else {
    return false;
  }
  return true;
}

}  // namespace ptx
