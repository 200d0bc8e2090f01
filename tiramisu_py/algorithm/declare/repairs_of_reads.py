"""Repairs of a read of a value that does not exist: conditions, domains and indices to write."""

from __future__ import annotations

from collections.abc import Sequence

import islpy as isl

from tiramisu_py import sets
from tiramisu_py.algorithm.declarations import Algorithm, Computation
from tiramisu_py.algorithm.domains.boxes import ends_of_box, smallest_box
from tiramisu_py.algorithm.domains.extents import extents_of
from tiramisu_py.algorithm.domains.from_isl import condition_of_params
from tiramisu_py.algorithm.expressions import Access, Binary, Cast, Const, Expr, Iter, Param, Select, binary
from tiramisu_py.algorithm.traversal import walk
from tiramisu_py.errors import DeclarationError

#: An expression that is longer is not repeated in a repair.
_LONGEST = 60


def from_the_end(algorithm: Algorithm, read: Access) -> str:
    """The advice to count from the other end, where an index is a negative number; "" if none is, or no length known.

    ::

        a[-1] of an array [N]    -->    a[N - 1]
    """
    back = {k: -int(e.value) for k, e in enumerate(read.indices) if isinstance(e, Const) and e.value < 0}
    declared = algorithm.inputs.get(read.source)
    if not back or (declared is not None and declared.passed is not None):
        return ""
    computed = algorithm.computations.get(read.source)
    try:
        own = () if computed is None else extents_of(computed.domain, algorithm.context)
    except DeclarationError:
        return ""
    extents = own if declared is None else declared.shape
    indices = list(read.indices)
    for k, steps in back.items():
        indices[k] = binary("-", extents[k], steps)
    return f"write {read.source}[{', '.join(map(str, indices))}]: indices count from 0, and a negative one is no value"


def first_values(c: Computation, bad: isl.Set, points: isl.Set) -> str:
    """The advice to give the values of a recurrence that have none before them; "" where no values are left.

    ::

        z[i - 1] + a[i] over {i: N}    -->    tm.select(i == 0, .., z[i - 1] + a[i])
    """
    if points.subtract(bad).is_empty():
        return ""
    text = str(c.expr) if all(_is_as_written(e) for e in walk(c.expr)) else ""
    rest = text if 0 < len(text) <= _LONGEST else ".."
    return f"give {c.name} its first values: tm.select({_condition(c, bad, points)}, .., {rest})"


def mask_or_conversion(c: Computation, read: Access) -> str:
    """The advice for a load of a kernel: its mask, or the type of loaded integers that it compares with a size.

    ::

        m = tl.load(row[e])    -->    m = tl.load(row[e]).to(tl.int64)
    """
    mask = f"let mask= of {c.origin} leave it out"
    numbers = _numbers_in_masks(c.expr)
    if numbers:
        size = f"{read.source}.shape[{len(read.indices) - 1}]"
        mask += (
            f"; {' and '.join(numbers)} in it is no size, and the proof does not compare it with one: add a comparison "
            f"with the extent, & (.. < {size}), or make it a parameter of the function, tm.params({numbers[0]!r})"
        )
    narrow = [name for name in _unconverted(c.guards) if name in _unconverted(read.indices)]
    if not narrow:
        return mask
    wide = ", ".join(f"tl.load({name}[..]).to(tl.int64)" for name in narrow)
    why = "a mask that compares or multiplies integers of less than 64 bits may overflow, so convert them"
    return f"{mask}; {why}: {wide}"


def _numbers_in_masks(expression: Expr) -> list[str]:
    """The scalar arguments in the conditions of an expression."""
    conditions = (each.condition for each in walk(expression) if isinstance(each, Select))
    found = (e for condition in conditions for e in walk(condition) if isinstance(e, Access) and not e.indices)
    return list(dict.fromkeys(e.source for e in found))


def _unconverted(expressions: Sequence[Expr]) -> list[str]:
    """The arrays of integers of less than 64 bits that are used as they are."""
    found: dict[str, None] = {}
    for expression in expressions:
        wide = {id(e.operand) for e in walk(expression) if isinstance(e, Cast) and e.dtype.bits == 64}
        for each in walk(expression):
            if isinstance(each, Access) and each.dtype.is_integer and each.dtype.bits < 64 and id(each) not in wide:
                found[each.source] = None
    return list(found)


def smaller(algorithm: Algorithm, c: Computation, bad: isl.Set, points: isl.Set) -> str:
    """The advice to make a domain smaller: the domain to write where it is a box."""
    if c.over:
        return f"make the domain of {c.name} or the range of {', '.join(c.over)} smaller"
    box = _box(algorithm, c, points.subtract(bad))
    return f"make the domain of {c.name} smaller{f', {box}' if box else ''}"


def edges(read: Access) -> str:
    """The advice to read beyond the ends of an array by a boundary condition; "" for indices that are constant."""
    if not any(isinstance(e, Iter) for index in read.indices for e in walk(index)):
        return ""
    return f", or read tm.boundary.repeat_edge({read.source})[{', '.join(map(str, read.indices))}]"


def _condition(c: Computation, bad: isl.Set, points: isl.Set) -> Expr:
    """The bad points among those of a computation, as a condition on its iterators."""
    iterators = c.point_iterators
    within = sets.dims_as_params(points, iterators)
    where = sets.dims_as_params(bad, iterators).gist(within).coalesce()
    return condition_of_params(where, within)


def _is_as_written(e: Expr) -> bool:
    """Whether the text of a node is Python of a user's script."""
    return isinstance(e, Access | Const | Iter | Param) or (isinstance(e, Binary) and e.op not in ("min", "max"))


def _box(algorithm: Algorithm, c: Computation, good: isl.Set) -> str:
    """The domain of some points as a dict, if it is a box of simple bounds that are those of each size; else ""."""
    try:
        if good.is_empty() or not smallest_box(good).intersect_params(good.params()).is_subset(good):
            return ""
        ends = ends_of_box(good, algorithm.context.params())
    except (DeclarationError, isl.Error):
        return ""
    if any(_is_choice(end) for pair in ends for end in pair):
        return ""
    return _dict(c.iterators, ends)


def _is_choice(bound: Expr) -> bool:
    return any(isinstance(e, Select) or (isinstance(e, Binary) and e.op in ("min", "max")) for e in walk(bound))


def _dict(iterators: Sequence[str], ends: Sequence[tuple[Expr, Expr]]) -> str:
    bounds = [
        f"{i}: {end}" if str(low) == "0" else f"{i}: ({low}, {end})"
        for i, (low, end) in zip(iterators, ends, strict=True)
    ]
    return f"{{{', '.join(bounds)}}}"
