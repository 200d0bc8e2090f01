/* Options of the machine: words such as `seed=3 streams=lazy` in the environment variable TM_PTX. */
#pragma once
#include <string>

#include "program.h"

namespace ptx {

struct Options {
  u64 seed = 0;
  int architecture = 76; /* a capability that no compiler knows: so that PTX is embedded for the one before it */
  int devices = 2;
  /* What is not given is drawn by the seed: `slice=1` instruction a turn, `blocks=4` at once, percent of stores that are
     `held` back, and chances in a thousand that one of them is `released`; percent of loads that see an `old` value, and of
     copies that are `late`; `streams` eager, lazy or shuffled. */
  s64 slice = -1, blocks = -1, held = -1, released = -1, old = -1, late = -1;
  u64 steps = 500'000'000;  /* instructions of a launch, at most */
  std::string streams;
  std::string log;           /* a file that gets a line for each launch: its instructions, and sectors of global memory read and written */
};

/* Throws `Finding` for a word that is not known. */
Options options_of(const char *words);

}  // namespace ptx
