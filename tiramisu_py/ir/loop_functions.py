"""The function, its arguments and its kernels."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tiramisu_py.algorithm.expressions import Expr
from tiramisu_py.algorithm.types import DType
from tiramisu_py.algorithm.words.stages import ForeignFunction
from tiramisu_py.program.machine.gpu_target import CUDA, GpuTarget
from tiramisu_py.program.machine.pins import Pin
from tiramisu_py.program.storage import Memory
from tiramisu_py.records import dataclass

if TYPE_CHECKING:
    from tiramisu_py.ir import Node

#: A condition on the parameters, and the message for when it fails.
Precondition = tuple[Expr, str]


@dataclass(frozen=True)
class ArrayArgument:
    """An array argument: row-major, of the given extents (expressions of the parameters).

    An in-place array is both input and output. `covered`: the function writes every element of an output, so that
    the array's previous content does not matter. `device` is the GPU in whose memory it is; None for the host's, where
    GPUs address one that is `mapped`. Each rank has a part of each `dealt` dimension. An input may have `strides`, in
    elements; other arrays are contiguous. Callers in Python pass an array with the extents
    `passed`, of which some are products of `extents`, if it has any.
    """

    name: str
    dtype: DType
    extents: tuple[Expr, ...]
    is_input: bool
    is_output: bool
    covered: bool = True
    device: int | None = None
    dealt: tuple[int, ...] = ()
    strides: tuple[Expr, ...] | None = None
    passed: tuple[Expr, ...] | None = None
    mapped: bool = False

    @property
    def passed_extents(self) -> tuple[Expr, ...]:
        """The extents of the array that callers in Python pass."""
        return self.extents if self.passed is None else self.passed


@dataclass(frozen=True)
class ScalarArgument:
    """A scalar argument."""

    name: str
    dtype: DType


@dataclass(frozen=True, eq=False)
class KernelArray:
    """An array parameter of a kernel, by the name that its body uses: row-major, of the given extents.

    If the body indexes dimensions of the array as one, `passed` are the extents of the array that launches pass.
    """

    name: str
    dtype: DType
    extents: tuple[Expr, ...]
    is_constant: bool
    memory: Memory = Memory.GPU
    passed: tuple[Expr, ...] | None = None

    @property
    def passed_extents(self) -> tuple[Expr, ...]:
        """The extents of the array that launches pass."""
        return self.extents if self.passed is None else self.passed


@dataclass(frozen=True)
class DrawnNumbers:
    """Numbers that blocks draw when they start: their numbers along an axis, in the order in which they start.

    So all blocks with lower numbers have started. ``numbers[index]`` is how many have drawn one, and 0 again after the
    last; the index is one of each group of blocks with the same numbers along the other axes.
    """

    axis: int
    numbers: str
    index: Expr


@dataclass(frozen=True, eq=False)
class KernelFunction:
    """A kernel: the code that each of its threads executes.

    `params` are int64 parameters (sizes, and coordinates of the host's loops), `scalars` those of other types; then
    come the arrays. `threads` is the shape of a block (x, y, z). `nonnegative` are the parameters, besides sizes, that
    are at least 0. It runs on GPUs of the kind `gpu`. Blocks may have `drawn` their numbers along an axis.
    """

    name: str
    params: tuple[str, ...]
    scalars: tuple[ScalarArgument, ...]
    arrays: tuple[KernelArray, ...]
    threads: tuple[int, int, int]
    body: Node
    minimum_blocks: int | None = None
    device: int = 0
    documentation: tuple[str, ...] = ()
    nonnegative: tuple[str, ...] = ()
    gpu: GpuTarget = CUDA
    drawn: DrawnNumbers | None = None


@dataclass(frozen=True)
class BlockBounds:
    """Blocks of the numbers 0 .. `extent` that ranks own: each rank has those from its `lower` up to its `upper`.

    `lower` and `upper` are parameters whose values differ by rank. Before any message the ranks agree that the blocks
    of rank 0, 1, ... follow one another and cover all numbers, and that with several blocks each has at least `least`;
    ranks after the last number have nothing to do. `count` is the number of ranks with work, at least one.
    """

    lower: str
    upper: str
    extent: Expr
    least: int
    count: str


@dataclass(frozen=True)
class ProcessGrid:
    """The ranks of a distributed function: the extents of its process grid, as expressions of the parameters.

    A rank's number in the communicator is its row-major position in the grid (the last axis runs fastest); the body
    uses this rank's coordinates by the names `coordinates`. Ranks beyond the grid have nothing to do. With `bounds` the
    grid has one axis, whose extent follows from the blocks.
    """

    extents: tuple[Expr, ...]
    coordinates: tuple[str, ...]
    bounds: BlockBounds | None = None

    @property
    def varying(self) -> tuple[str, ...]:
        """The parameters whose values differ by rank."""
        return self.coordinates if self.bounds is None else (*self.coordinates, self.bounds.lower, self.bounds.upper)


@dataclass(frozen=True)
class OnGpus:
    """What a function does on GPUs.

    `kernels` are the kernels that it launches; `devices` is the number of GPUs that it uses, of this `kind`. A call, or
    a rank, for which `where` does not hold uses no GPU (None: each uses one, if the function does). With `page_lock`
    the caller's arrays that GPUs copy are page-locked during the call; with `graphs` its launches become CUDA graphs.
    """

    kernels: tuple[KernelFunction, ...] = ()
    devices: int = 0
    kind: GpuTarget = CUDA
    where: Expr | None = None
    page_lock: bool = False
    graphs: bool = False


@dataclass(frozen=True)
class CallOptions:
    """How a call runs.

    A `traced` one keeps a log of its events (`Traced`). `pin` says how its threads are bound to cpus. Non-temporal
    stores take effect if the arrays have more than `nontemporal_above` bytes (None: most of the last-level cache).
    """

    traced: bool = False
    pin: Pin | None = None
    nontemporal_above: int | None = None


@dataclass(frozen=True, eq=False)
class Companions:
    """The functions that come with another one.

    A call of that one runs the first of the `versions` whose sizes match, if any. `packs` make operands that it takes
    in place of an input: each takes this input and stores these operands, and says in `packs_for` for which function.
    """

    versions: tuple[Version, ...] = ()
    packs: tuple[LoopFunction, ...] = ()
    packs_for: str = ""


@dataclass(frozen=True)
class Labels:
    """Words about a function: its `documentation`, and its name in messages, if that is not its own.

    It is `known_as` the function of which it is the version for a processor.
    """

    documentation: tuple[str, ...] = ()
    known_as: str = ""


@dataclass(frozen=True, eq=False)
class LoopFunction:
    """A generated function: parameters (int64), then the arguments in order, then the body.

    `preconditions` are conditions on the parameters, each with the message for when it fails. `outputs` names the array
    argument that holds each output of the algorithm, in the order of the outputs. A distributed function has a `grid`.
    """

    name: str
    params: tuple[str, ...]
    arguments: tuple[ArrayArgument | ScalarArgument, ...]
    preconditions: tuple[Precondition, ...]
    body: Node
    externs: tuple[ForeignFunction, ...] = ()
    outputs: tuple[str, ...] = ()
    grid: ProcessGrid | None = None
    gpus: OnGpus = OnGpus()
    options: CallOptions = CallOptions()
    companions: Companions = Companions()
    labels: Labels = Labels()

    @property
    def title(self) -> str:
        """Its name in messages."""
        return self.labels.known_as or self.name

    @property
    def gpu_by_rank(self) -> bool:
        """Whether a rank by default takes the GPU with its own number among the ranks of its machine."""
        placed = any(isinstance(a, ArrayArgument) and a.device is not None for a in self.arguments)
        return self.grid is not None and not placed


@dataclass(frozen=True, eq=False)
class Version:
    """A function with the same arguments, for calls whose parameters and scalars have these values.

    They are the same values bit for bit: -0.0 is not 0.0. The `conditions` on parameters and scalars hold as well.
    """

    sizes: tuple[tuple[str, bool | int | float], ...]
    function: LoopFunction
    conditions: tuple[Expr, ...] = ()
