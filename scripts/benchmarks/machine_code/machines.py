"""The processors of the tables: what code is made for, and which model of LLVM stands for them."""

from __future__ import annotations

import functools
from dataclasses import dataclass

from benchmarks.machine_code.compiled_loops import ARM_GCC, Processor
from benchmarks.machine_code.mca import Model
from tiramisu_py.errors import ToolchainError


@dataclass(frozen=True)
class Machine:
    """A processor of the table: its model in LLVM, and the names to try for the code, the best one first."""

    title: str
    model: Model
    names: tuple[str, ...]
    compiler: str = "gcc"

    @functools.cached_property
    def processor(self) -> Processor | None:
        """The processor that code is made for: the first that the compiler knows; None if there is no compiler."""
        for each in (Processor(name, self.compiler) for name in self.names):
            try:
                if not each.missing and each.vector_bytes:
                    return each
            except ToolchainError:
                continue
        return None


def _x86(title: str, model: str, *others: str) -> Machine:
    return Machine(title, Model("x86_64", model), (model, *others))


#: Compilers that do not know Zen 4 make its code as for Ice Lake, whose instructions it has.
MACHINES = (
    _x86("Ice Lake", "icelake-server"),
    _x86("Sapphire Rapids", "sapphirerapids"),
    _x86("Zen 3", "znver3"),
    _x86("Zen 4", "znver4", "icelake-server"),
    Machine("Neoverse N1", Model("aarch64", "neoverse-n1"), ("neoverse-n1",), ARM_GCC),
)
