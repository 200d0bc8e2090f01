/* What the threads of a warp do together: shfl, vote, redux, bar.warp. They meet by the mask that each of them names. */
#include <algorithm>

#include "decoder.h"
#include "findings.h"
#include "memory.h"
#include "reals.h"

namespace ptx {

namespace warps {

enum Shuffle : u8 { UP, DOWN, BUTTERFLY, INDEX };
enum Vote : u8 { ALL, ANY, UNIFORM, BALLOT };
enum Reduction : u8 { ADD, MIN, MAX, AND, OR, XOR };

constexpr u64 UNKNOWN = 0xfbfbfbfb; /* of a lane that takes no part */

/* The mask is the last operand. */
Flow meet(Thread &t, const Instruction &i) {
  t.mask = u32(t.read(i.in[i.ins - 1]));
  if (!(t.mask >> t.number % WARP & 1)) refuse(t, "the mask leaves out the thread itself");
  t.state = State::at_warp;
  return Flow::waits;
}

/* `d|p, a, b, c, mask`: the value a of another lane; by c a warp is cut into pieces. */
void shuffle(Lanes &lanes, const Instruction &i) {
  u64 values[WARP], found[WARP] = {};
  bool in_range[WARP] = {};
  for (int lane = 0; lane < WARP; lane++) values[lane] = lanes[lane] != nullptr ? lanes[lane]->read(i.in[0]) : UNKNOWN;
  for (int lane = 0; lane < WARP; lane++) {
    if (lanes[lane] == nullptr) continue;
    const int by = int(lanes[lane]->read(i.in[1]) & 31), c = int(lanes[lane]->read(i.in[2]));
    const int clamp = c & 31, segment = c >> 8 & 31, first = lane & segment, last = first | (clamp & ~segment);
    const int from = i.choice == UP ? lane - by : i.choice == DOWN ? lane + by : i.choice == BUTTERFLY ? lane ^ by : first | (by & ~segment);
    in_range[lane] = i.choice == UP ? from >= last : from <= last;
    found[lane] = values[in_range[lane] ? from : lane];
  }
  for (int lane = 0; lane < WARP; lane++) {
    if (lanes[lane] == nullptr) continue;
    lanes[lane]->write(i.out[0], found[lane]);
    if (i.outs > 1) lanes[lane]->write(i.out[1], in_range[lane]);
  }
}

void vote(Lanes &lanes, const Instruction &i) {
  u32 present = 0, agree = 0;
  for (int lane = 0; lane < WARP; lane++) {
    if (lanes[lane] == nullptr) continue;
    present |= 1u << lane;
    if (lanes[lane]->holds(i.in[0])) agree |= 1u << lane;
  }
  const u64 results[] = {agree == present, agree != 0, agree == 0 || agree == present, agree};
  for (Thread *t : lanes)
    if (t != nullptr) t->write(i.out[0], results[i.choice]);
}

u32 reduced(const Instruction &i, u32 a, u32 b) {
  const bool is_less = is_signed(i.type) ? s32(a) < s32(b) : a < b;
  switch (i.choice) {
    case ADD: return a + b;
    case MIN: return is_less ? a : b;
    case MAX: return is_less ? b : a;
    case AND: return a & b;
    case OR: return a | b;
    default: return a ^ b;
  }
}

void reduce(Lanes &lanes, const Instruction &i) {
  bool begun = false;
  u32 result = 0;
  for (Thread *t : lanes) {
    if (t == nullptr) continue;
    const u32 value = u32(t->read(i.in[0]));
    result = begun ? reduced(i, result, value) : value;
    begun = true;
  }
  for (Thread *t : lanes)
    if (t != nullptr) t->write(i.out[0], result);
}

/* `{d}, {a}, {b}, {c}`: thread 4*y + x has the rows y and y + 8 of a, c and d, and the column y of b; of the terms, pairs of
   16 bits (or single ones of 32) from 2*x (x) on, and 8 (4) further on; of c and d, the columns 2*x and 2*x + 1. Products
   are exact, and a sum is rounded once: the machine does not know the places in which a GPU rounds. */
enum Factor : u8 { HALVES, BRAINS, SHORTENED };

double term(u8 kind, u64 part, int which) {
  const u16 bits = u16(which ? part >> 16 : part);
  if (kind == HALVES) return value_of(Half{bits});
  if (kind == BRAINS) return value_of(Brain{bits});
  return double(from_bits<float>(part & ~u64(0x1fff)));
}

void multiply(Lanes &lanes, const Instruction &i) {
  u64 sums[WARP][4];
  const int blocks = i.combination, each = i.choice == SHORTENED ? 1 : 2;
  for (Thread *t : lanes)
    if (t == nullptr) throw Finding("a product of a warp that has less than 32 threads");
  for (int lane = 0; lane < WARP; lane++) {
    const int y = lane / 4, x = lane % 4;
    for (int k = 0; k < 4; k++) {
      double total = double(from_bits<float>(lanes[lane]->read(i.in[3 * blocks + k])));
      for (int block = 0; block < blocks; block++)
        for (int other = 0; other < 4; other++)
          for (int which = 0; which < each; which++)
            total += term(i.choice, lanes[4 * y + other]->read(i.in[2 * block + k / 2]), which) *
                     term(i.choice, lanes[4 * (2 * x + k % 2) + other]->read(i.in[2 * blocks + block]), which);
      sums[lane][k] = to_bits(float(total));
    }
  }
  for (int lane = 0; lane < WARP; lane++)
    for (int k = 0; k < 4; k++) lanes[lane]->write(i.out[k], sums[lane][k]);
}

/* `{d}, [a]`: matrices of 8 rows of 16 bytes. Thread 8*m + r has the address of row r of matrix m; thread 4*y + x gets 4 bytes
   of each, from 4*x on of row y, or of columns of 16 bits, y of the rows 2*x and 2*x + 1. */
void load_matrices(Lanes &lanes, const Instruction &i) {
  u16 rows[WARP][8];
  for (Thread *t : lanes)
    if (t == nullptr) throw Finding("matrices are loaded by a warp that has less than 32 threads");
  for (int lane = 0; lane < 8 * i.outs; lane++) {
    Thread &t = *lanes[lane];
    load(t, i, Space::shared, t.read(i.address) + u64(i.offset), rows[lane], sizeof rows[lane]);
  }
  for (int lane = 0; lane < WARP; lane++) {
    const int y = lane / 4, x = lane % 4;
    for (int m = 0; m < i.outs; m++) {
      const u16(*const of)[8] = rows + 8 * m;
      const u16 low = i.choice ? of[2 * x][y] : of[y][2 * x], high = i.choice ? of[2 * x + 1][y] : of[y][2 * x + 1];
      lanes[lane]->write(i.out[m], low | u64(high) << 16);
    }
  }
}

Flow meet_all(Thread &t, const Instruction &) {
  t.mask = 0xffffffff;
  t.state = State::at_warp;
  return Flow::waits;
}

void decode_product(Decoder &d) {
  const bool large = d.has("m16n8k16"), small = d.has("m16n8k8"), shortened = d.has("tf32");
  if (!d.has("aligned") || !d.has("row") || !d.has("col") || large == small) throw Finding("a product of a kind that is not known");
  const Type factor = shortened ? Type::none : d.every[1];
  d.made.choice = shortened ? SHORTENED : factor == Type::bf16 ? BRAINS : HALVES;
  if (!shortened && factor != Type::bf16 && factor != Type::f16) throw Finding("factors of a type that is not known");
  if (d.type() != Type::f32 || (large && shortened)) throw Finding("a product of a kind that is not known");
  d.made.combination = large || shortened ? 2 : 1;
  const size_t blocks = d.made.combination, wanted[] = {4, 2 * blocks, blocks, 4};
  if (d.given.size() != 4) throw Finding("a product has four operands");
  for (size_t k = 0; k < 4; k++) {
    if (d.given[k].kind != Given::vector || d.given[k].parts.size() != wanted[k]) throw Finding("a fragment of another size");
    for (const Given &one : d.given[k].parts) {
      if (k == 0)
        d.output(one);
      else
        d.made.in[d.made.ins++] = d.parser.operand(one, k == 3 ? Type::f32 : Type::b32);
    }
  }
  d.made.complete = multiply;
  d.run(meet_all);
}

void decode_matrices(Decoder &d) {
  const u8 count = d.one_of({"x1", "x2", "x4"});
  if (!d.has("sync") || !d.has("aligned") || !d.has("m8n8") || count == 0) throw Finding("matrices of a kind that is not known");
  if (d.one_of({"shared", "shared::cta"}) == 0 || d.type() != Type::b16) throw Finding("matrices of a kind that is not known");
  d.made.choice = d.has("trans");
  if (d.given.size() != 2) throw Finding("it has two operands");
  const std::vector<Given> parts = d.given[0].kind == Given::vector ? d.given[0].parts : std::vector<Given>{d.given[0]};
  if (parts.size() != size_t(1) << (count - 1)) throw Finding("it has not as many values as matrices");
  for (const Given &one : parts) d.output(one);
  d.address(d.given[1]);
  d.made.complete = load_matrices;
  d.run(meet_all);
}

void barrier(Lanes &lanes, const Instruction &) {
  for (Thread *t : lanes)
    if (t != nullptr) fence(*t, Scope::block);
}

void together(Decoder &d, Complete complete) {
  d.made.complete = complete;
  d.run(meet);
}

void decode_shuffle(Decoder &d) {
  const u8 kind = d.one_of({"up", "down", "bfly", "idx"});
  if (kind == 0 || d.given.size() != 5) throw Finding("a shuffle of a kind that is not known");
  d.made.choice = u8(kind - 1);
  const Given &results = d.given[0];
  if (results.kind == Given::pair)
    for (const Given &one : results.parts) d.output(one);
  else
    d.output(results);
  for (size_t k = 1; k < d.given.size(); k++) d.made.in[d.made.ins++] = d.parser.operand(d.given[k], Type::b32);
  together(d, shuffle);
}

bool can_meet(const Thread &t, const Thread &other) {
  if (other.state != State::at_warp || other.mask != t.mask || other.at().complete != t.at().complete) return false;
  return t.at().complete == barrier || (other.pc == t.pc && other.function == t.function);
}

/* The threads of a mask are all there, but for those that have ended. */
bool meet_others(Block &block, Thread &t) {
  const u32 first = t.number / WARP * WARP;
  Lanes lanes = {};
  for (u32 lane = 0; lane < WARP && first + lane < block.threads.size(); lane++) {
    Thread &other = block.threads[first + lane];
    if (!(t.mask >> lane & 1) || other.state == State::done) continue;
    if (!can_meet(t, other)) return false;
    lanes[lane] = &other;
  }
  t.at().complete(lanes, t.at());
  for (Thread *one : lanes) {
    if (one == nullptr) continue;
    one->state = State::ready;
    one->pc++;
  }
  return true;
}

}  // namespace warps

bool decode_warps(Decoder &d) {
  using namespace warps;
  if (d.is("bar") && d.has("warp")) {
    d.inputs(1, 0);
    together(d, barrier);
  } else if (d.is("mma")) {
    decode_product(d);
  } else if (d.is("ldmatrix")) {
    decode_matrices(d);
  } else if (d.is("shfl")) {
    decode_shuffle(d);
  } else if (d.is("vote")) {
    const u8 kind = d.one_of({"all", "any", "uni", "ballot"});
    if (kind == 0) throw Finding("a vote of a kind that is not known");
    d.made.choice = u8(kind - 1);
    d.inputs(2);
    together(d, vote);
  } else if (d.is("redux")) {
    const u8 kind = d.one_of({"add", "min", "max", "and", "or", "xor"});
    if (kind == 0) throw Finding("a reduction that is not known");
    d.made.choice = u8(kind - 1);
    d.inputs(2);
    together(d, reduce);
  } else {
    return false;
  }
  if (!d.has("sync")) throw Finding("without .sync nobody waits for the others");
  return true;
}

bool meet_in_warps(Block &block) {
  using namespace warps;
  bool met = false;
  for (Thread &t : block.threads)
    if (t.state == State::at_warp && meet_others(block, t)) met = true;
  return met;
}

}  // namespace ptx
