"""Arrays that detect errors that C ignores: reads before writes, indices out of bounds, two lanes on one element."""

from __future__ import annotations

from dataclasses import field
from typing import Any

import numpy as np

from tiramisu_py.interpret.arithmetic import Value
from tiramisu_py.interpret.claims import Claims
from tiramisu_py.interpret.machine_faults import InterpretError
from tiramisu_py.ir import Allocate, BeginArray
from tiramisu_py.program.storage import Memory
from tiramisu_py.records import dataclass

Element = tuple[Any, ...]


@dataclass(eq=False)
class MemoryTurns:
    """The arrays that have one block of memory in turns, and the last one whose elements were accessed.

    The host begins an array before operations of GPUs are done that use the one before it, so the memory changes hands
    at the first access of an array. From then on those before it are lost, and no message may be using them.
    """

    arrays: list[Array] = field(default_factory=list)
    latest: int = 0

    def begin(self, array: Array) -> Array:
        """Take an array as the next one of the block, and return it."""
        array.turns, array.turn = self, len(self.arrays)
        self.arrays.append(array)
        return array

    def access(self, array: Array, what: str) -> None:
        """Give the memory to an array that is accessed, unless a later one has it."""
        if array.turn == self.latest:
            return
        if array.turn < self.latest:
            raise InterpretError(f"{what} when its memory has become that of {self.arrays[self.latest].name}")
        for before in self.arrays[: array.turn]:
            if before.claims.held:
                raise InterpretError(f"{what}: {before.claims.held[0].what} still uses its memory as {before.name}")
        self.latest = array.turn


@dataclass(eq=False)
class Array:
    """A buffer of the running function.

    `written` marks the elements that have a value; the others are poisoned. `rank` is the number of indices. If an
    element is a whole vector, `data` has an additional dimension, and an additional index names a lane. A `constant`
    array must not be written. `device` is the GPU whose memory it is in (None for the host's). Once `gone` gives a
    reason, any access is an error. `claims` are the elements in use by incomplete messages. `of` is the array whose
    elements these are, in another shape. In a block of memory it is the `turn`-th of its `turns`.
    """

    name: str
    data: np.ndarray
    written: np.ndarray
    rank: int
    constant: bool = False
    memory: Memory = Memory.HOST
    device: int | None = None
    gone: str = ""
    claims: Claims = field(default_factory=Claims)
    of: Array | None = None
    turns: MemoryTurns | None = None
    turn: int = 0

    def read(self, indices: Element, where: str) -> Value:
        """The element, or one for each lane; a whole vector if elements are vectors."""
        return self._value(self._checked(indices, where), where)

    def _value(self, at: Element, where: str) -> Value:
        self._unclaimed(at, False, where)
        if not _all(self.written[at]):
            raise InterpretError(f"{where} reads {self._first(at)}, which nothing has written")
        return self.data[at]

    def has(self, indices: Element) -> bool:
        """Whether an element exists and has a value."""
        pairs = zip(indices, self.data.shape, strict=True)
        return all(_inside(index, extent) for index, extent in pairs) and bool(self.written[indices])

    def write(self, indices: Element, value: Value, where: str) -> None:
        """Store a value, or one for each lane to that many elements."""
        at = self.storable(indices, where)
        self.data[at] = value
        self.written[at] = True

    def write_apart(self, indices: Element, value: Value, where: str) -> None:
        """Store a value to each of some elements that are known to differ."""
        at = self._writable(indices, where)
        self.data[at] = value
        self.written[at] = True

    def storable(self, indices: Element, where: str) -> Element:
        """Elements that may be stored to."""
        at = self._writable(indices, where)
        self._distinct(at, where)
        return at

    def _writable(self, indices: Element, where: str) -> Element:
        if self.constant:
            raise InterpretError(f"{where} writes {self.name}{_shown(indices)}, an input that must stay as it is")
        at = self._checked(indices, where)
        self._unclaimed(at, True, where)
        return at

    def leave(self, reason: str) -> None:
        """Make every later access an error; `reason` says why."""
        if self.claims.held:
            raise InterpretError(f"{self.claims.held[0].what} still uses {self.name} when {reason}")
        self.gone = reason

    def _unclaimed(self, at: Element, writes: bool, where: str) -> None:
        claim = self.claims.against(at, writes)
        if claim is not None:
            does = "writes" if writes else "reads"
            raise InterpretError(
                f"{where} {does} {self.name}{_shown(at)}, which {claim.what} still uses: it needs a wait"
            )

    def _checked(self, indices: Element, where: str) -> Element:
        if self.gone:
            raise InterpretError(f"{where} accesses {self.name}{_shown(indices)} when {self.gone}")
        if self.turns is not None:
            self.turns.access(self, f"{where} accesses {self.name}{_shown(indices)}")
        if len(indices) not in (self.rank, self.data.ndim):
            raise InterpretError(f"{where} indexes {self.name} with {len(indices)} indices; it has {self.rank}")
        for position, (index, extent) in enumerate(zip(indices, self.data.shape, strict=False)):
            if not _inside(index, extent):
                raise InterpretError(
                    f"{where} accesses {self.name}{_shown(indices)}, outside: index {position} must be at least 0 "
                    f"and below {extent}"
                )
        return indices

    def _distinct(self, at: Element, where: str) -> None:
        if not any(map(has_lanes, at)):
            return
        lanes = list(zip(*(column.ravel().tolist() for column in np.broadcast_arrays(*at)), strict=True))
        if len(set(lanes)) < len(lanes):
            raise InterpretError(f"{where} writes one element of {self.name} in two lanes of one store: {lanes}")

    def _first(self, at: Element) -> str:
        columns = np.broadcast_arrays(*at) if at else ()
        lanes = list(zip(*(column.ravel().tolist() for column in columns), strict=True)) or [()]
        missing = next(lane for lane in lanes if not np.all(self.written[lane]))
        return f"{self.name}{_shown(missing)}"


