"""Statements in C: one method for each node class of the loop IR, which returns a list of cgen lines and blocks.

Calls of C functions over whole arrays: pointers to first elements, strides, and scalars.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace

import cgen

from tiramisu_py.algorithm.expressions import Binary, Expr, Iter, constant
from tiramisu_py.algorithm.stacks import deep_nest
from tiramisu_py.algorithm.traversal import iterators
from tiramisu_py.algorithm.types import DType, int64, strong
from tiramisu_py.algorithm.words.stages import ArrayParameter, StrideParameter
from tiramisu_py.backends.c import streaming_stores as streams
from tiramisu_py.backends.c.expressions.scalars import Scalars, operand
from tiramisu_py.backends.c.expressions.scope import NamedArray, Scope
from tiramisu_py.backends.c.layout import chained, opened
from tiramisu_py.backends.c.long_functions import FunctionParts
from tiramisu_py.backends.c.part import HostParts
from tiramisu_py.backends.c.temporaries import Temporaries
from tiramisu_py.backends.c.trace_calls import Log, traced
from tiramisu_py.backends.c.vectors import gathers, in_turn, quads
from tiramisu_py.backends.c.vectors.stores import WholeStore, stored
from tiramisu_py.backends.c.vectors.vector_types import VectorTypes
from tiramisu_py.backends.c.vectors.vectors import Vectors
from tiramisu_py.errors import CompilerDefect
from tiramisu_py.ir import (
    Allocate,
    ArrayCall,
    Assign,
    BeginArray,
    Block,
    Comment,
    Declare,
    EndArray,
    For,
    If,
    Let,
    Load,
    Mask,
    MemoryBlock,
    Node,
    Prefetch,
    Store,
    Traced,
)
from tiramisu_py.ir.arithmetic.linear import number
from tiramisu_py.ir.rewriting import contents, expressions, walk
from tiramisu_py.program.loops import Parallel
from tiramisu_py.program.storage import Memory

Lines = list[cgen.Generable]


class Statements:
    """Emits the statements of one function, called `function` in C and `title` in messages; `parts` are the targets'
    additions.
    """

    scalars: type[Scalars] = Scalars

    def __init__(
        self,
        function: str,
        types: VectorTypes,
        parts: HostParts | None = None,
        log: Log | None = None,
        title: str = "",
    ) -> None:
        self.function = function
        self.title = title or function
        self.types = types
        self.parts = parts or HostParts()
        self.log = log or Log(function)
        self.temporaries = Temporaries(self)
        self.alignment: streams.Alignment | None = None
        self.division: FunctionParts | None = None
        self.printers = self.parts.printers(self)

    @deep_nest
    def emit(self, node: Node, scope: Scope) -> Lines:
        """The C statements of a node, for a C block with the names in `scope`."""
        return [*self._before(node), *self._emitted(node, scope)]

    def _before(self, node: Node) -> Lines:
        return self.parts.lines(lambda part: part.before(node))

    def _run(self, nodes: Sequence[Node], scope: Scope) -> Lines:
        """A statement, or several that are printed together."""
        if len(nodes) == 1:
            return self.emit(nodes[0], scope)
        return [*self._before(nodes[0]), *self.parts.together(nodes, scope)]

    def _groups(self, node: Block, scope: Scope) -> list[list[Node] | in_turn.Pair]:
        """The statements of a block in groups that are printed one after another."""
        return in_turn.paired(node.body, scope)

    def _group(self, group: list[Node] | in_turn.Pair, scope: Scope) -> Lines:
        """Statements one after another, or two stores as one."""
        if isinstance(group, in_turn.Pair):
            before = [line for each in (group.even, group.odd) for line in self._before(each.store)]
            return [*before, group.statement(scope, self.types)]
        return [line for run in self.parts.runs(group) for line in self._run(run, scope)]

    def _emitted(self, node: Node, scope: Scope) -> Lines:
        match node:
            case Block() if self.division and self.division.divides(node):
                return self.division.emit(self, node, scope)
            case Block():
                scope.row_ends = streams.ends_of_rows(node.body, scope)
                groups = self._groups(node, scope)
                lines = [line for group in groups for line in self._group(group, scope)]
                return streams.prefetching_once(streams.waiting_once(lines))
            case Comment():
                return [cgen.LineComment(_one_line(node.text))]
            case For():
                return self._loop(node, scope)
            case If():
                return self._guard(node, scope)
            case Let():
                return self.named(node.variable, node, scope, self._let)
            case Declare():
                return self._declare(node, scope)
            case Assign():
                return self._assign(node, scope)
            case Store():
                return self._store(node, scope)
            case ArrayCall():
                return [cgen.Statement(call_text(node, self.scalars(scope)))]
            case Prefetch():
                return streams.prefetched(node, scope)
            case Allocate():
                return self.named(node.buffer, node, scope, self._allocate)
            case MemoryBlock(device=None):
                return self.temporaries.blocks(node, scope)
            case BeginArray(device=None):
                return self.temporaries.begin(node, scope)
            case EndArray():
                return self.temporaries.end(node, scope)
            case Mask():
                return self._mask(node, scope)
            case Traced():
                return traced(self, node, scope)
        printer = self.printers.get(type(node))
        if printer:
            return printer(node, scope)
        raise CompilerDefect(f"the C emitter does not know the statement {type(node).__name__}")

    def block(self, node: Node, scope: Scope) -> cgen.Block:
        """A C block of its own; `scope` becomes its scope."""
        lines = self.emit(node, scope)
        return cgen.Block(opened(lines) if self.parts.one_body else lines)

    def named(self, name: str, node: Node, scope: Scope, emit: Callable[[Node, Scope], Lines]) -> Lines:
        """A definition; in a C block of its own if this block already has its name."""
        return [cgen.Block(emit(node, scope.inner()))] if name in scope.declared else emit(node, scope)

    # -- control

    def _loop(self, node: For, scope: Scope) -> Lines:
        printer = self.printers.get(type(node.tag))
        if printer and isinstance(node.tag, Parallel) and node.tag.collapse > 0 and not scope.threaded:
            return printer(node, scope)
        if node.tag is not None and not isinstance(node.tag, Parallel):
            raise CompilerDefect(f"loop {node.variable} is still tagged {node.tag.name}: run the passes first")
        if streams.is_outermost(node, scope):
            inside = scope.inner()
            inside.streaming = True
            return [*self._serial(node, inside), *streams.arrived()]
        return self._serial(node, scope)

    def _serial(self, node: For, scope: Scope) -> Lines:
        """A plain loop, or one from the first cache line on and the ends of its rows as usual."""
        if self.alignment is None or not self.alignment.begins_anywhere(node):
            return [self.serial(node, scope)]
        return streams.from_a_line(node, scope, self.serial)

    def serial(self, node: For, scope: Scope) -> cgen.For:
        """A plain loop."""
        inner = scope.inner()
        inner.enter(node)
        body = self.block(node.body, inner)
        if node.few:
            body = cgen.Block([cgen.Statement("TM_IN_TURN"), *body.contents])
        return self.header(node, scope, body)

    def header(self, node: For, scope: Scope, body: cgen.Generable) -> cgen.For:
        """The loop's header over a body."""
        text, name = self.scalars(scope).text, scope.names[node.variable]
        update = f"{name}++" if node.step == 1 else f"{name} += {node.step}"
        condition = text(Binary("<", Iter(node.variable, int64), node.upper, int64))
        begin = f"int64_t {name} = {text(node.lower)}"
        return cgen.For(cgen.Line(begin), cgen.Line(condition), cgen.Line(update), body)

    def _guard(self, node: If, scope: Scope) -> Lines:
        then = self.block(node.then, self.where(node.condition, scope))
        otherwise = None if node.otherwise is None else chained(self.block(node.otherwise, scope.inner()))
        return [cgen.If(cgen.Line(self.scalars(scope).text(node.condition)), then, otherwise)]

    def where(self, condition: Expr, scope: Scope) -> Scope:
        """The scope of a block guarded by a condition."""
        return scope.inner()

    def _mask(self, node: Mask, scope: Scope) -> Lines:
        """The statements inside a mask; their declarations belong to the block around it."""
        around, scope.mask = scope.mask, node
        lines = self.emit(node.body, scope)
        scope.mask = around
        return lines

    # -- variables

    def _value(self, e: Expr, scope: Scope, lanes: int) -> str:
        return self.scalars(scope).text(e) if lanes == 1 else Vectors(scope, self.types, lanes)(e).text

    def c_type(self, dtype: DType, lanes: int) -> str:
        """The C type of a value with `lanes` lanes."""
        return strong(dtype).c_name if lanes == 1 else self.types.name(dtype, lanes)

    def _let(self, node: Node, scope: Scope) -> Lines:
        assert isinstance(node, Let)
        lanes = scope.lanes.of(node.value)
        kind, name = self.c_type(node.value.dtype, lanes), scope.names[node.variable]
        near = gathers.prepared(node.value, scope, self.types) if lanes > 1 else None
        if near is None:
            lines: Lines = [cgen.Statement(f"const {kind} {name} = {self._value(node.value, scope, lanes)}")]
        else:
            value = cgen.Assign(name, self._value(near.value, near.scope, lanes))
            lines = [cgen.Statement(f"{kind} {name}"), cgen.Block([*near.lines, value])]
        scope.enter(node, lanes)
        body = self.emit(node.body, scope)
        return body if _only_counts(node) and not _names(body, name) else [*lines, *body]

    def _declare(self, node: Declare, scope: Scope) -> Lines:
        value = self._value(node.value, scope, node.lanes)
        scope.declare(node.variable, node.lanes)
        kind = ("const " if node.constant else "") + self.c_type(node.value.dtype, node.lanes)
        return [cgen.Statement(f"{kind} {scope.names[node.variable]} = {value}")]

    def _assign(self, node: Assign, scope: Scope) -> Lines:
        lanes = scope.lanes.variables.get(node.variable, 1)
        target = Iter(node.variable, node.value.dtype)
        return [self._updated(scope.names[node.variable], target, node.value, scope, lanes)]

    def _updated(self, place: str, target: Expr, value: Expr, scope: Scope, lanes: int) -> cgen.Generable:
        """``place = value``, or ``place += term`` where that is equivalent."""
        if _is_update(value, target):
            assert isinstance(value, Binary)
            whole = quads.fourfold(Vectors(scope, self.types, lanes), value) if lanes > 1 else None
            if whole is not None:
                return cgen.Assign(place, whole.text)
            return cgen.Statement(f"{place} {value.op}= {self._term(value.right, scope, lanes)}")
        return cgen.Assign(place, self._value(operand(value, target.dtype), scope, lanes))

    def _term(self, e: Expr, scope: Scope, lanes: int) -> str:
        return self.scalars(scope).text(e) if lanes == 1 else Vectors(scope, self.types, lanes).side(e).text

    # -- memory

    def _store(self, node: Store, scope: Scope) -> Lines:
        array = scope.arrays[node.buffer]
        rank = len(array.extents)
        target = Load(node.buffer, node.indices, array.dtype)
        place = self.scalars(scope).element
        spread = max(map(scope.lanes.of, node.indices), default=1)
        if spread == 1:
            lanes = array.lanes if len(node.indices) == rank else 1
            if node.update is not None and (node.atomic or node.buffer in scope.atomic):
                return self.atomic(place(node.buffer, node.indices), target, node.value, scope)
            return [self._updated(place(node.buffer, node.indices), target, node.value, scope, lanes)]
        near = gathers.prepared(node.value, scope, self.types)
        if near is not None:
            store = replace(node, value=near.value)
            last = stored(Vectors(near.scope, self.types, spread), store, self._past_caches(store))
            lines: Lines = [cgen.Block([*near.lines, last])]
        else:
            lines = [stored(Vectors(scope, self.types, spread), node, self._past_caches(node))]
        waits = streams.is_stream(node) and not scope.threaded and not scope.streaming
        return [*lines, *(streams.arrived() if waits else ())]

    def _past_caches(self, node: Store) -> WholeStore | None:
        return None if self.alignment is None else streams.past_caches(node, self.alignment)

    def atomic(self, place: str, target: Load, value: Expr, scope: Scope) -> Lines:
        """``target = value`` as an atomic update; the value reads the target."""
        return self.parts.atomic(place, target, value, scope)

    def _allocate(self, node: Node, scope: Scope) -> Lines:
        assert isinstance(node, Allocate)
        if node.memory is Memory.HOST:
            return self.temporaries.emit(node, scope)
        if node.memory not in self.printers:
            raise CompilerDefect(
                f"buffer {node.buffer} is in {node.memory.value} memory, which the function does not have"
            )
        return self.printers[node.memory](node, scope)


