"""The recipe for convolutions: tiles of pixels by channels in registers, over a copy of the rows that a block reads."""

from __future__ import annotations

from dataclasses import dataclass

from tiramisu_py.algorithm.declarations import sum_
from tiramisu_py.algorithm.expressions import Access, Binary, Expr, Iter
from tiramisu_py.build.target_processor import Target
from tiramisu_py.errors import ArgumentError
from tiramisu_py.function import Computation, Reduction
from tiramisu_py.ir.arithmetic.linear import linear
from tiramisu_py.program.storage import Memory
from tiramisu_py.recipes.cpu import Cpu
from tiramisu_py.recipes.read_sums import readers, sums_of, untouched
from tiramisu_py.recipes.recorded import Recorded, processor

#: The most lanes of a vector loop.
MOST_LANES = 64
#: The most pixels of a tile, and rows of a block.
MOST_PIXELS = MOST_ROWS = 14
#: The number of channels of a pixel that lie together in the copy of the picture.
TOGETHER = 64
#: What a row of a picture with many channels takes in a cache, in bytes.
ROW = 64 << 10


def convolution(result: Computation, *, cpu: Cpu | Target | None = None) -> str:
    """Schedule a convolution whose channels are the last index, and the pointwise computation that reads its sums.

    ::

        total[p, y, x, f] += picture[p, y + r, x + s, c] * weights[r, s, c, f]      over r, s, c
        result[p, y, x, f] = max(total[p, y, x, f] + bias[f], 0)

        print(tm.recipes.convolution(result))
            -->   y0, y1, x0, f0, x1, f1, c0, c1, ... = tm.iters("y0 y1 x0 f0 x1 f1 c0 c1 ...")
                  result.split(y, 14, y0, y1)
                  result.tile(x, f, 14, 32, x0, f0, x1, f1)
                  ...
                  total.compute_at(result, x0)
                  total.store_in(tm.REGISTER)
                  ...

    Tiles of pixels by channels are summed in the registers of `cpu` (default: this machine's) over all taps and
    channels, and `result` reads them there. The rows that a block of output rows reads are copied so that the distance
    of two pixels is a constant; if the picture is a computation that nothing else reads, such as one padded with zeros,
    it is computed there instead. The weights are copied so that the channels of a tile lie together. Threads share the
    blocks of rows of all pictures. Filters may have any size, stride and dilation. Without channels in the sums (a
    depthwise convolution, whose `weights` and `picture` both have the channel of the result), tiles are of a few pixels
    by one vector, and nothing is copied but a padded picture. Returns the commands that were applied, to be pasted and
    edited. Sums of floating-point numbers are fast only if compiled with ``fast=("contract",)``.

    Raises `ArgumentError` for what is no such convolution, with the reason, and the error of a command that is refused;
    then none of the commands is applied.
    """
    recipe = Recorded("convolution", [result])
    found = _convolution_of(recipe, result)
    plan = PixelTiles.of(found.total, processor("convolution", cpu), found.channel is None)
    recipe.from_function(found.total)
    with recipe.together():
        if found.channel is None:
            _depthwise(recipe, found, plan)
        else:
            _dense(recipe, found, found.channel, plan)
    return recipe.text()


