"""The handles that declarations return: names that can be indexed in expressions and take commands."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, NoReturn

from tiramisu_py.algorithm import declarations
from tiramisu_py.algorithm.domains.extents import extents_of
from tiramisu_py.algorithm.domains.linearised import indices_in
from tiramisu_py.algorithm.domains.references import access
from tiramisu_py.algorithm.expressions import Expr, Operand
from tiramisu_py.algorithm.misuse import ManyValues, unknown_name
from tiramisu_py.algorithm.traversal import accesses
from tiramisu_py.algorithm.types import DType
from tiramisu_py.errors import CommandError, DeclarationError
from tiramisu_py.function.applying.own_calls import unknown_command
from tiramisu_py.function.commands.rank_commands import Distributable
from tiramisu_py.function.handles.operations import Awaitable
from tiramisu_py.function.handles.selection import Part, Selection
from tiramisu_py.function.handles.views import View, view
from tiramisu_py.program.statement import Role
from tiramisu_py.schedule.command_fields import Named, NamedInput

if TYPE_CHECKING:
    from tiramisu_py.function.applying.scheduled import Scheduled
    from tiramisu_py.program.program import Program

Indices = Operand | tuple[Operand, ...]


class Indexed(ManyValues, ABC):
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


class Input(Indexed, Distributable):
    """An array that the caller passes; ``image[r, c + 1]`` is a value of it."""

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
            f"{self.name} is an input, and stored where the caller has it: give memory=tm.GPU when it is declared, or "
            "copy it with cache_shared, cache or pack of what reads it"
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
                    "cache makes"
                )
            raise unknown_name(self, name)


class Computation(Indexed, Selection, Distributable):
    """A set of values; ``bx[r + 1, c]`` is one of them. Commands apply to all its statements that have the loop."""

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
        root = found[0].part_of[0] if found[0].part_of else found[0].name
        return Part(self._function, self._source, root)
