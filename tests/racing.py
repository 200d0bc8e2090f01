"""Programs of their own in which generated code runs on several threads under the thread sanitizer.

gcc's OpenMP does not tell the sanitizer of its barriers. That of clang does, by its tool Archer (libomp-dev): without
it there is nothing to run.
"""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tiramisu_py as tm
from tests.processors import NATIVE, native
from tiramisu_py.ir import ArrayArgument

THREADS = 4
FLAGS = ("-std=gnu11", "-g1", "-O1", NATIVE, "-fopenmp", "-fsanitize=thread", "-w", "-I.")
RACE = "WARNING: ThreadSanitizer: data race"
_CONTROL = """
static int x[1000];
int main(void) {
#pragma omp parallel for schedule(static, 1)
  for (int i = 0; i < 1000; i++) x[i] = i;
#pragma omp parallel for schedule(static, 1)
  for (int i = 0; i < 999; i++) x[i] += SHIFTED;
  return 0;
}
"""


_MAIN = """
#include "NAME.h"
#include <stdio.h>
#include <stdlib.h>
static void moved(const char *file, const char *how, void *memory, size_t bytes) {
  FILE *stream = fopen(file, how);
  if ((how[0] == 'r' ? fread(memory, 1, bytes, stream) : fwrite(memory, 1, bytes, stream)) != bytes) abort();
  fclose(stream);
}
int main(void) {
LINES
  printf("called %d\\n", code);
  return code;
}
"""


@functools.cache
def archer() -> str:
    """The path of clang's Archer. Skips the test where the sanitizer does not work, or takes barriers for races."""
    if shutil.which("clang") is None:
        pytest.skip("clang is not here, whose OpenMP tells the thread sanitizer of its barriers")
    asked = subprocess.run(["clang", "-print-file-name=libarcher.so"], capture_output=True, text=True, check=True)
    found = [Path(asked.stdout.strip()), *Path("/usr/lib").glob("llvm-*/lib/libarcher.so")]
    tool = next((str(path) for path in found if path.is_absolute() and path.exists()), None)
    if tool is None:
        pytest.skip("clang's OpenMP has no Archer here: install libomp-dev")
    with tempfile.TemporaryDirectory() as folder:
        for shifted, races in (("x[i]", False), ("x[i + 1]", True)):
            Path(folder, "main.c").write_text(_CONTROL.replace("SHIFTED", shifted))
            made = _compiled(Path(folder), "main.c")
            if made.returncode != 0 or (RACE in _ran(Path(folder), tool).stderr) != races:
                pytest.skip(f"the thread sanitizer does not work here: {made.stderr[:200]}")
    return tool


def races(kernel: tm.Kernel, given: Mapping[str, Any], **replaced: str) -> tuple[str, dict[str, np.ndarray]]:
    """What the sanitizer says of a call, and the arrays of the function after it. `replaced` are other texts in C in
    the place of some in the kernel's source.
    """
    tool = archer()
    call = kernel.arguments.bind((), dict(given))
    with tempfile.TemporaryDirectory(prefix="tiramisu_py-races-") as name:
        folder = Path(name)
        for file, text in kernel.source.items():
            (folder / file).write_text(text)
        own = folder / f"{kernel.name}.c"
        for old, new in replaced.items():
            assert old in own.read_text()
            own.write_text(own.read_text().replace(old, new))
        arrays = {a.name: np.array(call.values[a.name]) for a in _arrays(kernel)}
        for a in kernel.function.arguments:
            np.asarray(call.values[a.name]).tofile(folder / f"{a.name}.given")
        (folder / "main.c").write_text(_main(kernel, call.params, call.values))
        made = _compiled(folder, "main.c", *(file for file in kernel.source if file.endswith(".c")))
        assert made.returncode == 0, made.stderr[:4000]
        done = _ran(folder, tool)
        assert "unexpected memory mapping" not in done.stderr
        assert "called" in done.stdout, done.stderr[:4000]
        found = {a: np.fromfile(folder / f"{a}.found", v.dtype).reshape(v.shape) for a, v in arrays.items()}
    return done.stderr, found


def _arrays(kernel: tm.Kernel) -> list[ArrayArgument]:
    return [a for a in kernel.function.arguments if isinstance(a, ArrayArgument)]


def _compiled(folder: Path, *sources: str) -> subprocess.CompletedProcess[str]:
    command = ["clang", *native(FLAGS, "clang"), *sources, "-o", "run", "-lm"]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


def _ran(folder: Path, tool: str) -> subprocess.CompletedProcess[str]:
    more = {"OMP_NUM_THREADS": str(THREADS), "OMP_TOOL_LIBRARIES": tool}
    environment = {**os.environ, **more, "TSAN_OPTIONS": "ignore_noninstrumented_modules=1 exitcode=0"}
    command = ["setarch", "-R", "./run"] if shutil.which("setarch") else ["./run"]  # addresses that it has room for
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)


def _main(kernel: tm.Kernel, params: Mapping[str, int], values: Mapping[str, Any]) -> str:
    """A program that reads arguments from files, calls the function, and writes the arrays to files."""
    passed = [str(params[name]) for name in kernel.function.params]
    lines = []
    for a in kernel.function.arguments:
        size = values[a.name].nbytes
        if isinstance(a, ArrayArgument):
            lines.append(f"  void *a_{a.name} = aligned_alloc(64, {size + 64 & ~63});")
            lines.append(f'  moved("{a.name}.given", "rb", a_{a.name}, {size});')
        else:
            lines.append(f"  {a.dtype.c_name} a_{a.name};")
            lines.append(f'  moved("{a.name}.given", "rb", &a_{a.name}, {size});')
        passed.append(f"a_{a.name}")
    lines.append(f"  const int code = {kernel.name}({', '.join(passed)});")
    lines += [f'  moved("{a.name}.found", "wb", a_{a.name}, {values[a.name].nbytes});' for a in _arrays(kernel)]
    return _MAIN.replace("NAME", kernel.name).replace("LINES", "\n".join(lines))
