"""The derived statements as the commands that a user would write instead: to be read, pasted and edited."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import islpy as isl

from tiramisu_py import sets
from tiramisu_py.algorithm.declarations import value_names
from tiramisu_py.algorithm.expressions import Access, Expr, Iter, as_expr
from tiramisu_py.derive.derive_transfers import DeriveTransfers
from tiramisu_py.errors import CommandError
from tiramisu_py.program.command import Command
from tiramisu_py.program.loops import Bulk, Loop, Rank
from tiramisu_py.program.ordering import Order
from tiramisu_py.program.program import Program
from tiramisu_py.program.statement import FILES, Role, Statement, Transfer, Waiting
from tiramisu_py.program.storage import Memory
from tiramisu_py.schedule.command_fields import Named, NamedParts, Single
from tiramisu_py.schedule.devices.place_waits import WaitFor
from tiramisu_py.schedule.devices.transfers import CreateTransfer, Direction, Mode
from tiramisu_py.schedule.loops.order import InOrder, root
from tiramisu_py.schedule.loops.transforms import Shift
from tiramisu_py.schedule.ranks.distribute import TagDistribute
from tiramisu_py.schedule.ranks.exchange import CollapseMany, CreateExchange
from tiramisu_py.schedule.ranks.exchange_half import Property
from tiramisu_py.schedule.ranks.rank_numbers import RANK


def derived_commands(program: Program) -> list[Command]:
    """The commands that make the derived transfers, exchanges and waits, in place of `derive_transfers`.

    Raises `CommandError` if there are no such commands: computations were changed too, or commands cannot name a
    place.
    """
    ranks = any(s.link.message is not None for s in program.acting)
    for entry in program.log:
        command = entry.command
        if isinstance(command, DeriveTransfers) and (command.depth is not None or (command.overlap and ranks)):
            raise CommandError(
                f"{entry} has also cut or repeated computations, for which there are no commands: derive without "
                "overlap= and depth=, and cut with separate_at"
            )
    made = [s for s in program.statements.values() if s.origin.derived]
    commands: list[Command] = []
    written: set[str] = set()
    for statement in sorted(made, key=lambda s: not s.acts):
        if statement.link.message is not None:
            if statement.link.message.exchange not in written:
                written.add(statement.link.message.exchange)
                commands += _exchange(program, statement.link.message.exchange)
        elif statement.link.transfer is not None:
            commands += _transfer(program, statement, statement.link.transfer)
        else:
            commands += _wait(program, statement)
    return [*commands, *_orders(program, {s.name for s in made})]


# -- exchanges


def _exchange(program: Program, name: str) -> Iterator[Command]:
    halves = [s for s in program.acting if s.link.message is not None and s.link.message.exchange == name]
    send = next(s for s in halves if s.role is Role.SEND)
    receive = next(s for s in halves if s.receives)
    moved = [_moved(program, half) for half in (send, receive)]
    expected = [f"{name}_send", f"{name}_receive"]
    alike = len(halves) == 2 and str(moved[0]) == str(moved[1])
    if not alike or [send.name, receive.name] != expected or send.memory.sources:
        raise CommandError(f"create_exchange cannot make the exchange {name}")
    collective = send.link.message is not None and send.link.message.collective
    yield CreateExchange(
        program.algorithm.name, moved[0], send=_domain(program, send), to=_peer(send), recv=_domain(program, receive),
        source=_peer(receive), send_props=() if collective else _properties(send),
        recv_props=() if collective else _properties(receive), collective=collective, name=name,
    )  # fmt: skip
    for half in (send, receive):
        yield from _tagged(program, half)


def _properties(half: Statement) -> list[Mode | Property]:
    asynchronous = half.link.message is not None and half.link.message.asynchronous
    return [Mode.ASYNC, Property.NONBLOCK if asynchronous else Property.BLOCK]


def _tagged(program: Program, half: Statement) -> Iterator[Command]:
    """The tags of a statement's loops; a message's loop runs on ranks if another loop of its name does."""
    bulk, by_name, handle = [], half.link.message is not None, _handle(program, half.name)
    known = {loop.name for s in program.storing if not s.origin.derived for loop in _rank_loops(program, s) if by_name}
    for loop in (program.loops[number] for number in half.loops):
        if isinstance(loop.tag, Bulk):
            bulk.append(Iter(loop.name))
        elif isinstance(loop.tag, Rank) and loop.name not in known:
            yield TagDistribute(handle, (Iter(loop.name),), axis=loop.tag.axis)
    if bulk:
        yield CollapseMany(handle, tuple(bulk))


def _rank_loops(program: Program, statement: Statement) -> list[Loop]:
    return [program.loops[number] for number in statement.loops if program.loops[number].is_rank]


def _moved(program: Program, statement: Statement) -> Access:
    """The moved values, by the iterators of the statement."""
    algorithm = program.algorithm
    indices = tuple(_form(form, statement.dims) for form in sets.outputs(statement.point))
    return Access(statement.source, indices, algorithm.source(statement.source).dtype, algorithm.owner)


def _peer(half: Statement) -> Expr | tuple[Expr, ...]:
    assert half.link.message is not None
    from_rank = RANK if half.link.message.is_relative else None
    forms = [_form(form, half.dims, from_rank) for form in sets.outputs(half.link.message.peer)]
    return forms[0] if len(forms) == 1 else tuple(forms)


def _domain(program: Program, statement: Statement) -> str:
    """The instances as isl text, without the constraints that the context implies."""
    instances = statement.instances.gist_params(program.context.params())
    return str(sets.with_dims(sets.named(instances, None), statement.dims))


def _form(form: isl.Aff, dims: Sequence[str], total: Expr | None = None) -> Expr:
    """A form of a statement's dimensions with integer coefficients, ``2 * q + r``, on top of `total` if it is given."""
    found = sets.terms(form)
    if found.denominator != 1 or found.divs or found.params:
        raise CommandError(f"{form} is not a sum of iterators, so no command can name it")
    terms = [(c, Iter(name)) for c, name in zip(found.dims, dims, strict=True) if c]
    for c, iterator in sorted(terms, key=lambda term: term[0] < 0):
        term = iterator if abs(c) == 1 else abs(c) * iterator
        total = _plus(total, term, c < 0)
    if found.constant or total is None:
        total = _plus(total, as_expr(abs(found.constant)), found.constant < 0)
    return total


