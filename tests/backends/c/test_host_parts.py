"""Parts of the host's source: a made-up one is all that the emitter needs, and without one it knows no target."""

from __future__ import annotations

from collections.abc import Sequence

import cgen
import pytest

import tiramisu_py as tm
from tests.backends.compiled import REQUIRED, STRICT
from tiramisu_py.backends import c, emit
from tiramisu_py.backends.c.part import HostPart, Lines
from tiramisu_py.backends.c.runtime_files import RuntimeFile
from tiramisu_py.errors import CompilerDefect
from tiramisu_py.ir import LoopFunction
from tiramisu_py.toolchain.compilers.c_compiler import find_toolchain
from tiramisu_py.toolchain.compilers.cache import open_cache

(N,) = tm.params("N")
i, i0, i1 = tm.iters("i i0 i1")


class Counter(HostPart):
    """Counts the calls that are under way, in a variable of its own."""

    headers = ("stddef.h",)
    libraries = ("-lcounting",)
    error_bytes = 4096

    @classmethod
    def concerns(cls, function: LoopFunction) -> bool:
        return function.name == "scale"

    @classmethod
    def own_names(cls, function: LoopFunction, inside: Sequence[str]) -> list[str]:
        return ["under_way"]

    def runtime(self) -> tuple[RuntimeFile, ...]:
        text = '#include "tm_deep.h"\nextern int tm_counted(int code);\n'
        return RuntimeFile("tm_counting.h", text), RuntimeFile("tm_deep.h", "#define TM_MOST 3\n", included=False)

    def documentation(self) -> list[str]:
        return ["Returns 55 where too many calls are under way."]

    def definitions(self) -> Lines:
        return [cgen.Statement("static int under_way")]

    def checked(self) -> Lines:
        return [self.parts.fails("under_way >= TM_MOST", "55")]

    def begin(self) -> Lines:
        return [cgen.Statement("under_way++")]

    def end(self) -> Lines:
        return [cgen.Statement("under_way--")]

    def leaving(self, code: str) -> str:
        return f"tm_counted({code})"


def scaled(name: str = "scale") -> tm.Function:
    f = tm.Function(name, params=[N])
    under_way = f.input("under_way", tm.float32, [N])
    f.outputs(f.computation("o", {i: N}, 2 * under_way[i]))
    return f


def test_a_part_adds_all_that_it_says_and_the_source_compiles(tmp_path) -> None:
    emitted = c.emit(scaled().show("lowered"), [Counter])
    source, header = emitted["scale.c"], emitted["scale.h"]
    assert '#include "tm_counting.h"' in source and "tm_deep.h" not in source and emitted["tm_deep.h"]
    assert "#include <stddef.h>" in header and "Returns 55" in header and "scale_error[4096]" in source
    assert emitted.libraries == ("-lcounting",) and not emitted.uses_gpu
    lines = [line.strip() for line in source.splitlines()]
    order = [
        "static int under_way;",
        "if (under_way >= TM_MOST)",
        "under_way++;",
        "under_way--;",
        "return tm_counted(0);",
    ]
    assert sorted(order, key=lambda text: next(n for n, line in enumerate(lines) if line.startswith(text))) == order
    assert "float *restrict under_way," not in source, "the array of this name has another one in C"
    for name, text in emitted.items():
        (tmp_path / name).write_text(text)
    compiler = find_toolchain(open_cache())
    compiler.compile("scale.c", [*STRICT, *REQUIRED], tmp_path)


def test_a_part_adds_nothing_to_functions_that_it_does_not_concern() -> None:
    function = scaled("other").show("lowered")
    assert dict(c.emit(function, [Counter])) == dict(c.emit(function, [])) == dict(emit(function))


def test_the_prototype_is_the_one_in_the_header() -> None:
    emitted = emit(scaled().show("lowered"))
    assert emitted.prototype in emitted["scale.h"] and emitted.prototype.startswith("int scale(int64_t N, ")


def test_without_the_part_of_a_target_the_emitter_does_not_know_its_statements() -> None:
    f = scaled()
    f["o"].split(i, 64, i0, i1)
    f["o"].tag_gpu(blocks=[i0], threads=[i1])
    f.derive_transfers()
    with pytest.raises(CompilerDefect):
        c.emit(f.show("lowered"), [])
    assert emit(f.show("lowered")).uses_gpu
    threaded = scaled()
    threaded["o"].parallelize(i)
    assert "#pragma omp" in emit(threaded.show("lowered"))["scale.c"]
    assert "#pragma omp" not in c.emit(threaded.show("lowered"), [])["scale.c"]
