"""Value-dependent loop bounds: conditions that compare loops' variables with loaded values become the loops' bounds.

    for p in lo .. hi: if (start[i] <= p & p < start[i + 1]) body
    -->
    if lo < hi: low = start[i]; high = start[i + 1]; for p in max(lo, low) .. min(hi, high): body

All that a loop executes has to be under the condition: several statements that share the loop, or one behind further
loops. Where the condition is on an inner loop's variable, too, the outer loop has the iterations in which the inner one
may have some, and the inner loop keeps the rest:

    for p0 in 0 .. (P + 7) // 8: for p1 in 0 .. min(8, P - 8*p0): if (8*p0 + p1 < start[i + 1]) body
    -->
    high = start[i + 1]; for p0 in 0 .. min((P + 7) // 8, (high + 7) // 8): for p1 in 0 .. min(8, .., high - 8*p0): body

A loop with partial results of its own is inside of all tests that do not depend on it, since it stores what it combines
wherever it runs. Where others remain, and an element that no term is added to may be another iteration's, the loop
has no partial results.

Where the variable is in the place of a value that never falls, its bounds are found by a binary search among the values
that the condition would load (`monotone_search`):

    for n in 0 .. N: if (start[n] <= p & p < start[n + 1]) body
    -->
    low = first n in 0 .. N with p < start[n + 1]; for n in low .. min(N, low + 1): if (start[n] <= p) body

The values are loaded once, before the loop, and only where an execution asks for them. That is said by
the loops, or by the indices, if they are inside the array: every execution that loads them is proven to be there, so
that elsewhere there is none. Nothing in the loop stores to the array.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from itertools import product

from tiramisu_py.algorithm.expressions import Binary, Const, Expr, Iter
from tiramisu_py.algorithm.stacks import deep
from tiramisu_py.algorithm.traversal import rewrite, substitute, walk
from tiramisu_py.algorithm.types import bool_, int64
from tiramisu_py.ir import Allocate, Block, Comment, Declare, Deferred, For, If, Let, Load, Node, Variable
from tiramisu_py.ir.arithmetic import build as arithmetic
from tiramisu_py.ir.arithmetic.facts import NO_FACTS, Facts
from tiramisu_py.ir.arithmetic.linear import Key, Linear, as_less, is_index, linear, number, operands
from tiramisu_py.ir.arithmetic.simplify import simplified
from tiramisu_py.ir.rewriting import buffers_in, loads_in, variables, with_children
from tiramisu_py.ir.rewriting import walk as nodes
from tiramisu_py.lower.loops.monotone_search import MonotoneTest, NeverFalls, monotone_test
from tiramisu_py.lower.loops.value_places import Declared, offset_of
from tiramisu_py.lower.statements.loop_names import unique
from tiramisu_py.program.loops import Combine, Vector
from tiramisu_py.records import dataclass


@dataclass(frozen=True, eq=False)
class _Bound:
    """A bound of a loop's variable: at least `value` (`lower`), or less than `value`.

    An `exact` one is equivalent to the condition that it comes from. `loaded` are the parts of the value that are
    loaded. One that is found by a `search` has the condition for a value.
    """

    lower: bool
    value: Expr
    exact: bool
    loaded: tuple[Expr, ...]
    search: MonotoneTest | None = None

    @property
    def key(self) -> tuple[bool, Key]:
        return self.lower, self.value.key()


#: The bounds that hold wherever a statement executes anything, by their keys; None where it executes nothing.
_Needed = dict[tuple[bool, Key], _Bound] | None


@dataclass(frozen=True, eq=False)
class _Inside:
    """The nodes between a loop and a condition in its body: loops, outermost first, and names with their values."""

    loops: tuple[For, ...] = ()
    names: Mapping[str, Expr] = field(default_factory=dict)
    hidden: frozenset[str] = frozenset()

    def within(self, node: Node) -> _Inside:
        """One statement further inside."""
        match node:
            case For():
                return replace(self, loops=(*self.loops, node))
            case Let() if is_index(node.value.dtype) and not loads_in(node.value):
                return replace(self, names={**self.names, node.variable: substitute(node.value, self.names)})
            case Let():
                return replace(self, hidden=self.hidden | {node.variable})
            case Allocate():
                return replace(self, hidden=self.hidden | {node.buffer})
        return self


@dataclass(frozen=True, eq=False)
class ValueBounds:
    """The bounds that loaded values give to the loops of a nest.

    `taken` are names that no new variable may have, `declared` says what is known of a loaded value, and `extents` are
    those of arrays that are there as a whole. Elements of an array that `never_falls` grow with their index. A loop
    that `is_unstarted` runs only if it has an iteration, and one that `is_disturbed` does not store an element to which
    it adds nothing.
    """

    taken: frozenset[str]
    declared: Declared
    never_falls: NeverFalls
    extents: Mapping[str, tuple[Expr, ...]]
    is_unstarted: Callable[[For], bool]
    is_disturbed: Callable[[For], bool]

    def tightened(self, node: Node) -> Node:
        """The nest with loaded values in the bounds of its loops, and no tests of them where the bounds say it all."""
        return _Nest(self, self.taken, frozenset(), frozenset()).tightened(node, NO_FACTS)


@dataclass(frozen=True, eq=False)
class _Nest:
    """A place in a nest: `names` are taken there, those of `values` by values that are loaded before a loop around.

    Those that are `large` may be any number of 64 bits. Loops whose variables are `searched` have the bounds that a
    search finds.
    """

    about: ValueBounds
    names: frozenset[str]
    values: frozenset[str]
    large: frozenset[str]
    searched: frozenset[str] = frozenset()

    @deep
    def tightened(self, node: Node, known: Facts) -> Node:
        """A statement with tightened loops, outermost first."""
        if isinstance(node, For):
            return self._loop(node, known)
        if isinstance(node, If):
            then = self.tightened(node.then, known.behind(node))
            other = None if node.otherwise is None else self.tightened(node.otherwise, known)
            same = then is node.then and other is node.otherwise
            return node if same else replace(node, then=then, otherwise=other)
        inside = known.inside(node)
        return with_children(node, lambda child: self.tightened(child, inside))

    def _loop(self, loop: For, known: Facts) -> Node:
        place = _Loop(self, loop)
        found = place.bounds() if loop.step == 1 and not loop.joined else []
        searches = [bound for bound in found if bound.search is not None]
        found = [bound for bound in found if bound.search is None]
        node = self._searched(place, [each for each in searches if each.lower not in {b.lower for b in found}], known)
        if node is not None:
            return node
        plain = [bound for bound in found if all(map(self._is_indexed_plainly, bound.loaded))]
        runs = place.runs(alone=len(plain) == len(found)) if found else None
        found = plain if runs is None else found
        if not found:
            return self._outside(loop, known)
        values = self._named(loop, found)
        inside = self._facts(values.values(), known)
        lower, upper = loop.lower, loop.upper
        for bound in found:
            value = _with_names(bound.value, values)
            lower = _decided(arithmetic.larger(lower, value), inside) if bound.lower else lower
            upper = upper if bound.lower else _decided(arithmetic.smaller(upper, value), inside)
        body = place.without({bound.key for bound in found if bound.exact}, values)
        names = frozenset(name for name, _ in values.values())
        large = {name for name, value in values.values() if not self.is_moderate(linear(value))}
        further = replace(self, names=self.names | names, values=self.values | names, large=self.large | large)
        node = further._outside(replace(loop, lower=lower, upper=upper, body=body), inside)
        if self.about.is_unstarted(loop):
            node = If(Binary("<", lower, upper, bool_), node)
        for name, value in reversed(values.values()):
            node = Let(name, value, node)
        if not values:
            return node
        if runs is None:
            runs = arithmetic.conjunction(self._in_arrays([value for _, value in values.values()], known))
        return node if runs is None else If(runs, node)

    def _searched(self, place: _Loop, bounds: Sequence[_Bound], known: Facts) -> Node | None:
        """A loop with bounds that are found by a search before it, one of each direction; None if there are none."""
        loop = place.loop
        made, paired = _chosen(bounds)
        runs = place.runs(alone=False, known=known.inside(loop)) if made else None
        if runs is None:
            return None
        lower, upper, before = loop.lower, loop.upper, list[Node]()
        names = self.names
        for test in (bound.search for bound in made):
            if test is not None:
                at = unique(f"{loop.variable}_{'first' if test.rising else 'end'}", names)
                step = unique(f"{at}_step", names | {at})
                names |= {at, step, f"{step}_half"}
                after = paired and not test.rising
                before.append(test.step_after(at, lower, upper) if after else test.search(at, step, lower, upper))
                lower, upper = (Variable(at, int64), upper) if test.rising else (lower, Variable(at, int64))
        body = place.without({bound.key for bound in made if bound.exact}, {})
        nest = replace(self, names=names, searched=self.searched | {loop.variable})
        node = nest._loop(replace(loop, lower=lower, upper=upper, body=body), known)
        return If(runs, Block((*before, node)))

    def _outside(self, loop: For, known: Facts) -> Node:
        """A loop inside of the tests that do not depend on it, if it combines partial results; tightened inside."""
        place = _Loop(self, loop)
        tests = place.tests() if any(each.combine is Combine.PRIVATE for each in loop.reductions) else []
        tests = [test for test in tests if self._is_indexed_plainly(test)]
        if tests:
            loop = replace(loop, body=place.untested(frozenset(test.key() for test in tests)))
        if (
            isinstance(loop.tag, Vector)
            and loop.reductions
            and _tests_values(loop.body)
            and self.about.is_disturbed(loop)
        ):
            loop = replace(loop, tag=None, reductions=())
        node = self._inside(loop, known)
        for conditions in (tests, self._in_arrays(tests, known)):
            condition = arithmetic.conjunction(conditions)
            node = node if condition is None else If(condition, node)
        return node

    def _inside(self, loop: For, known: Facts) -> Node:
        body = self.tightened(loop.body, known.inside(loop))
        if isinstance(loop.tag, Vector) and _searches(body) > _searches(loop.body):
            loop = replace(loop, tag=None, reductions=())  # each lane has a search of its own
        return loop if body is loop.body else replace(loop, body=body)

    def _named(self, loop: For, bounds: Sequence[_Bound]) -> dict[Key, tuple[str, Expr]]:
        """A name for each value that is to be loaded before the loop, by the key of the value."""
        found: dict[Key, tuple[str, Expr]] = {}
        for bound in bounds:
            for part in bound.loaded:
                if part.key() in found or not loads_in(part):
                    continue
                after = loop.variable if part is bound.value else loads_in(part)[-1].buffer.split("@")[0]
                name = f"{after}_{'low' if bound.lower else 'high'}"
                found[part.key()] = unique(name, self.names.union(n for n, _ in found.values())), part
        return found

    def _facts(self, values: Iterable[tuple[str, Expr]], known: Facts) -> Facts:
        """The facts where values have names: those declared of them."""
        for name, value in values:
            bounds = self.about.declared(value)
            if bounds is not None:
                low, high = bounds
                known = known.where(Binary("<=", low, Iter(name, int64), bool_))
                known = known.where(Binary("<", Iter(name, int64), high, bool_))
        return known

    def _is_indexed_plainly(self, value: Expr) -> bool:
        """Whether what a value loads is in arrays of known extents, at indices that load nothing."""
        loads = loads_in(value)
        return all(not loads_in(i) for load in loads for i in load.indices) and all(
            load.buffer in self.about.extents for load in loads
        )

    def _in_arrays(self, values: Iterable[Expr], known: Facts) -> Iterator[Expr]:
        """The tests, where facts do not decide them, that all loads of values are inside their arrays."""
        tests: dict[Key, Expr] = {}
        for load in (load for value in values for load in loads_in(value)):
            for index, extent in zip(load.indices, self.about.extents[load.buffer], strict=True):
                for test in (Binary("<=", number(0), index, bool_), Binary("<", index, extent, bool_)):
                    left = simplified(known.folded(test))
                    if not (isinstance(left, Const) and left.value):
                        tests[left.key()] = left
        yield from tests.values()

    def is_loaded(self, e: Expr) -> bool:
        """Whether an expression is, or contains, a loaded value."""
        return any(isinstance(part, Load) or (isinstance(part, Iter) and part.name in self.values) for part in walk(e))

    def is_moderate(self, form: Linear) -> bool:
        """Whether arithmetic of a form cannot wrap: of indices, sizes, and values in int32 or with declared bounds."""
        if form.iterators & self.large:
            return False
        known = [key for key, (atom, _) in form.terms.items() if loads_in(atom) and self._declared(atom)]
        rest = form
        for key in known:
            rest = rest.without(key)
        return rest.exact

    def _declared(self, value: Expr) -> bool:
        found = self.about.declared(value)
        return found is not None and all(linear(each).exact for each in found)


@dataclass(frozen=True, eq=False)
class _Loop:
    """The bounds of one loop."""

    nest: _Nest
    loop: For

    def bounds(self) -> list[_Bound]:
        """The bounds that hold wherever the body executes anything."""
        found = self._needed(self.loop.body, _Inside()) or {}
        if not found:
            return []
        stored = _stored(self.loop.body)
        return [bound for bound in found.values() if all(buffers_in(part).isdisjoint(stored) for part in bound.loaded)]

    def runs(self, alone: bool, known: Facts = NO_FACTS) -> Expr | None:
        """Whether some execution asks for the values of the bounds: what the loops say; None if they do not.

        If only one statement is inside `alone`, its loops say it; of several, one of them has to run. Facts may be
        `known` by which loops inside always have an iteration.
        """
        guards = [node for node in nodes(self.loop.body) if isinstance(node, If) and loads_in(node.condition)]
        found = (
            None if alone and len(guards) != 1 else self._runs(self.loop.body, frozenset({self.loop.variable}), known)
        )
        if found is None:
            return None
        return arithmetic.conjunction([Binary("<", self.loop.lower, self.loop.upper, bool_), *found])

    @deep
    def _runs(self, node: Node, changing: frozenset[str], known: Facts) -> list[Expr] | None:
        match node:
            case If(otherwise=None):
                if loads_in(node.condition):
                    return []
                inside = None if changing & variables(node.condition) else self._runs(node.then, changing, known)
                return None if inside is None else [node.condition, *inside]
            case Let():
                return self._runs(node.body, changing | {node.variable}, known)
            case For():
                begun: list[Expr] = [Binary("<", node.lower, node.upper, bool_)]
                if changing & (variables(node.lower) | variables(node.upper)):
                    always = simplified(known.folded(begun.pop()))
                    if not (isinstance(always, Const) and always.value):
                        return None
                inside = self._runs(node.body, changing | {node.variable}, known.inside(node))
                return None if inside is None else [*begun, *inside]
            case Allocate():
                return self._runs(node.body, changing, known)
            case Block():
                children = [self._runs(child, changing, known) for child in node.body if not isinstance(child, Comment)]
                whole = [found for found in children if found is not None]
                if len(whole) < len(children) or not whole:
                    return None
                if not all(whole):
                    return []
                either: Expr | None = None
                for conditions in whole:
                    one = arithmetic.conjunction(conditions)
                    assert one is not None
                    either = one if either is None else Binary("|", either, one, bool_)
                return [] if either is None else [either]
        return None

    @deep
    def _needed(self, node: Node, inside: _Inside) -> _Needed:
        match node:
            case Comment():
                return None
            case Block():
                return _common(self._needed(child, inside) for child in node.body)
            case If():
                own = self._own(node, inside)
                then = self._needed(node.then, inside)
                if node.otherwise is None:
                    return {**(then or {}), **own}
                both = _common([{**(then or {}), **own}, self._needed(node.otherwise, inside)])
                return both or {}
            case For() | Let() | Allocate():
                return self._needed(node.body, inside.within(node))
        return {}

    def _own(self, guard: If, inside: _Inside) -> dict[tuple[bool, Key], _Bound]:
        found = (self.bound(condition, inside) for condition in arithmetic.conjuncts(guard.condition))
        return {bound.key: bound for bound in found if bound is not None}

    def tests(self) -> list[Expr]:
        """The conditions on values, wherever the body executes anything, that do not depend on the loop."""
        stored = _stored(self.loop.body)
        found = self._tested(self.loop.body, frozenset({self.loop.variable})) or {}
        return [test for test in found.values() if buffers_in(test).isdisjoint(stored)]

    @deep
    def _tested(self, node: Node, changing: frozenset[str]) -> dict[Key, Expr] | None:
        match node:
            case Comment():
                return None
            case Block():
                found: dict[Key, Expr] | None = None
                for each in (self._tested(child, changing) for child in node.body):
                    if each is not None:
                        found = each if found is None else {key: e for key, e in found.items() if key in each}
                return found
            case If(otherwise=None):
                parts = (e for e in arithmetic.conjuncts(node.condition) if self.nest.is_loaded(e))
                own = {e.key(): e for e in parts if changing.isdisjoint(variables(e) | buffers_in(e))}
                return {**(self._tested(node.then, changing) or {}), **own}
            case For() | Let():
                return self._tested(node.body, changing | {node.variable})
            case Allocate():
                return self._tested(node.body, changing | {node.buffer})
        return {}

    def untested(self, keys: frozenset[Key]) -> Node:
        """The body without some of its conditions."""
        return _untested(self.loop.body, keys)

    def without(self, exact: set[tuple[bool, Key]], values: Mapping[Key, tuple[str, Expr]]) -> Node:
        """The body without the conditions that some exact bounds say, and with names for values in the others."""
        return self._without(self.loop.body, _Inside(), exact, values)

    @deep
    def _without(
        self, node: Node, inside: _Inside, exact: set[tuple[bool, Key]], values: Mapping[Key, tuple[str, Expr]]
    ) -> Node:
        if not isinstance(node, If):
            further = inside.within(node)
            return with_children(node, lambda child: self._without(child, further, exact, values))
        kept = []
        for condition in arithmetic.conjuncts(node.condition):
            bound = self.bound(condition, inside)
            if bound is None or not bound.exact or bound.key not in exact or node.otherwise is not None:
                kept.append(_with_names(condition, values))
        then = self._without(node.then, inside, exact, values)
        other = None if node.otherwise is None else self._without(node.otherwise, inside, exact, values)
        rest = arithmetic.conjunction(kept)
        return then if rest is None else replace(node, condition=rest, then=then, otherwise=other)

    def bound(self, condition: Expr, inside: _Inside) -> _Bound | None:
        """A condition in the body as a bound of the loop's variable by loaded values, or None."""
        if not isinstance(condition, Binary) or not self.nest.is_loaded(condition):
            return None
        condition = substitute(condition, inside.names)
        assert isinstance(condition, Binary)
        small, large, strict = as_less(condition)
        if small is None or large is None or small.dtype != int64 or large.dtype != int64:
            return None
        used = variables(condition) | buffers_in(condition)
        if used & inside.hidden:
            return None
        if not used & {each.variable for each in inside.loops}:
            found = self._plain(small, large, strict)
            if found is not None:
                return found
        form = linear(large).plus(linear(small), -1).plus(Linear({}, -strict))
        return self._linear(form, inside) or self._monotone(small, large, strict, inside)

    def _monotone(self, small: Expr, large: Expr, strict: int, inside: _Inside) -> _Bound | None:
        """The bound that a search finds where the variable is in the place of a value that never falls."""
        nest, variable = self.nest, self.loop.variable
        if variable in nest.searched or isinstance(self.loop.tag, Vector):
            return None
        test = monotone_test(small, large, strict, variable, inside.loops, nest.about.never_falls)
        if test is None or not (nest.is_moderate(linear(test.small)) and nest.is_moderate(linear(test.large))):
            return None
        return _Bound(test.rising, test.condition, test.exact, (test.condition,), test)

    def _plain(self, small: Expr, large: Expr, strict: int) -> _Bound | None:
        """A bound by one side of a comparison, whose other side is the variable, or that and a number."""
        name = self.loop.variable
        offset = offset_of(large, name)
        if offset is not None and self._is_value(small):  # small <= v + offset
            value = arithmetic.plus(small, strict - offset)
            return _Bound(True, value, True, (value,))
        offset = offset_of(small, name)
        if offset is not None and self._is_value(large):  # v + offset < large
            value = arithmetic.plus(large, 1 - strict - offset)
            return _Bound(False, value, True, (value,))
        return None

    def _is_value(self, e: Expr) -> bool:
        return self.nest.is_loaded(e) and self.loop.variable not in variables(e)

    def _linear(self, form: Linear, inside: _Inside) -> _Bound | None:
        """The bound that follows from ``form >= 0`` in some iteration of the loops inside."""
        if not self.nest.is_moderate(form):
            return None
        changing = {self.loop.variable, *(each.variable for each in inside.loops)}
        own = Iter(self.loop.variable, int64)
        for found in _outermost(form, inside.loops, changing):
            factor, rest = found.factor(own), found.without(own.key())
            atoms = tuple(atom for atom, _ in rest.terms.values() if self.nest.is_loaded(atom))
            if factor == 0 or not atoms or rest.iterators & changing or not self.nest.is_moderate(rest):
                continue
            # factor * v >= -rest, or -factor * v < rest + 1
            whole = rest.times(-1).plus(Linear({}, factor - 1)) if factor > 0 else rest.plus(Linear({}, -factor))
            value = arithmetic.floor_divided(whole.expression(), abs(factor))
            return _Bound(factor > 0, value, found is form, atoms)
        return None


