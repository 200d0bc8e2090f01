"""The entry and exit of a distributed function: this rank's coordinates, and the agreement of all ranks on errors."""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from functools import reduce

import cgen

from tiramisu_py.algorithm.expressions import Iter, Param
from tiramisu_py.algorithm.traversal import walk
from tiramisu_py.backends.c.expressions.scalars import Scalars
from tiramisu_py.backends.c.expressions.scope import Scope
from tiramisu_py.backends.c.part import HostParts
from tiramisu_py.backends.c.trace_calls import Log
from tiramisu_py.backends.mpi import traces
from tiramisu_py.backends.mpi.collective_calls import GRID, is_together
from tiramisu_py.ir import (
    Allocate,
    ArrayArgument,
    BeginArray,
    Block,
    Comment,
    EndArray,
    For,
    Let,
    Load,
    LoopFunction,
    MemoryBlock,
    Node,
    ProcessGrid,
    Requests,
)
from tiramisu_py.ir import rewriting as transform
from tiramisu_py.program.loops import Parallel
from tiramisu_py.program.storage import Memory

Lines = list[cgen.Generable]
RUNTIME = "tm_mpi.h"
#: The headers that it includes.
FURTHER = ("tm_mpi_meet.h",)
#: The names that the source of a distributed function reserves for itself.
OWN = ("comm", "mpi", "idle", "ranks", "unfit", "local")
CODES = "Ranks: 6 too few of them, 7 MPI not as needed, 8 sizes that differ, 9 one did not come. All return the same."


