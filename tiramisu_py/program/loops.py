"""Loops and their tags. A loop is identified by its number alone, so a tag cannot slip to another loop."""

from __future__ import annotations

from enum import Enum

from tiramisu_py.records import dataclass

LoopId = int


class Combine(Enum):
    """How a parallel or vector loop over a reduction combines partial results.

    PRIVATE: a private copy for each thread, combined in order afterwards, or for each vector lane, combined by halves.
    ATOMIC: each update is atomic.
    TREE: on cores, a partial result for each iteration, combined in their order; on ranks, one for each rank, combined
    pairwise. On a GPU, a private copy for each thread, combined pairwise over the threads of a block that add to one
    element, and then atomically where several blocks add to it. Without a thread loop around the update, one thread of
    each block has all of its terms.
    TWO_PASS: across the blocks of a GPU; each block stores its result, and a second kernel combines these in a tree.
    LAST_BLOCK: likewise, but in one kernel: the block that ends last combines the results of all.
    ORDERED: across the blocks of a GPU; they add in the order of their numbers, which they draw when they start.
    LOCK: across the blocks of a GPU; one block after another has a lock while it adds, in the order in which they come.
    """

    PRIVATE = "private"
    ATOMIC = "atomic"
    TREE = "tree"
    TWO_PASS = "two_pass"
    LAST_BLOCK = "last_block"
    ORDERED = "ordered"
    LOCK = "lock"

    def __repr__(self) -> str:
        return self.name


@dataclass(frozen=True)
class Parallel:
    """Iterations run on OpenMP threads. `schedule` is static, dynamic or guided.

    `collapse` is the number of adjacent loops whose iterations are dealt out together; the inner ones of such a nest
    carry the same tag with ``collapse=0``. `balance` names an input: each thread has consecutive iterations i with
    about the same sum of ``balance[i + 1] - balance[i]``. `threads` is the most threads that share the iterations.
    """

    schedule: str = "static"
    chunk: int | None = None
    combine: Combine | None = None
    collapse: int = 1
    balance: str | None = None
    threads: int | None = None

    name = "parallel"


@dataclass(frozen=True)
class Vector:
    """Iterations run in strips of `width` lanes from the loop's lower bound; `remainder` says how the rest runs.

    "scalar": one by one. "mask": as an additional vector with the first lanes active. "overlap": as a vector that ends
    at the last iteration, and repeats some. "pad": as a whole vector, iterations past the end included. `partial` says
    how a tile that is not full runs: "loop", or "specialize", in a version for each number of vectors.
    """

    width: int
    combine: Combine | None = None
    remainder: str = "scalar"
    partial: str = "loop"

    name = "vector"


@dataclass(frozen=True)
class Unroll:
    """The body is repeated `factor` times (None: for all iterations, whose number is then constant).

    `remainder` says how partial tiles run: "loop", or "specialize", in a version for each number of iterations.
    """

    factor: int | None = None
    remainder: str = "loop"

    name = "unroll"


@dataclass(frozen=True)
class Launch:
    """How a kernel is launched: on which GPU and which operation sequence, and what is promised about its shape.

    `grid` is the most blocks along the last block loop that run at once; each continues with the block that many
    further on (a grid-stride loop), so that a small number makes the kernel persistent. `minimum_blocks` is the number
    of blocks that a multiprocessor should hold at a time (launch bounds). With `barriers`, the barriers that
    dependences between threads need are placed; otherwise those of the user must suffice. With `together`, the block
    loops are a bundle, and each of its iterations is a block of one thread for the program; code numbers them, and runs
    so many on the threads of one block of the GPU.
    """

    stream: int = 0
    device: int = 0
    grid: int | None = None
    minimum_blocks: int | None = None
    barriers: bool = True
    together: int = 0


