"""Reads the assembly of a compiled source: its innermost loops, their usual paths, and how wide their vectors are.

The text is what gcc and clang write with ``-S`` for x86 (AT&T's syntax) and AArch64.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

_LABEL = re.compile(r"([.\w$]+):")
_FUNCTION = re.compile(r"\s+\.type\s+([\w.$]+)\s*,\s*[@%]function")
#: Before an instruction may stand how it is encoded: `{vex} vpdpbusd`.
_INSTRUCTION = re.compile(r"\s+(?:\{\w+\}\s+)?([a-z][\w.]*)(?:\s+(.*))?$")
_COMMENT = re.compile(r"(\s#\s|//|^\s*#).*")
#: After these the next line is not reached; a call comes back.
_LEAVES = re.compile(r"jmpq?|b|br|ret[qa]*|ud2|udf|brk")
_BRANCHES = re.compile(r"j[a-z]+|b(\.?[a-z]{2})?|cbn?z|tbn?z")

_X86_VECTOR = re.compile(r"%([xyz])mm\d")
_ARM_VECTOR = re.compile(r"\bv\d+\.(\d+)([bhsd])\b|\b([qd])\d+\b")
_X86_BYTES = {"x": 16, "y": 32, "z": 64}
_ARM_BYTES = {"b": 1, "h": 2, "s": 4, "d": 8}
#: One number, or the whole of a general register, in a vector's: `vmovss`, `vaddsd`, `vmovd`, `vpinsrb`, ...
_ONE_NUMBER = re.compile(
    r"(?!v?p)v?[a-z]+\d*s[sdh]|v?cvtt?(s[sdhi]|usi)2\w+|v?mov[dq]|v?p(insr|extr)[bwdq]|[suf]mov|dup|f\w+|[us]cvtf"
)
#: Registers of this size hold one number, too: of x86 and of Arm.
_SMALLEST = (16, 8)
#: What is a vector of 8 bytes on Arm, and not a number, in a register that is named d0.
_ARM_MOVES = re.compile(r"(ld|st)(r|ur|p|np)")
#: A place in memory that only the first lanes of a vector are loaded from or stored to.
_MASKED = re.compile(r"\(%.*\{%k\d\}")
_STACK = re.compile(r"(?<![\w*])-?\d*\((%rsp|%rbp)\)|\[(sp|x29)(?:, ?#?-?\d+)?\]")
_FRAME = re.compile(r"(movq? %rsp, ?%rbp|mov x29, ?sp|add x29, ?sp, ?#?\d+)$")
#: A register made zero: of the whole of it, whatever part the instruction names.
_ZERO = re.compile(r"v?p?(xor\w*|sub[bwdq]) (%[xyz]mm\d+), (?:\2, )?\2")
#: What stores a vector as it is, narrowed, a part of it, or its lowest number.
_STORE = re.compile(r"v?mov(?!mask)\w*|vpmov\w*|vextract\w*|st(r|ur|p|np|1)")
_PART = re.compile(r"vpmov(?:u?s)?([wdq])([bwd])|vextract([if]\w+)|v?mov(ss|d|sd|q|[hl]p[sd])")
_X86_WORDS = {"b": 1, "w": 2, "d": 4, "q": 8}
_SINGLE = {"ss": 4, "d": 4}
_ARM_SINGLE = {"q": 16, "d": 8, "s": 4, "h": 2}
_JOIN = re.compile(r"vp?(insert|extract)[if]\d\w+")


@dataclass(frozen=True)
class Instruction:
    """A line of assembly: the name of the operation, and its operands as they stand there."""

    name: str
    operands: str = ""

    def __str__(self) -> str:
        return f"{self.name} {self.operands}".rstrip()

    @cached_property
    def vector_bytes(self) -> int:
        """The size of the widest vector that it works on; 0 of none."""
        sizes = [_X86_BYTES[kind] for kind in _X86_VECTOR.findall(self.operands)]
        for lanes, element, register in _ARM_VECTOR.findall(self.operands):
            moves = register and _ARM_MOVES.fullmatch(self.name)
            sizes.append(int(lanes) * _ARM_BYTES[element] if lanes else {"q": 16, "d": 8}[register] if moves else 0)
        size = max(sizes, default=0)
        return 0 if size <= _SMALLEST[self.is_arm] and _ONE_NUMBER.fullmatch(self.name) else size

    @property
    def stored_bytes(self) -> int:
        """The bytes of a vector, or of one number of it, that it stores."""
        if not _STORE.fullmatch(self.name):
            return 0
        return self._stored_by_arm() if self.is_arm else self._stored_by_x86()

    def _stored_by_arm(self) -> int:
        registers, found, _ = self.operands.partition("[")
        single = sum(_ARM_SINGLE[kind] for kind in re.findall(r"\b([qdsh])\d+\b", registers))
        return (single or self.vector_bytes) if found else 0

    def _stored_by_x86(self) -> int:
        registers = _X86_VECTOR.findall(self.operands)
        if not registers or not self.operands.endswith(")"):
            return 0
        size, part = _X86_BYTES[registers[0]], _PART.fullmatch(self.name)
        if part is None:
            return size
        wide, narrow, extracted, single = part.groups()
        if extracted:
            return 16 if extracted.endswith(("128", "x2", "32x4")) else 32
        return _SINGLE.get(single, 8) if single else size * _X86_WORDS[narrow] // _X86_WORDS[wide]

    @property
    def is_arm(self) -> bool:
        """Whether its registers are Arm's."""
        return "%" not in self.operands

    def is_narrower(self, size: int) -> bool:
        """Whether its vectors are all narrower than `size`, or it makes one of such."""
        return self.joins or (0 < self.vector_bytes < size and not _ZERO.fullmatch(str(self)))

    @property
    def joins(self) -> bool:
        """Whether it puts parts of a vector together, or takes one out."""
        return _JOIN.fullmatch(self.name) is not None


