"""Loads of elements a few apart, made wider or not: right on every target, up to the ends of readable memory."""

from __future__ import annotations

import subprocess
from importlib import resources
from pathlib import Path

import pytest

from tests.backends.compiled import STRICT
from tests.compiling import compiled
from tests.targets.headers import included
from tests.targets.machines import TARGETS, Target
from tiramisu_py.algorithm import types as ty
from tiramisu_py.algorithm.types import DType
from tiramisu_py.backends.c import REQUIRED
from tiramisu_py.backends.c.vectors.vector_types import VectorTypes

C = "tiramisu_py.backends.c"
SOURCES = (ty.uint8, ty.int8, ty.uint16, ty.int16)
WIDER = {8: (ty.uint16, ty.int32, ty.int64), 16: (ty.uint32, ty.int64)}

#: The elements lie between two pages that cannot be read, at the start or at the end of what can.
_CHECK = """
#define CHECK(load, V, T, lanes, stride)                                              \\
  static int check_##load(uint8_t *readable, size_t page) {                           \\
    const size_t bytes = ((lanes - 1) * stride + 1) * sizeof(T);                      \\
    const void *const starts[2] = {readable, readable + page - bytes};                \\
    for (int k = 0; k < 2; k++) {                                                     \\
      const V found = load(starts[k]);                                                \\
      for (int lane = 0; lane < lanes; lane++) {                                      \\
        T element;                                                                    \\
        memcpy(&element, (const char *)starts[k] + lane * stride * sizeof(T), sizeof(T)); \\
        if (found[lane] != (__typeof__((V){0}[0]))element) return 1;                  \\
      }                                                                               \\
    }                                                                                 \\
    return 0;                                                                         \\
  }
"""
_MAIN = """
int main(void) {
  const size_t page = (size_t)sysconf(_SC_PAGESIZE);
  uint8_t *const pages = mmap(NULL, 3 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (pages == MAP_FAILED || mprotect(pages, page, PROT_NONE) || mprotect(pages + 2 * page, page, PROT_NONE)) return 2;
  for (size_t k = 0; k < page; k++) pages[page + k] = (uint8_t)(rand() >> 7);
  for (size_t k = 0; k < sizeof checks / sizeof checks[0]; k++)
    if (checks[k].wrong(pages + page, page)) puts(checks[k].name);
  puts("all tried");
  return 0;
}
"""


def loads(types: VectorTypes) -> list[tuple[str, DType, DType, int, int]]:
    """The functions that there are: name, types in memory and of lanes, lanes, distance."""
    found = []
    for source in SOURCES:
        for stride in (2, 3, 4):
            for lanes in (2, 4, 8, 16, 32, 64):
                if 4 <= source.bytes * lanes <= 64 and (name := types.load(source, lanes, stride)) is not None:
                    found.append((name, source, source, lanes, stride))
                for target in WIDER[source.bits]:
                    if 8 <= target.bytes * lanes <= 64:
                        types.load(source, lanes, stride)
                        function = types.idioms.strided(source, target, lanes, stride)
                        found.append((function, source, target, lanes, stride))
    return found


def program(types: VectorTypes) -> str:
    """It prints the names of the loads that are wrong."""
    every = loads(types)
    systems = ["stdio", "stdlib", "stdint", "string", "unistd", "sys/mman"]
    lines = ["#define _GNU_SOURCE", *(f"#include <{name}.h>" for name in systems)]
    lines += [f'#include "{header}"' for header in included(types)]
    lines += [*types.declarations(), _CHECK]
    lines += [f"CHECK({name}, {t}x{lanes}, {s.c_name}, {lanes}, {stride})" for name, s, t, lanes, stride in every]
    pairs = ", ".join(f'{{check_{name}, "{name}"}}' for name, *_ in every)
    lines.append(
        f"static const struct {{ int (*wrong)(uint8_t *, size_t); const char *name; }} checks[] = {{{pairs}}};"
    )
    return "\n".join([*lines, _MAIN])


@pytest.mark.parametrize("target", [t for t in TARGETS if "sanitised" not in t.name], ids=str)
def test_loads_of_elements_apart_find_them_and_read_nothing_outside(target: Target, tmp_path: Path) -> None:
    if target.missing:
        pytest.skip(target.missing)
    types = VectorTypes()
    (tmp_path / "all.c").write_text(program(types))
    for name in (*(file.name for file in types.runtime()), "tm_runtime.h"):
        (tmp_path / name).write_text(resources.files(C).joinpath(name).read_text())
    command = [*target.compiler, *REQUIRED, *STRICT, *target.options, "all.c", "-o", "all", "-lm"]
    compiled(command, tmp_path, "all")
    ran = subprocess.run([*target.runner, tmp_path / "all"], capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stdout) == (0, "all tried\n"), ran.stderr
