"""One thread of a block: the statements that occur only in kernels."""

from __future__ import annotations

import random
from dataclasses import field
from typing import Any

import numpy as np

from tiramisu_py.interpret.devices.race_detector import AccessHistory, Clock, Watched, watched
from tiramisu_py.interpret.evaluator import Evaluator, Frame
from tiramisu_py.interpret.machine import Interpreter
from tiramisu_py.interpret.machine_faults import InterpretError
from tiramisu_py.interpret.memory import Array, allocated
from tiramisu_py.interpret.strands import Meeting, Nested, OwnSteps, Steps
from tiramisu_py.ir import Allocate, Barrier, Deferred, LastBlock, Mma, Node, Store, TreeReduce
from tiramisu_py.program.storage import Memory
from tiramisu_py.records import dataclass


@dataclass
class Local:
    """The state shared by the threads of a block: the clock, and shared memory, poisoned when the block starts."""

    clock: Clock
    shared: dict[Allocate, tuple[Array, AccessHistory]] = field(default_factory=dict)


class Thread(Interpreter):
    """A thread's part of a kernel."""

    def __init__(self, choice: random.Random, number: int, local: Local) -> None:
        super().__init__(choice)
        self.number = number
        self.local = local
        self.pending: list[tuple[int, Store, Frame, tuple[Any, ...]]] = []
        self.barriers = 0

    def frame(self, launch: Frame, traces: dict[str, AccessHistory], constant: frozenset[str]) -> Frame:
        """The frame of the thread in a launch, whose arrays record each access."""
        own = launch.branch()
        for name, array in launch.arrays.items():
            own.arrays[name] = watched(array, traces[name], self.local.clock, self.number, name in constant)
        return own

    def whole(self, body: Node, frame: Frame) -> Steps:
        """The steps of the kernel, and at the end the outstanding deferred stores."""
        yield from self.run(body, frame)
        self._settle()

    def seen(self, frame: Frame, buffer: str) -> Watched:
        """An array that threads share."""
        array = frame.array(buffer)
        if not isinstance(array, Watched):
            raise InterpretError(f"{frame.where} shares {buffer}, which is private to each thread")
        return array

    def visit_allocate(self, node: Allocate, frame: Frame) -> OwnSteps:
        if node.memory is not Memory.SHARED:
            return super().visit_allocate(node, frame)
        if node not in self.local.shared:
            shape = tuple(map(Evaluator(frame).integer, node.extents))
            self.local.shared[node] = (allocated(node, shape), AccessHistory())
        inner = frame.branch()
        inner.arrays[node.buffer] = watched(*self.local.shared[node], self.local.clock, self.number)
        return iter((Nested(node.body, inner),))

    def visit_store(self, node: Store, frame: Frame) -> Steps:
        if node.update is None or not (node.atomic or node.buffer in frame.atomic):
            yield from super().visit_store(node, frame)
            return
        with self.seen(frame, node.buffer).updated():
            for _ in super().visit_store(node, frame):
                pass
        yield None

    def visit_barrier(self, node: Barrier, frame: Frame) -> Steps:
        self.barriers += 1
        self._settle(self.barriers)
        yield Meeting(node, frame)

    def visit_lastblock(self, node: LastBlock, frame: Frame) -> OwnSteps:
        self._settle()
        meeting = Meeting(node, frame)
        yield meeting
        if meeting.value:
            yield Nested(node.body, frame)

    def visit_deferred(self, node: Deferred, frame: Frame) -> Steps:
        store, frame = node.store, frame.branch()
        frame.where = store.statement
        evaluate = Evaluator(frame)
        indices = tuple(evaluate(index) for index in store.indices)
        evaluate(store.value)
        self.seen(frame, store.buffer).defer(indices, store.statement, node.barriers)
        self.pending.append((self.barriers + node.barriers, store, frame, indices))
        yield None
        if self.choice.random() < 0.5:
            self._settle()

    def _settle(self, barrier: int | None = None) -> None:
        """Execute the deferred stores, in any order: all, or those that are complete at a barrier, by its number."""
        self.choice.shuffle(self.pending)
        left = []
        for each in self.pending:
            last, store, frame, indices = each
            if barrier is not None and last > barrier:
                left.append(each)
                continue
            self.seen(frame, store.buffer).settle(indices, Evaluator(frame)(store.value), store.statement)
        self.pending = left

    def visit_mma(self, node: Mma, frame: Frame) -> Steps:
        frame.where = node.statement
        evaluate = Evaluator(frame)
        rank = len(node.places[0])
        indices = tuple(map(evaluate.integer, node.indices))
        own = [frame.array(node.buffer).read(indices[k : k + rank], node.statement) for k in range(0, 4 * rank, rank)]
        factors = [[np.atleast_1d(evaluate(e)) for e in each] for each in (node.left, node.right)]
        yield Meeting(node, frame, (own, *factors), indices)

    def visit_treereduce(self, node: TreeReduce, frame: Frame) -> Steps:
        frame.where = node.statement
        evaluate = Evaluator(frame)
        indices = tuple(map(evaluate.integer, node.indices))
        yield Meeting(node, frame, tuple(map(evaluate, node.values)), indices)
