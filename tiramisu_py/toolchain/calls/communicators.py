"""The call of a distributed function on one rank: its coordinates, its part of every array, the agreement of all ranks.

An error found on one rank is raised on every rank: the others would wait for its messages.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, lru_cache
from typing import Any

import numpy as np

from tiramisu_py.algorithm.domains.extents_from_arguments import extent_value, infer_params, params_of
from tiramisu_py.algorithm.expressions import Binary, Const, Expr, Iter, Param
from tiramisu_py.algorithm.traversal import rewrite, walk
from tiramisu_py.algorithm.types import int64
from tiramisu_py.errors import ArgumentError, KernelError
from tiramisu_py.ir import ArrayArgument, BlockBounds, ProcessGrid
from tiramisu_py.ir.arithmetic.simplify import simplified
from tiramisu_py.records import dataclass
from tiramisu_py.toolchain.calls.arguments import Arguments, PreparedCall, as_size
from tiramisu_py.toolchain.calls.meeting import come, met
from tiramisu_py.toolchain.compilers.mpi import mpi4py
from tiramisu_py.toolchain.machine.first_touch import Turn
from tiramisu_py.toolchain.machine.topology import allowed_cpus

_REMEMBERED = 64
_PARTS = "each rank passes its part of an array that is distributed (Function.part), and all of any other"


@dataclass(frozen=True, eq=False)
class Ranks:
    """The calls of a distributed function on this rank."""

    arguments: Arguments
    grid: ProcessGrid

    def bind(self, positional: Sequence[object], named: Mapping[str, object]) -> tuple[PreparedCall, Any]:
        """The checked call and its communicator; raises the same `ArgumentError` on every rank, naming the first rank
        with an error. ``comm=`` is the communicator (``MPI.COMM_WORLD`` by default).
        """
        given = dict(named)
        comm = _communicator(self.arguments.function.name, given.pop("comm", None))
        count = None
        if self.grid.bounds is not None:
            come(comm, self.arguments.function.name)
            given, count = with_blocks(self.arguments, self.grid.bounds, comm, positional, given)
        call, some_idle = agreed(
            comm, self.arguments.function.name, lambda: self._bound(comm.rank, comm.size, positional, given, count)
        )
        params = comm.bcast(call.params if call else None, root=0) if some_idle else {}
        if self.grid.bounds is not None:  # an idle rank has bounds of its own too
            params |= {name: given[name] for name in (self.grid.bounds.lower, self.grid.bounds.upper)}
        return call or self._idle(params), comm

    def _bound(
        self, rank: int, size: int, positional: Sequence[object], named: Mapping[str, object], known: int | None = None
    ) -> PreparedCall | None:
        extents = self._extents(positional, named) if known is None else (known,)
        count = int(np.prod([max(extent, 0) for extent in extents], dtype=object))
        name = self.arguments.function.name
        if size < count:
            raise ArgumentError(f"{name} needs {count} ranks, and the communicator has {size}: mpirun -n {count}")
        if rank >= count:
            return None
        found = np.unravel_index(rank, extents)
        try:
            return self.of_rank(tuple(int(coordinate) for coordinate in found)).bind(positional, named)
        except ArgumentError as error:
            if " has shape " not in str(error):
                raise
            raise ArgumentError(f"{error}; {_PARTS}") from error

    # -- the grid

    def _extents(self, positional: Sequence[object], named: Mapping[str, object]) -> tuple[int, ...]:
        """The extents of the grid. The parameters on which they depend must be given by name, or follow from arrays
        whose shape does not depend on the rank.
        """
        if not any(params_of(extent) for extent in self.grid.extents):
            return tuple(extent_value(extent, {}) for extent in self.grid.extents)
        arguments = self.arguments
        given = {**dict(zip(arguments.inputs, positional, strict=False)), **named}
        known = {name: as_size(name, given[name]) for name in arguments.function.params if name in given}
        missing = {name for extent in self.grid.extents for name in params_of(extent)} - set(known)
        if missing:
            known |= self._from_shapes(given, known)
        for name in sorted(missing - set(known)):
            raise ArgumentError(
                f"the number of ranks depends on {name}, which does not follow from the shape of one rank's arrays: "
                f"give {name}="
            )
        return tuple(extent_value(extent, known) for extent in self.grid.extents)

    def _from_shapes(self, given: Mapping[str, object], known: Mapping[str, int]) -> Mapping[str, int]:
        found = dict(known)
        for name, array in self.arguments.arrays.items():
            shape = getattr(given.get(name), "shape", None)
            if shape is None or len(shape) != len(array.extents):
                continue
            for extent, size in zip(array.extents, shape, strict=True):
                unknown = params_of(extent) - set(found)
                if len(unknown) == 1 and not _named(extent) & set(self.grid.coordinates):
                    found |= infer_params((*found, *unknown), [(name, (extent,), (int(size),))], found)
        return found

    @cached_property
    def of_rank(self) -> Callable[[tuple[int, ...]], Arguments]:
        """The arguments of the rank with given coordinates: they have the extents of its own arrays."""
        return lru_cache(maxsize=_REMEMBERED)(self._localised)

    def _localised(self, coordinates: tuple[int, ...]) -> Arguments:
        values = {name: Const(c, int64) for name, c in zip(self.grid.coordinates, coordinates, strict=True)}

        def local(extent: Expr) -> Expr:
            own = rewrite(extent, lambda e: values.get(e.name) if isinstance(e, Iter | Param) else None)
            return simplified(own)

        function = self.arguments.function
        arguments = tuple(
            replace(a, extents=tuple(map(local, a.extents))) if isinstance(a, ArrayArgument) else a
            for a in function.arguments
        )
        return replace(self.arguments, function=replace(function, arguments=arguments))

    def on_this_rank(self, comm: object, sizes: Mapping[str, int]) -> Arguments | None:
        """The arguments of this rank at these sizes; None if the rank is idle."""
        rank = _communicator(self.arguments.function.name, comm).rank
        if self.grid.bounds is not None:
            return self.of_rank((rank,))
        extents = self._extents((), sizes)
        if rank >= int(np.prod([max(extent, 0) for extent in extents], dtype=object)):
            return None
        return self.of_rank(tuple(int(coordinate) for coordinate in np.unravel_index(rank, extents)))

    def turn(self, comm: object) -> Turn:
        """The number of this rank on its machine; collective over the communicator."""
        name = self.arguments.function.name
        every = _communicator(name, comm)
        come(every, name)
        near = every.Split_type(mpi4py().COMM_TYPE_SHARED)
        alike = len(set(near.allgather(allowed_cpus()))) == 1
        found = Turn(near.rank, near.size if alike else 1)
        near.Free()
        return found

    def _idle(self, params: Mapping[str, int]) -> PreparedCall:
        """A call that does nothing, for a rank outside the grid.

        Its arrays have extent 0 in distributed dimensions; an array without one has extent 0 in its first dimension.
        """
        function = self.arguments.function
        values: dict[str, Any] = {}
        for argument in function.arguments:
            extents = argument.extents if isinstance(argument, ArrayArgument) else ()
            none = (argument.dealt or (0,)) if isinstance(argument, ArrayArgument) else ()
            shape = [0 if dim in none else extent_value(extent, params) for dim, extent in enumerate(extents)]
            values[argument.name] = np.zeros(shape, dtype=argument.dtype.numpy)
        return PreparedCall(params, values, tuple(values[name] for name in function.outputs))


def _named(extent: Expr) -> set[str]:
    return {part.name for part in walk(extent) if isinstance(part, Iter | Param)}


# -- the communicator


def _communicator(name: str, given: Any) -> Any:
    mpi = mpi4py()
    if not mpi.Is_initialized() or mpi.Is_finalized():
        raise ArgumentError(f"{name} needs MPI, which is not initialised: call it between MPI_Init and MPI_Finalize")
    comm = mpi.COMM_WORLD if given is None else given
    if not isinstance(comm, mpi.Intracomm) or comm == mpi.COMM_NULL:
        raise ArgumentError(f"comm is a communicator of mpi4py, such as MPI.COMM_WORLD, not {given!r:.60}")
    return comm


def c_communicator() -> Any:
    """The type in ctypes of an ``MPI_Comm``: a number in MPICH, a pointer in Open MPI."""
    mpi = mpi4py()
    return ctypes.c_void_p if mpi._sizeof(mpi.Comm) == ctypes.sizeof(ctypes.c_void_p) else ctypes.c_int


def as_c_communicator(comm: Any) -> Any:
    """The ctypes value of an mpi4py communicator."""
    return c_communicator().from_address(mpi4py()._addressof(comm))


def agreed(comm: Any, name: str, bind: Callable[[], PreparedCall | None]) -> tuple[PreparedCall | None, bool]:
    """The result of `bind` (None on an idle rank), and whether any rank is idle. If `bind` raises on some rank, all
    ranks raise an `ArgumentError` with the first rank's message. Raises `KernelError` if a rank does not join the call
    of the function `name`.
    """
    fault: Exception | None = None
    call = None
    try:
        call = bind()
    except Exception as error:
        fault = error
    mine = np.array([comm.size if fault is None else comm.rank, call is not None or fault is not None], dtype=np.int64)
    try:
        least = met(comm, name, mine)
    except KernelError:
        if fault is not None:
            raise fault from None
        raise
    first = int(least[0])
    if first < comm.size:
        said = comm.bcast(str(fault) if comm.rank == first else None, root=first)
        if fault is not None and not isinstance(fault, ArgumentError):
            raise fault
        raise ArgumentError(f"{said} (on rank {first})") from fault
    return call, not least[1]


# -- blocks whose bounds are known at run time only


#: The lower bound and the upper bound of a rank's block, its size in this rank's arrays, and the total extent.
Known = tuple[int | None, int | None, int | None, int | None]


def balanced(extent: int, ranks: int, rank: int, least: int) -> tuple[int, int]:
    """A rank's block in an even distribution over as many ranks as can have at least `least` indices each."""
    used = max(1, min(ranks, extent // least))
    if rank >= used:
        return extent, extent
    each, more = divmod(extent, used)
    lower = rank * each + min(rank, more)
    return lower, lower + each + (rank < more)


def with_blocks(
    arguments: Arguments, bounds: BlockBounds, comm: Any, positional: Sequence[object], named: Mapping[str, object]
) -> tuple[dict[str, object], int]:
    """The named arguments with the bounds of this rank's block (and the extent), and the number of ranks with a block.

    Collective. Bounds that are not given follow from the sizes of the ranks' arrays, in rank order; without such
    arrays, the indices are distributed evenly. Raises the same `ArgumentError` on every rank.
    """
    given = dict(named)
    known: Known = (None, None, None, None)
    fault: str | None = None
    try:
        known = _known(arguments, bounds, positional, given)
    except Exception as error:  # whatever it is, the others must not wait for this rank
        fault = str(error)
    every = comm.allgather((known, fault))
    for rank, (_, fault) in enumerate(every):
        if fault is not None:
            raise ArgumentError(f"{fault} (on rank {rank})")
    blocks = _blocks([known for known, _ in every], bounds, arguments.function.name)
    given[bounds.lower], given[bounds.upper] = blocks[comm.rank]
    if isinstance(bounds.extent, Param) and bounds.extent.name not in given:
        given[bounds.extent.name] = max(upper for _, upper in blocks)
    return given, max(1, sum(lower < upper for lower, upper in blocks))


def _known(
    arguments: Arguments, bounds: BlockBounds, positional: Sequence[object], given: Mapping[str, object]
) -> Known:
    """The data that this rank knows about its block."""
    low, high = (as_size(n, given[n]) if n in given else None for n in (bounds.lower, bounds.upper))
    values = {name: as_size(name, given[name]) for name in arguments.function.params if name in given}
    whole = extent_value(bounds.extent, values) if params_of(bounds.extent) <= set(values) else None
    passed = {**dict(zip(arguments.inputs, positional, strict=False)), **given}
    rows = None
    for name, array in arguments.arrays.items():
        shape = getattr(passed.get(name), "shape", ())
        for extent, size in zip(array.extents, shape, strict=False):
            if _is_width(extent, bounds):
                rows = int(size)
    return low, high, rows, whole


def _is_width(extent: object, bounds: BlockBounds) -> bool:
    if not (isinstance(extent, Binary) and extent.op == "-"):
        return False
    sides = (extent.left, extent.right)
    return all(isinstance(side, Param) for side in sides) and [str(side) for side in sides] == [
        bounds.upper,
        bounds.lower,
    ]


def _blocks(known: Sequence[Known], bounds: BlockBounds, name: str) -> list[tuple[int, int]]:
    """The block of each rank, from the data of all ranks."""
    count, found, at = len(known), list[tuple[int, int]](), 0
    for rank, (low, high, rows, whole) in enumerate(known):
        if low is not None and high is not None:
            block = (low, high)
        elif rows is not None:
            start = at if low is None else low
            block = (start, start + rows)
        elif whole is not None:
            block = balanced(whole, count, rank, bounds.least)
        else:
            raise ArgumentError(
                f"{name} cannot infer the block of rank {rank}: give {bounds.lower}= and {bounds.upper}="
            )
        found.append(block)
        at = block[1]
    return found
