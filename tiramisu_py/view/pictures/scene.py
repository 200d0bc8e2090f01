"""The scene of a picture as plain data: everything that a program does at one size, instance by instance."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from tiramisu_py.records import dataclass

Point = tuple[int, ...]
#: A value: text if it has components, is not finite, or is an integer that a page cannot hold.
Number = int | float | bool | str

#: In place of the number of an instance: the caller stored the value; nothing did.
CALLER, NOBODY = -1, -2


@dataclass(frozen=True)
class PicturedLoop:
    """A loop around a statement: its name, and its tag in words (``parallel``, ``gpu thread x``; "" for none)."""

    name: str
    tag: str = ""


@dataclass(frozen=True)
class PicturedStatement:
    """A statement: its instances are drawn at their points, along `dims`.

    `text` is what an instance computes, `array` the number of the array that it stores to (None if it stores nothing).
    Instances of a tile agree in the coordinates of the first `tile_loops` loops (0 if there are no tiles). A statement
    that `may` run does so only under a condition on values.
    """

    name: str
    source: str
    role: str
    dims: tuple[str, ...]
    loops: tuple[PicturedLoop, ...]
    text: str
    array: int | None = None
    tile_loops: int = 0
    may: bool = False


@dataclass(frozen=True)
class PicturedArray:
    """A buffer in one memory. `dims` are those of `owners` (whose copy it is: ranks, scopes, threads), then the index.

    `ranks` is how many of the first dimensions are those of the rank.
    """

    name: str
    memory: str
    dims: tuple[str, ...]
    owners: int
    ranks: int
    extents: Point
    dtype: str
    bytes: int
    callers: bool


@dataclass(frozen=True)
class Executor:
    """Who runs an instance: coordinates of the rank, the GPU (None: the host), block, thread, iterations of cores."""

    rank: Point = ()
    device: int | None = None
    block: Point = ()
    thread: Point = ()
    iteration: Point = ()

    def words(self) -> str:
        """Who it is, from the outside in: ``rank 1, GPU 0, block (0, 2), thread (3, 0, 0)``."""
        parts = [f"rank {_listed(self.rank)}"] if self.rank else []
        parts += [] if self.device is None else [f"GPU {self.device}"]
        parts += [f"block {_listed(self.block)}"] if self.block else []
        parts += [f"thread {_listed(self.thread)}"] if self.thread else []
        parts += [f"parallel iteration {_listed(self.iteration)}"] if self.iteration else []
        return ", ".join(parts) or "the host thread"


def _listed(point: Point) -> str:
    return str(point[0]) if len(point) == 1 else f"({', '.join(map(str, point))})"


@dataclass(frozen=True)
class PicturedInstance:
    """An execution: of which statement, at which point, in which iterations of its loops.

    `value` are the indices of the value that it stores. `order` is its number if everything runs one after another;
    instances of one `step` run at the same time, if all iterations that may run at once do. `who` is the number of its
    executor, `element` the element that it stores to, as coordinates along the dimensions of the statement's array.
    `term` is what an update adds to its reduction; `runs` says of one that `may` run whether it does. Both are those of
    the values of the scene, and None without.
    """

    statement: int
    point: Point
    coords: Point
    value: Point
    order: int
    step: int
    who: int
    element: Point | None = None
    term: Number | None = None
    runs: bool | None = None


@dataclass(frozen=True)
class PicturedRead:
    """A read by an instance: the element, the value that it names, and the instance that stored what it finds there.

    `writer` may be `CALLER` or `NOBODY`. A read is `wrong` if it finds another value than it names; its `reader` may be
    the `CALLER` then, at the end. In a `chain` an update reads the partial result of the one before.
    """

    reader: int
    array: int
    element: Point
    source: str
    value: Point
    writer: int
    wrong: bool = False
    chain: bool = False


@dataclass(frozen=True)
class PicturedMessage:
    """Values that go from one memory to another at once: between ranks, or between the host and a GPU.

    `pairs` are the instances that send and those that receive each value; of a copy, which does both, they are equal.
    It is `sent` in one step, and has `arrived` in another: where a receive that does not block is waited for.
    """

    name: str
    sender: str
    receiver: str
    pairs: tuple[tuple[int, int], ...]
    bytes: int
    sent: int
    arrived: int


@dataclass(frozen=True)
class PicturedViolation:
    """A reason why the program is refused, as the report says it, and the pair of instances at fault at these sizes.

    `here` says whether it is the report's counterexample; otherwise the pair is one like it at other sizes.
    """

    kind: str
    message: str
    command: str
    repair: str
    sizes: Mapping[str, int]
    writer: int | None = None
    reader: int | None = None
    here: bool = False


@dataclass(frozen=True)
class Scene:
    """Everything that a program does at given sizes; instances are listed in their order.

    `values` are the values of each input and computation that are read or stored, by their indices, as `evaluate()`
    finds them; floating-point numbers have six digits. `inputs` says in words for which inputs, or why there are none.
    """

    name: str
    verdict: str
    sizes: Mapping[str, int]
    statements: tuple[PicturedStatement, ...]
    arrays: tuple[PicturedArray, ...]
    executors: tuple[Executor, ...]
    instances: tuple[PicturedInstance, ...]
    reads: tuple[PicturedRead, ...]
    messages: tuple[PicturedMessage, ...] = ()
    violations: tuple[PicturedViolation, ...] = ()
    commands: tuple[str, ...] = field(default_factory=tuple)
    values: Mapping[str, Mapping[Point, Number]] = field(default_factory=dict)
    inputs: str = ""

    @property
    def steps(self) -> int:
        """The number of steps, if all that may run at the same time does."""
        return 1 + max((instance.step for instance in self.instances), default=-1)