def _only_counts(node: Let) -> bool:
    """Whether a value is the count of masks alone: what is computed between variables is computed in all lanes, and
    its text has no count.
    """
    if Mask not in contents(node.body):
        return False
    users = (each for each in walk(node.body) if any(node.variable in iterators(e) for e in expressions(each)))
    return all(isinstance(user, Mask) for user in users)


def _names(lines: Lines, name: str) -> bool:
    """Whether the text of statements has a name."""
    word = re.compile(rf"\b{re.escape(name)}\b")
    return any(word.search(text) for line in lines for text in line.generate())


def _is_update(value: Expr, target: Expr) -> bool:
    """Whether ``target op= term`` is equivalent to ``target = value``: nothing is converted on the way."""
    if not isinstance(value, Binary) or value.op not in ("+", "-", "*", "/") or value.dtype.bits < 32:
        return False
    alike = value.right.dtype == value.dtype == target.dtype and (value.op != "/" or value.dtype.is_float)
    return alike and value.left.key() == target.key()


def _one_line(text: str) -> str:
    return " ".join(text.split()).replace("\\", "/")


def call_text(node: ArrayCall, scalars: Scalars) -> str:
    """The call, ``gemm(M, N, K, &a[n*M*K], K, b, N, c, N)``."""
    names = [name for name, _ in node.stage.array_parameters]
    at = {name: (array, section) for name, array, section in zip(names, node.arrays, node.sections, strict=True)}
    given, words = iter(node.scalars), list[str]()
    for name, of in node.stage.parameters:
        if isinstance(of, ArrayParameter):
            array, section = at[name]
            words.append(_pointer(scalars, array, section.first))
        elif isinstance(of, StrideParameter):
            array, section = at[of.array]
            distance = _distance(scalars.scope.arrays[array], section.steps[of.dimension])
            words.append(scalars.text(operand(distance, of.dtype)))
        else:
            words.append(scalars.text(operand(next(given), of)))
    return f"{node.stage.name}({', '.join(words)})"


def _pointer(scalars: Scalars, buffer: str, first: tuple[Expr, ...]) -> str:
    array = scalars.scope.arrays[buffer]
    if not array.nested and constant(array.flat(first)) == 0:
        return array.name
    return f"&{scalars.element(buffer, first)}"


def _distance(array: NamedArray, steps: tuple[int, ...]) -> Expr:
    """The distance of neighbours, which of an array without elements is 1, since functions ask for a positive one."""
    found = array.distance(steps)
    if array.strides is not None or constant(found) is not None:
        return found
    return Binary("max", found, number(1), int64)
