/* Barriers of a block: bar and barrier, .sync, .arrive and .red; those of a warp are in warps.cpp. */
#include "decoder.h"
#include "findings.h"
#include "memory.h"

namespace ptx {

namespace barriers {

enum Reduction : u8 { NONE, POPC, AND, OR };

/* The number of the barrier, and of the threads that meet there: 0 for all. */
void choose(Thread &t, const Instruction &i) {
  t.barrier = u32(t.read(i.in[0]));
  const int numbers = i.ins - (i.choice != NONE); /* without the predicate */
  t.barrier_threads = numbers > 1 ? u32(t.read(i.in[1])) : 0;
  if (t.barrier > 15) refuse(t, "there are 16 barriers");
  if (t.barrier_threads % WARP != 0) refuse(t, "threads of a part of a warp meet at a barrier");
}

Flow wait(Thread &t, const Instruction &i) {
  choose(t, i);
  t.state = State::at_barrier;
  return Flow::waits;
}

Flow arrive(Thread &t, const Instruction &i) {
  choose(t, i);
  fence(t, Scope::block);
  t.block->arrived[t.barrier]++;
  return Flow::next;
}

/* The threads of a warp must be at the same instruction of a kind that is aligned. */
void check_alike(const std::vector<Thread *> &waiting) {
  const Thread *first = nullptr;
  for (const Thread *t : waiting) {
    if (t->barrier_threads != waiting.front()->barrier_threads) refuse(*t, "others wait at this barrier for another number of threads");
    const bool same_warp = first != nullptr && first->number / WARP == t->number / WARP;
    if (same_warp && t->at().is_aligned && (t->pc != first->pc || t->function != first->function))
      refuse(*t, text("another thread of the warp waits elsewhere: line %d: %s", first->at().line, first->at().text.c_str()));
    first = t;
  }
}

void complete(const std::vector<Thread *> &waiting) {
  u64 true_count = 0;
  for (Thread *t : waiting) {
    const Instruction &at = t->at();
    if (at.choice != NONE) true_count += t->holds(at.in[at.ins - 1]);
  }
  for (Thread *t : waiting) {
    const Instruction &at = t->at();
    const u64 results[] = {0, true_count, true_count == waiting.size(), true_count > 0};
    fence(*t, Scope::block);
    if (at.choice != NONE) t->write(at.out[0], results[at.choice]);
    t->state = State::ready;
    t->pc++;
  }
}

}  // namespace barriers

/* `bar.sync a{, b}`, `bar.arrive a, b`, `bar.red.op d, a{, b}, p`. */
bool decode_barriers(Decoder &d) {
  using namespace barriers;
  if ((!d.is("bar") && !d.is("barrier")) || d.has("warp")) return false;
  d.made.is_aligned = d.is("bar") || d.has("aligned");
  d.ignore({"cta"});
  const u8 kind = d.one_of({"sync", "arrive", "red"});
  const size_t count = d.given.size();
  d.made.choice = d.one_of({"popc", "and", "or"});
  if (kind == 0 || (kind == 3) != (d.made.choice != NONE)) throw Finding("a barrier of a kind that is not known");
  const size_t least = kind == 1 ? 1 : kind == 2 ? 2 : 3, most = kind == 3 ? 4 : 2;
  if (count < least || count > most) throw Finding("so many operands are not known");
  size_t at = 0;
  if (kind == 3) d.output(d.given[at++]);
  for (; at < count; at++) d.made.in[d.made.ins++] = d.parser.operand(d.given[at], kind == 3 && at == count - 1 ? Type::pred : Type::u32);
  d.run(kind == 2 ? arrive : wait);
  return true;
}

bool open_barriers(Block &block) {
  using namespace barriers;
  std::vector<Thread *> waiting[16];
  for (Thread &t : block.threads)
    if (t.state == State::at_barrier) waiting[t.barrier].push_back(&t);
  bool opened = false;
  for (u32 number = 0; number < 16; number++) {
    if (waiting[number].empty()) continue;
    const u32 wanted = waiting[number].front()->barrier_threads;
    if (waiting[number].size() + block.arrived[number] < (wanted != 0 ? wanted : block.threads.size())) continue;
    check_alike(waiting[number]);
    complete(waiting[number]);
    block.arrived[number] = 0;
    opened = true;
  }
  return opened;
}

}  // namespace ptx
