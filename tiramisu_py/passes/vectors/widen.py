"""One strip of a vector loop: its body for all lanes.

Statements that cannot be computed on all lanes at once become loops over the lanes: the iterations of a vector loop
have no order, so each statement may run for all lanes before the next.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import reduce

from tiramisu_py.algorithm.expressions import (
    COMPARISONS,
    Binary,
    Call,
    Cast,
    Const,
    Expr,
    Iter,
    Select,
    Unary,
    as_typed,
    constant,
)
from tiramisu_py.algorithm.stacks import deep, deep_nest
from tiramisu_py.algorithm.traversal import rewrite
from tiramisu_py.algorithm.traversal import walk as parts
from tiramisu_py.algorithm.types import bool_, int64
from tiramisu_py.ir import (
    Allocate,
    Assign,
    Block,
    Comment,
    Deferred,
    For,
    If,
    Lane,
    Let,
    Load,
    Node,
    Prefetch,
    Ramp,
    Store,
    Variable,
)
from tiramisu_py.ir.arithmetic.lanes import MOST_ARGUMENTS, Lanes, guards, is_half
from tiramisu_py.ir.arithmetic.linear import along_lanes, is_index, linear, number
from tiramisu_py.ir.arithmetic.simplify import simplified, simplify
from tiramisu_py.ir.expressions import filled_load
from tiramisu_py.ir.rewriting import EMPTY, block, expressions, rewrite_expressions, substitute, walk, with_children
from tiramisu_py.records import dataclass

#: How remarks begin, and some reasons.
BY_LANES = "lane by lane"
HALF = "a function of 16-bit floats has no vectors"
MIXED = "where a condition holds for some lanes of a vector only"
#: With this many conditions, the lanes are computed at once only where all hold: one test in the place of 2 ** n.
MANY_CHOICES = 3


@dataclass(frozen=True)
class Strips:
    """Turns the body of a strip, its loop variable already a `Ramp`, into vector statements and loops over lanes."""

    width: int
    lane: str
    reduced: frozenset[str]
    atomic: frozenset[str]

    @deep_nest
    def vectors(self, node: Node, lanes: Lanes) -> Node:
        """The statement for all lanes."""
        match node:
            case Block():
                return block(self.vectors(child, lanes) for child in node.body)
            case Comment() | Prefetch():
                return node
            case Let():
                return self._let(node, lanes)
            case Assign():
                return (
                    node if lanes.vectorisable(node.value) else self.by_lanes(node, lanes, obstacle(node.value, lanes))
                )
            case Store():
                return self._store(node, lanes)
            case Deferred():
                if self._is_filled(node.store, lanes):
                    return node
                whole = self._store(node.store, lanes)
                if isinstance(whole, Store):
                    return replace(node, store=whole)
                return self.by_lanes(node, lanes, _why(whole))
            case Allocate():
                return self._allocate(node, lanes)
            case If() if lanes.of(node.condition) > 1:
                return self._guard(node, lanes)
        uniform = all(lanes.of(e) == 1 for e in _controls(node))
        if not uniform:
            return self.by_lanes(node, lanes, "the bounds of a loop inside differ between the lanes")
        return with_children(node, lambda child: self.vectors(child, lanes))

    def _let(self, node: Let, lanes: Lanes) -> Node:
        if not lanes.vectorisable(node.value):
            return self.by_lanes(node, lanes, obstacle(node.value, lanes))
        if lanes.of(node.value) > 1 and _is_place(node):
            return self.vectors(substitute(node.body, {node.variable: node.value}), lanes)
        inside = lanes.with_variable(node.variable, lanes.of(node.value))
        return replace(node, body=self.vectors(node.body, inside))

    def _store(self, node: Store, lanes: Lanes) -> Node:
        uniform = all(lanes.of(index) == 1 for index in node.indices)
        private = lanes.of_element(node.buffer, len(node.indices)) > 1
        target = Load(node.buffer, node.indices, node.value.dtype)
        whole = lanes.vectorisable(node.value, target) and all(map(lanes.vectorisable, node.indices))
        if node.update is not None and not self._independent(node):
            return self.by_lanes(node, lanes, "the lanes may add to the same element")
        if uniform != private:
            return self.by_lanes(node, lanes, "the lanes store to one element")
        if is_half(node.value.dtype) and not lanes.halves:
            return self.by_lanes(node, lanes, HALF)
        return node if whole else self._choice(node, lanes)

    def _is_filled(self, node: Store, lanes: Lanes) -> bool:
        """Whether a store is a copy of neighbours, with zeros where a condition of the lanes does not hold."""
        load = filled_load(node.value)
        if load is None or node.update is not None or isinstance(node.value, Load):
            return False
        return lanes.of(load) == self.width and all(map(lanes.vectorisable, (*node.indices, *load.indices)))

    def _choice(self, node: Store, lanes: Lanes) -> Node:
        """A store whose value has selects by lane that guard loads: lane by lane only where the lanes differ."""
        choices = _outermost_choices(node.value, lanes)
        if not choices:
            return self.by_lanes(node, lanes, obstacle(node.value, lanes))
        if len({choice.condition.key() for choice in choices}) >= MANY_CHOICES:
            return self._all_or_each(node, lanes, choices)
        condition = choices[0].condition

        def taking(truth: bool) -> Node:
            def taken(e: Expr) -> Expr | None:
                if not isinstance(e, Select) or e.condition.key() != condition.key():
                    return None
                return as_typed(rewrite(e.yes if truth else e.no, taken), e.dtype)

            return self._store(replace(node, value=rewrite(node.value, taken)), lanes)

        return self._tested(condition, lanes, taking(True), taking(False), self.by_lanes(node, lanes, MIXED))

    def _all_or_each(self, node: Store, lanes: Lanes, choices: Sequence[Select]) -> Node:
        """A store of many choices: on all lanes where all conditions hold in all of them, else lane by lane."""
        tests = {choice.condition.key(): in_all_lanes(choice.condition, lanes, self.width) for choice in choices}
        condition = simplified(reduce(lambda a, b: Binary("&", a, b, bool_), tests.values()))
        by_lanes = self.by_lanes(node, lanes, MIXED)
        if constant(condition) == 0:
            return by_lanes

        def taken(e: Expr) -> Expr | None:
            if not isinstance(e, Select) or e.condition.key() not in tests:
                return None
            return as_typed(rewrite(e.yes, taken), e.dtype)

        return If(condition, self._store(replace(node, value=rewrite(node.value, taken)), lanes), by_lanes)

    def _guard(self, node: If, lanes: Lanes) -> Node:
        """A guard whose condition has lanes: lane by lane only where the lanes differ, unless it may be a choice."""
        chosen = self._chosen(node, lanes)
        if chosen is not None:
            return chosen
        then = self.vectors(node.then, lanes)
        otherwise = EMPTY if node.otherwise is None else self.vectors(node.otherwise, lanes)
        return self._tested(node.condition, lanes, then, otherwise, self.by_lanes(node, lanes, MIXED))

    def _chosen(self, node: If, lanes: Lanes) -> Node | None:
        """An update under a guard as one store of all lanes, of the old element where the guard does not hold.

        A partial result of the lanes stays as it is there. None if the guard excludes more than the update, or not all
        lanes can be computed at once.
        """
        lines = node.then.body if isinstance(node.then, Block) else (node.then,)
        before, store = lines[:-1], lines[-1] if lines else None
        if not node.anywhere or node.otherwise is not None or not isinstance(store, Store | Assign):
            return None
        if not all(isinstance(line, Comment | Prefetch) for line in before):
            return None
        if guards(node.condition) or not lanes.vectorisable(node.condition):
            return None
        if isinstance(store, Assign):
            chosen = _where(node.condition, store.value, Variable(store.variable, store.value.dtype))
            return block((*before, replace(store, value=chosen))) if lanes.vectorisable(chosen) else None
        if not self._independent(store):
            return None
        old = Load(store.buffer, store.indices, store.value.dtype)
        value = Select(node.condition, store.value, old, store.value.dtype)
        whole = self._store(replace(store, value=value, update=None), lanes)
        return block((*before, whole)) if isinstance(whole, Store) else None

    def _tested(self, condition: Expr, lanes: Lanes, yes: Node, no: Node, by_lanes: Node) -> Node:
        in_none = in_no_lane(condition, lanes, self.width)
        in_all = in_all_lanes(condition, lanes, self.width)
        mixed = by_lanes if constant(in_all) == 0 else If(in_all, yes, by_lanes)
        return mixed if constant(in_none) == 0 else If(in_none, no, mixed)

    def _independent(self, node: Store) -> bool:
        """Whether the lanes of an update do not need each other's results."""
        if node.buffer in self.atomic or node.atomic:
            return False
        return node.buffer not in self.reduced or any(map(_apart, node.indices))

    def _allocate(self, node: Allocate, lanes: Lanes) -> Node:
        """A buffer of the strip: each element becomes a vector, one lane for each lane's own buffer."""
        stored = is_half(node.dtype) and not lanes.halves
        if stored or any(lanes.of(extent) > 1 for extent in node.extents):
            return self.by_lanes(node, lanes, HALF if stored else "its size differs between the lanes")
        inside = lanes.with_buffer(node.buffer, len(node.extents), self.width)
        return replace(node, lanes=self.width, body=self.vectors(node.body, inside))

    def by_lanes(self, node: Node, lanes: Lanes, why: str) -> Node:
        """The statement in a loop over the lanes, below a remark that says why."""
        lane = Iter(self.lane, int64)

        def of_lane(e: Expr) -> Expr | None:
            match e:
                case Ramp():
                    base, step = along_lanes(e) or (e.base, 1)
                    return simplified(base + number(step) * lane)
                case Iter() if lanes.variables.get(e.name, 1) > 1:
                    return Lane(e, lane, e.dtype)
                case Load() if lanes.of_element(e.buffer, len(e.indices)) > 1:
                    return Load(e.buffer, (*(rewrite(i, of_lane) for i in e.indices), lane), e.dtype)
            return None

        body = _stores_of_lane(rewrite_expressions(node, of_lane), lane, lanes)
        return block((Comment(f"{BY_LANES}: {why}"), For(self.lane, number(0), number(self.width), simplify(body))))


