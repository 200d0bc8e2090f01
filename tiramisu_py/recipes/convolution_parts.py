"""What recipes know of a convolution: its rows, columns, filters, taps and channels, and its operands."""

from __future__ import annotations

from tiramisu_py import Computation, Expr, Iter, Reduction
from tiramisu_py import sum as sum_
from tiramisu_py.errors import ArgumentError
from tiramisu_py.queries import Access, Binary, accesses, linear
from tiramisu_py.recipes.read_sums import readers, sums_of, untouched
from tiramisu_py.recipes.recipe import Recipe
from tiramisu_py.records import dataclass


@dataclass(frozen=True)
class Convolution:
    """The sums and their reader, the iterators of rows, columns, filters, taps and channels, and the operands."""

    result: Computation
    total: Reduction
    outer: tuple[Iter, ...]
    row: Iter
    column: Iter
    filter: Iter
    taps: tuple[Iter, ...]
    channel: Iter | None
    picture: Access
    weights: Access
    planes: bool = False


def convolution_of(recipe: Recipe, result: Computation) -> Convolution:
    """The parts of a convolution; raises `ArgumentError` for other computations."""
    total = sums_of(recipe, result)
    declared = recipe.function.algorithm.computations[total.name]
    if declared.op is not sum_ or declared.in_order:
        raise ArgumentError(f"convolution: {total} is not a sum whose order is free: it takes op=tm.sum, not ordered")
    if len(declared.iterators) < 3:
        raise ArgumentError(f"convolution: {total}[{', '.join(declared.iterators)}] needs rows, columns and channels")
    over = [Iter(name) for name in declared.over]
    *outer, row, column, last = (Iter(name) for name in declared.iterators)
    planes = any(_is_plane(each, column, last, declared.over) for each in accesses(declared.expr))
    if planes:
        last, row, column = row, column, last
    picture, weights = _operands(total, declared.expr, column)
    if picture.source == weights.source:
        raise ArgumentError(f"convolution: {total} reads {picture.source} twice: it takes two different operands")
    channel = _channel(total, picture, last, planes)
    if channel is not None and channel.name not in declared.over:
        raise ArgumentError(f"convolution: {total} is not summed over {channel}, the channels of {picture}")
    taps = tuple(each for each in over if channel is None or each.name != channel.name)
    _check_picture(total, picture, (row, column), taps, planes)
    _check_weights(total, weights, {each.name for each in (*over, last)})
    untouched(recipe, result)
    untouched(recipe, total)
    return Convolution(result, total, tuple(outer), row, column, last, taps, channel, picture, weights, planes)


def _is_plane(read: Access, row: Iter, column: Iter, over: tuple[str, ...]) -> bool:
    """Whether an operand has rows and columns as its last indices, and before them an iterator of the sum."""
    if len(read.indices) < 3 or not isinstance(read.indices[-3], Iter) or read.indices[-3].name not in over:
        return False
    forms = [linear(index).iterators for index in read.indices[-2:]]
    return row.name in forms[0] and column.name in forms[1]


def _operands(total: Computation, term: Expr, column: Iter) -> tuple[Access, Access]:
    """The picture, which is read at the columns of the sums, and the weights, which are not."""
    if isinstance(term, Binary) and term.op == "*":
        both = [each for each in (term.left, term.right) if isinstance(each, Access)]
        pictures = [each for each in both if any(column.name in linear(index).iterators for index in each.indices)]
        if len(both) == 2 and len(pictures) == 1:
            (weights,) = (each for each in both if each is not pictures[0])
            return pictures[0], weights
    raise ArgumentError(
        f"convolution: the terms of {total} are {term}, and it takes products of two reads, one of which, the picture, "
        f"is indexed by {column}"
    )


def _channel(total: Computation, picture: Access, last: Iter, planes: bool) -> Iter | None:
    """The iterator of the picture's channels; None if they are those of the result."""
    index = picture.indices[-3 if planes else -1]
    if len(picture.indices) < 3 or not isinstance(index, Iter):
        raise ArgumentError(
            f"convolution: {total} reads {picture}: it takes pictures whose channels are the last index (NHWC), or are "
            "summed and come before rows and columns (NCHW)"
        )
    return None if index.name == last.name else index


def _check_picture(
    total: Computation, picture: Access, spatial: tuple[Iter, Iter], taps: tuple[Iter, ...], planes: bool
) -> None:
    """Refuse a picture that is not read at rows and columns, each with a stride and with taps."""
    allowed = {tap.name for tap in taps}
    for number, iterator in enumerate(spatial):
        index = picture.indices[number - (2 if planes else 3)]
        form = linear(index)
        if form.factor(iterator) < 1 or not form.iterators <= {iterator.name} | allowed:
            raise ArgumentError(
                f"convolution: {total} reads {picture}: it takes {index} of the form stride * {iterator} + "
                f"dilation * tap, where the taps are {', '.join(sorted(allowed)) or 'missing'}"
            )
    for index in picture.indices[:-3]:
        if linear(index).iterators & ({each.name for each in spatial} | allowed):
            raise ArgumentError(f"convolution: {total} reads {picture}: it takes rows and columns next to the channels")


def _check_weights(total: Computation, weights: Access, allowed: set[str]) -> None:
    """Refuse weights that are not indexed by taps and channels, each once."""
    names = [index.name for index in weights.indices if isinstance(index, Iter)]
    if len(names) < len(weights.indices) or set(names) != allowed or len(names) > len(allowed):
        shown = ", ".join(sorted(allowed))
        raise ArgumentError(f"convolution: {total} reads {weights}: it takes weights indexed by {shown}, in any order")


def own_picture(recipe: Recipe, found: Convolution) -> Computation | None:
    """The picture, if it is a computation of one statement that only the sums read."""
    source = recipe.function[found.picture.source]
    if not isinstance(source, Computation) or isinstance(source, Reduction):
        return None
    only = readers(recipe, source.name) == [found.total.name] and source.name not in recipe.function.algorithm.outputs
    return source if only and len(recipe.function.program.statements_of(source.name)) == 1 else None