def _chosen(searched: Sequence[_Bound]) -> tuple[list[_Bound], bool]:
    """The bounds to search for, a lower and an upper one at most, and whether the upper one is a step after the lower.

    The others stay conditions: those that say less than their condition are chosen last.
    """
    lower, upper = ([bound for bound in searched if bound.lower is is_lower] for is_lower in (True, False))
    for low, high in product(lower, upper):
        if low.search is not None and high.search is not None and low.search.ends_after(high.search):
            return [low, high], True
    return [max(found, key=lambda bound: bound.exact) for found in (lower, upper) if found], False


def _searches(node: Node) -> int:
    """How many bounds in a statement are found by a search: the names whose values change."""
    return sum(isinstance(inner, Declare) for inner in nodes(node))


def _decided(extremum: Expr, known: Facts) -> Expr:
    """A maximum or minimum, or the operand that it is by the facts."""
    found = known.decided(extremum)
    return extremum if found is None else found


@deep
def _untested(node: Node, keys: frozenset[Key]) -> Node:
    node = with_children(node, lambda child: _untested(child, keys))
    if not isinstance(node, If) or node.otherwise is not None:
        return node
    rest = arithmetic.conjunction(e for e in arithmetic.conjuncts(node.condition) if e.key() not in keys)
    return node.then if rest is None else replace(node, condition=rest)