def _outermost_choices(value: Expr, lanes: Lanes) -> list[Select]:
    """The selects by lane that guard loads, without those inside of others."""
    found: list[Select] = []
    waiting = [value]
    while waiting:
        e = waiting.pop()
        if isinstance(e, Select) and lanes.of(e.condition) > 1 and guards(e.condition):
            found.append(e)
        else:
            waiting += reversed(e.children())
    return found


def _where(condition: Expr, value: Expr, kept: Expr) -> Expr:
    """The new value of what has the value `kept`, if it is updated under a condition only.

    Otherwise -0.0, or 0, is added (or it is multiplied by 1), which leaves all values as they are, bit for bit; with
    other operators the value is kept.
    """
    if isinstance(value, Binary) and value.op in ("+", "*") and value.left.key() == kept.key():
        none = 1 if value.op == "*" else -0.0 if value.dtype.is_float else 0
        return replace(value, right=Select(condition, value.right, Const(none, value.dtype), value.dtype))
    return Select(condition, value, kept, value.dtype)


def without_branches(node: Node) -> Node:
    """The statement with choices in the place of guards whose updates may run anywhere, one line each."""
    node = with_children(node, without_branches)
    if not isinstance(node, If) or not node.anywhere or node.otherwise is not None or not isinstance(node.then, Store):
        return node
    store = node.then
    kept = Load(store.buffer, store.indices, store.value.dtype)
    return replace(store, value=_where(node.condition, store.value, kept))


