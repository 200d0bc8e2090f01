"""Statements in kernels: those of C, and those that only GPU threads run."""

from __future__ import annotations

from dataclasses import replace

import cgen

from tiramisu_py.algorithm.expressions import Binary, Expr, Iter, constant
from tiramisu_py.algorithm.traversal import rewrite
from tiramisu_py.algorithm.types import strong, uint32
from tiramisu_py.backends.c.expressions.parentheses import SUM, call
from tiramisu_py.backends.c.expressions.scalars import Scalars, operand
from tiramisu_py.backends.c.expressions.scope import NamedArray, Scope
from tiramisu_py.backends.c.statements import Lines, Statements
from tiramisu_py.backends.c.vectors.in_turn import Pair
from tiramisu_py.backends.c.vectors.vector_types import VectorTypes
from tiramisu_py.backends.cuda.asynchronous_copies import asynchronous_copy
from tiramisu_py.backends.cuda.kernel_scalars import KernelScalars, builtin
from tiramisu_py.backends.cuda.kernel_vectors import LaneLoops
from tiramisu_py.backends.cuda.tree_calls import TreeCalls, common_arrays
from tiramisu_py.errors import CompilerDefect
from tiramisu_py.ir import (
    Allocate,
    Assign,
    Await,
    Barrier,
    Block,
    Copy,
    Declare,
    Deferred,
    DrawnNumbers,
    Events,
    For,
    GpuIndex,
    KernelFunction,
    LastBlock,
    Launch,
    Let,
    Load,
    LoadMatrices,
    Locked,
    Mma,
    Node,
    Record,
    Store,
    TreeReduce,
)
from tiramisu_py.ir.arithmetic.simplify import simplified
from tiramisu_py.ir.rewriting import walk
from tiramisu_py.ir.shared_memory import shared_memory
from tiramisu_py.program.loops import AXES, Combine, Unroll
from tiramisu_py.program.storage import Memory

_ATOMIC = {"+": "add", "*": "mul", "min": "min", "max": "max", "&": "and", "|": "or", "^": "xor"}
_ATOMIC_BOOL = {"+": "or", "*": "and", "min": "and", "max": "or", "&": "and", "|": "or", "^": "xor"}
#: The variable that an atomic update's value reads in place of the element; no user's name looks like this.
_OLD = "<old>"


