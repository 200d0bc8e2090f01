"""The command `store_in`: stores values in another buffer or layout; distributions of arrays follow."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY

from tiramisu_py.algorithm.expressions import Expr
from tiramisu_py.errors import CommandError, DeclarationError
from tiramisu_py.program.program import Program
from tiramisu_py.program.storage import Buffer, Memory, as_memory
from tiramisu_py.records import dataclass
from tiramisu_py.schedule.command_arguments import size
from tiramisu_py.schedule.command_fields import Named, OnStatements
from tiramisu_py.schedule.ranks.distribute import held_alike
from tiramisu_py.schedule.ranks.exchange import check_still_sent
from tiramisu_py.schedule.storage.shared_scope import settled
from tiramisu_py.schedule.storage.store import store_in


@dataclass(frozen=True, eq=False)
class StoreIn(OnStatements):
    """The values are stored in another buffer, or with another layout."""

    buffer: Buffer | Named | Memory | str | Sequence[Expr | int]
    indices: Sequence[Expr | int] | None = None
    _: KW_ONLY
    device: int = 0

    def applied(self, program: Program) -> Program:
        into, indices = self._target(program)
        device = size(self.device, "device", 0)
        stored = store_in(program, self.source, self.names(program), into, indices, device)
        return held_alike(check_still_sent(settled(stored)))

    def _target(self, program: Program) -> tuple[Buffer | str | Memory | None, Sequence[object] | None]:
        """The buffer, and the indices; raises `CommandError`."""
        given = self.buffer
        if isinstance(given, Buffer | Memory):
            return given, self.indices
        if isinstance(given, str):
            return _memory(given), self.indices
        if isinstance(given, list | tuple):
            if self.indices is not None:
                raise CommandError("store_in takes a buffer and indices, or indices alone")
            return None, given
        name = given.name if isinstance(given, Named) else None
        if name not in program.storages:
            raise CommandError(
                f"{given!r} is not a buffer: use tm.Buffer(name, extents, type), an input or a computation"
            )
        return name, self.indices


def _memory(name: str) -> Memory:
    try:
        return as_memory(name)
    except DeclarationError as error:
        raise CommandError(f"{error}; or a tm.Buffer, an input or a computation") from None
