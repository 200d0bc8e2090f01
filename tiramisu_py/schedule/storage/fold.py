"""fold: the elements of a buffer along one index are reused cyclically."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tiramisu_py import sets
from tiramisu_py.algorithm.declarations import Computation, value_names
from tiramisu_py.algorithm.expressions import Const, Iter
from tiramisu_py.algorithm.types import int64
from tiramisu_py.errors import CommandError
from tiramisu_py.program.program import Program
from tiramisu_py.program.storage import Storage
from tiramisu_py.records import dataclass
from tiramisu_py.schedule.command_arguments import loop_name, size, statements
from tiramisu_py.schedule.command_fields import OnStatements
from tiramisu_py.schedule.storage.one_buffer import check_all_parts, kept_apart


def fold(program: Program, source: str, names: Sequence[str], dim: object, modulo: object) -> Program:
    """Keep `modulo` elements along one index of a source in its current buffer: the index is taken modulo."""
    count = size(modulo, "the modulo")
    targets = sorted({program.storages[statement.memory.target].name for statement in statements(program, names)})
    if len(targets) > 1:
        raise CommandError(
            f"{source} is kept in several places: {', '.join(targets)}; fold the part kept in one of them"
        )
    if not kept_apart(program, source):
        check_all_parts(program, statements(program, names), "fold")
    storage = program.storages[targets[0]]
    buffer = program.buffers[storage.buffer]
    if buffer.argument:
        raise CommandError(f"{source} is in the caller's array {buffer.name}, which keeps all of its elements")
    if len(list(program.storages_in(buffer.name))) > 1:
        raise CommandError(f"buffer {buffer.name} is shared by several computations: fold needs one of its own")
    wanted, declared = loop_name(dim, "an index"), program.algorithm.source(source)
    known = list(value_names(declared))
    if not isinstance(declared, Computation):
        known = list(program.statements[next(iter(names))].dims[-len(known) :])
    if wanted not in known:
        raise CommandError(f"{wanted} is not an index of {source}: choose one of {', '.join(known)}")
    axis = known.index(wanted)
    check_plain(program, storage, apart=axis)
    space = storage.index.get_space().domain()
    variable = sets.variables(space)[sets.in_size(storage.index) - len(known) + axis]
    forms = sets.outputs(storage.index)
    forms[axis] = sets.modulo(variable, count)
    extents = (*buffer.extents[:axis], Const(count, int64), *buffer.extents[axis + 1 :])
    program = program.with_buffer(replace(buffer, extents=extents, passed=None))
    index = sets.function(space, None, forms)
    return program.with_storage(replace(storage, index=index))


def check_plain(program: Program, storage: Storage, apart: int | None = None) -> None:
    """Refuse a layout in which some index (other than `apart`) is not a value index counted from a corner."""
    rank = len(value_names(program.algorithm.source(storage.source)))
    forms = sets.outputs(storage.index)
    scope = sets.in_size(storage.index) - rank
    plain = len(forms) == rank and all(
        sets.stride(form, scope + axis) == (1 if axis == own else 0)
        for own, form in enumerate(forms)
        if own != apart
        for axis in range(rank)
    )
    if not plain:
        raise CommandError(f"{storage.name} has a layout of its own: its indices are not those of its values")


# -- the commands as values


@dataclass(frozen=True, eq=False)
class Fold(OnStatements):
    """Keep `modulo` elements along one index in the current buffer, and reuse them cyclically.

    ::

        bx[r, c]                        -->   bx[r % 3, c]                                     (fold(r, 3))

    The buffer may be local to a loop by `store_at` or `compute_at` (before or after), or be one of the whole call;
    `slide` folds by itself. It is proven that no value is overwritten before its last use.
    """

    dim: Iter
    modulo: int

    def applied(self, program: Program) -> Program:
        return fold(program, self.computation, self.names(program), self.dim, self.modulo)
