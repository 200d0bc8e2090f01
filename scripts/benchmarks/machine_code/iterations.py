"""How often the loops of a lowered function run for given sizes: its control is followed, no value is computed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from types import CodeType
from typing import Any

import numpy as np

from benchmarks.machine_code.compiled_loops import Work, is_whole, operations, work_of
from tiramisu_py.algorithm.domains.extents_from_arguments import infer_params
from tiramisu_py.algorithm.expressions import Expr
from tiramisu_py.algorithm.types import int64
from tiramisu_py.ir import ArrayArgument, BeginArray, Declare, For, If, Let, LoopFunction, Node
from tiramisu_py.ir.rewriting import children, loads_in

#: Loops with a smaller part of a program's operations are not looked for in its machine code.
LEAST = 0.02
_KNOWN: dict[str, Any] = {"__builtins__": {}, "min": min, "max": max, "abs": abs}


@dataclass
class Executed:
    """What a call executes: the iterations of each innermost loop of whole vectors, and the operations of everything.

    Operations are the nodes of expressions, of a vector as many as of a number.
    """

    iterations: Counter[For] = field(default_factory=Counter)
    operations: int = 0


def sizes(function: LoopFunction, given: Mapping[str, Any]) -> dict[str, int]:
    """The parameters that a call with these arguments has; raises `ArgumentError` where shapes do not give them."""
    arrays = [
        (each.name, each.passed_extents, np.shape(given[each.name]))
        for each in function.arguments
        if isinstance(each, ArrayArgument) and each.name in given
    ]
    numbers = {name: int(value) for name, value in given.items() if name in function.params}
    return infer_params(function.params, arrays, numbers)


def executed(function: LoopFunction, params: Mapping[str, int]) -> Executed:
    """What a call with these parameters executes.

    Raises `SystemExit` where a loop or a condition depends on values of arrays.
    """
    follower = _Follower(function.name, dict(params))
    follower.follow(function.body)
    return follower.found


def shares(found: Executed, points: int) -> Iterator[tuple[float, Work]]:
    """The loops that most operations are in, each with its iterations for a point. Loops of the same stages that store
    as many bytes are one. What is elsewhere (ends of rows, rests under masks, loops with fewer operations) counts as
    if it took as long for an operation as these loops do.

    Raises `SystemExit` where no loop of whole vectors has such a part of the operations.
    """
    work = {loop: work_of(loop) for loop in found.iterations}
    done = {loop: count * work[loop].size for loop, count in found.iterations.items() if work[loop].points > 1}
    kept = {loop: size for loop, size in done.items() if size >= LEAST * found.operations}
    if not kept:
        raise SystemExit("no loop of whole vectors has a part of the operations: all have loops or masks inside")
    counts, longest = Counter[tuple[frozenset[str], int]](), dict[tuple[frozenset[str], int], Work]()
    for loop in sorted(kept, key=lambda each: work[each].size):
        alike = work[loop].stages, work[loop].stored
        counts[alike] += found.iterations[loop]
        longest[alike] = work[loop]
    for alike, count in counts.items():
        yield count / points * found.operations / sum(kept.values()), longest[alike]


class _Follower:
    """Follows the loops and conditions of a function; `variables` are those that are integers."""

    def __init__(self, name: str, variables: dict[str, Any]) -> None:
        self.name, self.variables = name, variables
        self.found = Executed()
        self.code: dict[Expr, CodeType] = {}
        self.sizes: dict[Node, int] = {}

    def value(self, e: Expr) -> Any:
        """An index or a condition: its text is Python's, with the same quotients."""
        code = self.code.get(e)
        if code is None:
            if loads_in(e):
                raise SystemExit(
                    f"{self.name}: {e} depends on values of arrays, so that no size says how often it runs"
                )
            code = self.code[e] = compile(str(e), self.name, "eval")
        return eval(code, _KNOWN, self.variables)

    def follow(self, node: Node) -> None:
        """Count what a statement executes."""
        match node:
            case For():
                self._loop(node)
            case If() if not loads_in(node.condition):
                taken = node.then if self.value(node.condition) else node.otherwise
                if taken is not None:
                    self.follow(taken)
            case Let():
                self.variables[node.variable] = self.value(node.value)
                self.follow(node.body)
            case Declare() if node.lanes == 1 and node.value.dtype == int64 and not loads_in(node.value):
                self.variables[node.variable] = self.value(node.value)
            case BeginArray():
                pass
            case _ if children(node):
                for each in children(node):
                    self.follow(each)
            case _:
                self.found.operations += self._operations(node)

    def _loop(self, loop: For) -> None:
        lower, upper = self.value(loop.lower), self.value(loop.upper)
        count = max(0, -((lower - upper) // loop.step))
        if is_whole(loop.body):
            self.found.iterations[loop] += count
            self.found.operations += count * self._operations(loop.body)
            return
        for value in range(lower, upper, loop.step):
            self.variables[loop.variable] = value
            self.follow(loop.body)

    def _operations(self, node: Node) -> int:
        if node not in self.sizes:
            self.sizes[node] = operations(node)
        return self.sizes[node]
