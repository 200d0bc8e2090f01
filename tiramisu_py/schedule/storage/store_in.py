"""The command `store_in`: stores values in another buffer or layout; distributions of arrays follow."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY

from tiramisu_py.algorithm.expressions import Expr
from tiramisu_py.errors import CommandError, DeclarationError
from tiramisu_py.program.program import Program
from tiramisu_py.program.storage import Buffer, Memory, Swizzle, as_memory
from tiramisu_py.records import dataclass
from tiramisu_py.schedule.command_arguments import size
from tiramisu_py.schedule.command_fields import Handle, Named, OnStatements
from tiramisu_py.schedule.ranks.distribute import held_alike
from tiramisu_py.schedule.ranks.exchange import check_still_sent
from tiramisu_py.schedule.storage.shared_scope import settled
from tiramisu_py.schedule.storage.store import store_in


@dataclass(frozen=True, eq=False)
class StoreIn(OnStatements):
    """Keep the values in another buffer or with another layout; a second call replaces the first.

    ::

        for i, for j:           -->   for i, for j:
            c at c[i, j]                  c at c[j, i]                (c.store_in([j, i]))

    ``p.store_in(tm.Buffer("two", [2], tm.float32), [i % 2])`` folds p to two elements; ``c.store_in([j, i])``
    transposes its own array; ``c.store_in(a, [i])`` overwrites the input a (in place); ``p.store_in(tm.REGISTER)``
    keeps its current buffer in registers, ``p.store_in(tm.SHARED)`` in the shared memory of each block of a kernel,
    ``p.store_in(tm.GPU_MEMORY)`` in the memory of GPUs alone; ``tm.PINNED`` is page-locked memory of the host, and
    ``tm.HOST_MAPPED`` is page-locked memory that GPUs address too. Names are also accepted:
    ``p.store_in("shared")``. An output in ``tm.GPU_MEMORY`` is an array of the caller on the GPU `device`. Indices are
    affine in the iterators, with floor division and modulo, or count rows: ``i * M + j`` in a buffer of extent
    ``N * M``. It is proven that no value is overwritten before its
    last use. All statements of a computation (parts of `separate_at`, start and update of a reduction) store to one
    buffer: give the command to the computation; it is refused for one of several parts. For an output, this buffer
    is then the caller's array, with its layout (`evaluate` uses the plain one), and may be a part of another array:
    ``o.store_in(tm.Buffer("part", [N, M], tm.float32, strides=[S, 1]), [i, j])``.

    In the loops of `compute_at` a buffer exists once for each iteration. Values that are needed later there may take
    the places of others that are not needed any more, if they are of the same type and as many: ``e.store_in(s)``.

    With ``p.store_in(tm.SHARED, swizzle=32)`` the elements of a row change places, in each of 32 rows in another way
    (element [r, c] is at [r, c ^ r % 32]), so that threads along a column find different banks without padding;
    ``swizzle=(8, 4)`` turns groups of 4 elements, which vectors load at once, in each of 8 rows, and
    ``swizzle=(4, 4, 2)`` in each of 4 pairs of rows, where two rows have 128 bytes together.
    It is proven that this is one to one: rows have a multiple of these elements.
    """

    lists = ("indices",)

    buffer: Buffer | Handle | Memory | str | Sequence[Expr | int]
    indices: Sequence[Expr | int] | None = None
    _: KW_ONLY
    device: int = 0
    swizzle: int | Swizzle | None = None

    def applied(self, program: Program) -> Program:
        into, indices = self._target(program)
        device = size(self.device, "device", 0)
        stored = store_in(program, self.computation, self.names(program), into, indices, device, self._swizzle(into))
        return held_alike(check_still_sent(settled(stored)))

    def _swizzle(self, into: object) -> Swizzle | None:
        """The rows, the group, and the rows that are alike of a swizzle; raises `CommandError`."""
        given = self.swizzle
        if given is None:
            return None
        found = (given, 1) if isinstance(given, int) else given
        if not isinstance(found, tuple) or len(found) not in (2, 3) or not all(map(_is_power, found)) or found[0] == 1:
            raise CommandError(
                f"swizzle={given!r}: give how many rows differ, a power of two from 2 on, as swizzle=32; or these and "
                "the elements that stay together, as swizzle=(8, 4)"
            )
        if len(found) == 3 and found[1] % found[2]:
            raise CommandError(
                f"swizzle={given!r}: at most as many neighbouring rows are alike as elements stay together, {found[1]}"
            )
        if into is not Memory.SHARED:
            words = f"swizzle={given!r} spreads rows over the banks of shared memory"
            raise CommandError(f"{words}: write store_in(tm.SHARED, swizzle=..)")
        return found

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


def _is_power(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value > 0 and value.bit_count() == 1


def _memory(name: str) -> Memory:
    try:
        return as_memory(name)
    except DeclarationError as error:
        raise CommandError(f"{error}; or a tm.Buffer, an input or a computation") from None
