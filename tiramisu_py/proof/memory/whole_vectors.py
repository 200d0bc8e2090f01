"""Condition: if a vector loop runs only whole vectors, the iterations past its end have no effect.

The algorithm has no such iteration: it may load any value, and what it stores is no value of the algorithm. So

- it stores to a buffer of the program's own, to elements that exist, and nothing reads one of them afterwards unless a
  value has been stored there in between;
- it loads from elements that exist, whatever is in them;
- nothing in another iteration of a concurrent loop stores to, or reads, what it touches;
- its operators have a result for any operands.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import islpy as isl

from tiramisu_py import sets
from tiramisu_py.algorithm.domains.affine import Affine, NotAffine
from tiramisu_py.algorithm.expressions import Binary, Call, Cast, Const, Expr, Unary
from tiramisu_py.algorithm.traversal import accesses, walk
from tiramisu_py.dependence.access import MemoryAccess
from tiramisu_py.dependence.accesses import MemoryAccesses
from tiramisu_py.dependence.flow import Flow
from tiramisu_py.dependence.vector_padding import padded_loop, past_the_end
from tiramisu_py.errors import Violation, Witness
from tiramisu_py.program.loops import Loop, Vector
from tiramisu_py.program.program import Program, adds_up
from tiramisu_py.program.statement import Role, Statement
from tiramisu_py.program.storage import Buffer, Memory
from tiramisu_py.proof.memory.places import extent_box, outside
from tiramisu_py.proof.memory.races import pair_spots, race_at, unordered
from tiramisu_py.proof.memory.values import first_spot
from tiramisu_py.proof.violations.condition import Sentence, Topic
from tiramisu_py.proof.violations.findings import Finding, Key, Spot, reading, wanted, words, work
from tiramisu_py.records import dataclass

#: Integer operators that have no result for some operands.
_DIVISIONS = ("//", "%")
_SHIFTS = ("<<", ">>")


def findings(flow: Flow, sought: Key | None = None) -> Iterator[Finding]:
    """Every effect that an iteration past the end of a vector loop would have on others."""
    for statement in flow.accesses.program.acting:
        key = Key("past the end", (work(statement),))
        for violation in _of(flow, statement) if wanted(key, sought) else ():
            yield Finding.of(key, violation)


def _of(flow: Flow, statement: Statement) -> Iterator[Violation]:
    program = flow.accesses.program
    loop = padded_loop(program, statement)
    if loop is None or statement.instances.intersect_params(program.context).is_empty():
        return
    reason = _reason(flow, statement, loop)
    past = None if reason else past_the_end(program, statement)
    if not reason and past is None:
        reason = f"its iterations do not fill vectors of {_width(loop)}, as tiles of other sizes do not"
    if reason:
        message = f"loop {loop.name} of {statement.handle} cannot run past its end: {reason}"
        yield Violation("bounds", message, Witness({}), repair=_mask(loop))
    elif past is not None and not past.instances.is_empty():
        yield from _Lanes(flow, statement, past, loop).violations()


def _width(loop: Loop) -> int:
    return loop.tag.width if isinstance(loop.tag, Vector) else 0


def _mask(loop: Loop) -> str:
    return f'vectorize({loop.name}, {_width(loop)}, remainder="mask") accesses only the elements of its iterations'


# -- what is never padded


def _reason(flow: Flow, statement: Statement, loop: Loop) -> str:
    """Why the iterations of a statement past the end of a loop cannot be run; "" where they may be."""
    program = flow.accesses.program
    buffer = program.buffers[program.storages[statement.memory.target].buffer]
    if program.runs_on_ranks or statement.link.message is not None:
        return "each rank computes only its own part"
    if statement.link.transfer is not None or buffer.memory not in (Memory.HOST, Memory.REGISTER):
        return f"{buffer.name} is not in the host's memory alone"
    if statement.role not in (Role.VALUE, Role.INIT, Role.UPDATE, Role.COPY):
        return "it combines partial results, all of which must exist"
    if adds_up(program, statement, loop.id):
        return "it runs over the terms of a reduction, and extra iterations would add terms"
    if buffer.argument:
        return f"it stores to {buffer.name}, an array of the caller, where there is no room past the end"
    if statement.loops[-1] != loop.id:
        return f"there are other loops inside of {loop.name}"
    if statement.guards:
        return "its iteration domain depends on values"
    return _of_body(flow, statement)


def _of_body(flow: Flow, statement: Statement) -> str:
    if statement.role not in (Role.VALUE, Role.UPDATE):
        return ""
    reader = Affine(flow.accesses.program.algorithm.frame(statement.source, _names(flow, statement)))
    for access in accesses(statement.body):
        for index in access.indices:
            if not _is_affine(reader, index):
                return f"{access} has an index that is a value, and could be anywhere"
    for e in walk(statement.body):
        if isinstance(e, Call) and e.extern is not None:
            return f"the C function {e.function} may not take any value"
        if isinstance(e, Binary) and e.dtype.is_integer and not _has_result(e):
            return f"{e} has no result for some values"
    return ""


def _names(flow: Flow, statement: Statement) -> tuple[str, ...]:
    return flow.accesses.program.point_names(statement)


def _is_affine(reader: Affine, index: Expr) -> bool:
    if any(isinstance(e, Cast | Unary) for e in walk(index)):
        return False
    try:
        reader.single(index)
    except NotAffine:
        return False
    return True


def _has_result(e: Binary) -> bool:
    """Whether an operator of integers has a result whatever its operands are."""
    known = e.right.value if isinstance(e.right, Const) else None
    if e.op in _DIVISIONS:
        return known is not None and known > 0
    return e.op not in _SHIFTS or (known is not None and 0 <= known < e.dtype.bits)


# -- what is accessed


@dataclass(frozen=True, eq=False)
class _Lanes:
    """The iterations of a statement `past` the end of a loop."""

    flow: Flow
    statement: Statement
    past: Statement
    loop: Loop

    def violations(self) -> Iterator[Violation]:
        whole = MemoryAccesses(self.flow.accesses.program, self.flow.accesses.values)
        write = whole.write(self.past)
        reads = [whole.read(self.past, source) for source in whole.sources(self.past)]
        accumulator = whole.accumulator(self.past) if self.past.role is Role.UPDATE else None
        found = [access for access in (write, accumulator, *reads) if access is not None]
        for access in found:
            bad = outside(access, extent_box(self.flow.accesses.program, access.buffer))
            if not bad.is_empty():
                yield self._beyond(access, bad)
                return
        for access in found:
            yield from self._conflicts(access)
            if access.buffer.dtype.is_bool and not access.is_write and not access.buffer.argument:
                yield self._undefined(access)

    def _undefined(self, access: MemoryAccess) -> Violation:
        message = (
            f"past the end of loop {self.loop.name}, {self.statement.handle} reads {access.buffer.name}, where there "
            "may be no truth value yet"
        )
        return Violation("bounds", message, Witness({}), repair=_mask(self.loop))

    # -- elements

    def _beyond(self, access: MemoryAccess, bad: isl.Set) -> Violation:
        spot = first_spot(access, bad)
        shape = f"[{', '.join(map(str, access.buffer.extents))}]"
        does = "stores to" if access.is_write else "reads"
        witness = Witness(spot.params, element=spot.element)
        message = (
            f"past the end of loop {self.loop.name}, the last vector of {self.statement.handle} {does} "
            f"{words(spot.element)}, but {access.buffer.name} has the shape {shape}, {witness}"
        )
        return Violation("bounds", message, witness, repair=self._larger(access, bad) + _mask(self.loop))

    def _larger(self, access: MemoryAccess, bad: isl.Set) -> str:
        """How much larger an array would have to be; "" unless that is a constant."""
        buffer = access.buffer
        lacking = lacks(self.flow, buffer, bad.apply(sets.graph(access.element)))
        if access.is_write or lacking is None:
            return ""
        axis, count = lacking
        last = axis == len(buffer.extents) - 1
        unit = ("column" if last and axis else "element" if last else "row") + ("s" if count > 1 else "")
        where = "" if last else f" along dimension {axis}"
        return f"{buffer.name} must have {count} more {unit}{where}, or "

    # -- others

    def _conflicts(self, access: MemoryAccess) -> Iterator[Violation]:
        """Stores of others where a lane past the end reads or stores, and reads of others where it stores."""
        others = list(self.flow.accesses.writers(access.home))
        if access.is_write:
            others += [*self.flow.accesses.readers(access.home), access]
        for other in others:
            if other.actor.statement is None:
                continue
            pairs = self.flow.same_place(access, other)
            if pairs.is_empty():
                continue
            for depth in unordered(self.flow, access, other):
                apart = race_at(access, other, pairs, depth, None)
                if not apart.is_empty():
                    yield self._race(access, other, apart, depth)
                    return
            if access.is_write and not other.is_write:
                late = self._read_later(access, other, pairs)
                if not late.is_empty():
                    yield self._overwritten(access, other, late)
                    return

    def _read_later(self, write: MemoryAccess, read: MemoryAccess, pairs: isl.Map) -> isl.Map:
        """The pairs of a lane's store and a later read, unless a value is stored in between."""
        later = self.flow.precedence.before(write, read, pairs)
        if later is None:
            return sets.no_pair(pairs)
        for right in self.flow.right(read):
            between = self.flow.precedence.before(write, right.write, self.flow.same_place(write, right.write))
            if between is not None:
                later = later.subtract(between.apply_range(right.pairs.reverse()))
        return later

    def _race(self, access: MemoryAccess, other: MemoryAccess, bad: isl.Map, depth: int) -> Violation:
        program = self.flow.accesses.program
        witness, _, second = pair_spots(self.flow, access, other, bad)
        loop = program.loops[self.statement.loops[depth]]
        does = "stores to" if access.is_write else "reads"
        meanwhile = self._words(other, second)
        message = (
            f"past the end of loop {self.loop.name}, the last vector of {self.statement.handle} {does} "
            f"{words(second.element)}, and another iteration of loop {loop.name} {meanwhile}, {witness}"
        )
        return Violation("race", message, self._plain(witness, second), repair=_mask(self.loop))

    def _words(self, other: MemoryAccess, spot: Spot) -> str:
        if other.actor.statement is not None and other.actor.statement.name == self.past.name and other.is_write:
            return "stores there too"
        return f"{'stores' if other.is_write else 'reads'} {words(spot.named)} there"

    def _overwritten(self, access: MemoryAccess, other: MemoryAccess, bad: isl.Map) -> Violation:
        witness, _, spot = pair_spots(self.flow, access, other, bad)
        message = (
            f"past the end of loop {self.loop.name}, the last vector of {self.statement.handle} stores to "
            f"{words(spot.element)}, from which {reading(self.flow.accesses.program, spot)} reads {words(spot.named)} "
            f"later, {witness}"
        )
        return Violation("overwritten", message, self._plain(witness, spot), repair=_mask(self.loop))

    def _plain(self, witness: Witness, spot: Spot) -> Witness:
        return replace(witness, writer=None, element=spot.element)


def lacks(flow: Flow, buffer: Buffer, elements: isl.Set) -> tuple[int, int] | None:
    """The axis along which elements are past the end of a buffer, and by how many at most; None if they are not."""
    space = sets.sized_frame(flow.accesses.program.algorithm.param_space, buffer.name, len(buffer.extents))
    reader = Affine(space, {})
    elements = elements.intersect_params(flow.accesses.program.context.params())
    for axis, extent in enumerate(buffer.extents):
        most = sets.most(sets.variables(space)[axis].to_pw_aff().sub(reader.value(extent)), elements)
        if most is not None and most >= 0:
            return axis, most + 1
    return None


# -- in the report


def _kept_nowhere(program: Program) -> str:
    whole = [loop for s in program.storing if (loop := padded_loop(program, s)) is not None]
    names = ", ".join(dict.fromkeys(loop.name for loop in whole))
    return f"past their ends, vectors of {names} store only to elements that hold no value" if names else ""


SENTENCES = (Sentence(Topic.LOOPS, _kept_nowhere),)
