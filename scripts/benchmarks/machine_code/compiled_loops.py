"""The hot loops of scheduled functions as machine code for processors that need not be here."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

import tiramisu_py as tm
from benchmarks.machine_code.assembly import Loop, innermost_loops
from tiramisu_py.algorithm.traversal import walk as operands
from tiramisu_py.backends import emit
from tiramisu_py.ir import For, LoopFunction, Mask, Node, Ramp, Store
from tiramisu_py.ir.rewriting import all_expressions, walk
from tiramisu_py.toolchain import open_cache, processor_for
from tiramisu_py.toolchain.compilers.library import prepare

ARM_GCC = "aarch64-linux-gnu-gcc"
INSTALL = "apt-get install gcc-aarch64-linux-gnu libc6-dev-arm64-cross clang"


@dataclass(frozen=True)
class Processor:
    """A processor by the name that its compiler knows it by."""

    name: str
    compiler: str = "gcc"

    def __str__(self) -> str:
        return f"{self.name} {self.compiler.split()[0].split('-')[-1]}"

    @property
    def missing(self) -> str:
        """Why there is no code for it here; empty where there is."""
        return "" if shutil.which(self.compiler.split()[0]) else f"no {self.compiler}: {INSTALL}"

    @property
    def cpu(self) -> tm.Target:
        """What schedules ask of it."""
        return tm.target(self.name, compiler=self.compiler)

    @property
    def vector_bytes(self) -> int:
        """The size of its vectors."""
        return processor_for(self.name, self.compiler).vector_bytes


def assembly(
    function: LoopFunction,
    processor: Processor,
    told: bool = True,
    fast: Collection[str] = (),
    others: Sequence[str] = (),
) -> str:
    """The assembly of a function as `compile` has it made; `told` of the width of vectors, or not; with other flags."""
    recipe = prepare(
        function.name, emit(function), open_cache(), target=processor.name, compiler=processor.compiler, fast=fast
    )
    flags = [flag for flag in recipe.flags if told or flag not in recipe.processor.width]
    with tempfile.TemporaryDirectory() as folder:
        for name, text in recipe.files.items():
            Path(folder, name).write_text(text)
        command = [*recipe.toolchain.command, *flags, *others, "-S", f"{function.name}.c", "-o", "-"]
        return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True).stdout


@dataclass(frozen=True)
class Work:
    """What an iteration of a loop does: its points, the bytes it stores, the size of its code, its stages."""

    points: int
    stored: int
    size: int
    stages: frozenset[str] = frozenset()


def work(function: LoopFunction) -> Work:
    """The work of the innermost loop of vectors with the most operations; those of masked rests are left out.

    A point is an element of every result: vectors of 16 lanes in 8 rows at a time are 128 points.
    """
    found = [work_of(each) for each in walk(function.body) if isinstance(each, For) and is_whole(each.body)]
    if not found:
        raise SystemExit(f"{function.name}: no loop of whole vectors: all of its loops have loops or masks inside")
    return max(found, key=lambda each: each.size if each.points > 1 else 0)


def is_whole(body: Node) -> bool:
    """Whether there is no loop inside, and no vector of which the first lanes alone are meant."""
    return not any(isinstance(each, For | Mask) for each in walk(body))


def operations(node: Node) -> int:
    """The operations of a statement and those inside: the nodes of their expressions."""
    return sum(1 for e in all_expressions(node) for _ in operands(e))


def work_of(loop: For) -> Work:
    """What an iteration of an innermost loop does."""
    lanes: Counter[str] = Counter()
    stored = 0
    for store in (each for each in walk(loop.body) if isinstance(each, Store)):
        width = max((e.lanes for index in store.indices for e in operands(index) if isinstance(e, Ramp)), default=1)
        lanes[store.statement] += width
        stored += width * store.value.dtype.bytes
    return Work(max(lanes.values(), default=0), stored, operations(loop.body), frozenset(lanes))


def hot_loop(assembly: str, stored: int) -> Loop | None:
    """The innermost loop with the most instructions of those whose iterations store so many bytes, if there is one.

    Where there is one with ordinary stores and one with non-temporal stores, which are for large arrays, the first.
    """
    loops = [loop for loop in innermost_loops(assembly) if not loop.is_masked and loop.stored_bytes == stored]
    return max(loops, key=lambda each: (not each.streams, len(each.usual)), default=None)
