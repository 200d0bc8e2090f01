"""The machine: the statements common to hosts and GPUs, one method for each node class, each a generator of steps.

A generator yields wherever another strand may be scheduled: after each store, and between reading the operands of a
store and writing its result, unless the store is an atomic update. It yields None, or a meeting of all threads of a
block. A statement yields the statements inside it (`Nested`), which `driven` runs on a stack of its own, so that
programs may nest to any depth.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import numpy as np

from tiramisu_py.algorithm.evaluate.stage_values import returned
from tiramisu_py.algorithm.types import int64
from tiramisu_py.algorithm.visitor import Visitor
from tiramisu_py.algorithm.words.stages import READS, WRITES, ArrayParameter, StrideParameter
from tiramisu_py.interpret import arithmetic, tiles
from tiramisu_py.interpret import lane_masks as masks
from tiramisu_py.interpret.arithmetic import Value
from tiramisu_py.interpret.array_steps import ArraySteps
from tiramisu_py.interpret.evaluator import Cell, Evaluator, Frame
from tiramisu_py.interpret.machine_faults import InterpretError
from tiramisu_py.interpret.memory import Array, MemoryTurns, allocated
from tiramisu_py.interpret.partial_results import combined, privatised
from tiramisu_py.interpret.strands import Nested, OwnSteps, Steps, deal, interleaved, static_shares
from tiramisu_py.ir import (
    Allocate,
    ArrayCall,
    ArraySection,
    Assign,
    BeginArray,
    Block,
    Comment,
    Declare,
    EndArray,
    For,
    If,
    Let,
    LoadTile,
    Mask,
    MemoryBlock,
    MultiplyTiles,
    Node,
    Prefetch,
    Store,
    StoreTile,
    Tiles,
)
from tiramisu_py.program.loops import Parallel, Vector
from tiramisu_py.program.storage import Memory

#: How often a statement in a vector loop runs lane by lane.
BY_LANES = 0.2
#: Statements nested deeper than this in a vector loop run lane by lane.
MOST_NESTED = 40


class Interpreter(Visitor[OwnSteps]):
    """The steps of statements; parallel loops that combine partial results are dealt out to `threads`, or at random.

    With `array_steps` loops are run in these where that can be; others, but for these parallel ones, in their order.
    """

    def __init__(
        self, choice: random.Random, threads: int | None = None, array_steps: ArraySteps | None = None
    ) -> None:
        self.choice = choice
        self.threads = threads
        self.array_steps = array_steps

    def run(self, node: Node, frame: Frame) -> Steps:
        """The steps of a statement."""
        return self.driven(self.method_for(node)(node, frame))

    def driven(self, own: OwnSteps) -> Steps:
        """The steps of statements, and of those inside in their places."""
        stack = [own]
        while stack:
            for step in stack[-1]:
                if isinstance(step, Nested):
                    stack.append(self.method_for(step.node)(step.node, step.frame))
                    break
                yield step
            else:
                stack.pop()

    def unknown(self, node: object) -> Exception:
        """The machine does not know a statement."""
        return InterpretError(f"the machine does not know the statement {type(node).__name__}")

    def visit_block(self, node: Block, frame: Frame) -> OwnSteps:
        inner = frame.branch() if any(map(_declares, node.body)) else frame
        for child in node.body:
            yield Nested(child, inner)

    def visit_comment(self, node: Comment, frame: Frame) -> Steps:
        return iter(())

    def visit_prefetch(self, node: Prefetch, frame: Frame) -> Steps:
        return iter(())

    def visit_if(self, node: If, frame: Frame) -> OwnSteps:
        frame.where = "the condition of a guard"
        if Evaluator(frame)(node.condition):
            yield Nested(node.then, frame)
        elif node.otherwise is not None:
            yield Nested(node.otherwise, frame)

    def visit_let(self, node: Let, frame: Frame) -> OwnSteps:
        frame.where = f"the definition of {node.variable}"
        inner = frame.branch()
        inner.variables[node.variable] = Evaluator(frame)(node.value)
        yield Nested(node.body, inner)

    def visit_declare(self, node: Declare, frame: Frame) -> Steps:
        frame.where = f"the declaration of {node.variable}"
        frame.variables[node.variable] = Cell(_of_lanes(Evaluator(frame)(node.value), node.lanes))
        return iter(())

    def visit_assign(self, node: Assign, frame: Frame) -> Steps:
        frame.where = node.statement
        variable = frame.variables.get(node.variable)
        if not isinstance(variable, Cell):
            raise InterpretError(f"{node.statement} assigns to {node.variable}, which is not declared there")
        value = _of_lanes(Evaluator(frame)(node.value), np.size(variable.value))
        yield None
        variable.value = value
        yield None

    def visit_store(self, node: Store, frame: Frame) -> Steps:
        frame.where = node.statement
        evaluate = Evaluator(frame)
        indices = tuple(evaluate(index) for index in node.indices)
        value = evaluate(node.value)
        if node.update is None or node.buffer not in frame.atomic:
            yield None
        if frame.active is None:
            frame.array(node.buffer).write(indices, value, node.statement)
        else:
            masks.write(frame.array(node.buffer), indices, value, frame.active, node.statement)
        yield None

    def visit_arraycall(self, node: ArrayCall, frame: Frame) -> Steps:
        return call_steps(node, frame)

    def visit_tiles(self, node: Tiles, frame: Frame) -> OwnSteps:
        yield Nested(node.body, tiles.with_tiles(frame))

    def visit_loadtile(self, node: LoadTile, frame: Frame) -> Steps:
        return tiles.loaded(node, frame)

    def visit_storetile(self, node: StoreTile, frame: Frame) -> Steps:
        return tiles.stored(node, frame)

    def visit_multiplytiles(self, node: MultiplyTiles, frame: Frame) -> Steps:
        return tiles.multiplied(node, frame)

    def visit_mask(self, node: Mask, frame: Frame) -> OwnSteps:
        frame.where = "the mask of a vector"
        around = frame.active
        count = min(max(Evaluator(frame).integer(node.count), 0), node.width)
        frame.active = count
        yield Nested(node.body, frame)
        frame.active = around

    def visit_allocate(self, node: Allocate, frame: Frame) -> OwnSteps:
        inner = self._allocated(node, frame)
        yield Nested(node.body, inner)
        inner.arrays[node.buffer].leave("its memory is free again")

    def _allocated(self, node: Allocate, frame: Frame) -> Frame:
        """A frame with the buffer."""
        frame.where = f"the allocation of {node.buffer}"
        shape = tuple(map(Evaluator(frame).integer, node.extents))
        inner = frame.branch()
        inner.arrays[node.buffer] = allocated(node, shape)
        return inner

    def visit_memoryblock(self, node: MemoryBlock, frame: Frame) -> OwnSteps:
        inner = frame.branch()
        inner.blocks = {**frame.blocks, node.name: MemoryTurns()}
        yield Nested(node.body, inner)

    def visit_beginarray(self, node: BeginArray, frame: Frame) -> Steps:
        frame.where = f"the begin of {node.buffer}"
        shape = tuple(map(Evaluator(frame).integer, node.extents))
        frame.arrays[node.buffer] = frame.blocks[node.block].begin(allocated(node, shape))
        return iter(())

    def visit_endarray(self, node: EndArray, frame: Frame) -> Steps:
        frame.where = f"the end of {node.buffer}"
        frame.arrays[node.buffer].leave("its memory is free again")
        return iter(())

    def visit_for(self, node: For, frame: Frame) -> OwnSteps:
        if self.array_steps is not None and not node.reductions and self.array_steps.ran(node, frame):
            return iter(())
        frame.where = f"the bounds of loop {node.variable}"
        evaluate = Evaluator(frame)
        iterations = range(evaluate.integer(node.lower), evaluate.integer(node.upper), node.step)
        if self.array_steps is not None and not node.reductions and getattr(node.tag, "combine", None) is None:
            return self._iterate(node, iterations, frame.branch())
        if isinstance(node.tag, Vector) and node.tag.combine is None and not node.reductions:
            return self._strips(node, iterations, frame)
        if isinstance(node.tag, Parallel | Vector):
            return self._concurrent(node, iterations, frame)
        return self._iterate(node, iterations, frame.branch())

    def _iterate(self, node: For, iterations: range | list[int], frame: Frame) -> OwnSteps:
        for iteration in iterations:
            frame.variables[node.variable] = arithmetic.literal(iteration, int64)
            yield Nested(node.body, frame)

    def _concurrent(self, node: For, iterations: range, frame: Frame) -> Steps:
        """A concurrent loop: threads (lanes) share the iterations; their partial results are combined in order."""
        shares, lockstep = deal(iterations, node.tag, self.choice)
        if self.threads is not None and node.reductions and isinstance(node.tag, Parallel):
            shares = static_shares(iterations, node.tag, self.threads)
        frames = [privatised(node.reductions, frame) for _ in shares]
        if self.array_steps is not None:
            for share, own in zip(shares, frames, strict=True):
                if not self.array_steps.ran(node, own, share):
                    yield from self.driven(self._iterate(node, share, own))
            shares = []
        threads = [self.driven(self._iterate(node, share, own)) for share, own in zip(shares, frames, strict=False)]
        yield from interleaved(threads, lockstep, self.choice)
        for own in frames:
            combined(node.reductions, own, frame)

    def _strips(self, node: For, iterations: range, frame: Frame) -> Steps:
        """A vector loop: one strip after another, in a way of each strip's own."""
        assert isinstance(node.tag, Vector)
        for at in range(0, len(iterations), node.tag.width):
            lanes = [frame.branch() for _ in iterations[at : at + node.tag.width]]
            for lane, iteration in zip(lanes, iterations[at : at + node.tag.width], strict=True):
                lane.variables[node.variable] = arithmetic.literal(iteration, int64)
            for step in self._on_lanes(node.body, lanes):
                if step is not None:
                    raise InterpretError("a barrier is inside a vector loop, whose lanes do not reach it together")
                yield None

    def _on_lanes(self, node: Node, lanes: Sequence[Frame], depth: int = 0) -> Steps:
        """A statement in all lanes: lane by lane, or each statement inside in all of them before the next one.

        So are vectors emitted, some statements in one way and some in the other. A store in all lanes loads in all of
        them first.
        """
        if len(lanes) == 1 or depth > MOST_NESTED or self.choice.random() < BY_LANES:
            for lane in lanes:
                yield from self.run(node, lane)
            return
        match node:
            case Block():
                inner = [lane.branch() for lane in lanes] if any(map(_declares, node.body)) else lanes
                for child in node.body:
                    yield from self._on_lanes(child, inner, depth + 1)
            case Let():
                inner = [lane.branch() for lane in lanes]
                for lane, own in zip(lanes, inner, strict=True):
                    lane.where = f"the definition of {node.variable}"
                    own.variables[node.variable] = Evaluator(lane)(node.value)
                yield from self._on_lanes(node.body, inner, depth + 1)
            case If(otherwise=None):
                active = [lane for lane in lanes if self._holds(node, lane)]
                yield from self._on_lanes(node.then, active, depth + 1) if active else ()
            case For() if not isinstance(node.tag, Parallel | Vector):
                yield from self._loop_on_lanes(node, lanes, depth)
            case Allocate() if node.memory is not Memory.SHARED:
                inner = [self._allocated(node, lane) for lane in lanes]
                yield from self._on_lanes(node.body, inner, depth + 1)
                for lane in inner:
                    lane.arrays[node.buffer].leave("its memory is free again")
            case Store():
                strands = [self.run(node, lane) for lane in lanes]
                for strand in (*strands, *self.choice.sample(strands, len(strands))):
                    next(strand, None)
                    yield None
            case _:
                for lane in lanes:
                    yield from self.run(node, lane)

    def _holds(self, node: If, frame: Frame) -> bool:
        frame.where = "the condition of a guard"
        return bool(Evaluator(frame)(node.condition))

    def _loop_on_lanes(self, node: For, lanes: Sequence[Frame], depth: int) -> Steps:
        """A loop inside a vector loop; lane by lane if its bounds differ between the lanes."""
        bounds = []
        for lane in lanes:
            lane.where = f"the bounds of loop {node.variable}"
            evaluate = Evaluator(lane)
            bounds.append((evaluate.integer(node.lower), evaluate.integer(node.upper)))
        if len(set(bounds)) > 1:
            for lane in lanes:
                yield from self.run(node, lane)
            return
        inner = [lane.branch() for lane in lanes]
        for iteration in range(*bounds[0], node.step):
            for lane in inner:
                lane.variables[node.variable] = arithmetic.literal(iteration, int64)
            yield from self._on_lanes(node.body, inner, depth + 1)