def _tests_values(node: Node) -> bool:
    """Whether a statement inside is under a condition on values, and may not run where that does not hold."""
    guards = (inner for inner in nodes(node) if isinstance(inner, If) and not inner.anywhere)
    return any(loads_in(guard.condition) for guard in guards)


def _common(needed: Iterable[_Needed]) -> _Needed:
    """The bounds that hold in all of some statements in sequence; those that execute nothing do not count."""
    found: _Needed = None
    for each in needed:
        if each is not None:
            found = each if found is None else {key: bound for key, bound in found.items() if key in each}
    return found


def _outermost(form: Linear, loops: Sequence[For], changing: set[str]) -> Iterator[Linear]:
    """Forms that one does not exceed, whatever the loops inside are, without their variables."""
    if not loops:
        yield form
        return
    variable = Iter(loops[-1].variable, int64)
    factor = form.factor(variable)
    if factor == 0:
        yield from _outermost(form, loops[:-1], changing)
        return
    for most in _extremes(loops[-1], factor > 0, changing):
        yield from _outermost(form.without(variable.key()).plus(most, factor), loops[:-1], changing)


def _extremes(loop: For, most: bool, changing: set[str]) -> list[Linear]:
    """Forms that the variable of a loop does not exceed (or is never below): first a number, or what changes least."""
    parts = operands("min", loop.upper) if most else operands("max", loop.lower)
    forms = [form for part in parts if (form := linear(part)).exact]
    found = sorted(forms, key=lambda form: (len(form.iterators & changing), len(form.terms)))
    return [form.plus(Linear({}, -1)) if most else form for form in found]


def _stored(node: Node) -> set[str]:
    """The arrays that a statement may change, and other names that are no loads."""
    found: set[str] = set()
    for inner in nodes(node):
        for name in (*inner.roles.names, *inner.roles.reads):
            held = getattr(inner, name)
            found.update((held,) if isinstance(held, str) else held)
        if isinstance(inner, Deferred):
            found.add(inner.store.buffer)
    return found


def _with_names(e: Expr, values: Mapping[Key, tuple[str, Expr]]) -> Expr:
    """An expression with the names of values for these values."""

    def change(part: Expr) -> Expr | None:
        found = values.get(part.key()) if part.dtype == int64 else None
        return None if found is None else Iter(found[0], int64)

    return rewrite(e, change)
