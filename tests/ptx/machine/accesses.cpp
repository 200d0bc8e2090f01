/* Loads and stores, of one value or of several side by side: ld, ldu, st; and fences: membar, fence. */
#include "decoder.h"
#include "findings.h"
#include "memory.h"

namespace ptx {

namespace accesses {

constexpr int MOST_BYTES = 32;

u64 address_of(const Thread &t, const Instruction &i) { return t.read(i.address) + u64(i.offset); }

Flow ld(Thread &t, const Instruction &i) {
  char found[MOST_BYTES];
  load(t, i, i.space, address_of(t, i), found, i.bytes * i.outs);
  for (int k = 0; k < i.outs; k++) {
    u64 bits = 0;
    memcpy(&bits, found + k * i.bytes, i.bytes);
    t.write(i.out[k], truncated(u64(extended(bits, i.type)), i.width));
  }
  if (i.acquires) fence(t, Scope::device);
  return Flow::next;
}

Flow st(Thread &t, const Instruction &i) {
  char given[MOST_BYTES];
  if (i.releases) fence(t, Scope::device);
  for (int k = 0; k < i.ins; k++) {
    const u64 bits = t.read(i.in[k]);
    memcpy(given + k * i.bytes, &bits, i.bytes);
  }
  store(t, i, i.space, address_of(t, i), given, i.bytes * i.ins);
  return Flow::next;
}

Flow fence_block(Thread &t, const Instruction &) {
  fence(t, Scope::block);
  return Flow::next;
}

Flow fence_device(Thread &t, const Instruction &) {
  fence(t, Scope::device);
  return Flow::next;
}

std::vector<Given> lanes_of(Decoder &d, const Given &given) {
  const size_t wanted = d.has("v2") ? 2 : d.has("v4") ? 4 : 1;
  const std::vector<Given> lanes = given.kind == Given::vector ? given.parts : std::vector<Given>{given};
  if (lanes.size() != wanted) throw Finding(text("it has %zu values, not %zu", lanes.size(), wanted));
  return lanes;
}

void access(Decoder &d, bool reads) {
  d.types(1);
  const u8 space = d.one_of({"global", "const", "shared", "shared::cta", "local", "param", "param::entry", "param::func"});
  constexpr Space spaces[] = {Space::generic, Space::global, Space::global, Space::shared, Space::shared, Space::local, Space::param, Space::param, Space::param};
  d.made.space = spaces[space];
  d.made.bytes = u8(size_of(d.type()));
  d.made.through_constant_cache = d.has("nc");
  d.made.acquires = d.has("acquire");
  d.made.releases = d.has("release");
  d.made.is_strong = d.one_of({"volatile", "relaxed", "acquire", "release"}) != 0;
  d.ignore({"weak", "cta", "cluster", "gpu", "sys", "ca", "cg", "cs", "cv", "lu", "wb", "wt"});
  d.ignore({"L1::evict_normal", "L1::evict_unchanged", "L1::evict_first", "L1::evict_last", "L1::no_allocate", "L2::64B", "L2::128B", "L2::256B"});
  if (d.given.size() != 2) throw Finding("it has two operands");
  const std::vector<Given> lanes = lanes_of(d, d.given[reads ? 0 : 1]);
  for (const Given &one : lanes) {
    if (reads)
      d.output(one);
    else
      d.made.in[d.made.ins++] = d.parser.operand(one, d.type());
  }
  d.address(d.given[reads ? 1 : 0]);
  d.run(reads ? ld : st);
}

}  // namespace accesses

bool decode_accesses(Decoder &d) {
  using namespace accesses;
  if (d.is("ld") || d.is("ldu") || d.is("st")) {
    access(d, !d.is("st"));
  } else if (d.is("membar") || d.is("fence")) {
    const bool is_block = d.has("cta");
    d.ignore({"gl", "sys", "gpu", "cluster", "sc", "acq_rel"});
    d.made.may_pause = true;
    if (!d.given.empty()) throw Finding("a fence of a kind that is not known");
    d.run(is_block ? fence_block : fence_device);
  } else {
    return false;
  }
  return true;
}

}  // namespace ptx
