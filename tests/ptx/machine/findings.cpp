#include "findings.h"

#include <cstdio>

#include "launch.h"

namespace ptx {

std::string text(const char *format, ...) {
  char words[1200];
  va_list rest;
  va_start(rest, format);
  vsnprintf(words, sizeof words, format, rest);
  va_end(rest);
  return words;
}

void refuse(const Thread &thread, const std::string &why) {
  const Block &block = *thread.block;
  const Instruction &at = thread.at();
  throw Finding(text("kernel %s, thread (%u, %u, %u) of block (%u, %u, %u), line %d of its PTX: %s: %s",
                     block.launch->function->name.c_str(), u32(thread.registers[TID]), u32(thread.registers[TID + 1]),
                     u32(thread.registers[TID + 2]), block.place[0], block.place[1], block.place[2], at.line, at.text.c_str(),
                     why.c_str()));
}

}  // namespace ptx
