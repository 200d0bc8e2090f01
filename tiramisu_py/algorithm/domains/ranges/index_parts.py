"""The parts of integer expressions that have no affine form: each gets a name, and becomes a dimension of a frame."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import islpy as isl

from tiramisu_py import sets
from tiramisu_py.algorithm.domains.affine import Affine, NotAffine
from tiramisu_py.algorithm.expressions import Access, Binary, Call, Cast, Const, Expr, Iter, Select, Unary
from tiramisu_py.algorithm.stacks import Steps, unstacked
from tiramisu_py.algorithm.traversal import iterators, rewrite, substitute, walk
from tiramisu_py.algorithm.types import DType, weak_int

#: The operators whose result may not fit the type of the operands.
_WRAPPING = ("+", "-", "*", "<<")

#: Parameters of calls are less than this.
LARGEST_SIZE = 2**47

#: Where an expression has more choices than this, each is a part of its own.
_MOST_CHOICES = 3


class IndexParts:
    """Expressions over a frame, in which names stand for the parts without an affine form.

    ``x[i] * y[i] + 1`` is ``_value2 + 1``, where ``_value2`` is the part ``_value0 * _value1`` of the parts ``x[i]``
    and ``y[i]``: a part that is an operation has operands with affine forms. Arithmetic that may wrap around is a
    part too: that in types below 32 bits, or, where `exact`, that in all types that have a width. So is each of many
    choices, where `exact`. The parts of what is `compared`, in conditions on the expressions, have names too.
    """

    def __init__(
        self, space: isl.Space, given: Sequence[Expr], exact: bool = False, compared: Sequence[Expr] = ()
    ) -> None:
        self.space = space
        self.exact = exact
        self.parts: dict[str, Expr] = {}
        self.written: dict[str, Expr] = {}
        self.splits = exact and sum(_is_choice(node) for e in given for node in walk(e)) > _MOST_CHOICES
        self.given = [self._opened(with_conversions(e, exact)) for e in given]
        self.compared = [self._opened(with_conversions(e, exact)) for e in compared]
        self.reader = self._reader()
        while (part := self._opaque()) is not None:
            self._replace(part)
            self.reader = self._reader()

    def forms(self) -> list[isl.PwAff]:
        """The affine forms of the expressions, on the frame extended by one dimension for each part."""
        return [self.reader.value(e) for e in self.given]

    def in_order(self) -> list[str]:
        """The names of the parts, those of operands first."""
        found: dict[str, None] = {}
        waiting = list(self.parts)
        while waiting:
            name = waiting[-1]
            missing = [other for other in self.operands_of(self.parts[name]) if other not in found]
            if name in found or not missing:
                found[waiting.pop()] = None
            else:
                waiting += missing
        return list(found)

    def operands_of(self, part: Expr) -> list[str]:
        """The names of the parts inside a part, or an expression."""
        return [name for name in iterators(part) if name in self.parts]

    def always(self) -> set[str]:
        """The names of the parts that are evaluated wherever the expressions are, not only in a branch of a select."""
        found: set[str] = set()
        waiting = [*self.given, *self.compared]
        while waiting:
            e = waiting.pop()
            if isinstance(e, Iter) and e.name in self.parts and e.name not in found:
                found.add(e.name)
                waiting.append(self.parts[e.name])
            elif not is_closed(e):
                waiting += [e.condition] if isinstance(e, Select) else e.children()
        return found

    def in_words(self, e: Expr) -> Expr:
        """An expression as it was written: with parts in the place of their names."""
        return substitute(e, self.written)

    def _reader(self) -> Affine:
        grown = sets.extended_frame(self.space, len(self.parts))
        names = [*(name or "" for name in sets.dim_names(self.space)), *self.parts]
        return Affine(grown, dict(zip(names, sets.variables(grown), strict=True)))

    def _opaque(self) -> Expr | None:
        """A part of the expressions that has no affine form, and no name yet."""
        for e in self._read():
            if e.dtype.is_bool:
                return e
            try:
                self.reader.value(e)
            except NotAffine as error:
                return error.part
        return None

    def _read(self) -> Iterator[Expr]:
        """The expressions that need affine forms: those that are given, and the operands of parts."""
        yield from self.given
        yield from self.compared
        for part in self.parts.values():
            yield from operands(part)

    def _opened(self, e: Expr) -> Expr:
        """An expression with names for the arithmetic inside that may wrap around."""

        def opened(node: Expr) -> Expr | None:
            if is_closed(node):
                return node
            is_part = may_wrap(node, self.exact) or (self.splits and _is_choice(node))
            return self._named(node) if is_part else None

        return rewrite(e, opened)

    def _named(self, part: Expr) -> Iter:
        opened = part
        if not is_closed(part) and part.children():
            opened = part.rebuilt(tuple(map(self._opened, part.children())))
        for name, known in self.parts.items():
            if known.same_as(opened):
                return Iter(name)
        name = f"_value{len(self.parts)}"
        self.written[name] = self.in_words(opened)
        self.parts[name] = opened
        return Iter(name)

    def _replace(self, part: Expr) -> None:
        """Name a part wherever it occurs; for a condition, every select that it decides."""
        everything = [*self.given, *self.compared, *self.parts.values()]
        selects = [node for e in everything for node in walk(e) if isinstance(node, Select)]
        decided = [e for e in selects if part.dtype.is_bool and any(n.same_as(part) for n in walk(e.condition))]
        chosen: list[Expr] = [*decided] or [part]

        def opaque(e: Expr) -> Expr | None:
            if any(e.same_as(each) for each in chosen):
                return self._named(e)
            return e if is_closed(e) else None

        self.given = [rewrite(e, opaque) for e in self.given]
        self.compared = [rewrite(e, opaque) for e in self.compared]
        for name, before in list(self.parts.items()):
            if not is_closed(before) and before.children():
                self.parts[name] = before.rebuilt(tuple(rewrite(child, opaque) for child in before.children()))


def is_closed(e: Expr) -> bool:
    """Whether the inside of an expression is no integer arithmetic of the expression around it."""
    return isinstance(e, Access) or not (e.dtype.is_integer or e.dtype.is_bool)


def _is_choice(e: Expr) -> bool:
    """Whether an integer is one of several: as an affine form it has pieces, and those of choices multiply."""
    return e.dtype.is_integer and (isinstance(e, Select) or (isinstance(e, Binary) and e.op in ("min", "max")))


def operands(part: Expr) -> tuple[Expr, ...]:
    """The operands of a part by which its values are bounded."""
    match part:
        case Binary() if part.dtype.is_integer:
            return (part.left, part.right)
        case Unary() if part.dtype.is_integer:
            return (part.operand,)
        case Cast() if part.dtype.is_integer and (part.operand.dtype.is_integer or part.operand.dtype.is_bool):
            return (part.operand,)
        case Call(function="abs") if part.dtype.is_integer:
            return part.arguments
        case Select() if part.dtype.is_integer:
            return (part.yes, part.no)
    return ()


def may_wrap(e: Expr, exact: bool) -> bool:
    """Whether integer arithmetic, or a conversion, may wrap around; of int32 and int64 only where `exact`."""
    if not e.dtype.is_integer or e.dtype.weak:
        return False
    if isinstance(e, Cast) and e.dtype.name == "int64" and e.operand.dtype.name == "uint64":
        return True
    if not (is_narrow(e.dtype) or exact):
        return False
    if isinstance(e, Binary) and e.op == "//":  # the least number by -1
        return not (isinstance(e.right, Const) and e.right.value > 0)
    return isinstance(e, Binary | Unary) and e.op in _WRAPPING


def is_narrow(dtype: DType) -> bool:
    """Whether a type is an integer type other than int32 and int64."""
    return dtype.is_integer and not dtype.weak and dtype.name not in ("int64", "int32")


def with_conversions(e: Expr, exact: bool = False) -> Expr:
    """An index in which sizes and iterators combined with a value of a narrow type are converted to it explicitly."""
    return unstacked(_converted, e, exact)


def _converted(e: Expr, exact: bool) -> Steps[Expr]:
    children = []
    for child in e.children():
        children.append((yield (child, exact)))
    if isinstance(e, Binary | Select) and (is_narrow(e.dtype) or (exact and e.dtype.name == "int32")):
        children = [Cast(c, e.dtype) if is_converted(c) else c for c in children]
    changed = any(new is not old for new, old in zip(children, e.children(), strict=True))
    return e.rebuilt(tuple(children)) if changed else e


def is_converted(operand: Expr) -> bool:
    """Whether an operand is a size, or arithmetic of iterators, which takes on the type of the other one."""
    return operand.dtype is weak_int and not isinstance(operand, Const)