def obstacle(e: Expr, lanes: Lanes) -> str:
    """Why an expression cannot be computed on all lanes at once, in words."""
    for part in parts(e):
        match part:
            case _ if lanes.of(part) > 1 and lanes.are_halves_apart(part):
                return HALF
            case Call() if lanes.of(part) > 1 and (len(part.arguments) > MOST_ARGUMENTS or part.extern is not None):
                return f"{part.function} takes no vectors"
            case Load() if lanes.of_element(part.buffer, len(part.indices)) > 1:
                if any(lanes.of(index) > 1 for index in part.indices):
                    return "each lane has an index of its own into an array of vectors"
            case Select() if lanes.of(part.condition) > 1 and guards(part.condition, lanes.values):
                return "a choice between the lanes guards what they read"
    return "a part of the value has no vectors"


def _why(node: Node) -> str:
    """The reason in the remark of a statement that is computed lane by lane."""
    remarks = (inner.text for inner in walk(node) if isinstance(inner, Comment))
    return next((text.removeprefix(f"{BY_LANES}: ") for text in remarks if text.startswith(BY_LANES)), MIXED)


def _is_place(node: Let) -> bool:
    """Whether a definition is an element of an array, as an index of the one store that follows.

    Index arithmetic takes variables for the same in all lanes, so that such an index is written where it is used.
    """
    stores = [inner for inner in walk(node.body) if isinstance(inner, Store)]
    others = any(isinstance(inner, For | Assign) for inner in walk(node.body))
    value = node.value
    while isinstance(value, Cast) or (isinstance(value, Binary) and isinstance(value.right, Const)):
        value = value.operand if isinstance(value, Cast) else value.left
    return is_index(node.value.dtype) and len(stores) == 1 and not others and isinstance(value, Load)


