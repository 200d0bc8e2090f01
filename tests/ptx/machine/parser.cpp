#include "parser.h"

#include <algorithm>

#include "decoder.h"
#include "findings.h"

namespace ptx {

namespace {

const std::map<std::string, u32> SPECIAL = {
    {"%tid.x", TID},          {"%tid.y", TID + 1},      {"%tid.z", TID + 2},      {"%ntid.x", NTID},       {"%ntid.y", NTID + 1},
    {"%ntid.z", NTID + 2},    {"%ctaid.x", CTAID},      {"%ctaid.y", CTAID + 1},  {"%ctaid.z", CTAID + 2}, {"%nctaid.x", NCTAID},
    {"%nctaid.y", NCTAID + 1}, {"%nctaid.z", NCTAID + 2}, {"%laneid", LANE},      {"%lanemask_eq", MASK_EQ}, {"%lanemask_le", MASK_LE},
    {"%lanemask_lt", MASK_LT}, {"%lanemask_ge", MASK_GE}, {"%lanemask_gt", MASK_GT}, {"%dynamic_smem_size", DYNAMIC_SHARED},
    {"%total_smem_size", TOTAL_SHARED}};

}  // namespace

Parser::Parser(Module &module, const std::string &text) : module(module), source(text), words(words_of(text)) {}

void Parser::fail(const std::string &why) const { throw Finding(text("line %d: %s", peek().line, why.c_str())); }

bool Parser::take(const char *sign) {
  const bool found = peek().is(sign);
  if (found) next();
  return found;
}

void Parser::expect(const char *sign) {
  if (!take(sign)) fail(text("'%s' is wanted, not '%s'", sign, peek().text.c_str()));
}

void Parser::parse() {
  while (!peek().is_end()) module_statement();
  resolve_calls();
  module.dynamic_start = aligned(module.shared_bytes, 128);
  for (const u32 constant : dynamic_constants) module.constants[constant] += module.dynamic_start;
}

/* -- declarations */

void Parser::module_statement() {
  if (take(".version") || take(".address_size")) {
    next();
  } else if (take(".target")) {
    do next();
    while (take(","));
  } else {
    size_t ahead = 0;
    while (peek(ahead).is(".visible") || peek(ahead).is(".weak") || peek(ahead).is(".extern") || peek(ahead).is(".common")) ahead++;
    if (peek(ahead).is(".entry") || peek(ahead).is(".func")) {
      at += ahead;
      function();
    } else {
      variable(declaration());
      expect(";");
    }
  }
}

/* `.param .align 8 .b8 name[16]`, with neither `=` nor what follows it. */
Parser::Declaration Parser::declaration() {
  Declaration made;
  while (peek().text[0] == '.') {
    const std::string word = next().text.substr(1);
    if (word == "align") {
      made.align = u32(number_of(next().text));
    } else if (word == "ptr") { /* of what it points to */
      while (peek().is(".global") || peek().is(".shared") || peek().is(".const") || peek().is(".local")) next();
      if (take(".align")) next();
    } else if (word == "global" || word == "shared" || word == "local" || word == "const" || word == "param") {
      made.space = word;
    } else if (type_named(word) != Type::none) {
      made.type = type_named(word);
    } else if (word != "visible" && word != "weak" && word != "extern" && word != "common") {
      fail(text("a declaration that is not known: .%s", word.c_str()));
    }
  }
  made.name = next().text;
  u64 count = 1;
  while (take("[")) {
    made.is_open = peek().is("]");
    if (!made.is_open) count *= number_of(next().text);
    expect("]");
  }
  made.bytes = made.is_open ? 0 : count * u64(size_of(made.type));
  made.align = std::max(made.align, u32(size_of(made.type)));
  return made;
}

void Parser::variable(const Declaration &declared) {
  if (declared.space == "shared" && declared.is_open) {
    dynamic[declared.name] = true;
  } else if (declared.space == "shared") {
    symbols[declared.name] = aligned(module.shared_bytes + 16, declared.align); /* nothing before it is its own */
    module.shared_variables.push_back({symbols[declared.name], declared.bytes, aligned(declared.bytes, declared.align)});
    module.shared_bytes = symbols[declared.name] + aligned(declared.bytes, declared.align);
  } else if (declared.space == "local") {
    symbols[declared.name] = aligned(module.local_bytes, declared.align);
    module.local_bytes = symbols[declared.name] + declared.bytes;
  } else if (declared.space == "global" || declared.space == "const") {
    if (declared.bytes == 0) fail(text("the variable %s has no extent", declared.name.c_str()));
    module.memory.push_back(std::make_unique<u64[]>(declared.bytes / 8 + 34));
    char *place = (char *)aligned((u64)module.memory.back().get(), 256);
    symbols[declared.name] = (u64)place;
    module.global_variables.push_back({(u64)place, declared.bytes});
    if (take("=")) initial_values(declared, place);
  } else {
    fail(text("a variable in a space that is not known: %s", declared.name.c_str()));
  }
}

void Parser::initial_values(const Declaration &declared, char *place) {
  const int bytes = size_of(declared.type);
  const bool many = take("{");
  for (u64 used = 0;;) {
    const bool negative = take("-");
    const u64 size = number_of(next().text), value = negative ? 0 - size : size;
    if (used + u64(bytes) > declared.bytes) fail(text("%s has too many values", declared.name.c_str()));
    memcpy(place + used, &value, size_t(bytes));
    used += u64(bytes);
    if (!take(",")) break;
  }
  if (many) expect("}");
}

/* -- functions */

void Parser::function() {
  auto made = std::make_unique<Function>();
  current = made.get();
  current->registers = SPECIALS;
  scopes.assign(1, {});
  labels.clear();
  tables.clear();
  jumps.clear();
  table_jumps.clear();
  current->is_entry = next().is(".entry");
  if (peek().is("(")) parameters(current->returned);
  current->name = next().text;
  if (peek().is("(")) parameters(current->parameters);
  function_directives();
  if (take(";")) return; /* a declaration; its definition follows */
  expect("{");
  module.functions[current->name] = std::move(made);
  body();
}

void Parser::parameters(std::vector<Parameter> &into) {
  expect("(");
  while (!take(")")) {
    const Declaration one = declaration();
    if (one.space != "param") fail(text("%s is no parameter in memory", one.name.c_str()));
    current->parameter_bytes = u32(aligned(current->parameter_bytes, one.align));
    into.push_back({one.name, current->parameter_bytes, u32(one.bytes)});
    current->parameter_bytes += u32(one.bytes);
    take(",");
  }
}

void Parser::function_directives() {
  while (peek().text[0] == '.') {
    const std::string word = next().text;
    u32 threads = 1;
    if (word == ".noreturn") continue;
    if (word != ".maxntid" && word != ".reqntid" && word != ".minnctapersm" && word != ".maxnreg") fail("a directive that is not known: " + word);
    do threads *= u32(number_of(next().text));
    while (take(","));
    if (word == ".maxntid") current->most_threads = threads;
    if (word == ".reqntid") current->exact_threads = threads;
  }
}

void Parser::body() {
  while (!scopes.empty()) {
    if (peek().is_end()) fail(text("%s has no end", current->name.c_str()));
    if (take("{"))
      scopes.emplace_back();
    else if (take("}"))
      scopes.pop_back();
    else
      statement();
  }
  Instruction end;
  end.text = "the end of the function";
  end.line = peek().line;
  decode_return(end);
  current->code.push_back(end);
  resolve_labels();
}

void Parser::statement() {
  if (peek(1).is(":")) {
    const std::string name = next().text;
    next();
    if (take(".branchtargets"))
      branch_targets(name);
    else
      labels[name] = u32(current->code.size());
  } else if (take(".reg")) {
    registers();
  } else if (take(".pragma")) {
    while (!take(";")) next();
  } else if (peek().text[0] == '.') {
    const Declaration declared = declaration();
    if (declared.space == "param") {
      current->own_parameter_bytes = u32(aligned(current->own_parameter_bytes, declared.align));
      scopes.back().parameters[declared.name] = current->own_parameter_bytes;
      current->own_parameter_bytes += u32(declared.bytes);
    } else {
      variable(declared);
    }
    expect(";");
  } else if (!take(";")) {
    instruction();
  }
}

/* `.reg .b32 %r<5>;` or `.reg .pred p, q;` */
void Parser::registers() {
  const Type type = type_named(next().text.substr(1));
  if (type == Type::none) fail("registers of a type that is not known");
  do {
    const std::string name = next().text;
    if (!take("<")) {
      scopes.back().registers[name] = {current->registers++, u8(size_of(type))};
      continue;
    }
    const u64 count = number_of(next().text);
    expect(">");
    for (u64 k = 0; k < count; k++) scopes.back().registers[name + std::to_string(k)] = {current->registers++, u8(size_of(type))};
  } while (take(","));
  expect(";");
}

void Parser::branch_targets(const std::string &name) {
  do tables[name].push_back(next().text);
  while (take(","));
  expect(";");
}

void Parser::instruction() {
  Instruction made;
  const size_t start = peek().start;
  made.line = peek().line;
  if (take("@")) {
    made.is_guarded = true;
    made.unless = take("!");
    const Register *guard = find_register(peek().text);
    if (guard == nullptr) fail(text("no predicate %s", peek().text.c_str()));
    made.guard = guard->at;
    next();
  }
  const std::string opcode = next().text;
  std::vector<Given> operands;
  while (!peek().is(";")) {
    operands.push_back(given());
    if (!take(",")) break;
  }
  made.text = source.substr(start, peek().start - start);
  for (char &c : made.text)
    if (c == '\n' || c == '\t') c = ' ';
  expect(";");
  try {
    decode(*this, made, opcode, operands);
  } catch (const Finding &finding) {
    throw Finding(text("line %d: %s: %s", made.line, made.text.c_str(), finding.what()));
  }
  module.reads_through_constant_cache |= made.through_constant_cache;
  current->code.push_back(made);
}

Given Parser::given() {
  if (take("[")) {
    Given made = given();
    made.kind = Given::address;
    expect("]");
    return made;
  }
  if (take("{")) return list(Given::vector, "}");
  if (take("(")) return list(Given::group, ")");
  Given made;
  made.is_negated = take("!");
  made.text = take("-") ? "-" : "";
  made.text += next().text;
  if (take("+")) {
    const bool negative = take("-");
    const s64 size = s64(number_of(next().text));
    made.plus = negative ? -size : size;
  } else if (peek().is("-") && is_number(peek(1).text)) {
    next();
    made.plus = -s64(number_of(next().text));
  }
  if (!take("|")) return made;
  Given both;
  both.kind = Given::pair;
  both.parts = {made, given()};
  return both;
}

Given Parser::list(Given::Kind kind, const char *end) {
  Given made;
  made.kind = kind;
  while (!take(end)) {
    made.parts.push_back(given());
    take(",");
  }
  return made;
}

void Parser::resolve_labels() {
  const auto place = [this](const std::string &name) {
    const auto found = labels.find(name);
    if (found == labels.end()) fail(text("no label %s", name.c_str()));
    return found->second;
  };
  for (const auto &[index, name] : jumps) current->code[index].target = place(name);
  for (const auto &[index, name] : table_jumps) {
    if (tables.count(name) == 0) fail(text("no table %s", name.c_str()));
    for (const std::string &one : tables[name]) current->code[index].targets.push_back(place(one));
  }
}

void Parser::resolve_calls() {
  for (const auto &[caller, index, name] : calls) {
    Instruction &call = caller->code[index];
    const auto found = module.functions.find(name);
    if (found == module.functions.end()) fail(text("a call of %s, which is not defined", name.c_str()));
    call.callee = found->second.get();
    if (call.results.size() != call.callee->returned.size() || call.arguments.size() != call.callee->parameters.size())
      fail(text("a call of %s with other parameters", name.c_str()));
  }
}

/* -- operands */

const Parser::Register *Parser::find_register(const std::string &name) const {
  for (auto scope = scopes.rbegin(); scope != scopes.rend(); ++scope) {
    const auto found = scope->registers.find(name);
    if (found != scope->registers.end()) return &found->second;
  }
  return nullptr;
}

u8 Parser::width(const Given &given) const {
  const Register *found = find_register(given.text);
  return found != nullptr ? found->bytes : 8;
}

Operand Parser::constant(u64 value) {
  Operand made;
  const auto found = constants.find(value);
  if (found == constants.end()) {
    made.at = constants[value] = u32(module.constants.size());
    module.constants.push_back(value);
  } else {
    made.at = found->second;
  }
  return made;
}

Operand Parser::operand(const Given &given, Type type) {
  Operand made;
  made.is_negated = given.is_negated;
  if (given.kind != Given::word && given.kind != Given::address) throw Finding("an operand of a kind that is not known");
  if (given.text == "_") return made;
  const auto special = SPECIAL.find(given.text);
  const Register *found = find_register(given.text);
  u32 offset = 0;
  if (found != nullptr || special != SPECIAL.end()) {
    if (given.kind == Given::word && given.plus != 0) throw Finding("a sum is no operand");
    made.is_constant = false;
    made.at = found != nullptr ? found->at : special->second;
    return made;
  }
  u64 value;
  if (is_number(given.text)) {
    value = number_of(given.text);
    if (type == Type::f64 && is_single(given.text)) value = to_bits(double(from_bits<float>(value)));
    if (type != Type::none && type != Type::pred) value = truncated(value, size_of(type));
  } else if (given.text == "WARP_SZ") {
    value = 32;
  } else if (dynamic.count(given.text) != 0) {
    made.at = u32(module.constants.size());
    module.constants.push_back(given.kind == Given::word ? u64(given.plus) : 0);
    dynamic_constants.push_back(made.at);
    return made;
  } else if (symbols.count(given.text) != 0) {
    value = symbols[given.text] + (given.kind == Given::word ? u64(given.plus) : 0);
  } else if (parameter(given.text, offset)) {
    value = offset;
  } else {
    throw Finding(text("an operand that is not known: %s", given.text.c_str()));
  }
  made.at = constant(value).at;
  return made;
}

bool Parser::own_parameter(const std::string &name, u32 &offset) const {
  for (auto scope = scopes.rbegin(); scope != scopes.rend(); ++scope) {
    const auto found = scope->parameters.find(name);
    if (found == scope->parameters.end()) continue;
    offset = found->second;
    return true;
  }
  return false;
}

bool Parser::parameter(const std::string &name, u32 &offset) const {
  for (const auto *list : {&current->parameters, &current->returned})
    for (const Parameter &one : *list) {
      if (one.name != name) continue;
      offset = one.offset;
      return true;
    }
  return false;
}

void Parser::jump(const std::string &label) { jumps.emplace_back(u32(current->code.size()), label); }
void Parser::jump_by_table(const std::string &table) { table_jumps.emplace_back(u32(current->code.size()), table); }
void Parser::call(const std::string &name) { calls.emplace_back(current, u32(current->code.size()), name); }

}  // namespace ptx
