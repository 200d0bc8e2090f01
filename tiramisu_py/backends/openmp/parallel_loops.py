"""Parallel loops in OpenMP: the pragma, the collapsed nest, and private copies of reduced buffers.

Private copies lie in one allocation, a slot for each thread, and are combined in the order of the threads: with a
static schedule the result depends on the number of threads alone. Without OpenMP the pragmas are ignored, and one
thread does everything.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import cgen

from tiramisu_py.algorithm.expressions import Iter
from tiramisu_py.algorithm.types import DType
from tiramisu_py.backends.c import streaming_stores as streams
from tiramisu_py.backends.c.expressions.scalars import Scalars
from tiramisu_py.backends.c.expressions.scope import NamedArray, OpenBlock, Scope
from tiramisu_py.backends.c.runtime_files import RuntimeFile, packaged
from tiramisu_py.backends.openmp import ranges_of_bundles
from tiramisu_py.ir import Block, Comment, For, LoopFunction, MemoryBlock, Node, Private
from tiramisu_py.ir.arithmetic.components import combined, neutral
from tiramisu_py.ir.rewriting import names_in, of_kind, variables
from tiramisu_py.program.loops import Combine, Parallel

if TYPE_CHECKING:
    from tiramisu_py.backends.c.statements import Lines, Statements

SHARES = "tm_shares.h"


class ParallelLoops:
    """Emits the parallel loops of one function; `statements` emits their bodies."""

    def __init__(self, statements: Statements) -> None:
        self.statements = statements

    def emit(self, node: Node, scope: Scope) -> Lines:
        """A parallel loop, with the statements that it needs before and after it."""
        assert isinstance(node, For)
        combined = ranges_of_bundles.reductions(_bundled(node)) if node.joined else node.reductions
        private = [p for p in combined if p.combine is Combine.PRIVATE and p.buffer in scope.arrays]
        inner = scope.inner()
        inner.threaded = True
        inner.atomic = scope.atomic | {p.buffer for p in combined if p.combine is Combine.ATOMIC}
        inner.declared.add("tm_failed")
        copies = [PrivateArrays(p, scope) for p in private]
        before = [line for own in copies for line in own.allocation(self.statements, scope)]
        for own in copies:
            inner.arrays |= own.arrays
        fallible = self.statements.temporaries.fallible
        memory = self._memory(node, inner)
        nest, clauses, ranges = self._nest(node, inner)
        fails = self.statements.temporaries.fallible > fallible
        lines: Lines = [cgen.Statement("int tm_failed = 0")] if fails else []
        pragma, team = clauses, _team(node.tag)
        waits = streams.arrived() if streams.uses_streams(node) else []
        ends = self._ends(node, scope)
        if not copies and not waits and not ends and not ranges and not memory:
            lines += [cgen.Pragma(f"omp parallel for{team}{pragma}"), nest]
        else:
            first = [line for own in copies for line in own.start()]
            last = [line for own in copies for line in own.combination()]
            pragma += "" if copies else " nowait"
            dealt: Lines = [*ends, nest] if ends else [*ranges, cgen.Pragma(f"omp for{pragma}"), nest]
            dealt += [cgen.Pragma("omp barrier")] if ends and copies else []
            region = cgen.Block([*memory, *first, *dealt, *last, *waits])
            lines += [cgen.Pragma(f"omp parallel{team}"), region]
        if fails:
            failure = self.statements.temporaries.out_of_memory("of a thread")
            lines.append(cgen.If(cgen.Line("tm_failed"), cgen.Block([failure])))
        return [cgen.Block([*before, *lines])] if before or fails else lines

    def _nest(self, node: For, scope: Scope) -> tuple[cgen.Generable, str, Lines]:
        """The loops that are dealt out together, the clauses of their pragma, and what is computed before it."""
        assert isinstance(node.tag, Parallel)
        chain = _dealt(node)
        scopes = [scope]
        for loop in chain:
            inside = scopes[-1].inner()
            inside.enter(loop)
            scopes.append(inside)
        body: cgen.Generable = self._body(chain[-1].body, scopes[-1])
        if node.joined and len(chain) > 1:
            walk = ranges_of_bundles.RangeOfBundle(chain, scopes)
            return walk.loop(body), walk.schedule, walk.declarations()
        for loop, outside in reversed(list(zip(chain, scopes, strict=False))):
            shared = loop is node and is_balanced(node, scope)
            body = _share(scope.names[loop.variable], body) if shared else self.statements.header(loop, outside, body)
        return body, _clauses(node.tag, len(chain)), []

    def _memory(self, node: For, scope: Scope) -> Lines:
        """The memory of each thread for arrays of its iterations, one after another; the blocks are open in `scope`."""
        lines: Lines = []
        for block in _of_threads(node):
            size = self.statements.temporaries.largest(block, scope)
            name = scope.names[block.name]
            failed = self.statements.parts.lines(lambda part: part.thread_failed())[:-1]
            lines.append(cgen.Statement(f"TM_TEMPORARY void *const {name} = tm_allocate({size})"))
            lines.append(cgen.If(cgen.Line(f"{name} == NULL"), cgen.Block(failed)))
            scope.blocks[block.name] = OpenBlock(block, name)
            self.statements.temporaries.fallible += 1
        return lines

    def _body(self, node: Node, scope: Scope) -> cgen.Block:
        """The body of the loops, which leaves out what a thread without memory cannot do."""
        missing: list[str] = []
        while isinstance(node, MemoryBlock) and node.name in scope.blocks:
            missing.append(f"{scope.blocks[node.name].name} == NULL")
            node = node.body
        body = self.statements.block(node, scope)
        if not missing:
            return body
        return cgen.Block([cgen.If(cgen.Line(" || ".join(missing)), cgen.Statement("continue")), *body.contents])

    def _ends(self, node: For, scope: Scope) -> Lines:
        """The first iteration of the thread's share of a balanced loop, and the end; nothing for other loops."""
        if not is_balanced(node, scope):
            return []
        assert isinstance(node.tag, Parallel) and node.tag.balance is not None
        starts, text = scope.arrays[node.tag.balance], Scalars(scope).text
        share = f"{starts.name}, {text(starts.extents[0])}, {text(node.lower)}, {text(node.upper)}, tm_thread()"
        return [
            cgen.Statement(f"const int64_t tm_first = TM_SHARE({share})"),
            cgen.Statement(f"const int64_t tm_end = TM_SHARE({share} + 1)"),
        ]


