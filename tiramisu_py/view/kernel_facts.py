"""Facts of a kernel before it runs: threads, shared memory, and the cost of a warp's accesses.

A warp is 32 threads with consecutive numbers (on CUDA's GPUs, as the other figures here). What it loads from or stores
to global memory together moves in sectors of 32 bytes; in shared memory, words of 4 bytes in one of 32 banks take
turns. The indices are evaluated for the first warps of two blocks, at sizes that are multiples of 32 and in the first
iteration of sequential loops; the worst counts. Where full tiles have a version of their own, it is that one which is
looked at.

Of a gather, whose places depend on values, the lines of 128 bytes are counted that warps ask for, with arbitrary values
in place of those read, over the warps of many blocks.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import field, replace

import numpy as np

from tiramisu_py.algorithm.expressions import Expr, Iter
from tiramisu_py.algorithm.traversal import walk
from tiramisu_py.interpret.arithmetic import Value
from tiramisu_py.interpret.evaluator import Evaluator, Frame
from tiramisu_py.interpret.machine_faults import InterpretError
from tiramisu_py.ir import (
    Allocate,
    Deferred,
    For,
    GpuIndex,
    If,
    KernelFunction,
    Let,
    Load,
    LoadMatrices,
    LoopFunction,
    Node,
    Ramp,
    Store,
    TreeReduce,
)
from tiramisu_py.ir.rewriting import children, expressions
from tiramisu_py.ir.shared_memory import shared_memory
from tiramisu_py.program.machine.gpu_target import SHARED_UNASKED, GpuTarget
from tiramisu_py.program.storage import Memory
from tiramisu_py.records import dataclass
from tiramisu_py.view.machine_code import MachineCode
from tiramisu_py.view.occupancy import Occupancy, multiprocessor, occupancy

#: Sizes at which indices are evaluated, and how many warps of a block.
SAMPLE, WARPS = 4096, 4
#: Bytes of a request, and the warps over which requests of gathers are counted, about.
LINE, COUNTED = 128, 512
#: The rows of a matrix that a warp loads, and their bytes.
MATRIX_ROWS, MATRIX_BYTES = 8, 16


@dataclass(frozen=True)
class AccessFacts:
    """One access of a kernel: a warp's `sectors` of 32 bytes in global memory, or its bank conflicts in shared memory.

    `least` is the number needed for contiguous elements. `sectors` is 0 for shared memory; `conflicts` is the number of
    turns there, 0 for global memory; of what a warp loads as matrices (`of_matrix`), those for 8 rows of 16 bytes.
    `alignment` is that of the warp's first address, in bytes, at most 128. If indices are values (`known` is false),
    the other facts are undefined, but for `requests`: the lines of 128 bytes
    that warps ask for, for each row of an array whose rows have constant lengths, at arbitrary rows (0: not known).
    """

    buffer: str
    text: str
    is_store: bool
    memory: Memory
    known: bool
    sectors: int = 0
    least: int = 0
    conflicts: int = 0
    alignment: int = 0
    requests: float = 0.0
    of_matrix: bool = False

    @property
    def cost(self) -> tuple[bool, float]:
        """The sort key of accesses: unknown ones first, then by sectors beyond the least, or by turns."""
        return (not self.known, (self.sectors + self.conflicts) / max(self.least, 1))

    def or_worse(self, other: AccessFacts) -> AccessFacts:
        """The worse of two warps' facts of the same access."""
        worse = max(self, other, key=lambda facts: facts.cost)
        return replace(worse, alignment=min(self.alignment, other.alignment))

    def __str__(self) -> str:
        does = "stores" if self.is_store else "loads"
        if not self.known:
            rows = f"; about {self.requests:.1f} requests of {LINE} bytes a row" if self.requests else ""
            return f"{does} {self.text}: it depends on values{rows}"
        if self.memory is Memory.SHARED:
            best = "" if self.least == 1 else f", {self.least} at best"
            who = "matrix" if self.of_matrix else "warp"
            turns = f"bank conflicts, {self.conflicts} turns a {who}{best}"
            return f"{does} {self.text}: {'no bank conflict' if self.conflicts == self.least else turns}"
        best = "" if self.sectors == self.least else f", {self.least} side by side"
        return f"{does} {self.text}: {self.sectors} sectors a warp{best}, aligned to {self.alignment} bytes"


