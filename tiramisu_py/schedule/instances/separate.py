"""Commands that change the set of statements: separate_at and inline."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import islpy as isl

from tiramisu_py import sets
from tiramisu_py.algorithm.domains.affine import Affine, NotAffine
from tiramisu_py.algorithm.expressions import Access, Cast, Expr, Iter, as_expr
from tiramisu_py.algorithm.traversal import accesses, merged, rewrite, substitute
from tiramisu_py.algorithm.words.stages import StageCall
from tiramisu_py.errors import CommandError
from tiramisu_py.program.editing import in_place_of, on_instances
from tiramisu_py.program.loops import LoopId
from tiramisu_py.program.ordering import Order
from tiramisu_py.program.program import Program
from tiramisu_py.program.ranks.spread import depth_of
from tiramisu_py.program.statement import Role, Statement
from tiramisu_py.records import dataclass
from tiramisu_py.schedule.command_arguments import check_new_name, find, listed, loop_name, loops_named, statements
from tiramisu_py.schedule.command_fields import OnStatements
from tiramisu_py.schedule.ranks.rank_numbers import RankNumber


def separate_at(program: Program, names: Sequence[str], loop: str | RankNumber, points: Sequence[Expr]) -> Program:
    """Cut statements into parts at values of a loop; each part keeps the outer loops and gets the inner ones anew."""
    chosen = [(s, found) for s in statements(program, names) if (found := _loop(program, s, loop)) is not None]
    if not chosen and isinstance(loop, RankNumber):
        raise CommandError(f"separate_at({loop}, ...): no loop here runs on ranks along axis {loop.axis}")
    if not chosen and isinstance(loop, str):
        loops_named(program, names, loop)
    for statement, found in chosen:
        program = _separated(program, statement, found, points)
    return program


def _loop(program: Program, statement: Statement, loop: str | RankNumber) -> LoopId | None:
    """The loop of this name; for the rank's own number, the loop that runs on ranks."""
    if not isinstance(loop, RankNumber):
        return find(program, statement, loop)
    depth = depth_of(program, statement, loop.axis)
    return None if depth is None else statement.loops[depth]


def _separated(program: Program, statement: Statement, found: LoopId, points: Sequence[Expr]) -> Program:
    sharing = [s.name for s in program.with_this_loop(found) if s.name != statement.name]
    if sharing:
        name = program.loops[found].name
        raise CommandError(
            f"loop {name} of {statement.name} is shared with {', '.join(sharing)}: separate before fusing them"
        )
    depth = statement.depth(found)
    pieces = _pieces(statement, sets.outputs(statement.coords)[depth], points)
    parts = []
    for k, piece in enumerate(pieces):
        name = f"{statement.name}_{k}"
        check_new_name(program, name, f"part {k} of {statement.name}")
        program, part = _part(program, statement, name, piece, depth)
        parts.append(part)
    return in_place_of(program, statement, parts)


def _pieces(statement: Statement, coordinate: isl.Aff, points: Sequence[Expr]) -> list[isl.Set]:
    reader = Affine(statement.frame, {})
    rest, pieces = statement.instances, []
    for point in points:
        try:
            below = sets.as_set(coordinate.to_pw_aff().lt_set(reader.value(point)))
        except NotAffine:
            raise CommandError(f"the point {point} is neither an integer nor affine in the parameters") from None
        pieces.append(rest.intersect(below).coalesce())
        rest = rest.subtract(below)
    return [*pieces, rest.coalesce()]


def _part(program: Program, statement: Statement, name: str, piece: isl.Set, depth: int) -> tuple[Program, Statement]:
    loops = list(statement.loops[:depth])
    for old in statement.loops[depth:]:
        fresh = replace(program.loops[old], id=program.next_loop())
        program = program.with_loop(fresh)
        loops.append(fresh.id)
    return program, on_instances(statement, name, sets.named(piece, name), tuple(loops))


def inline(program: Program, names: Sequence[str], source: str) -> Program:
    """Substitute a computation's expression where it is read, and drop its statement and its buffer."""
    own = statements(program, names)
    whole = program.statements_of(source)
    if any(statement.role is Role.COPY for statement in own):
        raise CommandError(
            f"{', '.join(names)} cannot be inlined: it is a copy of {source}; undo the command that made it"
        )
    if len(own) != 1 or len(whole) != 1 or own[0].role is not Role.VALUE:
        raise CommandError(f"{source} cannot be inlined: it is a reduction, or has been separated into parts")
    producer = own[0]
    for waiting in program.statements.values():
        if waiting.link.waits is not None and waiting.link.waits.of in (source, producer.name):
            raise CommandError(f"{source} cannot be inlined: {waiting.name} waits for it; remove {waiting.name} first")
    moved = [s.handle for s in program.acting if s.link.message is not None and s.source == source]
    if moved:
        raise CommandError(
            f"{source} cannot be inlined: {' and '.join(moved)} move{'s' if len(moved) == 1 else ''} its values "
            "between ranks; remove the exchange first"
        )
    if any(access.source == source for access in accesses(producer.body)):
        raise CommandError(f"{source} cannot be inlined: it is a recurrence, and reads itself")
    if source in program.algorithm.outputs:
        raise CommandError(f"{source} cannot be inlined: it is an output")
    if producer.guards:
        raise CommandError(f"{source} cannot be inlined: its domain has bounds or conditions that are values")
    readers = [s for s in program.storing if any(a.source == source for a in _read_by(s))]
    _check_no_calls(producer, readers, source)
    _check_not_prefetched(readers, source)
    for reader in readers:
        program = program.with_statement(_with_inlined(program, reader, producer, source))
        program = program.with_(orders=(*program.orders, *_inherited(program, producer, reader)))
    return _without(program, producer, source)


