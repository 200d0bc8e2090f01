/* Copies to shared memory that arrive later: cp.async, with its groups.

   A copy arrives when its group is waited for, or at once; what it reads and where it writes may be in use in between. */
#include "decoder.h"
#include "findings.h"
#include "memory.h"

namespace ptx {

namespace copies {

void arrive(Thread &t, const Instruction &i, const PendingCopy &copy) {
  char bytes[16] = {};
  if (copy.filled == 0) {
    load(t, i, Space::global, copy.from, bytes, copy.bytes);
  } else {
    for (int at = 0; at < copy.bytes - copy.filled;) { /* pieces that may be accessed */
      int piece = 8;
      while (at + piece > copy.bytes - copy.filled) piece /= 2;
      load(t, i, Space::global, copy.from + u64(at), bytes + at, piece);
      at += piece;
    }
  }
  store(t, i, Space::shared, copy.to, bytes, copy.bytes);
}

Flow begin(Thread &t, const Instruction &i) {
  PendingCopy copy = {t.read(i.address) + u64(i.offset), t.read(i.source) + u64(i.source_offset), i.bytes, 0, t.groups};
  if (i.ins > 0) {
    const u32 given = u32(t.read(i.in[0]));
    if (given > i.bytes) refuse(t, "it reads more than it copies");
    copy.filled = i.bytes - int(given);
    if (given > 0 && copy.from % u64(i.bytes) != 0) refuse(t, "it reads from a place that is not aligned");
  }
  if (t.block->launch->percent(t.block->launch->plan.late))
    t.copies.push_back(copy);
  else
    arrive(t, i, copy);
  return Flow::next;
}

Flow commit(Thread &t, const Instruction &) {
  t.groups++;
  return Flow::next;
}

/* All but the newest groups arrive; of .wait_all, what is in no group yet, too. */
Flow wait(Thread &t, const Instruction &i) {
  const int past = i.choice ? t.groups + 1 : t.groups - int(t.read(i.in[0]));
  std::vector<PendingCopy> left;
  for (const PendingCopy &copy : t.copies) {
    if (copy.group < past)
      arrive(t, i, copy);
    else
      left.push_back(copy);
  }
  t.copies = left;
  return Flow::next;
}

void copy(Decoder &d) {
  d.ignore({"ca", "cg", "shared", "shared::cta", "global", "L2::64B", "L2::128B", "L2::256B"});
  if (d.given.size() != 3 && d.given.size() != 4) throw Finding("so many operands are not known");
  d.made.space = Space::shared;
  d.address(d.given[0]);
  if (d.given[1].kind != Given::address) throw Finding("an address is wanted");
  d.made.source = d.parser.operand(d.given[1]);
  d.made.source_offset = d.given[1].plus;
  d.made.bytes = u8(number_of(d.given[2].text));
  if (d.made.bytes != 4 && d.made.bytes != 8 && d.made.bytes != 16) throw Finding("a copy has 4, 8 or 16 bytes");
  if (d.given.size() == 4) d.made.in[d.made.ins++] = d.parser.operand(d.given[3], Type::u32);
  d.run(begin);
}

}  // namespace copies

bool decode_copies(Decoder &d) {
  using namespace copies;
  if (!d.is("cp") || !d.has("async")) return false;
  if (d.has("commit_group")) {
    d.run(commit);
  } else if (d.has("wait_group")) {
    d.inputs(1, 0);
    d.run(wait);
  } else if (d.has("wait_all")) {
    d.made.choice = 1;
    d.run(wait);
  } else {
    copy(d);
  }
  return true;
}

}  // namespace ptx