class KernelStatements(Statements):
    """Emits the statements of one kernel, called `function` in CUDA."""

    scalars: type[Scalars] = KernelScalars

    def __init__(self, function: str, kernel: KernelFunction) -> None:
        super().__init__(function, VectorTypes())
        self.kernel = kernel
        #: Of the copies under way, in how many barriers the first is complete; 0 without such copies.
        self.deferred = min((node.barriers for node in walk(kernel.body) if isinstance(node, Deferred)), default=0)
        self.lanes = LaneLoops()
        self.loops = 0
        self.common_parts = common_arrays(kernel)
        self.shared = shared_memory(kernel)

    def emit(self, node: Node, scope: Scope) -> Lines:
        """The statements of a node, for a block whose names are in `scope`."""
        match node:
            case Barrier():
                return [*self._wait(), cgen.Statement("TM_BARRIER()")]
            case Deferred():
                copied = asynchronous_copy(node.store, self.lanes, scope)
                return self._store(node.store, scope) if copied is None else copied
            case TreeReduce():
                return TreeCalls(self, [node], scope).lines()
            case Mma():
                return self._product(node, scope)
            case LoadMatrices():
                return self._load_matrices(node, scope)
            case LastBlock():
                return self._last_block(node, scope)
            case Locked():
                return self._locked(node, scope)
            case Launch() | Copy() | Events() | Record() | Await():
                raise CompilerDefect(
                    f"kernel {self.kernel.name} has a {type(node).__name__}, which only the host executes"
                )
        return super().emit(node, scope)

    # -- control

    def _loop(self, node: For, scope: Scope) -> Lines:
        if node.tag is not None and not isinstance(node.tag, Unroll):
            raise CompilerDefect(f"loop {node.variable} of a kernel is still tagged {node.tag.name}")
        inner = scope.inner()
        inner.atomic = scope.atomic | {p.buffer for p in node.reductions if p.combine is Combine.ATOMIC}
        self.loops += 1
        loop = self.serial(node, inner)
        self.loops -= 1
        if not isinstance(node.tag, Unroll):
            return [loop]
        factor = "" if node.tag.factor is None else f" {node.tag.factor}"
        return [cgen.Pragma(f"unroll{factor}"), loop]

    def where(self, condition: Expr, scope: Scope) -> Scope:
        """The scope of a block guarded by a condition, with the divisors of indices that it implies."""
        return replace(scope.inner(), facts=scope.facts.where(condition))

    def _last_block(self, node: LastBlock, scope: Scope) -> Lines:
        """The ticket of a block, once all its threads have come here; the last one goes on.

        One thread's fences are enough: the barriers order what the others have stored before it, and what they load
        after it. The last block sets the number of tickets to 0 again, for the next launch.
        """
        scalars = self.scalars(scope)
        place, last = f"&{scalars.text(Load(node.tickets, (node.index,), uint32))}", scalars(node.count - 1).at(SUM)
        inside: Lines = [
            cgen.Statement("TM_FENCE()"),
            cgen.Assign("tm_last[0]", f"tm_take_ticket({place}) == {last}"),
            cgen.If(cgen.Line("tm_last[0]"), cgen.Block([cgen.Statement(f"tm_reset_tickets({place})")])),
            cgen.Statement("TM_FENCE()"),
        ]
        wait = [cgen.Statement("TM_ASYNC_WAIT()")] if self.deferred else []
        return [
            cgen.Statement("TM_SHARED(bool, tm_last, [1])"),
            *wait,
            cgen.Statement("TM_BARRIER()"),
            cgen.If(cgen.Line(self._first_thread()), cgen.Block(inside)),
            cgen.Statement("TM_BARRIER()"),
            cgen.If(cgen.Line("tm_last[0]"), cgen.Block(self.emit(node.body, scope.inner()))),
        ]

    def _locked(self, node: Locked, scope: Scope) -> Lines:
        """One thread takes the lock, and gives it back; the barriers order what the others do, as above."""
        place = f"&{self.scalars(scope).text(Load(node.locks, (node.index,), uint32))}"
        first = self._first_thread()
        take, give = f"tm_take_lock({place})", f"tm_give_lock({place})"
        if node.number is not None and node.count is not None:
            number, count = (self.scalars(scope).text(e) for e in (node.number, node.count))
            take, give = f"tm_await_turn({place}, {number})", f"tm_pass_turn({place}, {number}, {count})"
        taken = [cgen.Statement(take), cgen.Statement("TM_FENCE()")]
        given = [cgen.Statement("TM_FENCE()"), cgen.Statement(give)]
        wait = [cgen.Statement("TM_ASYNC_WAIT()")] if self.deferred else []
        return [
            cgen.If(cgen.Line(first), cgen.Block(taken)),
            cgen.Statement("TM_BARRIER()"),
            cgen.Block(self.emit(node.body, scope.inner())),
            *wait,
            cgen.Statement("TM_BARRIER()"),
            cgen.If(cgen.Line(first), cgen.Block(given)),
        ]

    def drawn(self, numbers: DrawnNumbers, scope: Scope) -> Lines:
        """The number that the block draws when it starts."""
        place = f"&{self.scalars(scope).text(Load(numbers.numbers, (numbers.index,), uint32))}"
        draws = f"tm_number[0] = tm_draw_number({place}, {builtin('grid', numbers.axis)})"
        return [
            cgen.Statement("TM_SHARED(uint32_t, tm_number, [1])"),
            cgen.If(cgen.Line(self._first_thread()), cgen.Block([cgen.Statement(draws)])),
            cgen.Statement("TM_BARRIER()"),
        ]

    def _is_drawn(self, number: GpuIndex) -> bool:
        """Whether the block draws this number of it, which CUDA has no name for."""
        drawn = self.kernel.drawn
        return drawn is not None and (number.unit, number.axis) == ("block", drawn.axis)

    def _first_thread(self) -> str:
        """The test for the first thread of the block."""
        axes = (AXES[axis] for axis, count in enumerate(self.kernel.threads) if count > 1)
        return " && ".join(f"threadIdx.{axis} == 0" for axis in axes) or "true"

    def _product(self, node: Mma, scope: Scope) -> Lines:
        """A product of a warp: what this thread loads of the factors, and its four sums."""
        inner = scope.inner()
        scalars, lines = self.scalars(inner), list[cgen.Generable]()
        parts = [(f"tm_left_{k}", e) for k, e in enumerate(node.left)]
        parts += [(f"tm_right_{k}", e) for k, e in enumerate(node.right)]
        for name, e in parts:
            lanes = scope.lanes.of(e)
            if lanes > 1:
                lines += self.lanes.defined(name, e, lanes, inner)
            else:
                lines.append(cgen.Statement(f"const {strong(e.dtype).c_name} {name} = {scalars.text(e)}"))
        passed = [*(scalars.element(node.buffer, indices) for indices in node.places), *(name for name, _ in parts)]
        lines.append(cgen.Statement(f"TM_MMA_{node.instruction.replace('.', '_')}({', '.join(passed)})"))
        return [cgen.Block(lines)]

    def _load_matrices(self, node: LoadMatrices, scope: Scope) -> Lines:
        """Matrices that a warp loads: where the row begins that this thread says, and its elements of each."""
        row = node.row
        place = self.lanes.place(row.buffer, row.indices, scope.lanes.of(row), scope) if isinstance(row, Load) else None
        if place is None:
            raise CompilerDefect(f"{node.statement} loads matrices of which a row is not 16 aligned bytes: {row}")
        element = self.scalars(scope).element
        own = [f"&{element(node.buffer, (simplified(node.first + k),))}" for k in range(node.count)]
        turned = "true" if node.transposed else "false"
        return [cgen.Statement(f"TM_LOAD_MATRICES({turned}, &{place}, {', '.join(own)})")]

    # -- variables

    def _let(self, node: Node, scope: Scope) -> Lines:
        assert isinstance(node, Let)
        lanes = scope.lanes.of(node.value)
        name = scope.names[node.variable]
        if isinstance(node.value, GpuIndex) and not self._is_drawn(node.value):
            value: Lines = [cgen.Statement(f"const int64_t {name} = {builtin(node.value.unit, node.value.axis)}")]
        elif lanes > 1:
            value = self.lanes.defined(name, node.value, lanes, scope)
        else:
            value = [
                cgen.Statement(
                    f"const {strong(node.value.dtype).c_name} {name} = {self.scalars(scope).text(node.value)}"
                )
            ]
        scope.enter(node, lanes)
        return [*value, *self.emit(node.body, scope)]

    def _declare(self, node: Declare, scope: Scope) -> Lines:
        if node.lanes == 1:
            return super()._declare(node, scope)
        lines = self.lanes.defined(scope.names[node.variable], node.value, node.lanes, scope)
        scope.declare(node.variable, node.lanes)
        return lines

    def _assign(self, node: Assign, scope: Scope) -> Lines:
        lanes = scope.lanes.variables.get(node.variable, 1)
        if lanes == 1:
            return super()._assign(node, scope)
        return self.lanes.assigned(scope.names[node.variable], node.value, lanes, scope)

    # -- memory

    def _groups(self, node: Block, scope: Scope) -> list[list[Node] | Pair]:
        """Trees that follow each other are one group; no two stores are one: kernels have no shuffles of vectors."""
        groups: list[list[Node]] = []
        for each in node.body:
            if groups and _together(groups[-1], each):
                groups[-1].append(each)
            else:
                groups.append([each])
        return [*groups]

    def _group(self, group: list[Node] | Pair, scope: Scope) -> Lines:
        trees = [node for node in group if isinstance(node, TreeReduce)] if isinstance(group, list) else []
        return TreeCalls(self, trees, scope).lines() if len(trees) > 1 else super()._group(group, scope)

    def _store(self, node: Store, scope: Scope) -> Lines:
        array = scope.arrays[node.buffer]
        lanes = max([*map(scope.lanes.of, node.indices), array.lanes if len(node.indices) == len(array.extents) else 1])
        if lanes == 1:
            return super()._store(node, scope)
        if node.atomic or node.buffer in scope.atomic:
            raise CompilerDefect(
                f"{node.statement} is an atomic update of a vector of {node.buffer}: atomic updates are of single "
                "elements"
            )
        return self.lanes.store(node, lanes, scope)

    def atomic(self, place: str, target: Load, value: Expr, scope: Scope) -> Lines:
        """``target = value`` as an atomic update; the value reads the target."""
        dtype = target.dtype
        names = _ATOMIC_BOOL if dtype.is_bool else _ATOMIC
        if isinstance(value, Binary) and value.op in names and strong(value.dtype) == dtype:
            for side, other in ((value.left, value.right), (value.right, value.left)):
                if side.key() == target.key() and not _reads(other, target):
                    term = self.scalars(scope).text(operand(other, dtype))
                    return [cgen.Statement(call(f"tm_atomic_{names[value.op]}", f"&{place}", term).text)]
        inside = replace(scope, names={**scope.names, _OLD: "tm_old"})
        new = self.scalars(inside).text(operand(_reading_old(value, target), dtype))
        change = f"[=]({dtype.c_name} tm_old) {{ return {new}; }}"
        return [cgen.Statement(call("tm_atomic_update", f"&{place}", change).text)]

    def _wait(self) -> Lines:
        """At a barrier: the end of what must be complete, so that each barrier ends a group of copies.

        ::

            complete in 3 barriers:    of the groups that barriers have ended, the 2 newest are still under way
        """
        if self.deferred < 2:
            return [cgen.Statement("TM_ASYNC_WAIT()")] if self.deferred else []
        return [cgen.Statement("TM_ASYNC_COMMIT()"), cgen.Statement(f"TM_ASYNC_WAIT_GROUPS({self.deferred - 1})")]

    def _allocate(self, node: Node, scope: Scope) -> Lines:
        assert isinstance(node, Allocate)
        name = scope.names[node.buffer]
        kind = node.dtype.c_name if node.lanes == 1 else f"tm_vec<{node.dtype.c_name}, {node.lanes}>"
        sizes = [constant(extent) for extent in node.extents]
        if None in sizes:
            raise CompilerDefect(f"buffer {node.buffer} of kernel {self.kernel.name} needs constant extents")
        dimensions = "".join(f"[{max(size or 0, 1)}]" for size in sizes)
        if node.memory is Memory.SHARED:
            given = f"{kind}, {name}, {dimensions or '[1]'}"
            first = self.shared.first.get(node.buffer)
            line = f"TM_SHARED({given})" if first is None else f"TM_SHARED_AT({given}, {first})"
        elif node.memory in (Memory.HOST, Memory.REGISTER):
            line = f"{kind} {name}{dimensions}"
        else:
            raise CompilerDefect(f"buffer {node.buffer} in {node.memory.value} memory cannot be made inside a kernel")
        array = NamedArray(
            name, node.dtype, node.extents, node.lanes, nested=True, is_shared=node.memory is Memory.SHARED
        )
        scope.declare_array(node.buffer, array)
        return [cgen.Statement(line), *self.emit(node.body, scope)]


def _together(group: list[Node], node: Node) -> bool:
    """Whether a statement is emitted with those before it: trees over the same threads, or none that is a tree."""
    last = group[-1]
    if not isinstance(last, TreeReduce) or not isinstance(node, TreeReduce):
        return not isinstance(last, TreeReduce) and not isinstance(node, TreeReduce)
    others = (one for one in group if isinstance(one, TreeReduce))
    alone = all(one.statement != node.statement and not {*one.buffers} & {*node.buffers} for one in others)
    return alone and (last.axes, last.everyone) == (node.axes, node.everyone)


def _reads(e: Expr, target: Load) -> bool:
    return e.key() == target.key() or any(_reads(child, target) for child in e.children())


def _reading_old(value: Expr, target: Load) -> Expr:
    key = target.key()
    return rewrite(value, lambda e: Iter(_OLD, e.dtype) if isinstance(e, Load) and e.key() == key else None)