@dataclass(frozen=True)
class PixelTiles:
    """The sizes of a schedule: rows of a block, pixels and channels of a tile, lanes."""

    rows: int
    pixels: int
    channels: int
    lanes: int

    @classmethod
    def of(cls, total: Computation, cpu: Cpu, depthwise: bool) -> PixelTiles:
        """The sizes for values of one type on a processor."""
        lanes = min(cpu.lanes(total.dtype.bytes), MOST_LANES)
        rows = max(min(cpu.second // 2 // ROW, MOST_ROWS), 2)
        vectors = 1 if depthwise else min(2, MOST_LANES // lanes)
        pixels = max(min((cpu.registers - vectors - 1) // vectors, MOST_PIXELS), 1)
        return cls(rows, max(pixels // 2, 1) if depthwise else pixels, vectors * lanes, lanes)


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


def _convolution_of(recipe: Recorded, result: Computation) -> Convolution:
    """The parts of a convolution; raises `ArgumentError` for other computations."""
    total = sums_of(recipe, result)
    declared = recipe.function.algorithm.computations[total.name]
    if declared.op != sum_ or declared.ordered:
        raise ArgumentError(f"convolution: {total} is not a sum whose order is free: it takes op=tm.sum, not ordered")
    if len(declared.iterators) < 3:
        raise ArgumentError(f"convolution: {total}[{', '.join(declared.iterators)}] needs rows, columns and channels")
    *outer, row, column, last = (Iter(name) for name in declared.iterators)
    over = [Iter(name) for name in declared.over]
    picture, weights = _operands(total, declared.expr, column)
    if picture.source == weights.source:
        raise ArgumentError(f"convolution: {total} reads {picture.source} twice: it takes two different operands")
    channel = _channel(total, picture, last)
    if channel is not None and channel.name not in declared.over:
        raise ArgumentError(f"convolution: {total} is not summed over {channel}, the channels of {picture}")
    taps = tuple(each for each in over if channel is None or each.name != channel.name)
    _check_picture(total, picture, (row, column), taps)
    _check_weights(total, weights, {each.name for each in (*over, last)})
    untouched(recipe, result)
    untouched(recipe, total)
    return Convolution(result, total, tuple(outer), row, column, last, taps, channel, picture, weights)


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


def _channel(total: Computation, picture: Access, last: Iter) -> Iter | None:
    """The iterator of the picture's channels; None if they are those of the result."""
    index = picture.indices[-1]
    if len(picture.indices) < 3 or not isinstance(index, Iter):
        raise ArgumentError(
            f"convolution: {total} reads {picture}: it takes pictures whose channels are the last index (NHWC)"
        )
    return None if index.name == last.name else index


def _check_picture(total: Computation, picture: Access, spatial: tuple[Iter, Iter], taps: tuple[Iter, ...]) -> None:
    """Refuse a picture that is not read at rows and columns, each with a stride and with taps."""
    allowed = {tap.name for tap in taps}
    for number, iterator in enumerate(spatial):
        index = picture.indices[number - 3]
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


def _tiles(recipe: Recorded, found: Convolution, sizes: PixelTiles, inner: bool) -> tuple[Iter, Iter]:
    """Tile the reader: the loops over blocks of rows, and over tiles, at which the sums are computed."""
    result, fresh = found.result, recipe.fresh
    y, x, f = found.row, found.column, found.filter
    y0, y1, x0, f0, x1, f1 = (fresh(f"{i.name}{n}") for i, n in ((y, 0), (y, 1), (x, 0), (f, 0), (x, 1), (f, 1)))
    result.split(y, sizes.rows, y0, y1)
    result.tile(x, f, sizes.pixels, sizes.channels, x0, f0, x1, f1)
    tiles = (y1, x0, f0) if inner else (f0, y1, x0)
    result.reorder(*found.outer, y0, *tiles, x1, f1)
    result.parallelize(*found.outer, y0)
    result.unroll(x1, remainder="specialize")
    result.vectorize(f1, sizes.channels, remainder="mask")
    found.total.compute_at(result, tiles[-1])
    found.total.store_in(Memory.REGISTER)
    return y0, tiles[-1]


def _dense(recipe: Recorded, found: Convolution, channel: Iter, sizes: PixelTiles) -> None:
    """Sums over taps and channels."""
    total = found.total
    y0, _ = _tiles(recipe, found, sizes, inner=False)
    c0, c1 = recipe.fresh(f"{channel.name}0"), recipe.fresh(f"{channel.name}1")
    total.update.split(channel, TOGETHER, c0, c1)
    total.update.reorder(c0, *found.taps, c1, found.column, found.filter)
    total.update.unroll(c1, 2)
    total.unroll(found.column, remainder="specialize")
    total.vectorize(found.filter, sizes.channels, remainder="pad")
    _copy_picture(recipe, found, y0, channel, sizes)
    _pack_weights(recipe, found, channel, sizes)


def _depthwise(recipe: Recorded, found: Convolution, sizes: PixelTiles) -> None:
    """Sums over taps alone."""
    total = found.total
    y0, _ = _tiles(recipe, found, sizes, inner=True)
    total.update.reorder(*found.taps, found.column, found.filter)
    total.unroll(found.column, remainder="specialize")
    total.vectorize(found.filter, sizes.channels, remainder="mask")
    own = _own_picture(recipe, found)
    if own is not None:
        recipe.from_function(own)
        own.compute_at(found.result, y0)
        own.vectorize(recipe.loops(own)[-1], sizes.lanes, remainder="mask")


def _own_picture(recipe: Recorded, found: Convolution) -> Computation | None:
    """The picture, if it is a computation of one statement that only the sums read."""
    source = recipe.function[found.picture.source]
    if not isinstance(source, Computation) or isinstance(source, Reduction):
        return None
    only = readers(recipe, source.name) == [found.total.name] and source.name not in recipe.function.algorithm.outputs
    return source if only and len(recipe.function.program.statements_of(source.name)) == 1 else None


def _copy_picture(recipe: Recorded, found: Convolution, level: Iter, channel: Iter, sizes: PixelTiles) -> None:
    """Compute or copy the rows of a block, with the channels of a pixel in parts of constant length."""
    own = _own_picture(recipe, found)
    if own is None:
        source = recipe.function[found.picture.source]
        outer = [min(linear(index).iterators, default="i") for index in found.picture.indices[:-3]]
        inner = [each.name for each in (found.row, found.column, channel)]
        loops = [recipe.fresh(2 * name) for name in (*outer, *inner)]
        copy = found.total.update.cache(source, level, loops, layout=_in_parts(loops))
        recipe.named(copy.name)
    else:
        recipe.from_function(own)
        copy, loops = own, recipe.loops(own)
        own.store_in(_in_parts(loops))
        own.compute_at(found.result, level)
        own.store_at(found.result, level)
    outer_part, part = recipe.fresh(f"{loops[-1].name}0"), recipe.fresh(f"{loops[-1].name}1")
    copy.split(loops[-1], TOGETHER, outer_part, part)
    copy.vectorize(part, sizes.lanes, remainder="mask")


def _in_parts(loops: list[Iter]) -> list[Expr]:
    """The layout of the copied rows: the distance of two pixels is a constant."""
    *outer, column, channel = loops
    return [*outer, channel // TOGETHER, column * TOGETHER + channel % TOGETHER]


def _pack_weights(recipe: Recorded, found: Convolution, channel: Iter, sizes: PixelTiles) -> None:
    """Copy the weights so that the channels of a tile lie together, in the order in which tiles read them."""
    loops = {index.name: recipe.fresh(2 * index.name) for index in found.weights.indices if isinstance(index, Iter)}
    ff, cc, width = loops[found.filter.name], loops[channel.name], sizes.channels
    layout = [ff // width, cc // TOGETHER, *(loops[tap.name] for tap in found.taps), cc % TOGETHER, ff % width]
    source = recipe.function[found.weights.source]
    panels = found.total.update.pack(source, list(loops.values()), layout)
    recipe.named(panels.name)
    if list(loops)[-1] == found.filter.name:
        outer, inner = recipe.fresh(f"{ff.name}0"), recipe.fresh(f"{ff.name}1")
        panels.split(ff, width, outer, inner)
        panels.vectorize(inner, width, remainder="mask")