def _apart(index: Expr) -> bool:
    """Whether an index differs from lane to lane."""
    spaced = along_lanes(index)
    return spaced is not None and spaced[1] != 0


def _controls(node: Node) -> Iterable[Expr]:
    """The expressions that control the statements inside: conditions and bounds."""
    return () if isinstance(node, Block) else expressions(node)


def _stores_of_lane(node: Node, lane: Expr, lanes: Lanes) -> Node:
    if isinstance(node, Store) and lanes.of_element(node.buffer, len(node.indices)) > 1:
        return replace(node, indices=(*node.indices, lane))
    return with_children(node, lambda child: _stores_of_lane(child, lane, lanes))


# -- scalar tests for whether a condition is the same in all lanes of a vector
#
# Over the lanes i = c .. c + 15, ``i >= 1`` holds in all if ``c >= 1``, and in none if ``c + 15 < 1``. Such tests find
# the interior of a stencil with a boundary condition, strip by strip.


_OPPOSITE = {"<": ">=", "<=": ">", ">": "<=", ">=": "<", "==": "!=", "!=": "=="}
_FALSE = Const(False, bool_)


def in_all_lanes(condition: Expr, lanes: Lanes, width: int) -> Expr:
    """A condition without lanes that holds only where `condition` holds in all lanes."""
    return simplified(_all(condition, True, lanes, width))


def in_no_lane(condition: Expr, lanes: Lanes, width: int) -> Expr:
    """A condition without lanes that holds only where `condition` holds in no lane."""
    return simplified(_all(condition, False, lanes, width))


@deep
def _all(e: Expr, value: bool, lanes: Lanes, width: int) -> Expr:
    """A scalar test that holds only if a condition has the given value in all lanes; false if none is known."""
    if lanes.of(e) == 1:
        return e if value else Unary("~", e, bool_)
    match e:
        case Unary(op="~"):
            return _all(e.operand, not value, lanes, width)
        case Binary(op="&" | "|") if e.dtype.is_bool:
            op = e.op if value else {"&": "|", "|": "&"}[e.op]
            return Binary(op, _all(e.left, value, lanes, width), _all(e.right, value, lanes, width), bool_)
        case Binary() if e.op in COMPARISONS and is_index(e.left.dtype) and is_index(e.right.dtype):
            return _compared(e.op if value else _OPPOSITE[e.op], e.left, e.right, lanes, width)
    return _FALSE


def _compared(op: str, left: Expr, right: Expr, lanes: Lanes, width: int) -> Expr:
    """A scalar test for ``left op right`` in all lanes: an evenly growing difference is extreme at either end.

    There is none for variables with a value of its own in each lane.
    """
    spaced = along_lanes(Binary("-", left, right, int64))
    exact = linear(left, lanes=True).exact and linear(right, lanes=True).exact
    if spaced is None or not exact or lanes.of(spaced[0]) > 1:
        return _FALSE
    first, step = spaced
    last: Expr = Binary("+", first, number(step * (width - 1)), int64)
    least, most = (first, last) if step >= 0 else (last, first)
    zero = number(0)
    match op:
        case "<" | "<=":
            return Binary(op, most, zero, bool_)
        case ">" | ">=":
            return Binary(op, least, zero, bool_)
        case "!=":
            return Binary("|", Binary(">", least, zero, bool_), Binary("<", most, zero, bool_), bool_)
    return Binary("==", first, zero, bool_) if step == 0 else _FALSE
