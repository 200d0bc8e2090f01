"""Exchanges between ranks: pairs of sends and receives."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

import islpy as isl

from tiramisu_py import sets
from tiramisu_py.algorithm.affine import Affine, NotAffine
from tiramisu_py.algorithm.declarations import Algorithm, value_names
from tiramisu_py.algorithm.domain import parse_domain
from tiramisu_py.algorithm.expressions import Access, Expr, Iter, as_expr
from tiramisu_py.errors import CommandError
from tiramisu_py.program.loops import Loop, Rank
from tiramisu_py.program.program import Program
from tiramisu_py.program.statement import Message, Role, SendMode, Statement
from tiramisu_py.schedule.blocks import relative_peers
from tiramisu_py.schedule.recompute import loads
from tiramisu_py.schedule.selection import check_new_name
from tiramisu_py.schedule.transfers import Mode


class Property(Enum):
    """What a half of an exchange is like; `Mode` has SYNC and ASYNC.

    BLOCK: the rank goes on when the message is complete. NONBLOCK: at once; a wait follows. BUFFERED: what is sent is
    put aside.
    """

    BLOCK = "block"
    NONBLOCK = "nonblock"
    BUFFERED = "buffered"

    def __repr__(self) -> str:
        return self.name


@dataclass(frozen=True, eq=False)
class Half:
    """One half of an exchange, as it was declared: the points at which ``access`` is sent, or received."""

    dims: tuple[str, ...]
    points: isl.Set
    access: Access
    peers: tuple[object, ...]
    asynchronous: bool
    mode: SendMode = SendMode.STANDARD


def half(
    algorithm: Algorithm, name: str, domain: object, access: object, to: object, props: Sequence[object], owner: object
) -> Half:
    """One half of an exchange, from what the user gives."""
    if not isinstance(access, Access):
        raise CommandError(f"{access!r} names no value: give one such as bx[r, c] of this function")
    domain, where = domain if isinstance(domain, tuple) and len(domain) == 2 else (domain, None)
    found = parse_domain(algorithm, name, domain, where, owner)
    if found.guards:
        raise CommandError(f"the domain of {name} has conditions that are not affine: {found.guards[0]}")
    peers = tuple(to) if isinstance(to, tuple | list) else (to,)
    nonblocking = Property.NONBLOCK in props
    mode = SendMode.SYNCHRONOUS if Mode.SYNC in props else SendMode.STANDARD
    return Half(tuple(found.iterators), found.points, access, peers, nonblocking, mode)


def exchange(program: Program, name: str, send: Half, receive: Half) -> Program:
    """The program with an exchange: the statements ``<name>_send`` and ``<name>_receive``.

    Loops of their own run over the points; one whose name is that of a loop that is tagged as rank is tagged likewise.
    They are declared after what stores the values, and before what reads them; orders given later count more.
    """
    for half, role in ((send, Role.SEND), (receive, Role.COPY)):
        suffix = "send" if role is Role.SEND else "receive"
        made = f"{name}_{suffix}"
        check_new_name(program, made, "the exchange (see name=)")
        program = half_of(program, made, name, half, role)
    return program


def half_of(program: Program, made: str, name: str, half: Half, role: Role) -> Program:
    """The program with one half of an exchange."""
    source = half.access.source
    instances = sets.with_dims(sets.named(half.points, made), half.dims)
    space = instances.get_space()
    reader = Affine(space)
    point = sets.function(space, source, [_form(reader, made, index) for index in half.access.indices])
    peers, is_relative = relative_peers(program, half.dims, [as_expr(peer) for peer in half.peers])
    peer = sets.function(space, None, [_form(reader, made, peer) for peer in peers])
    first = program.next_loop()
    tags = {loop.name: loop.tag for loop in program.loops.values() if isinstance(loop.tag, Rank)}
    loops = [Loop(first + k, dim, tags.get(dim)) for k, dim in enumerate(half.dims)]
    declared = program.algorithm.source(source)
    statement = Statement(
        name=made,
        source=source,
        role=role,
        dims=tuple(half.dims),
        instances=instances,
        point=point,
        loops=tuple(loop.id for loop in loops),
        coords=sets.renamed(sets.identity(space), None),
        body=Access(source, tuple(map(Iter, value_names(declared))), declared.dtype),
        target=source,
        message=Message(name, peer, half.asynchronous, half.mode, is_relative=is_relative),
    )
    return _in_place(program.with_loop(*loops), statement)


def _form(reader: Affine, name: str, e: Expr) -> isl.Aff:
    try:
        return reader.single(e)
    except NotAffine as error:
        raise CommandError(f"{name}: {error.part} in {e} is not affine in its iterators") from None


def _in_place(program: Program, half: Statement) -> Program:
    """Declare a half after what stores its values, and before what loads them."""
    names = list(program.statements)
    stored = [s.name for s in program.storing if s.source == half.source]
    sent = [s.name for s in program.acting if s.message is not None and s.source == half.source]
    last = max((names.index(name) for name in [*stored, *sent]), default=-1)
    after = names[last + 1 :]
    loading = [n for n in after if loads(program.statements[n], half.source)]
    return program.with_statement_before(half, after[after.index(loading[0]) :] if loading else [])


def halves(program: Program, name: str) -> Sequence[Statement]:
    """The statements of an exchange."""
    return [s for s in program.acting if s.message is not None and s.message.exchange == name]
