"""The derived statements as the commands that a user would write instead: to be read, pasted and edited.

The commands are lines of Python over the function ``f`` and the package ``tm``; the first of them make the iterators.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import islpy as isl

from tiramisu_py import sets
from tiramisu_py.algorithm.declarations import value_names
from tiramisu_py.algorithm.misuse import taken_out
from tiramisu_py.derive.derive_transfers import DeriveTransfers
from tiramisu_py.errors import CommandError
from tiramisu_py.program.loops import Bulk, Loop, Rank
from tiramisu_py.program.ordering import Order
from tiramisu_py.program.program import Program
from tiramisu_py.program.statement import FILES, Role, Statement, Transfer, Waiting


def derived_commands(program: Program) -> list[str]:
    """The commands that make the derived transfers, exchanges and waits, in place of `derive_transfers`.

    Raises `CommandError` if there are no such commands: computations were changed too, or commands cannot name a
    place.
    """
    ranks = any(s.message is not None for s in program.acting)
    for entry in program.log:
        command = entry.command
        if isinstance(command, DeriveTransfers) and (command.depth is not None or (command.overlap and ranks)):
            raise CommandError(
                f"{entry} has also cut or repeated computations, for which there are no commands: derive without "
                "overlap= and depth=, and cut with separate_at"
            )
    made = [s for s in program.statements.values() if s.derived]
    names = list(dict.fromkeys(name for s in made for name in (*s.dims, *program.loop_names(s))))
    lines = [taken_out(names, "iters")] if names else []
    written: set[str] = set()
    for statement in sorted(made, key=lambda s: not s.acts):
        if statement.message is not None:
            if statement.message.exchange not in written:
                written.add(statement.message.exchange)
                lines += _exchange(program, statement.message.exchange)
        elif statement.transfer is not None:
            lines += _transfer(program, statement, statement.transfer)
        else:
            lines.append(_wait(program, statement))
    return lines + list(_orders(program, {s.name for s in made}))


# -- exchanges


def _exchange(program: Program, name: str) -> Iterator[str]:
    halves = [s for s in program.acting if s.message is not None and s.message.exchange == name]
    send = next(s for s in halves if s.role is Role.SEND)
    receive = next(s for s in halves if s.receives)
    texts = [_point(half) for half in (send, receive)]
    expected = [f"{name}_send", f"{name}_receive"]
    if len(halves) != 2 or texts[0] != texts[1] or [send.name, receive.name] != expected or send.sources:
        raise CommandError(f"create_xfer cannot make the exchange {name}")
    props = [f"[tm.ASYNC, tm.{'NONBLOCK' if h.message and h.message.asynchronous else 'BLOCK'}]" for h in halves]
    options = f"send_props={props[halves.index(send)]}, recv_props={props[halves.index(receive)]},"
    if send.message is not None and send.message.collective:
        options = "collective=True,"
    yield "\n".join(
        [
            "f.create_xfer(",
            f'    f["{send.source}"][{texts[0]}],',
            f'    send="{_domain(program, send)}", to={_peer(send)},',
            f'    recv="{_domain(program, receive)}", source={_peer(receive)},',
            f"    {options}",
            f'    name="{name}",',
            ")",
        ]
    )
    for half in (send, receive):
        yield from _tagged(program, half)


def _tagged(program: Program, half: Statement) -> Iterator[str]:
    """The tags of a statement's loops; a message's loop runs on ranks if another loop of its name does."""
    bulk, by_name = [], half.message is not None
    known = {loop.name for s in program.storing if not s.derived for loop in _rank_loops(program, s) if by_name}
    for loop in (program.loops[number] for number in half.loops):
        if isinstance(loop.tag, Bulk):
            bulk.append(loop.name)
        elif isinstance(loop.tag, Rank) and loop.name not in known:
            yield f'f["{half.name}"].tag_distribute({loop.name}, axis={loop.tag.axis})'
    if bulk:
        yield f'f["{half.name}"].collapse_many({", ".join(bulk)})'


def _rank_loops(program: Program, statement: Statement) -> list[Loop]:
    return [program.loops[number] for number in statement.loops if program.loops[number].is_rank]


def _point(statement: Statement) -> str:
    """The indices of the moved values."""
    return ", ".join(_form(form, statement.dims) for form in sets.outputs(statement.point)) or "()"


def _peer(half: Statement) -> str:
    assert half.message is not None
    forms = [_form(form, half.dims) for form in sets.outputs(half.message.peer)]
    if half.message.is_relative:
        return f"tm.rank {'- ' + forms[0][1:] if forms[0].startswith('-') else '+ ' + forms[0]}"
    return forms[0] if len(forms) == 1 else f"({', '.join(forms)})"


def _domain(program: Program, statement: Statement) -> str:
    """The instances as isl text, without the constraints that the context implies."""
    instances = statement.instances.gist_params(program.context.params())
    return str(sets.with_dims(sets.named(instances, None), statement.dims))


def _form(form: isl.Aff, dims: Sequence[str]) -> str:
    """A form of a statement's dimensions with integer coefficients, as Python."""
    found = sets.terms(form)
    if found.denominator != 1 or found.divs or found.params:
        raise CommandError(f"{form} is not a sum of iterators, so no command can name it")
    words = [(c, name if abs(c) == 1 else f"{abs(c)} * {name}") for c, name in zip(found.dims, dims, strict=True) if c]
    if found.constant or not words:
        words.append((found.constant, str(abs(found.constant))))
    first, *rest = sorted(words, key=lambda word: word[0] < 0)
    text = ("-" if first[0] < 0 else "") + first[1]
    return text + "".join(f" {'-' if c < 0 else '+'} {word}" for c, word in rest)


