"""Requests: the element of an array of requests that a nonblocking message uses, and the requests of a wait.

for t: send row t; wait for row t     -->   requests[1]: the message of each t uses the same one again
for t: send row t                     -->   requests[T]: element t
wait for all
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import islpy as isl

from tiramisu_py import sets
from tiramisu_py.algorithm.domains.from_isl import of_params
from tiramisu_py.algorithm.expressions import Binary, Const, Expr
from tiramisu_py.algorithm.types import int64
from tiramisu_py.ir import Complete, Node, Requests
from tiramisu_py.ir.arithmetic import build as arithmetic
from tiramisu_py.ir.arithmetic.simplify import simplified
from tiramisu_py.lower.loops.boxes_of_points import Boxes, PointBoxes
from tiramisu_py.lower.operations.host_part import HostProgram
from tiramisu_py.lower.statements.index_set_splitting import DomainPiece
from tiramisu_py.lower.statements.loop_names import unique
from tiramisu_py.lower.statements.operation import LoweredOperation, Template
from tiramisu_py.program.loops import LoopId
from tiramisu_py.program.program import Program
from tiramisu_py.program.ranks.request_numbers import pairs, slots
from tiramisu_py.program.statement import Statement
from tiramisu_py.records import dataclass


@dataclass(frozen=True, eq=False)
class Slots:
    """The requests of one half of an exchange: `slot` maps iterations of the host to coordinates in a box of slots."""

    name: str
    slot: isl.Map
    lows: tuple[isl.PwAff, ...]
    highs: tuple[isl.PwAff, ...]
    extents: tuple[Expr, ...]

    @property
    def count(self) -> Expr:
        """The number of requests."""
        return self.product(self.extents)

    def index(self, template: Template, frame: isl.Space) -> Expr:
        """The element that the message of a host iteration uses."""
        at = sets.piecewise(sets.domain_named(self.slot, sets.tuple_name(frame)))
        forms = sets.as_function(at)
        offsets = [form.sub(sets.at_any_point(low, frame)) for form, low in zip(forms, self.lows, strict=True)]
        used = sets.graph_of(at).domain()
        places = template.places([form.gist(used).coalesce() for form in offsets])
        return self.linear(places)

    def linear(self, offsets: Sequence[Expr]) -> Expr:
        """The number of a slot, from its coordinates counted from 0."""
        number: Expr = arithmetic.number(0)
        for offset, extent in zip(offsets, self.extents, strict=True):
            if not isinstance(extent, Const) or extent.value != 1:
                number = arithmetic.added(self.product((number, extent)), offset)
        return number

    @staticmethod
    def product(factors: Sequence[Expr]) -> Expr:
        """The product of some numbers."""
        result: Expr = arithmetic.number(1)
        for factor in factors:
            if isinstance(result, Const):
                result = arithmetic.times(factor, int(result.value)) if result.value else result
            elif isinstance(factor, Const):
                result = arithmetic.times(result, int(factor.value))
            else:
                result = Binary("*", result, factor, int64)
        return result


class Requested:
    """The requests of a program."""

    def __init__(
        self, program: Program, host: HostProgram, variables: Mapping[LoopId, str], taken: frozenset[str]
    ) -> None:
        self.program = program
        self.host = host
        self.taken = set(taken)
        self.variables = sorted(variables.values())
        self.slots: dict[str, Slots] = {}
        for statement in program.acting:
            nonblocking = statement.link.message is not None and statement.link.message.asynchronous
            if nonblocking and not self._issued(statement).instances.is_empty():
                self.slots[statement.name] = self._slots(statement)

    def of(self, statement: Statement) -> Slots:
        """The requests of one half of an exchange."""
        return self.slots[statement.name]

    def around(self, body: Node) -> Node:
        """The code inside the scope of all requests."""
        for each in reversed(self.slots.values()):
            body = Requests(each.name, each.count, body)
        return body

    # -- the request of a message

    def _issued(self, statement: Statement) -> Statement:
        return self.host.program.statements[self.host.operation[statement.name]]

    def _slots(self, statement: Statement) -> Slots:
        slot = slots(self.program, statement)
        name = unique(f"{statement.name}_requests", self.taken)
        self.taken.add(name)
        used = slot.range()
        lows = [sets.smallest_coordinate(used, axis).coalesce() for axis in range(sets.size(used))]
        highs = [sets.largest(used, axis).coalesce() for axis in range(sets.size(used))]
        extents = (self._extent(sets.extent_between(a, b)) for a, b in zip(lows, highs, strict=True))
        return Slots(name, slot, tuple(lows), tuple(highs), tuple(extents))

    def _extent(self, form: isl.PwAff) -> Expr:
        context = self.program.context
        inside = form.gist(form.domain()).coalesce()
        found = sets.pieces(inside)
        if len(found) == 1 and sets.is_constant(found[0]):
            return arithmetic.number(sets.constant_of(found[0]))
        return simplified(of_params(sets.zero_elsewhere(form).gist(context), context))

    # -- waits

    def completes(self, wait: Statement) -> list[LoweredOperation]:
        """The code of a wait for messages."""
        return [
            operation
            for statement in self.program.awaited(wait)
            if statement.name in self.slots
            for operation in self._completes(wait, statement)
        ]

    def _completes(self, wait: Statement, statement: Statement) -> Iterator[LoweredOperation]:
        own = self.of(statement)
        points = pairs(self.program, wait, statement).apply_range(own.slot).coalesce()
        for number, part in enumerate(sets.basic_sets(points.domain().coalesce())):
            name = f"{wait.name}#{statement.name}#{number}"
            piece = DomainPiece(name, wait, sets.named(part, name), wait.body)
            template = Template()
            mine = sets.domain_named(points.intersect_domain(part), name)
            code = _Completing(self.program, wait, own, mine, self._loop_names(own)).code(template)
            yield LoweredOperation(piece, tuple(template.forms), code)

    def _loop_names(self, own: Slots) -> list[str]:
        taken = {*self.taken, *self.variables}
        return [unique(f"slot{axis}", taken) for axis in range(len(own.lows))]


@dataclass(frozen=True, eq=False)
class _Completing:
    """The code of one wait for one half of an exchange: ranges of slots, with loops around them if there are gaps."""

    program: Program
    wait: Statement
    slots: Slots
    points: isl.Map
    variables: Sequence[str]

    def code(self, template: Template) -> Node:
        """The code, with values from a template."""
        return PointBoxes(
            self.points, template, self.program.context, self.variables, self._fits, self._forms, self._complete,
            self.slots.slot.range(),
        ).enumerated()  # fmt: skip

    def _ranges(self, depth: int, boxes: Boxes) -> int | None:
        """The first dimension along which a box has several slots; None if the box is no contiguous range of slots."""
        sizes = [*map(sets.is_one, boxes.extents)]
        first = next((level for level, one in enumerate(sizes) if not one), None)
        if first is None:
            return len(sizes) + depth
        for level in range(first + 1, len(sizes)):
            if not self._is_full(depth + level, boxes, level):
                return None
        return depth + first

    def _is_full(self, axis: int, boxes: Boxes, level: int) -> bool:
        """Whether a box has all slots of one dimension."""
        space, low = boxes.prefixes.get_space(), boxes.lows[level]
        all_of_them = sets.extent_between(self.slots.lows[axis], self.slots.highs[axis])
        wanted = (sets.at_any_point(form, space) for form in (self.slots.lows[axis], all_of_them))
        given = (low, boxes.extents[level])
        return all(boxes.prefixes.is_subset(a.eq_set(b)) for a, b in zip(given, wanted, strict=True))

    def _fits(self, depth: int, boxes: Boxes) -> bool:
        return self._ranges(depth, boxes) is not None

    def _forms(self, depth: int, boxes: Boxes) -> list[isl.PwAff]:
        space = boxes.prefixes.get_space()
        first = [*sets.as_function(boxes.least)[:depth], *boxes.lows]  # a box may begin at an unused slot
        offsets = [form.sub(sets.at_any_point(low, space)) for form, low in zip(first, self.slots.lows, strict=True)]
        return [*(form.gist(boxes.prefixes).coalesce() for form in offsets), *boxes.extents]

    def _complete(self, depth: int, boxes: Boxes, values: Sequence[Expr]) -> Node:
        count = len(self.slots.lows)
        start = self._ranges(depth, boxes)
        assert start is not None
        number = self.slots.product(values[count + start - depth :]) if start < count else arithmetic.number(1)
        return Complete(self.slots.name, self.slots.linear(values[:count]), number, self.wait.name)