def _declares(node: Node) -> bool:
    """Whether a statement declares a variable or buffer for the statements that follow."""
    if isinstance(node, Mask):
        return any(map(_declares, node.body.body if isinstance(node.body, Block) else (node.body,)))
    return isinstance(node, Declare | BeginArray)


def _of_lanes(value: Value, lanes: int) -> Value:
    """A scalar broadcast to all lanes of a vector."""
    return np.full(lanes, value) if lanes > 1 and np.ndim(value) == 0 else value


# -- calls of C functions over whole arrays, by their equivalents in Python


def call_steps(node: ArrayCall, frame: Frame) -> Steps:
    """The steps of a call: it reads all that it reads, and then stores."""
    frame.where = node.statement
    evaluate = Evaluator(frame)
    names = [name for name, _ in node.stage.array_parameters]
    boxes = {
        name: _Box(frame.array(array), section, evaluate, node.statement)
        for name, array, section in zip(names, node.arrays, node.sections, strict=True)
    }
    scalars = iter([evaluate(e) for e in node.scalars])
    given: list[Any] = []
    for name, of in node.stage.parameters:
        if isinstance(of, ArrayParameter) and of.does != WRITES:
            given.append(boxes[name].read(tolerant=of.does == READS and not boxes[name].section.full))
        elif not isinstance(of, ArrayParameter | StrideParameter):
            given.append(next(scalars))
    yield None
    stored = [name for name, _ in node.stage.stored]
    found = returned(node.stage, given, boxes[stored[0]].shape)
    for name in stored:
        boxes[name].write(found if len(stored) == 1 else found[name])
        yield None


