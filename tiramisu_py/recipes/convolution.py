"""Convolutions: tiles of pixels by channels in registers, over a copy of the rows that a block reads.

Channels are the last index of pictures, and the lanes of vectors; or pictures are planes, and pixels are the lanes.
"""

from __future__ import annotations

from collections.abc import Mapping

from tiramisu_py import Combine, Computation, Expr, Iter, Memory, Reduction, Target
from tiramisu_py import sum as sum_
from tiramisu_py.errors import ArgumentError
from tiramisu_py.public_calls import own_call_of
from tiramisu_py.queries import Access, Binary, accesses, linear, readers_of
from tiramisu_py.recipes.cpu import MOST_LANES, Cpu
from tiramisu_py.recipes.recipe import AppliedCommands, Recipe, processor, sums_of, untouched, with_sizes
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
    only = (
        readers_of(recipe.function.algorithm, source.name) == [found.total.name]
        and source.name not in recipe.function.algorithm.outputs
    )
    return source if only and len(recipe.function.program.statements_of(source.name)) == 1 else None


#: The most pixels of a tile, and rows of a block.
MOST_PIXELS = MOST_ROWS = 14
#: Vectors of pixels in a tile of planes: most cross a line of the cache, so few are loaded for each weight.
PLANE_VECTORS = 2
#: The number of channels of a pixel that lie together in the copy of the picture.
TOGETHER = 64
#: What a row of a picture with many channels takes in a cache, in bytes.
ROW = 64 << 10


@own_call_of("tm.recipes")
def convolution(
    result: Computation, *, cpu: Cpu | Target | str | None = None, sizes: Mapping[str, int] | None = None
) -> AppliedCommands:
    """Schedule a convolution, and the pointwise computation that reads its sums.

    ::

        total[p, y, x, f] += picture[p, y + r, x + s, c] * weights[r, s, c, f]      over r, s, c
        result[p, y, x, f] = max(total[p, y, x, f] + bias[f], 0)

        print(tm.recipes.convolution(result))
            -->   y, y0, y1, x, f_, x0, f0, ... = tm.iters("y y0 y1 x f x0 f0 ...")
                  result = f["result"]
                  result.split(y, 14, y0, y1)
                  result.tile(x, f_, 14, 32, x0, f0, x1, f1)
                  ...
                  total = f["total"]
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

    Pictures may also be planes (NCHW), ``total[p, f, y, x]`` of ``picture[p, c, y + r, x + s] * weights[f, c, r, s]``.
    Then pixels are the lanes, in tiles of a few channels by several vectors, and the copied rows have the channels of
    one row together, with the pixels of one stride side by side.

    `sizes` are given by name, instead of those that follow from the processor: `rows` of a block, `pixels` and
    `channels` of a tile; `threads`, at most so many. With `parts` of 2 or more it is the blocks of 64 summed channels
    that threads share, for few pixels with many channels (of NHWC): so many partial results are summed side by side, if
    there are as many threads, each of a range of blocks, and added in the end, before `result` reads them; which bits
    the sums have then depends on the number of threads.

    Raises `ArgumentError` for what is no such convolution, with the reason, and the error of a command that is refused;
    then none of the commands is applied.
    """
    recipe = Recipe("convolution", [result])
    found = convolution_of(recipe, result)
    chosen, given = processor("convolution", cpu), sizes or {}
    with recipe.together():
        if found.channel is None:
            pixels = PixelTiles.of(found.total, chosen, depthwise=True).replaced(given)
            _require_one_part(found, pixels.parts, "sums over no channels")
            _depthwise(recipe, found, pixels)
        elif found.planes:
            planes = PlaneTiles.of(found.total, chosen).replaced(given)
            _require_one_part(found, planes.parts, "reads planes (NCHW)")
            _planes(recipe, found, found.channel, planes)
        else:
            pixels = PixelTiles.of(found.total, chosen, depthwise=False).replaced(given)
            (_dense if pixels.parts == 1 else _in_shared_parts)(recipe, found, found.channel, pixels)
    return recipe.commands()


