/* A module of PTX, ready to run: functions as lists of instructions, each with the function of C++ that executes it. */
#pragma once
#include <cfenv>
#include <map>
#include <memory>
#include <vector>

#include "types.h"

namespace ptx {

struct Thread;
struct Instruction;
struct Function;

/* What follows an instruction: the next one, one that the program counter names already, a wait for others, or nothing. */
enum class Flow : u8 { next, jumped, waits, ended };
using Execute = Flow (*)(Thread &, const Instruction &);

/* The threads of a warp that have met at an instruction, by lane; NULL where none takes part. */
constexpr int WARP = 32;
using Lanes = Thread *[WARP];
using Complete = void (*)(Lanes &lanes, const Instruction &);

enum class Space : u8 { generic, global, shared, local, param, own_param };
enum class Part : u8 { low, high, wide };

/* A register of the thread, or a constant of the module. As a result, a constant takes what nobody wants. */
struct Operand {
  bool is_constant = true, is_negated = false;
  u32 at = 0;
};

struct Instruction {
  static constexpr int MOST = 10;

  Execute execute = nullptr;
  Complete complete = nullptr; /* of what the threads of a warp do together */
  bool is_guarded = false, unless = false; /* runs only where the guard is true, or unless it is */
  u32 guard = 0;

  Type type = Type::none, from = Type::none;
  Operand out[MOST], in[MOST];
  u8 outs = 0, ins = 0;

  Operand address;
  s64 offset = 0;
  Space space = Space::generic;
  Operand source; /* of a copy to shared memory */
  s64 source_offset = 0;

  int rounding = FE_TONEAREST;
  bool is_integral = false; /* rounds to whole numbers, in that direction */
  bool flushes = false, saturates = false, sets_carry = false, takes_carry = false;
  bool through_constant_cache = false, is_strong = false, may_pause = false, acquires = false, releases = false, is_aligned = false;
  Part part = Part::low;
  u8 choice = 0, combination = 0; /* among the operations of an opcode, and of comparisons */
  u8 width = 0;                   /* bytes of the register that takes a result */
  u8 bytes = 0;                   /* of a piece */

  u32 target = 0;
  std::vector<u32> targets;
  const Function *callee = nullptr;
  std::vector<u32> results, arguments; /* of a call, in the caller's own parameters */

  std::string text;
  int line = 0;
};

struct Parameter {
  std::string name;
  u32 offset, bytes;
};

struct Function {
  std::string name;
  bool is_entry = false;
  std::vector<Parameter> parameters, returned;
  u32 parameter_bytes = 0, own_parameter_bytes = 0, registers = 0;
  u32 most_threads = 0;     /* 0: any number */
  u32 exact_threads = 0;    /* 0: any number */
  std::vector<Instruction> code;
};

struct Variable {
  u64 start, bytes;
  u64 whole = 0; /* bytes up to a multiple of its alignment, which a wide load may read with it */
};

struct Module {
  std::vector<u64> constants;
  std::map<std::string, std::unique_ptr<Function>> functions;
  std::vector<std::unique_ptr<u64[]>> memory; /* of variables in global and constant memory */
  std::vector<Variable> global_variables, shared_variables;
  u64 shared_bytes = 0, dynamic_start = 0, local_bytes = 0;
  bool reads_through_constant_cache = false; /* some instruction does: ld.global.nc */
};

/* Registers that are there from the start, in this order before all others. */
enum Special : u32 {
  TID, NTID = TID + 3, CTAID = NTID + 3, NCTAID = CTAID + 3, LANE = NCTAID + 3, MASK_EQ, MASK_LE, MASK_LT, MASK_GE, MASK_GT,
  DYNAMIC_SHARED, TOTAL_SHARED, SPECIALS
};

}  // namespace ptx
