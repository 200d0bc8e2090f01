"""Factors of products on tensor cores, loaded from shared memory as matrices: ``ldmatrix``.

The threads of a warp load parts of 4 bytes of a factor, in the layout in which the instruction has them. Eight rows
of which each thread loads such parts are a matrix; up to four of them are one instruction::

    parts       thread (x, y) loads    tile[r + y, 2x + c .. + 2]      of row y:      a matrix at [r, c]
                                       tile[r + 2x .. + 2, c + y]      of column y:   one that is transposed

That parts are a matrix is looked up in their indices, for each number of a thread in turn.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from math import prod

from tiramisu_py.algorithm import traversal
from tiramisu_py.algorithm.expressions import Binary, Expr, Iter, constant
from tiramisu_py.algorithm.types import DType, int64
from tiramisu_py.ir import Allocate, Block, For, GpuIndex, Load, LoadMatrices, Mma, Node, Ramp
from tiramisu_py.ir.arithmetic.linear import difference, number
from tiramisu_py.ir.arithmetic.simplify import simplified
from tiramisu_py.ir.rewriting import Names, contents, names, variables, with_children
from tiramisu_py.passes.base import About, NestPass
from tiramisu_py.passes.kernels.swizzle_rows import divides
from tiramisu_py.program.loops import Unroll
from tiramisu_py.program.machine.tensor_instructions import WARP_SHAPE
from tiramisu_py.program.storage import Memory
from tiramisu_py.records import dataclass

#: The bytes of a row of a matrix, its rows, and the most matrices that one instruction loads.
ROW_BYTES, ROWS, MOST_MATRICES = 16, 8, 4
#: The most registers of a factor that a thread holds for loops that need them several times.
MOST_HELD = 32

_X, _Y = GpuIndex("thread", 0), GpuIndex("thread", 1)
#: The row of a matrix, and the bits of its number among those of a product; no user's names look like this.
_ROW, _BITS = Iter("<row>", int64), (Iter("<bit 0>", int64), Iter("<bit 1>", int64))
Indices = tuple[Expr, ...]


@dataclass(frozen=True)
class FragmentMatrices(NestPass):
    """Load the factors of products of warps as matrices, where rows of 16 aligned bytes of shared memory have them.

    ::

        for n in 0 .. 4:                                -->   for n in 0 .. 4 by 2:
            sums[n] += m16n8k16(a[y, 2x ..], ..,                  right[2n .. 2n + 4] = matrices with rows b[.., 8n ..]
                                b[2x .., 8n + y], ..)         left[0 .. 4] = matrices with rows a[.., ..]
                                                              for n in 0 .. 4:
                                                                  sums[n] += m16n8k16(left, right[2n .. 2n + 2])
    """

    def apply(self, what: Node, about: About) -> Node:
        return _loaded(what, {}, about.taken) if Mma in contents(what) else what


def _loaded(node: Node, shared: Mapping[str, Allocate], taken: Names) -> Node:
    """A statement with the factors of its products in matrices; `shared` are the arrays of shared memory around it."""
    if Mma not in contents(node):
        return node
    if isinstance(node, Allocate) and node.memory is Memory.SHARED:
        shared = {**shared, node.buffer: node}
    loops, product = _around(node)
    if product is not None:
        return _with_matrices(loops, product, shared, taken)
    return with_children(node, lambda child: _loaded(child, shared, taken))


def _around(node: Node) -> tuple[list[For], Mma | None]:
    """Loops that are nested perfectly around a product, and that; None where there is anything else."""
    loops = list[For]()
    while isinstance(node, For) or (isinstance(node, Block) and len(node.body) == 1):
        if isinstance(node, For):
            loops.append(node)
            node = node.body
        else:
            (node,) = node.body
    return loops, node if isinstance(node, Mma) else None


def _with_matrices(loops: Sequence[For], product: Mma, shared: Mapping[str, Allocate], taken: Names) -> Node:
    """The loops around a product with the matrices of each factor loaded where they are first needed."""
    before: dict[int, list[tuple[Allocate, Node]]] = {}
    inside = names(loops[0] if loops else product)
    for side in ("left", "right"):
        matrices = _matrices(getattr(product, side), shared)
        if matrices is None:
            continue
        held = taken.fresh(f"{matrices.buffer}_{side}", inside)
        outer = _first_loop(loops, matrices)
        around = [loop for loop in loops[outer:] if loop.variable in _used(loops, matrices)]
        position, load = _load(matrices, held, around, product.statement)
        own = tuple(Load(held, (simplified(position + k),), matrices.dtype) for k in range(matrices.count))
        product = replace(product, left=own) if side == "left" else replace(product, right=own)
        count = matrices.count * prod(map(_iterations, around))
        own_lanes = 4 // matrices.dtype.bytes
        room = Allocate(held, (number(count),), matrices.dtype, load, lanes=own_lanes, memory=Memory.REGISTER)
        before.setdefault(outer, []).append((room, load))
    node: Node = product
    for level in range(len(loops), -1, -1):
        node = node if level == len(loops) else replace(loops[level], body=node)
        loads = before.get(level, ())
        node = Block((*(load for _, load in loads), node)) if loads else node
        for room, _ in loads:
            node = replace(room, body=node)
    return node


def _first_loop(loops: Sequence[For], matrices: _Matrices) -> int:
    """The loop before which matrices are loaded: one that uses all of them again, or that of the last ones."""
    used = _used(loops, matrices)
    needs = [loop.variable in used for loop in loops]
    for level, needed in enumerate(needs):
        inner = [loop for loop, needs_it in zip(loops[level:], needs[level:], strict=True) if needs_it]
        is_last = level == len(loops) - 1
        is_held = matrices.count * prod(map(_iterations, inner)) <= MOST_HELD
        if (not needed or is_last) and is_held and all(map(_is_written_out, loops[level:])):
            return level
    return len(loops)


def _used(loops: Sequence[For], matrices: _Matrices) -> set[str]:
    """The variables that loads of the matrices need: those of their places, and of the bounds of the loops of these."""
    used = set(matrices.variables)
    for loop in reversed(loops):
        if loop.variable in used:
            used |= variables(loop.lower)
    return used


def _is_written_out(loop: For) -> bool:
    """Whether a loop has a constant number of iterations, one after another in the code."""
    return isinstance(loop.tag, Unroll) and loop.step == 1 and _iterations(loop) > 0


def _iterations(loop: For) -> int:
    return difference(loop.upper, loop.lower) or 0


def _load(matrices: _Matrices, held: str, loops: Sequence[For], statement: str) -> tuple[Expr, Node]:
    """The position of a product's first matrix among those that are held, and the loops that load all of them."""
    position: Expr = number(0)
    for loop in loops:
        position = position * _iterations(loop) + (Iter(loop.variable, int64) - loop.lower)
    position = simplified(position * matrices.count)
    together = MOST_MATRICES // matrices.count if loops else 1
    while loops and _iterations(loops[-1]) % together:
        together //= 2
    total, odd = matrices.count * together, Binary("%", _Y, number(2), int64)
    # thread 4y + x gives row (4y + x) % 8 = 4(y % 2) + x of matrix (4y + x) // 8 = y // 2
    values: dict[str, Expr] = {_ROW.name: Binary("*", number(4), odd, int64) + _X}
    values |= {bit.name: _part_of(_Y, 2 << k, 2) for k, bit in enumerate(_BITS)}
    if together > 1:
        variable = loops[-1].variable
        values[variable] = Iter(variable, int64) + _part_of(_Y, 2 * matrices.count, together)
    row = Load(matrices.buffer, _at(matrices.row, values), matrices.dtype)
    node: Node = LoadMatrices(held, position, row, total, matrices.transposed, statement)
    for loop in reversed(loops):
        node = For(loop.variable, loop.lower, loop.upper, node, together if loop is loops[-1] else 1, Unroll())
    return position, node


