"""Machine code of a GPU's kernel, counted: instructions, and those of its loops.

The text is what NVIDIA's disassembler prints of a cubin, ``nvdisasm -c``. From Volta on an instruction has 16 bytes.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from tiramisu_py.records import dataclass

#: The bytes of an instruction, from sm_70 on.
INSTRUCTION_BYTES = 16
_KERNEL = re.compile(r"^\.text\.(\S+):$")
_LABEL = re.compile(r"^(\.L\S+):$")
_INSTRUCTION = re.compile(r"^/\*[0-9a-f]+\*/\s+(?:\{\s*)?(?:@!?U?P\w+\s+)?([A-Z][\w.]*)(.*)$")
_TARGET = re.compile(r"`\((\.L\w+)\)")
#: Instructions of tensor cores, by type of operand.
_TENSOR = ("HMMA", "IMMA", "DMMA", "BMMA", "QMMA", "HGMMA", "IGMMA", "QGMMA")
_SPILLS = ("STL", "LDL")
_LOADS = ("LDG", "LDS", "LD")


@dataclass(frozen=True)
class InstructionCounts:
    """Instructions by operation, with what modifies them: ``{"FFMA": 64, "LDS.128": 8, ...}``."""

    operations: Mapping[str, int]

    def count(self, *names: str) -> int:
        """The instructions of these operations, whatever modifies them: ``count("LDG")`` has those of LDG.E.128."""
        return sum(count for operation, count in self.operations.items() if operation.split(".")[0] in names)

    @property
    def instructions(self) -> int:
        """All instructions."""
        return sum(self.operations.values())

    @property
    def bytes(self) -> int:
        """The bytes of all instructions."""
        return INSTRUCTION_BYTES * self.instructions

    @property
    def fused(self) -> int:
        """Fused multiplications and additions of float32."""
        return self.count("FFMA", "FFMA2")

    @property
    def tensor(self) -> int:
        """Products of tensor cores."""
        return self.count(*_TENSOR)

    @property
    def wide_loads(self) -> int:
        """Loads of 128 bits, from global and from shared memory."""
        return sum(count for name, count in self.operations.items() if _is_wide_load(name.split(".")))

    @property
    def barriers(self) -> int:
        """Barriers of a block."""
        return self.count("BAR")

    @property
    def spills(self) -> int:
        """Accesses of local memory: stores and loads of registers that were spilled, and arrays of a thread."""
        return self.count(*_SPILLS)

    def __str__(self) -> str:
        parts = {
            "FFMA": self.fused,
            "products of tensor cores": self.tensor,
            "loads of 128 bits": self.wide_loads,
            "barriers": self.barriers,
            "accesses of local memory": self.spills,
        }
        counted = [f"{count} {name}" for name, count in parts.items() if count]
        return ", ".join([f"{self.instructions} instructions ({self.bytes} bytes)", *counted])


@dataclass(frozen=True)
class MachineCode(InstructionCounts):
    """The machine code of a kernel: all instructions, and those of each of its `loops`, in the order of the code.

    A loop's instructions are those that are in no loop within it.
    """

    loops: tuple[InstructionCounts, ...] = ()

    def lines(self) -> list[str]:
        """The counts in words: the kernel, then each loop."""
        return [str(self), *(f"a loop of {loop}" for loop in self.loops)]


def counted_code(listing: str) -> dict[str, MachineCode]:
    """The machine code of each kernel of a listing of ``nvdisasm -c``, by its name."""
    return {name: _counted(lines) for name, lines in _kernels(listing)}


def _kernels(listing: str) -> Iterator[tuple[str, list[str]]]:
    """The lines of each kernel or function of the listing, without those of other sections."""
    name, lines = "", list[str]()
    for line in map(str.strip, listing.splitlines()):
        begins, ends = _KERNEL.match(line), line.startswith(".section")
        if name and (begins or ends):
            yield name, lines
        if begins or ends:
            name, lines = begins.group(1) if begins else "", []
        elif line:
            lines.append(line)
    if name:
        yield name, lines


def _counted(lines: Sequence[str]) -> MachineCode:
    operations: list[str] = []
    labels: dict[str, int] = {}
    jumps: list[tuple[int, str]] = []
    for line in lines:
        if label := _LABEL.match(line):
            labels[label.group(1)] = len(operations)
        elif found := _INSTRUCTION.match(line):
            if found.group(1).split(".")[0] == "BRA" and (target := _TARGET.search(found.group(2))):
                jumps.append((len(operations), target.group(1)))
            operations.append(found.group(1))
    spans = _loops({(labels[to], at) for at, to in jumps if labels.get(to, at) < at})
    loops = (Counter(operations[at] for at in _own(span, spans)) for span in spans)
    return MachineCode(Counter(operations), tuple(map(InstructionCounts, loops)))


def _loops(spans: set[tuple[int, int]]) -> list[tuple[int, int]]:
    """The loops by their first and last instruction; of jumps back to one place, the last ends the loop."""
    longest = {first: max(last for start, last in spans if start == first) for first, _ in spans}
    return sorted(longest.items())


def _own(span: tuple[int, int], spans: Sequence[tuple[int, int]]) -> list[int]:
    """The instructions of a loop that are in no loop within it."""
    first, last = span
    within = {at for c, d in spans if first <= c and d <= last and (c, d) != span for at in range(c, d + 1)}
    return [at for at in range(first, last + 1) if at not in within]


def _is_wide_load(parts: Sequence[str]) -> bool:
    return parts[0] in _LOADS and "128" in parts[1:]
