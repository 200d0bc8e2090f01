/* Numbers in memory that are read, changed and written at once: atom, red. */
#include <algorithm>

#include "decoder.h"
#include "findings.h"
#include "memory.h"
#include "reals.h"

namespace ptx {

namespace atomics {

enum Operation : u8 { ADD, MIN, MAX, AND, OR, XOR, EXCHANGE, COMPARE, INCREMENT, DECREMENT };

template <class T>
T changed(const Instruction &i, T old, T a, T b) {
  switch (i.choice) {
    case MIN: return std::min(old, a);
    case MAX: return std::max(old, a);
    case AND: return old & a;
    case OR: return old | a;
    case XOR: return old ^ a;
    case EXCHANGE: return a;
    case COMPARE: return old == a ? b : old;
    case INCREMENT: return old >= a ? T(0) : T(old + 1);
    case DECREMENT: return old == 0 || old > a ? a : T(old - 1);
    default: return T(std::make_unsigned_t<T>(old) + std::make_unsigned_t<T>(a));
  }
}

/* In global memory, sums of floats lose what is too small for the exponent. */
float added(float old, float a, bool is_global) {
  return is_global ? flushed(flushed(old) + flushed(a)) : old + a;
}

template <class T>
T updated(const Instruction &i, T old, T a, T b, bool is_global) {
  if constexpr (std::is_same_v<T, float>)
    return added(old, a, is_global);
  else if constexpr (std::is_same_v<T, double>)
    return old + a;
  else
    return changed(i, old, a, b);
}

template <class T>
Flow atom(Thread &t, const Instruction &i) {
  u64 address = t.read(i.address) + u64(i.offset), offset = address;
  const bool is_global = located(i.space, offset) == Space::global;
  if (i.releases) fence(t, Scope::device);
  char *place = atomic_place(t, i.space, address, sizeof(T));
  T old;
  memcpy(&old, place, sizeof old);
  const T made = updated(i, old, from_bits<T>(t.read(i.in[0])), from_bits<T>(t.read(i.in[1])), is_global);
  memcpy(place, &made, sizeof made);
  if (i.outs > 0) {
    u64 bits = 0; /* as they are: no number is made anew */
    memcpy(&bits, &old, sizeof old);
    t.write(i.out[0], bits);
  }
  if (i.acquires) fence(t, Scope::device);
  return Flow::next;
}

}  // namespace atomics

bool decode_atomics(Decoder &d) {
  using namespace atomics;
  const bool returns = d.is("atom");
  if (!returns && !d.is("red")) return false;
  d.types(1);
  const Type type = d.type();
  const u8 operation = d.one_of({"add", "min", "max", "and", "or", "xor", "exch", "cas", "inc", "dec"});
  const u8 space = d.one_of({"global", "shared", "shared::cta"});
  if (operation == 0) throw Finding("an operation that is not known");
  constexpr Space spaces[] = {Space::generic, Space::global, Space::shared, Space::shared};
  d.made.choice = u8(operation - 1);
  d.made.space = spaces[space];
  d.made.is_strong = d.made.may_pause = true;
  const u8 order = d.one_of({"acquire", "release", "acq_rel"});
  d.made.acquires = order == 1 || order == 3;
  d.made.releases = order == 2 || order == 3;
  d.ignore({"relaxed", "cta", "cluster", "gpu", "sys"});
  const size_t first = returns ? 1 : 0, count = d.made.choice == COMPARE ? 2 : 1;
  if (d.given.size() != first + 1 + count) throw Finding("so many operands are not known");
  if (returns) d.output(d.given[0]);
  d.address(d.given[first]);
  for (size_t k = 0; k < count; k++) d.made.in[d.made.ins++] = d.parser.operand(d.given[first + 1 + k], type);
  if (is_float(type) && d.made.choice != ADD) throw Finding("an operation that floats do not have");
  d.run(type == Type::f32 ? atom<float> : type == Type::f64 ? atom<double> : size_of(type) >= 2 ? PTX_BY_INTEGER(atom, type) : nullptr);
  return true;
}

}  // namespace ptx