class _Box:
    """A part of an array, element by element."""

    def __init__(self, array: Array, section: ArraySection, evaluate: Evaluator, where: str) -> None:
        self.array, self.section, self.where = array, section, where
        self.shape = tuple(map(evaluate.integer, section.extents))
        self.first = tuple(map(evaluate.integer, section.first))

    def _element(self, at: tuple[int, ...]) -> tuple[int, ...]:
        moved = zip(at, self.section.steps, strict=True)
        by = [tuple(k * step for step in steps) for k, steps in moved]
        return tuple(start + sum(each) for start, *each in zip(self.first, *by, strict=True))

    def read(self, tolerant: bool) -> np.ndarray[Any, Any]:
        """Its elements; those without a value are poison, if it is `tolerant` of them."""
        dtype = self.array.data.dtype
        found = np.zeros(self.shape, dtype)
        if tolerant and found.size:
            found[...] = np.nan if dtype.kind == "f" else 85
        for at in np.ndindex(*self.shape):
            element = self._element(at)
            if not tolerant or self.array.has(element):
                found[at] = self.array.read(element, self.where)
        return found

    def write(self, values: np.ndarray[Any, Any]) -> None:
        """Store all its elements."""
        for at in np.ndindex(*self.shape):
            self.array.write(self._element(at), values[at], self.where)
