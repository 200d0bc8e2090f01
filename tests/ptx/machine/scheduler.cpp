/* The order in which blocks and threads run: at random, each thread with a program counter of its own. */
#include <algorithm>

#include "findings.h"
#include "memory.h"

namespace ptx {

namespace {

constexpr u64 UNWRITTEN = 0xfbfbfbfbfbfbfbfb;
constexpr char UNWRITTEN_BYTE = char(0xfb);
constexpr u64 LONGEST_SLEEP = 15; /* a power of two */

void begin_thread(Block &block, Thread &thread, u32 number) {
  const Launch &launch = *block.launch;
  thread.block = &block;
  thread.function = launch.function;
  thread.number = number;
  thread.registers.assign(launch.function->registers, UNWRITTEN);
  thread.constants = launch.module->constants.data();
  thread.parameters = launch.parameters;
  thread.own_parameters.assign(launch.function->own_parameter_bytes, 0);
  thread.local.assign(launch.module->local_bytes, UNWRITTEN_BYTE);
  u64 *special = thread.registers.data();
  const u32 place[3] = {number % launch.block[0], number / launch.block[0] % launch.block[1], number / (launch.block[0] * launch.block[1])};
  for (int axis = 0; axis < 3; axis++) {
    special[TID + axis] = place[axis];
    special[NTID + axis] = launch.block[axis];
    special[CTAID + axis] = block.place[axis];
    special[NCTAID + axis] = launch.grid[axis];
  }
  const u32 lane = number % WARP, equal = 1u << lane, less = equal - 1;
  special[LANE] = lane;
  special[MASK_EQ] = equal;
  special[MASK_LT] = less;
  special[MASK_LE] = less | equal;
  special[MASK_GE] = u32(~less);
  special[MASK_GT] = u32(~(less | equal));
  special[DYNAMIC_SHARED] = launch.dynamic_shared;
  special[TOTAL_SHARED] = block.shared.size();
}

std::unique_ptr<Block> begin_block(Launch &launch, u64 number) {
  auto block = std::make_unique<Block>();
  const Module &module = *launch.module;
  block->launch = &launch;
  block->place[0] = u32(number % launch.grid[0]);
  block->place[1] = u32(number / launch.grid[0] % launch.grid[1]);
  block->place[2] = u32(number / (u64(launch.grid[0]) * launch.grid[1]));
  block->shared.assign(module.dynamic_start + launch.dynamic_shared, UNWRITTEN_BYTE);
  block->shared_state.assign(block->shared.size(), Byte::between);
  for (const Variable &one : module.shared_variables) {
    std::fill_n(block->shared_state.begin() + s64(one.start), one.whole, Byte::padding);
    std::fill_n(block->shared_state.begin() + s64(one.start), one.bytes, Byte::unwritten);
  }
  std::fill_n(block->shared_state.begin() + s64(module.dynamic_start), launch.dynamic_shared, Byte::unwritten);
  block->threads.resize(launch.threads);
  block->order.resize(launch.threads);
  for (u32 k = 0; k < launch.threads; k++) {
    block->order[k] = k;
    begin_thread(*block, block->threads[k], k);
  }
  return block;
}

/* A thread runs until it waits, ends, or has had its turn. */
void advance(Thread &thread) {
  Launch &launch = *thread.block->launch;
  const u64 slice = launch.plan.slice > 1 ? 1 + launch.chance() % launch.plan.slice : 1;
  if (launch.steps > launch.most_steps) refuse(thread, text("the kernel does not end within %llu instructions", (unsigned long long)launch.most_steps));
  for (const u64 end = launch.steps + slice; launch.steps < end; launch.steps++) {
    const Instruction &at = thread.at();
    if (at.is_guarded && (thread.registers[at.guard] != 0) == at.unless) {
      thread.pc++;
      continue;
    }
    const Flow flow = at.execute(thread, at);
    if (flow == Flow::next) thread.pc++;
    if (flow == Flow::ended) thread.state = State::done;
    if (flow == Flow::waits || flow == Flow::ended) return;
    if (!at.may_pause || !launch.percent(50)) continue;
    thread.block->asleep = u32(launch.chance() % (u64(1) << launch.chance() % LONGEST_SLEEP)); /* what follows a fence may come long after it */
    return;
  }
}

[[noreturn]] void refuse_deadlock(const Block &block) {
  for (const Thread &thread : block.threads)
    if (thread.state == State::at_warp) refuse(thread, text("a deadlock: threads of the mask 0x%x never come to this instruction", thread.mask));
  for (const Thread &thread : block.threads)
    if (thread.state == State::at_barrier) refuse(thread, "a deadlock: other threads of the block never come to this barrier");
  throw Finding("a deadlock");
}

/* All threads of a block have a turn; true once all of them have ended. */
bool step(Block &block) {
  Launch &launch = *block.launch;
  bool moved = false;
  std::shuffle(block.order.begin(), block.order.end(), launch.chance);
  for (const u32 number : block.order) {
    Thread &thread = block.threads[number];
    if (thread.state != State::ready) continue;
    advance(thread);
    let_go(block);
    moved = true;
  }
  if (meet_in_warps(block)) moved = true;
  if (open_barriers(block)) moved = true;
  if (std::all_of(block.threads.begin(), block.threads.end(), [](const Thread &t) { return t.state == State::done; })) return true;
  if (!moved) refuse_deadlock(block);
  return false;
}

}  // namespace

/* So many blocks are under way at once; which of them goes on is drawn. */
void run(Launch &launch) {
  const u64 blocks = u64(launch.grid[0]) * launch.grid[1] * launch.grid[2];
  std::vector<u64> order(blocks);
  for (u64 k = 0; k < blocks; k++) order[k] = k;
  std::shuffle(order.begin(), order.end(), launch.chance);
  std::vector<std::unique_ptr<Block>> running;
  for (u64 begun = 0; begun < blocks || !running.empty();) {
    if (begun < blocks && running.size() < launch.plan.blocks) {
      running.push_back(begin_block(launch, order[begun++]));
      continue;
    }
    const size_t chosen = running.size() > 1 ? launch.chance() % running.size() : 0;
    Block &block = *running[chosen];
    if (block.asleep > 0) {
      block.asleep--;
      continue;
    }
    if (!step(block)) continue;
    block_ended(block);
    running.erase(running.begin() + s64(chosen));
  }
  launch_ended(launch);
}

}  // namespace ptx