def is_balanced(node: For, scope: Scope) -> bool:
    """Whether the shares of a loop are cut by an array that the function has."""
    return isinstance(node.tag, Parallel) and node.step == 1 and node.tag.balance in scope.arrays


def shares(function: LoopFunction) -> tuple[RuntimeFile, ...]:
    """The header of a function with balanced loops."""
    tags = (node.tag for node in of_kind(function.body, For))
    return packaged("c", SHARES) if any(isinstance(tag, Parallel) and tag.balance for tag in tags) else ()


def _share(variable: str, body: cgen.Generable) -> cgen.For:
    """The loop over one thread's share."""
    header = (cgen.Line(f"int64_t {variable} = tm_first"), cgen.Line(f"{variable} < tm_end"))
    return cgen.For(*header, cgen.Line(f"{variable}++"), body)


def _collapsed(node: For, count: int) -> list[For]:
    """The loops of a perfect nest that can be collapsed: their bounds do not depend on each other."""
    chain = [node]
    while len(chain) < count:
        inner = _only_loop(chain[-1].body)
        bound = {loop.variable for loop in chain}
        if inner is None or inner.reductions or (variables(inner.lower) | variables(inner.upper)) & bound:
            break
        chain.append(inner)
    return chain


def _dealt(node: For) -> list[For]:
    """The loops whose iterations are dealt out together."""
    assert isinstance(node.tag, Parallel)
    return _bundled(node) if node.joined else _collapsed(node, node.tag.collapse)


def _of_threads(node: For) -> Iterator[MemoryBlock]:
    """The blocks of memory directly in the loops that are dealt out, of the same size in all iterations."""
    chain = _dealt(node)
    bound, body = {loop.variable for loop in chain}, chain[-1].body
    while isinstance(body, MemoryBlock) and body.lasting and body.device is None:
        if bound & {name for room in body.rooms for extent in room.extents for name in names_in(extent)}:
            return
        yield body
        body = body.body


def _bundled(node: For) -> list[For]:
    """The loops of a bundle that are still a perfect nest, each in steps of one and with bounds of its own."""
    assert isinstance(node.tag, Parallel)
    chain = [node]
    while len(chain) < node.tag.collapse:
        inner = _only_loop(chain[-1].body)
        bound = {loop.variable for loop in chain}
        if inner is None or inner.joined != node.joined or (variables(inner.lower) | variables(inner.upper)) & bound:
            break
        chain.append(inner)
    return chain if all(loop.step == 1 for loop in chain) else [node]


def _only_loop(node: Node) -> For | None:
    statements = [s for s in (node.body if isinstance(node, Block) else (node,)) if not isinstance(s, Comment)]
    return statements[0] if len(statements) == 1 and isinstance(statements[0], For) else None


def _clauses(tag: object, loops: int) -> str:
    assert isinstance(tag, Parallel)
    chunk = "" if tag.chunk is None else f", {tag.chunk}"
    return f" schedule({tag.schedule}{chunk})" + (f" collapse({loops})" if loops > 1 else "")