@own_call_of("tm.recipes")
def convolution_space(result: Computation, *, cpu: Cpu | Target | str | None = None) -> dict[str, list[int]]:
    """Values of the `sizes` of `convolution` around those that follow from `cpu` (default: this machine's), for `tune`
    and `input_aware`.

    ::

        space = tm.recipes.convolution_space(declared()["result"])      # {"rows": [...], "pixels": [...], ...}
        tm.tune(make, space, where=lambda pixels, channels, **_: (pixels + 1) * channels <= room, ...)

    The sums of a tile and a vector of each of its channels should fit in the registers, as the condition here says. On
    several cores there are also `parts` and `threads`, one or as many as cores. Raises `ArgumentError`.
    """
    recipe = Recipe("convolution_space", [result])
    found = convolution_of(recipe, result)
    chosen = processor("convolution_space", cpu)
    depthwise = found.channel is None
    space: dict[str, list[int]]
    if found.planes and not depthwise:
        planes = PlaneTiles.of(found.total, chosen)
        space = {"rows": _around(planes.rows), "channels": _around(planes.channels), "pixels": _around(planes.pixels)}
    else:
        pixels = PixelTiles.of(found.total, chosen, depthwise)
        widths = {pixels.lanes * vectors for vectors in (1, 2, 4) if pixels.lanes * vectors <= MOST_LANES}
        space = {
            "rows": _around(pixels.rows),
            "pixels": sorted({*range(2, MOST_PIXELS + 1, 4), pixels.pixels}),
            "channels": sorted(widths),
        }
    if chosen.cores > 1:
        space |= {"parts": [1, chosen.cores]} if not (found.planes or depthwise) else {}
        space["threads"] = [1, chosen.cores]
    return space


