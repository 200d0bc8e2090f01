"""From block IR to values: each block that is kept is a computation over programs, loops and the axes of the block.

A value has a meaning, a function from an index in the block to an expression. Indices and masks stay expressions of
the numbers of programs and iterations; loads, products, reductions, and blocks with a name become computations.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tiramisu_py.algorithm import operators
from tiramisu_py.algorithm import types as ty
from tiramisu_py.algorithm.declarations import Origin
from tiramisu_py.algorithm.expressions import (
    Access,
    Cast,
    Const,
    Expr,
    Iter,
    as_typed,
    component,
    select,
    tuple_value,
)
from tiramisu_py.algorithm.names import is_reserved
from tiramisu_py.algorithm.operators import Operator
from tiramisu_py.algorithm.types import TupleType, weak_int
from tiramisu_py.function.arrays import ProgramValue
from tiramisu_py.language.ir.nodes import BlockKernel, BlockLoop, BlockValue, Instruction, Node, Operand
from tiramisu_py.language.ir.scalars import dtype_of
from tiramisu_py.language.values.axes import Axes
from tiramisu_py.language.values.forms import ZERO, combined, is_positive, mentioning, steps, typed
from tiramisu_py.language.values.meanings import Bound, Meaning, Meanings
from tiramisu_py.language.values.sums import CarriedSum, carried_sum
from tiramisu_py.language.values.swizzles import swizzles_of
from tiramisu_py.language.values.uses import KEPT, REDUCED, VIEWS, Uses
from tiramisu_py.records import dataclass

_OPERATORS: dict[str, Operator] = {
    "sum": operators.sum_, "reduce_mul": operators.product, "reduce_max": operators.max_,
    "reduce_min": operators.min_, "reduce_and": operators.logical_and, "reduce_or": operators.logical_or,
    "argmax": operators.argmax, "argmin": operators.argmin,
}  # fmt: skip


@dataclass(frozen=True, eq=False)
class KeptBlock:
    """A value that is a computation: its name, the iterators of programs and loops that it depends on, its type."""

    name: str
    iterators: tuple[str, ...]
    dtype: ty.DType
    component: int | None = None


@dataclass(frozen=True, eq=False)
class Site:
    """A store, or a load where its values are used: the array, the blocks of indices in it, the value, and the mask."""

    op: str
    array: str
    pointers: BlockValue
    indices: tuple[Operand, ...]
    value: Operand
    mask: Operand
    loops: tuple[BlockLoop, ...]
    origin: Origin
    combine: str = ""


class Programs(Meanings):
    """The values of all programs of one launch."""

    def __init__(
        self, kernel: BlockKernel, bound: Mapping[str, Bound], grid: Sequence[Expr], owner: object,
        taken: set[str], params: Sequence[str], origin: Callable[[int], Origin],
    ) -> None:  # fmt: skip
        self.kernel, self.bound, self.owner, self.origin = kernel, bound, owner, origin
        self.grid = [*grid, *[Const(1, weak_int)] * (3 - len(grid))]
        self.uses = Uses(kernel)
        self.taken = taken
        self._names = {value.name for value in (*self.uses.defined, *self.uses.carriers)} | {*bound}
        self.axes = Axes(self.uses, [self.is_one(axis) for axis in range(3)], params)
        self.kept: dict[BlockValue, KeptBlock] = {}
        self.values: list[ProgramValue] = []
        self.named: dict[str, str] = {}
        self.tf32: set[str] = set()
        self.sites: list[Site] = []
        self.loads: list[Site] = []
        self.assumed: list[tuple[Operand, Origin]] = []
        self._meanings: dict[BlockValue, Meaning] = {}
        self._makers: list[Callable[[], ProgramValue]] = []
        self._loops: list[BlockLoop] = []
        self._aliases: list[tuple[str, BlockValue]] = []
        self._sums: dict[Node, CarriedSum] = {}
        self._summed: set[tuple[BlockLoop, int]] = set()
        self._wanted = self._wanted_values()
        self.swizzles = swizzles_of(self.uses, origin)

    def run(self) -> None:
        """Make the values of all programs, in the order of the kernel."""
        self._body(self.kernel.body)
        self.values = [make() for make in self._makers]
        for name, value in self._aliases:
            if value in self.kept:
                self.named[self._variable(name)] = self.kept[value].name

    # -- what is kept

    def _wanted_values(self) -> set[BlockValue]:
        """Values that are kept though they are made element by element: operands of products, and what loops carry."""
        found: set[BlockValue] = set()
        for node in self.uses.nodes:
            if isinstance(node, Instruction) and node.op in ("dot", "cumsum", "argmax", "argmin"):
                found |= {each for each in map(self._viewed, node.operands[:2]) if each is not None}
        return found

    def _viewed(self, operand: Operand) -> BlockValue | None:
        """The value of which an operand is another view; None for a number. One of fewer bits is a value by itself."""
        while (node := self.uses.instruction(operand)) is not None and node.op in VIEWS and node.op != "splat":
            if _is_rounded(node):
                break
            operand = node.operands[0]
        return operand if isinstance(operand, BlockValue) else None

    def _is_kept(self, node: Instruction) -> bool:
        value = node.result
        assert value is not None
        is_index = value in self.uses.indexing or node.op in ("getelementptr", "extent")
        if node.op in KEPT:
            is_inline = node.op in ("load", "masked_load") and (is_index or not value.type.shape)
            return not is_inline or (node.op == "masked_load" and self._is_loaded(node.operands[1]))
        if value in self._wanted and _is_rounded(node):
            return True
        if is_index or node.op in VIEWS or dtype_of(value).is_bool or node.op in ("make_range", "get_program_id"):
            return False
        if value in self._wanted:
            return True
        return not value.name.startswith("%") and dtype_of(value).is_float and bool(self._depends(value))

    def _depends(self, value: BlockValue) -> bool:
        """Whether a value is made of something that is loaded."""
        waiting, seen = [value], set[BlockValue]()
        while waiting:
            each = waiting.pop()
            if each in seen:
                continue
            seen.add(each)
            node = self.uses.instruction(each)
            if node is None or node.op in KEPT:
                return True
            waiting += [operand for operand in node.operands if isinstance(operand, BlockValue)]
        return False

    # -- the body

    def _body(self, body: Sequence[Node]) -> None:
        for node in body:
            if isinstance(node, BlockLoop):
                self._loop(node)
            elif node.result is None:
                self._effect(node)
            elif node in self._sums:
                self._keep_sum(node, self._sums[node])
            elif self._is_kept(node):
                self._keep(node)
            else:
                self._meanings[node.result] = self._inline(node)
                if node.op in ("load", "masked_load"):
                    self._read(node, node.result)

    def _read(self, node: Instruction, value: BlockValue) -> None:
        """Note a load that is done where its values are used."""
        place = self.uses.instruction(node.operands[0])
        assert place is not None and isinstance(place.operands[0], BlockValue) and place.result is not None
        mask = node.operands[1] if node.op == "masked_load" else True
        array, loops, origin = place.operands[0].name, tuple(self._loops), self.origin(node.line)
        self.loads.append(Site("load", array, place.result, place.operands[1:], value, mask, loops, origin))

    def _effect(self, node: Instruction) -> None:
        if node.op == "assume":
            self.assumed.append((node.operands[0], self.origin(node.line)))
            return
        place = self.uses.instruction(node.operands[0])
        assert place is not None and isinstance(place.operands[0], BlockValue) and place.result is not None
        mask = node.operands[2] if node.op.startswith("masked_") else True
        self.sites.append(
            Site(
                node.op.removeprefix("masked_"), place.operands[0].name, place.result, place.operands[1:],
                node.operands[1], mask, tuple(self._loops), self.origin(node.line), *node.attributes,
            )
        )  # fmt: skip

    def _loop(self, node: BlockLoop) -> None:
        iterator = self.axes.loop(node)
        low, step = self.meaning(node.low)(()), self.meaning(node.step)(())
        self._meanings[node.index] = lambda _: combined("+", low, combined("*", Iter(iterator), step))
        for k, inner in enumerate(node.carried):
            self._carry(node, k, inner)
        self._loops.append(node)
        self._body(node.body)
        self._loops.pop()
        for k, value in enumerate(node.carried):
            self._after_body(node, k, value)

    def count(self, node: BlockLoop) -> Expr:
        """The number of iterations of a loop, below 1 for none."""
        return steps(*(self.meaning(each)(()) for each in (node.low, node.high, node.step)))

    def _carry(self, node: BlockLoop, k: int, inner: BlockValue) -> None:
        """The meaning of a carried value before an iteration, and after the loop."""
        result, initial = node.results[k], node.initial[k]
        if (node, k) in self._summed:
            return
        if node.yields[k] is inner:
            self._meanings[inner] = self._meanings[result] = self.meaning(initial)
            return
        moved = self._induction(node, k, inner)
        if moved is not None:
            it, count = Iter(self.axes.loop(node)), self.count(node)
            begin = self.meaning(initial)
            self._meanings[inner] = lambda i: combined("+", begin(i), combined("*", it, moved(i)))
            times = combined("max", count, ZERO)
            self._meanings[result] = lambda i: combined("+", begin(i), combined("*", times, moved(i)))
            return
        found = carried_sum(self.uses, node, k)
        if found is not None:
            self._sums[found.term] = found
            self._summed |= {*zip(found.loops, found.positions, strict=True)}
            self._meanings[result] = lambda i: self._access(found.term.result, i)  # type: ignore[arg-type]
            return
        after = node.yields[k]
        definition = self.uses.instruction(after)
        is_own = definition is not None and any(each is definition for each in node.body)
        if is_own and isinstance(after, BlockValue):
            self._wanted.add(after)
            self._aliases.append((_base(inner), after))
        self._meanings[inner] = lambda i: self._before(node, k, i)
        self._meanings[result] = lambda i: self._result(node, k, i)

    def _after_body(self, node: BlockLoop, k: int, inner: BlockValue) -> None:
        """Keep what a loop carries where nothing in its body does so already."""
        after = node.yields[k]
        if (
            (node, k) in self._summed
            or after is inner
            or self._induction(node, k, inner) is not None
            or carried_sum(self.uses, node, k) is not None
        ):
            return
        if (
            not isinstance(after, BlockValue)
            or after not in self.kept
            or self._iterator(node) not in self.kept[after].iterators
        ):
            self._loops.append(node)
            self._keep_value(inner, _base(inner), after, node.line, along=node)
            self._loops.pop()

    def _carried_name(self, node: BlockLoop, k: int) -> KeptBlock:
        after = node.yields[k]
        own = self.kept.get(node.carried[k])
        return own if own is not None else self.kept[after]  # type: ignore[index]

    def _before(self, node: BlockLoop, k: int, index: Sequence[Expr]) -> Expr:
        """A carried value before an iteration: the one after the previous iteration, or what the loop begins with."""
        it = Iter(self._iterator(node))
        begun = typed(self.meaning(node.initial[k])(index), dtype_of(node.carried[k]))
        previous = self._access_kept(
            self._carried_name(node, k), index, {it.name: combined("-", it, Const(1, weak_int))}
        )
        return select(it == 0, begun, previous)

    def _result(self, node: BlockLoop, k: int, index: Sequence[Expr]) -> Expr:
        """A carried value after the last iteration, or what the loop begins with if there is none."""
        count = self.count(node)
        last = {self._iterator(node): combined("-", count, Const(1, weak_int))}
        found = self._access_kept(self._carried_name(node, k), index, last)
        if isinstance(count, Const):
            return found if count.value > 0 else typed(self.meaning(node.initial[k])(index), dtype_of(node.carried[k]))
        begun = typed(self.meaning(node.initial[k])(index), dtype_of(node.carried[k]))
        return found if is_positive(count) else select(count >= 1, found, begun)

    def _iterator(self, node: BlockLoop) -> str:
        return self.axes.loop(node)

    def _induction(self, node: BlockLoop, k: int, inner: BlockValue) -> Meaning | None:
        """The step by which an integer grows in each iteration, if that is the same in all of them."""
        step = self.uses.instruction(node.yields[k])
        if step is None or step.op != "add" or dtype_of(inner).is_float:
            return None
        sides = [each for each in step.operands if each is not inner]
        if len(sides) != 1:
            return None
        (side,) = sides
        if isinstance(side, BlockValue) and node in self.uses.needs.get(side, ()):
            return None
        return lambda i: self.meaning(side)(i)  # noqa: PLW0108, of the body, which is not known yet

    # -- keeping values

    def _keep(self, node: Instruction) -> None:
        value = node.result
        assert value is not None
        name = value.name if not value.name.startswith("%") else _MADE_NAMES.get(node.op, "block")
        if node.op in REDUCED:
            self._keep_reduction(node, value, name)
        elif node.op == "dot":
            self._keep_dot(node, value, name)
        elif node.op == "cumsum":
            self._keep_prefixes(node, value, name)
        elif node.op == "masked_load" and self._is_loaded(node.operands[1]):
            self._keep_guarded_load(node, value, name)
        else:
            inline = self._inline(node)
            self._declare(value, name, node.line, lambda index: (inline(index), {}, None))

    def _is_loaded(self, operand: Operand) -> bool:
        """Whether a mask is made of values that are loaded."""
        waiting, seen = [operand], set[BlockValue]()
        while waiting:
            each = waiting.pop()
            node = self.uses.instruction(each)
            if not isinstance(each, BlockValue) or each in seen or node is None:
                continue
            if node.op in KEPT:
                return True
            seen.add(each)
            waiting += node.operands
        return False

    def _keep_guarded_load(self, node: Instruction, value: BlockValue, name: str) -> None:
        """A load under a mask of loaded values: a reduction of one term, which is there where the mask holds."""
        element, mask, other = self._of_load(node), self.meaning(node.operands[1]), self.meaning(node.operands[2])
        dtype = dtype_of(value)
        op = operators.sum_ if dtype.is_integer else operators.max_  # of an index: 0 is nearer than the least one

        def term(index: Sequence[Expr]) -> tuple[Expr, dict[Iter, Any], Operator]:
            return element(index), {self.axes.fresh("only", index): 1}, op

        def where(index: Sequence[Expr]) -> Expr:
            return mentioning(mask(index), self.axes.fresh("only", index))

        read = f"{self._variable(name)}_read"
        self._declare(value, read, node.line, term, meaning=False, where=where)
        loaded = self.kept.pop(value)
        self._declare(
            value, name, node.line,
            lambda index: (
                select(mask(index), self._access_kept(loaded, index, {}), as_typed(other(index), dtype)), {}, None
            ),
        )  # fmt: skip

    def _keep_value(self, value: BlockValue, name: str, operand: Operand, line: int, along: BlockLoop) -> None:
        """Keep another value under the name of one that a loop carries."""
        self._declare(
            value, name, line, lambda index: (typed(self.meaning(operand)(index), dtype_of(value)), {}, None),
            beside=(along,), meaning=False,
        )  # fmt: skip

    def _keep_reduction(self, node: Instruction, value: BlockValue, name: str) -> None:
        (operand,), (along,) = node.operands, node.static
        assert isinstance(operand, BlockValue)
        label = self.axes.reduced(operand, along)
        op = _OPERATORS[node.op]

        def made(index: Sequence[Expr]) -> tuple[Any, dict[Iter, Any], Operator]:
            it = self.axes.fresh(label, index)
            term: Any = self.meaning(operand)([*index[:along], it, *index[along:]])
            if node.op.startswith("arg"):
                term = tuple_value((term, Cast(it, ty.int64)), ("value", "index"))
            return term, {it: operand.type.shape[along]}, op

        fields = (("value", dtype_of(operand)), ("index", ty.int64))
        self._declare(
            value, name, node.line, made, several=ty.tuple_type(fields) if node.op.startswith("arg") else None
        )

    def _keep_dot(self, node: Instruction, value: BlockValue, name: str) -> None:
        if len(node.operands) == 3:
            product = f"{self._variable(name)}_product"
            self._declare(value, product, node.line, lambda index: self._product(node, index), meaning=False)
            self._note_precision(node, value)
            terms, acc = self.kept.pop(value), node.operands[2]
            self._declare(
                value, name, node.line,
                lambda index: (self.meaning(acc)(index) + self._access_kept(terms, index, {}), {}, None),
            )  # fmt: skip
        else:
            self._declare(value, name, node.line, lambda index: self._product(node, index))
            self._note_precision(node, value)

    def _note_precision(self, node: Instruction, value: BlockValue) -> None:
        """Remember the products whose factors may lose bits."""
        if "tf32" in node.attributes:
            self.tf32.add(self.kept[value].name)

    def _product(self, node: Instruction, index: Sequence[Expr]) -> tuple[Expr, dict[Iter, Any], Operator]:
        """The term of a product, and the iterator that it is summed over."""
        a, b = node.operands[:2]
        assert isinstance(a, BlockValue) and isinstance(b, BlockValue)
        t = self.axes.fresh(self.axes.reduced(a, 1), index)
        left, right = self.meaning(a)([index[0], t]), self.meaning(b)([t, index[1]])
        dtype = dtype_of(node.result) if node.result is not None else left.dtype
        return as_typed(left, dtype) * as_typed(right, dtype), {t: a.type.shape[1]}, operators.sum_

    def _keep_prefixes(self, node: Instruction, value: BlockValue, name: str) -> None:
        (operand,), (along,) = node.operands, node.static

        def made(index: Sequence[Expr]) -> tuple[Expr, dict[Iter, Any], None]:
            at = index[along]
            previous = self._access(value, [*index[:along], combined("-", at, Const(1, weak_int)), *index[along + 1 :]])
            own = self.meaning(operand)(index)
            return select(at == 0, own, previous + own), {}, None

        self._declare(value, name, node.line, made)

    def _keep_sum(self, node: Instruction, found: CarriedSum) -> None:
        """A reduction over the iterations of loops: what a loop carries is only ever added to."""
        value = node.result
        assert value is not None
        name = _base(found.loops[-1].carried[found.positions[-1]])

        def made(index: Sequence[Expr]) -> tuple[Expr, dict[Iter, Any], Operator]:
            over: dict[Iter, Any] = {Iter(self._iterator(each)): (0, self.count(each)) for each in found.loops}
            if node.op == "dot":
                term, own, op = self._product(node, index)
                return term, {**over, **own}, op
            return typed(self.meaning(found.operand)(index), dtype_of(value)), over, found.op

        self._declare(value, name, node.line, made, without=found.loops, meaning=False)
        self._note_precision(node, value)

    def _declare(
        self, value: BlockValue, name: str, line: int,
        made: Callable[[Sequence[Expr]], tuple[Any, dict[Iter, Any], Operator | None]], *,
        without: Sequence[BlockLoop] = (), beside: Sequence[BlockLoop] = (), several: TupleType | None = None,
        meaning: bool = True, where: Meaning | None = None,
    ) -> None:  # fmt: skip
        variable = self._variable(name)
        own = self._free(variable)
        needs = {*self.uses.needs.get(value, ()), *beside} - {*without}
        around = [each for each in self._loops if each in needs]
        domain: dict[Iter, Any] = {
            Iter(self.axes.program(axis)): self.grid[axis]
            for axis in range(3)
            if axis in needs and not self.is_one(axis)
        }
        loops = [(Iter(self._iterator(each)), each) for each in around]
        names = tuple(each.name for each in [*domain, *(it for it, _ in loops)])
        self.kept[value] = KeptBlock(
            own, names, dtype_of(value) if several is None else several, None if several is None else 1
        )
        if meaning:
            self._meanings[value] = lambda index: self._access(value, index)
        self.named |= {variable: own, name: own, value.name: own}

        def make() -> ProgramValue:
            axes = self.axes.of(value, names)
            whole = {**domain, **{it: (0, self.count(each)) for it, each in loops}}
            whole |= dict(zip(axes, value.type.shape, strict=True))
            expr, over, op = made(axes)
            dtype = dtype_of(value) if several is None else several
            guard = None if where is None else where(axes)
            return ProgramValue(own, whole, expr, dtype, self.origin(line), over=over, op=op, where=guard)

        self._makers.append(make)

    def _variable(self, name: str) -> str:
        """The variable of a name in block IR, where each value of a variable has one: ``acc`` of ``acc_2``."""
        base, _, number = name.rpartition("_")
        return base if base and number.isdigit() and base in self._names else name

    def _free(self, wanted: str) -> str:
        """An unused name; Python may call a variable do, or int, and C keeps these to itself."""
        name, count = wanted, 1
        while is_reserved(name) or not self.taken.isdisjoint((name, f"{name}_init", f"{name}_update")):
            count += 1
            name = f"{wanted}_{count}"
        self.taken |= {name, f"{name}_init", f"{name}_update"}
        return name

    def _access(self, value: BlockValue, index: Sequence[Expr]) -> Expr:
        return self._access_kept(self.kept[value], index, {})

    def _access_kept(self, kept: KeptBlock, index: Sequence[Expr], at: Mapping[str, Expr]) -> Expr:
        whole = [at.get(name, Iter(name)) for name in kept.iterators]
        found = Access(kept.name, (*whole, *index), kept.dtype, self.owner)
        return found if kept.component is None else component(found, kept.component)


def _is_rounded(node: Instruction) -> bool:
    """Whether it converts floats to such with fewer bits."""
    if node.op != "cast" or node.result is None or not isinstance(node.operands[0], BlockValue):
        return False
    before, after = dtype_of(node.operands[0]), dtype_of(node.result)
    return before.is_float and after.is_float and after.bits < before.bits


def _base(inner: BlockValue) -> str:
    """The name of the variable of a carried value."""
    return inner.name.removesuffix("_before")


#: Names for values that have none in the source.
_MADE_NAMES = {
    "load": "loaded", "masked_load": "loaded", "dot": "product", "reduce_max": "largest", "reduce_min": "least",
    "sum": "summed", "cumsum": "prefixes", "argmax": "largest_at", "argmin": "least_at",
    "reduce_mul": "multiplied", "reduce_and": "all_of", "reduce_or": "any_of", "rand": "random",
    "cast": "rounded",
}  # fmt: skip
