"""The scheduling commands, as methods of a computation or a part of one.

Every command checks its arguments, returns its handle (or the new ones), and leaves the program as it was when it
raises `CommandError`. `Function.check` proves whether the result is correct.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Self

from tiramisu_py.algorithm.expressions import Expr, Iter, as_expr
from tiramisu_py.errors import CommandError
from tiramisu_py.function.applying.applied import Nameable
from tiramisu_py.function.commands.all_commands import Commands
from tiramisu_py.function.handles.operations import Awaitable
from tiramisu_py.schedule.command_fields import Named, NamedParts
from tiramisu_py.schedule.instances.separate import Inline, SeparateAt
from tiramisu_py.schedule.locality.compute_at import ComputeAt
from tiramisu_py.schedule.locality.reverse_compute_at import ReverseComputeAt
from tiramisu_py.schedule.loops.isl_schedule import SetSchedule

if TYPE_CHECKING:
    from tiramisu_py.function.applying.scheduled import Scheduled


class Selection(Commands, Awaitable):
    """Some statements of one computation; commands apply to those that have the named loop."""

    def separate_at(self, loop: Iter, points: Sequence[Expr | int]) -> tuple[Selection, ...]:
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
        self._apply(SeparateAt(self._named, loop, points))
        return self._parts()

    def _parts(self) -> tuple[Selection, ...]:
        return self._made(self.statement_names())

    def _made(self, names: Sequence[str], source: str | None = None) -> tuple[Selection, ...]:
        return tuple(Part(self._function, source or self._source, name) for name in names)

    def _pieces(self, groups: Sequence[tuple[str, ...]]) -> tuple[Selection, ...]:
        made = [Piece(self, f"{self.name}_{k}", names) for k, names in enumerate(groups)]
        return tuple(piece._each[0] if len(piece._each) == 1 else piece for piece in made)

    def get_update(self, number: int) -> Selection:
        """The part (or, for a reduction, the statement) with this number: 0 for the first.

        ::

            C, a reduction                      -->   its start C.init: C.get_update(0); its update: C.get_update(1)
            S after S.separate_at(i, [8])       -->   for i in 0..8: S.get_update(0); the others: S.get_update(1)
        """
        found = self._parts()
        if isinstance(number, bool) or not isinstance(number, int) or not 0 <= number < len(found):
            raise CommandError(f"{self} has {len(found)} statements: {number!r} is not one of 0 to {len(found) - 1}")
        return found[number]

    # -- recomputation

    def compute_at(self, consumer: Selection, level: Iter) -> Self:
        """Compute, in each iteration of a loop of the consumer, the values that this iteration reads.

        ::

            for r, for c: bx[r, c]  -->   for r0, for c0:
            for r0, c0, r1, c1:               for r, for c: bx[r, c]      (what the tile needs)
                by[..]                        for r1, for c1: by[..]

        Values that several iterations need are recomputed. The buffer shrinks to the values that one iteration needs,
        with one copy for each iteration; outputs, and computations placed by `store_in` or `store_at`, keep their
        place. If computations outside the loop read this one, and the iterations read theirs, the values for these are
        computed as well: the computations are moved into the loop by later commands. What earlier commands compute in
        the loops of this computation moves along.

        In the loop it comes before what reads it, and the whole nest after what it reads itself. Of the loops of this
        name in a reduction (of its start and its update) the one that reads is meant. A recurrence is moved with all
        values that lead to those read; `CommandError` is raised if iterations would repeat those of others.
        Source: Halide and TIRAMISU, ``compute_at``.

        The start of a reduction, ``C.init.compute_at(C.update, i0)``, moves into the loops of its update: each value is
        started once, in the first iteration of `level` that adds a term to it. Values without terms are started where
        all were, as a part of their own. Source: TVM, ``decompose_reduction``.
        """
        self._apply(ComputeAt(self._named, self._other(consumer), level))
        return self

    def reverse_compute_at(self, producer: Selection, level: Iter) -> Self:
        """Compute each value in the iteration of a producer's loop that makes the last of what it reads.

        ::

            for k0, for i0, for i1:        -->   for k0, for i0:
                C[i] += p[i, k0]                     for i1: C[i] += p[i, k0]
            for i: out[i] = max(C[i], 0)             if k0 is the last:
                                                         for i: out[i] = max(C[i], 0)     (what the block has made)

        The loops up to `level` may be those of a reduction's terms: a value is then computed after the last term of
        all that it reads. Each value is computed once; those that read nothing made in the loops, results of no terms,
        stay where they are, as a part of their own. The producer must be complete by then: that is proven, as for any
        order. Source: TVM, ``reverse_compute_at``.
        """
        self._apply(ReverseComputeAt(self._named, self._other(producer), level))
        return self

    def inline(self) -> Self:
        """Substitute the expression where it is read; the computation keeps no buffer and no loop of its own.

        ::

            p[i] = 2 * a[i]         -->   q[i] = 2 * a[i] + 1
            q[i] = p[i] + 1
        """
        self._apply(Inline(self._named))
        return self

    def set_schedule(self, text: str | Mapping[Iter, Expr | int]) -> Self:
        """Replace all loops: each new loop is a form of the iterators, or they are given by an isl map.

        ::

            for i in 0..N:          -->   for d in 0..N + M - 1:
                for j in 0..M:                for j in max(0, d - N + 1)..min(M, d + 1):
                    S[i, j]                       S[d - j, j]
                                                         (set_schedule({d: i + j, j: j}))

        Loops are given outermost first, and may have quotients and remainders, ``{i0: i // 8, j: j, i1: i % 8}``. An
        isl map, ``"{ [i, j] -> [i0 = floor(i / 8), j, i1 = i mod 8] }"``, takes the statement's instances to its loops;
        names of output dimensions become the names of the loops (t0, t1, ... where they have none). A statement that
        shares loops leaves them to the others, so that the members of a group can have loops of their own, and share
        those afterwards (`Function.order`). Raises `CommandError` for what is no linear form, for loops that leave out
        instances or have several at one time, for a map of several pieces, and if a buffer has a copy for each
        iteration of one of the loops.
        """
        if isinstance(text, Mapping):
            forms = {loop: as_expr(form) if isinstance(form, int) else form for loop, form in text.items()}
            self._apply(SetSchedule(self._named, forms))
        else:
            self._apply(SetSchedule(self._named, text))
        return self

    def _copied(self, source: object) -> Named:
        """The source that is to be copied: an input or a computation of this function."""
        if isinstance(source, Part):
            raise CommandError(f"{source.name} is a part or a copy: name the computation or the input it comes from")
        if not isinstance(source, Nameable):
            raise CommandError(f"{source!r} is neither an input nor a computation of {self._function.name}")
        if source._function is not self._function:
            owner = source._function
            raise CommandError(f"{source} belongs to the function {owner.name}, not to {self._function.name}")
        return source._named


class Part(Selection):
    """One statement: a part of a computation, the initialisation or the update of a reduction, or a copy."""

    def __init__(self, function: Scheduled, source: str, statement: str) -> None:
        super().__init__(function, source)
        self._statement = statement

    @property
    def name(self) -> str:
        """The name of the statement."""
        return self._statement

    @property
    def _named(self) -> Named:
        return NamedParts(self._source, repr(self), self.name, (self._statement,))

    def __repr__(self) -> str:
        for role in ("init", "update"):
            if self._statement == f"{self._source}_{role}":
                return f"{self._source}.{role}"
        return self._statement


class Piece(Selection):
    """A part of a reduction: a part of its start and one of its update (`get_update` returns each)."""

    def __init__(self, whole: Selection, name: str, statements: Sequence[str]) -> None:
        super().__init__(whole._function, whole._source)
        self._name, self._each = name, [Part(whole._function, whole._source, statement) for statement in statements]

    @property
    def name(self) -> str:
        """The name of the computation and the number of the part."""
        return self._name

    @property
    def _named(self) -> Named:
        return NamedParts(self._source, self._name, self._name, tuple(part._statement for part in self._each))

    def __repr__(self) -> str:
        return self._name