def _part_of(y: Expr, by: int, count: int) -> Expr:
    """``y // by % count``, of a number of a thread, which is less than 8."""
    quotient = Binary("//", y, number(by), int64)
    return quotient if by * count >= WARP_SHAPE[1] else Binary("%", quotient, number(count), int64)


# -- which parts are matrices


@dataclass(frozen=True, eq=False)
class _Matrices:
    """The `count` matrices of a factor of one product: where row ``<row>`` is of that whose number has these bits."""

    buffer: str
    dtype: DType
    row: Indices
    count: int
    transposed: bool

    @property
    def variables(self) -> frozenset[str]:
        return frozenset().union(*map(variables, self.row))


def _matrices(parts: Sequence[Expr], shared: Mapping[str, Allocate]) -> _Matrices | None:
    """What a thread loads of a factor, as matrices; None if a part is none, or does not follow from the others."""
    loads = [part for part in parts if isinstance(part, Load)]
    room = shared.get(loads[0].buffer) if len(loads) == len(parts) else None
    if room is None or any(load.buffer != room.buffer for load in loads) or len(parts) not in (1, 2, 4):
        return None
    together = ROW_BYTES // room.dtype.bytes
    last = constant(room.extents[-1])
    if last is None or last % together or (room.swizzle is not None and room.swizzle[1] % together):
        return None
    for transposed in (False, True):
        places = [_place(load, together, transposed) for load in loads]
        found = [place for place in places if place is not None]
        if len(found) == len(loads) and (row := _of_all(found)) is not None:
            base = row[-1].base if isinstance(row[-1], Ramp) else row[-1]
            if divides(together, base, {}):
                return _Matrices(room.buffer, loads[0].dtype, row, len(loads), transposed)
    return None


