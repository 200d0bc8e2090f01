"""Costs of instructions on a processor: cycles of vector instructions, from LLVM's models of processors.

The table, ``instruction_costs.json``, is written by ``scripts/bench instruction_costs --save``; it holds the version of
LLVM. It is the only place that knows processors by their names: schedules, recipes and cost models ask for costs.
"""

from __future__ import annotations

import functools
import json
from importlib import resources
from typing import Any

from tiramisu_py.records import dataclass

#: The bytes of a cache line: vectors that begin anywhere cross its end as often as they are parts of it.
LINE = 64
#: The entry for processors that are not in the table, by the bytes of their vectors.
USUAL = {64: "x86-64-v4", 32: "x86-64-v3", 16: "x86-64-v2"}
USUAL_ARM = "armv8-a"


@dataclass(frozen=True)
class InstructionCosts:
    """Costs of vector instructions on a processor: cycles from one to the next, for a vector of `vector_bytes` bytes.

    `load`, `store` and `stream` move a vector in the first-level cache (`stream`: past the caches); `masked_store`
    stores its first elements, of 32 bits, and is None without such an instruction. `multiply_add`, `divide` and
    `square_root` are for float32. `slide` makes the vector that begins one element later in two vectors side by
    side; `widen` one of 16-bit numbers from bytes, `narrow` one of bytes from two of 16-bit numbers. `add_latency`
    and `multiply_add_latency` are cycles until the result can be used. `starts` operations begin in a cycle, and there
    are `registers`. `memory_operands` says whether arithmetic takes an operand from memory, without a register for it.
    `gathers` says whether loads from computed places are faster by one instruction than one by one.

    ::

        tm.target("znver3").costs.masked_store          # 12.0: dear
        tm.target("znver3").costs.reload                # 0.75
    """

    processor: str
    vector_bytes: int
    registers: int
    memory_operands: bool
    starts: float
    load: float
    store: float
    stream: float
    masked_store: float | None
    multiply_add: float
    divide: float
    square_root: float
    slide: float
    widen: float
    narrow: float
    add_latency: float
    multiply_add_latency: float
    gathers: bool

    @classmethod
    def of(cls, name: str, vector_bytes: int, *, arm: bool = False) -> InstructionCosts:
        """The costs of a processor by its name; of those with vectors of so many bytes if it is not in the table.

        A processor with other vectors than in the table costs what is usual for processors with such vectors.
        """
        table = _table()["processors"]
        found = table.get(name)
        if found is None or found["vector_bytes"] != vector_bytes:
            name = USUAL_ARM if arm else USUAL[vector_bytes]
            found = table[name]
        return cls(processor=name, **found)

    @property
    def reload(self) -> float:
        """A load of a vector that begins at any element: of those that cross the end of a cache line, it is two."""
        return self.load * (1 + self.vector_bytes / LINE)

    def keeps_window(self, taps: int, others: int = 0) -> bool:
        """Whether a window of `taps` neighbours along vectors is better kept in registers, and slid there, than loaded
        again from a row in the first-level cache, beside `others` vectors that stay in registers.

        Kept, each step slides once for each further neighbour; of its vectors, those that find no register are stored
        and loaded. As a row, each step stores one vector, and loads all neighbours.
        """
        spilled = max(taps + 1 + others - self.registers, 0)
        kept = (taps - 1) * self.slide + spilled * (self.store + self.load)
        return kept <= self.store + taps * self.reload

    def prefers_rows(self, taps: int, rows: int) -> bool:
        """Whether a stencil of `taps` rows and as many columns, in bands of `rows` rows of results, is better summed
        across first, of neighbours that are loaded, for a window of whole rows, than down first, for a window that
        slides along vectors.

        Across first, each neighbour is loaded for the rows between two bands as well, twice; down first, each result
        loads `taps` rows, and slides once for each further neighbour.
        """
        across = (rows + taps - 1) / rows * taps * self.reload
        down = taps * self.load + (taps - 1) * self.slide
        return across < down

    def has_masks(self, element: int) -> bool:
        """Whether the first elements of a vector, of so many bytes each, are loaded by one instruction."""
        return self.has_mask_registers or (self.masked_store is not None and element >= 4)

    @property
    def has_mask_registers(self) -> bool:
        """Whether any instruction takes a mask, for elements of all sizes: loads from computed places, too."""
        return self.masked_store is not None and self.vector_bytes == LINE

    def remainder(self, element: int) -> str:
        """How the last iterations of a short vector loop are best run, ``"mask"`` or ``"scalar"``, for elements of so
        many bytes.

        A mask is as dear as its store, and elements of less than 4 bytes need mask registers; one by one, the half of a
        vector's iterations loads, computes and stores.
        """
        if self.masked_store is None or not self.has_masks(element):
            return "scalar"
        by_one = self.vector_bytes / element / 2 * (self.load + self.multiply_add + self.store)
        return "mask" if self.masked_store <= by_one else "scalar"


def known_processors() -> tuple[str, ...]:
    """The names of the processors in the table."""
    return tuple(_table()["processors"])


def version() -> str:
    """The version of LLVM whose models the table was made from."""
    return str(_table()["llvm"])


@functools.cache
def _table() -> dict[str, Any]:
    text = resources.files("tiramisu_py.program.machine").joinpath("instruction_costs.json").read_text("ascii")
    found: dict[str, Any] = json.loads(text)
    return found
