/* Findings: what a kernel, or its host, must not do. */
#pragma once
#include <cstdarg>
#include <stdexcept>
#include <string>

#include "types.h"

namespace ptx {

struct Thread;

/* The words of a finding say where it is, and what is wrong. */
struct Finding : std::runtime_error {
  using std::runtime_error::runtime_error;
};

std::string text(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Ends a launch: what a thread does at its instruction is refused. */
[[noreturn]] void refuse(const Thread &thread, const std::string &why);

}  // namespace ptx