@dataclass(frozen=True)
class Loop:
    """An innermost loop: its function, the label it begins at, its instructions, and the registers of the stack.

    `usual` are the instructions of an iteration that takes no branch but to its end: compilers put what is seldom
    reached elsewhere.
    """

    function: str
    label: str
    instructions: tuple[Instruction, ...]
    stack: frozenset[str]
    usual: tuple[Instruction, ...] = ()

    @property
    def vector_bytes(self) -> int:
        """The size of its widest vector."""
        return max((each.vector_bytes for each in self.instructions), default=0)

    @property
    def is_masked(self) -> bool:
        """Whether some of its loads and stores are of the first lanes only: it is the rest of a longer loop."""
        return any(_MASKED.search(each.operands) for each in self.instructions)

    @property
    def stored_bytes(self) -> int:
        """The bytes of vectors that an iteration on its usual path stores, not counting spilled ones."""
        return sum(each.stored_bytes for each in self.usual if not self.is_of_stack(each))

    @property
    def streams(self) -> bool:
        """Whether it has stores that bypass the caches."""
        return any(re.fullmatch(r"v?movnt\w+|stnp", each.name) for each in self.instructions)

    def whole(self, size: int) -> list[Instruction]:
        """What works on vectors of `size` bytes, and does not take them apart."""
        return [each for each in self.instructions if each.vector_bytes >= size and not each.joins]

    def halves(self, size: int) -> list[Instruction]:
        """What works on vectors that are all narrower than `size`, or joins such to one."""
        return [each for each in self.instructions if each.is_narrower(size)]

    def spilled(self) -> list[Instruction]:
        """What stores a vector into a place of the stack, or takes it from there."""
        return [each for each in self.instructions if each.vector_bytes and self.is_of_stack(each)]

    def is_of_stack(self, instruction: Instruction) -> bool:
        """Whether it loads from a fixed place of the stack, or stores into one."""
        place = _STACK.search(instruction.operands)
        return bool(place) and (place.group(1) or place.group(2)) in self.stack


def innermost_loops(assembly: str) -> list[Loop]:
    """The loops without a loop inside, of all functions."""
    return [loop for name, lines in _functions(assembly) for loop in _Graph(name, lines).innermost()]


def all_loops(assembly: str) -> list[Loop]:
    """All loops of all functions; the usual path of one with loops inside passes each of these once."""
    return [loop for name, lines in _functions(assembly) for loop in _Graph(name, lines).every()]


#: Labels and instructions in order.
_Lines = Sequence[str | Instruction]


def _functions(assembly: str) -> Iterator[tuple[str, _Lines]]:
    """The functions by name; a label is a str."""
    names, name, lines = set(), "", []
    for text in assembly.splitlines():
        line = _COMMENT.sub("", text).rstrip()
        if declared := _FUNCTION.match(line):
            names.add(declared.group(1))
        elif label := _LABEL.match(line):
            if label.group(1) in names:
                if name:
                    yield name, lines
                name, lines = label.group(1), []
            lines.append(label.group(1))
        elif found := _INSTRUCTION.match(line):
            lines.append(Instruction(found.group(1), " ".join((found.group(2) or "").split())))
    if name:
        yield name, lines


