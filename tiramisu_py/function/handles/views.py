"""Views of arrays with other dimensions: ``a.reshape([M, N])[i, j]`` is an element of `a`, and has no array of its own.

Dimensions are joined and cut in groups with the same number of elements. In a group the element ``[i, j]`` has the
number ``i*N + j``, whose parts, quotients and remainders by constants, are the indices of `a`. So all dimensions of `a`
in a group but the outermost have constant extents.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import reduce
from math import gcd, prod
from typing import TYPE_CHECKING, Any, NoReturn

from tiramisu_py.algorithm.domains.extents_from_arguments import linear
from tiramisu_py.algorithm.domains.linearised import factors_of, product_of
from tiramisu_py.algorithm.expressions import Const, Expr, Operand, Param, as_expr, binary
from tiramisu_py.algorithm.misuse import unknown_name
from tiramisu_py.algorithm.traversal import walk
from tiramisu_py.algorithm.types import weak_int
from tiramisu_py.errors import CommandError, DeclarationError
from tiramisu_py.program.command import every_command, name_of
from tiramisu_py.records import dataclass

if TYPE_CHECKING:
    from tiramisu_py.function.handles.computations import Indexed

Form = tuple[tuple[tuple[str, int], ...], int]


@dataclass(frozen=True)
class _Size:
    """A number of elements: a constant, times forms of the parameters."""

    count: int
    forms: tuple[Form, ...] = ()

    def times(self, other: _Size) -> _Size:
        return _Size(self.count * other.count, tuple(sorted(self.forms + other.forms)))

    def without(self, other: _Size) -> _Size | None:
        """This size without some factors; None if they are no factors."""
        forms = Counter(self.forms)
        forms.subtract(Counter(other.forms))
        if other.count == 0 or self.count % other.count or min(forms.values(), default=0) < 0:
            return None
        return _Size(self.count // other.count, tuple(sorted(forms.elements())))


class View:
    """The values of `of` with the dimensions `shape`."""

    def __init__(self, of: Indexed, groups: Sequence[tuple[list[Expr], list[Expr]]]) -> None:
        self._of = of
        self._groups = groups

    @property
    def shape(self) -> tuple[Expr, ...]:
        """The extents."""
        return tuple(extent for _, new in self._groups for extent in new)

    def __getitem__(self, indices: object) -> Expr:
        given = list(indices) if isinstance(indices, tuple) else [indices]
        if len(given) != len(self.shape):
            raise DeclarationError(f"{self} has {len(self.shape)} indices, {len(given)} were given")
        if any(isinstance(each, slice) or each is Ellipsis or each is None for each in given):
            raise DeclarationError(f"{self}: an index is a slice: write an iterator, such as i, instead")
        found, left = list[Expr](), [as_expr(each) for each in given]
        for old, new in self._groups:
            found += _indices(left[: len(new)], old, new)
            left = left[len(new) :]
        return self._of[tuple(found)]

    def reshape(self, *shape: Any) -> View:
        """These values with other dimensions again."""
        return self._of.reshape(*shape)

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> NoReturn:
            """Raises `CommandError` for commands, which are for what has loops, else `AttributeError`."""
            if name in map(name_of, every_command()):
                raise CommandError(
                    f"{self} is a view and has no loops: give {name} to {self._of.name}, or to what reads it"
                )
            raise unknown_name(self, name)

    def __repr__(self) -> str:
        return f"{self._of.name}.reshape([{', '.join(map(str, self.shape))}])"


def view(of: Indexed, extents: Sequence[Expr], shape: Sequence[Operand]) -> View:
    """The view of an array with some extents; raises `DeclarationError` for a shape that it cannot have."""
    new = [as_expr(extent) for extent in shape]
    wrong = [extent for extent in new if not extent.dtype.is_integer]
    if wrong:
        raise DeclarationError(f"{of.name}.reshape: the extent {wrong[0]} is no integer")
    whole = f"{of.name} has the shape [{', '.join(map(str, extents))}]"
    new = _with_rest(of, extents, new, whole)
    groups = list[tuple[list[Expr], list[Expr]]]()
    left, right = list(extents), list(new)
    while left or right:
        groups.append(_group(of, left, right, f"{whole}, and not [{', '.join(map(str, new))}]"))
    return View(of, groups)


def _with_rest(of: Indexed, extents: Sequence[Expr], new: list[Expr], whole: str) -> list[Expr]:
    """The extents with the one that is -1 made of all others."""
    open_ = [k for k, extent in enumerate(new) if isinstance(extent, Const) and extent.value == -1]
    if not open_:
        return new
    total, known = _size_of(extents), _size_of([e for k, e in enumerate(new) if k != open_[0]])
    rest = total.without(known)
    if len(open_) > 1 or rest is None:
        raise DeclarationError(
            f"{of.name}.reshape: {whole}: one extent may be -1, where the others divide its elements"
        )
    parts = _parts(rest, [factor for extent in extents for factor in factors_of(extent)])
    return [*new[: open_[0]], product_of(parts) if parts else Const(1, weak_int), *new[open_[0] + 1 :]]


def _parts(size: _Size, factors: Sequence[Expr]) -> list[Expr]:
    """The factors of a number of elements, each as one of the given ones says it, as far as its count is one of it."""
    count, found = size.count, list[Expr]()
    for form in size.forms:
        alike = [factor for factor in factors if _factor(factor).forms == (form,)]
        whole = next((factor for factor in alike if count % _factor(factor).count == 0), None)
        if whole is not None:
            count //= _factor(whole).count
        found.append(_primitive(form, alike[0]) if whole is None else whole)
    return found if count == 1 else [Const(count, weak_int), *found]


def _primitive(form: Form, size: Expr) -> Expr:
    """A form of the parameters in a size that is a multiple of it."""
    known = {each.name: each for each in walk(size) if isinstance(each, Param)}
    terms: list[Expr] = [known[name] if c == 1 else binary("*", c, known[name]) for name, c in form[0]]
    return reduce(lambda a, b: binary("+", a, b), [*terms, Const(form[1], weak_int)] if form[1] else terms)


def _group(of: Indexed, left: list[Expr], right: list[Expr], whole: str) -> tuple[list[Expr], list[Expr]]:
    """The next dimensions, of the array and of the view, with as many elements; they are taken from the lists."""
    old, new = list[Expr](), list[Expr]()
    while left or right:
        if (old or new) and _size_of(old) == _size_of(new) and not (old and new) and not (left and right):
            break
        if old and new and _size_of(old) == _size_of(new):
            break
        taken = left if left and (not right or _covers(_size_of(new), _size_of(old), bool(new))) else right
        (old if taken is left else new).append(taken.pop(0))
    if _size_of(old) != _size_of(new):
        raise DeclarationError(f"{of.name}.reshape: {whole}: the numbers of elements differ")
    if len(old) > 1 and any(_constant(extent) is None for extent in old[1:]):
        raise DeclarationError(
            f"{of.name}.reshape: {whole}: it would divide by {next(e for e in old[1:] if _constant(e) is None)}, which "
            "is no constant; only the outermost of dimensions that are joined may have a size as extent: declare the "
            f"array with one extent, [{' * '.join(map(str, old))}], and index that"
        )
    return old, new


def _covers(new: _Size, old: _Size, begun: bool) -> bool:
    """Whether the group needs another dimension of the array: the view's has elements that it has not."""
    return begun and old != new and (new.without(old) is not None or old.without(new) is None)


