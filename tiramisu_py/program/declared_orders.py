"""The orders that dependences suggest: statements that share a buffer keep the order in which they were declared.

Commands move statements into the loops of others, and a nest stands where its first statement was declared. If another
nest lies between the statements of one nest, and one of these reads it, their order is no longer that of the
declarations. The orders of this module come after those that commands ask for, and say what such a nest comes after.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from tiramisu_py.program.statement import Statement
from tiramisu_py.program.storage import Storage
from tiramisu_py.records import dataclass

#: Pairs of statements, by name, the first one before the second.
Pairs = tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Suggested:
    """Orders that no command asks for: of writes before reads, `values`, and of all accesses of one buffer, `places`.

    A pair is left out where it contradicts the commands; then `values` count for more than `places`.
    """

    values: Pairs = ()
    places: Pairs = ()


#: No order is suggested.
NOTHING = Suggested()


def suggested(statements: Mapping[str, Statement], storages: Mapping[str, Storage]) -> Suggested:
    """The orders in which the statements that access one buffer are declared, if one of a pair stores to it.

    Transfers, messages, combinations, waits and barriers are ordered by what makes them; parts of one computation are
    independent, or ordered by the command that cuts it.
    """
    touching = _touching(statements, storages)
    values, places = dict[tuple[str, str], None](), dict[tuple[str, str], None]()
    for accesses in touching.values():
        for first, second, stored_first in _pairs(accesses):
            (values if stored_first else places)[first.name, second.name] = None
    return Suggested(tuple(values), tuple(places))


#: A statement that accesses a buffer, whether it stores to it, and whether it loads from it.
_Access = tuple[Statement, bool, bool]


def _touching(statements: Mapping[str, Statement], storages: Mapping[str, Storage]) -> dict[str, list[_Access]]:
    """By buffer, the statements that access it, in their order of declaration."""
    found: dict[str, list[_Access]] = {}
    for statement in statements.values():
        added = (statement.link.transfer, statement.link.message, statement.link.combination)
        if not statement.stores or any(made is not None for made in added):
            continue
        target = storages[statement.memory.target].buffer
        loaded = {storages[name].buffer for name in statement.loads if name in storages}
        for buffer in dict.fromkeys((target, *sorted(loaded))):
            found.setdefault(buffer, []).append((statement, buffer == target, buffer in loaded))
    return found


def _pairs(accesses: Iterable[_Access]) -> Iterator[tuple[Statement, Statement, bool]]:
    """Pairs in order that do not only load, and whether the first one stores what the second one may load."""
    stored, loaded = list[Statement](), list[Statement]()
    for statement, stores, loads in accesses:
        for before in stored:
            if (before.source, before.role) != (statement.source, statement.role):
                yield before, statement, loads or before.source == statement.source
        for before in loaded if stores else ():
            if before not in stored and (before.source, before.role) != (statement.source, statement.role):
                yield before, statement, False
        if stores:
            stored.append(statement)
        if loads:
            loaded.append(statement)