@dataclass(frozen=True)
class KernelFacts:
    """The facts of one kernel before it runs.

    `shared_bytes` is the shared memory of a block; `registers` the number of a thread's registers, by architecture, if
    a compiler has reported them; `code` the machine code, by architecture, if the kernel is compiled and there is a
    disassembler.
    """

    name: str
    threads: tuple[int, int, int]
    shared_bytes: int
    accesses: tuple[AccessFacts, ...]
    registers: Mapping[int, int] = field(default_factory=dict)
    code: Mapping[int, MachineCode] = field(default_factory=dict)

    def occupancy(self, gpu: str | int, registers: int | None = None) -> Occupancy:
        """The share of a multiprocessor's warps that the kernel keeps busy on a GPU: ``occupancy("H200")``.

        `registers` defaults to the number that the compiler reported for the architecture, or else to 32.
        """
        x, y, z = self.threads
        reported = self.registers.get(multiprocessor(gpu).architecture, 32)
        count = reported if registers is None else registers
        return occupancy(gpu, x * y * z, count, self.shared_bytes)

    def lines(self) -> list[str]:
        """The facts in words, a line each."""
        x, y, z = self.threads
        first = f"{x * y * z} threads a block ({x} x {y} x {z}), {self.shared_bytes} bytes of shared memory"
        if self.shared_bytes > SHARED_UNASKED:
            first += f", which not every GPU has: each has {SHARED_UNASKED}"
        told = [f"{count} registers a thread on sm_{a}" for a, count in self.registers.items()]
        code = [f"sm_{a}: {line}" for a, found in self.code.items() for line in found.lines()]
        return [first, *told, *code, *map(str, self.accesses)]

    def summary(self) -> list[str]:
        """The facts in words, one line for the worst loads and stores of each array."""
        worst: dict[tuple[str, bool], AccessFacts] = {}
        for access in self.accesses:
            key = (access.buffer, access.is_store)
            if key not in worst or access.cost > worst[key].cost:
                worst[key] = access
        return [*self.lines()[: -len(self.accesses) or None], *map(str, worst.values())]

    def __str__(self) -> str:
        return "\n".join([f"{self.name}:", *(f"  {line}" for line in self.lines())])


def annotated(function: LoopFunction) -> LoopFunction:
    """The function with the facts of each kernel among the lines above it."""
    kernels = (replace(k, documentation=(*k.documentation, *kernel_facts(k).summary())) for k in function.gpus.kernels)
    return replace(function, gpus=replace(function.gpus, kernels=tuple(kernels)))


def kernel_facts(
    kernel: KernelFunction,
    registers: Mapping[int, int] | None = None,
    code: Mapping[int, MachineCode] | None = None,
    *,
    gathers: bool = False,
) -> KernelFacts:
    """The facts of a kernel; the requests of its `gathers` are counted if that is asked for."""
    arrays = {array.name: (tuple(array.extents), array.dtype.numpy.itemsize, array.memory) for array in kernel.arrays}
    worst: dict[tuple[str, bool], AccessFacts] = {}
    for sample in _samples(kernel):
        for found in _examined_all(kernel, sample, arrays):
            key = (found.text, found.is_store)
            worst[key] = found.or_worse(worst.get(key, found))
    if gathers and any(not found.known for found in worst.values()):
        requests = _requests(kernel, arrays)
        worst = {key: replace(found, requests=requests.get(key, 0.0)) for key, found in worst.items()}
    return KernelFacts(
        kernel.name,
        kernel.threads,
        shared_memory(kernel).bytes,
        tuple(worst.values()),
        dict(registers or {}),
        dict(code or {}),
    )


