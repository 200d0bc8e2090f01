"""The cost model: cycles for a value, or for a term of a sum, in the loops that an offer makes.

    cycles = (operations * multiply_add + accesses * load) / lanes + chain + bytes / 4

An operation takes the cycles of a multiply-add of the processor, and an access those of a load (`InstructionCosts`); an
access whose lanes are apart in memory counts as several (see `auto.model.strides`). `chain` are cycles for which the
next value waits, and which nothing hides. Four bytes come from memory in a cycle, for one core. The model ranks offers
for the same values; it says nothing of times. What it leaves out: the ends of loops, associativity of caches, the
address arithmetic, and how well a C compiler does.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from tiramisu_py import InstructionCosts
from tiramisu_py.records import dataclass

#: How many bytes come from memory in a cycle.
BYTES = 4.0


@dataclass(frozen=True)
class ValueWork:
    """The work of one value, or of one term: arithmetic `operations`, vector `accesses`, and `bytes` from memory.

    `lanes` values are computed at once. `chain` are the cycles for which each waits for the one before.
    """

    operations: float
    accesses: float
    bytes: float
    lanes: int = 1
    chain: float = 0.0

    def by_one_of(self, threads: int) -> ValueWork:
        """The work of a nest that threads cannot share: one does what is as many parts elsewhere."""
        return replace(
            self, operations=threads * self.operations, accesses=threads * self.accesses, bytes=threads * self.bytes,
            chain=threads * self.chain,
        )  # fmt: skip


def cycles(work: ValueWork, costs: InstructionCosts) -> float:
    """The estimated cycles of one value or term on a processor."""
    computing = (work.operations * costs.multiply_add + work.accesses * costs.load) / work.lanes
    return computing + work.chain + work.bytes / BYTES


#: An estimate for which less is better; `cycles`, unless the user gives another one.
CostModel = Callable[[ValueWork], float]