def _around(size: int) -> list[int]:
    """A size, and half and twice of it."""
    return sorted({max(size // 2, 1), size, 2 * size})


def _require_one_part(found: Convolution, parts: int, why: str) -> None:
    """Refuse parts of sums that have no blocks of channels as their last index."""
    if parts > 1:
        raise ArgumentError(
            f"convolution: parts is {parts}, and {found.total} {why}: parts are of the channels of pictures that have "
            "them as their last index (NHWC); leave parts out"
        )


@dataclass(frozen=True)
class PixelTiles:
    """The sizes of a schedule: rows of a block, pixels and channels of a tile, lanes.

    `parts` is the number of partial results that are summed side by side, `threads` that of threads (None: of all).
    """

    rows: int
    pixels: int
    channels: int
    lanes: int
    parts: int = 1
    threads: int | None = None

    @classmethod
    def of(cls, total: Computation, cpu: Cpu, depthwise: bool) -> PixelTiles:
        """The sizes for values of one type on a processor."""
        lanes = min(cpu.lanes(total.dtype.bytes), MOST_LANES)
        rows = max(min(cpu.second // 2 // ROW, MOST_ROWS), 2)
        vectors = 1 if depthwise else min(2, MOST_LANES // lanes)
        pixels = min(cpu.rows_of_sums(vectors), MOST_PIXELS)
        return cls(rows, max(pixels // 2, 1) if depthwise else pixels, vectors * lanes, lanes)

    def replaced(self, given: Mapping[str, int]) -> PixelTiles:
        """The sizes, those that the user gives instead; raises `ArgumentError`."""
        return with_sizes(self, "convolution", given, fixed="lanes")


def _tiles(recipe: Recipe, found: Convolution, sizes: PixelTiles, inner: bool) -> tuple[Iter, Iter]:
    """Tile the reader: the loops over blocks of rows, and over tiles, at which the sums are computed."""
    result, fresh = found.result, recipe.fresh
    y, x, f = found.row, found.column, found.filter
    y0, y1, x0, f0, x1, f1 = (fresh(f"{i.name}{n}") for i, n in ((y, 0), (y, 1), (x, 0), (f, 0), (x, 1), (f, 1)))
    result.split(y, sizes.rows, y0, y1)
    result.tile(x, f, sizes.pixels, sizes.channels, x0, f0, x1, f1)
    tiles = (y1, x0, f0) if inner else (f0, y1, x0)
    result.reorder(*found.outer, y0, *tiles, x1, f1)
    result.parallelize(*found.outer, y0, threads=sizes.threads)
    result.unroll(x1, remainder="specialize")
    result.vectorize(f1, sizes.channels, remainder="mask")
    found.total.compute_at(result, tiles[-1])
    found.total.store_in(Memory.REGISTER)
    return y0, tiles[-1]


def _dense(recipe: Recipe, found: Convolution, channel: Iter, sizes: PixelTiles) -> None:
    """Sums over taps and channels."""
    total = found.total
    y0, _ = _tiles(recipe, found, sizes, inner=False)
    c0, c1 = recipe.fresh(f"{channel.name}0"), recipe.fresh(f"{channel.name}1")
    total.update.split(channel, TOGETHER, c0, c1)
    total.update.reorder(c0, *found.taps, c1, found.column, found.filter)
    _in_registers(found, total, c1, sizes)
    _copy_picture(recipe, found, total, y0, channel, sizes)
    _pack_weights(recipe, found, total, channel, sizes)


def _in_registers(found: Convolution, sums: Reduction, channel: Iter, sizes: PixelTiles) -> None:
    """Unroll the sums of a tile that are in registers, and the innermost loop over channels."""
    sums.update.unroll(channel, 2)
    sums.unroll(found.column, remainder="specialize")
    sums.vectorize(found.filter, sizes.channels, remainder="pad")


def _in_shared_parts(recipe: Recipe, found: Convolution, channel: Iter, sizes: PixelTiles) -> None:
    """Sums over taps and blocks of channels, which threads share: each adds to results of its own."""
    result, total, update, fresh = found.result, found.total, found.total.update, recipe.fresh
    y, x, f = found.row, found.column, found.filter
    y0, y1, x0, f0, x1, f1 = (fresh(f"{i.name}{n}") for i, n in ((y, 0), (y, 1), (x, 0), (f, 0), (x, 1), (f, 1)))
    c0, c1 = fresh(f"{channel.name}0"), fresh(f"{channel.name}1")
    update.split(channel, TOGETHER, c0, c1)
    tile = update.rfactor(c0)
    total.split(y, sizes.rows, y0, y1)
    total.tile(x, f, sizes.pixels, sizes.channels, x0, f0, x1, f1)
    update.reorder(c0, *found.outer, y0, f0, y1, x0, x1, f1)
    update.parallelize(c0, combine=Combine.PRIVATE, threads=min(sizes.parts, sizes.threads or sizes.parts))
    total.init.parallelize(*found.outer, y0, threads=sizes.threads)
    total.unroll(x1, remainder="specialize")
    total.vectorize(f1, sizes.channels, remainder="mask")
    tile.compute_at(update, x0)
    tile.store_in(Memory.REGISTER)
    tile.update.reorder(*found.taps, channel, x, f)
    _in_registers(found, tile, channel, sizes)
    _copy_picture(recipe, found, tile, y0, channel, sizes)
    _pack_weights(recipe, found, tile, channel, sizes)
    result.parallelize(*found.outer, y, threads=sizes.threads)
    result.vectorize(f, sizes.lanes, remainder="mask")


def _depthwise(recipe: Recipe, found: Convolution, sizes: PixelTiles) -> None:
    """Sums over taps alone."""
    total = found.total
    y0, _ = _tiles(recipe, found, sizes, inner=True)
    total.update.reorder(*found.taps, found.column, found.filter)
    total.unroll(found.column, remainder="specialize")
    total.vectorize(found.filter, sizes.channels, remainder="mask")
    own = own_picture(recipe, found)
    if own is not None:
        own.compute_at(found.result, y0)
        own.vectorize(recipe.loops(own)[-1], sizes.lanes, remainder="mask")


@dataclass(frozen=True)
class PlaneTiles:
    """The sizes of a schedule of planes: rows of a block, channels and pixels of a tile, lanes, threads (None: all)."""

    rows: int
    channels: int
    pixels: int
    lanes: int
    parts: int = 1
    threads: int | None = None

    @classmethod
    def of(cls, total: Computation, cpu: Cpu) -> PlaneTiles:
        """The sizes for values of one type on a processor."""
        lanes = min(cpu.lanes(total.dtype.bytes), MOST_LANES)
        rows = max(min(cpu.second // 2 // ROW, MOST_ROWS), 2)
        vectors = max(min(PLANE_VECTORS, MOST_LANES // lanes), 1)
        channels = cpu.rows_of_sums(vectors)
        return cls(rows, channels, vectors * lanes, lanes)

    def replaced(self, given: Mapping[str, int]) -> PlaneTiles:
        """The sizes, those that the user gives instead; raises `ArgumentError`."""
        return with_sizes(self, "convolution", given, fixed="lanes")


def _planes(recipe: Recipe, found: Convolution, channel: Iter, sizes: PlaneTiles) -> None:
    """Sums over taps and channels, whose lanes are pixels of a row."""
    result, total, fresh = found.result, found.total, recipe.fresh
    y, x, f = found.row, found.column, found.filter
    y0, y1, f0, x0, f1, x1 = (fresh(f"{i.name}{n}") for i, n in ((y, 0), (y, 1), (f, 0), (x, 0), (f, 1), (x, 1)))
    result.split(y, sizes.rows, y0, y1)
    result.split(f, sizes.channels, f0, f1)
    result.split(x, sizes.pixels, x0, x1)
    result.reorder(*found.outer, y0, f0, y1, x0, f1, x1)
    result.parallelize(*found.outer, y0, threads=sizes.threads)
    result.unroll(f1, remainder="specialize")
    result.vectorize(x1, sizes.lanes, remainder="mask", partial="specialize")
    total.compute_at(result, x0)
    total.store_in(Memory.REGISTER)
    total.update.reorder(*found.taps, channel, f, x)
    total.update.unroll(channel, 2)
    total.unroll(f, remainder="specialize")
    total.vectorize(x, sizes.lanes, remainder="pad", partial="specialize")
    _copy_planes(recipe, found, y0, sizes)
    _pack_by_channels(recipe, found, sizes)


def _copy_planes(recipe: Recipe, found: Convolution, level: Iter, sizes: PlaneTiles) -> None:
    """Compute or copy the rows of a block: the channels of a row together, and the pixels of a stride side by side."""
    own = own_picture(recipe, found)
    if own is None:
        source = recipe.function[found.picture.source]
        loops = [recipe.fresh(2 * name) for name in _picture_names(found)]
        name = recipe.copy_name(found.picture.source, "packed")
        copy = found.total.update.copy(source, loops, at=level, layout=_by_rows(found, loops), name=name)
    else:
        copy, loops = own, recipe.loops(own)
        own.store_in(_by_rows(found, loops))
        own.compute_at(found.result, level)
        own.store_at(found.result, level)
    copy.vectorize(loops[-1], sizes.lanes, remainder="mask")


def _by_rows(found: Convolution, loops: list[Iter]) -> list[Expr]:
    """The layout of the copied planes."""
    *outer, channel, row, column = loops
    stride = linear(found.picture.indices[-1]).factor(found.column)
    if stride == 1:
        return [*outer, row, channel, column]
    return [*outer, row, channel, column % stride, column // stride]


def _pack_by_channels(recipe: Recipe, found: Convolution, sizes: PlaneTiles) -> None:
    """Copy the weights so that the channels of a tile lie together, in the order in which tiles read them."""
    loops = {index.name: recipe.fresh(2 * index.name) for index in found.weights.indices if isinstance(index, Iter)}
    assert found.channel is not None
    ff, cc, taps = loops[found.filter.name], loops[found.channel.name], [loops[tap.name] for tap in found.taps]
    layout = [ff // sizes.channels, *taps, cc, ff % sizes.channels]
    source, name = recipe.function[found.weights.source], recipe.copy_name(found.weights.source, "packed")
    found.total.update.copy(source, list(loops.values()), layout=layout, name=name)


def _picture_names(found: Convolution) -> list[str]:
    """A name for each index of a picture of planes: that of its iterator, or of the row or column that it is about."""
    outer = [min(linear(index).iterators, default="i") for index in found.picture.indices[:-2]]
    return [*outer, found.row.name, found.column.name]


def _copy_picture(
    recipe: Recipe, found: Convolution, sums: Reduction, level: Iter, channel: Iter, sizes: PixelTiles
) -> None:
    """Compute or copy the rows of a block, with the channels of a pixel in parts of constant length."""
    own = own_picture(recipe, found)
    if own is None:
        source = recipe.function[found.picture.source]
        outer = [min(linear(index).iterators, default="i") for index in found.picture.indices[:-3]]
        inner = [each.name for each in (found.row, found.column, channel)]
        loops = [recipe.fresh(2 * name) for name in (*outer, *inner)]
        name = recipe.copy_name(found.picture.source, "packed")
        copy = sums.update.copy(source, loops, at=level, layout=_in_parts(loops), name=name)
    else:
        copy, loops = own, recipe.loops(own)
        own.store_in(_in_parts(loops))
        reader = found.result if sums is found.total else found.total.update
        own.compute_at(reader, level)
        own.store_at(reader, level)
    outer_part, part = recipe.fresh(f"{loops[-1].name}0"), recipe.fresh(f"{loops[-1].name}1")
    copy.split(loops[-1], TOGETHER, outer_part, part)
    copy.vectorize(part, sizes.lanes, remainder="mask")


def _in_parts(loops: list[Iter]) -> list[Expr]:
    """The layout of the copied rows: the distance of two pixels is a constant."""
    *outer, column, channel = loops
    return [*outer, channel // TOGETHER, column * TOGETHER + channel % TOGETHER]


def _pack_weights(recipe: Recipe, found: Convolution, sums: Reduction, channel: Iter, sizes: PixelTiles) -> None:
    """Copy the weights so that the channels of a tile lie together, in the order in which tiles read them."""
    loops = {index.name: recipe.fresh(2 * index.name) for index in found.weights.indices if isinstance(index, Iter)}
    ff, cc, width = loops[found.filter.name], loops[channel.name], sizes.channels
    layout = [ff // width, cc // TOGETHER, *(loops[tap.name] for tap in found.taps), cc % TOGETHER, ff % width]
    source, name = recipe.function[found.weights.source], recipe.copy_name(found.weights.source, "packed")
    panels = sums.update.copy(source, list(loops.values()), layout=layout, name=name)
    if list(loops)[-1] == found.filter.name:
        outer, inner = recipe.fresh(f"{ff.name}0"), recipe.fresh(f"{ff.name}1")
        panels.split(ff, width, outer, inner)
        panels.vectorize(inner, width, remainder="mask")
