"""A judge of programs whose places and bounds are values: it takes arrays that are as declared, and enumerates.

Nothing is asked of the proof or of `evaluate()`: conditions, places and values are computed one by one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

import tiramisu_py as tm
from tests.oracle.agreeing.agreement import Verdict
from tests.oracle.agreeing.one_source import kernels
from tests.oracle.generators.script import Script
from tests.oracle.judges.plain import OPERATORS, Point, function, integer, integers, points
from tiramisu_py.algorithm.expressions import Access, Binary, Cast, Expr, Unary
from tiramisu_py.interpret import InterpretError, run
from tiramisu_py.ir import ArrayArgument, LoopFunction

Array = np.ndarray[Any, np.dtype[Any]]
SIZES = ((0, 0), (1, 2), (2, 1), (3, 4), (4, 3), (5, 9), (9, 5), (9, 17))
#: What an element holds that nothing is written to.
NOTHING = 77


@dataclass(frozen=True)
class FactCall:
    """A call of a program with arrays that are as its facts say."""

    script: Script
    params: Mapping[str, int]
    arrays: Mapping[str, Array]

    @cached_property
    def wanted(self) -> dict[Point, int] | None:
        """What each element of the result should hold; None if one should hold two values."""
        algorithm = self.script.function.algorithm
        computation = algorithm.gathered.get("m", algorithm.as_declared.computations["m"])
        place = function(self.script.program.storages["m"].index, self.params)
        rank = len(computation.iterators)
        found: dict[Point, int] = {}
        if computation.is_reduction:
            found = {place(index): 0 for index in points(computation.domain, self.params)}
        for point in points(computation.points, self.params):
            names = {**self.params, **dict(zip(computation.point_iterators, point, strict=True))}
            if not all(self._value(guard, names) for guard in computation.guards):
                continue
            value, element = self._value(computation.expr, names), place(point[:rank])
            if computation.is_reduction:
                found[element] += value
            elif found.setdefault(element, value) != value:
                return None
        return found

    def _value(self, e: Expr, names: Mapping[str, int]) -> int:
        """An expression of integers; conditions are evaluated from the left, no further than needed."""
        match e:
            case Access():
                index = tuple(self._value(each, names) for each in e.indices)
                if e.source not in self.arrays:
                    return self._computed(e.source, index)
                assert all(0 <= i < n for i, n in zip(index, self.arrays[e.source].shape, strict=True))
                return int(self.arrays[e.source][index])
            case Cast() | Unary(op="+"):
                return self._value(e.operand, names)
            case Unary(op="-"):
                return -self._value(e.operand, names)
            case Unary(op="~"):
                return int(not self._value(e.operand, names))
            case Binary(op="&"):
                return int(bool(self._value(e.left, names)) and bool(self._value(e.right, names)))
            case Binary():
                return int(OPERATORS[e.op](self._value(e.left, names), self._value(e.right, names)))
        return integer(e, names)

    def _computed(self, name: str, index: Point) -> int:
        """The run that a position is in, or the value of another computation, which has it everywhere in its domain."""
        if name == "o_of":
            return int(np.searchsorted(self.arrays["o"], index[0], "right")) - 1
        computation = self.script.function.algorithm.as_declared.computations[name]
        assert not computation.is_reduction
        names = {**self.params, **dict(zip(computation.iterators, index, strict=True))}
        assert all(self._value(guard, names) for guard in computation.guards)
        return self._value(computation.expr, names)

    def wrong_loops(self, loops: LoopFunction, timing: int) -> str:
        """What is wrong with loops, run by the adversarial machine; empty where nothing is."""
        arrays: dict[str, Array] = {}
        for declared in loops.arguments:
            assert isinstance(declared, ArrayArgument)
            shape = integers(declared.extents, self.params)
            empty = np.full(shape, NOTHING, declared.dtype.numpy)
            arrays[declared.name] = self.arrays[declared.name].copy() if declared.is_input else empty
        try:
            run(loops, arrays, self.params, timing)
        except InterpretError as error:
            return f"{self}: {error}"
        return self._wrong(arrays[self.script.program.storages["m"].buffer], NOTHING)

    def wrong_kernel(self, kernel: tm.Kernel) -> str:
        """What is wrong with compiled code; empty where nothing is."""
        algorithm, buffers = self.script.function.algorithm, self.script.program.buffers
        shapes = {name: integers(algorithm.inputs[name].passed_shape, self.params) for name in self.arrays}
        found = kernel(**{name: array.reshape(shapes[name]) for name, array in self.arrays.items()}, **self.params)
        extents = buffers[self.script.program.storages["m"].buffer].extents
        return self._wrong(np.asarray(found).reshape(integers(extents, self.params)), 0)

    def _wrong(self, result: Array, untouched: int) -> str:
        assert self.wanted is not None
        for element, got in np.ndenumerate(result):
            if got != self.wanted.get(element, untouched):
                return f"{self}: {list(element)} is {got}, not {self.wanted.get(element, untouched)}"
        return ""

    def __str__(self) -> str:
        return f"at {dict(self.params)}, o = {self.arrays['o'].tolist()}"


def calls(script: Script, seed: int) -> Iterator[FactCall]:
    """Two calls at each size at which an array can be as the facts say."""
    rng = np.random.default_rng(seed)
    inputs = script.program.algorithm.inputs
    for size in SIZES * 2:
        params = dict(zip(("N", "M"), size, strict=True))
        (count,), (low, high) = (integers(each, params) for each in (inputs["o"].shape, inputs["o"].values or ()))
        if inputs["o"].permutation:
            o = rng.permutation(count) if (low, high) == (0, count) else None
        else:
            o = rng.integers(low, high, count) if high > low or not count else None
        if o is None:
            continue
        o = np.sort(o) if inputs["o"].monotone else o
        if inputs["o"].covers is not None:
            if not params["N"] and params["M"]:
                continue  # no run has them
            o[0], o[-1] = 0, params["M"]
        a = rng.integers(-3, 4, integers(inputs["a"].shape, params))
        arrays = {"o": o.astype(np.int32), "a": a.astype(np.int32)}
        if "q" in inputs:  # other keys
            (keys,), (_, end) = (integers(each, params) for each in (inputs["q"].shape, inputs["q"].values or ()))
            arrays["q"] = rng.integers(0, end, keys).astype(np.int32)
        if "w" in inputs:
            arrays["w"] = rng.integers(-3, 4, params["N"]).astype(np.int32)
        if "row" in inputs:  # the run of each position
            arrays["row"] = np.repeat(np.arange(params["N"]), np.diff(o)).astype(np.int32)
        if "keys_of" in inputs:  # combinations of q, and perhaps of runs
            run = [np.repeat(np.arange(params["N"]), np.diff(o)).astype(np.int32)] if "keys_o" in inputs else []
            keys_given = tm.distinct(arrays["q"], *run)
            params["keys_count"] = len(keys_given)
            arrays |= {"keys_of": keys_given.of, "keys_q": keys_given.columns[0]}
            arrays |= {"keys_o": keys_given.starts(params["N"])} if run else {}
        if "into_order" in inputs:
            arrays["into_start"], arrays["into_order"] = tm.inverse(arrays["q"], params["N"])
        yield FactCall(script, params, arrays)


def of_facts(script: Script, seed: int) -> Verdict:
    """No program is accepted that keeps two values in one element. What is refused, this judge does not know."""
    if not script.function.check().ok:
        return Verdict("refused")
    for call in calls(script, seed):
        if call.wanted is None:
            return Verdict("unsound", f"accepted, but {call}: two values in one element")
    return Verdict("accepted")


def compiled_facts(programs: list[tuple[int, Script]]) -> list[str]:
    """What the compiled code of several programs computes wrong, in their order."""
    made = kernels({f"f_{number}_{seed}": script for number, (seed, script) in enumerate(programs)})
    found = []
    for (seed, script), kernel in zip(programs, made.values(), strict=True):
        if isinstance(kernel, str):
            found.append(kernel)
        else:
            found.append(next(filter(None, (call.wrong_kernel(kernel) for call in calls(script, seed))), ""))
    return found