# -- transfers and waits


def _transfer(program: Program, statement: Statement, transfer: Transfer) -> Iterator[str]:
    if statement.sources and not transfer.uses_files:
        raise CommandError(f"create_xfer cannot make the transfer {statement.name}, which moves a copy")
    direction = {(True, False): "CPU2GPU", (False, True): "GPU2CPU", (False, False): "GPU2GPU"}[
        transfer.source is None, transfer.target is None
    ]
    if transfer.uses_files:
        other = transfer.source if transfer.target == FILES else transfer.target
        where = "CPU" if other is None else "GPU"
        direction = f"{where}2FILE" if transfer.target == FILES else f"FILE2{where}"
    options = [f"tm.{'ASYNC' if transfer.asynchronous else 'SYNC'}"]
    options += [f"stream={transfer.stream}"] if transfer.stream and not transfer.uses_files else []
    gpu = transfer.device if not transfer.uses_files else max(transfer.source or 0, transfer.target or 0)
    options += [f"device={gpu}"] if gpu else []
    options += [f"to_device={transfer.target}"] if direction == "GPU2GPU" else []
    yield (
        f'f.create_xfer("{_domain(program, statement)}", f["{statement.source}"][{_point(statement)}], tm.{direction}, '
        f'{", ".join(options)}, name="{statement.name}")'
    )
    yield from _tagged(program, statement)


def _wait(program: Program, statement: Statement) -> str:
    waits = statement.waits
    assert waits is not None
    shifts = _shifts(program, statement, waits)
    options = [f'"{_domain(program, statement)}"'] if statement.loops else []
    options += [] if waits.on is None else [f"on={waits.on}"]
    options += [f"device={waits.device}"] if waits.device else []
    options.append(f'name="{statement.name}"')
    later = "".join(f".shift({dim}, {by})" for dim, by in zip(statement.dims, shifts, strict=True) if by)
    return f"{_handle(program, waits.of)}.wait({', '.join(options)}){later}"


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
            f"{', '.join(program.loop_names(statement))} has started: pseudocode() shows it"
        )
    return [sets.constant_of(form) for form in by]


def _names_loops(program: Program, awaited: Statement, waits: Waiting) -> bool:
    """Whether the loops of a wait can be named: no iterator of the operation has such a name and another value."""
    if not waits.by_loop or awaited.transfer is not None:
        return True
    values, forms = value_names(program.algorithm.source(awaited.source)), sets.outputs(program.value_of(awaited))
    coords = sets.outputs(awaited.coords)
    for position in waits.positions:
        name = program.loops[awaited.loops[position]].name
        if name in values and not forms[values.index(name)].plain_is_equal(coords[position]):
            return False
    return True


# -- order


def _orders(program: Program, derived: set[str]) -> Iterator[str]:
    """The orders that what was derived is in; loops of the same name become shared by them."""
    orders = [order for order in program.orders if derived & {order.before, order.after} or order.derived]
    inside = [order for order in orders if {order.before, order.after} <= derived]
    for chain in _chains([*inside, *(order for order in orders if order not in inside)]):
        level = "tm.root" if chain[0].level is None else program.loops[chain[0].level].name
        handles = [_handle(program, name) for name in (chain[0].before, *(order.after for order in chain))]
        yield f"f.order({', '.join(handles)}, at={level})"


def _chains(orders: Sequence[Order]) -> list[list[Order]]:
    """Orders grouped into chains: each order starts where the one before ends, at the same level."""
    found: list[list[Order]] = []
    for order in dict.fromkeys(orders):
        if found and (found[-1][-1].after, found[-1][-1].level) == (order.before, order.level):
            found[-1].append(order)
        else:
            found.append([order])
    return found


def _handle(program: Program, name: str) -> str:
    """The Python expression for a statement: by its own name, or as a part of a computation."""
    statement = program.statements.get(name)
    if statement is None or not statement.stores or statement.derived:
        return f'f["{name}"]'
    parts = [s.name for s in program.statements_of(statement.source)]
    if name not in parts:
        raise CommandError(f"{name} is a copy, and no command can name it")
    whole = f'f["{statement.source}"]'
    return whole if len(parts) == 1 else f"{whole}.get_update({parts.index(name)})"
