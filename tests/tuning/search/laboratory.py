"""A laboratory for searches: a program with a small space, times that the test says, and a log of what is done."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import tiramisu_py as tm
from tiramisu_py.function.results import Emission
from tiramisu_py.toolchain import Kernel
from tiramisu_py.tuning.search import searching, tuner
from tiramisu_py.tuning.search.bench import Bench
from tiramisu_py.tuning.search.stopwatch import Stopwatch, TimedCalls
from tiramisu_py.tuning.search.turns import Turns

N, M, K = tm.params("N M K")
i, j, k, j0, j1 = tm.iters("i j k j0 j1")
#: Eight points. A vector of three lanes is refused by the command, a parallel sum by the proof: three are legal.
SPACE = {"lanes": [2, 3, 4, 8], "loop": ["i", "k"]}
LEGAL = [{"lanes": lanes, "loop": "i"} for lanes in (2, 4, 8)]
SIZES = {"N": 5, "M": 19, "K": 3}

Cost = Callable[[dict[str, Any], int], float]


def product() -> tuple[tm.Function, tm.Reduction]:
    """A matrix product in whole numbers."""
    f = tm.Function("product", params=[N, M, K])
    a, b = f.input("a", tm.int32, [N, K]), f.input("b", tm.int32, [K, M])
    c = f.reduction("c", {i: N, j: M}, {k: K}, tm.sum, a[i, k] * b[k, j])
    f.outputs(c)
    return f, c


def make(lanes: int, loop: str) -> tm.Function:
    """One point of the space."""
    f, c = product()
    c.update.reorder(i, k, j)
    c.update.vectorize(j, lanes)
    c.update.parallelize(i if loop == "i" else k)
    return f


def by_lanes(point: dict[str, Any], sample: int) -> float:
    """Wide vectors are faster."""
    return 1.0 / point["lanes"]


class Laboratory:
    """Replaces the clock: a sample of a point takes what `cost` says of its parameters and the sample's number.

    `compiled` and `measured` have the parameters of each point that was compiled or called for its time; `interrupt`
    is called before each sample with the number of samples so far.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
        self.cost: Cost = by_lanes
        self.compiled: list[list[str]] = []
        self.measured: list[dict[str, Any]] = []
        self.samples = 0
        self.folder = folder
        self.interrupt: Callable[[int], object] = lambda number: None
        self._running: dict[str, Any] = {}
        self._taken = 0
        emission, calls = tuner.emission, Bench.calls

        def emitted(f: tm.Function, **options: Any) -> Emission:
            build = emission(f, **options)

            def logged() -> Kernel:
                self.compiled.append([str(command) for command in f.commands])
                return build()

            return Emission(build.sources, logged)

        def called(bench: Bench, kernel: Kernel, what: str) -> Any:
            self.measured.append(eval(f"dict({what.partition(' with ')[2]})"))
            found = calls(bench, kernel, what)
            parameters = self.measured[-1]
            return TimedCalls([self._tagged(call, parameters) for call in found.run], found.before)

        def sampled(watch: Stopwatch, call: Callable[[], object], before: Callable[[], object]) -> float:
            self.interrupt(self.samples)
            before()
            call()
            self.samples += 1
            return self.cost(self._running, self.samples)

        monkeypatch.setattr(searching, "Turns", lambda _: Turns(folder))  # other tests do not wait for this one
        monkeypatch.setattr(tuner, "emission", emitted)
        monkeypatch.setattr(Bench, "calls", called)
        monkeypatch.setattr(Stopwatch, "_sample", sampled)
        self.control = tuner.Tuner._control
        monkeypatch.setattr(tuner.Tuner, "_control", lambda *_: None)  # samples of the point alone, unless a test asks

    def _tagged(self, call: Callable[[], object], parameters: dict[str, Any]) -> Callable[[], object]:
        def run() -> object:
            self._running = parameters
            return call()

        return run

    def tune(self, space: Any = SPACE, made: Any = make, **options: Any) -> tm.Tuned:
        """A search in the laboratory's own database, three samples a point."""
        usual = {"sizes": SIZES, "database": self.folder / "tuning.sqlite", "repeats": 3, "workers": 2}
        return tm.tune(made, space, **{**usual, **options})

    def forget(self) -> None:
        """Empties the logs."""
        self.compiled, self.measured, self.samples = [], [], 0
