"""The ranges that are declared for computed values: claims, which follow from the expressions, or are refused."""

from __future__ import annotations

import islpy as isl

from tiramisu_py import sets
from tiramisu_py.algorithm.declarations import Algorithm, Computation
from tiramisu_py.algorithm.domains.affine import Affine
from tiramisu_py.algorithm.domains.conditions import missing_condition
from tiramisu_py.algorithm.domains.extents_from_arguments import params_of
from tiramisu_py.algorithm.domains.ranges.value_ranges import ranges_of
from tiramisu_py.algorithm.expressions import Access, Binary, Cast, Const, Expr, Iter
from tiramisu_py.algorithm.traversal import accesses, iterators, walk
from tiramisu_py.algorithm.types import DType
from tiramisu_py.errors import Violation, Witness
from tiramisu_py.sets import smallest

#: A type wraps around at sizes like this, which no program has: an assumption is what is missing.
_HUGE = 2**30


def broken_claim(algorithm: Algorithm, c: Computation) -> Violation | None:
    """The reason why a computation may have a value outside its declared range; None if it has none.

    Values that it reads of itself, or in a group of others, are taken to be in their ranges: each value comes after
    those that it reads, so that the first one outside a range would have read none outside.
    """
    if c.values is None or c.run_of:  # a run that covers all positions has one of its rows for each
        return None
    low, high = c.values
    domain = sets.named(c.domain, c.name).intersect_params(algorithm.context.params())
    pairs = sets.flat_product(domain, sets.universe(algorithm.frame(None, ("v",))), "pair")
    known = ranges_of(algorithm).inferred(c.name)
    if known is not None:
        pairs = pairs.intersect(sets.flat_pairs(known.values.intersect_domain(domain), "pair"))
    bad = pairs.subtract(_within(pairs, low, high))
    if bad.is_empty():
        return None
    params = smallest.smallest_params(bad)
    *point, value = smallest.first(sets.fixed(bad, params))
    witness = Witness(params, writer=(c.name, tuple(point)))
    name = f"{c.name}[{', '.join(map(str, point))}]" if point else c.name
    message = f"{name} may be {value}, {witness}, and its values are declared to be at least {low} and less than {high}"
    needed = missing_condition(bad, algorithm.context)
    if needed and max(params.values()) >= _HUGE:
        return Violation("bounds", message, witness, repair=f"assume {needed}")
    unbounded = () if known is None or not _reaches(pairs, c.dtype) else known.unbounded
    if unbounded:
        message += f": nothing is known of {', '.join(dict.fromkeys(map(str, unbounded)))}"
    repair = "; ".join(dict.fromkeys(bounded(algorithm, part) for part in unbounded))
    last = high.value - 1 if isinstance(high, Const) else high - 1
    clipped = f"keep its expression in the range: tm.clip(.., {low}, {last})"
    return Violation("bounds", message, witness, repair=repair or clipped)


def _reaches(pairs: isl.Set, dtype: DType) -> bool:
    """Whether the values of pairs of a point and a value have no end, or reach an end of their type."""
    least, largest = dtype.limits
    axis = sets.size(pairs) - 1
    low, high = sets.smallest_value(pairs, axis), sets.largest_value(sets.at_any_params(pairs), axis)
    return low is None or high is None or low <= least or largest <= high


def _within(pairs: isl.Set, low: Expr, high: Expr) -> isl.Set:
    """The pairs of a point and a value in a range."""
    space = pairs.get_space()
    reader = Affine(space, {"value": sets.variables(space)[-1]})
    return reader.condition((low <= Iter("value")) & (Iter("value") < high))


def bounded(algorithm: Algorithm, part: Expr) -> str:
    """The advice how to give bounds to a part of an index, or of a value, of which nothing is known."""
    source = part.source if isinstance(part, Access) else ""
    declared = algorithm.inputs.get(source)
    if declared is not None and declared.scalar:
        return f"clip {part} with tm.clip, or make it a parameter, of which assume= may state a range"
    if declared is not None:
        return f"declare what {source} holds: values=(low, high) when the input is declared"
    if source:
        return f"clip {source} with tm.clip where it is computed, or clip {part}"
    of_float = next((e for e in walk(part) if isinstance(e, Cast) and e.operand.dtype.is_float), None)
    if of_float is not None and of_float.dtype.is_integer:
        return (
            f"clip {part} with tm.clip after the conversion, or convert with tm.saturating_cast, which makes 0 of NaN: "
            "a clip of floats leaves NaN, and as an integer that is the least one"
        )
    return _strided(part) or f"keep the index in bounds: clip {part} with tm.min and tm.max"


def _strided(part: Expr) -> str:
    """The advice for a product of iterators and a size, as in ``a[i * S + j]``: it is an index of a matrix."""
    sides = (part.left, part.right) if isinstance(part, Binary) and part.op == "*" else ()
    sizes = [side for side in sides if not iterators(side) and params_of(side) and not accesses(side)]
    if len(sizes) != 1:
        return ""
    return (
        f"give the array a dimension for each iterator, as {sizes[0]} is no constant: [.., {sizes[0]}], or one with "
        f"strides=[{sizes[0]}, 1], and read it as [i, j]; or clip {part} with tm.clip"
    )