def _requests(kernel: KernelFunction, arrays: Arrays) -> dict[tuple[str, bool], float]:
    """The requests of gathers for each row, by text: the lines that warps ask for, over the elements, times a row's."""
    lines, elements = dict[tuple[str, bool], int](), dict[tuple[str, bool], int]()
    widths = dict[tuple[str, bool], int]()
    x, y, z = kernel.threads
    warp = kernel.gpu.warp
    for block in range(max(8, COUNTED * warp // (x * y * z))):
        for first in range(0, x * y * z, warp):
            lanes = np.arange(first, min(first + warp, x * y * z), dtype=np.int64)
            for access, is_store, variables, active in _gathers(
                kernel.body, _numbers(kernel, lanes, block), lanes >= 0
            ):
                extents, size, memory = arrays.get(access.buffer, ((), 1, Memory.SHARED))
                if memory is Memory.SHARED or len(extents) < 2 or not active.any():
                    continue
                values = _AnyValues(variables)
                try:
                    at, width = _offsets(values, access, extents), int(values(extents[-1]))
                except (InterpretError, KeyError):
                    continue
                key = (str(access), is_store)
                places = np.broadcast_to(at, lanes.shape)[active] * size // LINE
                lines[key] = lines.get(key, 0) + len(np.unique(places))
                elements[key] = elements.get(key, 0) + int(active.sum())
                widths[key] = width
    return {key: count / elements[key] * widths[key] for key, count in lines.items()}


def _gathers(
    node: Node, variables: Variables, active: Value, of_values: frozenset[str] = frozenset()
) -> Iterator[tuple[Load, bool, Variables, Value]]:
    """The accesses of a kernel whose indices depend on values of arrays, with the threads that make them.

    The variables `of_values` do.
    """
    for access, is_store in _accesses(node):
        if any(_is_of_values(index, of_values) for index in access.indices):
            yield access, is_store, variables, active
    if isinstance(node, Let | For):
        first = node.value if isinstance(node, Let) else node.lower
        found = _arbitrary(first, variables)
        variables = variables if found is None else {**variables, node.variable: found}
        of_values = of_values | {node.variable} if _is_of_values(first, of_values) else of_values
    if isinstance(node, If):
        holds = _arbitrary(node.condition, variables)
        here = active if holds is None else active & np.broadcast_to(holds, active.shape)
        yield from _gathers(node.then, variables, here, of_values)
        return
    for child in children(node):
        yield from _gathers(child, variables, active, of_values)


def _arbitrary(e: Expr, variables: Variables) -> Value | None:
    """The value of an expression, with arbitrary elements; None if it needs what is not known here."""
    try:
        return _AnyValues(variables)(e)
    except (InterpretError, KeyError):
        return None


def _is_of_values(e: Expr, of_values: frozenset[str]) -> bool:
    return any(isinstance(part, Load) or (isinstance(part, Iter) and part.name in of_values) for part in walk(e))


def _examined_all(kernel: KernelFunction, sample: Variables, arrays: Arrays) -> Iterator[AccessFacts]:
    for node, variables, local in _visited(kernel.body, sample, arrays):
        if isinstance(node, LoadMatrices) and isinstance(node.row, Load):
            yield _matrices(kernel.gpu, node.row, node.count, variables, local)
            continue
        for access, is_store in _accesses(node):
            found = _examined(kernel.gpu, access, is_store, variables, local)
            if found is not None:
                yield found


Arrays = Mapping[str, tuple[tuple[Expr, ...], int, Memory]]
Variables = dict[str, Value]


class _Lanes(Evaluator):
    """Expressions for the threads of a warp, all at once."""

    def __init__(self, variables: Variables) -> None:
        super().__init__(Frame(variables, {}))

    def visit_gpuindex(self, e: GpuIndex) -> Value:
        """The thread or block number, one of the variables."""
        return self.frame.variables[str(e)]

    def visit_ramp(self, e: Ramp) -> Value:
        """The first lane's index: a vector is one wide access."""
        return self(e.base)


class _AnyValues(_Lanes):
    """Expressions in which the elements of arrays have arbitrary values, the same for the same element."""

    def visit_load(self, e: Load) -> Value:
        """A number that follows from the indices, below the sizes."""
        mixed: Value = np.int64(0x9E3779B9)
        for index in e.indices:
            mixed = (mixed ^ (self(index) + 0x7F4A7C15)) * np.int64(0x2545F491) % np.int64(2**31 - 1)
        return e.dtype.numpy.type(0) + (mixed % SAMPLE)


def _samples(kernel: KernelFunction) -> Iterator[Variables]:
    """Variables (sizes, thread and block numbers) for the first warps of two blocks."""
    x, y, z = kernel.threads
    warp = kernel.gpu.warp
    for block in (0, 1):
        for first in range(0, min(WARPS * warp, x * y * z), warp):
            yield _numbers(kernel, np.arange(first, min(first + warp, x * y * z), dtype=np.int64), block)


def _numbers(kernel: KernelFunction, lanes: Value, block: int) -> Variables:
    x, y, _ = kernel.threads
    numbers: Variables = {name: np.int64(SAMPLE) for name in kernel.params}
    numbers |= {scalar.name: scalar.dtype.numpy.type(1) for scalar in kernel.scalars}
    for axis, number in enumerate((lanes % x, lanes // x % y, lanes // (x * y))):
        numbers[str(GpuIndex("thread", axis))] = number
        numbers[str(GpuIndex("block", axis))] = np.int64(block)
        numbers[str(GpuIndex("grid", axis))] = np.int64(2)
    return numbers


def _visited(node: Node, variables: Variables, arrays: Arrays) -> Iterator[tuple[Node, Variables, Arrays]]:
    """The statements of a kernel with the values of their variables; loops in their first iteration."""
    yield node, variables, arrays
    inner, known = variables, arrays
    if isinstance(node, Let | For):
        first = node.value if isinstance(node, Let) else node.lower
        inner = {**variables, **_evaluated(node.variable, first, variables)}
    if isinstance(node, Allocate):
        memory = Memory.REGISTER if node.register else node.memory
        known = {**arrays, node.buffer: (tuple(node.extents), node.dtype.numpy.itemsize, memory)}
    inside = (node.then,) if isinstance(node, If) else children(node)
    for child in inside:
        yield from _visited(child, inner, known)


def _evaluated(name: str, value: Expr, variables: Variables) -> Variables:
    try:
        return {name: _Lanes(variables)(value)}
    except (InterpretError, KeyError):
        return {}


def _accesses(node: Node) -> Iterator[tuple[Load, bool]]:
    if isinstance(node, Deferred):
        yield from _accesses(node.store)
        return
    if isinstance(node, Store):
        yield Load(node.buffer, node.indices, node.value.dtype), True
    if isinstance(node, TreeReduce):
        for buffer, value in zip(node.buffers, node.values, strict=True):
            yield Load(buffer, node.indices, value.dtype), True
    for root in expressions(node):
        for e in walk(root):
            if isinstance(e, Load):
                yield e, False


def _examined(gpu: GpuTarget, access: Load, is_store: bool, variables: Variables, arrays: Arrays) -> AccessFacts | None:
    extents, size, memory = arrays.get(access.buffer, ((), access.dtype.numpy.itemsize, Memory.GPU))
    if memory is Memory.REGISTER or not access.indices:
        return None
    text = str(access)
    lanes = _Lanes(variables)
    try:
        at = _offsets(lanes, access, extents)
    except (InterpretError, KeyError):
        return AccessFacts(access.buffer, text, is_store, memory, known=False)
    first = np.broadcast_to(at, np.shape(variables[str(GpuIndex("thread", 0))])) * size
    count = max([e.lanes for index in access.indices for e in walk(index) if isinstance(e, Ramp)], default=1)
    touched = np.unique((first[:, None] + np.arange(size * count)[None, :]).ravel())
    if memory is Memory.SHARED:
        turns = -(-len(touched) // (gpu.banks * gpu.word))
        return AccessFacts(access.buffer, text, is_store, memory, True, least=turns, conflicts=_turns(gpu, touched))
    alignment = int(np.gcd(int(first.min()), 128)) if first.min() else 128
    sectors = len(np.unique(touched // gpu.sector))
    return AccessFacts(
        access.buffer, text, is_store, memory, True, sectors, -(-len(touched) // gpu.sector), alignment=alignment
    )


def _matrices(gpu: GpuTarget, row: Load, count: int, variables: Variables, arrays: Arrays) -> AccessFacts:
    """The turns of the worst of some matrices, each of which is one access: 8 rows, from 8 threads in turn."""
    extents, size, memory = arrays[row.buffer]
    text = str(row)
    try:
        at = _offsets(_Lanes(variables), row, extents)
    except (InterpretError, KeyError):
        return AccessFacts(row.buffer, text, False, memory, known=False)
    first = np.broadcast_to(at, np.shape(variables[str(GpuIndex("thread", 0))])) * size
    rows = first[: MATRIX_ROWS * count].reshape(-1, MATRIX_ROWS, 1) + np.arange(MATRIX_BYTES)
    turns = max(_turns(gpu, np.unique(matrix)) for matrix in rows)
    return AccessFacts(row.buffer, text, False, memory, True, least=1, conflicts=turns, of_matrix=True)


def _offsets(lanes: _Lanes, access: Load, extents: tuple[Expr, ...]) -> Value:
    at: Value = np.int64(0)
    for index, extent in zip(access.indices, extents, strict=True):
        at = at * lanes(extent) + lanes(index)
    return at


def _turns(gpu: GpuTarget, touched: Value) -> int:
    """The most different words that one bank is asked for."""
    words = np.unique(touched // gpu.word)
    return int(np.bincount(words % gpu.banks, minlength=gpu.banks).max())
