/* Bits: and, or, xor, not, cnot, lop3, shl, shr, shf, popc, clz, bfind, brev, bfe, bfi, prmt. */
#include <algorithm>

#include "decoder.h"
#include "launch.h"

namespace ptx {

namespace bits {

enum Logic : u8 { AND, OR, XOR };

u64 in(const Thread &t, const Instruction &i, int number) { return t.read(i.in[number]); }

Flow out(Thread &t, const Instruction &i, u64 bits) {
  t.write(i.out[0], bits);
  return Flow::next;
}

int bits_of(const Instruction &i) { return 8 * size_of(i.type); }

Flow logic(Thread &t, const Instruction &i) {
  const bool is_predicate = i.type == Type::pred;
  const u64 a = is_predicate ? t.holds(i.in[0]) : in(t, i, 0), b = is_predicate ? t.holds(i.in[1]) : in(t, i, 1);
  return out(t, i, i.choice == AND ? a & b : i.choice == OR ? a | b : a ^ b);
}

Flow inverted(Thread &t, const Instruction &i) {
  return out(t, i, i.type == Type::pred ? !t.holds(i.in[0]) : truncated(~in(t, i, 0), size_of(i.type)));
}

Flow is_zero(Thread &t, const Instruction &i) { return out(t, i, truncated(in(t, i, 0), size_of(i.type)) == 0); }

/* A bit of the table for each of the eight combinations. */
Flow lop3(Thread &t, const Instruction &i) {
  const u64 a = in(t, i, 0), b = in(t, i, 1), c = in(t, i, 2), table = in(t, i, 3);
  u64 made = 0;
  for (int k = 0; k < 32; k++) made |= (table >> ((a >> k & 1) << 2 | (b >> k & 1) << 1 | (c >> k & 1)) & 1) << k;
  return out(t, i, made);
}

/* By more bits than there are, nothing is left, or the sign alone. */
Flow shl(Thread &t, const Instruction &i) {
  const u32 by = u32(in(t, i, 1));
  return out(t, i, by >= u32(bits_of(i)) ? 0 : truncated(in(t, i, 0) << by, size_of(i.type)));
}

Flow shr(Thread &t, const Instruction &i) {
  const u32 by = u32(in(t, i, 1)), most = u32(bits_of(i));
  const u64 a = in(t, i, 0);
  if (is_signed(i.type)) return out(t, i, truncated(u64(extended(a, i.type) >> std::min(by, most - 1)), size_of(i.type)));
  return out(t, i, by >= most ? 0 : truncated(a, size_of(i.type)) >> by);
}

/* 32 bits of two words that lie side by side. `combination`: the number of bits wraps. */
Flow shf(Thread &t, const Instruction &i) {
  const u64 both = truncated(in(t, i, 1), 4) << 32 | truncated(in(t, i, 0), 4);
  const u32 given = u32(in(t, i, 2)), by = i.combination ? given & 31 : std::min(given, 32u);
  return out(t, i, i.choice ? truncated(both << by >> 32, 4) : truncated(both >> by, 4));
}

Flow popc(Thread &t, const Instruction &i) { return out(t, i, u64(__builtin_popcountll(truncated(in(t, i, 0), size_of(i.type))))); }

Flow clz(Thread &t, const Instruction &i) {
  const u64 a = truncated(in(t, i, 0), size_of(i.type));
  return out(t, i, a == 0 ? u64(bits_of(i)) : u64(__builtin_clzll(a) - 64 + bits_of(i)));
}

/* The place of the highest bit that is not the sign; all ones for none. `choice`: counted from the top. */
Flow bfind(Thread &t, const Instruction &i) {
  const s64 value = extended(in(t, i, 0), i.type);
  const u64 a = truncated(u64(is_signed(i.type) && value < 0 ? ~value : value), size_of(i.type));
  if (a == 0) return out(t, i, 0xffffffff);
  const int place = 63 - __builtin_clzll(a);
  return out(t, i, u64(i.choice ? bits_of(i) - 1 - place : place));
}

Flow brev(Thread &t, const Instruction &i) {
  u64 made = 0;
  for (int k = 0; k < bits_of(i); k++) made |= (in(t, i, 0) >> k & 1) << (bits_of(i) - 1 - k);
  return out(t, i, made);
}

Flow bfe(Thread &t, const Instruction &i) {
  const u64 a = truncated(in(t, i, 0), size_of(i.type));
  const int most = bits_of(i) - 1, first = int(in(t, i, 1) & 255), count = int(in(t, i, 2) & 255);
  const u64 sign = is_signed(i.type) && count > 0 ? a >> std::min(first + count - 1, most) & 1 : 0;
  u64 made = 0;
  for (int k = 0; k <= most; k++) made |= (k < count && first + k <= most ? a >> (first + k) & 1 : sign) << k;
  return out(t, i, made);
}

Flow bfi(Thread &t, const Instruction &i) {
  const int most = bits_of(i) - 1, first = int(in(t, i, 2) & 255), count = int(in(t, i, 3) & 255);
  u64 made = in(t, i, 1);
  for (int k = 0; k < count && first + k <= most; k++)
    made = (made & ~(u64(1) << (first + k))) | (in(t, i, 0) >> k & 1) << (first + k);
  return out(t, i, truncated(made, size_of(i.type)));
}

/* Four of eight bytes, or their signs. */
Flow prmt(Thread &t, const Instruction &i) {
  const u64 both = truncated(in(t, i, 1), 4) << 32 | truncated(in(t, i, 0), 4);
  u64 made = 0;
  for (int k = 0; k < 4; k++) {
    const u64 choice = in(t, i, 2) >> 4 * k & 15, byte = both >> 8 * (choice & 7) & 255;
    made |= (choice & 8 ? (byte & 128 ? 255 : 0) : byte) << 8 * k;
  }
  return out(t, i, made);
}

}  // namespace bits

bool decode_bits(Decoder &d) {
  using namespace bits;
  if (d.is("and") || d.is("or") || d.is("xor")) {
    d.made.choice = d.is("and") ? AND : d.is("or") ? OR : XOR;
    d.inputs(2);
    d.run(logic);
  } else if (d.is("not") || d.is("cnot")) {
    d.inputs(1);
    d.run(d.is("not") ? inverted : is_zero);
  } else if (d.is("lop3")) {
    d.inputs(4);
    d.run(lop3);
  } else if (d.is("shl") || d.is("shr")) {
    d.inputs(2);
    d.input(1, Type::u32);
    d.run(d.is("shl") ? shl : shr);
  } else if (d.is("shf")) {
    d.made.choice = d.one_of({"r", "l"}) == 2;
    d.made.combination = d.one_of({"clamp", "wrap"}) == 2;
    d.inputs(3);
    d.run(shf);
  } else if (d.is("popc") || d.is("clz") || d.is("brev")) {
    d.inputs(1);
    d.run(d.is("popc") ? popc : d.is("clz") ? clz : brev);
  } else if (d.is("bfind")) {
    d.made.choice = d.has("shiftamt");
    d.inputs(1);
    d.run(bfind);
  } else if (d.is("bfe")) {
    d.inputs(3);
    d.input(1, Type::u32);
    d.input(2, Type::u32);
    d.run(bfe);
  } else if (d.is("bfi")) {
    d.inputs(4);
    d.input(2, Type::u32);
    d.input(3, Type::u32);
    d.run(bfi);
  } else if (d.is("prmt")) {
    d.inputs(3);
    d.run(prmt);
  } else {
    return false;
  }
  d.types(1);
  return true;
}

}  // namespace ptx
