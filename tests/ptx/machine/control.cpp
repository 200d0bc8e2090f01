/* Where a thread goes: bra, brx.idx, call, ret, exit, trap. */
#include "decoder.h"
#include "findings.h"
#include "launch.h"

namespace ptx {

namespace control {

constexpr u64 UNWRITTEN = 0xfbfbfbfbfbfbfbfb;

Flow bra(Thread &t, const Instruction &i) {
  t.pc = i.target;
  return Flow::jumped;
}

Flow brx(Thread &t, const Instruction &i) {
  const u64 index = u32(t.read(i.in[0]));
  if (index >= i.targets.size()) refuse(t, text("a table of %zu labels has no number %llu", i.targets.size(), (unsigned long long)index));
  t.pc = i.targets[index];
  return Flow::jumped;
}

Flow call(Thread &t, const Instruction &i) {
  const Function &callee = *i.callee;
  std::vector<char> given(callee.parameter_bytes);
  for (size_t k = 0; k < callee.parameters.size(); k++)
    memcpy(given.data() + callee.parameters[k].offset, t.own_parameters.data() + i.arguments[k], callee.parameters[k].bytes);
  std::vector<u64> registers(callee.registers, UNWRITTEN);
  std::copy(t.registers.begin(), t.registers.begin() + SPECIALS, registers.begin());
  t.frames.push_back({t.function, t.pc, std::move(t.registers), std::move(t.parameters), std::move(t.own_parameters)});
  t.function = &callee;
  t.pc = 0;
  t.registers = std::move(registers);
  t.parameters = std::move(given);
  t.own_parameters.assign(callee.own_parameter_bytes, 0);
  return Flow::jumped;
}

Flow ended(Thread &t, const Instruction &) {
  if (!t.copies.empty()) refuse(t, "the thread ends, and its copies to shared memory were not waited for");
  return Flow::ended;
}

Flow ret(Thread &t, const Instruction &i) {
  if (t.frames.empty()) return ended(t, i);
  Frame frame = std::move(t.frames.back());
  t.frames.pop_back();
  const Instruction &call = frame.function->code[frame.pc];
  for (size_t k = 0; k < t.function->returned.size(); k++)
    memcpy(frame.own_parameters.data() + call.results[k], t.parameters.data() + t.function->returned[k].offset, t.function->returned[k].bytes);
  t.function = frame.function;
  t.pc = frame.pc + 1;
  t.registers = std::move(frame.registers);
  t.parameters = std::move(frame.parameters);
  t.own_parameters = std::move(frame.own_parameters);
  return Flow::jumped;
}

Flow trap(Thread &t, const Instruction &) { refuse(t, "the kernel gives up"); }

Flow nothing(Thread &, const Instruction &) { return Flow::next; }

std::vector<u32> offsets(const Decoder &d, const Given &group) {
  std::vector<u32> found;
  for (const Given &one : group.parts) {
    u32 offset = 0;
    if (!d.parser.own_parameter(one.text, offset)) throw Finding("a parameter that is not known: " + one.text);
    found.push_back(offset);
  }
  return found;
}

/* `(result), name, (arguments)`, of which both lists may be missing. */
void decode_call(Decoder &d) {
  d.ignore({"uni"});
  size_t at = 0;
  if (d.given.size() > at && d.given[at].kind == Given::group) d.made.results = offsets(d, d.given[at++]);
  if (d.given.size() <= at || d.given[at].kind != Given::word) throw Finding("a call of no name");
  const std::string name = d.given[at++].text;
  if (d.given.size() > at && d.given[at].kind == Given::group) d.made.arguments = offsets(d, d.given[at++]);
  if (d.given.size() != at) throw Finding("a call by an address");
  d.parser.call(name);
  d.run(call);
}

}  // namespace control

void decode_return(Instruction &instruction) {
  using namespace control;
  instruction.execute = ret;
}

bool decode_control(Decoder &d) {
  using namespace control;
  if (d.is("bra")) {
    d.ignore({"uni"});
    if (d.given.size() != 1) throw Finding("a label is wanted");
    d.parser.jump(d.given[0].text);
    d.run(bra);
  } else if (d.is("brx")) {
    d.ignore({"idx", "uni"});
    if (d.given.size() != 2) throw Finding("a number and a table are wanted");
    d.made.in[d.made.ins++] = d.parser.operand(d.given[0]);
    d.parser.jump_by_table(d.given[1].text);
    d.run(brx);
  } else if (d.is("call")) {
    decode_call(d);
  } else if (d.is("ret") || d.is("exit")) {
    d.ignore({"uni"});
    d.run(d.is("ret") ? ret : ended);
  } else if (d.is("trap") || d.is("brkpt")) {
    d.run(trap);
  } else if (d.is("nanosleep")) {
    d.inputs(1, 0);
    d.run(nothing);
  } else {
    return false;
  }
  return true;
}

}  // namespace ptx
