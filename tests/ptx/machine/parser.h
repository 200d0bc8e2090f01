/* The text of a module, read: declarations, functions, and the operands of instructions. */
#pragma once
#include <algorithm>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "program.h"
#include "words.h"

namespace ptx {

/* An operand as it stands in the text: a word, or parts in brackets of a kind. */
struct Given {
  enum Kind { word, address, vector, group, pair } kind = word;
  std::string text;         /* of a word, or the base of an address */
  s64 plus = 0;             /* `name + 8` */
  bool is_negated = false;  /* `!%p1` */
  std::vector<Given> parts; /* of vectors, groups and pairs */
};

/* The parser of one module. What an instruction does is decided in `decoder.h`, which asks here for operands. */
class Parser {
 public:
  Parser(Module &module, const std::string &text);
  void parse();

  /* The register or the constant of an operand; numbers are as wide as the type. */
  Operand operand(const Given &given, Type type = Type::none);
  Operand constant(u64 value);
  /* The instruction that is being read goes to a label, to one of a table, or into a function: found at the end. */
  void jump(const std::string &label);
  void jump_by_table(const std::string &table);
  void call(const std::string &name);
  /* Bytes of the register that a word names. */
  u8 width(const Given &given) const;
  /* The offset of a variable in `.param` that the function declares itself; false where there is none of that name. */
  bool own_parameter(const std::string &name, u32 &offset) const;
  /* The offset of a parameter that the function was given, or of what it returns. */
  bool parameter(const std::string &name, u32 &offset) const;

 private:
  struct Register {
    u32 at;
    u8 bytes;
  };
  struct Scope {
    std::map<std::string, Register> registers;
    std::map<std::string, u32> parameters;
  };
  struct Declaration {
    std::string name, space;
    Type type = Type::none;
    u64 bytes = 0;
    u32 align = 1;
    bool is_open = false; /* an array without an extent */
  };

  const Word &peek(size_t ahead = 0) const { return words[std::min(at + ahead, words.size() - 1)]; }
  const Word &next() { return words[at < words.size() - 1 ? at++ : at]; }
  bool take(const char *sign);
  void expect(const char *sign);
  [[noreturn]] void fail(const std::string &why) const;

  void module_statement();
  Declaration declaration();
  void variable(const Declaration &declared);
  void initial_values(const Declaration &declared, char *place);
  void function();
  void parameters(std::vector<Parameter> &into);
  void function_directives();
  void body();
  void statement();
  void registers();
  void branch_targets(const std::string &name);
  void instruction();
  Given given();
  Given list(Given::Kind kind, const char *end);
  const Register *find_register(const std::string &name) const;
  void resolve_labels();
  void resolve_calls();

  Module &module;
  const std::string source;
  std::vector<Word> words;
  size_t at = 0;

  Function *current = nullptr;
  std::vector<Scope> scopes;
  std::map<u64, u32> constants;
  std::map<std::string, u64> symbols;             /* addresses in their own space */
  std::map<std::string, bool> dynamic;            /* shared memory that the launch gives an extent */
  std::vector<u32> dynamic_constants;             /* which get its address in the end */
  std::map<std::string, u32> labels;
  std::map<std::string, std::vector<std::string>> tables;
  std::vector<std::pair<u32, std::string>> jumps, table_jumps;
  std::vector<std::tuple<Function *, u32, std::string>> calls;
};

}  // namespace ptx