def _plus(total: Expr | None, term: Expr, negative: bool) -> Expr:
    if total is None:
        return -term if negative else term
    return total - term if negative else total + term


# -- transfers and waits


def _transfer(program: Program, statement: Statement, transfer: Transfer) -> Iterator[Command]:
    if statement.memory.sources and not transfer.uses_files:
        raise CommandError(f"create_xfer cannot make the transfer {statement.name}, which moves a copy")
    direction = {
        (True, False): Direction.CPU2GPU, (False, True): Direction.GPU2CPU, (False, False): Direction.GPU2GPU
    }[transfer.source is None, transfer.target is None]  # fmt: skip
    of_gpu = not transfer.uses_files
    if transfer.uses_files:
        other = transfer.source if transfer.target == FILES else transfer.target
        stored = Direction.CPU2FILE if other is None else Direction.GPU2FILE
        loaded = Direction.FILE2CPU if other is None else Direction.FILE2GPU
        direction = stored if transfer.target == FILES else loaded
    gpu = transfer.device if of_gpu else max(transfer.source or 0, transfer.target or 0)
    between = direction is Direction.GPU2GPU
    yield CreateTransfer(
        program.algorithm.name, _domain(program, statement), _moved(program, statement), direction,
        mode=Mode.ASYNC if transfer.asynchronous else Mode.SYNC, stream=transfer.stream if of_gpu else 0,
        device=gpu, to_device=transfer.target if between else None, name=statement.name,
    )  # fmt: skip
    yield from _tagged(program, statement)


def _wait(program: Program, statement: Statement) -> Iterator[Command]:
    waits = statement.link.waits
    assert waits is not None
    shifts = _shifts(program, statement, waits)
    domain = _domain(program, statement) if statement.loops else None
    device = Memory.FILE if waits.device == FILES else waits.device
    yield WaitFor(_handle(program, waits.of), domain, waits.on, device=device, name=statement.name)
    for dim, by in zip(statement.dims, shifts, strict=True):
        if by:
            yield Shift(_handle(program, statement.name), Iter(dim), by)


def _shifts(program: Program, statement: Statement, waits: Waiting) -> list[int]:
    """The number of iterations between an operation and its wait, for each of the wait's loops."""
    (awaited, *others) = program.awaited(statement)
    names = tuple(program.loops[loop].name for loop in awaited.loops[: len(statement.loops)])
    by = [
        form.sub(own) for form, own in zip(sets.outputs(statement.coords), sets.variables(statement.frame), strict=True)
    ]
    known = waits.by_iterator or (waits.by_loop and not others and names == statement.dims)
    if statement.loops and not (known and all(map(sets.is_constant, by)) and _names_loops(program, awaited, waits)):
        raise CommandError(
            f"commands cannot make the wait {statement.name} for the operations that each iteration of "
            f'{", ".join(program.loop_names(statement))} has started: show("pseudocode") shows it'
        )
    return [sets.constant_of(form) for form in by]


def _names_loops(program: Program, awaited: Statement, waits: Waiting) -> bool:
    """Whether the loops of a wait can be named: no iterator of the operation has such a name and another value."""
    if not waits.by_loop or awaited.link.transfer is not None:
        return True
    values, forms = value_names(program.algorithm.source(awaited.source)), sets.outputs(program.value_of(awaited))
    coords = sets.outputs(awaited.coords)
    for position in waits.positions:
        name = program.loops[awaited.loops[position]].name
        if name in values and not forms[values.index(name)].plain_is_equal(coords[position]):
            return False
    return True


# -- order


def _orders(program: Program, derived: set[str]) -> Iterator[Command]:
    """The orders that what was derived is in; loops of the same name become shared by them."""
    orders = [order for order in program.orders if derived & {order.before, order.after} or order.derived]
    inside = [order for order in orders if {order.before, order.after} <= derived]
    for chain in _chains([*inside, *(order for order in orders if order not in inside)]):
        level = root if chain[0].level is None else Iter(program.loops[chain[0].level].name)
        handles = [_handle(program, name) for name in (chain[0].before, *(order.after for order in chain))]
        yield InOrder(program.algorithm.name, tuple(handles), at=level)


def _chains(orders: Sequence[Order]) -> list[list[Order]]:
    """Orders grouped into chains: each order starts where the one before ends, at the same level."""
    found: list[list[Order]] = []
    for order in dict.fromkeys(orders):
        if found and (found[-1][-1].after, found[-1][-1].level) == (order.before, order.level):
            found[-1].append(order)
        else:
            found.append([order])
    return found


def _handle(program: Program, name: str) -> Named:
    """The handle of a statement, by its own name."""
    statement = program.statements.get(name)
    if statement is None or not statement.stores or statement.origin.derived:
        return Single("" if statement is None else statement.source, name, name)
    return NamedParts(statement.source, name, name, (name,))
