"""The points of a space as functions: made once, proven once for all sizes, and refused with a reason."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from random import Random
from typing import Any

from tiramisu_py import Function
from tiramisu_py.errors import ArgumentError, CommandError, LegalityError
from tiramisu_py.queries import Algorithm, axes, declared_values, digest, program_key
from tiramisu_py.records import dataclass
from tiramisu_py.tuning.search.space import LISTED, Point, Space

#: The points that are looked at for a legal one, before all are said to be refused.
MOST_REFUSED = 200
#: What callers know of an algorithm, in words: points may not differ in it.
_PARTS = {
    "name": "their names",
    "params": "their parameters",
    "assume": "what they assume",
    "inputs": "their inputs",
    "outputs": "their outputs",
}


@dataclass(frozen=True, eq=False)
class JudgedPoint:
    """A point with its proven function and the key of its algorithm and commands; or `reason`, in a few words for
    counting, and `message`, why it is refused.
    """

    point: Point
    function: Function | None = None
    program: str = ""
    reason: str = ""
    message: str = ""


class Candidates:
    """The candidates of a space. Raises `ArgumentError` for a point whose function has other arguments.

    Points may compute the same values in other ways, such as by a call of a library; that they do is checked where they
    are compiled.
    """

    def __init__(self, make: Callable[..., object], space: Space) -> None:
        self.space = space
        self._make = make
        self._known: dict[int, JudgedPoint] = {}
        self._functions: dict[int, Function] = {}
        self._any: Function | None = None
        self._first: tuple[Point, dict[str, Any]] | None = None

    @property
    def proven(self) -> list[JudgedPoint]:
        """The candidates that were made so far and are legal."""
        return [each for each in self._known.values() if each.function is not None]

    def at(self, point: Point) -> JudgedPoint:
        """The candidate of a point."""
        number = self.space.number(point)
        if number not in self._known:
            self._known[number] = self._made(point)
        return self._known[number]

    def any(self) -> Function:
        """The function of the first legal point, for what all have in common. Raises `ArgumentError`, with the reasons
        counted, if there is none among the first points.
        """
        if self._any is None:
            for tried, point in enumerate(self._in_order()):
                self._any = self.at(point).function
                if self._any is not None or tried >= MOST_REFUSED:
                    break
        if self._any is None and self.proven:
            self._any = self.proven[0].function
        if self._any is None:
            raise ArgumentError(none_legal([*self._known.values()]))
        return self._any

    def _in_order(self) -> Iterator[Point]:
        """Allowed points in a fixed order: as they are listed, or of a space too large for that, as they are drawn."""
        if self.space.is_listed:
            return self.space.points()
        random = Random(0)
        drawn = (self.space.numbered(random.randrange(self.space.size)) for _ in range(LISTED))
        return filter(self.space.allows, drawn)

    @property
    def algorithm(self) -> Algorithm:
        """The algorithm that points compute, as the first legal one says it."""
        return self.any().algorithm

    @property
    def counted(self) -> Algorithm:
        """The algorithm whose operations are counted: of the first legal point that calls no library, if there is one.

        Of a library's call nobody knows the operations.
        """
        for tried, point in enumerate(self._in_order()):
            if tried >= MOST_REFUSED:
                break
            algorithm = self._algorithm(point)
            if algorithm is not None and all(each.stage is None for each in algorithm.computations.values()):
                legal = self.at(point).function
                if legal is not None:
                    return legal.algorithm
        return self.algorithm

    def _algorithm(self, point: Point) -> Algorithm | None:
        """The algorithm of a point, which need not be legal; None if a command refuses it."""
        try:
            return self._function(point).algorithm
        except (CommandError, LegalityError):
            return None

    @property
    def family(self) -> str:
        """The key of what callers know: samples are kept by it, and by the text of each kernel."""
        return digest(_known_to_callers(self.algorithm))

    def program(self, point: Point) -> str:
        """The key of the algorithm and commands of a point, which need not be legal; empty if a command refuses it."""
        algorithm = self._algorithm(point)
        return "" if algorithm is None else program_key(algorithm, self._function(point).commands)

    def _made(self, point: Point) -> JudgedPoint:
        try:
            f = self._function(point)
            report = f.check()
            if not report.ok:
                raise LegalityError(report.violations)
        except CommandError as error:
            return JudgedPoint(point, reason="a command", message=str(error))
        except LegalityError as error:
            first = error.violations[0] if error.violations else None
            kind = "" if first is None else f": {first.kind}"
            return JudgedPoint(point, reason=f"the proof{kind}", message=str(error) if first is None else first.message)
        return JudgedPoint(point, f, program_key(f.algorithm, f.commands))

    def _function(self, point: Point) -> Function:
        number = self.space.number(point)
        if number not in self._functions:
            f = self._make(**point)
            if not isinstance(f, Function):
                raise ArgumentError(f"make({named(point)}) returned {f!r:.60}: let it return a scheduled tm.Function")
            self._require_same(point, f)
            self._functions[number] = f.copy()  # make may change the same function again for the next point
        return self._functions[number]

    def _require_same(self, point: Point, f: Function) -> None:
        """Refuses a function that takes other arguments, or computes something else, than that of the first point."""
        if axes(f.program):
            raise ArgumentError(f"{f.name} runs on ranks, and points are measured in one process: tune one rank's work")
        own = _known_to_callers(f.algorithm)
        if self._first is None:
            self._first = point, own
        other, declared = self._first
        if own == declared:
            return
        what = next(words for part, words in _PARTS.items() if own[part] != declared[part])
        raise ArgumentError(
            f"the functions of {named(other)} and of {named(point)} differ in {what}: let make change the schedule "
            "alone"
        )


def _known_to_callers(algorithm: Algorithm) -> dict[str, Any]:
    """The name, the sizes, the inputs and the outputs with their types, as plain data."""
    declared = declared_values(algorithm)
    types = {each["name"]: each["dtype"] for each in declared["computations"]}
    outputs = [[name, types.get(name)] for name in declared["outputs"]]
    return {**{part: declared[part] for part in _PARTS}, "outputs": outputs}


def none_legal(tried: list[JudgedPoint]) -> str:
    """That no point is legal, with the reasons counted and an example of the most frequent one."""
    counted: dict[str, list[JudgedPoint]] = {}
    for each in tried:
        counted.setdefault(each.reason, []).append(each)
    if not counted:
        return "no point of the space is allowed: where= excludes all of them"
    reasons = sorted(counted.items(), key=lambda item: -len(item[1]))
    listed = ", ".join(f"{len(some)} by {reason}" for reason, some in reasons)
    example = reasons[0][1][0]
    return f"no legal point among {len(tried)}: {listed}, such as {named(example.point)}: {example.message}"


def named(point: Mapping[str, Any]) -> str:
    """A point in words: ``rows=4, lanes=16``."""
    return ", ".join(f"{name}={value!r}" for name, value in point.items())
