"""Temporary arrays in host memory: on the stack, allocated, or in pages of their own."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

import cgen

from tiramisu_py.algorithm.expressions import constant
from tiramisu_py.backends.c import first_touch_calls as pages
from tiramisu_py.backends.c.expressions.parentheses import call
from tiramisu_py.backends.c.expressions.scalars import Scalars
from tiramisu_py.backends.c.expressions.scope import NamedArray, OpenBlock, Scope
from tiramisu_py.ir import Allocate, BeginArray, Block, EndArray, For, MemoryBlock, Node
from tiramisu_py.ir.rewriting import block
from tiramisu_py.program.machine.pages import Pages
from tiramisu_py.program.storage import Memory

if TYPE_CHECKING:
    from tiramisu_py.backends.c.statements import Lines, Statements

#: Temporaries of constant size are on the stack, up to this many bytes in total.
MOST_STACK = 64 * 1024


#: More nested temporaries than this are checked for NULL together, since each check adds an exit of its own.
FEW = 8
#: The variable in C that holds them, and the array of their addresses.
ALL = "tm_all"
MEMORY = "tm_memory"
#: The same of blocks of memory, which may be around them.
TURNS = "tm_turns"


class Temporaries:
    """Emits the temporary arrays of one function, and the handling of failed allocations.

    `fallible` counts the checks emitted so far that leave the function, or mark a thread as failed.
    """

    def __init__(self, statements: Statements) -> None:
        self.statements = statements
        self.fallible = 0

    def emit(self, node: Allocate, scope: Scope) -> Lines:
        """The definition of an array, or of a run of them, and the statements that use them."""
        if scope.threaded or self.statements.parts.one_by_one:
            return [*self._one(node, scope), *self.statements.emit(node.body, scope)]
        run, body = gathered(node, scope.declared)
        several = self._allocated(run, scope)
        if len(several) <= FEW:
            lines = [line for array in run for line in self._one(array, scope)]
        elif ALL in scope.declared:
            return [cgen.Block(self.emit(node, scope.inner()))]
        else:
            scope.declared.add(ALL)
            lines = self._together(run, several, scope)
        return [*lines, *self.statements.emit(body, scope)]

    def _allocated(self, run: Sequence[Allocate], scope: Scope) -> frozenset[str]:
        """The temporaries of a run that are allocated: neither on the stack nor in pages of their own."""
        found, around = set(), scope.stack
        for node in run:
            if self._on_stack(node, scope):
                scope.stack += _bytes(node)
            elif node.pages is None:
                found.add(node.buffer)
        scope.stack = around
        return frozenset(found)

    def _together(self, run: Sequence[Allocate], several: Collection[str], scope: Scope) -> Lines:
        """The definitions of a run of temporaries; `several` of them are allocated, and checked for NULL together."""
        lines: Lines = [
            cgen.Statement(f"void *{MEMORY}[{len(several)}]"),
            cgen.Statement(f"TM_TEMPORARIES tm_temporaries {ALL} = {{.memory = {MEMORY}}}"),
        ]
        later: Lines = []
        count = 0
        for node in run:
            if node.buffer not in several:
                later += self._one(node, scope)
                continue
            name, kind, size = self._allocated_as(node, scope)
            memory = "tm_padded_temporary" if node.padded else "tm_temporary"
            lines.append(cgen.Statement(f'{kind} *const {name} = {memory}(&{ALL}, "{node.buffer}", {size})'))
            lines.append(cgen.Statement(f"{MEMORY}[{count}] = {name}"))
            count += 1
            later += self._zeros(node, name, size)
            self._declare(node, name, scope)
        self.fallible += 1
        lines.append(
            cgen.If(cgen.Line(f"{ALL}.missing != NULL"), cgen.Block([self.out_of_memory("%s", f"{ALL}.missing")]))
        )
        return [*lines, *later]

    def _one(self, node: Allocate, scope: Scope) -> Lines:
        """The definition of an array."""
        name, kind, size = self._allocated_as(node, scope)
        if self._on_stack(node, scope):
            scope.stack += _bytes(node)
            zeros = " = {0}" if node.ring or node.padded else ""
            lines: Lines = [cgen.Statement(f"{kind} {name}[{_elements(node)}] TM_LOCAL{zeros}")]
        else:
            shape = [Scalars(scope).text(extent) for extent in node.extents]
            lines = self.array(name, kind, shape, node.buffer, scope, node.pages, node.padded)
            lines = [*lines, *self._zeros(node, name, size)]
        self._declare(node, name, scope)
        return lines

    def _allocated_as(self, node: Allocate, scope: Scope) -> tuple[str, str, str]:
        """The name of an array in C, the type of its elements, and its size in bytes."""
        kind = self.statements.c_type(node.dtype, node.lanes)
        shape = [Scalars(scope).text(extent) for extent in node.extents]
        return scope.names[node.buffer], kind, call("TM_BYTES", kind, *(shape or ["1"])).text

    def _zeros(self, node: Allocate, name: str, size: str) -> Lines:
        return [cgen.Statement(f"memset({name}, 0, {size})")] if node.ring else []

    def _declare(self, node: Allocate, name: str, scope: Scope) -> None:
        scope.declare_array(node.buffer, NamedArray(name, node.dtype, node.extents, node.lanes))

    def _on_stack(self, node: Allocate, scope: Scope) -> bool:
        """Whether an array has a constant size, and fits in the rest of the stack budget."""
        if node.pages is not None or any(constant(extent) is None for extent in node.extents):
            return False
        return scope.stack + _bytes(node) <= MOST_STACK

    # -- blocks of memory that arrays have in turns

    def blocks(self, node: MemoryBlock, scope: Scope, alone: bool = False) -> Lines:
        """The memory of blocks, directly inside one another, and the statements that use them. Memory for one loop is
        `alone` in a C block, at whose end it is free.
        """
        if node.lasting:
            if isinstance(_used_by(node), For) and not self.statements.parts.one_by_one and not alone:
                return [cgen.Block(self.blocks(node, scope.inner(), alone=True))]
            name, size = scope.names[node.name], self.largest(node, scope)
            memory = call(_allocator(node.padded), size).text
            lines = self.allocated(name, "void", memory, self._shared(node), scope)
            scope.declared.add(node.name)
            scope.blocks[node.name] = OpenBlock(node, name)
            return [*lines, *self.statements.emit(node.body, scope)]
        if TURNS in scope.declared:
            return [cgen.Block(self.blocks(node, scope.inner()))]
        scope.declared.add(TURNS)
        run: list[MemoryBlock] = []
        body: Node = node
        while isinstance(body, MemoryBlock) and not body.lasting:
            run.append(body)
            body = body.body
        for place, each in enumerate(run):
            scope.blocks[each.name] = OpenBlock(each, f"{TURNS}.memory[{place}]", place)
        self.fallible += 1
        return [
            cgen.Statement(
                f"TM_TEMPORARIES tm_temporaries {TURNS} = "
                f"{{.count = {len(run)}, .memory = (void *[{len(run)}]){{NULL}}}}"
            ),
            *self.statements.emit(body, scope),
        ]

    def begin(self, node: BeginArray, scope: Scope) -> Lines:
        """The definition of an array in the memory of its block."""
        found, name = scope.blocks[node.block], scope.names[node.buffer]
        kind = self.statements.c_type(node.dtype, node.lanes)
        own = call("TM_BYTES", kind, *([Scalars(scope).text(extent) for extent in node.extents] or ["1"])).text
        if found.number is None:
            memory = f"tm_turned_memory({found.name})"
        elif node.buffer == found.block.arrays[0]:
            memory = (
                f'tm_first_memory(&{TURNS}, "{self._shared(found.block)}", {own}, {self.largest(found.block, scope)})'
            )
        else:
            memory = f'tm_next_memory(&{TURNS}, {found.number}, "{node.buffer}", {own})'
        kept = "" if found.number is None else f"{found.name} = "
        lines: Lines = [cgen.Statement(f"{kind} *const {name} = {kept}{memory}")]
        if found.number is not None:
            missing = self.out_of_memory("%s", f"{TURNS}.missing")
            lines.append(cgen.If(cgen.Line(f"{TURNS}.missing != NULL"), cgen.Block([missing])))
        if node.ring:
            lines.append(cgen.Statement(f"memset({name}, 0, {own})"))
        scope.declare_array(node.buffer, NamedArray(name, node.dtype, node.extents, node.lanes))
        return lines

    def end(self, node: EndArray, scope: Scope) -> Lines:
        """Frees the memory of a block, if its last array ends."""
        found = scope.blocks[node.block]
        return [cgen.Statement(f"tm_end_memory(&{TURNS}, {found.number})")] if node.frees else []

    def largest(self, node: MemoryBlock, scope: Scope) -> str:
        """The size of a block in bytes."""
        text = Scalars(scope).text
        sizes = [
            call(
                "TM_BYTES", self.statements.c_type(each.dtype, each.lanes), *([text(e) for e in each.extents] or ["1"])
            ).text
            for each in node.rooms
        ]
        return sizes[0] if len(sizes) == 1 else call("TM_MOST_BYTES", *sizes).text

    def _shared(self, node: MemoryBlock) -> str:
        """The arrays that a block is for, in words."""
        first, *others = node.arrays
        if not others:
            return first
        count = len(others) - 1
        more = f" and {count} other{'s' if count > 1 else ''}" if count else ""
        return f"{first}, whose memory {others[0]}{more} {'have' if count else 'has'} later"

    def array(
        self,
        name: str,
        kind: str,
        extents: Sequence[str],
        words: str,
        scope: Scope,
        own_pages: Pages | None = None,
        padded: bool = False,
    ) -> Lines:
        """Memory for an array, freed at the end of the C block; the function fails if there is none."""
        size = call("TM_BYTES", kind, *(extents or ["1"]))
        if own_pages is not None:
            return self.allocated(name, kind, pages.memory(own_pages, size.text), words, scope, pages.RELEASED)
        return self.allocated(name, kind, call(_allocator(padded), size).text, words, scope)

    def allocated(
        self, name: str, kind: str, memory: str, words: str, scope: Scope, released: str = "TM_TEMPORARY"
    ) -> Lines:
        """A pointer to the memory that the call `memory` returns, freed (`released`) at the end of the C block."""
        parts = self.statements.parts
        found = parts.allocated(name, kind, memory, words, released)
        if found is not None:
            return found
        self.fallible += 1
        lines = parts.lines(lambda part: part.thread_failed()) if scope.threaded else [self.out_of_memory(words)]
        return [
            cgen.Statement(f"{released} {kind} *const {name} = {memory}"),
            cgen.If(cgen.Line(f"{name} == NULL"), cgen.Block(lines)),
        ]

    def out_of_memory(self, words: str, *values: str) -> cgen.Generable:
        """The statement that reports a failed allocation of a temporary, and leaves the function."""
        message, name = f"there is no memory for the temporary array {words}", self.statements.function
        found = self.statements.parts.out_of_memory(message)
        if found is not None:
            return found
        given = ", ".join(["TM_MEMORY", f'"{self.statements.title}: {message}"', *values])
        return cgen.Statement(f"return {self.statements.parts.leaving(f'{name}_fail({given})')}")


def _allocator(padded: bool) -> str:
    """The function in C that allocates memory; bits left by others would be slow where lanes load them, if denormal."""
    return "tm_allocate_padded" if padded else "tm_allocate"


def _elements(node: Allocate) -> int:
    """The number of elements of an array with constant extents, at least one."""
    sizes = [extent for extent in map(constant, node.extents) if extent is not None]
    return max(math.prod(sizes), 1)


def _used_by(node: MemoryBlock) -> Node:
    """The statements that use the memory of blocks which are directly inside one another."""
    return _used_by(node.body) if isinstance(node.body, MemoryBlock) else node.body


def _bytes(node: Allocate) -> int:
    """The size of such an array in bytes."""
    return _elements(node) * node.lanes * node.dtype.bytes


def gathered(node: Allocate, taken: Collection[str] = ()) -> tuple[list[Allocate], Node]:
    """The nested temporaries that are allocated at one place in C, and the statements that then run.

    A temporary that is the first statement in the body of another shares its C block: the statements that follow it
    there run while it exists.
    """
    run, named, after = [node], {node.buffer, *taken}, list[tuple[Node, ...]]()
    body = node.body
    while True:
        first, rest = (body.body[0], body.body[1:]) if isinstance(body, Block) and body.body else (body, ())
        if not isinstance(first, Allocate) or first.memory is not Memory.HOST or first.buffer in named:
            break
        named.add(first.buffer)
        run.append(first)
        after.append(rest)
        body = first.body
    return run, block([body, *(each for rest in reversed(after) for each in rest)]) if any(after) else body
