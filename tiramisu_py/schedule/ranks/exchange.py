"""Exchanges between ranks: pairs of sends and receives."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, replace
from typing import Any, Self

import islpy as isl

from tiramisu_py import sets
from tiramisu_py.algorithm.declarations import value_names
from tiramisu_py.algorithm.domains.affine import Affine, NotAffine
from tiramisu_py.algorithm.expressions import Access, Expr, Iter, as_expr
from tiramisu_py.algorithm.names import check_name
from tiramisu_py.errors import CommandError
from tiramisu_py.program.fresh_names import free_exchange
from tiramisu_py.program.loops import Loop, Rank
from tiramisu_py.program.program import Program
from tiramisu_py.program.statement import Link, MemoryUse, Message, Role, Statement
from tiramisu_py.program.statement_runs import conditions_of_message
from tiramisu_py.program.storage import Memory
from tiramisu_py.records import dataclass
from tiramisu_py.schedule.command_arguments import check_new_name, statements
from tiramisu_py.schedule.command_fields import Named, OnFunction, OnStatements
from tiramisu_py.schedule.devices.transfers import Mode, check_values, collapse_many, source_of
from tiramisu_py.schedule.locality.compute_at import loads
from tiramisu_py.schedule.nesting import check_nesting
from tiramisu_py.schedule.ranks import exchange_half
from tiramisu_py.schedule.ranks.declare_blocks import relative_peers
from tiramisu_py.schedule.ranks.distribute import check_axes
from tiramisu_py.schedule.ranks.exchange_half import ExchangeHalf, Property, check_given, together


def exchange(program: Program, name: str, send: ExchangeHalf, receive: ExchangeHalf, command: str) -> Program:
    """The program with an exchange: the statements ``<name>_send`` and ``<name>_receive``.

    Each has its own loops over its points; a loop with the name of a rank loop gets the same tag. They are declared
    after the statements that store the values, and before those that read them; orders given later take precedence.
    """
    check_name(name, "an exchange")
    if any(s.link.message is not None and s.link.message.exchange == name for s in program.statements.values()):
        raise CommandError(f"there is an exchange called {name} already: choose another name=")
    check_new_name(program, name, "the exchange (see name=)")
    for half, role in ((send, Role.SEND), (receive, Role.COPY)):
        made = f"{name}_{'send' if role is Role.SEND else 'receive'}"
        check_new_name(program, made, "half of the exchange (see name=)")
        program = half_of(program, made, name, half, role, command)
    check_axes(program)
    return program


def half_of(program: Program, made: str, name: str, half: ExchangeHalf, role: Role, command: str) -> Program:
    """The program with one half of an exchange."""
    source = half.access.source
    check_memory(program, source)
    instances = sets.with_dims(sets.named(half.points, made), half.dims)
    space = instances.get_space()
    reader = Affine(space)
    words = f"{name}.{'send' if role is Role.SEND else 'recv'}"
    point = sets.function(space, source, [_form(reader, words, index) for index in half.access.indices])
    peers, is_relative = relative_peers(program, half.dims, half.peers)
    peer = sets.function(space, None, [_form(reader, words, one) for one in peers])
    first = program.next_loop()
    loops = []
    for k, dim in enumerate(half.dims):
        tag = _tag(program, half, dim)
        loops.append(Loop(first + k, dim, tag, command if tag else ""))
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
        memory=MemoryUse(target=source),
        guards=conditions_of_message(program, source),
        link=Link(
            message=Message(
                name,
                peer,
                half.asynchronous,
                half.mode,
                half.persistent,
                is_relative=is_relative,
                collective=half.collective,
            )
        ),
    )
    if not is_relative:  # with blocks it depends on their run-time sizes: left to the proof
        check_values(program, statement.handle, source, sets.graph(point, instances).range())
    program = _in_place(program.with_loop(*loops), statement)
    for loop in loops:
        check_nesting(program, loop.id)
    return program


def _tag(program: Program, half: ExchangeHalf, dim: str) -> Rank | None:
    """The tag of a loop of a half: that of rank loops of the same name, or, for ``tm.rank``, its own axis."""
    tagged: dict[Rank, str] = {}
    for statement in sorted(program.acting, key=lambda s: s.source != half.access.source):
        for loop in (program.loops[number] for number in statement.loops):
            alike = loop.name == dim if dim not in half.rank_dims else True
            if isinstance(loop.tag, Rank) and alike and half.rank_dims.get(dim, loop.tag.axis) == loop.tag.axis:
                tagged.setdefault(loop.tag, loop.name)
    several = sorted({tag.axis for tag in tagged})
    if len(several) > 1:
        raise CommandError(
            f"loops called {dim} run along the axes {', '.join(map(str, several))} of the process grid: give the "
            "iterator of the exchange another name, and tag its loop with tag_distribute"
        )
    if tagged:
        return next(iter(tagged))
    return Rank(half.rank_dims[dim]) if dim in half.rank_dims else None


def check_memory(program: Program, source: str) -> None:
    """Refuse messages of a source that is not kept in host memory."""
    if source not in program.storages:
        raise CommandError(f"{source} has been inlined: it is kept in no memory, so no rank can send it")
    memory = program.buffers[program.storages[source].buffer].memory
    if memory not in (Memory.HOST, Memory.PINNED, Memory.HOST_MAPPED):
        raise CommandError(
            f"{source} is kept in {memory.value} memory, and messages take values from host memory: keep it there "
            "(store_in)"
        )


def check_still_sent(program: Program) -> Program:
    """The program unchanged; refuses it if an exchange moves values that are no longer kept in host memory."""
    for statement in program.acting:
        if statement.link.message is not None:
            try:
                check_memory(program, statement.source)
            except CommandError as error:
                raise CommandError(f"{statement.handle}: {error}") from None
    return program


def _form(reader: Affine, name: str, e: Expr) -> isl.Aff:
    try:
        return reader.single(e)
    except NotAffine as error:
        part = "" if error.part is e else f" ({error.part} is not)"
        raise CommandError(
            f"{e} in {name} is not affine in its iterators and the parameters{part}; // and % by numbers may be used, "
            "and for what differs from rank to rank several exchanges"
        ) from None


def _in_place(program: Program, half: Statement) -> Program:
    """Declare a half after the statements that store its values, and before those that load them."""
    names = list(program.statements)
    stored = [s.name for s in program.storing if s.source == half.source]
    sent = [s.name for s in program.acting if s.link.message is not None and s.source == half.source]
    last = max((names.index(name) for name in [*stored, *sent]), default=-1)
    after = names[last + 1 :]
    loading = [n for n in after if loads(program.statements[n], half.source)]
    return program.with_statement_before(half, after[after.index(loading[0]) :] if loading else [])


def halves(program: Program, name: str) -> Sequence[Statement]:
    """The statements of an exchange."""
    return [s for s in program.acting if s.link.message is not None and s.link.message.exchange == name]


# -- requests


def set_wait_access(program: Program, names: Sequence[str], indices: Sequence[object]) -> Program:
    """Choose, for each message of a half, the element of its array of requests that it uses."""
    if not indices:
        raise CommandError("set_wait_access needs the index of the request, as expressions of the iterators")
    for statement in statements(program, names):
        message = statement.link.message
        if message is None or not message.asynchronous:
            raise CommandError(
                f"{statement.handle} is blocking, and has no requests to keep: give it tm.NONBLOCK in create_exchange"
            )
        reader = Affine(statement.frame)
        forms = [_form(reader, f"set_wait_access of {statement.handle}", as_expr(given)) for given in indices]
        for given, form in zip(indices, forms, strict=True):
            below = sets.as_set(form.to_pw_aff().lt_set(sets.constant(statement.frame, 0).to_pw_aff()))
            if not below.intersect(statement.instances).intersect_params(program.context.params()).is_empty():
                raise CommandError(
                    f"the index {given} of a request of {statement.handle} may be negative: count from 0"
                )
        slots = sets.function(statement.frame, None, forms)
        program = program.with_statement(
            replace(statement, link=replace(statement.link, message=replace(message, slots=slots)))
        )
        check_slots(program, statement.name)
    return program


def check_slots(program: Program, name: str) -> None:
    """Refuse a half that uses several requests for one message."""
    statement = program.statements[name]
    if statement.link.message is None or statement.link.message.slots is None:
        return
    message = sets.graph(statement.prefix(program.host_depth(statement)), statement.instances)
    if not message.reverse().apply_range(sets.graph(statement.link.message.slots)).is_single_valued():
        raise CommandError(
            f"one message of {statement.handle} would use several requests: leave the loops that collapse_many merges "
            "out of set_wait_access"
        )


# -- the commands as values


@dataclass(frozen=True, eq=False)
class CreateExchange(OnFunction):
    """Send values from rank to rank.

    ::

        f.create_exchange(bx[r, c], send={q: (0, P - 1), r: (q*B + B - 1, q*B + B), c: C}, to=q + 1,
                          recv={q: (1, P), r: (q*B - 1, q*B), c: C}, source=q - 1, name="down")
            -->   on rank q < P - 1: for r, c: send bx[r, c] to rank q + 1         (down.send)
                  on rank q > 0:     for r, c: receive bx[r, c] from rank q - 1    (down.recv)

    Both halves name the value by their own iterators. An iterator with the name of a rank loop runs on ranks too;
    ``tm.rank`` (`tm.ranks` on a grid) is this rank's number, and need not be listed. A domain may have a condition:
    ``send=({r: R, c: C}, tm.rank > 0)``. `to` and `source` are affine in the iterators (tuples on a grid). The k-th
    message of an exchange from one rank to another matches the k-th receive there. As to the properties,
    ``tm.SYNC`` sends are complete when they are being received, ``tm.ASYNC`` ones (the default) when the values may
    be overwritten, and ``tm.BUFFERED`` ones at once; ``tm.NONBLOCK`` halves need a `Half.wait`, which ``tm.BLOCK``
    ones (the default) do not; ``tm.PERSISTENT`` ones, in time loops, set up their requests once. Each point is a
    message, until `Half.collapse_many` merges rows, or all points, into one. Returns the exchange, whose halves
    ``down.send`` and ``down.recv`` are scheduled like computations. `check` refuses missing values, unmatched
    messages and deadlocks.

    With ``collective=True`` all ranks take part together, once in each iteration of the loops that both halves
    share: MPI_Bcast if one rank sends the same values to all others, else MPI_Alltoallw. No statement may come
    between the two halves, and no value may be received where another is sent from. A rank may send to itself.
    Source: TIRAMISU, ``create_xfer``, two-sided.
    """

    access: Any
    _: KW_ONLY
    send: Any = None
    to: Any = None
    recv: Any = None
    source: Any = None
    send_props: Sequence[Mode | Property] = ()
    recv_props: Sequence[Mode | Property] = ()
    collective: bool = False
    name: str | None = None

    def made(self, program: Program) -> str:
        """The name of the exchange."""
        return free_exchange(program, f"{self.taken}_exchange") if self.name is None else self.name

    @property
    def taken(self) -> str:
        """The computation or input whose values are sent."""
        return str(getattr(self.access, "source", "exchange"))

    def applied(self, program: Program) -> Program:
        made, owner = self.made(program), program.algorithm.owner
        halves = {"send": self.send, "to": self.to, "recv": self.recv, "source": self.source}
        check_given(halves)
        source_of(self.access, program.algorithm)
        send = exchange_half.half(program, made, Role.SEND, self.send, self.access, self.to, self.send_props, owner)
        receive = exchange_half.half(
            program, made, Role.COPY, self.recv, self.access, self.source, self.recv_props, owner
        )
        if self.collective:
            send, receive = together(program, send, receive)
        return exchange(program, made, send, receive, self.text)


@dataclass(frozen=True, eq=False)
class CollapseMany(OnStatements):
    """Make all iterations of the innermost loops one operation of a transfer, or one message of an exchange.

    ::

        for r in 0..R:          -->   for r in 0..R:
            for c in 0..C:                copy a[r, 0..C]
                copy a[r, c]                                          (collapse_many(c))

    One operation of a transfer copies a box of values, of one to three dimensions, with any strides in the array;
    another shape (a triangle, every fourth element) is copied as several boxes, rows or single elements. The values of
    a message may have any strides in memory, and need not be packed by hand. After ``split(c, 64, c0, c1)``,
    ``collapse_many(c1)`` makes 64 values a message. Both halves must have equally many messages, of the same values.
    Source: TIRAMISU, ``collapse_many``.
    """

    many = "loops"

    loops: tuple[Iter, ...]

    @classmethod
    def called(cls, of: Named, *loops: Iter) -> Self:
        return cls(of, loops)

    def applied(self, program: Program) -> Program:
        names = self.names(program)
        program = collapse_many(program, names, self.loops, self.text)
        for name in names:
            check_slots(program, name)
        return program


@dataclass(frozen=True, eq=False)
class SetWaitAccess(OnStatements):
    """Choose the element of the array of requests that each message uses: ``down.send.set_wait_access(t % 2)``.

    The compiler assigns requests by itself; use this command if two messages are to share one request, or if
    requests need a particular order. Indices are affine in the iterators of the half, with floor division and
    modulo. A request may be reused only after a wait for its previous message. Source: TIRAMISU,
    ``set_wait_access``.
    """

    many = "indices"

    indices: tuple[Expr | int, ...]

    @classmethod
    def called(cls, of: Named, *indices: Expr | int) -> Self:
        return cls(of, indices)

    def applied(self, program: Program) -> Program:
        return set_wait_access(program, self.names(program), self.indices)