class _Graph:
    """The blocks of a function, and where control goes from each."""

    def __init__(self, name: str, lines: _Lines) -> None:
        self.name = name
        self.blocks: list[list[Instruction]] = [[]]
        self.labels: dict[int, str] = {}
        places: dict[str, int] = {}
        for line in lines:
            if isinstance(line, str):
                if self.blocks[-1]:
                    self.blocks.append([])
                places[line] = len(self.blocks) - 1
                self.labels.setdefault(len(self.blocks) - 1, line)
            else:
                self.blocks[-1].append(line)
                if _BRANCHES.fullmatch(line.name) or _LEAVES.fullmatch(line.name):
                    self.blocks.append([])
        self.after = [self._after(k, places) for k in range(len(self.blocks))]
        uses_frame = any(_FRAME.match(str(each)) for block in self.blocks for each in block)
        self.stack = frozenset({"%rsp", "sp", *(("%rbp", "x29") if uses_frame else ())})

    def _after(self, k: int, places: Mapping[str, int]) -> list[int]:
        last = self.blocks[k][-1] if self.blocks[k] else Instruction("nop")
        following = [] if _LEAVES.fullmatch(last.name) or k + 1 == len(self.blocks) else [k + 1]
        target = places.get(last.operands.split(",")[-1].strip())
        return [*following, target] if _BRANCHES.fullmatch(last.name) and target is not None else following

    def innermost(self) -> list[Loop]:
        """The natural loops that contain no other, in order."""
        loops = self._natural()
        return [self._loop(head, body) for head, body in sorted(loops.items()) if not (loops.keys() & body) - {head}]

    def every(self) -> list[Loop]:
        """The natural loops, in order."""
        return [self._loop(head, body) for head, body in sorted(self._natural().items())]

    def _natural(self) -> dict[int, set[int]]:
        """The blocks of each natural loop, by its head."""
        loops: dict[int, set[int]] = {}
        dominators = self._dominators()
        for k, after in enumerate(self.after):
            for head in after:
                if head in dominators[k]:
                    loops.setdefault(head, {head}).update(self._body(head, k))
        return loops

    def _loop(self, head: int, body: set[int]) -> Loop:
        inside = tuple(each for k in sorted(body) for each in self.blocks[k])
        usual = tuple(each for k in self._usual(head, body) for each in self.blocks[k])
        return Loop(self.name, self.labels.get(head, ""), inside, self.stack, usual)

    def _usual(self, head: int, body: set[int]) -> list[int]:
        """The blocks of an iteration: from each back to the head, or else to the next one, if that is in the loop."""
        path, k = [head], head
        while True:
            after = [other for other in self.after[k] if other in body]
            if head in after or not after or after[0] in path:
                return path
            k = after[0]
            path.append(k)

    def _before(self) -> list[list[int]]:
        before: list[list[int]] = [[] for _ in self.blocks]
        for k, after in enumerate(self.after):
            for other in after:
                before[other].append(k)
        return before

    def _body(self, head: int, last: int) -> set[int]:
        """What leads to the end of a loop without passing its head."""
        before, found, waiting = self._before(), {head, last}, [last]
        while waiting:
            k = waiting.pop()
            if k != head:
                waiting += [other for other in before[k] if other not in found]
                found.update(before[k])
        return found

    def _dominators(self) -> list[set[int]]:
        """Of each block, those through which every way to it leads; of one that is never reached, none."""
        before, order = self._before(), self._reached()
        found = {0: {0}}
        changed = True
        while changed:
            changed = False
            for k in order[1:]:
                known = [found[other] for other in before[k] if other in found]
                now = set.intersection(*known) | {k}
                if found.get(k) != now:
                    found[k], changed = now, True
        return [found.get(k, set()) for k in range(len(self.blocks))]

    def _reached(self) -> list[int]:
        """The blocks that are reached from the first, each after one that leads to it."""
        order, seen, waiting = [], {0}, [0]
        while waiting:
            k = waiting.pop(0)
            order.append(k)
            fresh = [other for other in self.after[k] if other not in seen]
            seen.update(fresh)
            waiting += fresh
        return order
