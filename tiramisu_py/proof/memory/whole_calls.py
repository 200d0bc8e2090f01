"""Calls of C functions over whole arrays: each computes all its values, in arrays of the form that it takes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

import islpy as isl

from tiramisu_py import sets
from tiramisu_py.algorithm.declarations import Computation, StageSets
from tiramisu_py.algorithm.declare.soundness import first_pair
from tiramisu_py.algorithm.domains.affine import Affine, NotAffine
from tiramisu_py.algorithm.expressions import Access, Const, Expr, Unary
from tiramisu_py.algorithm.words.stages import StageCall
from tiramisu_py.dependence.flow import Flow
from tiramisu_py.dependence.footprints import steps_of
from tiramisu_py.errors import Violation, Witness
from tiramisu_py.program.loops import Vector
from tiramisu_py.program.program import Program
from tiramisu_py.program.statement import Statement
from tiramisu_py.program.storage import Memory, Storage, first_value
from tiramisu_py.proof.violations.condition import Sentence, Topic
from tiramisu_py.proof.violations.findings import Finding, Key, fault, wanted, words, work


def findings(flow: Flow, sought: Key | None = None) -> Iterator[Finding]:
    """Every call that would be divided, and every array that its function cannot take."""
    program = flow.accesses.program
    for statement in program.acting:
        if statement.is_call and not statement.instances.is_empty():
            yield from _in_vectors(program, statement)
            yield from _divided(flow, statement, sought)
            for array in _arrays(program, statement):
                yield from array.faults()
            yield from _elsewhere(program, statement)


def _called(statement: Statement) -> StageCall:
    assert isinstance(statement.body, StageCall)
    return statement.body


def _sets(program: Program, statement: Statement) -> StageSets:
    computation = program.algorithm.source(statement.source)
    assert isinstance(computation, Computation) and computation.stage is not None
    return computation.stage


# -- one call at a time, whole


def _in_vectors(program: Program, statement: Statement) -> Iterator[Finding]:
    for number in statement.loops:
        loop, name = program.loops[number], _called(statement).function
        if isinstance(loop.tag, Vector):
            message = (
                f"loop {loop.name} is a vector loop, and {statement.handle} calls {name} in each of its iterations"
            )
            yield fault("reach", "vector", statement, message, f"leave vectorize({loop.name}) out: calls have no lanes")


def _divided(flow: Flow, statement: Statement, sought: Key | None) -> Iterator[Finding]:
    """Values that a call computes, and that the iteration in which it runs does not ask for."""
    key = Key("divided", (work(statement),))
    if not wanted(key, sought):
        return
    program = flow.accesses.program
    each = _sets(program, statement).each
    values = sets.named(flow.accesses.values.domain(statement.source), statement.source)
    instances = statement.instances.intersect_params(program.context.params())
    point = sets.graph(sets.renamed(program.value_of(statement), statement.source), instances)
    asked = sets.graph(statement.coords, instances).reverse().apply_range(point)
    call_of = sets.graph(sets.prefix(sets.identity(values.get_space()), each), values)
    computed = asked.apply_range(call_of).apply_range(call_of.reverse())
    bad = computed.subtract(asked)
    if not bad.is_empty():
        yield Finding(key, partial(_in_part, program, statement, bad))


def _in_part(program: Program, statement: Statement, bad: isl.Map) -> Violation:
    params, _, value = first_pair(bad)
    name, source = _called(statement).function, statement.source
    witness = Witness(params, writer=(source, value), reader=(source, value))
    loops = ", ".join(program.loop_names(statement))
    where = f"an iteration of {loops}" if loops else "the schedule"
    message = (
        f"a call of {name} computes {words((source, value))}, too, but {where} asks only for a part of the values of "
        f"the call, {witness}"
    )
    repair = f"leave {source} whole: its calls can be divided only along iterators of each="
    return Violation("bounds", message, witness, repair=repair)


# -- the arrays


def _arrays(program: Program, statement: Statement) -> Iterator[_Passed]:
    call, stage = _called(statement), _sets(program, statement)
    for (name, of, access), part in zip(call.arrays, stage.parts, strict=True):
        if not of.is_stored:
            storage = program.storage_for(statement, access.source)
            yield _Passed(program, statement, name, str(access), storage, part.varying)
    source = program.algorithm.source(statement.source)
    assert isinstance(source, Computation)
    varying = ("",) * stage.each + source.iterators[stage.each :]
    own = f"{source.name}[{', '.join(source.iterators)}]"
    for name, _ in call.stage.stored:
        yield _Passed(program, statement, name, own, program.storages[statement.memory.target], varying)


class _Passed:
    """An array that a call passes: the parameter `name`, and what is passed for it, as the user writes it."""

    def __init__(
        self, program: Program, statement: Statement, name: str, given: str, storage: Storage, varying: Sequence[str]
    ) -> None:
        self.program, self.statement, self.name, self.given = program, statement, name, given
        self.storage, self.buffer = storage, program.buffers[storage.buffer]
        self.moving = [name for name in varying if name]
        self.steps = [steps_of(program, storage, k) for k, iterator in enumerate(varying) if iterator]
        self.call = _called(statement)

    def faults(self) -> Iterator[Finding]:
        """Why the function cannot take the array as it is kept; the first reason."""
        said = self._kept() or next(filter(None, map(self._along, range(len(self.steps)))), "")
        if said:
            function, kept = self.call.function, self.buffer.name
            message = f"{function} takes {self.given} for {self.name}, but {said} in {kept}"
            yield fault("reach", f"form of {self.name}", self.statement, message, self._repair())

    def _repair(self) -> str:
        own = f"keep {self.storage.source} in an array of its own, row by row, or copy it to one"
        if self._kept():
            return own
        missing = [d for d in range(len(self.steps)) if self._along(d)]
        strides = " and ".join(f'tm.stride("{self.name}", {d})' for d in missing)
        return f"let {self.call.function} take {strides}, or {own}"

    def _kept(self) -> str:
        """The fault in the place of the array altogether."""
        if self.buffer.memory in (Memory.REGISTER, Memory.SHARED):
            return f"its elements are in {self.buffer.memory.value} memory"
        for iterator, steps in zip(self.moving, self.steps, strict=True):
            if steps is None:
                return f"its elements along {iterator} are not at one distance"
            if min(steps) < 0 or not any(steps):
                return f"its elements along {iterator} are not one after another"
        if any(map(self._may_be_negative, self.buffer.strides or ())):
            return "its elements may lie in the other direction, with a negative stride,"
        return ""

    def _may_be_negative(self, stride: Expr) -> bool:
        value = Affine(self.program.algorithm.frame(None, ()), {}).value(stride)
        return not self.program.context.is_subset(value.nonneg_set().params())

    def _along(self, dimension: int) -> str:
        """The fault in the distance of neighbours along one dimension, of which the function takes no stride."""
        if dimension in self.call.stage.strides_of(self.name):
            return ""
        steps, after = self.steps[dimension], self.steps[dimension + 1 :][:1]
        assert steps is not None
        axis = _single(steps)
        if axis is None or not self._is_dense(is_last=not after):
            return f"its elements along {self.moving[dimension]} are not contiguous"
        if not after:
            last = axis == len(self.buffer.extents) - 1
            return "" if last else f"its elements along {self.moving[dimension]} are not contiguous"
        if after[0] is None or _single(after[0]) != axis + 1 or not self._fills(dimension + 1, axis + 1):
            return f"its elements along {self.moving[dimension]} are not contiguous for all sizes"
        return ""

    def _is_dense(self, is_last: bool) -> bool:
        """Whether the buffer is row by row; for the last dimension, whether its rows are contiguous."""
        given = self.buffer.strides
        return given is None or (is_last and isinstance(given[-1], Const) and given[-1].value == 1)

    def _fills(self, dimension: int, axis: int) -> bool:
        """Whether the part of each call has as many elements along a dimension as the buffer along an axis."""
        if self.program.runs_on_ranks:
            return False  # a rank has a part of the array
        ranges = _sets(self.program, self.statement).ranges[self.moving[dimension]]
        ranges = ranges.intersect_params(self.program.context.params())
        each = sets.size(ranges) - 1
        calls = sets.graph(sets.prefix(sets.identity(ranges.get_space()), each), ranges).reverse()
        (low,), (high,) = sets.component_bounds(sets.out_parts(calls, each, 1))
        count = sets.extent_between(low, high)
        extent = _form(count, self.buffer.extents[axis])
        return extent is not None and bool(count.domain().is_subset(count.eq_set(extent)))


def _single(steps: Sequence[int]) -> int | None:
    """The only axis along which steps go, by one; None for other steps."""
    return steps.index(1) if sorted(steps) == [0] * (len(steps) - 1) + [1] else None


def _form(like: isl.PwAff, extent: Expr) -> isl.PwAff | None:
    try:
        return Affine(like.get_space().domain(), {}).value(extent)
    except NotAffine:
        return None


# -- updates in place


def _elsewhere(program: Program, statement: Statement) -> Iterator[Finding]:
    """An array that is updated in place, but whose new values are kept elsewhere."""
    updated = _called(statement).updated
    if updated is None:
        return
    before, after = program.storage_for(statement, updated.source), program.storages[statement.memory.target]
    if not (program.in_scope(statement, before) and program.in_scope(statement, after)):
        return  # refused by itself
    value = program.value_of(statement)
    there, here = program.place(statement, before, value, stored=False), program.place(statement, after, value)
    same = before.buffer == after.buffer and program.loads_at(statement) == program.stores_at(statement)
    if not same or not sets.graph(there, statement.instances).is_equal(sets.graph(here, statement.instances)):
        source, function = statement.source, _called(statement).function
        message = f"{function} updates {updated.source} in place, but {source} is kept in other elements than it"
        repair = f"keep it there: {source}.store_in({updated.source}, {_elements(program, updated, before)}"
        yield fault("reach", "in place", statement, message, repair)


def _elements(program: Program, updated: Access, storage: Storage) -> str:
    """The elements of an array that is updated, the end of a call of `store_in`: they begin at 0, values elsewhere."""
    lows = first_value(storage, program.context)
    if lows is None:
        return f"[...]), with the indices with which {updated.source} is kept"
    listed = ", ".join(str(_past(index, low)) for index, low in zip(updated.indices, lows, strict=True))
    return f"[{listed}])"


def _past(index: Expr, low: Expr) -> Expr:
    """How far an index is behind the lowest one."""
    if isinstance(low, Unary):
        return index + low.operand
    if not isinstance(low, Const):
        return index - low
    return index if low.value == 0 else index + -low.value if low.value < 0 else index - low.value


# -- in the report


def _whole(program: Program) -> str:
    names = dict.fromkeys(_called(s).function for s in program.acting if s.is_call)
    return (
        f"each call of {', '.join(names)} computes all its values, in arrays of the form that it takes" if names else ""
    )


SENTENCES = (Sentence(Topic.VALUES, _whole),)
