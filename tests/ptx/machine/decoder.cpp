#include "decoder.h"

#include "findings.h"

namespace ptx {

Decoder::Decoder(Parser &parser, Instruction &instruction, const std::string &opcode, const std::vector<Given> &operands)
    : parser(parser), made(instruction), given(operands) {
  for (size_t at = 0; at <= opcode.size();) {
    const size_t dot = std::min(opcode.find('.', at), opcode.size());
    const std::string word = opcode.substr(at, dot - at);
    const Type type = type_named(word);
    if (at != 0 && type != Type::none && type_count < 4) every[type_count] = type;
    if (at == 0) {
      name = word;
    } else if (type == Type::none) {
      modifiers.push_back(word);
      known.push_back(false);
    } else if (type_count++ == 0) {
      made.type = type;
    } else {
      made.from = type;
    }
    at = dot + 1;
  }
}

bool Decoder::has(const char *modifier) {
  bool found = false;
  for (size_t k = 0; k < modifiers.size(); k++) {
    if (modifiers[k] != modifier) continue;
    found = known[k] = true;
  }
  return found;
}

u8 Decoder::one_of(std::initializer_list<const char *> list) {
  u8 number = 0, found = 0;
  for (const char *one : list) {
    number++;
    if (has(one)) found = number;
  }
  return found;
}

void Decoder::ignore(std::initializer_list<const char *> list) {
  for (const char *one : list) has(one);
}

void Decoder::types(size_t count) const {
  if (type_count != count) throw Finding(text("it has %zu types, not %zu", type_count, count));
}

void Decoder::inputs(size_t count, size_t outs) {
  if (given.size() != count + outs) throw Finding(text("it has %zu operands, not %zu", given.size(), count + outs));
  for (size_t k = 0; k < outs; k++) output(given[k]);
  made.ins = u8(count);
  for (size_t k = 0; k < count; k++) made.in[k] = parser.operand(given[outs + k], made.type);
}

void Decoder::output(const Given &one) {
  const Operand found = parser.operand(one);
  if (found.is_constant && one.text != "_") throw Finding("a result that is no register");
  if (made.outs == 0) made.width = parser.width(one);
  made.out[made.outs++] = found;
}

void Decoder::address(const Given &one) {
  u32 offset = 0;
  if (one.kind != Given::address) throw Finding("an address is wanted");
  made.offset = one.plus;
  if (made.space == Space::param && parser.own_parameter(one.text, offset)) {
    made.space = Space::own_param;
    made.address = parser.constant(offset);
  } else if (made.space == Space::param && parser.parameter(one.text, offset)) {
    made.address = parser.constant(offset);
  } else {
    made.address = parser.operand(one);
  }
}

void Decoder::rounding() {
  constexpr int modes[] = {FE_TONEAREST, FE_TONEAREST, FE_TOWARDZERO, FE_DOWNWARD, FE_UPWARD};
  made.rounding = modes[one_of({"rn", "rz", "rm", "rp"})];
}

void Decoder::run(Execute execute) {
  if (execute == nullptr) throw Finding("a type that is not known here");
  made.execute = execute;
}

void Decoder::finish() const {
  for (size_t k = 0; k < modifiers.size(); k++)
    if (!known[k]) throw Finding(text("a modifier that is not known: .%s", modifiers[k].c_str()));
}

void decode(Parser &parser, Instruction &instruction, const std::string &opcode, const std::vector<Given> &operands) {
  static bool (*const families[])(Decoder &) = {decode_integers, decode_bits,    decode_reals,  decode_comparisons,
                                                decode_conversions, decode_moves, decode_accesses, decode_atomics,
                                                decode_copies,   decode_control, decode_barriers, decode_warps};
  Decoder decoder(parser, instruction, opcode, operands);
  for (const auto family : families)
    if (family(decoder)) return decoder.finish();
  throw Finding("an instruction that is not known");
}

}  // namespace ptx