def _team(tag: object) -> str:
    """The clause that keeps threads from a loop that takes only some of them."""
    assert isinstance(tag, Parallel)
    most = tag.threads
    return "" if most is None else f" num_threads(tm_threads() < {most} ? tm_threads() : {most})"


class PrivateArrays:
    """The private copies of one buffer, or of those of the components of values that are combined together."""

    def __init__(self, private: Private, scope: Scope) -> None:
        self.private = private
        self.copies = [_Copies(scope.arrays[buffer]) for buffer in private.buffers]
        self.dtype: DType = self.copies[0].shared.dtype if private.dtype is None else private.dtype

    @property
    def arrays(self) -> dict[str, NamedArray]:
        """The array that a thread has in the place of each buffer."""
        return {name: own.array for name, own in zip(self.private.buffers, self.copies, strict=True)}

    def allocation(self, statements: Statements, scope: Scope) -> Lines:
        """Memory for one copy for each thread."""
        return [line for own in self.copies for line in own.allocation(statements, scope)]

    def start(self) -> Lines:
        """The first lines of each thread: its own copies, filled with the neutral element."""
        text, values = Scalars(Scope({})).text, neutral(self.private.operator, self.dtype)
        return [line for own, e in zip(self.copies, values, strict=True) for line in own.start(text(e))]

    def combination(self) -> Lines:
        """The last lines of the threads: combine the copies into the buffers, for each element in thread order."""
        totals = [Iter(f"{own.shared.name}[tm_e]", own.shared.dtype) for own in self.copies]
        parts = [Iter(f"{own.all}[tm_t*{own.slot} + tm_e]", own.shared.dtype) for own in self.copies]
        values = [Scalars(Scope({})).text(e) for e in combined(self.private.operator, totals, parts, self.dtype)]
        each = (cgen.Line("int tm_t = 0"), cgen.Line("tm_t < tm_team()"), cgen.Line("tm_t++"))
        threads = cgen.For(*each, cgen.Block(_assigned_at_once(totals, values)))
        return [cgen.Pragma("omp for schedule(static)"), self.copies[0].each(threads)]


def _assigned_at_once(targets: Sequence[Iter], values: Sequence[str]) -> Lines:
    """Assignments of values that are all computed before the first one."""
    if len(targets) == 1:
        return [cgen.Assign(targets[0].name, values[0])]
    new = [f"tm_new_{k}" for k in range(len(targets))]
    pairs = zip(targets, new, values, strict=True)
    lines: Lines = [cgen.Statement(f"const {target.dtype.c_name} {name} = {value}") for target, name, value in pairs]
    return [*lines, *(cgen.Assign(target.name, name) for target, name in zip(targets, new, strict=True))]


class _Copies:
    """The private copies of one buffer: a slot of whole cache lines for each thread."""

    def __init__(self, shared: NamedArray) -> None:
        self.shared = shared
        name = self.shared.name
        self.all, self.own = f"{name}_copies", f"{name}_own"
        self.slot, self.elements = f"{name}_slot", f"{name}_elements"
        self.array = replace(self.shared, name=self.own)
        self.kind = self.shared.dtype.c_name

    def allocation(self, statements: Statements, scope: Scope) -> Lines:
        """Memory for one copy for each thread."""
        sizes = ", ".join(Scalars(scope).text(extent) for extent in self.shared.extents) or "1"
        size = self.shared.dtype.bytes
        line = 64 // size
        lines: Lines = [
            cgen.LineComment(f"a private copy of {self.shared.name} for each thread"),
            cgen.Statement(f"const int64_t {self.elements} = TM_BYTES({self.kind}, {sizes})/{size}"),
            cgen.Statement(f"const int64_t {self.slot} = ({self.elements} + {line - 1})/{line}*{line}"),
        ]
        words = f"of private copies of {self.shared.name}"
        return lines + statements.temporaries.array(self.all, self.kind, ["tm_threads()", self.slot], words, scope)

    def start(self, nothing: str) -> Lines:
        """A thread's own copy, filled with the neutral element."""
        own = f"{self.kind} *const {self.own} = &{self.all}[tm_thread()*{self.slot}]"
        return [cgen.Statement(own), self.each(cgen.Assign(f"{self.own}[tm_e]", nothing))]

    def each(self, body: cgen.Generable) -> cgen.For:
        """A loop over the elements."""
        header = (cgen.Line("int64_t tm_e = 0"), cgen.Line(f"tm_e < {self.elements}"), cgen.Line("tm_e++"))
        return cgen.For(*header, cgen.Block([body]))