def _check_no_calls(producer: Statement, readers: Sequence[Statement], source: str) -> None:
    """Refuse calls of C functions over whole arrays: what they write and read is in arrays."""
    if isinstance(producer.body, StageCall):
        raise CommandError(f"{source} cannot be inlined: calls of {producer.body.function} compute it, array by array")
    for reader in readers:
        if isinstance(reader.body, StageCall):
            raise CommandError(
                f"{source} cannot be inlined: {reader.handle} passes it to {reader.body.function}, which takes an array"
            )


def _check_not_prefetched(readers: Sequence[Statement], source: str) -> None:
    for reader in readers:
        if any(ahead.source == source for ahead in reader.memory.prefetches):
            raise CommandError(
                f"{source} cannot be inlined: {reader.handle} prefetches it, and then it is in no memory; leave "
                f"out {reader.handle}.prefetch({source}, ..), or prefetch what is read instead after inlining"
            )


def _inherited(program: Program, producer: Statement, reader: Statement) -> list[Order]:
    """The orders between a producer and the copies it reads, for the statement that now reads them in its place."""
    copies = {s.name for s in program.storing if s.memory.target in producer.memory.sources.values()}
    orders = [order for order in program.orders if order.after == producer.name and order.before in copies]
    return [replace(order, after=reader.name) for order in orders]


def _read_by(statement: Statement) -> list[Access]:
    return accesses(statement.body) + [a for guard in statement.guards for a in accesses(guard)]


def _with_inlined(program: Program, reader: Statement, producer: Statement, source: str) -> Statement:
    if reader.role is Role.COPY or source in reader.memory.sources:
        raise CommandError(f"{source} cannot be inlined: {reader.name} keeps a copy of it; inline it before caching it")
    for name, storage in producer.memory.sources.items():
        reads_too = any(access.source == name for access in _read_by(reader))
        if reads_too and reader.memory.sources.get(name, name) != storage:
            raise CommandError(
                f"{source} cannot be inlined: it reads {name} from a copy that {reader.name} does not use"
            )
    iterators = program.algorithm.computations[source].point_iterators
    dtype = program.algorithm.computations[source].dtype

    found: dict[tuple[object, ...], Expr] = {}

    def body_at(e: Expr) -> Expr | None:
        if not isinstance(e, Access) or e.source != source:
            return None
        if e.key() not in found:
            indices = [rewrite(index, body_at) for index in e.indices]
            value = _at(producer.body, iterators, indices)
            found[e.key()] = value if value.dtype == dtype else Cast(value, dtype)
        return found[e.key()]

    body = merged(rewrite(reader.body, body_at))
    return replace(
        reader,
        body=body,
        guards=tuple(rewrite(guard, body_at) for guard in reader.guards),
        memory=replace(reader.memory, sources={**producer.memory.sources, **reader.memory.sources}),
    )


def _at(body: Expr, iterators: Sequence[str], indices: Sequence[Expr]) -> Expr:
    """An expression with its iterators replaced by indices; unchanged if these are the iterators themselves."""
    given = dict(zip(iterators, indices, strict=True))
    alike = all(isinstance(index, Iter) and index.name == name for name, index in given.items())
    return body if alike else substitute(body, given)


def _without(program: Program, gone: Statement, source: str) -> Program:
    statements_ = {name: s for name, s in program.statements.items() if name != gone.name}
    orders = tuple(o for o in program.orders if gone.name not in (o.before, o.after))
    storage = program.storages[source]
    storages = {name: s for name, s in program.storages.items() if name != source}
    still_used = any(s.buffer == storage.buffer for s in storages.values())
    buffers = {n: b for n, b in program.buffers.items() if n != storage.buffer or still_used or b.argument}
    used = {loop for s in statements_.values() for loop in s.loops}
    loops = {number: loop for number, loop in program.loops.items() if number in used}
    return program.with_(statements=statements_, orders=orders, storages=storages, buffers=buffers, loops=loops)


# -- the commands as values


@dataclass(frozen=True, eq=False)
class SeparateAt(OnStatements):
    """Cut the computation into parts at values of a loop; each part is scheduled separately.

    ::

        for i in 0..N: S[i]     -->   for i in 0..8: S_0[i]
                                      for i in 8..N: S_1[i]           (separate_at(i, [8]))

    Points are integers or affine in the parameters; parts may be empty. ``separate_at(tm.rank, [1])`` separates the
    first rank from the others, wherever the loop over ranks is. Returns the parts, in order. For a reduction, each
    statement that has the loop is cut: if both its start and its update have it, ``s.separate_at(i, [8])`` returns
    four parts, the two of the start and then the two of the update. (`partition` returns one handle for each part,
    with its start and its update.) All parts keep the one buffer of the computation.
    """

    loop: Iter
    points: Sequence[Expr | int]

    def applied(self, program: Program) -> Program:
        name, points = loop_name(self.loop), [as_expr(point) for point in listed(self.points, "the list of points")]
        if not points:
            raise CommandError(f"separate_at({name}, ...) needs at least one point to cut at")
        loop = self.loop if isinstance(self.loop, RankNumber) else name
        return separate_at(program, self.names(program), loop, points)


@dataclass(frozen=True, eq=False)
class Inline(OnStatements):
    """Substitute the expression where it is read; the computation keeps no buffer and no loop of its own.

    ::

        p[i] = 2 * a[i]         -->   q[i] = 2 * a[i] + 1
        q[i] = p[i] + 1
    """

    def applied(self, program: Program) -> Program:
        return inline(program, self.names(program), self.computation)
