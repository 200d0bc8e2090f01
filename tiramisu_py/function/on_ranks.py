"""Distributed functions without a cluster: the parts of arrays that ranks hold, and ranks in one process."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from tiramisu_py import interpret, ir, sets
from tiramisu_py.algorithm.domains.extents_from_arguments import infer_params, shape_value
from tiramisu_py.algorithm.evaluate.given_values import GivenValues, checked_arguments
from tiramisu_py.algorithm.types import array_names
from tiramisu_py.errors import ArgumentError
from tiramisu_py.function.results import Results
from tiramisu_py.program.machine.distribution import Distribution
from tiramisu_py.program.ranks import holdings
from tiramisu_py.program.ranks.spread import axes, ranks
from tiramisu_py.program.ranks.told_ranks import told_ranks

Array = npt.NDArray[Any]


class OnRanks(Results):
    """Methods for the caller of a distributed function."""

    def part(self, name: str, whole: Array, rank: int, **params: int) -> Array:
        """The part of an input or an output that a rank holds: its part of the array `whole`, as a new array.

        ::

            kernel(f.part("image", image, comm.rank), comm=comm)

        The name is that of an input or an output, or of the buffer that it is stored in. An array that is not
        distributed is held in full. `params` are needed if the process grid, or a point at which
        the array is cut, depends on them. A rank beyond the grid holds nothing. Raises `ArgumentError` for a name that
        is no array of the function, and for an array with another number of dimensions.
        """
        name = name if name in self._program.storages else self._in_buffer(name)
        if not self._is_callers(name):
            kind = "a temporary, neither an input nor an output" if name in self._program.storages else "no array"
            raise ArgumentError(
                f"{name!r} is {kind} of {self.name}: only {', '.join(self._callers())} are held in parts"
            )
        _check_rank(rank)
        self._check_dimensions(name, np.asarray(whole))
        grid = self.process_grid(**params)
        at = holdings.coordinates_of(rank, grid) if grid else ()
        distribution = self._distribution(name)
        sizes = self._sizes(name, distribution, np.asarray(whole), params)
        return holdings.part(distribution, np.asarray(whole), at, sizes)

    def _sizes(
        self, name: str, distribution: Distribution, whole: Array, params: Mapping[str, int]
    ) -> Mapping[str, int]:
        """The values of the parameters at which an array is cut: given, or inferred from its shape."""
        used = distribution.params
        if used <= set(params):
            return params
        extents = self._program.buffers[self._program.storages[name].buffer].extents
        needed = [param for param in self.algorithm.params if param in used | set(params)]
        return {**params, **infer_params(needed, [(name, extents, whole.shape)], params)}

    def _callers(self) -> list[str]:
        """The arrays that the caller passes or receives."""
        arrays = [name for name, declared in self.algorithm.inputs.items() if not declared.scalar]
        return [*arrays, *self.algorithm.outputs]

    def _check_dimensions(self, name: str, whole: Array) -> None:
        extents = self._program.buffers[self._program.storages[name].buffer].extents
        if whole.ndim != len(extents):
            shown = ", ".join(map(str, extents))
            raise ArgumentError(f"{name} has {whole.ndim} dimensions, shape {whole.shape}; it is declared as [{shown}]")

    def _in_buffer(self, name: str) -> str:
        """The first of the caller's arrays that is stored in a buffer; the name itself if there is none."""
        buffer = self._whole_buffer(name)
        return next((array for array in self._callers() if self._program.storages[array].buffer == buffer), name)

    def _whole_buffer(self, name: str) -> str:
        """The buffer of values of which an array holds one component; the name itself if there is none."""
        buffers = self._program.buffers
        whole = (b.name for b in buffers.values() if name in array_names(b.name, b.dtype) and name not in buffers)
        return next(whole, name)

    def _is_callers(self, name: str) -> bool:
        callers = {*self.algorithm.inputs, *self.algorithm.outputs}
        return name in self._program.storages and any(
            storage.source in callers for storage in self._program.storages_in(self._program.storages[name].buffer)
        )

    def _distribution(self, name: str) -> Distribution:
        buffer = self._program.storages[name].buffer
        alike = (s.source for s in self._program.storages_in(buffer) if s.source in self._program.ranks.distributions)
        source = name if name in self._program.ranks.distributions else next(alike, None)
        everywhere = Distribution((None,) * axes(self._program))
        return everywhere if source is None else self._program.ranks.distributions[source]

    def process_grid(self, **params: int) -> tuple[int, ...]:
        """The number of ranks along each axis of the process grid; empty for a function without ranks.

        They are as many as the loops on ranks, the arrays and the messages need, or as `Function.grid` declares. The
        compiled function must be called on at least as many ranks as their product.

        Raises `ArgumentError` where the grid depends on parameters that are not given.
        """
        if told_ranks(self._program).unnumbered:
            raise ArgumentError(
                f"{self.name} has no process grid of its own: ranks and their blocks are those that it is called with"
            )
        if axes(self._program) == 0:
            return ()
        everyone = ranks(self._program)
        missing = [name for name in sets.params(everyone) if name not in params]
        free = everyone if not missing else sets.without_params(everyone, missing)
        known = sets.fixed(free, {name: value for name, value in params.items() if name in sets.params(free)})
        sides = [sets.interval(known, axis) for axis in range(sets.size(known))]
        if any(side is None for side in sides):
            raise ArgumentError(f"the process grid of {self.name} depends on {', '.join(missing)}: give its value")
        return tuple(side[1] + 1 for side in sides if side is not None)

    def simulate(self, number: int | None = None, seed: int = 0, **given: Any) -> Any:
        """Run the program on ranks in this process, and return its outputs as `evaluate()` does.

        ::

            np.testing.assert_array_equal(f.simulate(4, image=image), f.evaluate(image=image))

        `given` are whole arrays and parameters. Each of the `number` ranks (default: as many as are needed) gets its
        part; surplus ranks have nothing to do. Messages take as long as they may, in an order that `seed` picks; sends
        wait for their receives. Slow: every store is interpreted. Raises `ArgumentError` for blocks with bounds of
        their own (`Function.blocks`), and `InterpretError` for accesses to memory that a message is using, and for
        deadlocks.
        """
        if what := told_ranks(self._program).unnumbered:
            raise ArgumentError(f"{self.name} has {what}: it is not simulated, run it under mpirun")
        if number is not None:
            _check_rank(number, "number")
        arguments, params = self._arguments((), given)
        given_values = checked_arguments(self.algorithm, arguments, params)
        results = self._interpreted(self._lowered_loops(), given_values, number=number, seed=seed)
        return results[0] if len(results) == 1 else tuple(results)

    def _interpreted(
        self,
        function: ir.LoopFunction,
        given: GivenValues,
        *,
        threads: int | None = None,
        number: int | None = None,
        seed: int = 0,
    ) -> list[Array]:
        """The outputs, whole, after the interpreter has run some loops: on ranks if the function has any."""
        if function.grid is None:
            return super()._interpreted(function, given, threads=threads)
        values = dict(given.params)
        grid = self.process_grid(**values)
        count = int(np.prod(grid, dtype=np.int64)) if number is None else number
        wholes = {**self._empty(function, values), **given.inputs, **given.initial}
        each = [self._of_rank(function, wholes, rank, values) for rank in range(count)]
        array_steps = None if threads is None else interpret.ArraySteps()
        interpret.interpret_ranks(function, each, values, seed, threads, array_steps)
        return [self._whole(name, each, wholes, grid, values) for name in function.outputs]

    def _empty(self, function: ir.LoopFunction, params: Mapping[str, int]) -> dict[str, Array]:
        """The initial contents of arrays that the caller does not pass: zeros."""
        arrays = [argument for argument in function.arguments if isinstance(argument, ir.ArrayArgument)]
        extents = {array.name: self._program.buffers[self._whole_buffer(array.name)].extents for array in arrays}
        return {array.name: np.zeros(shape_value(extents[array.name], params), array.dtype.numpy) for array in arrays}

    def _of_rank(
        self, function: ir.LoopFunction, wholes: Mapping[str, Array], rank: int, params: Mapping[str, int]
    ) -> dict[str, Array]:
        return {
            argument.name: self.part(self._in_buffer(argument.name), wholes[argument.name], rank, **params)
            if isinstance(argument, ir.ArrayArgument)
            else wholes[argument.name]
            for argument in function.arguments
        }

    def _whole(
        self,
        name: str,
        each: Sequence[Mapping[str, Array]],
        wholes: Mapping[str, Array],
        grid: Sequence[int],
        params: Mapping[str, int],
    ) -> Array:
        parts = [given[name] for given in each]
        return holdings.joined(self._distribution(self._in_buffer(name)), parts, grid, wholes[name].copy(), params)


def _check_rank(given: object, word: str = "rank") -> None:
    if isinstance(given, bool) or not hasattr(given, "__index__") or given.__index__() < 0:
        raise ArgumentError(f"{word}={given!r}: give an integer of at least 0")