@dataclass(frozen=True)
class GpuBlock:
    """Iterations run on blocks of threads, along one axis of the grid (0 is x); a kernel has one `launch`.

    If a loop is `counted`, what follows it in its kernel is run by the last of its blocks: each takes a ticket at its
    end, and the one that takes the last ticket goes on.
    """

    axis: int
    launch: Launch = Launch()
    combine: Combine | None = None
    counted: bool = False

    name = "gpu block"


@dataclass(frozen=True)
class GpuThread:
    """Iterations run on the threads of a block, along one of its axes (0 is x)."""

    axis: int
    combine: Combine | None = None

    name = "gpu thread"


@dataclass(frozen=True)
class Bulk:
    """All iterations of a transfer's loop are one operation."""

    name = "bulk"


@dataclass(frozen=True)
class Rank:
    """Iterations run on the ranks of a process grid: the loop's coordinate is the rank's, along one `axis` of the grid.

    With `local` a rank keeps only its own part of what the statements store (TIRAMISU: drop_rank_iter); otherwise it
    keeps the array in full, at its global indices. `combine` says how partial results of a reduction are combined.
    """

    axis: int = 0
    local: bool = True
    combine: Combine | None = None

    name = "rank"


@dataclass(frozen=True)
class RankBlock:
    """A rank runs the iterations of its own block (`program.distribution.Blocks`), one after another.

    The loop's coordinate is not that of a rank: to one rank it is an ordinary loop, with bounds of its own.
    """

    name = "rank block"


@dataclass(frozen=True)
class TensorLoop:
    """One of the three loops that an instruction on small matrices runs at once, in tiles that are full.

    `instruction` is its name (see `program.machine.tensor_instructions`). `axis` says what the loop goes over: 0 for
    rows of the sums, 1 for their columns, 2 for the terms.
    """

    instruction: str
    axis: int

    name = "tensor"


Tag = Parallel | Vector | Unroll | GpuBlock | GpuThread | Bulk | Rank | RankBlock | TensorLoop
AXES = ("x", "y", "z")
#: The loops of a product on small matrices.
TENSOR_AXES = ("rows", "columns", "terms")

#: The most statements that unrolled loops, and versions of partial tiles, may become.
MOST_COPIES = 4096
#: Vector loops of more strips than this are no register tiles: they need no full-tile version.
MOST_STRIPS = 8


@dataclass(frozen=True)
class Bundle:
    """Adjacent loops over a box that commands take as one, by a name; several of their extents may be sizes.

    The iterations of the loops are numbered from 0, in their order, and only the generated code knows the numbers: the
    proof uses that each iteration has its own. After a split, iteration n of a bundle over values is iteration
    ``n // size`` of loop `name` and ``n % size`` of loop `within`, neither of which is a loop of the program.
    """

    name: str
    within: str = ""
    size: int = 1

    @property
    def names(self) -> tuple[str, ...]:
        """The names by which commands know it."""
        return (self.name, self.within) if self.within else (self.name,)


@dataclass(frozen=True)
class Loop:
    """One loop of the program, shared by every statement that lists its number.

    A loop in a `bundle` is no loop of its own for commands. A loop is `added` if no command makes it: spreading a
    program over ranks adds one around each statement that every rank executes, and the completion those over the
    threads that start and combine partial results.
    """

    id: LoopId
    name: str
    tag: Tag | None = None
    tagged_by: str = ""
    added: bool = False
    bundle: Bundle | None = None

    @property
    def called(self) -> str:
        """The name by which commands know it: that of its bundle, if it is in one."""
        return self.name if self.bundle is None else self.bundle.name

    @property
    def is_concurrent(self) -> bool:
        """Whether its iterations are not ordered among each other."""
        return isinstance(self.tag, Parallel | Vector | GpuBlock | GpuThread)

    @property
    def is_rank(self) -> bool:
        """Whether its iterations run on ranks."""
        return isinstance(self.tag, Rank)

    @property
    def is_gpu(self) -> bool:
        """Whether its iterations run on blocks or threads of a GPU."""
        return isinstance(self.tag, GpuBlock | GpuThread)
