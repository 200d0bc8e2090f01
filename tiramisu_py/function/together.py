"""Groups: computations that are declared together, and may read each other."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any, NoReturn, Self

from tiramisu_py.algorithm import types as ty
from tiramisu_py.algorithm.declare.declare import no_operator
from tiramisu_py.algorithm.declare.groups import Draft, declare_group, draft
from tiramisu_py.algorithm.evaluate.operator_laws import check_laws
from tiramisu_py.algorithm.expressions import Expr, Operand
from tiramisu_py.algorithm.operators import Operator
from tiramisu_py.algorithm.types import DType
from tiramisu_py.errors import DeclarationError
from tiramisu_py.function.applying.caller import caller
from tiramisu_py.function.applying.scheduled import Scheduled
from tiramisu_py.function.handles.computations import Computation, Reduction
from tiramisu_py.program.initial import with_group

#: An expression, or the function that makes it once all computations of the group have a name.
Made = Operand | Callable[..., Operand]


class Group:
    """The computations of one ``with f.together() as g:``, which are declared when it ends."""

    def __init__(self, function: Scheduled) -> None:
        self._function = function
        self._drafts: dict[str, Draft] = {}
        self._is_begun = self._is_over = False

    def computation(
        self,
        name: str,
        domain: Any,
        expr: Made,
        *,
        where: Expr | None = None,
        dtype: DType | None = None,
        shape: Sequence[Operand] | None = None,
        values: tuple[Operand, Operand] | None = None,
    ) -> Computation:
        """A computation of the group, as `Function.computation` declares it, but for `expr`.

        `expr` is an expression of what is declared already, or a function without arguments that makes it when the
        group ends, ``lambda: o[t] * tm.tanh(c[t])``, and may use all computations of the group. The domain is given.
        Raises `DeclarationError`.
        """
        self._add(name, domain, expr, dtype=dtype, options={"where": where, "shape": shape, "values": values})
        return Computation(self._function, name)

    def reduction(
        self,
        name: str,
        domain: Any,
        over: Any,
        op: Operator,
        expr: Made,
        *,
        where: Expr | None = None,
        dtype: DType | None = None,
        shape: Sequence[Operand] | None = None,
        ordered: bool = False,
        values: tuple[Operand, Operand] | None = None,
        determinism: str | None = None,
    ) -> Reduction:
        """A reduction of the group, as `Function.reduction` declares it, but for `expr`: see `computation`."""
        options = {"where": where, "shape": shape, "ordered": ordered, "values": values, "determinism": determinism}
        self._add(name, domain, expr, over=over, op=op, dtype=dtype, options=options)
        return Reduction(self._function, name)

    def stage(self, name: str, *_: object, **__: object) -> NoReturn:
        """Refused: computations of a group share loops, and the iterators of a call have none.

        Declare `Function.stage` before or after the group. Raises `DeclarationError`.
        """
        raise DeclarationError(
            f"{name} is a call over whole arrays: computations of a group share loops as deep as their values need, "
            f"and the iterators of a call have none; declare {self._function.name}.stage({name!r}, ...) before or "
            f"after the group, or write {name} as a computation of the group"
        )

    def _add(self, name: str, domain: Any, expr: Any, *, options: dict[str, Any], **given: Any) -> None:
        function = self._function
        if not self._is_begun:
            raise DeclarationError(f"the group of {name} has not begun: write with {function.name}.together() as g:")
        if self._is_over:
            raise DeclarationError(f"{name} comes after the end of its group: declare it inside of the with statement")
        if "op" in given and not isinstance(given["op"], Operator):
            raise no_operator(name, given["op"])
        options = {**options, "owner": function.owner, "location": caller()}
        made = draft(function.program.algorithm, self._drafts, name, domain, expr, **given, options=options)
        self._drafts[name] = made
        function._drafted[name] = (None if made.first_type is ty.unknown else made.first_type, made.rank)

    def __enter__(self) -> Self:
        if self._function._drafted or self._is_over:
            raise DeclarationError(f"{self._function.name} has a group that is not at its end: declare one at a time")
        self._is_begun = True
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._is_over = True
        try:
            if kind is None and self._drafts:
                self._declare()
        finally:
            self._function._drafted = {}

    def _declare(self) -> None:
        function, drafts = self._function, list(self._drafts.values())

        def told(types: Any) -> None:
            function._drafted = {each.name: (types[each.name], each.rank) for each in drafts}

        algorithm = function.program.algorithm
        declared = declare_group(algorithm, drafts, told, function.owner)
        known = dict(algorithm.computations)
        for each in declared:
            check_laws(known, each)
            known[each.name] = each
        function._program = with_group(function.program, declared)