def _place(load: Load, together: int, transposed: bool) -> Indices | None:
    """Where row ``<row>`` of a matrix is of which a thread loads its part; None if the part is not that of a matrix.

    ::

        rows:          indices[..] depend on y alone;     last = .. + (4 bytes) * x
        transposed:    one of them, a pair: .. + 2x;      last = .. + y
    """
    bases = [each.base if isinstance(each, Ramp) else each for each in load.indices]
    pairs = [axis for axis, each in enumerate(load.indices) if isinstance(each, Ramp)]
    own, last = together // WARP_SHAPE[0], len(bases) - 1
    if transposed:
        if own != 2 or len(pairs) != 1 or pairs[0] == last:
            return None
        along_x, along_y = {pairs[0]: 2}, {last: 1}
        steps_x, steps_y = _steps(bases, _X, along_x), _steps(bases, _Y, along_y)
        if not (steps_x and steps_y):
            return None
        row = list(_at(bases, {}, {_X: number(0), _Y: number(0)}))
        row[pairs[0]] = simplified(row[pairs[0]] + _ROW)
    else:
        if pairs != ([last] if own > 1 else []) or not _steps(bases, _X, {last: own}):
            return None
        if not _steps(bases[last:], _Y, {}):
            return None
        row = list(_at(bases, {}, {_X: number(0), _Y: _ROW}))
    return (*row[:-1], Ramp(row[-1], together))


def _steps(bases: Sequence[Expr], thread: GpuIndex, wanted: Mapping[int, int]) -> bool:
    """Whether indices grow so much for each number of a thread, in these dimensions, and in no other one."""
    zero = _at(bases, {}, {thread: number(0)})
    for value in range(1, WARP_SHAPE[thread.axis]):
        here = _at(bases, {}, {thread: number(value)})
        for axis, (a, b) in enumerate(zip(here, zero, strict=True)):
            if difference(a, b) != wanted.get(axis, 0) * value:
                return False
    return True


def _of_all(places: Sequence[Indices]) -> Indices | None:
    """The place of a row of any of the matrices: they are two at a distance, and two pairs at another one."""
    steps = [_distances(places[0], place) for place in places]
    known = [step for step in steps if step is not None]
    if len(known) < len(places):
        return None
    found = list[Expr]()
    for axis, index in enumerate(places[0]):
        one, two = (known[k][axis] if len(known) > k else 0 for k in (1, 2))
        if len(known) == MOST_MATRICES and known[3][axis] != one + two:
            return None
        base = index.base if isinstance(index, Ramp) else index
        for step, bit in zip((one, two), _BITS, strict=True):
            base = base + Binary("*", number(step), bit, int64) if step else base
        found.append(Ramp(base, index.lanes) if isinstance(index, Ramp) else base)
    return tuple(found)


def _distances(one: Indices, other: Indices) -> list[int] | None:
    """By how much the indices of a row are larger than those of another one; None if that is not constant."""
    found = [difference(a, b) for a, b in zip(_bases(other), _bases(one), strict=True)]
    known = [each for each in found if each is not None]
    return known if len(known) == len(found) else None


def _bases(indices: Indices) -> Iterator[Expr]:
    return (each.base if isinstance(each, Ramp) else each for each in indices)


def _at(indices: Iterable[Expr], values: Mapping[str, Expr], threads: Mapping[GpuIndex, Expr] | None = None) -> Indices:
    """Indices for values of variables, and of numbers of threads."""
    by_key = {thread.key(): value for thread, value in (threads or {}).items()}
    return tuple(
        simplified(traversal.rewrite(traversal.substitute(e, values), lambda part: by_key.get(part.key())))
        for e in indices
    )
