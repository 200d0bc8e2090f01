/* Moves: mov of a value, of several into one register, and of one into several. */
#include "decoder.h"
#include "findings.h"
#include "launch.h"

namespace ptx {

namespace moves {

Flow mov(Thread &t, const Instruction &i) {
  t.write(i.out[0], i.type == Type::pred ? t.holds(i.in[0]) : t.read(i.in[0]));
  return Flow::next;
}

Flow pack(Thread &t, const Instruction &i) {
  u64 made = 0;
  for (int k = 0; k < i.ins; k++) made |= truncated(t.read(i.in[k]), i.bytes) << 8 * i.bytes * k;
  t.write(i.out[0], made);
  return Flow::next;
}

Flow unpack(Thread &t, const Instruction &i) {
  const u64 bits = t.read(i.in[0]);
  for (int k = 0; k < i.outs; k++) t.write(i.out[k], truncated(bits >> 8 * i.bytes * k, i.bytes));
  return Flow::next;
}

u8 piece(const Decoder &d, const Given &vector) {
  const int bytes = size_of(d.type()), count = int(vector.parts.size());
  if ((count != 2 && count != 4) || bytes % count != 0) throw Finding("so many parts are not known");
  return u8(bytes / count);
}

}  // namespace moves

bool decode_moves(Decoder &d) {
  using namespace moves;
  if (!d.is("mov")) return false;
  d.types(1);
  if (d.given.size() != 2) throw Finding("a move has two operands");
  const Given &to = d.given[0], &from = d.given[1];
  if (from.kind == Given::vector) {
    constexpr Type types[] = {Type::none, Type::b8, Type::b16, Type::none, Type::b32};
    d.made.bytes = piece(d, from);
    d.output(to);
    for (const Given &one : from.parts) d.made.in[d.made.ins++] = d.parser.operand(one, types[d.made.bytes]);
    d.run(pack);
  } else if (to.kind == Given::vector) {
    d.made.bytes = piece(d, to);
    for (const Given &one : to.parts) d.output(one);
    d.made.in[d.made.ins++] = d.parser.operand(from, d.type());
    d.run(unpack);
  } else {
    d.inputs(1);
    d.run(mov);
  }
  return true;
}

}  // namespace ptx
