"""OpenMP's part of a host function: parallel loops, atomic updates, pinned threads."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import cgen

from tiramisu_py.backends.c.part import HostPart, Lines, Printer
from tiramisu_py.backends.c.runtime_files import RuntimeFile
from tiramisu_py.backends.openmp import atomics, pinning
from tiramisu_py.backends.openmp.parallel_loops import ParallelLoops, shares
from tiramisu_py.program.loops import Parallel
from tiramisu_py.program.storage import Memory

if TYPE_CHECKING:
    from tiramisu_py.algorithm.expressions import Expr
    from tiramisu_py.backends.c.expressions.scope import Scope
    from tiramisu_py.backends.c.statements import Statements
    from tiramisu_py.ir import Load, LoopFunction


class ThreadsPart(HostPart):
    """The threads of a function; every function may have some."""

    @classmethod
    def concerns(cls, function: LoopFunction) -> bool:
        """True for every function: the loops say whether they run on threads."""
        return True

    def runtime(self) -> tuple[RuntimeFile, ...]:
        """The headers that bind threads to CPUs, if they are pinned, and find the shares of balanced loops."""
        return (*pinning.runtime(self.function), *shares(self.function))

    def checked(self) -> Lines:
        """Pins the threads until the function ends."""
        return pinning.pinned(self.function, self.name, self.parts)

    def printers(self, statements: Statements) -> Mapping[type | Memory, Printer]:
        """The printer of parallel loops."""
        return {Parallel: ParallelLoops(statements).emit}

    def atomic(self, place: str, target: Load, value: Expr, scope: Scope) -> Lines:
        """An atomic update."""
        return atomics.update(place, target, value, scope)

    def thread_failed(self) -> Lines:
        """Sets a flag that the loop checks after all threads have finished."""
        return [cgen.Pragma("omp atomic write"), cgen.Statement("tm_failed = 1"), cgen.Statement("continue")]
