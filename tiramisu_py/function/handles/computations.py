"""The handles that declarations return, with the commands of computations: names that are indexed in expressions.

Every command checks its arguments, returns its handle (or the new ones), and leaves the program as it was when it
raises `CommandError`. `Function.check` proves whether the result is correct.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NoReturn, Self

from tiramisu_py.algorithm import declarations
from tiramisu_py.algorithm.domains.extents import extents_of
from tiramisu_py.algorithm.domains.linearised import indices_in
from tiramisu_py.algorithm.domains.references import access
from tiramisu_py.algorithm.expressions import Expr, Iter, Operand
from tiramisu_py.algorithm.misuse import ManyValues, unknown_name
from tiramisu_py.algorithm.traversal import accesses
from tiramisu_py.algorithm.types import DType
from tiramisu_py.errors import CommandError, DeclarationError, TiramisuError
from tiramisu_py.function.applying.applied import Nameable
from tiramisu_py.function.applying.own_calls import unknown_command
from tiramisu_py.function.applying.public_commands import command
from tiramisu_py.function.handles.bands import apply_skew_for
from tiramisu_py.function.handles.old_words import OldArrays, OldWords
from tiramisu_py.function.handles.operations import Awaitable, Distributed, Loops
from tiramisu_py.function.handles.views import View, view
from tiramisu_py.program.command import Command
from tiramisu_py.program.program import Program
from tiramisu_py.program.statement import Role
from tiramisu_py.schedule.command_arguments import loop_name
from tiramisu_py.schedule.command_fields import Named, NamedInput, NamedParts, source_given
from tiramisu_py.schedule.devices.align_lines import AlignRows
from tiramisu_py.schedule.devices.pipeline import PipelineLoads
from tiramisu_py.schedule.devices.tag_gpu import Coarsen, GpuTile, TagGpu
from tiramisu_py.schedule.instances.compact import Compact
from tiramisu_py.schedule.instances.in_runs import InRuns
from tiramisu_py.schedule.instances.partition import DealOut
from tiramisu_py.schedule.instances.separate import Inline, SeparateAt
from tiramisu_py.schedule.instances.separate_cases import SeparateCases
from tiramisu_py.schedule.locality.copy_values import CopyValues
from tiramisu_py.schedule.locality.fetch import Fetch
from tiramisu_py.schedule.locality.moved_along import ComputeAt
from tiramisu_py.schedule.locality.recompute import Recompute
from tiramisu_py.schedule.locality.replicate import Replicate
from tiramisu_py.schedule.locality.reverse_compute_at import ReverseComputeAt
from tiramisu_py.schedule.locality.slide import Slide
from tiramisu_py.schedule.locality.time_tile import TimeTiles
from tiramisu_py.schedule.loops.bands import Band, permutable_band
from tiramisu_py.schedule.loops.isl_schedule import SetSchedule
from tiramisu_py.schedule.loops.wavefronts import Goal
from tiramisu_py.schedule.ranks.distribute import Distribute
from tiramisu_py.schedule.reductions.accumulate import Accumulate
from tiramisu_py.schedule.reductions.gather import Gather
from tiramisu_py.schedule.reductions.reassociate import Reassociate
from tiramisu_py.schedule.reductions.rfactor import Rfactor
from tiramisu_py.schedule.reductions.sum_first import SumFirst
from tiramisu_py.schedule.storage.fold import Fold
from tiramisu_py.schedule.storage.keep import Keep
from tiramisu_py.schedule.storage.memory_hints import Prefetch, StoreNontemporal
from tiramisu_py.schedule.storage.offload import Offload
from tiramisu_py.schedule.storage.place import Place
from tiramisu_py.schedule.storage.store_at import StoreAt
from tiramisu_py.schedule.storage.store_in import StoreIn

if TYPE_CHECKING:
    from tiramisu_py.function.applying.scheduled import Scheduled


def _partial(handle: Selection, made: Rfactor, before: Program) -> Reduction:
    found: Reduction = handle._function[made.made()]
    return found


def _sums(handle: Selection, made: Accumulate, before: Program) -> Reduction:
    found: Reduction = handle._function[made.name]
    return found


def _fetched(handle: Selection, made: Fetch, before: Program) -> Computation:
    found: Computation = handle._function[made.name]
    return found


def _copy(handle: Selection, made: CopyValues, before: Program) -> Selection:
    return handle._made([made.made(before)], source_given(before, made.source))[0]


def _all_parts(handle: Selection, made: Command, before: Program) -> tuple[Selection, ...]:
    return handle._parts()


def _parts_of_partition(handle: Selection, made: Command, before: Program) -> tuple[Selection, ...]:
    return handle._pieces(handle._function.program.targets.partitions[-1].parts)


def _new_parts(handle: Selection, made: Command, before: Program) -> tuple[Selection, ...]:
    made_of = {s.name: s.source for s in handle._function.program.statements.values()}
    return handle._made([s for s, of in made_of.items() if of == handle._source and s not in before.statements])


class Selection(Loops, Distributed, Awaitable, OldWords):
    """Some statements of one computation; commands apply to those that have the named loop."""

    rfactor = command(Rfactor.called, gives=_partial)
    accumulate = command(Accumulate, gives=_sums)
    fetch = command(Fetch, gives=_fetched)
    gather = command(Gather.called)
    _compact = command(Compact.called)
    in_runs = command(InRuns.called)
    reassociate = command(Reassociate)
    _sum_first = command(SumFirst.called)

    def compact(self, *keys: Expr, name: str) -> Self:
        before = self._function.program
        try:
            self._function._declare_keys(self._source, keys, name)
            return self._compact(*keys, name=name)
        except TiramisuError:
            self._function._program = before
            raise

    compact.__doc__ = Compact.__doc__

    def sum_first(self, product: Named, *keys: Expr, name: str) -> Self:
        before = self._function.program
        try:
            self._function._declare_keys(self._source, keys, name, of_terms=True)
            return self._sum_first(product, *keys, name=name)
        except TiramisuError:
            self._function._program = before
            raise

    sum_first.__doc__ = SumFirst.__doc__

    def skew_for(self, goal: Goal, *loops: Iter, tiles: Mapping[Iter, int] | None = None) -> Band:
        """Find and apply the commands that make loops tilable (`tm.LOCALITY`), or run them on threads (`tm.PARALLEL`).

        ::

            for t: for i: h[t, i]   -->   h.skew(t, i, 1)
                                          h.tile({t: 32, i: 256})
                                          h.transform([t0, i0], [[1, 1], [0, 1]], [wave, i0])
                                          h.parallelize(i0)        (skew_for(tm.PARALLEL, tiles={t: 32, i: 256}))

        From the exact dependences follow the least skews, reversals and shifts after which none points backwards along
        any of the loops: they are a band, which can be tiled and permuted. Without `loops` the band has as many of the
        outermost loops as possible. `tiles` are the sizes of tiles along some of them. For threads, a loop that carries
        no dependence is taken, if need be moved outwards; where each carries one, the first two are skewed to a
        wavefront, whose inner loop is parallel. Without `tiles`, a loop that is parallel as it stands is enough.

        The commands are ordinary ones, in the log one by one. Returns the `Band`: its printed form is their text.
        Several computations, ``f.schedule(p, q).skew_for(...)``, are fused and shifted first. Raises `CommandError` if
        no constant skews do, with a pair of iterations that shows it. Source: Feautrier; Bondhugula et al., Pluto.
        """
        return apply_skew_for(self._function, self.statement_names(), goal, loops, tiles)

    def band(self, *loops: Iter) -> Band:
        """The band that `skew_for(tm.LOCALITY, ...)` would make of loops, without a change of the program.

        ::

            for t in 0..T:          -->   the same loops; what would make them tilable is
                for i in 0..N:            h.skew(t, i, 1)                 (print(h.band(t, i)))
                    h[t, i]
        """
        wanted = [loop_name(loop) for loop in loops] or None
        return permutable_band(self._function.program, self.statement_names(), wanted)

    tag_gpu = command(TagGpu)
    gpu_tile = command(GpuTile.called)
    coarsen = command(Coarsen)

    store_in = command(StoreIn)
    store_at = command(StoreAt)
    slide = command(Slide)
    fold = command(Fold)
    offload = command(Offload)
    recompute = command(Recompute)
    align = command(AlignRows)
    keep = command(Keep)
    place = command(Place)
    store_nontemporal = command(StoreNontemporal)
    prefetch = command(Prefetch)

    copy = command(CopyValues, gives=_copy)
    pipeline = command(PipelineLoads)

    compute_at = command(ComputeAt)
    reverse_compute_at = command(ReverseComputeAt)
    replicate = command(Replicate)
    inline = command(Inline)
    set_schedule = command(SetSchedule.called)
    time_tile = command(TimeTiles, gives=_new_parts)
    partition = command(DealOut, gives=_parts_of_partition)
    separate_at = command(SeparateAt, gives=_all_parts)
    separate_cases = command(SeparateCases, gives=_all_parts)

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

    def _parts(self) -> tuple[Selection, ...]:
        return self._made(self.statement_names())

    def _made(self, names: Sequence[str], source: str | None = None) -> tuple[Selection, ...]:
        return tuple(Part(self._function, source or self._source, name) for name in names)

    def _pieces(self, groups: Sequence[tuple[str, ...]]) -> tuple[Selection, ...]:
        made = [Piece(self, f"{self.name}_{k}", names) for k, names in enumerate(groups)]
        return tuple(piece._each[0] if len(piece._each) == 1 else piece for piece in made)


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


Indices = Operand | tuple[Operand, ...]


class Indexed(OldArrays, ManyValues, ABC):
    """A name that stands for many values: an expression names one of them by its indices."""

    name: str

    def __bool__(self) -> bool:
        return True

    @abstractmethod
    def _rank(self) -> int:
        """The number of indices."""

    @abstractmethod
    def __getitem__(self, indices: Indices) -> Expr:
        """The value at some indices."""

    @abstractmethod
    def _extents(self) -> tuple[Expr, ...]:
        """The extents of the box of its values, from index 0."""

    def reshape(self, *shape: Any) -> View:
        """The values with other dimensions, in the same order: ``x.reshape([M, N])[i, j]`` names one of them.

        ::

            x of [H, 10, 5]:    x.reshape([H, 50])[h, j]    -->    x[h, j // 5, j % 5]

        The extents may also be given one by one. A view has no array, and copies nothing. One extent may be -1. Of
        dimensions that are joined only the outermost may have a size as extent. Raises `DeclarationError` for another
        number of elements.
        """
        whole = shape[0] if len(shape) == 1 and isinstance(shape[0], list | tuple) else shape
        return view(self, self._extents(), whole)


class Input(Indexed, Nameable):
    """An array that the caller passes; ``image[r, c + 1]`` is a value of it."""

    distribute_array = command(Distribute)

    def __init__(self, function: Scheduled, name: str) -> None:
        self._function = function
        self.name = name

    @property
    def dtype(self) -> DType:
        """The scalar type of the elements."""
        return self._function.program.algorithm.inputs[self.name].dtype

    @property
    def _named(self) -> Named:
        return NamedInput(self.name, self.name, self.name)

    def __getitem__(self, indices: Indices) -> Expr:
        declared, owner = self._declared, self._function.owner
        rank = len(declared.passed_shape)
        if declared.passed is None or (isinstance(indices, tuple) and len(indices) != rank):
            return access(self.name, self.dtype, len(declared.shape), indices, owner)
        given = access(self.name, self.dtype, rank, indices, owner).indices
        parts = indices_in(given, declared.passed, declared.shape)
        return access(self.name, self.dtype, len(parts), parts, owner)

    def _rank(self) -> int:
        return len(self._declared.passed_shape)

    def _extents(self) -> tuple[Expr, ...]:
        return self._declared.passed_shape

    @property
    def _declared(self) -> declarations.Input:
        return self._function.program.algorithm.inputs[self.name]

    def store_in(self, *_: object, **__: object) -> NoReturn:
        """Always raises `CommandError`: an input is stored where the caller has it."""
        raise CommandError(
            f"{self.name} is an input, and stored where the caller has it: give memory=tm.GPU_MEMORY or tm.HOST_MAPPED "
            "when it is declared, or let what reads it copy it, with copy"
        )

    def place(self, *_: object, **__: object) -> NoReturn:
        """Always raises `CommandError`: the memory of an input is the caller's."""
        raise CommandError(
            f"{self.name} is an input, and its pages are where the caller first wrote them: make the array with "
            f'kernel.empty("{self.name}", ...), and fill it'
        )

    def __repr__(self) -> str:
        return self.name

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> NoReturn:
            """Raises `CommandError` for commands, which are for computations, else `UnknownNameError`."""
            if not name.startswith("_") and hasattr(Selection, name) and not hasattr(Awaitable, name):
                raise CommandError(
                    f"{self.name} is an input and has no loops: {name} is for computations, or for a copy of it, which "
                    "copy makes"
                )
            raise unknown_name(self, name)


class Computation(Indexed, Selection):
    """A set of values; ``bx[r + 1, c]`` is one of them. Commands apply to all its statements that have the loop."""

    distribute_array = command(Distribute)

    @property
    def dtype(self) -> DType:
        """The scalar type of the values."""
        return self._type_and_rank()[0]

    def __getitem__(self, indices: Indices) -> Expr:
        return access(self._source, *self._type_and_rank(), indices, self._function.owner)

    def _rank(self) -> int:
        return self._type_and_rank()[1]

    def _extents(self) -> tuple[Expr, ...]:
        declared = self._function.program.algorithm.computations.get(self._source)
        if declared is None or declared.is_open:
            raise DeclarationError(f"{self._source}.reshape: its domain is not known yet: give it one")
        return extents_of(declared.domain, self._function.program.context)

    def _type_and_rank(self) -> tuple[DType, int]:
        declared = self._function.program.algorithm.computations.get(self._source)
        if declared is None:
            return self._function._type_in_group(self._source)
        return declared.dtype, len(declared.iterators)

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> NoReturn:
            """Raises `CommandError` for `init` and `update`, which reductions have, else `UnknownNameError`."""
            if name in ("init", "update"):
                behind = [f'f["{each}"].{name}' for each in reductions_behind(self._function.program, self.name)]
                advice = f": it is computed from reductions, {', '.join(behind)}" if behind else ""
                raise CommandError(f"{self.name} is no reduction, and has no {name}{advice}")
            raise unknown_command(self, name)


def reductions_behind(program: Program, name: str) -> list[str]:
    """The reductions that a computation is made of, such as the sum of a mean; those that it reads if it has none."""
    computations = program.algorithm.computations
    reductions = [each for each, declared in computations.items() if declared.is_reduction]
    own = [each for each in reductions if each.startswith(f"{name}_")]
    declared = computations.get(name)
    if own or declared is None or declared.is_open:
        return own
    read = [access.source for access in accesses(declared.expr)]
    return [each for each in reductions if each in read]


class Reduction(Computation):
    """A reduction: `init` stores the identity, `update` combines one term; commands apply to both where they can."""

    @property
    def init(self) -> Selection:
        """The statement that stores the operator's identity."""
        return self._with_role(Role.INIT, "init")

    @property
    def update(self) -> Selection:
        """The statement that combines one term into the partial result."""
        return self._with_role(Role.UPDATE, "update")

    def _with_role(self, role: Role, suffix: str) -> Selection:
        found = [s for s in self._function.program.statements_of(self._source) if s.role is role]
        if not found:
            raise CommandError(f"{self._source} has no statement for its {suffix} any more")
        root = found[0].origin.part_of[0] if found[0].origin.part_of else found[0].name
        return Part(self._function, self._source, root)