def _indices(given: Sequence[Expr], old: Sequence[Expr], new: Sequence[Expr]) -> list[Expr]:
    """The indices of an array from those of its view, in one group of dimensions."""
    if len(old) == len(new) == 1:
        return [given[0]]
    if not new:  # dimensions of one element, for which the view has none
        return [Const(0, weak_int) for _ in old]
    number = reduce(lambda a, b: binary("+", a, b), map(_scaled, given, [list(new[k + 1 :]) for k in range(len(new))]))
    found = list[Expr]()
    for k in range(len(old)):
        stride = prod(_constant(extent) or 0 for extent in old[k + 1 :])
        part = number if stride == 1 else binary("//", number, stride)
        extent = _constant(old[k])
        found.append(part if k == 0 or extent is None else binary("%", part, extent))
    return found


def _scaled(index: Expr, inner: Sequence[Expr]) -> Expr:
    return binary("*", index, product_of(inner)) if inner else index


def _constant(extent: Expr) -> int | None:
    form = linear(extent, {})
    return form[1] if form is not None and not any(form[0].values()) else None


def _size_of(extents: Sequence[Expr]) -> _Size:
    """The number of elements of some dimensions."""
    found = _Size(1)
    for extent in extents:
        for factor in factors_of(extent):
            found = found.times(_factor(factor))
    return found


def _factor(extent: Expr) -> _Size:
    form = linear(extent, {})
    if form is None:
        return _Size(1, ((((str(extent), 1),), 0),))
    named = tuple(sorted((name, c) for name, c in form[0].items() if c))
    if not named:
        return _Size(form[1])
    common = gcd(form[1], *(c for _, c in named))
    return _Size(common, ((tuple((name, c // common) for name, c in named), form[1] // common),))
