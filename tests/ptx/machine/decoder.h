/* What an instruction does: an opcode with its modifiers is taken by one family, which names a function of C++ for it.

   Each modifier must be asked for: one that nobody has asked for is not known, and the module is refused. */
#pragma once
#include <initializer_list>
#include <string>
#include <vector>

#include "parser.h"
#include "program.h"

namespace ptx {

class Decoder {
 public:
  Decoder(Parser &parser, Instruction &instruction, const std::string &opcode, const std::vector<Given> &operands);

  Parser &parser;
  Instruction &made;
  std::string name; /* of the opcode, without its modifiers */
  const std::vector<Given> &given;

  bool is(const char *other) const { return name == other; }
  /* Whether there is a modifier; it is known then. */
  bool has(const char *modifier);
  /* Its number in a list, from 1; 0 where none is there. */
  u8 one_of(std::initializer_list<const char *> modifiers);
  /* Modifiers that change nothing here. */
  void ignore(std::initializer_list<const char *> modifiers);
  /* The only type, or the first of two: `type` and `from`. */
  Type type() const { return made.type; }
  void types(size_t count) const;

  /* `d, a, b`: so many inputs, all of the type. */
  void inputs(size_t count, size_t outs = 1);
  /* An input of another type. */
  void input(size_t number, Type other) { made.in[number] = parser.operand(given.at(made.outs + number), other); }
  void output(const Given &one);
  void address(const Given &one);
  void rounding();

  void run(Execute execute);
  void finish() const;

 private:
  std::vector<std::string> modifiers;
  std::vector<bool> known;
  size_t type_count = 0;

 public:
  Type every[4] = {}; /* of the types, those that come first */
};

/* Sets all of an instruction but its guard. */
void decode(Parser &parser, Instruction &instruction, const std::string &opcode, const std::vector<Given> &operands);

/* The families; false where the opcode is of another one. */
bool decode_integers(Decoder &decoder);
bool decode_bits(Decoder &decoder);
bool decode_reals(Decoder &decoder);
bool decode_comparisons(Decoder &decoder);
bool decode_conversions(Decoder &decoder);
bool decode_moves(Decoder &decoder);
bool decode_accesses(Decoder &decoder);
bool decode_atomics(Decoder &decoder);
bool decode_copies(Decoder &decoder);
bool decode_control(Decoder &decoder);
bool decode_barriers(Decoder &decoder);
bool decode_warps(Decoder &decoder);

void decode_return(Instruction &instruction);

/* `template` of a type, by the type: the function of an integer type, of a float, or NULL. */
#define PTX_BY_INTEGER(function, type)                                                                     \
  (type == Type::u8 || type == Type::b8     ? (Execute)function<u8>                                        \
   : type == Type::s8                       ? (Execute)function<s8>                                        \
   : type == Type::u16 || type == Type::b16 ? (Execute)function<u16>                                       \
   : type == Type::s16                      ? (Execute)function<s16>                                       \
   : type == Type::u32 || type == Type::b32 ? (Execute)function<u32>                                       \
   : type == Type::s32                      ? (Execute)function<s32>                                       \
   : type == Type::u64 || type == Type::b64 ? (Execute)function<u64>                                       \
   : type == Type::s64                      ? (Execute)function<s64>                                       \
                                            : nullptr)

}  // namespace ptx
