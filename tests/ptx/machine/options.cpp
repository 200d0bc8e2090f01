#include "options.h"

#include <sstream>

#include "findings.h"

namespace ptx {

namespace {

bool set_number(Options &options, const std::string &name, long long value) {
  if (name == "seed") options.seed = u64(value);
  else if (name == "arch") options.architecture = int(value);
  else if (name == "devices") options.devices = int(value);
  else if (name == "slice") options.slice = value;
  else if (name == "blocks") options.blocks = value;
  else if (name == "held") options.held = value;
  else if (name == "released") options.released = value;
  else if (name == "old") options.old = value;
  else if (name == "late") options.late = value;
  else if (name == "steps") options.steps = u64(value);
  else return false;
  return true;
}

}  // namespace

Options options_of(const char *words) {
  Options made;
  std::istringstream all(words != nullptr ? words : "");
  for (std::string word; all >> word;) {
    const size_t equals = word.find('=');
    const std::string name = word.substr(0, equals), value = equals == std::string::npos ? "" : word.substr(equals + 1);
    if (name == "streams" && (value == "eager" || value == "lazy" || value == "shuffled")) {
      made.streams = value;
    } else if (name == "log" && !value.empty()) {
      made.log = value;
    } else if (value.empty() || value.find_first_not_of("0123456789") != std::string::npos || !set_number(made, name, atoll(value.c_str()))) {
      throw Finding("TM_PTX: an option that is not known: " + word);
    }
  }
  return made;
}

}  // namespace ptx
