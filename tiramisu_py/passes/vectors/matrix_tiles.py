"""Products of small matrices in the matrix registers of a core: loops tagged for it, where their tiles are full.

Before: three loops of constant extents around ``C[i, j] += A[i, k] * B[k, j]``. After: the tile of C is loaded, those
of A and B are loaded and multiplied, and C is stored. Around a loop that adds to the same tiles of C all the time these
stay in their registers. Loops that are not full, or whose operands do not lie as tiles do, remain loops.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from itertools import combinations, pairwise

from tiramisu_py.algorithm import traversal
from tiramisu_py.algorithm.expressions import Binary, Expr, Iter, constant
from tiramisu_py.algorithm.operators import sum_
from tiramisu_py.algorithm.types import DType, bool_, int64
from tiramisu_py.ir import (
    Allocate,
    ArrayArgument,
    Block,
    Comment,
    For,
    If,
    Load,
    LoadTile,
    LoopFunction,
    MultiplyTiles,
    Node,
    Store,
    StoreTile,
    Tiles,
)
from tiramisu_py.ir.arithmetic.linear import Key, difference, linear, number
from tiramisu_py.ir.arithmetic.simplify import simplified, simplify
from tiramisu_py.ir.properties import no_tensor_loop
from tiramisu_py.ir.rewriting import block, contents, variables, walk, with_children
from tiramisu_py.ir.tensor_nests import factors_of, tensor_nest
from tiramisu_py.ir.tile_statements import GROUP_BYTES, TILES
from tiramisu_py.passes.base import About, FunctionPass
from tiramisu_py.program.loops import Combine, Parallel, TensorLoop
from tiramisu_py.program.machine.tensor_instructions import tensor_instruction
from tiramisu_py.records import dataclass

#: At most so many tiles of sums stay in registers: two are left for the factors.
MOST_SUMS = TILES - 2
#: The term within its group, and the group; no user's names look like these.
_TERM, _GROUP = Iter("<term>", int64), Iter("<group>", int64)
Shapes = Mapping[str, tuple[Expr, ...]]


@dataclass(frozen=True)
class MatrixTiles(FunctionPass):
    """Turn products in tensor loops of the host into operations on matrix registers.

    ::

        for k0:                                     -->   c = tile of C
            for i in 0 .. 16:  tensor                     for k0:
                for j in 0 .. 16:  tensor                     a, b = tiles of A, B
                    for k in 0 .. 64:  tensor                 c += a * b
                        C[i, j] += A[i, k] * B[k, j]      tile of C = c
    """

    ensures = (no_tensor_loop,)

    def apply(self, what: LoopFunction, about: About) -> LoopFunction:
        if TensorLoop not in contents(what.body):
            return what
        arguments = (each for each in what.arguments if isinstance(each, ArrayArgument) and each.strides is None)
        shapes = {each.name: each.extents for each in arguments}
        return replace(what, body=_scoped(_Products(shapes).of(what.body)))


@dataclass(frozen=True, eq=False)
class TilePlace:
    """A tile in memory: its first element, and the first element of its row 1."""

    buffer: str
    dtype: DType
    first: tuple[Expr, ...]
    second: tuple[Expr, ...]

    @property
    def key(self) -> Key:
        """Equal for tiles of the same elements."""
        return self.buffer, *(e.key() for e in (*self.first, *self.second))

    def mentions(self, variable: str) -> bool:
        """Whether it is another one in each iteration of a loop."""
        return any(variable in variables(e) for e in (*self.first, *self.second))


@dataclass(frozen=True, eq=False)
class TileProduct:
    """``sums += left * right``, of whole tiles."""

    sums: TilePlace
    left: TilePlace
    right: TilePlace
    rows: int
    columns: int
    terms: int
    statement: str


@dataclass(frozen=True, eq=False)
class _Products:
    """Finds products in tensor loops; `shapes` are the extents of the arrays in scope that are contiguous.

    `atomic` are the buffers to which threads add each element atomically. `found` are the products of nests that were
    looked at, by the numbers of these objects.
    """

    shapes: Shapes
    atomic: frozenset[str] = frozenset()
    found: dict[int, tuple[Node, TileProduct | None]] = field(default_factory=dict)

    def of(self, node: Node) -> Node:
        """The statement with products as operations on tiles."""
        if TensorLoop not in contents(node):
            return node
        if isinstance(node, Allocate):
            known = {**self.shapes, node.buffer: node.extents} if node.lanes == 1 else self.shapes
            return with_children(node, replace(self, shapes=known).of)
        if isinstance(node, For) and node.reductions:
            atomic = {name for one in node.reductions if one.combine is Combine.ATOMIC for name in one.buffers}
            return with_children(_untagged(node), replace(self, atomic=self.atomic | atomic, found={}).of)
        products = self._products(node)
        if products and _stay(products):
            if all(map(_is_tensor, _loops(node))):
                return _with_sums(products, lambda registers: self._inside(node, registers))
            if isinstance(node, For) and self._keeps(node, products):
                made = _with_sums(products, lambda registers: self._inside(node, registers))
                return simplify(If(Binary("<", node.lower, node.upper, bool_), made))
        return with_children(_untagged(node), self.of)

    def _inside(self, node: Node, registers: _Registers) -> Iterable[Node]:
        """The statements of products whose sums are in registers; factors in registers stay from one to the next."""
        if isinstance(node, Block):
            return [each for child in node.body for each in self._inside(child, registers)]
        if isinstance(node, For) and not _is_tensor(node):
            return [replace(node, body=block(self._inside(node.body, _Registers(registers.sums))))]
        if isinstance(node, Comment):
            return [node]
        one = self.found[id(node)][1]
        assert one is not None
        return list(registers.product(one))

    def _keeps(self, loop: For, products: Sequence[TileProduct]) -> bool:
        """Whether a loop adds to the same sums in each iteration, and has a product in each of them."""
        inner = [each for each in walk(loop.body) if isinstance(each, For) and not isinstance(each.tag, TensorLoop)]
        some = all((difference(each.upper, each.lower) or 0) > 0 for each in inner)
        changing = [loop.variable, *(each.variable for each in inner)]
        return some and not any(one.sums.mentions(name) for one in products for name in changing)

    def _products(self, node: Node) -> list[TileProduct] | None:
        """The products that a statement consists of, in loops or one after another; None if it does something else."""
        if isinstance(node, Block):
            found = [self._products(child) for child in node.body if not isinstance(child, Comment)]
            return None if None in found else [one for each in found if each for one in each]
        if not isinstance(node, For):
            return None
        if isinstance(node.tag, TensorLoop):
            if id(node) not in self.found:
                self.found[id(node)] = node, self._product(node)
            one = self.found[id(node)][1]
            return None if one is None else [one]
        return self._products(node.body) if node.tag is None and not node.reductions else None

    def _product(self, node: For) -> TileProduct | None:
        """The product of a nest of full tensor loops."""
        loops, inside = tensor_nest(node)
        if len(loops) != 3 or not isinstance(inside, Store) or inside.update is not sum_:
            return None
        factors = factors_of(inside)
        if factors is None:
            return None
        assert isinstance(node.tag, TensorLoop)
        instruction = tensor_instruction(node.tag.instruction)
        rows, columns, terms = (loops[axis].variable for axis in range(3))
        left, right = sorted(factors, key=lambda load: any(columns in variables(e) for e in load.indices))
        wanted = instruction.extents(left.dtype)
        if instruction.on_gpu or any(
            difference(loops[axis].upper, loops[axis].lower) != wanted[axis] or loops[axis].step != 1
            for axis in range(3)
        ):
            return None
        starts = {loops[axis].variable: loops[axis].lower for axis in range(3)}
        sums = Load(inside.buffer, inside.indices, inside.value.dtype)
        group = GROUP_BYTES // right.dtype.bytes
        places = (
            self._place(sums, (rows, columns), starts, terms),
            self._place(left, (rows, terms), starts, columns),
            self._grouped(right, (terms, columns), starts, rows, group),
        )
        if None in places or inside.buffer in {left.buffer, right.buffer, *self.atomic}:
            return None
        return TileProduct(*places, *wanted, inside.statement)  # type: ignore[arg-type]

    def _place(self, load: Load, of: tuple[str, str], starts: Mapping[str, Expr], other: str) -> TilePlace | None:
        """The tile of a load whose rows and columns are those of two variables; None if it does not lie as a tile."""
        rows = of[0]
        if load.buffer not in self.shapes or any(other in variables(e) for e in load.indices):
            return None
        steps = [_steps(load.indices, each) for each in of]
        if None in steps or self._distance(load.buffer, steps[1]) != 1:
            return None
        values = {each: starts[each] for each in of}
        return _placed(load, values, {**values, rows: simplified(Binary("+", values[rows], number(1), int64))})

    def _grouped(
        self, load: Load, of: tuple[str, str], starts: Mapping[str, Expr], other: str, group: int
    ) -> TilePlace | None:
        """The tile of the right factor: a row for each group of terms, in which each column has its own together."""
        terms, columns = of
        if load.buffer not in self.shapes or any(other in variables(e) for e in load.indices):
            return None
        first = linear(starts[terms])
        if any(factor % group for _, factor in first.terms.values()) or first.constant % group:
            return None
        parts: list[tuple[Expr, ...]] = []
        for within in range(group):
            at = starts[terms] + Binary("*", number(group), _GROUP, int64) + within
            parts.append(_substituted(load.indices, {terms: at}))
        across = [_steps(parts[0], each) for each in (_GROUP.name, columns)]
        if None in across or self._distance(load.buffer, across[1]) != group:
            return None
        for before, after in pairwise(parts):
            step = tuple(difference(b, a) for a, b in zip(before, after, strict=True))
            if None in step or self._distance(load.buffer, step) != 1:
                return None
        start = replace(load, indices=parts[0])
        values = {columns: starts[columns], _GROUP.name: number(0)}
        return _placed(start, values, {**values, _GROUP.name: number(1)})

    def _distance(self, buffer: str, step: tuple[int | None, ...] | None) -> int | None:
        """How far apart two elements are in memory whose indices differ by a step; None if that is not constant."""
        assert step is not None
        total, stride = 0, 1
        for own, extent in zip(reversed(step), reversed(self.shapes[buffer]), strict=True):
            if own:
                if stride == 0:
                    return None
                total += own * stride
            size = constant(extent)
            stride *= int(size) if size is not None else 0  # beyond a symbolic extent no distance is constant
        return total


def _loops(node: Node) -> list[Node]:
    """The loops that a statement consists of."""
    return [each for each in (node.body if isinstance(node, Block) else (node,)) if not isinstance(each, Comment)]


def _untagged(node: Node) -> Node:
    """A tensor loop as a plain one."""
    return replace(node, tag=None) if isinstance(node, For) and isinstance(node.tag, TensorLoop) else node


def _is_tensor(node: Node) -> bool:
    return isinstance(node, For) and isinstance(node.tag, TensorLoop)


def _steps(indices: Sequence[Expr], variable: str) -> tuple[int, ...] | None:
    """By how much each index grows from one value of a variable to the next; None if that differs."""
    found = []
    for index in indices:
        form, own = linear(index), Iter(variable, int64)
        if variable in form.without(own.key()).iterators:
            return None
        found.append(form.factor(own))
    return tuple(found)


def _substituted(indices: Sequence[Expr], values: Mapping[str, Expr]) -> tuple[Expr, ...]:
    return tuple(simplified(traversal.substitute(e, values)) for e in indices)


def _placed(load: Load, first: Mapping[str, Expr], second: Mapping[str, Expr]) -> TilePlace:
    return TilePlace(load.buffer, load.dtype, _substituted(load.indices, first), _substituted(load.indices, second))


# -- products in registers


@dataclass(frozen=True, eq=False)
class _Registers:
    """The tiles of a thread: those of some `sums`, by their keys, and the others, which factors have in turns."""

    sums: Mapping[Key, int]
    factors: dict[Key, int] = field(default_factory=dict)

    def product(self, one: TileProduct) -> Iterator[Node]:
        """The statements of a product: what is loaded already stays."""
        group = GROUP_BYTES // one.right.dtype.bytes
        yield from self._loaded(one.left, one.right, one.statement, one.rows, one.terms)
        yield from self._loaded(one.right, one.left, one.statement, one.terms // group, one.columns * group)
        tiles = self.sums[one.sums.key], self.factors[one.left.key], self.factors[one.right.key]
        yield MultiplyTiles(*tiles, (one.left.dtype, one.right.dtype), one.statement)

    def _loaded(self, place: TilePlace, other: TilePlace, statement: str, rows: int, columns: int) -> Iterator[Node]:
        """The load of a factor, unless it is there, into the tile that was used longest ago; the other one stays."""
        if place.key in self.factors:
            self.factors[place.key] = self.factors.pop(place.key)
            return
        used = {*self.sums.values(), *self.factors.values()}
        tile = next((each for each in range(TILES) if each not in used), None)
        if tile is None:
            tile = self.factors.pop(next(key for key in self.factors if key != other.key))
        self.factors[place.key] = tile
        yield LoadTile(tile, place.buffer, place.first, place.second, place.dtype, rows, columns, statement)


def _with_sums(products: Sequence[TileProduct], inside: Callable[[_Registers], Iterable[Node]]) -> Node:
    """Statements with the sums of these products in registers: loaded before, and stored after them."""
    distinct = {one.sums.key: one for one in products}
    registers = _Registers({key: tile for tile, key in enumerate(distinct)})
    moved = [
        (tile, one.sums.buffer, one.sums.first, one.sums.second, one.sums.dtype, one.rows, one.columns, one.statement)
        for tile, one in enumerate(distinct.values())
    ]
    loaded = [LoadTile(*each) for each in moved]
    return block([*loaded, *inside(registers), *(StoreTile(*each) for each in moved)])


def _stay(products: Sequence[TileProduct]) -> bool:
    """Whether the sums of all products can be in registers at once: they are few, and no two share an element."""
    distinct = list({one.sums.key: one for one in products}.values())
    return len(distinct) <= MOST_SUMS and all(_are_apart(a, b) for a, b in combinations(distinct, 2))


def _are_apart(a: TileProduct, b: TileProduct) -> bool:
    """Whether the sums of two products have no element in common: their first elements are a tile apart."""
    if a.sums.buffer != b.sums.buffer:
        return True
    step = [difference(y, x) for x, y in zip(a.sums.first, b.sums.first, strict=True)]
    down = [difference(y, x) for x, y in zip(a.sums.first, a.sums.second, strict=True)]
    along = [difference(y, x) for x, y in zip(b.sums.first, b.sums.second, strict=True)]
    if None in step or down != along:
        return False
    last = len(step) - 1
    for axis, by in enumerate(step):
        only = all(own == 0 for k, own in enumerate(down) if k != axis)
        if (axis == last and down[last] == 0 and abs(by or 0) >= a.columns) or (
            only and axis != last and down[axis] == 1 and abs(by or 0) >= a.rows
        ):
            return True
    return False


def _scoped(node: Node) -> Node:
    """The statement with tiles configured, once for each thread, as far outside as one thread runs."""
    if contents(node).isdisjoint((LoadTile, MultiplyTiles)):
        return node
    shared = Parallel in contents(node) and any(
        isinstance(each, For) and isinstance(each.tag, Parallel) and LoadTile in contents(each) for each in walk(node)
    )
    if shared or isinstance(node, Block):
        return with_children(node, _scoped)
    return Tiles(node)