class RankEntry:
    """The first and the last lines of one distributed function."""

    def __init__(
        self,
        function: LoopFunction,
        grid: ProcessGrid,
        names: Mapping[str, str],
        scope: Scope,
        parts: HostParts,
        log: Log,
    ) -> None:
        self.parts = parts
        self.log = log
        self.function = function
        self.grid = grid
        self.names = names
        self.scalars = Scalars(scope)
        self.agreed = False
        self.prepared: Lines = []

    # -- in the function's check

    def checks(self) -> Lines:
        """The checks of blocks and ranks, between those of sizes and of arrays. Idle ranks have no arrays."""
        name = self.function.name
        few = f'"{name}: needs %" PRId64 " ranks, but the communicator has %d", ranks, mpi->size'
        return [
            *self.blocks_fit(),
            *self.ranks("mpi->"),
            cgen.If(cgen.Line("mpi->size < ranks"), cgen.Statement(f"return {name}_fail(TM_RANKS, {few})")),
            cgen.If(cgen.Line("mpi->rank >= ranks"), cgen.Statement("return 0")),
            *self.coordinates("mpi->rank", self._of_arrays()),
        ]

    def _of_arrays(self) -> set[str]:
        """The names in the extents of the arrays."""
        arrays = (a for a in self.function.arguments if isinstance(a, ArrayArgument))
        parts = (part for array in arrays for extent in array.extents for part in walk(extent))
        return {part.name for part in parts if isinstance(part, Iter | Param)}

    def threads(self) -> Lines:
        """The check that MPI lets this thread send messages."""
        name = self.function.name
        parallel = any(isinstance(n, For) and isinstance(n.tag, Parallel) for n in transform.walk(self.function.body))
        return [
            cgen.Statement(f"const char *const unfit = tm_mpi_unfit({'true' if parallel else 'false'})"),
            cgen.If(
                cgen.Line("unfit != NULL"),
                cgen.Statement(f'return {name}_fail(TM_NO_MPI, "{name}: %s", unfit)'),
            ),
        ]

    def blocks_fit(self) -> Lines:
        """The check that blocks given at run time follow one another over all ranks and are wide enough."""
        bounds, name = self.grid.bounds, self.function.name
        if bounds is None:
            return []
        words = (
            f'"{name}: rank %d of %d has the block from {bounds.lower} = %" PRId64 " up to {bounds.upper} = %" PRId64 '
            f'", but blocks must follow one another from 0 up to {bounds.extent} = %" PRId64 ", each with '
            f'{bounds.least} at least where there are several (messages take as many from a neighbour)"'
        )
        values = f"mpi->odd, mpi->size, mpi->odd_lower, mpi->odd_upper, (int64_t){self.scalars.text(bounds.extent)}"
        return [cgen.If(cgen.Line("mpi->odd >= 0"), cgen.Statement(f"return {name}_fail(TM_RANKS, {words}, {values})"))]

    def ranks(self, of: str = "mpi.") -> Lines:
        """The number of ranks of the grid."""
        if self.grid.bounds is not None:
            return [cgen.Statement(f"const int64_t ranks = {of}used")]
        extents = ", ".join(map(self.scalars.text, self.grid.extents))
        return [cgen.Statement(f"const int64_t ranks = TM_MPI_RANKS({extents})")]

    def coordinates(self, rank: str, used: AbstractSet[str]) -> Lines:
        """The definitions of this rank's coordinates that are `used`."""
        lines: Lines = []
        for axis, name in enumerate(self.grid.coordinates):
            if name in used:
                lines.append(cgen.Statement(f"const int64_t {self.names[name]} = {self._coordinate(rank, axis)}"))
        return lines

    def _coordinate(self, rank: str, axis: int) -> str:
        if self.grid.bounds is not None:
            return rank
        texts = [self.scalars.text(extent) for extent in self.grid.extents]
        value = reduce(lambda v, extent: f"tm_floor_div_int64({v}, {extent})", reversed(texts[axis + 1 :]), rank)
        return f"tm_mod_int64({value}, {texts[axis]})" if axis > 0 else value

    # -- in the function

    def begin(self, check: str, used: frozenset[str]) -> Lines:
        """Everything before the body; `check` is the call of the function's check."""
        name = self.function.name
        on_gpu = self.function.gpus.where
        used = used if on_gpu is None else used | {e.name for e in walk(on_gpu) if isinstance(e, Iter | Param)}
        begun = f'tm_mpi_begin(&mpi, "{name}", comm, {name}_error, sizeof {name}_error)'
        return [
            cgen.Statement("tm_mpi mpi"),
            cgen.If(cgen.Line(f"!{begun}"), cgen.Statement("return mpi.code")),
            *self._used(),
            cgen.Statement(f"int wrong = {check}"),
            *self.ranks(),
            cgen.Statement("const bool idle = mpi.rank >= ranks"),
            *self.coordinates("mpi.rank", used),
        ]

    def _used(self) -> Lines:
        """The number of ranks with a block, if blocks are given at run time; all ranks determine it together."""
        bounds = self.grid.bounds
        if bounds is None:
            return []
        given = [
            self.names[bounds.lower],
            self.names[bounds.upper],
            self.scalars.text(bounds.extent),
            str(bounds.least),
        ]
        name = self.function.name
        return [
            cgen.If(
                cgen.Line(f"!tm_mpi_come(&mpi, {name}_error, sizeof {name}_error)"), cgen.Statement("return mpi.code")
            ),
            cgen.Assign("mpi.used", f"tm_mpi_blocks(&mpi, {', '.join(given)})"),
        ]

    def before_agreement(self, node: Node) -> bool:
        """Whether a node may come before the ranks agree, such as memory that each rank allocates for the whole call;
        always true once they have agreed.
        """
        if self.agreed:
            return True
        match node:
            case Block() | Comment() | Requests() | BeginArray() | EndArray():
                return True
            case Let():
                return not any(isinstance(part, Load) for part in walk(node.value))
            case Allocate():
                return node.memory is Memory.HOST
            case MemoryBlock():
                return node.device is None
        return False

    def agreement(self) -> Lines:
        """The call after which every rank has the same error or none, and the body runs."""
        self.agreed = True
        name = self.function.name
        own = () if self.grid.bounds is None else (self.grid.bounds.lower, self.grid.bounds.upper)
        same = [param for param in self.function.params if param not in own]
        params = [self.names[param] for param in same]
        sizes = f"(const int64_t[]){{{', '.join(params)}}}" if params else "NULL"
        quoted = ", ".join(f'"{param}"' for param in same)
        words = f"(const char *const[]){{{quoted}}}" if params else "NULL"
        made = "wrong ? MPI_COMM_NULL : tm_mpi_grid(&mpi, ranks)"
        agree = f"tm_mpi_agree(&mpi, wrong, {name}_error, sizeof {name}_error, {len(params)}, {sizes}, {words})"
        return [
            cgen.Assign("wrong", agree),
            *self.parts.lines(lambda part: part.give_back()),
            *([cgen.Statement(f"const MPI_Comm {GRID} = {made}")] if is_together(self.function) else []),
            *traces.aligned(self.log),
            cgen.If(cgen.Line("wrong || idle"), cgen.Statement("return wrong")),
            *self.prepared,
        ]

    def allocated(self, name: str, kind: str, memory: str, words: str, released: str = "TM_TEMPORARY") -> Lines:
        """Memory that is allocated before the ranks agree; a failed allocation is an error that they agree on."""
        needed = f'TM_NEEDED({self.function.name}, "{words}", {memory})'
        return [cgen.Statement(f"{released} {kind} *const {name} = {needed}")]

    def end(self) -> Lines:
        """Everything after the body."""
        return [*([] if self.agreed else self.agreement()), cgen.Statement("tm_mpi_end(&mpi)")]
