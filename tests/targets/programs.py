"""Generated functions as a program of their own: it reads calls with their arguments, and answers what was written.

So they run where this process cannot load them: on another processor, or under a sanitiser.
"""

from __future__ import annotations

import os
import re
import struct
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from tests.backends.compiled import FALSE_ALARMS, STRICT
from tests.compiling import compiled, intrinsics
from tests.targets.machines import GENERIC, Target
from tiramisu_py.backends import emit
from tiramisu_py.backends.c import LIBRARIES, REQUIRED
from tiramisu_py.ir import ArrayArgument, LoopFunction
from tiramisu_py.toolchain.compilers.precompiled import uses_intrinsics

#: What the top of a source defines by a macro of the headers.
_DEFINED = re.compile(r"TM_[A-Z0-9_]+\(.*\)$")
_MAIN = """
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

static void get(void *place, size_t bytes) {
  if (bytes != 0 && fread(place, bytes, 1, stdin) != 1) abort();
}
static void put(const void *place, size_t bytes) {
  if (bytes != 0 && fwrite(place, bytes, 1, stdout) != 1) abort();
}
static int call(int64_t which, const int64_t *params, char **given) {
  (void)params, (void)given;
  switch (which) {
@CASES@  }
  return -1;
}
int main(void) {
  int64_t head[3], params[16], bytes[256], outputs[256];
  char *memory[256], *given[256];
  while (fread(head, sizeof head, 1, stdin) == 1) { /* the function, the number of its arguments, where arrays begin */
    get(params, sizeof params);
    for (int k = 0; k < head[1]; k++) {
      get(&bytes[k], sizeof bytes[k]);
      get(&outputs[k], sizeof outputs[k]);
      /* from a cache line on, and to the end of the array, so that a sanitiser sees what lies beyond */
      if (posix_memalign((void **)&memory[k], 64, (size_t)(bytes[k] + head[2]) + (bytes[k] == 0)) != 0) abort();
      given[k] = memory[k] + head[2];
      get(given[k], (size_t)bytes[k]);
    }
    const int64_t code = call(head[0], params, given);
    put(&code, sizeof code);
    for (int k = 0; k < head[1]; k++) {
      if (outputs[k]) put(given[k], (size_t)bytes[k]);
      free(memory[k]);
    }
  }
  return 0;
}
"""


@dataclass(frozen=True)
class Call:
    """A call: the number of the function, parameters, arguments, and how many bytes arrays are off a cache line."""

    which: int
    params: Mapping[str, int]
    arguments: Mapping[str, Any]
    offset: int = 0


@dataclass(frozen=True)
class Printed:
    """A function under a name of its own, and its sources by file name."""

    function: LoopFunction
    texts: Mapping[str, str]


def printed(functions: Sequence[LoopFunction]) -> list[Printed]:
    """Functions whose names are not those of others in one program."""
    named = [replace(function, name=f"{function.name}_{k}") for k, function in enumerate(functions)]
    return [Printed(function, emit(function)) for function in named]


class Program:
    """Functions compiled for a target, with every warning an error: one source, which reads headers once for all."""

    def __init__(self, target: Target, parts: Sequence[Printed], folder: Path) -> None:
        self.target = target
        self.functions = [part.function for part in parts]
        self.path = folder / "program"
        cases, types = [], set[str]()
        for k, part in enumerate(parts):
            for name, text in part.texts.items():
                (folder / name).write_text(_once(text, types) if name.endswith(".c") else text)
            cases.append(f"    case {k}: return {_called(part.function)};\n")
        includes = "".join(f'#include "{f.name}.c"\n' for f in self.functions)
        (folder / "main.c").write_text(includes + _MAIN.replace("@CASES@", "".join(cases)))
        alarms = () if "clang" in target.compiler[0] else FALSE_ALARMS
        wanted = [*REQUIRED, *STRICT, *alarms, *target.openmp, *target.options]
        command = [*self.target.compiler, *wanted, "main.c", "-o", "program", *LIBRARIES]
        compiled(command, folder, "program", more=lambda: self._headers((folder / "main.c").read_text(), wanted))

    def _headers(self, source: str, flags: Sequence[str]) -> tuple[str, ...]:
        if self.target.compiler == ("gcc",) and uses_intrinsics(source, self.target.register):
            return () if set(GENERIC) & set(flags) else intrinsics("gcc", flags)
        return ()

    def __call__(self, calls: Sequence[Call]) -> list[dict[str, Any]]:
        """What the output arrays of each call hold then; every call must return 0."""
        given = b"".join(self._written(call) for call in calls)
        environment = {"ASAN_OPTIONS": "detect_leaks=0", "OMP_NUM_THREADS": "2", **os.environ}
        ran = subprocess.run(
            [*self.target.runner, str(self.path)], input=given, capture_output=True, check=False, env=environment
        )
        assert ran.returncode == 0, f"{self.target}: {ran.returncode}\n{ran.stderr.decode()}"
        place, results = 0, []
        for call in calls:
            (code,) = struct.unpack_from("<q", ran.stdout, place)
            assert code == 0, f"{self.functions[call.which].name} returns {code}"
            place += 8
            found = {}
            for argument in self.functions[call.which].arguments:
                if isinstance(argument, ArrayArgument) and argument.is_output:
                    array = np.asarray(call.arguments[argument.name])
                    bits = ran.stdout[place : place + array.nbytes]
                    found[argument.name] = np.frombuffer(bits, array.dtype).reshape(array.shape)
                    place += array.nbytes
            results.append(found)
        assert place == len(ran.stdout)
        return results

    def _written(self, call: Call) -> bytes:
        function = self.functions[call.which]
        params = [call.params[name] for name in function.params]
        head = struct.pack("<19q", call.which, len(function.arguments), call.offset, *params, *[0] * (16 - len(params)))
        pieces = [head]
        for argument in function.arguments:
            value = np.ascontiguousarray(call.arguments[argument.name], argument.dtype.numpy)
            is_output = isinstance(argument, ArrayArgument) and argument.is_output
            pieces += [struct.pack("<2q", value.nbytes, is_output), value.tobytes()]
        return b"".join(pieces)


def _once(source: str, known: set[str]) -> str:
    """A source without the vector types and their functions that sources before it in the same program have defined."""
    lines = source.split("\n")
    kept = [line for line in lines if not (_DEFINED.match(line) and line in known)]
    known.update(line for line in lines if _DEFINED.match(line))
    return "\n".join(kept)


def _called(function: LoopFunction) -> str:
    params = [f"params[{k}]" for k in range(len(function.params))]
    for k, argument in enumerate(function.arguments):
        array = isinstance(argument, ArrayArgument)
        params.append(f"(void *)given[{k}]" if array else f"*({argument.dtype.c_name} *)given[{k}]")
    return f"{function.name}({', '.join(params)})"


def _ran(command: Sequence[str], folder: Path) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(command, cwd=folder, capture_output=True, check=False)