def has_lanes(value: Value) -> bool:
    """Whether a value is one for each lane."""
    return isinstance(value, np.ndarray) and value.ndim > 0


def _inside(index: Value, extent: int) -> bool:
    """Whether an index, in all lanes, is at least 0 and below an extent."""
    if isinstance(index, np.ndarray):
        return bool(((index >= 0) & (index < extent)).all())
    return bool(0 <= index < extent)


def _all(values: Value) -> bool:
    return bool(values.all() if isinstance(values, np.ndarray) else values)


def _shown(indices: Element) -> str:
    return "[" + ", ".join(str(index) for index in indices) + "]"


def argument(name: str, data: np.ndarray, filled: bool, constant: bool, device: int | None = None) -> Array:
    """The caller's array; `filled` says whether its initial contents may be read."""
    return Array(name, data, np.full(data.shape, filled), data.ndim, constant, device=device)


def allocated(node: Allocate | BeginArray, shape: tuple[int, ...]) -> Array:
    """A poisoned temporary; each element is a vector of `lanes` if that is more than one.

    The initial contents of a ring may be moved, and lanes past the end of a loop may load elements without a value:
    these reads are allowed, but no result depends on them.
    """
    extents = tuple(max(0, extent) for extent in shape)
    full = (*extents, node.lanes) if node.lanes > 1 else extents
    data = np.zeros(full, dtype=node.dtype.numpy)
    if node.ring:
        data.view(np.uint8).fill(0xA5 if node.dtype.kind != "b" else 1)
    known = node.ring or node.padded or (isinstance(node, Allocate) and node.zeroed is not None)
    memory = node.memory if isinstance(node, Allocate) else Memory.HOST if node.device is None else Memory.GPU
    return Array(node.buffer, data, np.full(full, known), len(extents), memory=memory, device=node.device)


def private(shared: Array, identity: Value) -> Array:
    """A thread's private copy of an array that a reduction updates, filled with the identity."""
    return PrivateArray(
        shared.name,
        np.full(shared.data.shape, identity, dtype=shared.data.dtype),
        np.full(shared.data.shape, False),
        shared.rank,
    )


class PrivateArray(Array):
    """A thread's private copy of an array: `written` marks the elements that the thread has updated."""

    def read(self, indices: Element, where: str) -> Value:
        """The partial result, or the identity."""
        return self.data[self._checked(indices, where)]
