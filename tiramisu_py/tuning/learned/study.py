"""Facts about a kernel for all parts of input-aware tuning: its space, its algorithm, the clock, and the database."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import cached_property
from pathlib import Path
from typing import Any

from tiramisu_py import Function
from tiramisu_py.errors import ArgumentError
from tiramisu_py.queries import Algorithm, are_allowed, open_cache
from tiramisu_py.tuning.filters import Filter
from tiramisu_py.tuning.learned.columns import Columns, columns_for
from tiramisu_py.tuning.learned.samples.candidates import Candidates, JudgedPoint, named
from tiramisu_py.tuning.learned.samples.clocks import KernelClock, PretendedClock, SampleClock, Timer
from tiramisu_py.tuning.learned.samples.ranges import Sizes
from tiramisu_py.tuning.learned.samples.sample_store import SampleStore
from tiramisu_py.tuning.learned.workload_size import AlgorithmWork
from tiramisu_py.tuning.search.database import database_path
from tiramisu_py.tuning.search.space import Point, Space
from tiramisu_py.tuning.search.turns import Turns

#: The samples of a time.
REPEATS = 3


class Study:
    """A kernel with open parameters, as `input_aware` was told of it; what follows from that is found out once."""

    def __init__(
        self,
        make: Callable[..., Function],
        space: Space,
        filters: Sequence[Filter],
        features: object,
        default: Point | None,
        database: object,
        timer: Timer | None,
        options: Mapping[str, Any],
    ) -> None:
        self.space, self.filters, self.default, self.timer = space, filters, default, timer
        self.candidates = Candidates(make, space)
        self._features, self._database, self.options = features, database, options
        self._columns: Columns | None = None

    @property
    def algorithm(self) -> Algorithm:
        """The algorithm that all points compute."""
        return self.candidates.algorithm

    def assumes(self, sizes: Sizes) -> bool:
        """Whether sizes are those that the function assumes."""
        return are_allowed(self.candidates.any().program, sizes)

    @property
    def name(self) -> str:
        """The name of the function."""
        return self.candidates.any().name

    @cached_property
    def params(self) -> tuple[str, ...]:
        """The sizes. Raises `ArgumentError` if there are none."""
        params = tuple(self.algorithm.params)
        if not params:
            raise ArgumentError(f"{self.name} has no sizes: tm.tune finds the best point of such a function")
        return params

    @cached_property
    def work(self) -> AlgorithmWork:
        """Operations and bytes."""
        return AlgorithmWork(self.candidates.counted)

    @cached_property
    def kernel_clock(self) -> KernelClock:
        """The clock that compiles kernels, and measures them."""
        return KernelClock(self.candidates.any(), open_cache(), self.options, REPEATS)

    @cached_property
    def clock(self) -> SampleClock:
        """The clock that says how long a point takes."""
        return self.kernel_clock if self.timer is None else PretendedClock(self.timer)

    @contextmanager
    def opened(self) -> Iterator[SampleStore]:
        """The database, with the context of this algorithm, machine and compiler."""
        path = database_path(self._database, Path() if self._database is not None else open_cache().root)
        store = SampleStore(path, self.clock.machine, self.clock.compiler, {"algorithm": self.candidates.family})
        try:
            yield store
        finally:
            store.close()

    def turn(self) -> AbstractContextManager[bool]:
        """A context in which no search of this user measures."""
        if not self.clock.measures:
            return nullcontext(True)
        return Turns(open_cache().root).turn(lambda: False, lambda: None)

    def columns(self, example: Sizes) -> Columns:
        """How points at sizes become numbers; `example` are sizes that the caller's features can be asked for."""
        if self._columns is None:
            self._columns = columns_for(self.space, self.params, self._features, self.work, example)
        return self._columns

    def default_candidate(self) -> JudgedPoint:
        """The point that runs without a model: the caller's default, or the first legal one."""
        if self.default is None:
            self.candidates.any()
            return self.candidates.proven[0]
        found = self.candidates.at(self.default)
        if found.function is None:
            raise ArgumentError(f"default: {named(self.default)} is not legal: {found.message}")
        return found

    @property
    def advice(self) -> str:
        """How to get samples."""
        ranges = ", ".join(f"{name}=(16, 4096)" for name in self.params)
        return f"measure some with collect({ranges}, minutes=10)"
