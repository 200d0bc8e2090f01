/* A launch of a kernel: its blocks and threads, as they are while it runs. */
#pragma once
#include <map>
#include <memory>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "held_stores.h"
#include "program.h"

namespace ptx {

struct Launch;
struct Block;

/* What a kernel may touch: an allocation, or a variable of its module. */
struct Region {
  u64 start, bytes;
  bool is_variable;
};

enum class State : u8 { ready, at_barrier, at_warp, done };

struct Frame {
  const Function *function;
  u32 pc;
  std::vector<u64> registers;
  std::vector<char> parameters, own_parameters;
};

/* A copy to shared memory that has not arrived. */
struct PendingCopy {
  u64 to, from;
  int bytes, filled; /* zeros after those that are copied */
  int group;
};

struct Thread {
  Block *block = nullptr;
  const Function *function = nullptr;
  u32 pc = 0, number = 0, carry = 0;
  State state = State::ready;
  std::vector<u64> registers;
  const u64 *constants = nullptr;
  std::vector<char> parameters, own_parameters, local;
  std::vector<Frame> frames;
  HeldStores held_global, held_shared;
  std::vector<PendingCopy> copies;
  int groups = 0;       /* of copies that were committed */
  u32 mask = 0;         /* of the threads of the warp that it waits for */
  u32 barrier = 0, barrier_threads = 0;

  const Instruction &at() const { return function->code[pc]; }
  u64 read(const Operand &operand) const { return operand.is_constant ? constants[operand.at] : registers[operand.at]; }
  bool holds(const Operand &predicate) const { return (read(predicate) != 0) != predicate.is_negated; }
  void write(const Operand &operand, u64 bits) {
    if (!operand.is_constant) registers[operand.at] = bits;
  }
};

enum class Byte : u8 { between, padding, unwritten, written };

/* Sectors of 32 bytes of global memory that the warps of a block touch: the k-th time that its lanes come to an instruction
   is taken as one access of the warp. There is no cache. */
struct Sectors {
  static constexpr u64 BYTES = 32;
  std::map<std::pair<u32, const Instruction *>, u64> visits; /* of a thread to an instruction */
  std::set<std::tuple<u32, const Instruction *, u64, u64>> read, written; /* warp, instruction, visit, sector */

  void touch(const Thread &thread, u64 address, int bytes, bool writes) {
    const u64 visit = visits[{thread.number, &thread.at()}]++;
    for (u64 sector = address / BYTES; sector <= (address + u64(bytes) - 1) / BYTES; sector++)
      (writes ? written : read).insert({thread.number / WARP, &thread.at(), visit, sector});
  }
};

struct Block {
  Launch *launch = nullptr;
  u32 place[3] = {0, 0, 0};
  std::vector<char> shared;
  std::vector<Byte> shared_state;
  std::vector<Thread> threads;
  std::vector<u32> order;
  u32 arrived[16] = {}; /* threads at each barrier that went on without waiting: bar.arrive */
  HeldStores held;                        /* what its threads see of its stores, and nobody else */
  u64 synchronised = 0;                   /* the time of its last fence */
  std::unordered_map<u64, u64> seen;      /* of granules: the time of the newest value that it has seen */
  size_t last_region = 0;
  u32 asleep = 0;                         /* so many turns does it miss */
  Sectors sectors;
};

/* How a launch runs, drawn by a seed. */
struct Plan {
  u64 slice = 1000;     /* so many instructions at most before another thread goes on */
  u64 blocks = 1;       /* under way at once */
  int held = 0;         /* percent of the stores that are held back */
  int released = 0;     /* chances in a thousand that one of them is seen after a turn, though nothing asks for it */
  int old = 0;          /* percent of the loads that may see an old value */
  int late = 100;       /* percent of the copies to shared memory that arrive when they are waited for, and no sooner */
};

struct Launch {
  const Module *module = nullptr;
  const Function *function = nullptr;
  u32 grid[3], block[3], threads = 0;
  u64 dynamic_shared = 0;
  std::vector<char> parameters;
  std::vector<Region> regions; /* by address */
  std::vector<std::vector<u8>> marks; /* of each region, where needed: bytes that ld.global.nc has read, or that are written */
  Plan plan;
  Chance chance;
  OldValues old_values;
  std::vector<HeldStores> left; /* stores of blocks that have ended; none is empty */
  u64 steps = 0, most_steps = 0;
  bool counts_sectors = false;
  u64 sectors_read = 0, sectors_written = 0;

  bool percent(int chances) { return chances > 0 && int(chance() % 100) < chances; }
  bool thousandth(int chances) { return chances > 0 && int(chance() % 1000) < chances; }
};

/* Threads that wait for each other at a barrier, or in a warp, and are all there, go on; false where none are. */
bool open_barriers(Block &block);
bool meet_in_warps(Block &block);

/* Runs a launch to its end; throws `Finding`. */
void run(Launch &launch);

}  // namespace ptx
